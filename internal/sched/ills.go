package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/cell"
)

// ills is what is out of order among the cells that a gang could use.
type ills struct {
	nodes    []int32 // something there is bad or suspect, or they are down or cordoned
	drained  []int32 // nodes that are well, but for what jobs drain from
	drainers []JobID // those jobs, by id
}

// illsFor looks at the cells that a gang could use, on some nodes, nil for all.
func (s *State) illsFor(j *job, g int, on cell.NodeSet) (out ills) {
	f := s.cl.Forest()
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && s.drainsFor(j, g, a, on) && !slices.Contains(out.drainers, a.id.Job) {
			out.drainers = append(out.drainers, a.id.Job)
		}
	}
	slices.Sort(out.drainers)
	for i := range f.Nodes {
		if on != nil && !on.Has(int32(i)) {
			continue
		}
		switch bad, drains := s.badOn(j, g, int32(i), len(out.drainers) > 0); {
		case bad:
			out.nodes = append(out.nodes, int32(i))
		case drains:
			out.drained = append(out.drained, int32(i))
		}
	}
	return out
}

// inService counts the leaves of a SKU that a gang could use, on the nodes that it may use, which are in
// service, promised to no gang and, but for opportunistic work, idle.
func (s *State) inService(j *job, g int, sku cell.TypeName) (n int32) {
	f, its := s.cl.Forest(), s.itsNodes(j)
	for l := range f.Leaves {
		at := f.Leaves[l]
		c := &f.Cells[at]
		if f.Chains[c.Chain].SKU != sku || s.cl.Blame(c.Node) != 0 || s.cl.LeafBad(cell.LeafID(l)) || its != nil && !its.Has(c.Node) || !s.usableChain(j, g, c.Chain) || s.pinnedAway(j, g, at) {
			continue
		}
		if hold, promised := s.cl.Holder(cell.LeafID(l)); promised == cell.None && (hold == cell.None || s.cl.Alloc(hold).Opportunistic() && j.spec.Priority >= cell.MinGuaranteed) {
			n++
		}
	}
	return n
}

// badOn reports whether leaves of a node that a gang could use are out of service, and,
// where jobs drain at all, whether some only drain.
func (s *State) badOn(j *job, g int, node int32, some bool) (bad, drains bool) {
	f := s.cl.Forest()
	down := s.cl.Blame(node) != 0
	for _, c := range f.Nodes[node].Cells {
		if !s.usableChain(j, g, f.Cells[c].Chain) {
			continue
		}
		first := f.Cells[c].FirstLeaf
		for l := first; l < first+cell.LeafID(f.NumLeaves(c)); l++ {
			switch {
			case !down && !s.cl.LeafBad(l) || s.pinnedAway(j, g, f.Leaves[l]):
			case down || !some || s.notedBad(l):
				return true, drains
			default:
				drains = true
			}
		}
	}
	return false, drains
}

// drainsFor reports whether an attempt drains from leaves that a gang could use.
func (s *State) drainsFor(j *job, g int, a *attempt, on cell.NodeSet) bool {
	f := s.cl.Forest()
	return slices.ContainsFunc(rare(a.odd).drains, func(l cell.LeafID) bool {
		at := f.Leaves[l]
		return (on == nil || on.Has(f.Cells[at].Node)) && s.usableChain(j, g, f.Cells[at].Chain) && !s.pinnedAway(j, g, at)
	})
}

// hardwareReason names what is at fault among the cells that a gang could use, and where
// others crowd it out besides, them; when all nodes are only suspects, it says until when.
func (s *State) hardwareReason(r Reason, j *job, g int, crowded bool) Reason {
	f := s.cl.Forest()
	ill := s.illsFor(j, g, s.itsNodes(j))
	if len(ill.nodes)+len(ill.drained) == 0 { // with others in service, cells might be bound elsewhere
		ill = s.illsFor(j, g, nil)
	}
	r.Rooms = slices.Clone(r.Rooms)
	for i := range r.Rooms {
		r.Rooms[i].Free = min(r.Rooms[i].Free, s.inService(j, g, r.Rooms[i].SKU))
	}
	r.Free, r.Total = amount.SumRooms(r.Rooms)
	suspects := len(ill.nodes) > 0 && len(ill.drainers) == 0
	for _, i := range ill.nodes {
		r.Nodes = append(r.Nodes, f.Nodes[i].Name)
		until := s.noted(f.Nodes[i].Name).Suspect
		suspects = suspects && until > 0 && s.cl.Blame(i) == cell.Suspect
		if r.Until == 0 || until < r.Until {
			r.Until = until
		}
	}
	if suspects {
		return r.Say(BackOff, "%s refused several jobs; new jobs start there again in %d s", fewNodes(r.Nodes), secondsUntil(s.now, r.Until))
	}
	r.Until = 0
	var holders []JobID
	if crowded {
		h := s.holdersFor(j, g)
		holders, r.More = append(slices.Clone(h.own), h.others...), h.more()
		if j.spec.Priority < cell.MinGuaranteed { // all who hold anything are
			holders, r.More = s.endable(j, g), 0
		}
		holders = slices.DeleteFunc(holders, func(id JobID) bool { return slices.Contains(ill.drainers, id) })
		slices.Sort(holders)
	}
	inWay := ""
	if len(holders) > 0 {
		inWay = listed(s, j.spec.User, holders, r.More)
	}
	code, text := BadHardware, s.illText(j, ill.nodes, ill.drainers, inWay, crowded)
	text += knownFault(f, s.leaves, ill.nodes)
	if len(r.Nodes) == 0 && len(ill.drainers) > 0 {
		code = Draining
	}
	for _, i := range ill.drained {
		r.Nodes = append(r.Nodes, f.Nodes[i].Name)
	}
	r.Jobs = append(ill.drainers, holders...)
	return r.Say(code, "%s", text)
}

// illText says what a gang waits for: bad nodes, jobs that drain, and where it is crowded
// out besides, the jobs that hold what it could use: then no part of that is enough.
func (s *State) illText(j *job, bad []int32, drainers []JobID, holders string, crowded bool) string {
	const lacks = " (on devices no longer in the configuration)"
	var ifs, inWay []string
	if holders != "" {
		inWay = append(inWay, holders)
	}
	if len(bad) > 0 || len(drainers) == 0 {
		what := outOfService(s.cl, s.leaves, bad)
		ifs, inWay = append(ifs, what+" were in service"), append(inWay, what)
	}
	if len(drainers) > 0 {
		ifs = append(ifs, s.jobList(j.spec.User, drainers)+lacks+" had ended")
		inWay = append(inWay, s.jobList(j.spec.User, drainers)+lacks)
	}
	if !crowded {
		return "it would fit if " + strings.Join(ifs, " and ")
	}
	return "in its way: " + strings.Join(inWay, ", and ")
}

// knownFault is why a leaf of nodes is bad, where that is known of one of them.
func knownFault(f *cell.Forest, bad []leafNote, nodes []int32) string {
	for _, i := range nodes[:min(len(nodes), maxNamed)] {
		for _, n := range bad {
			if n.Node == f.Nodes[i].Name && n.Reason != "" && f.FindPart(n.Node, n.SKU, n.Device, n.Part) != cell.None {
				return fmt.Sprintf(" (%s: %s)", n.Node, n.Reason)
			}
		}
	}
	return ""
}

// outOfService says what is wrong with which nodes: "n1, n2 (cordoned) and bad hardware on n3".
func outOfService(cl *cell.Cluster, bad []leafNote, nodes []int32) string {
	if len(nodes) == 0 {
		return "hardware that is out of service"
	}
	var parts []string
	names := map[string][]cell.NodeName{}
	for _, i := range nodes {
		fault := faultOf(cl, bad, i)
		if names[fault] == nil {
			parts = append(parts, fault)
		}
		names[fault] = append(names[fault], cl.Forest().Nodes[i].Name)
	}
	for i, fault := range parts {
		if parts[i] = fewNodes(names[fault]) + " (" + fault + ")"; fault == badWord {
			parts[i] = "bad hardware on " + fewNodes(names[fault])
		}
	}
	return strings.Join(parts, " and ")
}

// badWord is what a node is called on which a leaf was declared bad.
const badWord = "bad"

// faultOf names what keeps a node, or leaves of it, out of service.
func faultOf(cl *cell.Cluster, bad []leafNote, node int32) string {
	f := cl.Forest()
	var words []string
	for _, b := range []struct {
		blame cell.Blame
		word  string
	}{{cell.Down, "down"}, {cell.Cordoned, "cordoned"}, {cell.Suspect, "suspect"}} {
		if cl.Blame(node)&b.blame != 0 {
			words = append(words, b.word)
		}
	}
	noted := slices.ContainsFunc(bad, func(n leafNote) bool {
		return n.Node == f.Nodes[node].Name && f.FindPart(n.Node, n.SKU, n.Device, n.Part) != cell.None
	})
	if noted || len(words) == 0 {
		words = append(words, badWord)
	}
	return strings.Join(words, " and ")
}
