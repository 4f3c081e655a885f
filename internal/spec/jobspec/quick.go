package jobspec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
)

// QuickJob is a job of one task role, described by a command line instead of a file. A zero
// field is left out of the file.
type QuickJob struct {
	Name     string
	VC       string
	Priority string // a class (crit, prod, test, oppo) or an integer
	SKU      string
	Pinned   string // the pinned cell that it runs in; not with SKU
	Tasks    int32
	GPUs     int64
	CPUs     string // a number with at most three decimals
	MemoryMB int64
	DiskMB   int64 // of the container's writable layer
	ShmMB    int64 // of its /dev/shm
	// Limits are per process, by name, in the form of extras.comb.
	Limits  map[string]string
	Command []string // program and arguments; the shell gets each as one word
	Env     []model.EnvVar
	// Ports are how many each task gets, by label. Retries is how often the job is tried
	// again after it failed. Checkpoint says that the job saves its work.
	Ports      []model.Port
	Retries    int32
	Checkpoint bool
	WorkDir    string
	Image      string // of its container; without a command the container runs what the image says
	Pull       string // missing or always
	Storages   []string
	Upload     string // the digest of its code
	// TimeLimit and Grace are durations in the form of extras.comb.
	TimeLimit, Grace string
	// Caller is the environment of the submitting user, NAME=VALUE with a zero byte after
	// each. It becomes a secret of the job; nil is none.
	Caller []byte
}

// quickRole is the name of a quick job's only role.
const quickRole = "main"

// Source writes the job as a file of the protocol. It checks nothing: Parse does, and names
// the keys in its problems.
func (q QuickJob) Source() string {
	var b strings.Builder
	line := func(depth int, format string, args ...any) {
		b.WriteString(strings.Repeat("  ", depth))
		fmt.Fprintf(&b, format+"\n", args...)
	}
	if len(q.Caller) > 0 {
		line(0, "# It also has the environment of the shell that submitted it, which is kept apart as a secret.")
	}
	line(0, "protocolVersion: 2")
	line(0, "name: %s", quoteYAML(q.Name))
	line(0, "type: job")
	if q.Retries != 0 {
		line(0, "jobRetryCount: %d", q.Retries)
	}
	if q.VC != "" {
		line(0, "defaults:")
		line(1, "virtualCluster: %s", quoteYAML(q.VC))
	}
	if q.Image != "" {
		line(0, "prerequisites:")
		line(1, "- type: dockerimage")
		line(1, "  name: image")
		line(1, "  uri: %s", quoteYAML(q.Image))
	}
	line(0, "taskRoles:")
	line(1, quickRole+":")
	if q.Image != "" {
		line(2, "dockerImage: image")
	}
	if q.Tasks != 0 {
		line(2, "instances: %d", q.Tasks)
	}
	line(2, "resourcePerInstance:")
	line(3, "gpu: %d", q.GPUs)
	line(3, "cpu: %s", plainNumber(q.CPUs))
	line(3, "memoryMB: %d", q.MemoryMB)
	if len(q.Ports) > 0 {
		line(3, "ports:")
	}
	for _, p := range q.Ports {
		line(4, "%s: %d", quoteYAML(p.Label), p.Count)
	}
	if q.ShmMB != 0 {
		line(2, "extraContainerOptions:")
		line(3, "shmMB: %d", q.ShmMB)
	}
	if q.Image == "" || len(q.Command) > 0 {
		line(2, "commands:")
		line(3, "- %s", quoteYAML(ShellCommand(q.Command)))
	}
	q.extras(line)
	return b.String()
}

// extras writes the keys that say how the job is scheduled and started.
func (q QuickJob) extras(line func(depth int, format string, args ...any)) {
	_, notNumber := strconv.ParseInt(q.Priority, 10, 64)
	class := q.Priority != "" && notNumber != nil
	line(0, "extras:")
	line(1, "submitFrom: comb")
	if class || q.SKU != "" || q.Pinned != "" {
		line(1, "hivedScheduler:")
	}
	if class {
		line(2, "jobPriorityClass: %s", quoteYAML(q.Priority))
	}
	if q.SKU != "" || q.Pinned != "" {
		line(2, "taskRoles:")
		line(3, quickRole+":")
	}
	if q.SKU != "" {
		line(4, "skuType: %s", quoteYAML(q.SKU))
	}
	if q.Pinned != "" {
		line(4, "pinnedCellId: %s", quoteYAML(q.Pinned))
	}
	line(1, "comb:")
	if q.Priority != "" && !class {
		line(2, "priority: %s", q.Priority)
	}
	for _, kv := range [][2]string{{"timeLimit", q.TimeLimit}, {"grace", q.Grace}, {"pull", q.Pull}} {
		if kv[1] != "" {
			line(2, "%s: %s", kv[0], quoteYAML(kv[1]))
		}
	}
	if q.Checkpoint {
		line(2, "checkpoint: true")
	}
	if len(q.Storages) > 0 {
		line(2, "storages:")
	}
	for _, name := range q.Storages {
		line(3, "- %s", quoteYAML(name))
	}
	if q.Upload != "" {
		line(2, "upload: %s", quoteYAML(q.Upload))
	}
	if q.WorkDir == "" && len(q.Env) == 0 && q.DiskMB == 0 && len(q.Limits) == 0 {
		return
	}
	line(2, "taskRoles:")
	line(3, quickRole+":")
	if q.WorkDir != "" {
		line(4, "workDir: %s", quoteYAML(q.WorkDir))
	}
	if q.DiskMB != 0 {
		line(4, "disk: %d", q.DiskMB)
	}
	if len(q.Limits) > 0 {
		line(4, "limits:")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
		line(5, "%s: %s", quoteYAML(name), plainNumber(q.Limits[name]))
	}
	if len(q.Env) > 0 {
		line(4, "env:")
	}
	for _, v := range q.Env {
		line(5, "%s: %s", quoteYAML(v.Name), quoteYAML(v.Value))
	}
}

var numberPattern = regexp.MustCompile(`^[0-9.]+$`)

// plainNumber leaves a number as it is and quotes anything else, so that it is refused under
// its own text.
func plainNumber(s string) string {
	switch {
	case s == "":
		return "0"
	case numberPattern.MatchString(s):
		return s
	}
	return quoteYAML(s)
}

// Quick makes a job of a command line the way that a file is made into one. Its problems name
// keys of that file and no lines, since users never see the file.
func Quick(q QuickJob, env Env) (*Result, document.Problems) {
	if env.Images == ImagesIgnored {
		env.Images = ImagesRefused // the user asked for the image just now
	}
	result, problems := Parse("", []byte(q.Source()), env)
	problems = slices.Clone(problems)
	for i := range problems {
		problems[i].Line, problems[i].Column = 0, 0
	}
	if result != nil {
		for i := range result.warned {
			result.warned[i].Line, result.warned[i].Column = 0, 0
			result.Warnings[i] = result.warned[i].String()
		}
	}
	if result != nil && len(q.Caller) > 0 {
		result.Secrets = map[string]string{callerKey: base64.StdEncoding.EncodeToString(q.Caller)}
	}
	return result, problems
}

// callerKey is the key of the caller's environment among a job's secrets. The path of a
// secret of a job file has no zero byte.
const callerKey = "\x00caller"

// CallerEnv returns the environment that was submitted with a quick job, as NAME=VALUE, from
// the job's secrets; nil without one. The bytes are the caller's.
func CallerEnv(secrets map[string]string) ([]string, error) {
	text, ok := secrets[callerKey]
	if !ok {
		return nil, nil
	}
	block, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the caller's environment is damaged")
	}
	return strings.Split(strings.TrimSuffix(string(block), "\x00"), "\x00"), nil
}

var (
	safeWord = regexp.MustCompile(`^[a-zA-Z0-9_@%+=:,./-]+$`)
	// notCommand matches first words that a shell would not take as a program.
	notCommand = regexp.MustCompile(`=|^(case|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while)$`)
)

// ShellCommand joins words to a line that a shell splits into the same words. It also breaks
// up what would be a tag of a template.
func ShellCommand(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if safeWord.MatchString(w) && (i > 0 || !notCommand.MatchString(w)) {
			quoted[i] = w
			continue
		}
		w = strings.ReplaceAll(w, "'", `'\''`)
		quoted[i] = "'" + strings.ReplaceAll(w, "<%", "<''%") + "'"
	}
	return strings.Join(quoted, " ")
}
