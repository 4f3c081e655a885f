package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// fileMark begins a journal in one file. Chunks follow, in the format of the archive and each
// after its length. The end is a chunk of length 0 and the number of the last event.
const fileMark = "comb journal 1\n"

// maxChunk bounds a chunk of a file, packed.
const maxChunk = 1 << 30

// FileWriter is the journal of a simulation in one file: written once from the first event to the
// last, without fsync and without snapshots. It implements engine.Journal. The file gets its name
// only at Close: an interrupted run leaves no file, or the one that was there before.
type FileWriter struct {
	file *os.File
	out  *bufio.Writer
	path string
	open []stored // of the chunk that is not full
	last uint64
}

// Unfinished is the file that becomes the journal path when it is complete.
func Unfinished(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".unfinished")
}

// CreateFile begins a journal that will be the file path.
func CreateFile(path string) (*FileWriter, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot write the journal: %s is no regular file; name another one", path)
	}
	f, err := os.Create(Unfinished(path))
	if err != nil {
		return nil, fmt.Errorf("cannot write the journal: %w", err)
	}
	w := &FileWriter{file: f, out: bufio.NewWriterSize(f, 1<<16), path: path}
	_, err = w.out.WriteString(fileMark)
	return w, err
}

// Append implements engine.Journal. Its events are not durable when it returns.
func (w *FileWriter) Append(_ context.Context, b engine.Batch) error {
	if b.First != w.last+1 {
		return fmt.Errorf("%w: it ends at event %d, the batch begins at %d", engine.ErrFenced, w.last, b.First)
	}
	for _, r := range b.Records {
		e, err := encode(r)
		if err != nil {
			return err
		}
		if w.open = append(w.open, e); len(w.open) == chunkEvents {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.last = r.Seq
	}
	return nil
}

// flush writes the open chunk.
func (w *FileWriter) flush() error {
	if len(w.open) == 0 {
		return nil
	}
	data, err := packChunk(w.open)
	if err != nil {
		return err
	}
	w.open = w.open[:0]
	_, err = w.out.Write(binary.AppendUvarint(nil, uint64(len(data))))
	if err == nil {
		_, err = w.out.Write(data)
	}
	if err != nil {
		return fmt.Errorf("cannot write the journal %s: %w", w.path, err)
	}
	return nil
}

// Replay implements engine.Journal, as long as there is nothing to replay: a simulation whose
// journal cannot be written ends.
func (w *FileWriter) Replay(context.Context, uint64, func(model.Record) error) error {
	if w.last > 0 {
		return fmt.Errorf("the journal %s is not read before it is written", w.path)
	}
	return nil
}

// Snapshot implements engine.Journal: there is none.
func (w *FileWriter) Snapshot(context.Context) ([]byte, uint64, error) { return nil, 0, nil }

// SaveSnapshot implements engine.Journal: it keeps none.
func (w *FileWriter) SaveSnapshot(context.Context, uint64, []byte) error { return nil }

// Close ends the journal and gives the file its name.
func (w *FileWriter) Close() error {
	err := w.flush()
	if err == nil {
		_, err = w.out.Write(binary.AppendUvarint([]byte{0}, w.last))
	}
	err = errors.Join(err, w.out.Flush(), w.file.Chmod(0o644), w.file.Close())
	if err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		os.Remove(w.file.Name())
		return fmt.Errorf("cannot write the journal %s: %w", w.path, err)
	}
	return nil
}

// Abort removes what was written.
func (w *FileWriter) Abort() {
	w.file.Close()
	os.Remove(w.file.Name())
}

// History is a journal to be read from its first event: a data directory, or a file that a
// simulation wrote.
type History interface {
	engine.History
	Close() error
}

// OpenHistory opens a journal for reading: a data directory (a server may run there), or a file
// made by CreateFile.
func OpenHistory(ctx context.Context, path string) (History, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	if info.IsDir() {
		return Open(ctx, path, Options{ReadOnly: true})
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	defer f.Close()
	mark := make([]byte, len(fileMark))
	if _, err := io.ReadFull(f, mark); err != nil || string(mark) != fileMark {
		return nil, fmt.Errorf("%s is no journal; give a data directory, or a file that comb sim run --journal wrote", path)
	}
	return fileReader(path), nil
}

// fileReader reads a journal that is one file.
type fileReader string

// Snapshots implements engine.History: such a file has none.
func (fileReader) Snapshots(context.Context, func(engine.KeptSnapshot) error) error { return nil }

// Close implements History.
func (fileReader) Close() error { return nil }

// Replay implements engine.History.
func (r fileReader) Replay(ctx context.Context, after uint64, f func(model.Record) error) error {
	file, err := os.Open(string(r))
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<16)
	if _, err := in.Discard(len(fileMark)); err != nil {
		return r.broken(0, err)
	}
	last := uint64(0)
	for ctx.Err() == nil {
		chunk, end, err := readChunk(in, last)
		if err != nil || end {
			return r.broken(last, err)
		}
		for i := range chunk {
			if chunk[i].seq != last+1 {
				return r.broken(last, fmt.Errorf("event %d follows", chunk[i].seq))
			}
			last++
			if last <= after {
				continue
			}
			record, err := chunk[i].decode()
			if err == nil {
				err = f(record)
			}
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// broken says where a file is damaged; nil stays nil.
func (r fileReader) broken(last uint64, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the journal %s is cut off after event %d", string(r), last)
	}
	return fmt.Errorf("the journal %s is damaged after event %d: %w", string(r), last, err)
}

// readChunk reads the next chunk, or the end of the file, which must agree with the number of the
// last event.
func readChunk(in *bufio.Reader, last uint64) (events []stored, end bool, err error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, false, err
	}
	if n > maxChunk {
		return nil, false, fmt.Errorf("a chunk has %d bytes", n)
	}
	if n == 0 {
		count, err := binary.ReadUvarint(in)
		if err == nil && count != last {
			err = fmt.Errorf("it should end at event %d", count)
		}
		return nil, true, err
	}
	var data bytes.Buffer // grows with what is there, not with the length that is claimed
	if _, err := io.CopyN(&data, in, int64(n)); err != nil {
		return nil, false, err
	}
	events, err = unpackChunk(data.Bytes())
	if err == nil && len(events) == 0 {
		err = errors.New("a chunk is empty")
	}
	return events, false, err
}

var _ engine.Journal = (*FileWriter)(nil)
