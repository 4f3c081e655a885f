package kube

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/executor"
)

// segment is one file of a log. It holds the bytes of the stream from base on.
type segment struct {
	name       string
	base, size int64
}

func (s segment) end() int64 { return s.base + s.size }

const textFile = "stdout"

// nameOf is the name of the file that begins at an offset of the stream.
func nameOf(base int64) string {
	if base == 0 {
		return textFile
	}
	return fmt.Sprintf("%s.%020d", textFile, base)
}

// segments lists the files of the log in a folder.
func segments(dir string) (list []segment, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		digits, _ := strings.CutPrefix(e.Name(), textFile+".")
		base, _ := strconv.ParseInt(digits, 10, 64) // 0 where it is no number
		if e.Name() != nameOf(base) {
			continue
		}
		if info, err := e.Info(); err == nil { // else it went meanwhile
			list = append(list, segment{e.Name(), base, info.Size()})
		}
	}
	slices.SortFunc(list, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	return list, err
}

// gapIn returns the part of the stream that was dropped; both are 0 where nothing was.
func gapIn(list []segment) (from, to int64) {
	switch {
	case len(list) > 0 && list[0].base > 0:
		return 0, list[0].base
	case len(list) > 1 && list[0].end() < list[1].base:
		return list[0].end(), list[1].base
	}
	return 0, 0
}

// reader reads a log across its files.
type reader struct {
	dir  string
	at   int64
	open segment
	file *os.File // of open; nil is none
}

// readLog opens the log in a folder at an offset. A negative offset counts from the end, but not
// back over what was dropped. executor.ErrNoLog says that there is no log.
func readLog(dir string, from int64) (executor.Log, error) {
	list, err := segments(dir)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: the task has not started", executor.ErrNoLog)
	}
	if err != nil {
		return executor.Log{}, err
	}
	out := executor.Log{End: list[len(list)-1].end()}
	out.GapStart, out.GapEnd = gapIn(list)
	if from < 0 {
		from = max(out.End+from, out.GapEnd)
	}
	if from = min(from, out.End); from >= out.GapStart && from < out.GapEnd {
		from = out.GapEnd
	}
	out.Start, out.ReadCloser = from, &reader{dir: dir, at: from}
	return out, nil
}

// Read implements io.Reader. io.EOF says that there is no more yet, executor.ErrCut that what
// follows was dropped.
func (r *reader) Read(p []byte) (int, error) {
	for range 2 { // the second time after a fresh look at the files
		if r.file != nil && len(p) > 0 {
			n, err := r.file.ReadAt(p, r.at-r.open.base)
			if r.at += int64(n); n > 0 {
				return n, nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, err
			}
		}
		if err := r.look(); err != nil {
			return 0, err
		}
	}
	return 0, io.EOF
}

// look opens the file that holds the next byte.
func (r *reader) look() error {
	list, err := segments(r.dir)
	if err != nil {
		return err
	}
	if from, to := gapIn(list); r.at >= from && r.at < to {
		return executor.ErrCut
	}
	i := slices.IndexFunc(list, func(s segment) bool { return s.base > r.at })
	if i < 0 {
		i = len(list)
	}
	if i == 0 || r.file != nil && r.open.base == list[i-1].base {
		return nil
	}
	f, err := os.Open(filepath.Join(r.dir, list[i-1].name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed since the look
	}
	if err != nil {
		return err
	}
	_ = r.Close()
	r.file, r.open = f, list[i-1]
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
