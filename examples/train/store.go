package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A checkpoint is a header, the step, the seed, the weights and a checksum of
// all that, big endian.
const (
	header         = "combtrain 1\n"
	checkpointSize = len(header) + 8 + 8 + 8*modelSize + 4
)

// store keeps checkpoints and progress. Tasks that train alone may share the
// folder: the file's name holds the role and the index.
type store struct {
	dir      string // "" keeps none
	file     string
	progFile string
	seed     uint64
}

func newStore(w *world, o options) *store {
	s := &store{dir: w.checkpointDir, progFile: w.progressFile, seed: o.seed}
	own := w.tasks[w.rank]
	s.file = filepath.Join(s.dir, fmt.Sprintf("train-%s-%d.ckpt", own.role, own.index))
	return s
}

// load fills m from the last checkpoint and returns its step; 0 is none.
func (s *store) load(m *model) (uint64, error) {
	if s.dir == "" {
		return 0, nil
	}
	b, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the checkpoint: %w", err)
	}
	if len(b) != checkpointSize || string(b[:len(header)]) != header ||
		crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return 0, fmt.Errorf("the checkpoint %s is damaged or not one of this program: remove it to start anew", s.file)
	}
	b = b[len(header):]
	if seed := binary.BigEndian.Uint64(b[8:]); seed != s.seed {
		return 0, fmt.Errorf("the checkpoint %s was made with -seed %d, this run has -seed %d", s.file, seed, s.seed)
	}
	m.setBytes(b[16:])
	return binary.BigEndian.Uint64(b), nil
}

// save returns when the checkpoint is safe on disk. A crash leaves either the
// old one or the new one, never a part.
func (s *store) save(step uint64, m *model) error {
	b := append(make([]byte, 0, checkpointSize), header...)
	b = binary.BigEndian.AppendUint64(b, step)
	b = binary.BigEndian.AppendUint64(b, s.seed)
	b = append(b, m.bytes()...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	if err := s.replace(b); err != nil {
		return fmt.Errorf("cannot save the checkpoint: %w", err)
	}
	return nil
}

func (s *store) replace(b []byte) (err error) {
	f, err := os.CreateTemp(s.dir, filepath.Base(s.file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), s.file); err != nil {
		return err
	}
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// progress appends one line for Comb. It is only information: a file that
// cannot be written is not worth a failed training.
func (s *store) progress(step, total uint64, loss float64, took time.Duration, checkpoint bool) error {
	if s.progFile == "" {
		return nil
	}
	line, err := json.Marshal(struct {
		Step       uint64  `json:"step"`
		Total      uint64  `json:"total"`
		Loss       float64 `json:"loss"`
		IterationS float64 `json:"iteration_s"`
		Checkpoint bool    `json:"checkpoint,omitempty"`
	}{step, total, loss, took.Seconds(), checkpoint})
	if err != nil {
		return fmt.Errorf("the training diverged at step %d: %w", step, err)
	}
	f, err := os.OpenFile(s.progFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, "train: no progress is reported:", err)
		s.progFile = ""
		return nil
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	if err != nil {
		fmt.Fprintln(os.Stderr, "train: no progress is reported:", err)
		s.progFile = ""
	}
	return nil
}
