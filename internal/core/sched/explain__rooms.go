package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// rooms counts the leaves that a gang may use, by SKU in order of name: of a VC, its guarantee,
// and as free what neither uses of it nor was promised its guaranteed work, whatever the shape.
func (s *explainer) rooms(j *job, g int) []model.Room {
	f := s.cl.Forest()
	var out []model.Room
	guaranteed := j.spec.Priority >= cell.MinGuaranteed
	sp, used := s.cl.Space(0), []int32(nil)
	if guaranteed {
		sp, used = s.cl.Space(s.space(j.spec.VC)), inCommon(s).usedBy(&s.tables, s.space(j.spec.VC))
	}
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if !s.usableChain(j, g, r.Chain) || guaranteed && !s.rootServes(j, g, r) {
			continue
		}
		ch := &f.Chains[r.Chain]
		total := ch.LeavesAt(r.Level)
		free := int32(0)
		if guaranteed {
			free = total - used[i]
		}
		out = model.AddRoom(out, s.carry(ch.SKU), free, total)
	}
	if !guaranteed {
		for ci := range f.Chains {
			for _, top := range f.Chains[ci].Tops {
				if s.usableChain(j, g, int16(ci)) {
					out = model.AddRoom(out, s.carry(f.Chains[ci].SKU), s.cl.Idle(top), 0)
				}
			}
		}
	}
	return out
}

// reasons is what those of a list have in common, as of one moment: they read the leaves of a
// virtual cluster once, and count rooms and holders once for each shape. What follows from it is
// only read.
type reasons struct {
	cl      *cell.Cluster
	seq     uint64
	now     model.Time
	used    map[int32][]int32 // leaves in use of the preassigned cells, by space
	rooms   map[whatFits][]model.Room
	holders map[whatFits]holdersOf
	lies    map[int32][]lie     // where of the preassigned cells leaves are free, by space
	apart   map[whatFits]string // how what is free lies on nodes
	ills    map[whatFits]*illness
	bad     map[cell.NodeName]string // nodes with leaves that were declared bad, with why
	read    int                      // leaves, in all, and what was said of them
}

// inCommon returns it, without what does not hold any more.
func inCommon(s *explainer) *reasons {
	if r := s.ranks.common; r != nil && r.cl == s.cl && r.seq == s.seq && r.now == s.now {
		return r
	}
	r := &reasons{cl: s.cl, seq: s.seq, now: s.now,
		used: map[int32][]int32{}, rooms: map[whatFits][]model.Room{}, holders: map[whatFits]holdersOf{},
		lies: map[int32][]lie{}, apart: map[whatFits]string{}, ills: map[whatFits]*illness{}}
	if was := s.ranks.common; was != nil {
		r.read = was.read
	}
	s.ranks.common = r
	return r
}

// usedBy returns how many leaves are in use of each preassigned cell of a VC.
func (r *reasons) usedBy(s *tables, space int32) []int32 {
	if used, ok := r.used[space]; ok {
		return used
	}
	sp := s.cl.Space(space)
	used := make([]int32, len(sp.Roots))
	for i := range sp.Roots {
		lies, free := r.lies[space], int32(0)
		used[i], free = usedIn(s, &sp.Roots[i], func(node int32) {
			if n := len(lies); n == 0 || lies[n-1].root != int32(i) || lies[n-1].node != node {
				lies = append(lies, lie{root: int32(i), node: node})
			}
			lies[len(lies)-1].free++
		})
		r.lies[space], r.read = lies, r.read+int(used[i]+free)
	}
	r.used[space] = used
	return used
}

// apart says how the leaves that are free to a gang lie on nodes: "2 on n1 and 2 on n2". It is
// empty where that does not keep the gang from them: where its tasks would fit by their numbers
// alone, or where cells that are free lie on no node yet. Of a job that may use some nodes only it
// says which these are, where none is free there and jobs run there: "on its allowed node".
func apart(s *explainer, j *job, g int, free int32) string {
	r, key := inCommon(s), like(j, g)
	text, ok := r.apart[key]
	if !ok {
		text = apartNow(s, j, g, free)
		r.apart[key] = text
	}
	return text
}

func apartNow(s *explainer, j *job, g int, free int32) string {
	if j.spec.Restricted() {
		return fullNodes(s, j, g)
	}
	on, exact := freeOn(s, j, g)
	if len(on) < 2 || fitByNumber(j.gangs[g].shape.members, on) {
		return ""
	}
	var texts []string
	sum, most := int32(0), int32(0)
	for _, l := range on {
		sum, most = sum+l.free, max(most, l.free)
	}
	if !exact || sum != free {
		return fmt.Sprintf("at most %d on one node", most)
	}
	for _, l := range on[:min(len(on), maxNamed)] {
		texts = append(texts, fmt.Sprintf("%d on %s", l.free, s.cl.Forest().Nodes[l.node].Name))
		sum -= l.free
	}
	if more := int32(len(on) - len(texts)); more > 0 {
		texts = append(texts, fmt.Sprintf("%d on %s", sum, model.Plural(more, "other node", "other nodes")))
	}
	return model.JoinAnd(texts)
}

// fullNodes are the only nodes of a job, where nothing there is free and all that is in its way
// runs there.
func fullNodes(s *explainer, j *job, g int) string {
	all, its := allHolders(s, j, g), s.itsNodes(j)
	if len(all.own)+len(all.others) == 0 ||
		slices.ContainsFunc(s.rooms(j, g), func(r model.Room) bool { return s.inService(j, g, r.SKU) > 0 }) {
		return ""
	}
	there := map[model.JobID]bool{}
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.state != model.AttemptReserving && s.standsOn(j, g, a, its) {
			there[a.id.Job] = true
		}
	}
	elsewhere := func(id model.JobID) bool { return !there[id] }
	if slices.ContainsFunc(all.own, elsewhere) || slices.ContainsFunc(all.others, elsewhere) {
		return ""
	}
	return strings.TrimPrefix(nodesText(j.spec, "its "), " ")
}

// freeOn counts what is free to a gang on each node, in order of the nodes, with what could be
// bound there; exact is false where more could be bound than its VC has cells.
func freeOn(s *explainer, j *job, g int) (on []lie, exact bool) {
	f := s.cl.Forest()
	add := func(node, free int32) {
		if free > 0 {
			on = append(on, lie{node: node, free: free})
		}
	}
	exact = true
	if j.spec.Priority < cell.MinGuaranteed {
		for i := range f.Nodes {
			for _, c := range f.Nodes[i].Cells {
				if s.usableChain(j, g, f.Cells[c].Chain) {
					add(int32(i), s.cl.Idle(c))
				}
			}
		}
	} else {
		space := s.space(j.spec.VC)
		inCommon(s).usedBy(&s.tables, space)
		for _, l := range inCommon(s).lies[space] {
			if r := &s.cl.Space(space).Roots[l.root]; s.usableChain(j, g, r.Chain) && s.rootServes(j, g, r) {
				add(l.node, l.free)
			}
		}
		exact = unboundOn(&s.tables, j, g, add)
	}
	slices.SortStableFunc(on, func(a, b lie) int { return cmp.Compare(a.node, b.node) })
	out := on[:0]
	for _, l := range on {
		if n := len(out); n > 0 && out[n-1].node == l.node {
			out[n-1].free += l.free
			continue
		}
		out = append(out, l)
	}
	return out, exact
}
