package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/task"
	"github.com/combsched/comb/internal/spec/jobspec"
)

const (
	sigEnd = unix.SIGTERM // to a supervisor: end yourself and the task

	localHost = "127.0.0.1" // at which tasks of this machine reach each other
)

// prepare makes the task's directory and what its supervisor needs. A refusal
// says why the task cannot start here.
func (t *liveTask) prepare() (*spec, *private, *outcome) {
	role, refusal := t.check()
	if refusal != nil {
		return nil, nil, refusal
	}
	e, job := t.e, t.at.start.Job
	who, refusal := t.identify(e.containers.runs(role))
	if refusal != nil {
		return nil, nil, refusal
	}
	groups, err := t.groups(who)
	if err != nil {
		return nil, nil, &outcome{Refused: err.Error()}
	}
	own, err := t.private(role.Launch.Command, who)
	if err != nil {
		return nil, nil, &outcome{Refused: err.Error(), Job: !ofDisk(err), disk: ofDisk(err)}
	}
	jobDir := e.place.job(t.at.start.ID)
	checkpoints := e.place.checkpoints(t.at.start.ID)
	work := filepath.Join(t.dir, workDir)
	if err := errors.Join(os.MkdirAll(checkpoints, 0o700), os.MkdirAll(work, 0o700)); err != nil {
		return nil, nil, serverFault("make the task's directory", err)
	}
	blocks, err := e.ports.Of(jobDir, t.at.start)
	if err != nil {
		return nil, nil, serverFault("give ports", err)
	}
	if err := e.roster.ensure(t); err != nil {
		return nil, nil, serverFault("write the job's members", err)
	}
	order, err := task.UnpackingFor(job, jobDir, work, e.o.Code)
	if err != nil {
		return nil, nil, &outcome{Refused: "give the job its code: " + err.Error(), Job: !ofDisk(err),
			disk: ofDisk(err)}
	}
	s := &spec{
		Cluster: e.o.Cluster, Attempt: t.at.id, Task: t.n, Boot: e.boot, Shell: e.shell,
		Host: localHost, Ports: portNumbers(blocks, t.n, allLabels),
		Locks:   locksFor(filepath.Join(e.o.Dir, locksFolder), *t.start),
		Parents: e.parents, Code: order,
		Limits:   cgroup.Limits{Limits: role.Launch.Asks().WithDefaults(t.start.SKU, len(t.start.Place.Devices)), Pids: e.o.Pids},
		Each:     role.Launch.Limits.Or(t.start.SKU.Limits),
		Logs:     task.LogCaps{FileBytes: e.o.LogFile, Files: e.o.LogFiles, Rate: e.o.LogRate},
		Leftover: model.Duration(e.o.Leftover.Microseconds()),
		Suspend:  contractOf(job), Grace: job.Grace, As: who, Groups: groups,
	}
	seen := paths{checkpoints: checkpoints, files: t.dir, members: filepath.Join(jobDir, membersFile), host: loopback, code: work, place: t.start.Place}
	if e.containers.runs(role) {
		if err := e.containers.engine.Ask(t.starting); err != nil {
			return nil, nil, &outcome{Refused: err.Error()}
		}
		gang := e.containers.gang(t)
		seen = paths{checkpoints: insideCheckpoint, files: insideShared, members: insideMembers + "/" + membersFile, host: hosts(gang), code: insideWork, place: t.start.Place}
		if len(ownGPUs(t.start)) > 0 {
			seen.place = renumbered(t.start.Place)
		}
		refusal, own.surroundings = e.containers.arrange(t, role, s, gang), nil
	} else if s.Dir, err = workingDir(role.Launch.WorkDir, work, order != nil); err != nil {
		refusal = &outcome{Refused: err.Error(), Job: true}
	} else if who != nil {
		refusal = t.makeUserFolders(who, &seen)
	}
	if refusal != nil {
		return nil, nil, refusal
	}
	return s, own, t.write(s, role, blocks, seen)
}

// write mounts the task's storages and writes its spec. It comes after the image, which may have
// taken long to fetch.
func (t *liveTask) write(s *spec, role *model.Role, blocks []portBlock, seen paths) *outcome {
	job := t.at.start.Job
	data, err := seen.bind(t.e, job, s)
	if err != nil {
		var f *machine.StorageFault // a fault of its user's folder blames no node
		return &outcome{Refused: err.Error(), Fetch: errors.As(err, &f) && f.User}
	}
	var ignored []string
	s.Env, ignored = t.environment(job, blocks, seen)
	if err := safefile.Write(t.dir, specFile, s); err != nil {
		return serverFault("write the task's directory", err)
	}
	open := machine.WritableStorages(data)
	if s.Container == nil && s.As == nil && open != "" && noteOnce(t.e.place.job(t.at.id.Job), "storages") {
		t.notice("the job's tasks are processes, which could write storages that are read-only: " + open)
	}
	t.warn(s, role.Launch.Image, ignored)
	return nil
}

// check looks for what makes a start impossible before anything is made.
func (t *liveTask) check() (*model.Role, *outcome) {
	job, ts := t.at.start.Job, t.start
	if !t.e.o.HasNode(ts.Place.Node) {
		return nil, &outcome{Refused: fmt.Sprintf("node %s is not this machine", ts.Place.Node)}
	}
	if ts.Role < 0 || int(ts.Role) >= len(job.Roles) {
		return nil, &outcome{Refused: fmt.Sprintf("the job has no role number %d", ts.Role), Job: true}
	}
	role := &job.Roles[ts.Role]
	if role.Launch.Image != "" && t.e.o.RequireImage && !t.e.containers.runs(role) {
		return nil, &outcome{Job: true, Refused: fmt.Sprintf(
			"role %s asks for the image %s, and this server runs plain processes and was told to refuse images", role.Name, role.Launch.Image)}
	}
	if len(role.Launch.Command) == 0 && !t.e.containers.runs(role) {
		return nil, &outcome{Job: true, Refused: fmt.Sprintf("role %s has no commands, and this server runs plain "+
			"processes, for which no image says what they run: write its commands", role.Name)}
	}
	if above := role.Launch.Limits.Above(ts.SKU.Limits); above != "" {
		return nil, &outcome{Job: true, Refused: fmt.Sprintf("%s, which SKU %s allows: "+
			"ask for less (extras.comb.taskRoles.%s.limits)", above, ts.SKU.Name, role.Name)}
	}
	if why := t.e.guard.Missing(t.starting, ts.SKU, ts.Place); why != "" {
		t.e.guard.Soon()
		return nil, &outcome{Refused: why}
	}
	return role, nil
}

// private is the script with its secrets filled in, and the caller's environment.
func (t *liveTask) private(lines []string, who *task.Account) (*private, error) {
	var secrets map[string]string
	if t.e.o.Secrets != nil {
		var err error
		if secrets, err = t.e.o.Secrets(t.at.start.ID); err != nil {
			return nil, fmt.Errorf("read the job's secrets: %w", err)
		}
	}
	caller, err := jobspec.CallerEnv(secrets)
	if err != nil {
		return nil, err
	}
	text, err := jobspec.RenderSecrets(strings.Join(lines, "\n")+"\n", secrets)
	if err != nil {
		return nil, err
	}
	if len(text) > maxScript {
		return nil, fmt.Errorf("the commands have %d bytes, more than %d", len(text), maxScript)
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, fmt.Errorf("the commands hold a zero byte at offset %d", i)
	}
	return &private{script: []byte(text), surroundings: t.surroundings(caller, who)}, nil
}

// workingDir resolves a job's own directory; "" is the task's. A directory in the job's code is
// not there yet.
func workingDir(asked, own string, coded bool) (string, error) {
	if asked == "" || coded && !filepath.IsAbs(asked) {
		return filepath.Join(own, asked), nil
	}
	if !filepath.IsAbs(asked) {
		return "", fmt.Errorf("the working directory %q is not an absolute path", asked)
	}
	st, err := os.Stat(asked)
	if err != nil {
		return "", fmt.Errorf("the working directory cannot be used: %w", err)
	}
	if !st.IsDir() {
		return "", fmt.Errorf("the working directory %q is not a directory", asked)
	}
	return asked, nil
}

// warn tells the user, once for each job, what this runtime does not support.
func (t *liveTask) warn(s *spec, image string, ignored []string) {
	l, boxed := s.Limits, s.Container != nil
	jobDir := t.e.place.job(t.at.id.Job)
	if image != "" && !boxed && noteOnce(jobDir, "image") {
		t.notice(fmt.Sprintf("the image %s is ignored: tasks run as processes of this machine", image))
	}
	if len(ignored) > 0 && noteOnce(jobDir, "env") {
		t.notice("these variables are set by the platform, the job's values are ignored: " +
			strings.Join(ignored, ", "))
	}
	asked := map[string]bool{"cpu": l.MilliCPU > 0, "memory": l.MemoryMB > 0, "pids": true}
	var open []string
	for _, c := range cgroup.Wanted() {
		if why, ok := t.e.missing[c]; ok && asked[c] {
			open = append(open, fmt.Sprintf("%s (%s)", c, why))
		}
	}
	if len(open) > 0 && !boxed && noteOnce(jobDir, "limits") {
		t.notice("limits that this machine does not enforce: " + strings.Join(open, "; "))
	}
}

// spawn starts the supervisor in a session of its own and sends it what no file may hold. A nil
// own is for a supervisor that takes over what runs. The pipe that it returns brings the
// supervisor's identity message.
func (t *liveTask) spawn(own *private) (*os.Process, *os.File, error) {
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer stdin.Close()
	status, theirs, err := os.Pipe()
	if err != nil {
		feed.Close()
		return nil, nil, err
	}
	defer theirs.Close()
	notes, err := os.OpenFile(filepath.Join(t.dir, noteFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		feed.Close()
		status.Close()
		return nil, nil, err
	}
	defer notes.Close()
	p, err := os.StartProcess(t.e.o.Self, []string{t.e.o.Self, "supervise", t.dir}, &os.ProcAttr{
		Dir: "/", Env: smallMemoryEnv(),
		Files: []*os.File{stdin, notes, notes, theirs},
		Sys:   &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		feed.Close()
		status.Close()
		return nil, nil, err
	}
	go func() {
		defer feed.Close()
		if own != nil {
			_, _ = feed.Write(own.encode()) // a supervisor that is gone is noticed by its end
		}
	}()
	return p, status, nil
}

// readStatus waits for the supervisor's message; nil when it ended without one.
func readStatus(f *os.File) *identity {
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, safefile.Longest))
	if err != nil || len(data) == 0 {
		return nil
	}
	id := &identity{}
	if json.Unmarshal(data, id) != nil {
		return nil
	}
	return id
}

// longestWords bounds the last line that is told, in bytes.
const longestWords = 200

// lastWords is the last line that the task wrote to standard error, without the values of its
// job's secrets; "" where there is none.
func (t *liveTask) lastWords() string {
	files, err := filepath.Glob(filepath.Join(t.dir, Stderr+".*"))
	if err != nil || len(files) == 0 {
		return ""
	}
	slices.Sort(files)
	text := strings.TrimPrefix(lastLine(files[len(files)-1]), "/proc/self/fd/3: ") // said by bash
	if t.e.o.Secrets != nil {
		secrets, err := t.e.o.Secrets(t.at.id.Job)
		if err != nil {
			return "" // its secrets are not known, so they cannot be left out
		}
		for _, value := range secrets {
			if value != "" {
				text = strings.ReplaceAll(text, value, "***")
			}
		}
	}
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if len(text) > longestWords {
		text = strings.ToValidUTF8(text[:longestWords], "") + "..."
	}
	return text
}

// lastLine is the last line of a file, for a message; "" where there is none, or where it has
// more than 4,096 bytes.
func lastLine(path string) string {
	f, err := safefile.OpenPlain(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	whole := true
	if st, err := f.Stat(); err == nil && st.Size() > 4096 {
		_, err = f.Seek(-4096, io.SeekEnd)
		whole = err != nil
	}
	data, _ := io.ReadAll(io.LimitReader(f, 4096))
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) == 1 && !whole {
		return ""
	}
	return strings.ToValidUTF8(lines[len(lines)-1], "?")
}

// onDisk lists the tasks of an attempt that have files.
func (e *Executor) onDisk(a model.AttemptID) []int32 {
	entries, err := os.ReadDir(e.place.attempt(a))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			e.o.Log.Warn("list an attempt's tasks", "attempt", a, "error", err)
		}
		return nil
	}
	var tasks []int32
	for _, entry := range entries {
		var n int32
		if _, err := fmt.Sscanf(entry.Name(), "%d", &n); err == nil && entry.IsDir() && fmt.Sprint(n) == entry.Name() {
			tasks = append(tasks, n)
		}
	}
	return tasks
}

// noteOnce returns true the first time it is called for a job, also over restarts, and also
// before the job has a folder.
func noteOnce(jobDir, what string) bool {
	if os.MkdirAll(jobDir, 0o700) != nil {
		return false
	}
	f, err := os.OpenFile(jobDir+"/noted."+what, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// Platform are the user numbers that the server and process 1 of containers run as.
func Platform() []int64 { return []int64{int64(os.Geteuid()), initUser, int64(initUserID())} }

// identify says as which user a task runs; nil: as its image says, or as the server. Numbers of
// root or of the platform are refused by the directory of users, and once more here, since a task
// of root could read all that the server keeps. A job keeps its numbers, so it ends.
func (t *liveTask) identify(boxed bool) (*task.Account, *outcome) {
	id, err := t.at.whose()
	applied := os.Geteuid() == 0 || boxed
	if err != nil && applied {
		return nil, &outcome{Job: true, Refused: err.Error()}
	}
	if id.UID == 0 {
		return nil, nil
	}
	user := string(t.at.start.Job.User)
	for _, number := range []uint32{id.UID, id.GID} {
		if own := number == uint32(os.Geteuid()); own || number == 0 || number == uint32(initUserID()) {
			return nil, &outcome{Job: true, Refused: fmt.Sprintf("tasks of this job are to run with uid %d and gid "+
				"%d, which user %s had when it was submitted, and %d is root's or Comb's own: an administrator gives "+
				"the user another number (comb user update %s --uid N --gid N); then submit the job again",
				id.UID, id.GID, user, number, user)}
		}
	}
	if !applied {
		if noteOnce(t.e.place.job(t.at.id.Job), "identity") {
			t.notice(fmt.Sprintf("uid %d of user %s is not applied: the job's tasks are processes, "+
				"and the server is not root", id.UID, user))
		}
		return nil, nil
	}
	who := &task.Account{UID: id.UID, GID: id.GID, Name: user, Home: filepath.Join(t.dir, workDir)}
	if boxed {
		who.Home = insideWork
	}
	return who, nil
}

// groups are the extra groups of a task, by the SKU of its leaves. A process without a user of
// its own has the server's groups.
func (t *liveTask) groups(who *task.Account) ([]uint32, error) {
	list, err := task.Groups(t.start.SKU.Groups, sockets(t.e.containers.engine), cell.PrivilegedGroup)
	boxed := t.e.containers.runs(&t.at.start.Job.Roles[t.start.Role])
	if err == nil && len(list) > 0 && who == nil && !boxed && os.Geteuid() != 0 {
		have, _ := os.Getgroups()
		for i, gid := range list {
			if !slices.Contains(have, int(gid)) && noteOnce(t.e.place.job(t.at.id.Job), "groups") {
				t.notice(fmt.Sprintf("group %s of SKU %s is not applied: the job's tasks are processes, and the "+
					"server's user is not in that group",
					t.start.SKU.Groups[min(i, len(t.start.SKU.Groups)-1)], t.start.SKU.Name))
			}
		}
	}
	return list, err
}

// sockets are those of the machine's container engines, also of one that runs no task: a process
// that may write to such a socket may do everything.
func sockets(engine *docker.Engine) []string {
	list := []string{docker.DefaultHost}
	if engine != nil {
		list = append(list, engine.Host())
	}
	return list
}

// giveFolders makes folders that belong to a user. What is in them keeps its owner. A server that
// is not root cannot change owners.
func giveFolders(who *task.Account, folders ...string) (err error) {
	for _, dir := range folders {
		err = errors.Join(err, os.MkdirAll(dir, 0o700))
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Lchown(dir, int(who.UID), int(who.GID)), os.Chmod(dir, 0o700))
		}
	}
	return err
}

// openWay lets a process of another user reach its own folders: those above can be passed and not
// read. The files beside them are only the server's, and those of other jobs are in folders of
// their own.
func (t *liveTask) openWay(who *task.Account) (err error) {
	for _, dir := range []string{filepath.Dir(t.e.o.Dir), t.e.o.Dir} {
		st, statErr := os.Stat(dir)
		if err = errors.Join(err, statErr); statErr == nil && st.Mode().Perm()&0o001 == 0 {
			err = errors.Join(err, os.Chmod(dir, st.Mode().Perm()|0o011))
		}
	}
	for _, dir := range []string{t.e.place.job(t.at.id.Job), t.e.place.attempt(t.at.id), t.dir} {
		err = errors.Join(err, os.Lchown(dir, 0, int(who.GID)), os.Chmod(dir, 0o710))
	}
	return err
}

// makeUserFolders makes the folders of a process that runs as a user of its own, and says where it
// sees them. The server may not open folders above the data directory. If one is closed to the
// user, neither the job nor the node is to blame: jobs of other users run there.
func (t *liveTask) makeUserFolders(who *task.Account, seen *paths) *outcome {
	seen.files = filepath.Join(t.dir, sharedDir)
	err := errors.Join(giveFolders(who, seen.checkpoints, seen.code, seen.files), t.openWay(who))
	if err == nil && t.at.start.Job.Varies() {
		seen.members = filepath.Join(t.e.place.job(t.at.id.Job), sharedMembers, membersFile)
		err = t.e.roster.share(t.at.id.Job)
	}
	if err != nil {
		return serverFault("make the task's directory", err)
	}
	if dir := task.Closed(who, seen.files); dir != "" {
		return &outcome{Fetch: true, Refused: fmt.Sprintf("the folder %s above this server's files is closed to "+
			"uid %d of user %s: an administrator lets others pass it (chmod o+x %s), or keeps the server's files "+
			"elsewhere (comb serve --data)", dir, who.UID, who.Name, dir)}
	}
	return nil
}

// Closed is the first folder on the way to a path, the path included, that a user's processes
// could not pass; "": all are open. This process is root's.
func Closed(path string, uid, gid int64) string {
	return task.Closed(&task.Account{UID: uint32(uid), GID: uint32(gid)}, path)
}

// ownerOf is the user that gets the folders of storages.
func ownerOf(who *task.Account) *machine.StorageOwner {
	if who == nil {
		return nil
	}
	return &machine.StorageOwner{UID: who.UID, GID: who.GID}
}
