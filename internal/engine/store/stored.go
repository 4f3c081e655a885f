package store

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const (
	// chunkEvents is how many events one archive chunk holds, which is also what one step of
	// archiving moves in a transaction.
	chunkEvents = 1000
	// pageEvents is how many events one step of a replay reads.
	pageEvents = 1000
	// pageBytes bounds the data of events that are read at once, unless a single one has more.
	pageBytes = 2 << 20
	// maxUnpacked bounds what a packed blob may grow to.
	maxUnpacked = 1 << 32
)

// stored is an event as it is stored in the tables.
type stored struct {
	seq     uint64
	time    model.Time
	kind    model.Kind
	version int
	job     model.JobID
	sum     uint32
	data    []byte
	link    digest // digest of it and all before it
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers the whole event: SQLite itself would not notice a flipped bit.
func (e *stored) checksum() uint32 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], e.seq)
	binary.LittleEndian.PutUint64(b[8:], uint64(e.time))
	binary.LittleEndian.PutUint64(b[16:], uint64(e.version))
	sum := crc32.Update(0, castagnoli, b[:])
	sum = crc32.Update(sum, castagnoli, []byte(e.kind))
	return crc32.Update(sum, castagnoli, e.data)
}

func encode(r model.Record) (stored, error) {
	kind, version, data, err := model.EncodeEvent(r.Event)
	if err != nil {
		return stored{}, fmt.Errorf("cannot encode event %d: %w", r.Seq, err)
	}
	e := stored{seq: r.Seq, time: r.Time, kind: kind, version: version, job: engine.JobOf(r.Event), data: data}
	e.sum = e.checksum()
	return e, nil
}

func (e *stored) decode() (model.Record, error) {
	if e.checksum() != e.sum {
		return model.Record{}, fmt.Errorf("event %d is damaged: its checksum does not match; restore the data directory from a backup", e.seq)
	}
	event, err := model.DecodeEvent(e.kind, e.version, e.data)
	if err != nil {
		return model.Record{}, fmt.Errorf("event %d: %w", e.seq, err)
	}
	return model.Record{Seq: e.seq, Time: e.time, Event: event}, nil
}

func jobsIn(events []stored) []model.JobID {
	var jobs []model.JobID
	for i := range events {
		if events[i].job > 0 {
			jobs = append(jobs, events[i].job)
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs)
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

// packChunk encodes events one after another, numbers as varints, texts and data after their
// lengths, and compresses the result.
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
	e.seq, e.time, e.kind, e.version = n[0], model.Time(at), model.Kind(kind), int(n[1])
	e.job, e.sum = model.JobID(n[2]), uint32(n[3])
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
