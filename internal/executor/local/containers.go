package local

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
	"github.com/combsched/comb/internal/spec/jobspec"

	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// initUser is the user of process 1 of containers where the server is root; else that is
	// the server's user. The number is uncommon, so that no image's user has it.
	initUser = 64789

	labelTop = "comb." // prefix of a container's labels: cluster, job, attempt, task

	// insideMB and insidePids are for process 1, on top of the task's own limits.
	insideMB, insidePids = 32, 32
)

// containers runs the tasks of jobs that name an image, in containers.
type containers struct {
	e      *Executor
	engine *docker.Engine // nil: there are no containers
	images *docker.Images
	ready  sync.Map         // the jobs that are being prepared, or were just
	nets   *docker.Networks // nil: there are no containers
	libs   task.Libraries
}

// runs reports whether a task of a role runs in a container.
func (b *containers) runs(role *model.Role) bool { return b.engine != nil && role.Launch.Image != "" }

func initUserID() int {
	if id := os.Geteuid(); id != 0 {
		return id
	}
	return initUser
}

// open lets process 1 of containers into the folder of locks, and reads what is known of images.
func (b *containers) open(e *Executor, engine *docker.Engine) error {
	b.e, b.engine = e, engine
	if engine == nil {
		return nil
	}
	b.nets = &docker.Networks{Engine: engine, Cluster: safeName(e.o.Cluster), Label: labelTop, Lives: e.lives, Log: e.o.Log}
	var err error
	if b.libs, err = task.CollectLibraries(e.o.Dir); err != nil {
		return fmt.Errorf("copy the libraries that this program was built with: %w", err)
	}
	if b.images, err = docker.OpenImages(e.ctx, e.o.Dir, engine, e.o.Images); err != nil || os.Geteuid() != 0 {
		return err
	}
	return os.Chown(filepath.Join(e.o.Dir, locksFolder), initUser, initUser)
}

// arrange fills in how a task runs in a container, and makes its folders. gang are the tasks
// whose addresses the task waits for.
func (b *containers) arrange(t *liveTask, role *model.Role, s *spec, gang []int32) *outcome {
	image, refusal := b.image(t, role.Launch.Image)
	if refusal != nil {
		return refusal
	}
	if err := b.engine.Fits(t.starting, &image, fmt.Sprintf("comb-%s-look", safeName(b.e.o.Cluster)), insideTop, model.StorageTop); err != nil {
		return unfit(role.Launch.Image, err)
	}
	runs, refusal := ownProgram(role, &image)
	if refusal != nil {
		return refusal
	}
	own := role.Launch.WorkDir == "" && s.Code == nil && image.WorkDir != ""
	s.Dir = s.Code.WorkDir(cmp.Or(role.Launch.WorkDir, insideWork), insideWork)
	if own {
		s.Dir = image.WorkDir
	}
	if !filepath.IsAbs(s.Dir) {
		return &outcome{Refused: fmt.Sprintf("the working directory %q is not an absolute path", s.Dir), Job: true}
	}
	disk, err := docker.DiskLimitFor(role.Launch.DiskMB, b.e.o.ContainerDiskMB, filepath.Join(t.dir, workDir), filepath.Join(t.dir, sharedDir))
	if err != nil {
		return &outcome{Refused: err.Error(), Job: true}
	}
	mounts, err := b.folders(t, s.As)
	if err != nil {
		return serverFault("make the task's directory", err)
	}
	if s.Code != nil {
		mounts = append(mounts, docker.Mount{Source: s.Code.Archive, Target: insideCode, ReadOnly: true})
		s.Code.Archive, s.Code.Dir = insideCode, insideWork
	}
	net, alias, err := b.network(t, role)
	if err != nil {
		return &outcome{Refused: err.Error()}
	}
	each, why, job := ulimits(role, &t.start.SKU, b.engine.Most)
	if why != "" {
		return &outcome{Refused: why, Job: job}
	}
	gpus, cdi := ownGPUs(t.start), false
	if len(gpus) > 0 {
		if cdi, err = b.engine.ByCDI(t.starting); err != nil {
			return &outcome{Refused: err.Error()}
		}
	}
	s.Parents = nil // the engine makes the groups
	s.Container = &containerSpec{Engine: b.engine.Host(), InitUser: initUserID(), Image: role.Launch.Image, CPU: image.CPU,
		User: image.User, OwnDir: own, Runs: runs, Gang: gang, Disk: disk, Own: role.Launch.Limits,
		StartSlots: filepath.Join(b.e.o.Dir, locksFolder),
		Box: docker.Box{
			Name: b.name(t), Image: image.ID, Labels: b.labels(t),
			Command: []string{insideProgram, "inside", fmt.Sprint(initUserID())},
			Runtime: b.engine.About().Plain,
			Env:     append(hideDevices(len(gpus) > 0 && !cdi), smallMemoryEnv()...),
			GPUs:    gpus, CDI: cdi, ImageEnv: image.Env, Top: insideTop,
			Devices: machine.DeviceFiles(t.start.SKU, t.start.Place), Caps: task.NeededCapabilities(), Net: net, Alias: alias,
			MilliCPU: s.Limits.MilliCPU, Pids: b.e.o.Pids + insidePids,
			ShmMB: cmp.Or(role.Launch.ShmMB, s.Limits.MemoryMB, hostShmMB()), Ulimits: each,
			Mounts: mounts, Masked: b.engine.Masked(),
		}}
	b.libs.Needed(&s.Container.Box, insideLibraries)
	nameMounts(&s.Container.Box)
	if mb := s.Limits.MemoryMB; mb > 0 {
		s.Container.Box.MemoryMB = mb + insideMB
	}
	return nil
}

// nameMounts tells process 1 all mounts below insideTop: it cannot trust a file there before it
// knows that nothing else is mounted.
func nameMounts(b *docker.Box) {
	for _, m := range b.Mounts {
		if strings.HasPrefix(m.Target, insideTop+"/") {
			b.Command = append(b.Command, m.Target)
		}
	}
}

// ownProgram is the image's program, for a role without commands; nil for one with commands.
func ownProgram(role *model.Role, image *docker.Image) ([]string, *outcome) {
	if len(role.Launch.Command) > 0 {
		return nil, nil
	}
	if len(image.Runs) == 0 || image.Runs[0] == "" {
		return nil, &outcome{Job: true, Refused: fmt.Sprintf("the image %s has neither ENTRYPOINT nor CMD, and role %s "+
			"has no commands: write what it runs", role.Launch.Image, role.Name)}
	}
	return image.Runs, nil
}

// hostShmMB is the /dev/shm of a task whose memory is not limited, in MiB: half of the machine's
// memory, which is also Linux's default.
func hostShmMB() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0 // the engine's own default
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit) >> 21)
}

// bind looks up a job's storages, and mounts them where a container sees them.
func (p *paths) bind(e *Executor, job *model.Job, s *spec) (data []machine.SeenStorage, err error) {
	data, err = machine.StoragesOf(e.o.Storage, job, ownerOf(s.As))
	if p.storages = data; s.Container != nil {
		p.storages = machine.StoragesInside(data)
		for i, in := range p.storages {
			m := docker.Mount{Source: data[i].At, Target: in.At, ReadOnly: in.ReadOnly}
			s.Container.Box.Mounts = append(s.Container.Box.Mounts, m)
		}
	}
	return data, err
}

// folders makes the folders that a container shares with this machine.
func (b *containers) folders(t *liveTask, who *task.Account) ([]docker.Mount, error) {
	jobDir := b.e.place.job(t.at.id.Job)
	open := map[string]string{ // open to any image's user; the folders above are closed
		insideShared: filepath.Join(t.dir, sharedDir), insideWork: filepath.Join(t.dir, workDir),
		insideCheckpoint: filepath.Join(jobDir, "checkpoint"),
	}
	kept := map[string]string{insidePrivate: t.dir, insideGang: filepath.Join(b.e.place.attempt(t.at.id), gangDir)}
	mounts := []docker.Mount{{Source: b.e.o.Self, Target: insideProgram, ReadOnly: true},
		// The whole folder: the files of turns are made and removed while others run.
		{Source: filepath.Join(b.e.o.Dir, locksFolder), Target: insideLocks}}
	var err error
	for _, target := range slices.Sorted(maps.Keys(kept)) {
		err = errors.Join(err, os.MkdirAll(kept[target], 0o700))
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(kept[target], initUser, initUser))
		}
		mounts = append(mounts, docker.Mount{Source: kept[target], Target: target})
	}
	for _, target := range slices.Sorted(maps.Keys(open)) {
		if who != nil && os.Geteuid() == 0 && target != insideShared { // process 1 reads it, too
			err = errors.Join(err, giveFolders(who, open[target]))
		} else {
			err = errors.Join(err, os.MkdirAll(open[target], 0o700), os.Chmod(open[target], 0o777))
		}
		mounts = append(mounts, docker.Mount{Source: open[target], Target: target})
	}
	if t.at.start.Job.Varies() {
		err = errors.Join(err, b.e.roster.share(t.at.id.Job))
		mounts = append(mounts, docker.Mount{Source: filepath.Join(jobDir, sharedMembers), Target: insideMembers, ReadOnly: true})
	}
	return mounts, err
}

// network is the network of a task's container, "" where the engine has none. alias is the task's
// name in it.
func (b *containers) network(t *liveTask, role *model.Role) (net, alias string, err error) {
	if !b.engine.About().Network {
		return "", "", nil
	}
	single := alone(t.at.start.Job)
	if !single {
		alias = fmt.Sprintf("%s-%d", role.Name, t.start.Index)
	}
	net, err = b.nets.For(t.starting, int64(t.at.id.Job), single)
	return net, alias, err
}

// leave removes the network of a job that has no attempt left.
func (b *containers) leave(at *attempt) {
	boxed := func(r model.Role) bool { return b.runs(&r) }
	if at.start == nil {
		return // only its files were known; what is left is swept when the server starts
	}
	if job := at.start.Job; !alone(job) && slices.ContainsFunc(job.Roles, boxed) {
		b.e.wg.Go(func() { b.nets.Leave(b.e.ctx, int64(at.id.Job)) })
	}
}

// alone says that a job has one task.
func alone(job *model.Job) bool { return len(job.Roles) == 1 && job.Roles[0].Tasks == 1 }

// gang returns the tasks whose addresses a task in a container waits for. It is nil where they
// have no network, or where one of them is a process, whose address containers cannot reach.
func (b *containers) gang(t *liveTask) []int32 {
	if !b.engine.About().Network {
		return nil
	}
	var tasks []int32
	for _, one := range t.at.start.Tasks {
		if !b.runs(&t.at.start.Job.Roles[one.Role]) {
			return nil
		}
		tasks = append(tasks, one.Task)
	}
	return tasks
}

// hosts returns the addresses of the job's tasks as a task in a container is told them. Those of
// other gangs are not known.
func hosts(gang []int32) func(int32) string {
	if gang == nil {
		return loopback
	}
	met := map[int32]bool{}
	for _, task := range gang {
		met[task] = true
	}
	return func(n int32) string {
		if !met[n] {
			return ""
		}
		return task.Placeholder(n)
	}
}

// hideDevices keeps a runtime that reads variables, also an image's, from adding devices by
// itself. Where the engine's driver adds them, the driver sets that variable.
func hideDevices(byDriver bool) []string {
	if byDriver {
		return nil
	}
	return []string{"NVIDIA_VISIBLE_DEVICES=void"}
}

// Images implements executor.HasImages.
func (e *Executor) Images() executor.Images {
	if e.containers.engine == nil {
		return nil
	}
	return e.containers.images
}

// image is what a job's image stands for on this machine. A task waits until the images of its
// whole gang are here, for a bounded time.
func (b *containers) image(t *liveTask, name string) (docker.Image, *outcome) {
	secrets, err := b.secrets(t.at.id.Job)
	if err != nil {
		return docker.Image{}, serverFault("read the job's secrets", err)
	}
	names, found := map[string]bool{name: true}, docker.Image{}
	for _, one := range t.at.start.Tasks {
		if image := t.at.start.Job.Roles[one.Role].Launch.Image; image != "" {
			names[image] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		w, err := b.want(t.at.id.Job, t.at.start.Job, n, secrets)
		if err != nil {
			return found, &outcome{Refused: err.Error(), Job: true}
		}
		image, err := b.images.Get(t.starting, w)
		var f *docker.ImageFault
		switch {
		case errors.As(err, &f):
			return found, &outcome{Refused: f.Say, Job: f.Job, Fetch: f.Fetch}
		case err != nil:
			return found, serverFault("note the job's image", err)
		case n == name:
			found = image
		}
	}
	return found, nil
}

func (b *containers) secrets(id model.JobID) (map[string]string, error) {
	if b.e.o.Secrets == nil {
		return nil, nil
	}
	return b.e.o.Secrets(id)
}

// want is a job's request for an image, with its credentials.
func (b *containers) want(id model.JobID, job *model.Job, name string,
	secrets map[string]string) (*docker.ImageWant, error) {
	w := &docker.ImageWant{Name: name, Dir: b.e.place.job(id), VC: string(job.VC),
		Always: slices.ContainsFunc(job.Roles, func(r model.Role) bool {
			return r.Launch.Image == name && r.Launch.Pull == "always"
		}),
		Tell: func(about, text string) { b.e.tell(model.Notice{Job: id, About: about, Message: text}) }}
	login, err := jobspec.LoginOf(secrets, name)
	if login != nil {
		w.Login = &docker.RegistryLogin{Login: docker.Login{User: login.User, Password: login.Password}, Secret: login.Secret}
	}
	return w, err
}

// prepareAgain is how long a job is not prepared for again.
const prepareAgain = time.Minute

// Prepare implements engine.Preparer: it fetches the images of a job whose gang has a
// reservation. What fails is reported by the start.
func (e *Executor) Prepare(id model.JobID, job *model.Job) {
	b := &e.containers
	if b.engine == nil {
		return
	}
	if _, busy := b.ready.LoadOrStore(id, true); busy {
		return
	}
	e.wg.Go(func() {
		defer b.ready.Delete(id)
		secrets, err := b.secrets(id)
		for i := range job.Roles {
			if name := job.Roles[i].Launch.Image; name != "" && err == nil {
				var w *docker.ImageWant
				if w, err = b.want(id, job, name, secrets); err == nil {
					err = b.images.Prefetch(e.ctx, w)
				}
			}
		}
		if err != nil {
			e.o.Log.Info("make ready for a job", "job", id, "error", err)
		}
		select {
		case <-e.ctx.Done():
		case <-time.After(prepareAgain):
		}
	})
}

func (b *containers) name(t *liveTask) string {
	return fmt.Sprintf("comb-%s-%s-%d", safeName(b.e.o.Cluster), t.at.id, t.n)
}

func (b *containers) labels(t *liveTask) map[string]string {
	return map[string]string{labelTop + "cluster": b.e.o.Cluster, labelTop + "job": fmt.Sprint(int64(t.at.id.Job)),
		labelTop + "attempt": t.at.id.String(), labelTop + "task": fmt.Sprint(t.n)}
}

const (
	sweepPause = 5 * time.Second  // between looks for an absent engine at the server's start
	sweepAgain = 20 * time.Second // between looks for what an unreachable engine could not remove
)

// takenUp is how long a new caretaker may take to tell that its container had ended before.
const takenUp = 2 * time.Second

// sweep removes the containers of unknown attempts, with what runs in them. Where no engine
// answers, it does so as soon as one does. Containers that end later are removed when their
// attempt is over.
func (b *containers) sweep(known map[string]bool) []string {
	if b.engine == nil {
		return nil
	}
	names, err := b.remove(known, false)
	if err != nil {
		b.e.o.Log.Warn("look for containers of unknown attempts; it is tried again", "error", err)
	}
	b.e.wg.Go(func() {
		for {
			pause := sweepAgain
			if err != nil {
				pause = sweepPause
			}
			select {
			case <-b.e.ctx.Done():
				return
			case <-time.After(pause):
			}
			if err != nil {
				_, err = b.remove(known, false)
			} else {
				_, _ = b.remove(map[string]bool{}, true) // an engine that is away may be back next time
			}
		}
	})
	return names
}

// remove removes containers of unknown attempts; with ended it leaves running ones alone.
func (b *containers) remove(known map[string]bool, ended bool) (names []string, err error) {
	ctx := b.e.ctx // an engine that hangs does not delay the server's end
	found, err := b.engine.List(ctx, labelTop+"cluster", b.e.o.Cluster)
	if err != nil {
		return nil, err
	}
	b.e.addPresent(known) // what was made until now is known by now
	for _, name := range slices.Sorted(maps.Keys(found)) {
		attempt, task := found[name][labelTop+"attempt"], found[name][labelTop+"task"]
		if known[attempt] || !plainTask(attempt, task) {
			continue
		}
		st, err := b.engine.State(ctx, name)
		if ended && (err != nil || st.Running) {
			continue
		}
		err = b.engine.Remove(ctx, name)
		b.e.o.Log.Warn("removed a container of an attempt that the server does not know", "container", name, "ran", st.Running, "error", err)
		if st.Running {
			names = append(names, attempt+"/"+task)
		}
	}
	return names, b.nets.RemoveUnused(ctx)
}

// takeUp starts another caretaker for a task in a container, which ran on meanwhile. Only that
// caretaker's word, or a proof of death, ends the task.
func (t *liveTask) takeUp(s *spec) {
	t.fateKnown()
	told := t.identified(s)
	for said := ""; t.e.ctx.Err() == nil; {
		child, status, err := t.spawn(nil)
		if err == nil {
			status.Close() // the file tells it, too
			p := process.Of(child.Pid)
			t.owned(p)
			// One that had ended is told by then, in its order among the ends of its gang. No end
			// waits longer for one that lives.
			soon := time.AfterFunc(takenUp, t.fateDecided)
			t.await(s, p, told)
			soon.Stop()
			if t.e.ctx.Err() != nil {
				return
			}
			_, _ = child.Wait() // it has ended: this only collects its exit
			if o, ok := t.outcome(s); ok {
				t.tellOutcome(o)
				return
			}
			err = fmt.Errorf("its new supervisor ended: %s", cmp.Or(lastLine(filepath.Join(t.dir, noteFile)), "it left no reason"))
		}
		if said != err.Error() {
			said = err.Error()
			t.unknown(said)
			t.fateDecided()
		}
		select {
		case <-time.After(time.Second):
		case <-t.e.ctx.Done():
		}
	}
}
