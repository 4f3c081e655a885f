package policy

import (
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// Tune implements model.Tuner: trials grow, and those that are to have less shrink or pause as
// far as others are to have more.
func (p *hypersched) Tune(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		s := p.study(v)
		defer s.close()
		for _, e := range s.all {
			slices.SortFunc(e.live, byLoss)
			for _, t := range e.live {
				if t.grows() > 0 && !yield(model.Wish{Gang: t.g.Ref, Size: t.size()}) {
					return
				}
			}
		}
		for w := range s.makeRoom {
			if !yield(w) {
				return
			}
		}
	}
}

// grows is how many GPUs more a trial that runs is to have.
func (t *trial) grows() int64 {
	if t.target == 0 {
		return 0
	}
	return max(t.gpus(t.target)-t.holds(), 0)
}

// makeRoom yields the wishes by which running trials make room for those that are to start or grow,
// as far as that is needed: of those that are to have less, the last of the last experiment
// first.
func (s *study) makeRoom(yield func(model.Wish) bool) {
	needed := -s.ready
	for _, e := range s.all {
		for _, t := range e.starting {
			needed += t.gpus(t.target)
		}
		for _, t := range e.live {
			needed += t.grows()
		}
	}
	for t := range s.worst {
		w, frees := s.less(t)
		if needed <= 0 || frees == 0 {
			continue
		}
		if needed -= frees; !yield(w) {
			return
		}
	}
}

// worst yields the trials that run, the last of the last experiment first.
func (s *study) worst(yield func(*trial) bool) {
	for _, e := range slices.Backward(s.all) {
		for _, t := range slices.Backward(e.live) {
			if !yield(t) {
				return
			}
		}
	}
}

// less is the wish that shrinks or pauses a running trial as planned, and how many GPUs that
// frees: 0 where it is not to have less, would lose its work, or is to pause and has not run
// for a round yet.
func (s *study) less(t *trial) (model.Wish, int64) {
	holds := s.cost(t, t.members())
	switch {
	case t.target == 0 && !t.g.Hints.Checkpoint:
		return model.Wish{}, 0
	case t.target == 0 && (t.g.Started == 0 || t.g.Started.Add(s.p.round) > s.v.Now()):
		return model.Wish{}, 0
	case t.target == 0:
		return model.Wish{Gang: t.g.Ref, Size: model.Pause}, holds
	}
	return model.Wish{Gang: t.g.Ref, Size: t.size()}, max(holds-s.cost(t, t.target), 0)
}
