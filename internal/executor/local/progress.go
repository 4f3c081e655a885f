package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/task"
)

const (
	progressEvery   = time.Second // between two facts, at least
	maxProgressRead = 1 << 20     // bytes in one look; the rest waits for the next
	maxProgressTail = 16 << 20    // bytes in the last look
)

// told is up to where a task's progress file was told, so that the next server continues there.
// It is written one look late: when the server dies, the last fact may not be durable, and is
// then told again.
type told struct {
	Offset int64  `json:"offset"`
	File   string `json:"file,omitempty"` // which file: see whichFile
}

// progress follows one task's progress file. Between two facts only the last line counts, but no
// checkpoint is skipped.
type progress struct {
	t        *liveTask
	file     string
	at       told // the first byte that is not read
	confirm  told // to be written at the next look
	written  told
	skipping bool // inside a line that is too long
	point    *model.Progress
	latest   *model.Progress
	warned   bool
}

func newProgress(t *liveTask) *progress {
	p := &progress{t: t, file: filepath.Join(t.spec().files(t.dir), progressFile)}
	var before told
	if safefile.Read(t.dir, toldFile, &before) == nil && before.Offset > 0 {
		p.at, p.confirm, p.written = before, before, before
	}
	return p
}

// look reads what is new and tells at most one fact.
func (p *progress) look() {
	if p.confirm != p.written {
		if safefile.Write(p.t.dir, toldFile, p.confirm) == nil {
			p.written = p.confirm
		}
	}
	p.read(maxProgressRead)
	if p.tellOne(&p.point) || p.tellOne(&p.latest) {
		p.confirm = p.at
	}
}

// last tells all that is left, when the task has ended.
func (p *progress) last() {
	p.read(maxProgressTail)
	p.tellOne(&p.point)
	p.tellOne(&p.latest)
}

func (p *progress) tellOne(f **model.Progress) bool {
	if *f == nil {
		return false
	}
	p.t.e.tell(**f)
	*f = nil
	return true
}

// read takes whole lines; a last line without its newline waits.
func (p *progress) read(limit int64) {
	f, err := safefile.OpenPlain(p.file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.warn()
		}
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return
	}
	is := whichFile(f)
	if st.Size() < p.at.Offset || p.at.File != "" && p.at.File != is {
		p.at.Offset, p.skipping = 0, false // the task began it anew, or put another in its place
	}
	p.at.File = is
	if st.Size() == p.at.Offset {
		return
	}
	if _, err := f.Seek(p.at.Offset, io.SeekStart); err != nil {
		return
	}
	r := bufio.NewReaderSize(io.LimitReader(f, limit), task.LongestProgress)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case err == nil:
			p.line(line)
		case errors.Is(err, bufio.ErrBufferFull):
			p.skipping = true
			p.warn()
		default:
			if p.skipping {
				p.at.Offset += int64(len(line))
			}
			return
		}
		p.at.Offset += int64(len(line))
	}
}

// whichFile tells a file from a later one of the same name: by its inode, and by its time of
// birth where the file system has it, since inodes are reused.
func whichFile(f *os.File) string {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

func (p *progress) line(line []byte) {
	if p.skipping {
		p.skipping = false
		return
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	f, err := task.ParseProgress(line)
	if err != nil {
		p.warn()
		return
	}
	f.Attempt, f.Task = p.t.at.id, p.t.n
	if !f.Checkpoint {
		p.latest = &f
		return
	}
	if p.latest != nil { // it is not told any more
		task.FillProgress(&f, p.latest)
	}
	p.point, p.latest = &f, nil
}

func (p *progress) warn() {
	if p.warned {
		return
	}
	p.warned = true
	if noteOnce(p.t.e.place.job(p.t.at.id.Job), "progress") {
		p.t.notice("lines of " + "COMB_PROGRESS_FILE that are not one JSON object of at most 4096 bytes are ignored")
	}
}
