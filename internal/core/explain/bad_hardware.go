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

// badNodesFor finds what is out of service among the cells that a gang could use, on given nodes;
// nil is all nodes.
func (s *Explainer) badNodesFor(j *tables.Job, g int, on cell.NodeSet) (out badNodes) {
	f := s.Cluster.Forest()
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && s.drainsFor(j, g, a, on) &&
			!slices.Contains(out.drainers, a.ID.Job) {
			out.drainers = append(out.drainers, a.ID.Job)
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

// inService counts the leaves of a SKU, on nodes that a gang may use, that are in service and that
// it could have now: promised to no gang, and idle or, for a guaranteed gang, held by
// opportunistic work.
func (s *Explainer) inService(j *tables.Job, g int, sku cell.TypeName) (n int32) {
	f, its := s.Cluster.Forest(), s.onlyNodes(j)
	for l := range f.Leaves {
		at := f.Leaves[l]
		c := &f.Cells[at]
		if f.Chains[c.Chain].SKU != sku || s.Cluster.NodeFaults(c.Node) != 0 || s.Cluster.LeafBad(cell.LeafID(l)) ||
			its != nil && !its.Has(c.Node) || !s.UsableChain(j, g, c.Chain) || s.PinnedAway(j, g, at) {
			continue
		}
		if hold, promised := s.Cluster.Holder(cell.LeafID(l)); promised == cell.None && (hold == cell.None || s.Cluster.Alloc(hold).Opportunistic() && j.Spec.Priority >= cell.MinGuaranteed) {
			n++
		}
	}
	return n
}

// badOn reports whether leaves of a node that a gang could use are out of service, and whether some
// only drain. some says that jobs drain at all.
func (s *Explainer) badOn(j *tables.Job, g int, node int32, some bool) (bad, drains bool) {
	f := s.Cluster.Forest()
	down := s.Cluster.NodeFaults(node) != 0
	for _, c := range f.Nodes[node].Cells {
		if !s.UsableChain(j, g, f.Cells[c].Chain) {
			continue
		}
		first := f.Cells[c].FirstLeaf
		for l := first; l < first+cell.LeafID(f.NumLeaves(c)); l++ {
			switch {
			case !down && !s.Cluster.LeafBad(l) || s.PinnedAway(j, g, f.Leaves[l]):
			case down || !some || s.NotedBad(l):
				return true, drains
			default:
				drains = true
			}
		}
	}
	return false, drains
}

// drainsFor reports whether an attempt drains from leaves that a gang could use.
func (s *Explainer) drainsFor(j *tables.Job, g int, a *tables.Attempt, on cell.NodeSet) bool {
	f := s.Cluster.Forest()
	return slices.ContainsFunc(tables.RareOf(a.Rare).DrainingLeaves, func(l cell.LeafID) bool {
		at := f.Leaves[l]
		return (on == nil || on.Has(f.Cells[at].Node)) && s.UsableChain(j, g, f.Cells[at].Chain) &&
			!s.PinnedAway(j, g, at)
	})
}

// badNodesOfShape returns what is out of service among the cells that a gang could use, found once
// for all gangs of its shape.
func badNodesOfShape(s *Explainer, j *tables.Job, g int, rooms []model.Room) *shapeBadNodes {
	r, key := reasonCacheOf(s), fitKeyOf(j, g)
	if known := r.badHardware[key]; known != nil {
		return known
	}
	f := s.Cluster.Forest()
	ill := &shapeBadNodes{badNodes: s.badNodesFor(j, g, s.onlyNodes(j)), rooms: slices.Clone(rooms)}
	r.badHardware[key], r.Read = ill, r.Read+len(f.Leaves)
	if len(ill.nodes)+len(ill.drained) == 0 { // with other nodes back, cells could be bound there
		ill.badNodes = s.badNodesFor(j, g, nil)
	}
	for i := range ill.rooms {
		ill.rooms[i].Free = min(ill.rooms[i].Free, s.inService(j, g, ill.rooms[i].SKU))
	}
	suspects := len(ill.nodes) > 0 && len(ill.drainers) == 0
	for _, i := range ill.nodes {
		ill.names = append(ill.names, f.Nodes[i].Name)
		until := s.NodeNote(f.Nodes[i].Name).Suspect
		suspects = suspects && until > 0 && s.Cluster.NodeFaults(i) == cell.Suspect
		if ill.until == 0 || until < ill.until {
			ill.until = until
		}
	}
	if !suspects {
		ill.until = 0
	}
	for _, n := range ill.names[:min(len(ill.names), maxNamed)] {
		if why := r.badOf(&s.Tables)[n].why; why != "" {
			ill.why = fmt.Sprintf(" (%s: %s)", n, why)
			break
		}
	}
	for _, i := range ill.drained {
		ill.names = append(ill.names, f.Nodes[i].Name)
	}
	ill.outages = outOfService(s, ill.nodes)
	return ill
}

// othersInWay returns the jobs that hold cells which a gang could use and that do not drain,
// without the gang's own job, by id. They are found once for all gangs of its shape.
func (ill *shapeBadNodes) othersInWay(s *Explainer, j *tables.Job, g int) []model.JobID {
	if ill.inWay == nil {
		ill.inWay, reasonCacheOf(s).Read = []model.JobID{}, reasonCacheOf(s).Read+len(s.Attempts)
		if j.Spec.Priority < cell.MinGuaranteed {
			ill.inWay = append(ill.inWay, s.endableWithout(j, g, tables.None)...) // these hold all usable cells
		} else {
			h := allHolders(s, j, g)
			ill.inWay = append(append(ill.inWay, h.Own...), h.Others...)
		}
		ill.inWay = slices.DeleteFunc(ill.inWay, func(id model.JobID) bool {
			_, drains := slices.BinarySearch(ill.drainers, id)
			return drains
		})
		slices.Sort(ill.inWay)
	}
	if at, own := slices.BinarySearch(ill.inWay, j.ID); own {
		return slices.Delete(slices.Clone(ill.inWay), at, at+1)
	}
	return ill.inWay
}

// badOf returns the nodes with leaves that get no new work.
func (r *reasonCache) badOf(s *tables.Tables) map[cell.NodeName]badNode {
	if r.bad != nil {
		return r.bad
	}
	r.bad, r.Read = map[cell.NodeName]badNode{}, r.Read+len(s.Leaves)
	for _, n := range s.Leaves {
		if s.Cluster.Forest().FindPart(n.Node, n.SKU, n.Device, n.Part) != cell.None {
			one, seen := r.bad[n.Node]
			r.bad[n.Node] = badNode{cmp.Or(one.why, n.Reason), n.HeldByOthers && (one.held || !seen),
				n.Cordoned && (one.cordoned || !seen)}
		}
	}
	return r.bad
}

// hardwareReason completes a reason with what is out of service among the cells that a gang could
// use. With crowded jobs keep the gang out as well, and are named. Where all nodes are only
// suspects the gang backs off until the first takes jobs again.
func (s *Explainer) hardwareReason(r model.Reason, j *tables.Job, g int, crowded bool) model.Reason {
	ill := badNodesOfShape(s, j, g, r.Rooms)
	r.Rooms = ill.rooms
	r.Free, r.Total = model.SumRooms(r.Rooms)
	r.Nodes, r.MoreNodes = firstNamed(s, ill.names)
	if ill.until > 0 {
		r.Until = ill.until
		return r.Say(model.BackOff, "%s refused several jobs; new jobs start there again in %d s",
			firstNodesText(ill.names), secondsUntil(s.Now, r.Until))
	}
	inWay := ""
	r.Jobs = slices.Clone(ill.drainers)
	if crowded {
		all := ill.othersInWay(s, j, g)
		holders, more := firstNamed(s, all)
		if len(all) > 0 {
			inWay = jobsText(s, j.Spec.User, holders, more)
		}
		r.Jobs, r.More = append(r.Jobs, holders...), more
	}
	code := model.BadHardware
	switch {
	case len(ill.nodes) == 0 && len(ill.drainers) > 0:
		code = model.Draining
	case ill.outages.onlyHeld():
		code = model.HeldByOthers
	case ill.outages.cordoned:
		code = model.Cordoned
	}
	return r.Say(code, "%s", s.badText(j, ill, inWay, crowded)+ill.why)
}

// badText says what a gang waits for: bad nodes, jobs that drain and, with crowded, holders, the
// text of the jobs that hold what it could use. If crowded no part of these suffices alone.
func (s *Explainer) badText(j *tables.Job, ill *shapeBadNodes, holders string, crowded bool) string {
	const lacks = " (on devices no longer in the configuration)"
	var ifs, inWay []string
	if holders != "" {
		inWay = append(inWay, holders)
	}
	if len(ill.nodes) > 0 || len(ill.drainers) == 0 {
		ifs, inWay = append(ifs, ill.outages.become("were repaired", "were in service")), append(inWay,
			ill.outages.text())
	}
	if len(ill.drainers) > 0 {
		ifs = append(ifs, s.jobList(j.Spec.User, ill.drainers)+lacks+" had ended")
		inWay = append(inWay, s.jobList(j.Spec.User, ill.drainers)+lacks)
	}
	if !crowded {
		return "it would fit if " + strings.Join(ifs, " and ")
	}
	return "in its way: " + strings.Join(inWay, ", and ")
}

// text names the outages.
func (o outages) text() string {
	list := slices.Clone(o.others)
	if o.held != "" {
		list = slices.Insert(list, 0, "programs of others that hold devices of "+o.held)
	}
	if o.bad != "" {
		list = slices.Insert(list, 0, o.bad)
	}
	return model.JoinAnd(list)
}

// onlyHeld reports whether others hold devices, and nothing is out of service for another reason.
func (o outages) onlyHeld() bool { return o.held != "" && o.bad == "" && len(o.others) == 0 }

// become says what must happen to each kind of outage: "the bad hardware on n3 were repaired and n1
// (down) were in service".
func (o outages) become(repaired, inService string) string {
	var parts []string
	if o.bad != "" {
		parts = append(parts, "the "+o.bad+" "+repaired)
	}
	if o.held != "" {
		parts = append(parts, "others held no devices of "+o.held)
	}
	if len(o.others) > 0 {
		parts = append(parts, model.JoinAnd(o.others)+" "+inService)
	}
	return strings.Join(parts, " and ")
}

// outOfService returns what is wrong with each of some nodes; without nodes, that something is.
func outOfService(s *Explainer, nodes []int32) (out outages) {
	if len(nodes) == 0 {
		return outages{others: []string{"hardware that is out of service"}}
	}
	var faults []string
	names := map[string][]cell.NodeName{}
	for _, i := range nodes {
		fault := faultOf(s, i)
		if names[fault] == nil {
			faults = append(faults, fault)
		}
		names[fault] = append(names[fault], s.Cluster.Forest().Nodes[i].Name)
	}
	out.cordoned = len(faults) == 1 && faults[0] == cordonedWord
	for _, fault := range faults {
		switch fault {
		case badWord:
			out.bad = "bad hardware on " + firstNodesText(names[fault])
		case heldWord:
			out.held = firstNodesText(names[fault])
		default:
			out.others = append(out.others, firstNodesText(names[fault])+" ("+fault+")")
		}
	}
	return out
}

// badWord is the fault of a node on which a leaf was declared bad, heldWord that of one on which
// others hold all leaves that get no new work, cordonedWord that of a node that was cordoned, in
// Comb or elsewhere.
const (
	badWord      = "bad"
	heldWord     = "held by others"
	cordonedWord = "cordoned"
)

// faultOf names what keeps a node, or leaves of it, out of service.
func faultOf(s *Explainer, node int32) string {
	var words []string
	for _, b := range []struct {
		blame cell.NodeFaults
		word  string
	}{{cell.Down, "down"}, {cell.Cordoned, cordonedWord}, {cell.Suspect, "suspect"}} {
		if s.Cluster.NodeFaults(node)&b.blame != 0 {
			words = append(words, b.word)
		}
	}
	switch one, noted := reasonCacheOf(s).badOf(&s.Tables)[s.Cluster.Forest().Nodes[node].Name]; {
	case one.held:
		words = append(words, heldWord)
	case one.cordoned && slices.Contains(words, cordonedWord):
	case one.cordoned:
		words = append(words, cordonedWord)
	case noted || len(words) == 0:
		words = append(words, badWord)
	}
	return strings.Join(words, " and ")
}
