package model

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
)

// Digest is a running hash over the fields of decisions, each with its length
// where it has one, in a fixed order. It tells decisions apart that differ by
// mistake, which is all that verifying a journal needs; it is no defence against
// an attacker that looks for equal digests. Every decision goes through it, so it
// must neither encode nor allocate.
type Digest struct{ Hash }

// DigestOf is the digest of a batch of decisions.
func DigestOf(rs []Record) Digest {
	d := Digest{0x9E3779B97F4A7C15}
	for i := range rs {
		d.event(rs[i].Event)
	}
	return d
}

func (d *Digest) attempt(a AttemptID) {
	d.Num(int64(a.Job))
	d.Word(uint64(uint32(a.Gang))<<32 | uint64(uint32(a.N)))
}

func (d *Digest) by(a *AttemptID) {
	d.Flag(a != nil)
	if a != nil {
		d.attempt(*a)
	}
}

func (d *Digest) binds(bs []cell.Bind) {
	d.Word(uint64(len(bs)))
	for _, b := range bs {
		d.Num(int64(b.Space))
		d.Word(uint64(uint32(b.Root))<<32 | uint64(uint32(b.Cell)))
	}
}

func (d *Digest) placement(p *cell.Placement) {
	d.Word(uint64(len(p.Tasks)))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		d.Text(string(t.Node))
		d.Text(string(t.SKU))
		d.Word(uint64(len(t.Leaves))<<42 | uint64(len(t.Devices))<<21 | uint64(len(t.Parts)))
		HashNumbers(&d.Hash, t.Leaves)
		HashNumbers(&d.Hash, t.Devices)
		HashNumbers(&d.Hash, t.Parts)
	}
	d.binds(p.Binds)
}

func (d *Digest) rotation(r *Rotation) {
	d.Word(uint64(len(r.Turns)))
	for _, turn := range r.Turns {
		d.Word(uint64(len(turn)))
		for _, id := range turn {
			d.attempt(id)
		}
	}
	d.Num(int64(r.Quantum))
	d.Num(int64(r.Epoch))
}

func (d *Digest) exit(x *Exit) {
	d.Word(uint64(uint32(x.Code))<<32 | uint64(uint32(x.Signal)))
	d.Text(string(x.Cause))
	d.Text(x.Message)
	d.Flag(x.Own)
	d.Num(int64(x.At))
	if x.Rule != nil {
		d.Text(fmt.Sprint(*x.Rule))
	}
	if x.Saved {
		d.Text("saved")
	}
	if x.Fetch {
		d.Text("fetch")
	}
}

// event mixes in one decision. A kind that has no rule here is mixed in as it is
// journalled.
func (d *Digest) event(e Event) {
	d.Text(string(e.event()))
	switch e := e.(type) {
	case Placed:
		d.attempt(e.Attempt)
		d.placement(&e.Placement)
	case Reserved:
		d.attempt(e.Attempt)
		d.placement(&e.Placement)
		d.Word(uint64(len(e.Victims)))
		for _, v := range e.Victims {
			d.attempt(v)
		}
	case Unreserved:
		d.attempt(e.Attempt)
		d.Text(e.Reason)
	case StopSent:
		d.attempt(e.Attempt)
		d.Text(e.Cause.String())
		d.Num(int64(e.Grace))
		d.by(e.By)
		d.Word(uint64(len(e.Nodes)))
		for _, n := range e.Nodes {
			d.Text(string(n))
		}
		if e.For != "" {
			d.Text(string(e.For))
		}
	case Joined:
		d.attempt(e.Attempt)
		d.attempt(e.Host)
		d.placement(&e.Placement)
	case Rotated:
		d.rotation(&e.Rotation)
	case AttemptEnded:
		d.attempt(e.Attempt)
		d.Text(e.Cause.String())
		d.Text(e.Message)
	case JobCompleting:
		d.Num(int64(e.Job))
		d.Text(string(e.Phase))
		d.Text(e.Cause.String())
		d.exit(&e.Exit)
		d.Num(int64(e.Task))
		d.Text(e.Message)
	case JobEnded:
		d.Num(int64(e.Job))
		d.Text(string(e.Phase))
		d.Text(e.Cause.String())
		d.exit(&e.Exit)
		d.Text(e.Message)
	case Sized:
		d.Num(int64(e.Job))
		d.Num(int64(e.Size))
	case TaskRetried:
		d.Num(int64(e.Job))
		d.Num(int64(e.Gang))
		d.Flag(e.Counted)
		d.Num(int64(e.After))
	default:
		_, version, data, err := EncodeEvent(e)
		if err != nil {
			panic(fmt.Sprintf("core: a decision cannot be encoded: %v", err))
		}
		d.Num(int64(version))
		d.Text(string(data))
	}
}
