package sched

import (
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
)

// merge reads lines of one priority as if they were one, in order of submission. A line whose shape
// found nothing is left out from then on. Gangs may leave their lines meanwhile.
type merge struct {
	s     *index
	space int32
	prio  cell.Priority
	alone bool                   // who says so has nodes for himself in this VC
	heads collections.Heap[head] // by gang
}

// aloneToo marks the shape of who found no nodes for himself: it says nothing of VCs whose policy
// gives nobody any.
const aloneToo = " alone"

// head is the next gang of one line.
type head struct {
	line int32
	at   int
	e    queued
}

// Before implements collections.HeapItem.
func (h head) Before(o head) bool { return h.e.compare(o.e) < 0 }

// add lets a merge read one more line, which is not empty; order is to be called after the last.
func (m *merge) add(line int, l *line) {
	m.heads = append(m.heads, head{line: int32(line), e: l.gangs[0]})
}

// addFull adds all lines of full gangs.
func (m *merge) addFull() {
	if up := m.s.lineup(m.space, m.prio); up != nil {
		for i := range up.lines {
			if l := &up.lines[i]; !l.extra && len(l.gangs) > 0 {
				m.add(i, l)
			}
		}
	}
	m.order()
}

func (m *merge) order() {
	slices.SortFunc(m.heads, func(a, b head) int { return a.e.compare(b.e) })
}

// first returns the next gang; false at the end.
func (m *merge) first(failed map[string]bool) (queued, bool) {
	for len(m.heads) > 0 {
		h := &m.heads[0]
		l := m.line(h)
		if l.shape != "" && (failed[l.shape] || m.alone && failed[l.shape+aloneToo]) {
			m.heads.Pop() // the line is left out
			continue
		}
		if h.at < len(l.gangs) && l.gangs[h.at] == h.e {
			return h.e, true
		}
		h.at, _ = slices.BinarySearchFunc(l.gangs, h.e, queued.compare) // others left the line, or it did
		m.settle(l.gangs)
	}
	return queued{}, false
}

func (m *merge) line(h *head) *line { return &m.s.lineup(m.space, m.prio).lines[h.line] }

// next steps over the gang that first returned.
func (m *merge) next() {
	h := &m.heads[0]
	gangs := m.line(h).gangs
	found := h.at < len(gangs) && gangs[h.at] == h.e
	if !found {
		h.at, found = slices.BinarySearchFunc(gangs, h.e, queued.compare)
	}
	if found {
		h.at++
	}
	m.settle(gangs)
}

// pass steps over the gang that first returned, for which there is no room, and so over all of its
// shape.
func (m *merge) pass() {
	if m.line(&m.heads[0]).shape == "" {
		m.next()
		return
	}
	m.heads.Pop() // the line is left out
}

// settle reads the gang at which the first line stands now.
func (m *merge) settle(gangs []queued) {
	h := &m.heads[0]
	if h.at == len(gangs) {
		m.heads.Pop() // the line is left out
		return
	}
	h.e = gangs[h.at]
	m.heads.Sink()
}
