package policy

import (
	"bytes"
	"iter"
	"math/bits"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// learned is gittins with learn=yes: once enough jobs of the VC have ended, their service
// takes the place of the history that was given.
//
// The note of the VC says how many gangs ended with about so much service, in GPU-seconds:
// "5:12/6:3" are 12 in the class 5 and 3 in 6. A class is half a doubling, so a note has at
// most some eighty numbers; when they sum to more than keptHistory all are halved, so what is
// long ago fades.
type learned struct {
	levels
	given gittins
	tiresias
	quantum model.Duration
}

// Quantum implements model.HasQuantum.
func (p *learned) Quantum() model.Duration { return p.quantum }

const (
	leastHistory = 50   // gangs that ended, below which the given history counts
	keptHistory  = 4000 // gangs that a note counts at most
)

// classOf is the class of so many GPU-seconds, from 0.
func classOf(seconds int64) int {
	n := bits.Len64(uint64(max(seconds, 1))) - 1
	half := 0
	if n > 0 {
		half = int(uint64(seconds) >> (n - 1) & 1)
	}
	return 2*n + half
}

// middle is the middle of a class.
func middle(class int) int64 {
	low := int64(2+class%2) << (class / 2) / 2
	return max(low+low/4, 1)
}

// maxClass bounds what a note may say.
const maxClass = 2 * 62

// readHistory reads a note.
func readHistory(note []byte) (counts [maxClass]int64, sum int64) {
	for part := range bytes.SplitSeq(note, []byte("/")) {
		class, n, _ := bytes.Cut(part, []byte(":"))
		k, err1 := strconv.Atoi(string(class))
		c, err2 := strconv.ParseInt(string(n), 10, 32)
		if err1 == nil && err2 == nil && k >= 0 && k < maxClass && c > 0 {
			counts[k] += c
			sum += c
		}
	}
	return counts, sum
}

// Learn implements model.Learner. A gang that never ran says nothing.
func (p *learned) Learn(note []byte, g *model.GangView) []byte {
	seconds := service(g) / int64(model.Second)
	if g.Ran <= 0 {
		return nil
	}
	counts, sum := readHistory(note)
	counts[min(classOf(seconds), maxClass-1)]++
	if sum+1 > keptHistory {
		for i := range counts {
			counts[i] /= 2
		}
	}
	var out []byte
	for class, n := range counts {
		if n == 0 {
			continue
		}
		if out != nil {
			out = append(out, '/')
		}
		out = strconv.AppendInt(append(strconv.AppendInt(out, int64(class), 10), ':'), n, 10)
	}
	return out
}

// history is the learned history, or the given one while too few gangs have ended.
func (p *learned) history(v model.View) *gittins {
	counts, sum := readHistory(v.Note(0))
	if sum < leastHistory {
		return &p.given
	}
	h := gittins{delta: p.given.delta}
	for class, n := range counts {
		for range n {
			h.past = append(h.past, middle(class))
		}
	}
	h.add()
	return &h
}

// Rank implements model.Policy. The history changes, and with it the keys of waiting gangs, so
// View.WaitingByKey cannot be used: the order is made anew at each look.
func (p *learned) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for w := range p.promotions(p.levels, v) {
			if !yield(w) {
				return
			}
		}
		h := p.history(v)
		ranked := func(gangs iter.Seq[model.GangView]) (out []model.Ranked) {
			for g := range gangs {
				out = append(out, model.Ranked{Ref: g.Ref, Key: h.key(p.levels, p.sincePromotion(&g)), Order: g.Order, Leaves: g.Leaves})
			}
			slices.SortFunc(out, compare)
			return out
		}
		run := ranked(v.Running())
		slices.Reverse(run)
		for _, g := range ranked(v.Waiting()) {
			w := model.Wish{Gang: g.Ref, Within: p.within(v, g.Ref)}
			if len(run) > 0 && run[0].Key.Rank > g.Key.Rank {
				w.Preemptible = behind(slices.Values(run), g.Key.Rank)
			} else if int64(g.Leaves) > v.Free() {
				continue
			}
			if !yield(w) {
				return
			}
		}
	}
}

// NextChange implements model.Timed: when the key of some gang that runs changes, or one
// that waits has starved.
func (p *learned) NextChange(v model.View) model.Time {
	h, next := p.history(v), p.next(p.levels, v)
	for g := range v.Running() {
		if t := h.until(p.levels, v.Now(), p.sincePromotion(&g)); t > 0 && (next == 0 || t < next) {
			next = t
		}
	}
	return next
}
