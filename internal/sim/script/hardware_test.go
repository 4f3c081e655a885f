package script_test

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// hardware is what the journal said about machines: what a placement must obey.
type hardware struct {
	down, cordoned map[cell.NodeName]bool
	suspect        map[cell.NodeName]model.Time
	bad            map[device]bool
	avoid          map[gangKey]map[cell.NodeName]model.Time
}

func newHardware() hardware {
	return hardware{
		down: map[cell.NodeName]bool{}, cordoned: map[cell.NodeName]bool{},
		suspect: map[cell.NodeName]model.Time{}, bad: map[device]bool{},
		avoid: map[gangKey]map[cell.NodeName]model.Time{},
	}
}

// note keeps what a record says about machines; it reports whether it says anything.
func (h *hardware) note(e model.Event) bool {
	switch e := e.(type) {
	case model.NodeHealth:
		h.down[e.Node] = !e.Up
	case model.NodeCordoned:
		h.cordoned[e.Node] = e.On
		if !e.On {
			delete(h.suspect, e.Node) // whoever uncordons trusts it
		}
	case model.NodeSuspected:
		h.suspect[e.Node] = e.Until
	case model.LeafHealth:
		h.bad[device{e.Node, e.SKU, e.Device, e.Part}] = !e.Good
	case model.NodeAvoided:
		key := gangKey{e.Job, e.Gang}
		if h.avoid[key] == nil {
			h.avoid[key] = map[cell.NodeName]model.Time{}
		}
		h.avoid[key][e.Node] = e.Until
	case model.TaskUnknown, model.TaskRefused:
	default:
		return false
	}
	return true
}

// fits checks that a gang's placement is what was asked for, on working hardware.
func (h *hardware) fits(now model.Time, id model.AttemptID, j *model.Job, p cell.Placement) error {
	seen := map[device]bool{}
	for i, ordinal := range j.Gangs[id.Gang].Tasks {
		t, role := &p.Tasks[i], roleOf(j, ordinal)
		switch {
		case len(t.Devices) != int(role.Leaves) || len(t.Leaves) != int(role.Leaves):
			return fmt.Errorf("task %d gets %d devices instead of %d", ordinal, len(t.Devices), role.Leaves)
		case len(role.SKUs) > 0 && role.Pinned == "" && !slices.Contains(role.SKUs, t.SKU):
			return fmt.Errorf("task %d gets SKU %s instead of %v", ordinal, t.SKU, role.SKUs)
		case len(j.AllowedNodes) > 0 && !slices.Contains(j.AllowedNodes, t.Node):
			return fmt.Errorf("task %d is on %s, which is not allowed", ordinal, t.Node)
		case h.down[t.Node] || h.cordoned[t.Node]:
			return fmt.Errorf("task %d is on %s, which is down or cordoned", ordinal, t.Node)
		case h.suspect[t.Node] > now:
			return fmt.Errorf("task %d is on %s, which is suspect", ordinal, t.Node)
		case h.avoid[gangKey{id.Job, id.Gang}][t.Node] > now:
			return fmt.Errorf("task %d is on %s, which refused it", ordinal, t.Node)
		}
		for n, index := range t.Devices {
			d := device{node: t.Node, sku: t.SKU, index: index}
			if n < len(t.Parts) {
				d.part = t.Parts[n]
			}
			if h.bad[d] || seen[d] {
				return fmt.Errorf("task %d gets %s:%d, which is bad or given twice", ordinal, t.Node, index)
			}
			seen[d] = true
		}
	}
	return nil
}

func roleOf(j *model.Job, ordinal int32) *model.Role {
	for i := range j.Roles {
		if ordinal < j.Roles[i].Tasks {
			return &j.Roles[i]
		}
		ordinal -= j.Roles[i].Tasks
	}
	return nil
}

// reserved checks that a preemptor's victims are exactly those who stand on its
// cells and were not leaving already (I6).
func (c *checker) reserved(r model.Record, e model.Reserved) {
	c.victims[e.Attempt] = e.Victims
	wanted := map[device]bool{}
	place := attempt{placed: true, place: e.Placement}
	place.devices(func(d device) { wanted[d] = true })
	for id, a := range c.live {
		stands := false
		a.devices(func(d device) { stands = stands || wanted[d] })
		victim := slices.Contains(e.Victims, id)
		if victim && !stands {
			c.fail("I6: event %d: victim %v does not stand on a cell of %v", r.Seq, id, e.Attempt)
		}
		if stands && !victim && (!a.stop || len(e.Victims) == 0) {
			c.fail("I6: event %d: attempt %v stands on a cell of %v and is no victim", r.Seq, id, e.Attempt)
		}
	}
}
