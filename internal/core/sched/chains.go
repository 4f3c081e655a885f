package sched

import (
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
)

// wants returns the chains that a gang's members could use, and the pinned cells that they name.
func (s *finder) wants(j *job, g int32) (chains []bool, pins []cell.PinnedID) {
	f := s.cl.Forest()
	chains = make([]bool, len(f.Chains))
	for _, m := range j.gangs[g].shape.members {
		if m.Pinned != "" {
			pins = append(pins, m.Pinned)
			continue
		}
		for ci := range f.Chains {
			chains[ci] = chains[ci] || (len(m.SKUs) == 0 || slices.Contains(m.SKUs, f.Chains[ci].SKU)) && s.holdsTask(j, g, m, int16(ci))
		}
	}
	return chains, pins
}

// holdsTask reports whether a task of a gang could run in a chain if nothing else did: its VC has
// cells there, its nodes are large enough, and the job may use some.
func (s *finder) holdsTask(j *job, g int32, m cell.Member, chain int16) bool {
	if len(s.cl.Forest().Chains) == 1 || s.cl.SpaceOf(j.spec.VC) == cell.None {
		return true
	}
	r := s.request(want{j: j, g: g}) // what is remembered is no matter of a wish
	m.Tasks = 1
	r.Members = []cell.Member{m}
	r.Blocked = make([]bool, len(s.cl.Forest().Chains))
	for ci := range r.Blocked {
		r.Blocked[ci] = ci != int(chain)
	}
	task := j.gangs[g].shape.text + "#" + strconv.Itoa(int(m.Leaves)) + "#" + strconv.Itoa(int(chain))
	return s.couldEverFit(whatFits{j.space, min(j.spec.Priority, 0), task}, r)
}

// couldEverFit reports whether a request could be met on an empty, healthy cluster, or the search
// ended before that was known; it is remembered.
func (s *finder) couldEverFit(key whatFits, r cell.Request) bool {
	if never, ok := s.remembered().never[key]; ok {
		return !never
	}
	r.Avoided, r.Reach, r.Keep, r.IgnoreHealth = nil, nil, nil, true
	res, ok := s.vacant().Place(&r)
	return !remember(&s.remembered().never, key, !ok && !res.Bounded)
}
