package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// rooms counts the leaves that a gang may use, in order of SKU. For a guaranteed gang these are its
// VC's guarantee; free are those that guaranteed work of the VC neither uses nor was promised. For
// an opportunistic gang they are the cluster, and free is what is idle. Shapes do not count.
func (s *Explainer) rooms(j *tables.Job, g int) []model.Room {
	f := s.Cluster.Forest()
	var out []model.Room
	guaranteed := j.Spec.Priority >= cell.MinGuaranteed
	sp, used := s.Cluster.Space(0), []int32(nil)
	if guaranteed {
		sp, used = s.Cluster.Space(s.Space(j.Spec.VC)), reasonCacheOf(s).usedLeaves(&s.Tables, s.Space(j.Spec.VC))
	}
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if !s.UsableChain(j, g, r.Chain) || guaranteed && !s.RootServes(j, g, r) {
			continue
		}
		ch := &f.Chains[r.Chain]
		total := ch.LeavesAt(r.Level)
		free := int32(0)
		if guaranteed {
			free = total - used[i]
		}
		out = model.AddRoom(out, s.Carry(ch.SKU), free, total)
	}
	if !guaranteed {
		for ci := range f.Chains {
			for _, top := range f.Chains[ci].Tops {
				if s.UsableChain(j, g, int16(ci)) {
					out = model.AddRoom(out, s.Carry(f.Chains[ci].SKU), s.Cluster.Idle(top), 0)
				}
			}
		}
	}
	return out
}

// reasonCacheOf returns the cache of reasons, a new one if the state has changed since.
func reasonCacheOf(s *Explainer) *reasonCache {
	if r := s.Orders.Reasons; r != nil && r.cl == s.Cluster && r.seq == s.Seq && r.now == s.Now {
		return r
	}
	r := &reasonCache{cl: s.Cluster, seq: s.Seq, now: s.Now,
		used: map[int32][]int32{}, rooms: map[tables.FitKey][]model.Room{}, holders: map[tables.FitKey]shapeHolders{},
		freeOnNodes: map[int32][]freeOnNode{}, spreadTexts: map[tables.FitKey]string{}, badHardware: map[tables.FitKey]*shapeBadNodes{}}
	if was := s.Orders.Reasons; was != nil {
		r.Read = was.Read
	}
	s.Orders.Reasons = r
	return r
}

// usedLeaves returns how many leaves of each preassigned cell of a VC are in use. It also notes in
// r.lies where the free ones are.
func (r *reasonCache) usedLeaves(s *tables.Tables, space int32) []int32 {
	if used, ok := r.used[space]; ok {
		return used
	}
	sp := s.Cluster.Space(space)
	used := make([]int32, len(sp.Roots))
	for i := range sp.Roots {
		lies, free := r.freeOnNodes[space], int32(0)
		used[i], free = tables.UsedIn(s, &sp.Roots[i], func(node int32) {
			if n := len(lies); n == 0 || lies[n-1].Root != int32(i) || lies[n-1].Node != node {
				lies = append(lies, freeOnNode{Root: int32(i), Node: node})
			}
			lies[len(lies)-1].Free++
		})
		r.freeOnNodes[space], r.Read = lies, r.Read+int(used[i]+free)
	}
	r.used[space] = used
	return used
}

// spreadText says how the free leaves are spread over nodes, if that keeps a gang from them: "2 on
// n1 and 2 on n2". It is "" where the tasks would fit by the number of leaves on each node. For a
// job that is restricted to nodes it names these instead, if none is free there and jobs run on
// them: "on its allowed node".
func spreadText(s *Explainer, j *tables.Job, g int, free int32) string {
	r, key := reasonCacheOf(s), fitKeyOf(j, g)
	text, ok := r.spreadTexts[key]
	if !ok {
		text = makeSpreadText(s, j, g, free)
		r.spreadTexts[key] = text
	}
	return text
}

func makeSpreadText(s *Explainer, j *tables.Job, g int, free int32) string {
	if j.Spec.Restricted() {
		return fullNodesText(s, j, g)
	}
	on, exact := freeByNode(s, j, g)
	if len(on) < 2 || fitByNumber(j.Gangs[g].Shape.Members, on) {
		return ""
	}
	var texts []string
	sum, most := int32(0), int32(0)
	for _, l := range on {
		sum, most = sum+l.Free, max(most, l.Free)
	}
	if !exact || sum != free {
		return fmt.Sprintf("at most %d on one node", most)
	}
	for _, l := range on[:min(len(on), maxNamed)] {
		texts = append(texts, fmt.Sprintf("%d on %s", l.Free, s.Cluster.Forest().Nodes[l.Node].Name))
		sum -= l.Free
	}
	if more := int32(len(on) - len(texts)); more > 0 {
		texts = append(texts, fmt.Sprintf("%d on %s", sum, model.Plural(more, "other node", "other nodes")))
	}
	return model.JoinAnd(texts)
}

// fullNodesText is a text of the nodes to which a job is restricted, if no leaf there is free and
// all jobs in its way run there; else "".
func fullNodesText(s *Explainer, j *tables.Job, g int) string {
	all, its := allHolders(s, j, g), s.onlyNodes(j)
	if len(all.Own)+len(all.Others) == 0 ||
		slices.ContainsFunc(s.rooms(j, g), func(r model.Room) bool { return s.inService(j, g, r.SKU) > 0 }) {
		return ""
	}
	there := map[model.JobID]bool{}
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.State != model.AttemptReserving && s.holdsOn(j, g, a, its) {
			there[a.ID.Job] = true
		}
	}
	elsewhere := func(id model.JobID) bool { return !there[id] }
	if slices.ContainsFunc(all.Own, elsewhere) || slices.ContainsFunc(all.Others, elsewhere) {
		return ""
	}
	return strings.TrimPrefix(nodesText(j.Spec, "its "), " ")
}

// freeByNode counts the leaves that are free to a gang on each node, in order of the nodes,
// including those of cells that could be bound there. exact is false where more cells could be
// bound than the VC has left.
func freeByNode(s *Explainer, j *tables.Job, g int) (on []freeOnNode, exact bool) {
	f := s.Cluster.Forest()
	add := func(node, free int32) {
		if free > 0 {
			on = append(on, freeOnNode{Node: node, Free: free})
		}
	}
	exact = true
	if j.Spec.Priority < cell.MinGuaranteed {
		for i := range f.Nodes {
			for _, c := range f.Nodes[i].Cells {
				if s.UsableChain(j, g, f.Cells[c].Chain) {
					add(int32(i), s.Cluster.Idle(c))
				}
			}
		}
	} else {
		space := s.Space(j.Spec.VC)
		reasonCacheOf(s).usedLeaves(&s.Tables, space)
		for _, l := range reasonCacheOf(s).freeOnNodes[space] {
			if r := &s.Cluster.Space(space).Roots[l.Root]; s.UsableChain(j, g, r.Chain) && s.RootServes(j, g, r) {
				add(l.Node, l.Free)
			}
		}
		exact = bindableOn(&s.Tables, j, g, add)
	}
	slices.SortStableFunc(on, func(a, b freeOnNode) int { return cmp.Compare(a.Node, b.Node) })
	out := on[:0]
	for _, l := range on {
		if n := len(out); n > 0 && out[n-1].Node == l.Node {
			out[n-1].Free += l.Free
			continue
		}
		out = append(out, l)
	}
	return out, exact
}
