package store

import (
	"bytes"
	"compress/flate"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/combsched/comb/internal/sched"
)

const (
	// chunkEvents is how many events one archive chunk holds, and so what one
	// step of archiving moves in a transaction.
	chunkEvents = 1000
	// maxUnpacked bounds what a packed blob may grow to.
	maxUnpacked = 1 << 32
)

// archiveUpTo moves the events up to seq to the archive.
func (s *Store) archiveUpTo(ctx context.Context, seq uint64) error {
	for {
		n, err := s.archiveChunk(ctx, seq)
		if err != nil {
			return fmt.Errorf("cannot archive events: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}

// archiveChunk moves the oldest events, at most one chunk of them.
func (s *Store) archiveChunk(ctx context.Context, seq uint64) (int, error) {
	limit, err := s.fits(ctx, 0, chunkEvents)
	if err != nil {
		return 0, err
	}
	events, err := s.query(ctx, "WHERE seq <= ? ORDER BY seq LIMIT ?", seq, limit)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	// Damage must not hide in the archive: nothing is moved unchecked.
	for i := range events {
		if events[i].checksum() != events[i].sum {
			return 0, fmt.Errorf("event %d is damaged: its checksum does not match", events[i].seq)
		}
	}
	before, err := s.linkAt(ctx, events[0].seq-1)
	if err == nil {
		_, err = chain(before, events, false)
	}
	if err != nil {
		return 0, err
	}
	data, err := packChunk(events)
	if err != nil {
		return 0, err
	}
	link := events[len(events)-1].link
	first, last := events[0].seq, events[len(events)-1].seq
	return len(events), s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO archive (first, last, data, link) VALUES (?, ?, ?, ?)", first, last, data, link[:]); err != nil {
			return err
		}
		for _, job := range jobsIn(events) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO archive_jobs (job, first) VALUES (?, ?)", job, first); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM events WHERE seq BETWEEN ? AND ?", first, last)
		return err
	})
}

func jobsIn(events []stored) []sched.JobID {
	var jobs []sched.JobID
	for i := range events {
		if events[i].job > 0 {
			jobs = append(jobs, events[i].job)
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs)
}

// chunk returns the events of the archive chunk that where chooses, checked against the chain;
// none if it chooses none.
func (s *Store) chunk(ctx context.Context, where string, args ...any) ([]stored, error) {
	links := "link, coalesce((SELECT link FROM archive b WHERE b.last = a.first - 1), x'')"
	if s.schema == 1 {
		links = "x'', x''"
	}
	var first, last uint64
	var data []byte
	var link, before digest
	err := s.read.QueryRowContext(ctx, "SELECT first, last, data, "+links+" FROM archive a "+where, args...).Scan(&first, &last, &data, &link, &before)
	if err != nil {
		return nil, s.explain("cannot read the archive", none(err))
	}
	events, err := unpackChunk(data)
	if err == nil && (len(events) == 0 || events[0].seq != first || events[len(events)-1].seq != last) {
		err = errors.New("it does not hold them")
	}
	if err == nil && s.schema > 1 {
		if before, err = chain(before, events, true); err == nil && before != link {
			err = errors.New("the chain of checksums breaks there")
		}
	}
	if err != nil {
		return nil, s.damaged(fmt.Sprintf("the archive of events %d to %d: %v", first, last, err))
	}
	return events, nil
}

// none makes nothing of the error that there is no row.
func none(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unpack(b []byte) ([]byte, error) {
	return io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), maxUnpacked))
}

// packChunk writes events one after another: numbers as varints, texts and data
// behind their lengths; then compresses it all.
func packChunk(events []stored) ([]byte, error) {
	var b []byte
	for i := range events {
		e := &events[i]
		b = binary.AppendUvarint(b, e.seq)
		b = binary.AppendVarint(b, int64(e.time))
		b = appendBytes(b, []byte(e.kind))
		b = binary.AppendUvarint(b, uint64(e.version))
		b = binary.AppendUvarint(b, uint64(e.job))
		b = binary.AppendUvarint(b, uint64(e.sum))
		b = appendBytes(b, e.data)
	}
	return pack(b)
}

func appendBytes(b, data []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

func unpackChunk(data []byte) ([]stored, error) {
	b, err := unpack(data)
	if err != nil {
		return nil, fmt.Errorf("an archive chunk cannot be unpacked: %w", err)
	}
	r := bytes.NewReader(b)
	var events []stored
	for r.Len() > 0 {
		e, err := readStored(r)
		if err != nil {
			return nil, fmt.Errorf("an archive chunk is cut off: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}

func readStored(r *bytes.Reader) (e stored, err error) {
	var n [4]uint64 // seq, version, job, sum
	var at int64
	var kind []byte
	read := func(to *uint64) {
		if err == nil {
			*to, err = binary.ReadUvarint(r)
		}
	}
	read(&n[0])
	if err == nil {
		at, err = binary.ReadVarint(r)
	}
	if err == nil {
		kind, err = readBytes(r)
	}
	read(&n[1])
	read(&n[2])
	read(&n[3])
	if err == nil {
		e.data, err = readBytes(r)
	}
	e.seq, e.time, e.kind, e.version = n[0], sched.Time(at), sched.Kind(kind), int(n[1])
	e.job, e.sum = sched.JobID(n[2]), uint32(n[3])
	return e, err
}

func readBytes(r *bytes.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(r.Len()) {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}
