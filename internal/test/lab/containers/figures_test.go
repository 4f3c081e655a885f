package containers

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/lab"
)

// The figures of containers (make bench-container), beside those of the bare engine in the same
// run. Nothing is asserted but that all goes well: figures are compared.
var figures = lab.Figures{Out: os.Stdout}

// rounds are the starts that are measured one after the other; of gangs it is a twentieth.
var rounds = flag.Int("rounds", 100, "benchmarks: how many starts are measured")

const (
	gangTasks = 32
	pullTasks = 8
	megabyte  = 1_000_000
	byEngine  = "docker run"
	byComb    = "comb"
	// byNet is by the engine's client in a network like that of Comb's tasks, in which an engine
	// runs a name server for each container.
	byNet = "docker run --network"
)

// docker is a command of the engine's own client.
func (w *world) docker(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"--host", w.engine.Host()}, args...)...)
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+w.dir)
	return cmd
}

// bare runs a shell's script in a container that the engine's own client starts, which finds a
// folder of this machine at /out.
func (w *world) bare(folder, image, script string, flags ...string) error {
	args := append(append([]string{"run", "--rm", "--volume", folder + ":/out"}, flags...), image, "/bin/sh", "-c", script)
	out, err := w.docker(w.Context(), args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker run: %w: %s", err, out)
	}
	return err
}

// open is a folder that every user can write.
func (w *world) open() string {
	w.Helper()
	dir := w.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		w.Fatal(err)
	}
	return dir
}

// made is when the last of some files was made: that is the first instruction of whoever makes it.
func (w *world) made(folder string, names ...string) (last time.Time) {
	w.Helper()
	for _, name := range names {
		st, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			w.Fatal(err)
		}
		if st.ModTime().After(last) {
			last = st.ModTime()
		}
	}
	return last
}

// succeeds waits for the end of a job, and returns the folder of its checkpoints.
func (w *world) succeeds(ref string) string {
	w.Helper()
	if j := w.ends(ref); j.Phase != model.Succeeded {
		w.Fatalf("the job %s is %s: %+v, told %q", j.Ref, j.Phase, j.Tasks[0].Exit, j.Notices)
	}
	return filepath.Join(w.dir, "data", "jobs", ref, "checkpoint")
}

// From the submission, or the engine's command, to the first instruction. They take turns, and the
// first of each is not counted.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b, plain, "--live-restore")
	if out, err := w.docker(b.Context(), "network", "create", "figures").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	took := map[string][]time.Duration{}
	for i := range *rounds + 1 {
		for by, flags := range map[string][]string{byEngine: nil, byNet: {"--network", "figures"}} {
			folder, began := w.open(), time.Now()
			if err := w.bare(folder, image, ": > /out/first", flags...); err != nil {
				b.Fatal(err)
			}
			took[by] = append(took[by], w.made(folder, "first").Sub(began))
		}
		began := time.Now()
		ref := w.submit(with(fmt.Sprintf("start-%d", i), image, ": > /comb/checkpoint/first"))
		took[byComb] = append(took[byComb], w.made(w.succeeds(ref), "first").Sub(began))
	}
	for _, by := range []string{byEngine, byNet, byComb} {
		figures.Quantiles("comb_container_first_instruction", took[by][1:], "by", by)
	}
}

// From the command to its first line at the client.
func BenchmarkFirstLine(b *testing.B) {
	w := newWorld(b, plain, "--live-restore")
	took := map[string][]time.Duration{}
	for i := range *rounds + 1 {
		for by, cmd := range map[string]*exec.Cmd{
			byEngine: w.docker(b.Context(), "run", "--rm", image, "echo", "here"),
			byComb:   w.comb(b.Context(), "job", "run", "--name", fmt.Sprintf("line-%d", i), "--image", image, "--", "echo", "here"),
		} {
			out, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n') // compared below
			took[by] = append(took[by], time.Since(began))
			if err := cmd.Wait(); err != nil || strings.TrimSpace(line) != "here" {
				b.Fatalf("%s printed %q: %v", by, line, err)
			}
		}
	}
	for _, by := range []string{byEngine, byComb} {
		figures.Quantiles("comb_container_first_line", took[by][1:], "by", by)
	}
}

// comb is a command of the program under test.
func (w *world) comb(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.server.Bin, "comb"), args...)
	cmd.Env = append(os.Environ(), "COMB_SERVER="+w.server.URL, "COMB_TOKEN_FILE="+filepath.Join(w.server.Data, "admin-token"))
	return cmd
}

// many is a job of one role with so many tasks.
func many(tasks int, source string) string {
	return strings.Replace(source, "    dockerImage: box", fmt.Sprintf("    instances: %d\n    dockerImage: box", tasks), 1)
}

// wide is a node with a leaf for each task of the gang.
var wide = strings.Replace(plain, "childCellNumber: 8", fmt.Sprintf("childCellNumber: %d", gangTasks), 1)

// A gang of 32: from its submission to the first instruction of its last task, beside as many
// commands of the engine's client at once; and what its supervisors and process 1s need of the
// memory.
func BenchmarkGang(b *testing.B) {
	w := newWorld(b, wide, "--live-restore")
	w.patience = 10 * time.Minute
	took := map[string][]time.Duration{}
	names := make([]string, gangTasks)
	for i := range names {
		names[i] = fmt.Sprintf("first-%d", i)
	}
	for i := range max(*rounds/20, 1) {
		folder, began := w.open(), time.Now()
		errs := make([]error, gangTasks)
		var all sync.WaitGroup
		for k, name := range names {
			all.Go(func() { errs[k] = w.bare(folder, image, ": > /out/"+name) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				b.Fatal(err)
			}
		}
		took[byEngine] = append(took[byEngine], w.made(folder, names...).Sub(began))
		began = time.Now()
		ref := w.submit(many(gangTasks, with(fmt.Sprintf("gang-%d", i), image, ": > /comb/checkpoint/first-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX",
			"while [ ! -e /comb/checkpoint/go ]; do sleep 0.2; done")))
		j := w.until(ref, "all tasks run", running(gangTasks))
		if i == 0 {
			w.memory(j)
		}
		w.letGo(ref)
		took[byComb] = append(took[byComb], w.made(w.succeeds(ref), names...).Sub(began))
	}
	for _, by := range []string{byEngine, byComb} {
		figures.Quantiles("comb_container_gang_first_instruction", took[by], "by", by, "tasks", fmt.Sprint(gangTasks))
	}
}

// memory prints what a task costs that runs and says nothing.
func (w *world) memory(j *rest.Job) {
	w.Helper()
	time.Sleep(5 * time.Second) // what a start takes is given back by then: this is a measurement
	pids := map[string][]int{"supervisor": w.supervisors()}
	for _, t := range j.Tasks {
		pids["process 1"] = append(pids["process 1"], int(t.PID))
	}
	for _, of := range []string{"supervisor", "process 1"} {
		var all, own []int
		for _, pid := range pids[of] {
			kib, err := lab.Resident(pid)
			if err != nil {
				w.Fatal(err)
			}
			all = append(all, kib)
			if kib, err = lab.Anonymous(pid); err != nil {
				w.Fatal(err)
			}
			own = append(own, kib)
		}
		for kind, kib := range map[string][]int{"resident": all, "of its own": own} {
			slices.Sort(kib)
			figures.Print("comb_container_memory", float64(kib[len(kib)/2])/1024, "MiB", "of", of, "kind", kind, "quantile", "0.5")
			figures.Print("comb_container_memory", float64(kib[len(kib)-1])/1024, "MiB", "of", of, "kind", kind, "quantile", "1")
		}
	}
}

// push gives the registry an image with so many megabytes that do not compress.
func (w *world) push(h *hub, name string, size int) string {
	w.Helper()
	data, random := make([]byte, size*megabyte), rand.NewChaCha8([32]byte{})
	_, _ = random.Read(data) // it never fails
	w.engine.Import(h.ref(name), map[string]string{"data": string(data)})
	w.engine.Push(h.ref(name), "", "")
	runtime.GC()
	return h.ref(name)
}

// One image for 8 tasks, each a job, beside one command of the engine's client.
func BenchmarkPull(b *testing.B) {
	const size = 50
	w, h := newWorld(b, plain, "--live-restore"), newHub(b)
	name := w.push(h, "team/large:1", size)
	began := time.Now()
	if out, err := w.docker(b.Context(), "pull", name).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	figures.Print("comb_container_pull", time.Since(began).Seconds(), "s", "by", "docker pull", "MB", fmt.Sprint(size))
	w.engine.Forget(name)
	before, refs := h.copies(), []string(nil)
	began = time.Now()
	for i := range pullTasks {
		refs = append(refs, w.submit(with(fmt.Sprintf("pull-%d", i), name, ": > /comb/checkpoint/first")))
	}
	var last time.Time
	for _, ref := range refs {
		if at := w.made(w.succeeds(ref), "first"); at.After(last) {
			last = at
		}
	}
	labels := []string{"by", byComb, "MB", fmt.Sprint(size), "tasks", fmt.Sprint(pullTasks)}
	figures.Print("comb_container_pull", last.Sub(began).Seconds(), "s", labels...)
	figures.Print("comb_container_pull_copies", float64(h.copies()-before), "1", labels...)
}

// A registry gives 20 MB/s, and an image of 200 MB is wanted by a job that is booked behind one
// which its limit ends in 30 s: from then, and from when it has the cells, to its first
// instruction, beside the same image started by the engine's own client.
func BenchmarkPrefetch(b *testing.B) {
	const size, rate, ahead = 200, 20, "30s"
	one := strings.NewReplacer("childCellNumber: 8", "childCellNumber: 1", "default: {", "default: {backfill: easy, ").Replace(plain)
	w, h := newWorld(b, one, "--live-restore"), newHub(b)
	name := w.push(h, "team/large:1", size)
	h.set(func() { h.rate = rate * megabyte })
	holds := w.submit(with("holds", image, "exec sleep 600") + "extras: {comb: {timeLimit: " + ahead + "}}\n")
	w.until(holds, "it runs", running(1))
	next := w.submit(with("next", name, ": > /comb/checkpoint/first"))
	free := w.ends(holds).Tasks[0].Exit.At
	j := w.ends(next)
	first := w.made(w.succeeds(next), "first")
	labels := []string{"MB", fmt.Sprint(size), "registry_MB_per_s", fmt.Sprint(rate), "booked_ahead", ahead}
	for from, at := range map[string]model.Time{"the end before": free, "its cells": j.Attempts[0].Placed} {
		figures.Print("comb_container_prefetched_first_instruction", first.Sub(time.UnixMicro(int64(at))).Seconds(), "s", append(labels, "by", byComb, "from", from)...)
	}
	folder, began := w.open(), time.Now()
	if err := w.bare(folder, name, ": > /out/first"); err != nil {
		b.Fatal(err)
	}
	figures.Print("comb_container_prefetched_first_instruction", w.made(folder, "first").Sub(began).Seconds(), "s", append(labels, "by", byEngine)...)
	if n := h.copies(); n != 1 {
		b.Errorf("a layer was read %d times", n)
	}
}
