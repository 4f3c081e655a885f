package sched

import (
	"fmt"
	"math/bits"

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

// word mixes in one number: the two halves of a product that depends on all bits so
// far, one folded onto the other.
func (d *digest) word(x uint64) {
	hi, lo := bits.Mul64(uint64(*d)^x, 0xBF58476D1CE4E5B9)
	*d = digest(hi ^ lo)
}

func (d *digest) num(x int64) { d.word(uint64(x)) }

func (d *digest) flag(b bool) {
	if b {
		d.word(1)
	} else {
		d.word(2)
	}
}

// text mixes in a text: as one number with its length where it is short, as most are,
// else its length and then eight bytes at a time, the last eight maybe again in part.
func (d *digest) text(s string) {
	n := len(s)
	switch {
	case n > 8:
		d.word(uint64(n))
		for at := 0; at < n-8; at += 8 {
			d.word(four(s[at:])<<32 | four(s[at+4:]))
		}
		d.word(four(s[n-8:])<<32 | four(s[n-4:]))
	case n == 8:
		d.word(uint64(n))
		d.word(four(s)<<32 | four(s[4:]))
	case n >= 4:
		d.word(uint64(n)<<56 | four(s)<<24 | four(s[n-4:])&0xFFFFFF)
	case n > 0:
		d.word(uint64(n)<<56 | uint64(s[0])<<16 | uint64(s[n/2])<<8 | uint64(s[n-1]))
	default:
		d.word(1 << 63)
	}
}

// four returns the first four bytes of a text.
func four(s string) uint64 {
	return uint64(s[0])<<24 | uint64(s[1])<<16 | uint64(s[2])<<8 | uint64(s[3])
}

// nums mixes in numbers, two at a time; how many there are is mixed in elsewhere.
func nums[T ~int32](d *digest, all []T) {
	for ; len(all) > 1; all = all[2:] {
		d.word(uint64(uint32(all[0]))<<32 | uint64(uint32(all[1])))
	}
	if len(all) > 0 {
		d.word(uint64(uint32(all[0])))
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
		d.word(uint64(len(t.Leaves))<<42 | uint64(len(t.Devices))<<21 | uint64(len(t.Parts)))
		nums(d, t.Leaves)
		nums(d, t.Devices)
		nums(d, t.Parts)
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
	d.num(int64(x.At))
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
