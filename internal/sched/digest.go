package sched

import (
	"fmt"

	"github.com/combsched/comb/internal/cell"
)

// digest is a running hash over the fields of decisions, each with its length
// where it has one, in a fixed order. It tells decisions apart that differ by
// mistake, which is all that verifying a journal needs; it is no defence against
// somebody who looks for equal digests. Every decision goes through it, so it
// must neither encode nor allocate.
type digest uint64

// digestOf is the digest of a batch of decisions.
func digestOf(rs []Record) digest {
	d := digest(0x9E3779B97F4A7C15)
	for i := range rs {
		d.event(rs[i].Event)
	}
	return d
}

// word mixes in one number: multiply by an odd constant, then fold the high bits,
// which depend on all bits below them, onto the low ones.
func (d *digest) word(x uint64) {
	h := (uint64(*d) ^ x) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>32) * 0x94D049BB133111EB
	*d = digest(h ^ h>>29)
}

func (d *digest) num(x int64) { d.word(uint64(x)) }

func (d *digest) flag(b bool) {
	if b {
		d.word(1)
	} else {
		d.word(2)
	}
}

func (d *digest) text(s string) {
	d.word(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		d.word(uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
			uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7]))
	}
	if len(s) > 0 {
		var x uint64
		for i := range len(s) {
			x = x<<8 | uint64(s[i])
		}
		d.word(x)
	}
}

func (d *digest) attempt(a AttemptID) {
	d.num(int64(a.Job))
	d.word(uint64(uint32(a.Gang))<<32 | uint64(uint32(a.N)))
}

func (d *digest) by(a *AttemptID) {
	d.flag(a != nil)
	if a != nil {
		d.attempt(*a)
	}
}

func (d *digest) binds(bs []cell.Bind) {
	d.word(uint64(len(bs)))
	for _, b := range bs {
		d.num(int64(b.Space))
		d.word(uint64(uint32(b.Root))<<32 | uint64(uint32(b.Cell)))
	}
}

func (d *digest) placement(p *cell.Placement) {
	d.word(uint64(len(p.Tasks)))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		d.text(string(t.Node))
		d.text(string(t.SKU))
		d.word(uint64(len(t.Leaves)))
		for _, l := range t.Leaves {
			d.num(int64(l))
		}
		d.word(uint64(len(t.Devices))<<32 | uint64(len(t.Parts)))
		for _, v := range t.Devices {
			d.num(int64(v))
		}
		for _, v := range t.Parts {
			d.num(int64(v))
		}
	}
	d.binds(p.Binds)
}

func (d *digest) rotation(r *Rotation) {
	d.word(uint64(len(r.Turns)))
	for _, turn := range r.Turns {
		d.word(uint64(len(turn)))
		for _, id := range turn {
			d.attempt(id)
		}
	}
	d.num(int64(r.Quantum))
	d.num(int64(r.Epoch))
}

func (d *digest) exit(x *Exit) {
	d.word(uint64(uint32(x.Code))<<32 | uint64(uint32(x.Signal)))
	d.text(string(x.Cause))
	d.text(x.Message)
	d.flag(x.Own)
}

// event mixes in one decision. A kind that has no rule here is mixed in as it is
// journalled.
func (d *digest) event(e Event) {
	d.text(string(e.event()))
	switch e := e.(type) {
	case Placed:
		d.attempt(e.Attempt)
		d.placement(&e.Placement)
	case Reserved:
		d.attempt(e.Attempt)
		d.placement(&e.Placement)
		d.word(uint64(len(e.Victims)))
		for _, v := range e.Victims {
			d.attempt(v)
		}
	case Unreserved:
		d.attempt(e.Attempt)
		d.text(e.Reason)
	case StopSent:
		d.attempt(e.Attempt)
		d.text(e.Cause.String())
		d.num(int64(e.Grace))
		d.by(e.By)
		d.word(uint64(len(e.Nodes)))
		for _, n := range e.Nodes {
			d.text(string(n))
		}
	case Joined:
		d.attempt(e.Attempt)
		d.attempt(e.Host)
		d.placement(&e.Placement)
	case Rotated:
		d.rotation(&e.Rotation)
	case AttemptEnded:
		d.attempt(e.Attempt)
		d.text(e.Cause.String())
		d.text(e.Message)
	case JobCompleting:
		d.num(int64(e.Job))
		d.text(string(e.Phase))
		d.text(e.Cause.String())
		d.exit(&e.Exit)
		d.num(int64(e.Task))
		d.text(e.Message)
	case JobEnded:
		d.num(int64(e.Job))
		d.text(string(e.Phase))
		d.text(e.Cause.String())
		d.exit(&e.Exit)
		d.text(e.Message)
	case Sized:
		d.num(int64(e.Job))
		d.num(int64(e.Size))
	case TaskRetried:
		d.num(int64(e.Job))
		d.num(int64(e.Gang))
		d.flag(e.Counted)
		d.num(int64(e.After))
	default:
		_, version, data, err := EncodeEvent(e)
		if err != nil {
			panic(fmt.Sprintf("sched: a decision cannot be encoded: %v", err))
		}
		d.num(int64(version))
		d.text(string(data))
	}
}
