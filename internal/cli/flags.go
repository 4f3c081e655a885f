package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
)

// ErrEmptyFlag is the error of an empty value that is not allowed.
var ErrEmptyFlag = errors.New("it is empty")

// nonEmptyValue is the value of a flag that selects things. An empty value would select all of
// them, and in a script it is an unset variable.
type nonEmptyValue struct{ pflag.Value }

// NeverEmpty makes flags of a set refuse an empty value, and an empty element of a list.
func NeverEmpty(set *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := set.Lookup(name)
		f.Value = nonEmptyValue{f.Value}
		if f.DefValue == "[]" {
			f.DefValue = "" // the help prints the default of a value of an unknown type
		}
	}
}

// Set implements pflag.Value.
func (f nonEmptyValue) Set(text string) error {
	if text == "" || f.Type() == "stringSlice" && slices.Contains(strings.Split(text, ","), "") {
		return ErrEmptyFlag
	}
	return f.Value.Set(text)
}

// foreignFlags are flags of slurm, docker and kubectl, with the flags that do the same. Of several
// the first counts that the command has.
var foreignFlags = map[string][]string{
	"mem": {"memory"}, "mem-per-node": {"memory"}, "time": {"time-limit"}, "t": {"time-limit", "state"},
	"nice": {"priority"}, "qos": {"priority"}, "shm-size": {"shm"}, "reservation": {"pin"},
	"partition": {"vc"}, "p": {"vc", "port"}, "queue": {"vc"}, "account": {"vc"}, "job-name": {"name"}, "J": {"name"},
	"nodes": {"tasks"}, "N": {"tasks"}, "ntasks": {"tasks"}, "replicas": {"tasks"},
	"e": {"env"}, "v": {"storage"}, "volume": {"storage"}, "mount": {"storage"}, "publish": {"port"},
	"chdir": {"workdir"}, "w": {"workdir", "watch"}, "gres": {"gpus"}, "G": {"gpus"}, "cpus-per-task": {"cpus"},
	"c": {"cpus"}, "mine": {"user"}, "me": {"user"}, "u": {"user"}, "states": {"state"},
}

// missingFlags are flags for features that a command lacks, with what to do instead. An entry
// counts where the command has all flags in has.
var missingFlags = map[string]struct {
	has  []string
	text string
}{
	"rm":         {[]string{"image"}, "leave it out: a container goes with its task"},
	"it":         {[]string{"image"}, "for a shell in a task: comb job exec -it JOB -- sh"},
	"i":          {[]string{"image"}, "a task gets no input; for a shell in one: comb job exec -it JOB -- sh"},
	"ti":         {[]string{"image"}, "for a shell in a task: comb job exec -it JOB -- sh"},
	"entrypoint": {[]string{"image"}, "the program behind -- runs in the place of the image's own"},
	"array":      {[]string{"vc", "dry-run"}, "there are no arrays: submit a job for each of its indexes"},
	"A":          {[]string{"state", "user"}, "leave it out: the jobs of all users are listed"},
	"dependency": {[]string{"vc", "dry-run"}, "no job waits for another: submit it behind comb job wait JOB"},
}

// FlagMeant says which flag of a command was meant by an unknown one: by its name, or by
// letters that contain it.
func FlagMeant(c *cobra.Command, name, letters string) string {
	for _, word := range []string{letters, name} {
		w, known := missingFlags[word]
		if known && !slices.ContainsFunc(w.has, func(f string) bool { return c.Flags().Lookup(f) == nil }) {
			return "; " + w.text
		}
		for _, flag := range foreignFlags[word] {
			if f := c.Flags().Lookup(flag); f != nil && !f.Hidden {
				return "; here it is --" + flag
			}
		}
	}
	return NearWord(c, name)
}

// NearWord says which flag of a command was meant, if one is similar: "; did you mean
// --gpus?".
func NearWord(c *cobra.Command, word string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	if text := document.DidYouMean("--"+word, names); len(word) > 1 && strings.Contains(text, "did you mean") {
		return text
	}
	return ""
}

// NamedFlag replaces fields of a request in a server's refusal by the flags from which they
// come.
func NamedFlag(c *cobra.Command, err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.Errors {
		e := &p.Errors[i]
		_, field, ok := strings.Cut(e.Pointer, ".")
		name := strings.ReplaceAll(field, "_", "-")
		if f := c.Flags().Lookup(name); ok && f != nil && f.Changed &&
			slices.Contains([]string{"body." + field, "query." + field}, e.Pointer) {
			e.Pointer = "--" + name
			if len(p.Errors) == 1 && e.Line == 0 && strings.HasPrefix(e.Detail, "is ") {
				p.Detail, p.Errors = e.Pointer+" "+e.Detail, nil
			}
		}
	}
	return err
}
