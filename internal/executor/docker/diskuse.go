package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	measureEvery = time.Second // between two looks; after one that takes long the pause is
	pauseFactor  = 20          // so many times as long, but at most
	longestPause = 10 * time.Second
	maxDepth     = 200       // of nested folders
	maxFiles     = 2_000_000 // that one container may have
	maxFailures  = 30        // looks in a row at which the engine may fail
)

// DiskLimit says what a container may write.
type DiskLimit struct {
	MB   int64    `json:"mb,omitempty"`   // 0 is no limit
	Dirs []string `json:"dirs,omitempty"` // folders of this machine that count, besides its own
}

// DiskLimitFor is the limit of a task that asks for so many MiB, 0 for nothing. most is the upper
// bound, and the limit of a task that does not ask; 0 is no limit.
func DiskLimitFor(asked, most int64, dirs ...string) (DiskLimit, error) {
	if most > 0 && asked > most {
		return DiskLimit{}, fmt.Errorf("the task asks for %d MiB of disk, more than the %d MiB that a container may have here: ask for less, or an administrator gives more with comb serve --container-disk", asked, most)
	}
	if asked == 0 {
		asked = most
	}
	return DiskLimit{asked, dirs}, nil
}

// Watch measures a container until End, and calls over when it has more than it may; then End
// says why.
func (l *DiskLimit) Watch(host, name string, over func()) *DiskWatch {
	w := &DiskWatch{limit: *l, host: host, name: name, over: over}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	if l.MB > 0 {
		w.done.Go(func() { w.run(ctx) })
	}
	return w
}

// DiskWatch measures a container.
type DiskWatch struct {
	limit      DiskLimit
	host, name string
	over       func()
	cancel     context.CancelFunc
	done       sync.WaitGroup
	layer      *Disk  // once it is whole the engine need not be asked again
	why        string // set at the end
	failed     int
}

// End stops measuring, and says why the container had too much; "": it had not.
func (w *DiskWatch) End() string {
	w.cancel()
	w.done.Wait()
	return w.why
}

func (w *DiskWatch) run(ctx context.Context) {
	var engine *Engine
	for pause := measureEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if engine == nil && w.layer == nil {
			var err error
			if engine, err = OpenEngine(ctx, w.host); err != nil {
				continue // it measures again once the engine answers
			}
			defer engine.Close()
		}
		began := time.Now()
		if w.why = w.look(ctx, engine); w.why != "" {
			w.over()
			return
		}
		pause = min(max(measureEvery, pauseFactor*time.Since(began)), longestPause)
	}
}

// look measures once, and says what is wrong; "": nothing.
func (w *DiskWatch) look(ctx context.Context, engine *Engine) string {
	layer := w.layer
	if layer == nil {
		l, err := engine.Disk(ctx, w.name)
		if err != nil {
			return "" // it has ended, or the engine does not answer now
		}
		if layer = &l; l.Whole {
			w.layer = layer
			_ = engine.Close() // frees its connection
		}
	}
	m := &measure{ctx: ctx, limit: w.limit.MB << 20, seen: map[[2]uint64]bool{}}
	for _, dir := range slices.Concat(layer.Dirs, w.limit.Dirs) {
		if err := m.dir(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return fmt.Sprintf("what it wrote to its disk cannot be measured: %v", err)
		}
	}
	for _, file := range layer.Files {
		var st unix.Stat_t
		if unix.Lstat(file, &st) == nil { // an engine on another machine has none here
			m.bytes += st.Blocks * 512
		}
	}
	m.bytes += max(layer.Bytes, 0)
	if ctx.Err() != nil {
		return "" // it has ended meanwhile
	}
	switch w.failed++; {
	case m.bytes > m.limit:
		return fmt.Sprintf("it wrote %d MiB to its disk, more than the %d MiB that it may: write to a storage or the checkpoint folder, or ask for more (--disk, extras.comb.taskRoles.NAME.disk)", m.bytes>>20, w.limit.MB)
	case m.files > maxFiles:
		return fmt.Sprintf("it has %d files on its disk, more than the %d that a container may have: write to a storage", m.files, maxFiles)
	case w.failed == maxFailures:
		return "what it wrote to its disk cannot be measured: the container engine does not say it"
	case layer.Bytes >= 0:
		w.failed = 0
	}
	return ""
}

// measure adds up the content of folders.
type measure struct {
	ctx          context.Context // ends a look whose result is not needed any more
	limit, bytes int64
	files        int
	seen         map[[2]uint64]bool // files with several names
}

var errDeep = fmt.Errorf("it has folders more than %d deep", maxDepth)

// dir adds a folder. It ends early once the limits are exceeded.
func (m *measure) dir(path string) error {
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	return m.open(os.NewFile(uintptr(fd), path), 0)
}

// open adds an open folder and closes it. Folders are opened relative to each other, since a path
// could be too long.
func (m *measure) open(f *os.File, deep int) error {
	defer f.Close()
	if deep > maxDepth {
		return errDeep
	}
	for {
		if m.ctx.Err() != nil {
			return nil
		}
		names, _ := f.Readdirnames(1024) // a folder that is gone is empty
		for _, name := range names {
			if m.files++; m.files > maxFiles || m.bytes > m.limit {
				return nil
			}
			if err := m.one(f, name, deep); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			return nil
		}
	}
}

// one adds one file or folder. What disappears meanwhile counts 0.
func (m *measure) one(in *os.File, name string, deep int) error {
	var st unix.Stat_t
	if unix.Fstatat(int(in.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	if id := [2]uint64{st.Dev, st.Ino}; st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if m.seen[id] {
			return nil
		}
		m.seen[id] = true
	}
	m.bytes += st.Blocks * 512
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	fd, err := unix.Openat(int(in.Fd()), name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return m.open(os.NewFile(uintptr(fd), name), deep+1)
}
