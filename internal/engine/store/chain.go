package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/combsched/comb/internal/core/model"
)

// digest is half a SHA-256: it protects against damage, not against attackers that can write
// here.
type digest [16]byte

// sumOf is the digest of some fields, each behind its length.
func sumOf(fields ...[]byte) (d digest) {
	h := sha256.New()
	var b []byte
	for _, f := range fields {
		b = appendBytes(b[:0], f)
		h.Write(b)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// next continues the chain of events: a digest of one event and of all before it.
func (d digest) next(e *stored) digest {
	var n [32]byte
	binary.LittleEndian.PutUint64(n[0:], e.seq)
	binary.LittleEndian.PutUint64(n[8:], uint64(e.time))
	binary.LittleEndian.PutUint64(n[16:], uint64(e.version))
	binary.LittleEndian.PutUint64(n[24:], uint64(e.job))
	return sumOf(d[:], n[:], []byte(e.kind), e.data)
}

// add and remove keep a sum over the rows of a table that does not depend on their order. Rows
// come and go; a missing or changed row changes the sum.
func (d *digest) add(row digest) {
	low, carry := bits.Add64(d.half(0), row.half(0), 0)
	high, _ := bits.Add64(d.half(1), row.half(1), carry)
	d.put(low, high)
}

func (d *digest) remove(row digest) {
	low, borrow := bits.Sub64(d.half(0), row.half(0), 0)
	high, _ := bits.Sub64(d.half(1), row.half(1), borrow)
	d.put(low, high)
}

func (d *digest) half(i int) uint64 { return binary.LittleEndian.Uint64(d[8*i:]) }

func (d *digest) put(low, high uint64) {
	binary.LittleEndian.PutUint64(d[0:], low)
	binary.LittleEndian.PutUint64(d[8:], high)
}

// Scan implements sql.Scanner. An empty value is the digest of nothing.
func (d *digest) Scan(v any) error {
	b, ok := v.([]byte)
	switch {
	case ok && len(b) == 0, v == nil:
		*d = digest{}
	case ok && len(b) == len(d):
		copy(d[:], b)
	default:
		return fmt.Errorf("a digest has %d bytes instead of %d", len(b), len(d))
	}
	return nil
}

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// journalMark is where a journal stands: the content of its table head, and of its seal.
type journalMark struct {
	epoch   uint64
	seq     uint64 // the last event
	changes uint64 // changes of rows, also outside the journal
	job     model.JobID
	link    digest // of the chain of events, up to seq
	rows    digest // sum over finished jobs, secrets and tokens
}

const headColumns = "epoch, seq, changes, job, link, rows"

func readMark(ctx context.Context, c querier) (m journalMark, err error) {
	err = c.QueryRowContext(ctx, "SELECT "+headColumns+" FROM head").Scan(&m.epoch, &m.seq, &m.changes, &m.job, &m.link, &m.rows)
	return m, err
}

// chain checks that events follow from the chain before them. With fill it fills in their links,
// as for events of the archive. It returns the digest after the last event, and the first event
// at which the chain breaks.
func chain(from digest, events []stored, fill bool) (digest, error) {
	for i := range events {
		e := &events[i]
		from = from.next(e)
		if fill {
			e.link = from
		}
		if !bytes.Equal(e.link[:], from[:]) {
			return from, fmt.Errorf("event %d is damaged, or one before it: the chain of checksums breaks there", e.seq)
		}
	}
	return from, nil
}
