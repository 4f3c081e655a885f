package jobspec

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

func TestQuick(t *testing.T) {
	q := QuickJob{
		Name: "quick-1", VC: "mixed", Priority: "prod", SKU: "K80", Tasks: 2, GPUs: 2, CPUs: "1.5", MemoryMB: 100, ShmMB: 50,
		Command:   []string{"python3", "-c", "print('<% $secrets.x %>')", "$HOME", "a\nb", "", "é"},
		Env:       []model.EnvVar{{Name: "A", Value: "b: c # d"}, {Name: "EMPTY", Value: ""}},
		WorkDir:   "/srv/it's here",
		TimeLimit: "1h", Grace: "5",
	}
	result, problems := Quick(q, testEnv())
	if problems != nil {
		t.Fatalf("refused: %v\n%s", problems, q.Source())
	}
	want := &model.Job{
		Name: "quick-1", User: "ada", VC: "mixed", Priority: 100,
		Roles: []model.Role{{
			Name: "main", Tasks: 2, Leaves: 2, SKUs: []cell.TypeName{"K80"}, MinFailed: 1, MinSucceeded: 2,
			Launch: model.Launch{
				Command: []string{`python3 -c 'print('\''<''% $secrets.x %>'\'')' '$HOME' 'a` + "\n" + `b' '' 'é'`},
				GPU:     2, MilliCPU: 1500, MemoryMB: 100, ShmMB: 50, WorkDir: "/srv/it's here",
				Env: q.Env,
			},
		}},
		Gangs:     []model.Gang{{Name: "default", Tasks: []int32{0, 1}}},
		Grace:     5 * model.Second,
		TimeLimit: model.Hour,
		Source:    q.Source(),
	}
	if diff := cmp.Diff(want, result.Job); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	checkSource(t, result)
}

func TestQuickTellsWhatIsWrong(t *testing.T) {
	q := QuickJob{Name: "a b", Priority: "2000", CPUs: "many", SKU: "V1000", Tasks: -1, Command: nil}
	_, problems := Quick(q, testEnv())
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		`name: "a b" is not a name: use letters, digits, -, _ and . only, not . first`,
		`taskRoles.main.instances: "-1" is out of range: it must be 1 to 10000`,
		`taskRoles.main.resourcePerInstance.cpu: expected a number of CPUs from 0 to 1048576, with at most three decimals`,
		`extras.hivedScheduler.taskRoles.main.skuType: VC default has no SKU "V1000"; it has V100`,
		`extras.comb.priority: "2000" is out of range: it must be -1 to 1000`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if _, problems := Quick(QuickJob{Name: "ok"}, testEnv()); len(problems) != 1 || problems[0].Key != "taskRoles.main.commands" {
		t.Errorf("no command: %v", problems)
	}
}

// A real shell must see the very words, whatever they hold.
func TestShellCommandGivesTheSameWords(t *testing.T) {
	for _, words := range [][]string{
		{"a", "b c", "", "'", `"`, `\`, "$x", "`date`", "*", "~", "a\nb", "\t", "<%d%>", "<% $secrets.x %>", "!", "#", "é", "a=b", "-n", ";", "&&"},
		{"'''", `'\''`, "<%'%>", "<<%%"},
	} {
		line := ShellCommand(append([]string{"print_words"}, words...))
		if segments, err := splitTemplate(line); err != nil || len(segments) != 1 {
			t.Errorf("%s looks like a template: %v %v", line, segments, err)
		}
		script := `print_words() { for w in "$@"; do printf '%s\0' "$w"; done; }` + "\n" + line + "\n"
		out, err := exec.Command("sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if !slices.Equal(got, words) {
			t.Errorf("%s gives %q, want %q", line, got, words)
		}
	}
	for first, want := range map[string]string{"nvidia-smi": "nvidia-smi", "time": "'time'", "A=b": "'A=b'"} {
		if got := ShellCommand([]string{first}); got != want {
			t.Errorf("%q: got %s, want %s", first, got, want)
		}
	}
}

// The lines around callbacks must keep or set the exit status in a real shell.
func TestCallbackLinesDecideTheExitStatus(t *testing.T) {
	const job = `
protocolVersion: 2
name: callbacks
type: job
prerequisites:
  - name: pre
    type: script
    plugin: cmd
    failurePolicy: POLICY
    callbacks:
      - {event: taskStarts, commands: ["echo start; START"]}
      - {event: taskSucceeds, commands: ["echo end; END"]}
taskRoles:
  main:
    prerequisites: [pre]
    resourcePerInstance: {}
    commands: ["echo own; OWN"]
`
	for _, c := range []struct {
		policy, start, own, end string
		output                  string
		code                    int
	}{
		{"ignore", "true", "true", "true", "start own end", 0},
		{"ignore", "(exit 3)", "true", "(exit 5)", "start own end", 0},
		{"ignore", "true", "(exit 4)", "true", "start own", 4},
		{"fail", "true", "true", "true", "start own end", 0},
		{"fail", "(exit 3)", "true", "true", "start", 3},
		{"fail", "true", "(exit 4)", "true", "start own", 4},
		{"fail", "true", "true", "(exit 5)", "start own end", 5},
	} {
		src := strings.NewReplacer("POLICY", c.policy, "START", c.start, "OWN", c.own, "END", c.end).Replace(job)
		result, problems := Parse("callbacks.yaml", []byte(src), testEnv())
		if problems != nil {
			t.Fatal(problems)
		}
		cmd := exec.Command("sh", "-c", strings.Join(result.Job.Roles[0].Launch.Command, "\n"))
		out, _ := cmd.Output()
		if got := strings.Join(strings.Fields(string(out)), " "); got != c.output || cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%+v: got %q, exit code %d", c, got, cmd.ProcessState.ExitCode())
		}
	}
}

// A bound for a container's disk is refused where the role has no container anywhere, and said
// to be ignored where its image is.
func TestDiskWithoutContainer(t *testing.T) {
	env := testEnv()
	for _, use := range []ImageUse{ImagesIgnored, ImagesUsed} {
		env.Images = use
		_, problems := Quick(QuickJob{Name: "q", Command: []string{"true"}, DiskMB: 100}, env)
		if len(problems) != 1 || problems[0].Key != "extras.comb.taskRoles.main.disk" || !strings.Contains(problems[0].Message, "the role names no image") {
			t.Errorf("without an image: %v", problems)
		}
	}
	boxed := QuickJob{Name: "q", Command: []string{"true"}, GPUs: 1, DiskMB: 100, Image: "box"}
	result, problems := Quick(boxed, env)
	if problems != nil || result.Job.Roles[0].Launch.DiskMB != 100 || len(result.Warnings) != 0 {
		t.Errorf("in a container: %v, %+v", problems, result)
	}
	env.Images = ImagesIgnored
	result, problems = Parse("f", []byte(boxed.Source()), env)
	if problems != nil || len(result.Warnings) != 2 || !strings.Contains(strings.Join(result.Warnings, "; "), "disk is ignored: tasks run as plain processes") {
		t.Errorf("where images are ignored: %v, %+v", problems, result)
	}
}

// Limits of processes are those that a role asks for, at most what one of its SKUs allows.
func TestLimitsOfProcesses(t *testing.T) {
	env := testEnv()
	q := QuickJob{Name: "q", Command: []string{"true"}, GPUs: 1,
		Limits: map[string]string{"nofile": "4096", "stack": "64Mi", "memlock": "unlimited"}}
	result, problems := Quick(q, env)
	if want := (cell.TaskLimits{NoFile: 4096, StackMB: 64, MemLockMB: -1}); problems != nil || result.Job.Roles[0].Launch.Limits != want {
		t.Fatalf("%v, %+v", problems, result)
	}
	config := *env.Config
	config.Cluster.SKUs = slices.Clone(config.Cluster.SKUs)
	for i := range config.Cluster.SKUs {
		config.Cluster.SKUs[i].Limits = cell.TaskLimits{NoFile: 4096, StackMB: 64, MemLockMB: 8}
	}
	env.Config = &config
	for name, c := range map[string]struct{ value, want string }{
		"nofile":  {"4097", "nofile: 4097 is more than 4096, which SKU "},
		"stack":   {"65Mi", "stack: 65 MiB is more than 64 MiB, which SKU "},
		"memlock": {"unlimited", "memlock: unlimited is more than 8 MiB, which SKU "},
	} {
		q.Limits = map[string]string{name: c.value}
		_, problems := Quick(q, env)
		if len(problems) != 1 || problems[0].Key != "extras.comb.taskRoles.main.limits" || !strings.Contains(problems[0].Message, c.want) {
			t.Errorf("%s=%s: %v", name, c.value, problems)
		}
	}
	for name, value := range map[string]string{"nofile": "63", "stack": "64", "memlock": "much", "cpu": "1"} {
		q.Limits = map[string]string{name: value}
		if _, problems := Quick(q, env); len(problems) != 1 {
			t.Errorf("%s=%s: %v", name, value, problems)
		}
	}
	q.Limits = map[string]string{"nofile": "4096", "stack": "64Mi", "memlock": "8Mi"}
	env.Images, q.Image = ImagesNeeded, "i"
	if result, problems = Quick(q, env); problems != nil || !strings.Contains(strings.Join(result.Warnings, "; "), "limits are not set in pods") {
		t.Errorf("in a pod: %v, %+v", problems, result)
	}
}
