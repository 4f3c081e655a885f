package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/combsched/comb/internal/core/model"
	"golang.org/x/sys/unix"
)

// A seal records, in a file of its own, where the journal stood at the last answer. It has two
// slots that are written in turn, each on a page of its own: a write that is cut off leaves the
// other slot whole. It is written after each durable change and before the answer. So it is never
// ahead of a sound database, and at most one unanswered change behind.
const (
	sealFile = "journal.seal"
	sealMark = "comb seal 1\n"
	slotSize = 4096
	slotUsed = len(sealMark) + 16 + 5*8 + 2*16 + sha256.Size
)

// seal is the open file. write is called with the writer's lock held.
type seal struct {
	file    *os.File
	cluster []byte // 16 bytes
	turn    uint64 // number of writes; its parity selects the slot
	log     *slog.Logger

	mu  sync.Mutex
	bad error // error of the last write
}

// openSeal opens the file for writing and makes it if there is none, with its blocks allocated:
// it must be writable on a full disk as well.
func openSeal(path, cluster string, log *slog.Logger) (*seal, error) {
	id, err := hex.DecodeString(cluster)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(path, make([]byte, 2*slotSize)); err != nil {
			return nil, fmt.Errorf("cannot make %s: %w", sealFile, err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", sealFile, err)
	}
	return &seal{file: f, cluster: id, log: log}, nil
}

// write seals a durable mark. If that fails, it is logged, and no job is acknowledged
// (Store.Sealed) or accepted (Store.Room) until it succeeds; other answers meanwhile are recorded
// only in the database. The failed write may have broken its slot: the next write goes to the
// same slot, and never to the whole one.
func (s *seal) write(m journalMark) {
	if s.trouble() == nil {
		s.turn++
	}
	slot := s.encode(m)
	_, err := s.file.WriteAt(slot, int64(s.turn%2)*slotSize)
	if err == nil {
		err = unix.Fdatasync(int(s.file.Fd()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.bad == nil {
		s.log.Error("the seal of the journal cannot be written: a loss after event "+fmt.Sprint(m.seq)+" would not be noticed", "error", err)
	}
	s.bad = err
}

// trouble is the error of the last write, nil if it succeeded.
func (s *seal) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad == nil {
		return nil
	}
	return fmt.Errorf("the file %s of the data directory cannot be written: %w", sealFile, s.bad)
}

func (s *seal) encode(m journalMark) []byte {
	b := append(make([]byte, 0, slotSize), sealMark...)
	b = append(b, s.cluster...)
	for _, n := range []uint64{s.turn, m.epoch, m.seq, m.changes, uint64(m.job)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = append(append(b, m.link[:]...), m.rows[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// sealed is the content of a seal.
type sealed struct {
	cluster string
	turn    uint64
	journalMark
}

// readSeal returns the newer of the sound slots. Without the file the error is fs.ErrNotExist;
// when no slot is sound, errSeal.
func readSeal(path string) (best sealed, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return best, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 2*slotSize))
	if err != nil {
		return best, err
	}
	found := false
	for ; len(data) >= slotUsed; data = data[min(slotSize, len(data)):] {
		one, ok := decodeSlot(data[:slotUsed])
		if ok && (!found || one.turn > best.turn) {
			best, found = one, true
		}
	}
	if !found {
		return best, errSeal
	}
	return best, nil
}

var errSeal = errors.New("neither of its two copies is whole")

func decodeSlot(b []byte) (s sealed, ok bool) {
	body := b[:slotUsed-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) || !bytes.HasPrefix(b, []byte(sealMark)) {
		return s, false
	}
	b = body[len(sealMark):]
	s.cluster = hex.EncodeToString(b[:16])
	b = b[16:]
	var n [5]uint64
	for i := range n {
		n[i], b = binary.LittleEndian.Uint64(b), b[8:]
	}
	s.turn, s.epoch, s.seq, s.changes, s.job = n[0], n[1], n[2], n[3], model.JobID(n[4])
	copy(s.link[:], b[:16])
	copy(s.rows[:], b[16:])
	return s, true
}

func (s *seal) close() error {
	if s == nil {
		return nil
	}
	return s.file.Close()
}
