package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
)

func role(a model.Action) *model.Launch { return &a.Start.Job.Roles[0].Launch }

func TestEnvironment(t *testing.T) {
	w := newWorld(t)
	a := w.action(2, `if [ $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX = 1 ]; then env | sort; fi`, `echo x > $COMB_CHECKPOINT_DIR/x`)
	a.Start.Retry = 3
	a.Start.Tasks[1].Place.Devices = []int32{2, 5}
	role(a).Ports = []model.Port{{Label: "http", Count: 2}, {Label: "ssh", Count: 1}}
	role(a).Env = []model.EnvVar{{Name: "MINE", Value: "a b"}, {Name: "LANG", Value: "de_DE"}, {Name: "PYTHONUNBUFFERED", Value: "0"},
		{Name: "CUDA_VISIBLE_DEVICES", Value: "0,1,2,3"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
		{Name: "COMB_TASK", Value: "hidden"}, {Name: "A=B", Value: "x"}}
	w.e.Do(a)
	n := want[model.Notice](w)
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "COMB_TASK", `"A=B"`} {
		if !strings.Contains(n.Message, name) {
			t.Errorf("the notice %q leaves out %s", n.Message, name)
		}
	}
	w.exit()
	w.exit()
	out := w.output(a.Attempt, 1, Stdout)
	var blocks []portBlock
	if err := safefile.Read(w.e.place.job(1), portsFileName, &blocks); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"CUDA_VISIBLE_DEVICES=2,5", "NVIDIA_VISIBLE_DEVICES=2,5", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "ROCR_VISIBLE_DEVICES=",
		"COMB_LEAVES=2,5", "COMB_JOB_ID=1", "COMB_ATTEMPT=1.0.1", "COMB_RETRY=3", "COMB_NODE=n1", "COMB_SKU=V100",
		"COMB_TASK=" + w.o.Cluster + "/1.0.1/1", "MINE=a b", "LANG=de_DE", "PAI_JOB_NAME=job-1", "PAI_HOST_IP_worker_0=127.0.0.1",
		fmt.Sprintf("PAI_PORT_LIST_worker_0_http=%d,%d", blocks[0].First, blocks[0].First+1),
		fmt.Sprintf("PAI_PORT_LIST_worker_1_ssh=%d", blocks[4].First),
		"PYTHONUNBUFFERED=0", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", blocks[2].First),
		fmt.Sprintf(`TF_CONFIG={"cluster":{"worker":["127.0.0.1:%d","127.0.0.1:%d"]},"task":{"type":"worker","index":1}}`, blocks[2].First, blocks[5].First),
		"COMB_CHECKPOINT_DIR=" + filepath.Join(w.e.place.job(1), "checkpoint"),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	} {
		if !strings.Contains("\n"+out, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
	if _, err := os.Stat(filepath.Join(w.e.place.job(1), "checkpoint", "x")); err != nil {
		t.Error(err)
	}
}

func TestNoDevicesAreSeenWithoutLeaves(t *testing.T) {
	for _, sku := range []cell.SKU{{Name: "cpu", Device: cell.CPU, EnvVar: "COMB_CPU_SLOTS", MilliCPU: 1000}, {Name: "odd", Device: cell.Other, EnvVar: "MY_DEVICES", GPU: 1}} {
		env := map[string]string{}
		for _, v := range deviceEnv(sku, cell.Task{Devices: []int32{0, 1}}) {
			env[v.Name] = v.Value
		}
		if v, ok := env["CUDA_VISIBLE_DEVICES"]; !ok || v != "" || env["NVIDIA_VISIBLE_DEVICES"] != "void" {
			t.Errorf("%s: %v", sku.Name, env)
		}
		if sku.EnvVar != "" && env[sku.EnvVar] != "0,1" {
			t.Errorf("%s: %v", sku.Name, env)
		}
	}
	two := cell.SKU{Device: cell.NVIDIA, GPU: 2}
	if got := deviceEnv(two, cell.Task{Devices: []int32{1, 3}})[0].Value; got != "2,3,6,7" {
		t.Errorf("two devices a leaf: %s", got)
	}
	parts := cell.Task{Devices: []int32{3, 3, 5}, Parts: []int32{0, 1, 4}}
	for _, tt := range []struct {
		sku  cell.SKU
		want string
	}{
		{cell.SKU{Device: cell.NVIDIA, GPU: 1, Part: cell.MIG, EnvVar: "NVIDIA_VISIBLE_DEVICES"}, "3:0,3:1,5:4"},
		{cell.SKU{Device: cell.NVIDIA, GPU: 1, Part: cell.Share, EnvVar: "CUDA_VISIBLE_DEVICES"}, "3,5"},
	} {
		tt.sku.Files = []string{"/dev/nvidia%d", "/dev/nvidiactl"}
		for _, v := range deviceEnv(tt.sku, parts) {
			if v.Name == tt.sku.EnvVar && v.Value != tt.want {
				t.Errorf("parts of devices (%s): %s", tt.sku.Part, v.Value)
			}
		}
		if got := strings.Join(machine.DeviceFiles(tt.sku, parts), " "); got != "/dev/nvidia3 /dev/nvidia5 /dev/nvidiactl" {
			t.Errorf("device files: %s", got)
		}
	}
}

func TestSecretsLeaveNoTrace(t *testing.T) {
	const canary = "c4n4ry-7f3a"
	w := newWorld(t, func(o *Options) {
		o.Secrets = func(model.JobID) (map[string]string, error) { return map[string]string{"token": canary}, nil }
	})
	a := w.action(1, `x='<% $secrets.token %>'`, `echo ${#x}`, "echo main $$", "sleep 600")
	w.e.Do(a)
	pid := number(t, w.line(a.Attempt, "main "))
	if out := w.output(a.Attempt, 0, Stdout); !strings.HasPrefix(out, "11\n") {
		t.Errorf("the script did not get its secret: %q", out)
	}
	sleeper := w.childOf(pid)
	for _, p := range []int{pid, sleeper, w.supervisor(a.Attempt).PID} {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p, file))
			if err != nil || bytes.Contains(data, []byte(canary)) {
				t.Errorf("%s of process %d: %v %q", file, p, err, data)
			}
		}
	}
	// A program that has just begun may have a library open.
	w.eventually("a child of the shell has three descriptors", func() bool {
		links, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", sleeper))
		return err == nil && len(links) == 3
	})
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.exit()
	err := filepath.WalkDir(w.o.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte(canary)) {
				t.Errorf("%s: %v", path, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	w2 := newWorld(t)
	w2.e.Do(w2.action(1, "echo <% $secrets.missing %>"))
	if r := w2.refused(); !r.Job || !strings.Contains(r.Reason, "missing") {
		t.Errorf("an unknown secret: %+v", r)
	}
}

// childOf waits for a process that has this parent and runs another program.
func (w *world) childOf(parent int) int {
	w.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", parent))
	if err != nil {
		w.Fatal(err)
	}
	child := 0
	w.eventually(fmt.Sprintf("process %d has a child", parent), func() bool {
		all, err := process.All()
		if err != nil {
			w.Fatal(err)
		}
		for p, s := range all {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p)); err == nil && s.Parent == parent && exe != own {
				child = p
			}
		}
		return child != 0
	})
	return child
}

func (w *world) refused() model.TaskRefused {
	w.Helper()
	for timeout := time.After(patience); ; {
		select {
		case f := <-w.facts:
			if r, ok := f.(model.TaskRefused); ok {
				return r
			}
		case <-timeout:
			w.Fatal("no refusal came")
		}
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "true")
	role(a).WorkDir = "/no/such/place"
	w.e.Do(a)
	if r := w.refused(); !r.Job || !strings.Contains(r.Reason, "/no/such/place") {
		t.Errorf("%+v", r)
	}
	const why = "the working directory cannot be used: stat /no/such/place: no such file or directory"
	if got := w.output(a.Attempt, 0, Stderr); got != "comb: the task did not start: "+why+"\n" {
		t.Errorf("its log says %q", got)
	}
	// The same refusal from the next server.
	w.restart()
	a.Known = true
	w.e.Do(a)
	if r := w.refused(); !r.Job {
		t.Errorf("%+v", r)
	}
	one, two := w.action(1, "sleep 600"), w.action(1, "true")
	w.e.Do(one)
	want[model.TaskStarted](w)
	w.e.Do(two) // the same device
	if r := w.refused(); r.Job || !strings.Contains(r.Reason, "device 0 of V100 on node n1") || !strings.Contains(r.Reason, one.Attempt.String()) {
		t.Errorf("%+v", r)
	}
	w.e.Do(model.Action{Attempt: one.Attempt, Grace: model.Second})
	w.exit()
	strict := newWorld(t, func(o *Options) { o.RequireImage = true })
	b := strict.action(1, "true")
	role(b).Image = "ubuntu"
	strict.e.Do(b)
	if r := strict.refused(); !r.Job || !strings.Contains(r.Reason, "ubuntu") {
		t.Errorf("%+v", r)
	}
	broken := newWorld(t, func(o *Options) { o.Self = "/bin/false" })
	broken.e.Do(broken.action(1, "true"))
	if r := broken.refused(); r.Job || !strings.Contains(r.Reason, "supervisor did not start") {
		t.Errorf("%+v", r)
	}
}

func TestImageIsIgnoredWithOneNotice(t *testing.T) {
	w := newWorld(t)
	a := w.action(2, "true")
	role(a).Image = "ubuntu"
	w.e.Do(a)
	w.exit()
	w.exit()
	w.restart()
	a.Attempt.N = 2
	w.e.Do(a)
	w.exit()
	w.exit()
	w.e.Close()
	close(w.facts)
	count := 0
	for f := range w.facts {
		if n, ok := f.(model.Notice); ok && strings.Contains(n.Message, "ubuntu") {
			count++
		}
	}
	if count != 0 { // want drops the first one
		t.Errorf("%d more notices", count)
	}
	if !noteOnceSeen(w, "image") {
		t.Error("no notice came")
	}
}

func noteOnceSeen(w *world, what string) bool {
	_, err := os.Stat(filepath.Join(w.e.place.job(1), "noted."+what))
	return err == nil
}

func TestPorts(t *testing.T) {
	busy := int32(20000 + os.Getpid()%8000)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", busy))
	for ; err != nil && busy < 30000; busy++ {
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", busy+1))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(t, func(o *Options) { o.PortMin, o.PortMax = busy-20, busy+40 })
	ask := []model.Port{{Label: "a", Count: 3}, {Label: "b", Count: 1}}
	one, two := w.action(3, "sleep 600"), w.action(3, "sleep 600")
	role(one).Ports, role(two).Ports = ask, ask
	for i := range two.Start.Tasks {
		two.Start.Tasks[i].Place.Devices[0] += 10
	}
	w.e.Do(one)
	w.e.Do(two)
	owner := map[int32]string{busy: "the test"}
	first := map[int32][]int32{}
	for range 6 {
		s := want[model.TaskStarted](w)
		if len(s.Ports) != 4 {
			t.Fatalf("ports %v", s.Ports)
		}
		if s.Attempt == one.Attempt {
			first[s.Task] = s.Ports
		}
		for _, p := range s.Ports {
			if owner[p] != "" {
				t.Errorf("port %d of %v task %d is %s's", p, s.Attempt, s.Task, owner[p])
			}
			owner[p] = fmt.Sprint(s.Attempt, s.Task)
		}
	}
	// A third job does not fit; after a restart the register still knows.
	w.restart()
	for _, a := range []model.Action{one, two} {
		a.Known = true
		w.e.Do(a)
	}
	three := w.action(12, "true")
	role(three).Ports = ask
	for i := range three.Start.Tasks {
		three.Start.Tasks[i].Place.Devices[0] += 20
	}
	w.e.Do(three)
	for range three.Start.Tasks {
		if r := w.refused(); r.Job || !strings.Contains(r.Reason, "ports") {
			t.Errorf("%+v", r)
		}
	}
	w.e.Do(model.Action{Attempt: one.Attempt, Grace: model.Second})
	for range 3 {
		for e := want[model.TaskExited](w); e.Attempt != one.Attempt; e = want[model.TaskExited](w) {
			t.Logf("passed over %+v", e)
		}
	}
	one.Attempt.N = 2
	w.e.Do(one)
	for range 3 {
		if s := want[model.TaskStarted](w); !slices.Equal(s.Ports, first[s.Task]) {
			t.Errorf("the next attempt has ports %v, the first had %v", s.Ports, first[s.Task])
		}
	}
	for _, a := range []model.Action{one, two} {
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	}
	for range 6 {
		w.exit()
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Pids = 30 })
	a := w.action(1, `echo start`, `x=$(head -c 200000000 /dev/zero | tr '\0' x)`, `echo ${#x}`, "exit 1")
	role(a).MemoryMB, role(a).MilliCPU = 50, 4000
	w.e.Do(a)
	got := w.exit()
	if why, ok := w.e.missing["memory"]; !ok {
		if got.Cause != model.OutOfMemory || got.Code == 0 || !strings.Contains(got.Message, "50 MiB") {
			t.Errorf("exit %+v", got)
		}
	} else if got.Cause != "" || why == "" || !noteOnceSeen(w, "limits") {
		t.Errorf("exit %+v, missing %v", got, w.e.missing)
	}
	b := w.action(1, "for i in $(seq 50); do sleep 300 & done 2>/dev/null", "exit 0")
	w.e.Do(b)
	got = w.exit()
	errs := w.output(b.Attempt, 0, Stderr)
	if _, ok := w.e.missing["pids"]; !ok && got.Code == 0 && !strings.Contains(errs, "fork") {
		t.Errorf("50 processes in 30: %+v %q", got, errs)
	}
	free := newWorld(t, func(o *Options) { o.NoCgroups = true })
	c := free.action(1, "true")
	role(c).MemoryMB, role(c).MilliCPU = 50, 100
	free.e.Do(c)
	n := want[model.Notice](free)
	for _, part := range []string{"memory", "cpu", "pids", "switched off"} {
		if !strings.Contains(n.Message, part) {
			t.Errorf("the notice %q does not name %s", n.Message, part)
		}
	}
	free.exit()
}

// A task that asks for no CPUs and no memory may use those that its leaves carry.
func TestNothingAskedIsTheShareOfItsLeaves(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, `echo start`, `x=$(head -c 200000000 /dev/zero | tr '\0' x)`, `echo ${#x}`, "exit 1")
	role(a).MemoryMB, role(a).MilliCPU = 0, 0
	a.Start.Tasks[0].SKU.MilliCPU, a.Start.Tasks[0].SKU.MemoryMB = 500, 50
	w.e.Do(a)
	got := w.exit()
	if why, ok := w.e.missing["memory"]; !ok {
		if got.Cause != model.OutOfMemory || !strings.Contains(got.Message, "50 MiB") {
			t.Errorf("exit %+v", got)
		}
	} else if got.Cause != "" || why == "" {
		t.Errorf("exit %+v, missing %v", got, w.e.missing)
	}
	b := w.action(1, "exec sleep 600")
	role(b).MemoryMB, role(b).MilliCPU = 0, 0
	b.Start.Tasks[0].SKU.MilliCPU, b.Start.Tasks[0].SKU.MemoryMB = 250, 100
	b.Start.Tasks[0].Place.Devices = []int32{0, 1}
	w.e.Do(b)
	want[model.TaskStarted](w)
	var s spec
	if err := safefile.Read(w.e.place.task(b.Attempt, 0), specFile, &s); err != nil {
		t.Fatal(err)
	}
	if s.Limits.MilliCPU != 500 || s.Limits.MemoryMB != 200 {
		t.Errorf("two leaves of 0.25 CPUs and 100 MiB give %+v", s.Limits)
	}
	for i, dir := range s.groupDirs() {
		if cgroup.HasController(s.Parents[i:i+1], "cpu") {
			file, limit := "cpu.cfs_quota_us", "50000"
			if s.Parents[i].V2 {
				file, limit = "cpu.max", "50000 100000"
			}
			if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || strings.TrimSpace(string(text)) != limit {
				t.Errorf("%s of the task's group is %q, %v; want %s", file, text, err, limit)
			}
		}
	}
	w.e.Do(model.Action{Attempt: b.Attempt, Grace: model.Second})
	w.exit()
}

func TestTaskHasNoMoreRightsThanItNeeds(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "grep NoNewPrivs /proc/self/status", "ulimit -c", "cat /proc/self/oom_score_adj", "ps -o sid=,pid= -p $$ | tr -s ' '")
	w.e.Do(a)
	w.exit()
	lines := strings.Split(w.output(a.Attempt, 0, Stdout), "\n")
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	adj := strings.TrimSpace(string(own))
	if strings.HasPrefix(adj, "-") {
		adj = "0"
	}
	f := strings.Fields(lines[3])
	if lines[0] != "NoNewPrivs:\t1" || lines[1] != "0" || lines[2] != adj || len(f) != 2 || f[0] != f[1] {
		t.Errorf("%q", lines)
	}
}

func TestNeverStarted(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo ran")
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.e.Do(a)
	if got := w.exit(); got.Cause != model.NeverStarted {
		t.Errorf("exit %+v", got)
	}
	if _, err := w.e.openLog(ref(a.Attempt, 0, Stdout), 0); !errors.Is(err, executor.ErrNoLog) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("log: %v", err)
	}
	w.restart()
	a.Known = true
	w.e.Do(a)
	if got := w.exit(); got.Cause != model.NeverStarted {
		t.Errorf("the next server says %+v", got)
	}
}

// TestStopsAtEveryMoment sends the stop at random moments of the start: each
// task ends exactly once, and nothing stays.
func TestStopsAtEveryMoment(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		a := w.action(1, "sleep 600")
		w.e.Do(a)
		time.Sleep(time.Duration(i) * time.Millisecond) // the moment of the stop
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
		if got := want[model.TaskExited](w); got.Attempt != a.Attempt || got.Exit.Cause != model.NeverStarted && got.Exit.Signal != 15 {
			t.Errorf("after %d ms: %+v", i, got)
		}
	}
}

// TestSecondSupervisorDoesNothing starts another supervisor on a task's
// directory by hand.
func TestSecondSupervisorDoesNothing(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo ran", "sleep 600")
	w.e.Do(a)
	w.line(a.Attempt, "ran")
	tk := newTask(w.e, &attempt{id: a.Attempt}, 0)
	p, status, err := tk.spawn(&private{script: []byte("echo ran again\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	st, err := p.Wait()
	if err != nil || st.ExitCode() != exitNotMine {
		t.Errorf("%v, %v", st, err)
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.exit()
	if out := w.output(a.Attempt, 0, Stdout); out != "ran\n" {
		t.Errorf("output %q", out)
	}
}

func TestProgress(t *testing.T) {
	w := newWorld(t)
	a := w.action(1,
		`p() { echo "$1" >> $COMB_PROGRESS_FILE; }`,
		`p '{"step": 1, "total": 100, "loss": 2.50, "iteration_s": 0.25, "memory": 512.5}'`,
		`p 'not json'; p '[1]'; p "{\"step\": 7, \"x\": \"$(head -c 9000 /dev/zero | tr '\0' x)\"}"`, `p '{"step":-4,"loss":"nan"}'`,
		`p '{"step": 10, "checkpoint": true}'`, `for i in $(seq 11 40); do p "{\"step\": $i}"; done`,
		`sleep 2.5`, `p '{"step": 98, "checkpoint": true}'`, `p '{"step": 99}'`, `printf '{"step": 100}' >> $COMB_PROGRESS_FILE`)
	w.e.Do(a)
	var got []model.Progress
	notices := 0
	for over := false; !over; {
		select {
		case f := <-w.facts:
			switch f := f.(type) {
			case model.Progress:
				got = append(got, f)
			case model.Notice:
				notices++
			case model.TaskExited:
				over = true
			}
		case <-time.After(patience):
			t.Fatal("no end")
		}
	}
	at := func(step int64, checkpoint bool) bool {
		return slices.ContainsFunc(got, func(p model.Progress) bool {
			return p.Step == step && p.Checkpoint == checkpoint && p.Attempt == a.Attempt
		})
	}
	if !at(10, true) || !at(98, true) || !at(99, false) || at(7, false) || len(got) > 6 || notices != 1 {
		t.Errorf("%d notices, progress %+v", notices, got)
	}
}

func TestProgressLine(t *testing.T) {
	w := newWorld(t)
	p := newProgress(newTask(w.e, &attempt{id: model.AttemptID{Job: 1, N: 1}}, 0))
	p.line([]byte(`{"step": 1e3, "total": 5000, "loss": 2.50, "iteration_s": 0.25, "memory": 512.5, "extra": {}}`))
	want := model.Progress{Attempt: model.AttemptID{Job: 1, N: 1}, Step: 1000, Total: 5000, Loss: "2.50", Iteration: 250_000, MemoryMB: 512}
	if p.latest == nil || *p.latest != want {
		t.Errorf("%+v", p.latest)
	}
	p.latest = nil
	p.line([]byte(`{"step": 99999999999999999999, "memory": 1e300, "iteration_s": -1, "loss": 1.00000000000000000000000000000000000}`))
	if p.latest == nil || p.latest.Step != 1<<53 || p.latest.MemoryMB != 1<<53 || p.latest.Iteration != 0 || p.latest.Loss != "1" {
		t.Errorf("%+v", p.latest)
	}
}

func TestCheckpointSurvivesARestart(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, `echo '{"step": 1, "checkpoint": true}' >> $COMB_PROGRESS_FILE`, "echo main $$", "read x < /dev/null",
		`while [ ! -e go ]; do sleep 0.02; done`, `echo '{"step": 2, "checkpoint": true}' >> $COMB_PROGRESS_FILE`, "touch done", "sleep 600")
	w.e.Do(a)
	if p := want[model.Progress](w); p.Step != 1 || !p.Checkpoint {
		t.Errorf("%+v", p)
	}
	w.eventually("how far it was told is kept", func() bool {
		var kept told
		return safefile.Read(w.e.place.task(a.Attempt, 0), toldFile, &kept) == nil && kept.Offset > 0
	})
	w.e.Close()
	work := filepath.Join(w.e.place.task(a.Attempt, 0), workDir)
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("the next checkpoint is written", func() bool { _, err := os.Stat(filepath.Join(work, "done")); return err == nil })
	w.open()
	a.Known = true
	w.e.Do(a)
	if p := want[model.Progress](w); p.Step != 2 || !p.Checkpoint {
		t.Errorf("%+v", p)
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.exit()
}

func TestFloodIsSlowedDown(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.LogRate = 1 << 20 })
	a := w.action(1, "yes", "echo never")
	begin := time.Now()
	w.e.Do(a)
	want[model.TaskStarted](w)
	w.eventually("it has printed 4 MiB", func() bool { return len(w.output(a.Attempt, 0, Stdout)) >= 4<<20 })
	n, took := len(w.output(a.Attempt, 0, Stdout)), time.Since(begin)
	if most := (took.Seconds() + 2) * (1 << 20); float64(n) > most { // a busy machine only adds to it
		t.Errorf("%d bytes in %v at 1 MiB/s", n, took)
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.exit()
}

func TestFollowLog(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "for i in 1 2 3; do echo line $i; sleep 0.2; done")
	ref := ref(a.Attempt, 0, Stdout)
	var mu sync.Mutex
	var got []byte
	done := make(chan error, 1)
	go func() {
		done <- w.e.followLog(context.Background(), ref, 0, func(p []byte) { mu.Lock(); defer mu.Unlock(); got = append(got, p...) })
	}()
	w.e.Do(a)
	w.exit()
	if err := <-done; err != nil || string(got) != "line 1\nline 2\nline 3\n" {
		t.Errorf("%q, %v", got, err)
	}
	l, err := w.e.openLog(ref, -7)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	buf := make([]byte, 100)
	if n, err := l.Read(buf); err != nil || string(buf[:n]) != "line 3\n" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// TestLogsFollowNoLinks: a task puts links where its log or its directory is.
func TestLogsFollowNoLinks(t *testing.T) {
	w := newWorld(t)
	a, b := w.action(1, "true"), w.action(1, "echo secret of another")
	for i, x := range []model.Action{a, b} {
		x.Start.Tasks[0].Place.Devices[0] = int32(i)
		w.e.Do(x)
		w.exit()
	}
	dir := w.e.place.task(a.Attempt, 0)
	log := filepath.Join(dir, task.LogName(Stdout, 0))
	other := filepath.Join(w.e.place.task(b.Attempt, 0), task.LogName(Stdout, 0))
	swap := func(path, target string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ what, path, target, says string }{
		{"file", log, other, "stdout.00000000000000000000 is a symbolic link, not a plain file"},
		{"task's folder", dir, w.e.place.task(b.Attempt, 0), "0 is a symbolic link, not a folder"},
		{"attempt's folder", w.e.place.attempt(a.Attempt), w.e.place.attempt(b.Attempt), "0.1 is a symbolic link, not a folder"},
		{"job's folder", w.e.place.job(a.Attempt.Job), w.e.place.job(b.Attempt.Job), "1 is a symbolic link, not a folder"},
		{"attempt's folder that leads nowhere", w.e.place.job(a.Attempt.Job), "/no/such", "1 is a symbolic link, not a folder"},
	} {
		swap(c.path, c.target)
		if l, err := w.e.openLog(ref(a.Attempt, 0, Stdout), 0); err == nil || !errors.Is(err, executor.ErrReplaced) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a linked %s: %+v, %v; want it refused: %s", c.what, l, err, c.says)
		}
	}
	if _, err := w.e.openLog(ref(a.Attempt, 0, "../1/stdout"), 0); !errors.Is(err, executor.ErrNoLog) {
		t.Errorf("a stream that is a path: %v", err)
	}
}

// TestDeviceFiles: a task is told its devices' files, and one that is missing
// refuses the start instead of letting the task find out.
func TestDeviceFiles(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo files $COMB_DEVICE_FILES")
	a.Start.Tasks[0].SKU.Files = []string{"/dev/null", "/dev/fd/%d"}
	a.Start.Tasks[0].Place.Devices = []int32{1}
	w.e.Do(a)
	if got := w.line(a.Attempt, "files "); got != "/dev/null,/dev/fd/1" {
		t.Errorf("device files %q", got)
	}
	w.exit()
	b := w.action(2, "true")
	b.Start.Tasks[0].SKU.Files = []string{"/dev/comb-has-no-such-device%d"}
	w.e.Do(b)
	if r := want[model.TaskRefused](w); !strings.Contains(r.Reason, "/dev/comb-has-no-such-device") || r.Job {
		t.Errorf("refused with %+v", r)
	}
}
