package executortest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// Stubs are the programs that the jobs of a folder call, by name: one stands for all of them, and
// says how it was called, where, as which user and with which variables.
func Stubs(t *testing.T, folder string) map[string]string {
	t.Helper()
	names, err := os.ReadFile(filepath.Join(folder, "programs"))
	if err != nil {
		t.Fatal(err)
	}
	stub, err := os.ReadFile(filepath.Join(folder, "stub"))
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, name := range strings.Fields(string(names)) {
		list[name] = string(stub)
	}
	return list
}

// ShapesIn is a world in which the public job files of OpenPAI run.
type ShapesIn struct {
	Folder string // of the files and their tables: see its README
	// Image is what their image stands for, with Stubs; Dir and User are what a task has there of
	// what OpenPAI gives it, as patterns.
	Image, Dir, User string
	// NoStorages leaves out those that a job names, which the world does not have.
	NoStorages bool
	// Fresh makes the world of one job, whose secrets these are.
	Fresh func(t *testing.T, secrets map[string]string) *Harness
}

// Run runs each file and compares what its tasks do and find with its table.
func (in *ShapesIn) Run(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(in.Folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no job files in %s: %v", in.Folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			env := jobspec.Env{User: "ada", Config: aCluster(), Images: jobspec.ImagesUsed}
			r, problems := jobspec.Parse(filepath.Base(file), source, env)
			if problems != nil {
				t.Fatalf("it is refused:\n%v", problems)
			}
			want, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".want")
			if err != nil {
				t.Fatal(err)
			}
			if in.NoStorages {
				r.Job.Storages = nil
			}
			s := &suite{T: t, h: in.Fresh(t, r.Secrets)}
			said := s.shape(r.Job, in.Image, tables(t, string(want)))
			for _, table := range tables(t, string(want)) {
				in.compare(t, table, said[table.task])
			}
		})
	}
}

// aCluster has GPUs and CPUs for any of the files.
func aCluster() *model.Config {
	node := cell.CellSpec{Type: "NODE", Address: "n"}
	for i := range 64 {
		node.Children = append(node.Children, cell.CellSpec{Type: "GPU", Address: fmt.Sprint(i)})
	}
	return &model.Config{Storages: []model.Storage{{Name: "confignfs", Folder: "/srv"}}, Cluster: cell.Spec{
		SKUs: []cell.SKU{{Name: "GPU", GPU: 1, MilliCPU: 8000, MemoryMB: 1 << 16,
			Device: cell.NVIDIA, Pretended: true}},
		Chains: []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{
			{Type: "GPU"}, {Type: "NODE", Fanout: 64, IsNode: true}}}},
		Cells: []cell.CellSpec{node},
		VCs:   []cell.VCSpec{{Name: "default", Quota: []cell.QuotaSpec{{Chain: "NODE", Level: 2, Number: 1}}}},
	}}
}

// shapeTable is what a task is to do and to find.
type shapeTable struct {
	task   string // ROLE-INDEX
	runs   []string
	in, as string
	has    map[string]string
}

// tables reads a file of them.
func tables(t *testing.T, text string) (list []*shapeTable) {
	t.Helper()
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if word == "task" {
			list = append(list, &shapeTable{task: rest, has: map[string]string{}})
			continue
		}
		if len(list) == 0 {
			t.Fatalf("%q is of no task", line)
		}
		table := list[len(list)-1]
		switch word {
		case "runs":
			table.runs = append(table.runs, rest)
		case "in":
			table.in = rest
		case "as":
			table.as = rest
		case "has":
			name, value, _ := strings.Cut(rest, "=")
			table.has[name] = value
		default:
			t.Fatalf("a table has no line %q", line)
		}
	}
	return list
}

// shape starts all gangs of a job, waits for the ends of the tasks that have a table, stops the
// rest, and returns what each printed.
func (s *suite) shape(job *model.Job, image string, tables []*shapeTable) map[string]string {
	s.Helper()
	job.Grace = model.Second
	type ordinal struct {
		role  int32
		index int32
		name  string
	}
	var tasks []ordinal
	for i := range job.Roles {
		r := &job.Roles[i]
		// Few CPUs, so that all have room on a small machine.
		r.Launch.Image, r.Launch.MilliCPU = image, min(r.Launch.MilliCPU, 100)
		for k := range r.Tasks {
			tasks = append(tasks, ordinal{int32(i), k, fmt.Sprintf("%s-%d", r.Name, k)})
		}
	}
	where := map[string]model.AttemptID{}
	for g := range job.Gangs {
		id := model.AttemptID{Job: 1, Gang: int32(g), N: 1}
		start := &model.Start{ID: 1, Job: job}
		for _, n := range job.Gangs[g].Tasks {
			one := tasks[n]
			where[one.name] = id
			start.Tasks = append(start.Tasks, model.TaskStart{Task: n, Role: one.role, Index: one.index, SKU: s.h.SKU,
				Place: cell.Task{Node: s.h.Nodes[0], SKU: s.h.SKU.Name,
					Leaves: []cell.LeafID{cell.LeafID(n)}, Devices: []int32{n}}})
		}
		s.h.Executor.Do(model.Action{Attempt: id, Start: start})
	}
	waits := map[string]bool{}
	for _, table := range tables {
		waits[table.task] = true
	}
	ended := map[int32]bool{}
	for stopped := false; len(ended) < len(tasks); {
		if len(waits) == 0 && !stopped {
			stopped = true
			for g := range job.Gangs {
				id := model.AttemptID{Job: 1, Gang: int32(g), N: 1}
				s.h.Executor.Do(model.Action{Attempt: id, Grace: model.Second})
			}
		}
		switch f := s.h.Next(s.h.Patience).(type) {
		case model.TaskExited:
			name := tasks[f.Task].name
			if waits[name] {
				s.wantCode(f.Exit, 0)
			}
			delete(waits, name)
			ended[f.Task] = true
		case model.TaskStarted:
		default:
			s.Fatalf("got %#v, want starts and ends", f)
		}
	}
	said := map[string]string{}
	for n, one := range tasks {
		said[one.name] = s.h.Log(where[one.name], int32(n), executor.Stdout)
	}
	return said
}

// compare holds what a task printed against its table.
func (in *ShapesIn) compare(t *testing.T, table *shapeTable, printed string) {
	t.Helper()
	var runs, dirs, users []string
	env := map[string]string{}
	for line := range strings.Lines(printed) {
		switch word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); word {
		case "runs":
			runs = append(runs, rest)
		case "in":
			dirs = append(dirs, rest)
		case "as":
			users = append(users, rest)
		case "has":
			name, value, _ := strings.Cut(rest, "=")
			env[name] = value
		}
	}
	is := func(got, want string) bool {
		return regexp.MustCompile("^(?:" + pattern(want, env) + ")$").MatchString(got)
	}
	if len(runs) != len(table.runs) || len(runs) == 0 {
		t.Fatalf("%s: it called %q, want %q:\n%s", table.task, runs, table.runs, printed)
	}
	for i, want := range table.runs {
		if !is(runs[i], want) {
			t.Errorf("%s: it called %q, want %q", table.task, runs[i], want)
		}
	}
	last := len(runs) - 1 // a shell's own steps are behind it
	dir := strings.Replace(table.in, "WORKDIR", in.Dir, 1)
	if !regexp.MustCompile("^(?:" + dir + ")$").MatchString(dirs[last]) {
		t.Errorf("%s: it is in %q, want %s", table.task, dirs[last], dir)
	}
	if user := strings.Replace(table.as, "USER", in.User, 1); users[last] != user {
		t.Errorf("%s: it is user %s, want %s", table.task, users[last], user)
	}
	for name, want := range table.has {
		if got, there := env[name]; !there || !is(got, want) {
			t.Errorf("%s: %s is %q, there: %v, want %s", table.task, name, got, there, want)
		}
	}
}

// word is what stands for something in a table.
var word = regexp.MustCompile(`\$PAI_\w+|\bADDRESS\b|\bPORT\b`)

// pattern is what a text of a table stands for, where a task has these variables.
func pattern(want string, env map[string]string) string {
	var out strings.Builder
	end := 0
	for _, at := range word.FindAllStringIndex(want, -1) {
		out.WriteString(regexp.QuoteMeta(want[end:at[0]]))
		switch of := want[at[0]:at[1]]; of {
		case "ADDRESS":
			out.WriteString(anAddress)
		case "PORT":
			out.WriteString(ports(1))
		default:
			value, there := env[of[1:]]
			if !there {
				value = of // which is nowhere
			}
			out.WriteString(regexp.QuoteMeta(value))
		}
		end = at[1]
	}
	return out.String() + regexp.QuoteMeta(want[end:])
}
