package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/simulate"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitForbidden   = 4
	exitConflict    = 5
	ExitUnreachable = 6
	ExitTimeout     = 7
	exitJobFailed   = 10
	exitJobStopped  = 11
	ExitInterrupted = 130
)

// UsageError is a mistake in how the command was called.
type UsageError struct {
	Command *cobra.Command
	Err     error
}

// Error implements error.
func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap is for errors.As.
func (u UsageError) Unwrap() error { return u.Err }

// Outcome ends the program with a job's outcome, without a message.
type Outcome int

// Error implements error.
func (o Outcome) Error() string { return fmt.Sprintf("exit code %d", int(o)) }

// Hint is an error with the command that helps next.
type Hint struct {
	Err  error
	Next string
}

// Error implements error.
func (h Hint) Error() string { return h.Err.Error() }

// Unwrap is for errors.As.
func (h Hint) Unwrap() error { return h.Err }

// Usage makes a usage error.
func Usage(c *cobra.Command, format string, args ...any) error {
	return UsageError{c, fmt.Errorf(format, args...)}
}

// unknownVerb lists the existing verbs or nouns, the likely one first.
func unknownVerb(c *cobra.Command, word string) error {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	if text := foreignWithout[strings.ToLower(word)]; text != "" && (!c.HasParent() || c.Name() == "job") {
		return Usage(c, "unknown command %q; %s", word, text)
	}
	if at := likelyCommands(c, word); len(at) > 0 {
		return Usage(c, "unknown command %q; did you mean %s?", word, strings.Join(at, " or "))
	}
	return Usage(c, "unknown command %q%s", word, document.DidYouMean(word, known))
}

// ForeignWords are words of slurm and kubectl, with the commands that do the same.
var ForeignWords = map[string][]string{
	"sbatch": {"job submit"}, "srun": {"job run"}, "salloc": {"job run"}, "squeue": {"job list"},
	"sacct":   {"job list --state all"},
	"scancel": {"job stop"}, "sinfo": {"node list"}, "scontrol": {"job update", "node drain"},
	"sshare": {"vc list"}, "sprio": {"job explain"},
	"sstat": {"job top"}, "sacctmgr": {"user", "group"}, "sattach": {"job logs --follow"}, "qsub": {"job submit"},
	"qstat": {"job list"}, "qdel": {"job stop"},
	"describe": {"job explain", "job get"}, "apply": {"job submit", "config apply"}, "delete": {"job stop"},
	"create": {"job submit"}, "get": {"job list", "node list"},
	"top": {"job top"}, "ps": {"job list"}, "kill": {"job stop"}, "cancel": {"job stop"},
	"scale": {"config apply"}, "rollout": {"config rollback"},
	"attach": {"job logs --follow"}, "status": {"job list", "vc list"}, "queue": {"job list"}, "list": {"job list",
		"vc list", "node list"},
	"plan": {"config plan"}, "validate": {"config validate"}, "show": {"job get", "config show"},
	"auth": {"whoami"}, "nodes": {"node list"},
	"jobs": {"job list"}, "vcs": {"vc list"}, "gpus": {"vc list", "node list"}, "suspend": {"job hold",
		"job requeue"}, "resume": {"job release"}, "resubmit": {"job clone", "job requeue"},
	"restart": {"job requeue", "job clone"}, "retry": {"job clone", "job requeue"}, "quota": {"vc list"},
}

// JobWords are words that mean another command below "job" than at the top.
var JobWords = map[string][]string{"status": {"job get"}, "info": {"job get"}, "rm": {"job stop"}}

// foreignWithout are words for missing features, with what to do instead.
var foreignWithout = map[string]string{
	"cp": "comb copies no files: tasks read and write storages (--storage), and --upload gives a job a folder",
}

// likelyCommands returns the commands that a word at the top, or below "job", most likely means: a
// word of another scheduler, else the verb of one noun.
func likelyCommands(c *cobra.Command, word string) (at []string) {
	word = strings.ToLower(word)
	known := ForeignWords[word]
	if c.HasParent() && JobWords[word] != nil {
		known = JobWords[word]
	}
	if c.HasParent() && (c.Name() != "job" || known == nil || !strings.HasPrefix(known[0], "job ")) {
		return nil
	}
	for _, words := range known {
		at = append(at, "comb "+words)
	}
	if len(at) > 0 || c.HasParent() {
		return at
	}
	for _, noun := range c.Commands() {
		for _, verb := range noun.Commands() {
			if verb.Name() == word && verb.IsAvailableCommand() {
				at = append(at, verb.CommandPath())
			}
		}
	}
	return at
}

// HelpOfKnown makes comb help refuse unknown commands.
func HelpOfKnown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	show := help.Run
	help.Run = nil
	help.RunE = func(c *cobra.Command, words []string) error {
		if found, left, err := root.Find(words); err == nil && len(left) > 0 {
			return unknownVerb(found, left[0])
		}
		show(c, words)
		return nil
	}
}

// Args turns errors of a command's check of its arguments into usage errors, in the words of
// the command's usage line. No argument may be empty: in scripts that is an unset variable.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		_, want, _ := strings.Cut(strings.ReplaceAll(c.Use, "[flags] ", ""), " ")
		if err := check(c, list); err != nil {
			switch {
			case want == "":
				return Usage(c, "%s takes no arguments, but there is %q", c.CommandPath(), list[0])
			case len(list) == 0:
				return Usage(c, "%s needs %s", c.CommandPath(), want)
			case len(list) == 1:
				return Usage(c, "%s wants %s, but there is the argument %q", c.CommandPath(), want, list[0])
			}
			return Usage(c, "%s wants %s, but there are %d arguments", c.CommandPath(), want, len(list))
		}
		if slices.Contains(list, "") && !strings.HasPrefix(want, "--") {
			return Usage(c, "an argument of %s is empty; it wants %s", c.CommandPath(), want)
		}
		return nil
	}
}

// FlagError says which flag is wrong.
func FlagError(c *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var gone *pflag.NotExistError
	switch {
	case errors.As(err, &gone) && c.HasSubCommands() && c.Flags().NArg() > 0: // of an unknown command
		return unknownVerb(c, c.Flags().Arg(0))
	case errors.As(err, &gone):
		return Usage(c, "%w%s", err, FlagMeant(c, gone.GetSpecifiedName(), gone.GetSpecifiedShortnames()))
	case !errors.As(err, &value):
		return UsageError{c, err}
	}
	f := value.GetFlag()
	want, own := f.Value.Type(), errors.Unwrap(value)
	switch {
	case document.Unitless(value.GetValue()) != nil && (want == "duration" || want == "time"):
		return Usage(c, "--%s %s: %w", f.Name, value.GetValue(), document.Unitless(value.GetValue()))
	case errors.Is(err, ErrEmptyFlag):
		return Usage(c, "--%s is empty: is its variable set? give it a value, or leave it out", f.Name)
	case strings.HasPrefix(want, "int"), strings.HasPrefix(want, "uint"):
		want = "a whole number"
		if errors.Is(err, strconv.ErrRange) {
			want = "a smaller number"
		}
	case want == "duration":
		want = "a time such as 30s, 90m or 1d12h"
	case want == "time":
		want = "a time such as 30d or 12h, or forever"
	case want == "amount" && errors.As(err, new(outside)):
		return Usage(c, "--%s %q: %w", f.Name, value.GetValue(), own)
	case want == "amount":
		if f.Name == "disk" && own != nil {
			own = errors.New(strings.Replace(own.Error(), "amount of memory", "amount of disk", 1))
		}
		return Usage(c, "--%s %s: %w", f.Name, document.Quote(value.GetValue()), own)
	case want == rest.GPUs{}.Type() || want == LimitsFlag{}.Type():
		return Usage(c, "--%s %q: %v", f.Name, value.GetValue(), own)
	case want == "bool":
		want = "true or false"
	}
	return Usage(c, "--%s %q: want %s", f.Name, value.GetValue(), want)
}

// Exit prints an error on stderr (what, why, what next) and returns the exit code.
func (a *App) Exit(err error) int {
	var out Outcome
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &out):
		return int(out)
	case a.WasInterrupted() && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return ExitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		text := strings.TrimSuffix(err.Error(), ": "+context.DeadlineExceeded.Error())
		if text == context.DeadlineExceeded.Error() {
			text = "no answer"
		}
		after := ""
		if a.Timeout > 0 {
			after = " after " + narrate.Short(a.Timeout)
		}
		fmt.Fprintf(a.Errs, "comb: timed out%s: %s\n", after, Clean(text, false))
		if next := lookAgain(err); next != "" {
			fmt.Fprintf(a.Errs, "  %s\n", next)
		}
		return ExitTimeout
	}
	fmt.Fprintf(a.Errs, "comb: %s\n", Clean(err.Error(), true))
	if next := nextStep(a, err); next != "" {
		fmt.Fprintf(a.Errs, "  %s\n", next)
	}
	return codeOf(err)
}

// WasInterrupted reports whether the user ended the command.
func (a *App) WasInterrupted() bool {
	select {
	case <-a.Interrupted:
		return true
	default:
		return false
	}
}

// lookAgain says how to find out whether a request without an answer had its effect; "" where
// it surely had none.
func lookAgain(err error) string {
	var u *rest.Unsure
	if !errors.As(err, &u) {
		return ""
	}
	return "whether it was done is not known: look with " + u.Look
}

// nextStep says what to try after an error.
func nextStep(a *App, err error) string {
	var h Hint
	if errors.As(err, &h) {
		return h.Next
	}
	var u UsageError
	if errors.As(err, &u) {
		return "see: " + u.Command.CommandPath() + " --help"
	}
	if next := lookAgain(err); next != "" {
		return next
	}
	var lost *rest.Unreachable
	if errors.As(err, &lost) && !errors.As(lost.Err, new(*rest.Untrusted)) {
		if t, err := a.Target(); err == nil && t.Known != nil { // this user started it here
			return "is the server running there? start one with: comb serve"
		}
		return "is the server running there? ask who runs it; the servers that you are signed in to: comb context list"
	}
	switch rest.CodeOf(err) {
	case rest.CodeUnauthorized:
		return "sign in with comb login; or name a token's file with --token-file or COMB_TOKEN_FILE, such as admin-token in the server's data directory"
	case rest.CodePrecondition:
		return "look at it again with: comb config show"
	}
	return ""
}

// codeOf maps an error to an exit code.
func codeOf(err error) int {
	var u UsageError
	var lost *rest.Unreachable
	var late *simulate.NoVC
	switch {
	case errors.As(err, &u), errors.As(err, &late):
		return exitUsage
	case errors.As(err, &lost):
		return ExitUnreachable
	}
	switch rest.CodeOf(err) {
	case rest.CodeNotFound, rest.CodeGone:
		return exitNotFound
	case rest.CodeUnauthorized, rest.CodeForbidden:
		return exitForbidden
	case rest.CodeConflict, rest.CodePrecondition, rest.CodePreconditionReq:
		return exitConflict
	case rest.CodeUnavailable:
		return ExitUnreachable
	}
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return ExitFailure
}

// JobOutcome is the exit code of a job that has ended.
func JobOutcome(p model.Phase) error {
	switch p {
	case model.Succeeded:
		return nil
	case model.Stopped:
		return Outcome(exitJobStopped)
	}
	return Outcome(exitJobFailed)
}

// Clean removes from a text of strangers what could control a terminal. Line breaks stay if
// lines is true.
func Clean(text string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines, r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u202e', r == '\u2066', r == '\u2067', r == '\u2068':
			return ' '
		}
		return r
	}, text)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 &&
		f.Name() != os.DevNull && ttyIoctl(f)
}
