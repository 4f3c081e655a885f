package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// tasks adds a gang that waits, of members, with a run time and a deadline.
func (b *board) tasks(deadline model.Duration, members ...cell.Member) {
	b.dated(1, 10*minutes, deadline)
	g := &b.waiting[len(b.waiting)-1]
	g.Members, g.Leaves = members, 0
	for _, m := range members {
		g.Leaves += m.Tasks * m.Leaves
	}
}

// Who holds the lease and finds no room makes those leave who hold none, the last in the order
// first, then who is not judged, then holders of smaller parts of a node: not those of parts as
// large, such as a node's half for 3 and for 4 GPUs. The largest parts are served first.
func TestChronusHoldersMakeRoom(t *testing.T) {
	b := chronusBoard(40)
	b.notes[0] = []byte("0 833400: the plan was made")
	const holds, demoted = "holds 0 gpu 833400", "demoted"
	for _, c := range []struct {
		tasks, leaves int32
		note          string
		waits, keeps  bool
	}{
		{1, 2, holds, false, true}, {1, 4, holds, false, false}, {2, 1, demoted, false, false}, {1, 8, holds, false, false},
		{1, 3, holds, true, false}, {2, 8, holds, true, false}, {2, 1, "", false, false}, {1, 1, "holds 0 gone 833400", false, false},
		{1, 2, holds, false, false}, {6, 1, holds, true, false},
	} {
		b.tasks(9*lease, cell.Member{Tasks: c.tasks, Leaves: c.leaves})
		g := b.waiting[len(b.waiting)-1]
		g.Note, g.Hints.Checkpoint = []byte(c.note), !c.keeps
		b.waiting[len(b.waiting)-1] = g
		if b.notes[g.Ref.Job] = g.Note; !c.waits {
			g.Started = b.now
			b.running, b.waiting = append(b.running, g), b.waiting[:len(b.waiting)-1]
		}
	}
	b.free = 0
	p := make1(t, "chronus", "")
	b.keyed = p.(model.Keyed)
	var out []string
	for w := range p.Rank(b) {
		if w.Note != nil {
			continue
		}
		text := fmt.Sprintf("%d:", w.Gang.Job)
		for ref := range w.Preemptible {
			text += fmt.Sprintf(" %d", ref.Job)
		}
		text += "; passes"
		for job := range model.JobID(10) {
			if ref := (model.GangRef{Job: job + 1}); w.IsBehind(ref) {
				text += fmt.Sprintf(" %d", ref.Job)
			}
		}
		out = append(out, text)
	}
	is(t, "order", strings.Join(out, "\n"), "6: 3 7 9 1 2; passes 1 2 3 5 7 9 10\n5: 3 7 9 1; passes 1 3 7 9 10\n10: 3 7; passes 3 7")
}

// Each task counts as a part of a node: of two nodes of 8, tasks of 3 take halves, and tasks of 8
// and of 1 a node each, since those of 1 might stand apart. On one node tasks count as they are.
func TestChronusCountsParts(t *testing.T) {
	m := func(tasks, leaves int32) cell.Member { return cell.Member{Tasks: tasks, Leaves: leaves} }
	yes, no := "(1 promised 0 gpu), (2 promised 0 gpu)", "(1 promised 0 gpu), (2 demoted)"
	for i, c := range []struct {
		total int32
		first []cell.Member
		other cell.Member
		want  string
	}{
		{16, []cell.Member{m(2, 3)}, m(1, 8), yes},
		{16, []cell.Member{m(3, 3)}, m(1, 4), no}, // rounded up to two nodes
		{24, []cell.Member{m(5, 3)}, m(1, 4), yes},
		{24, []cell.Member{m(5, 3)}, m(1, 5), no},
		{16, []cell.Member{m(1, 8), m(1, 1)}, m(1, 1), no},
		{24, []cell.Member{m(1, 8), m(2, 1)}, m(1, 1), no},
		{24, []cell.Member{m(1, 8), m(1, 1)}, m(1, 8), yes},
		{8, []cell.Member{m(1, 5), m(1, 1)}, m(1, 1), no}, // rounded up to a node
		{8, []cell.Member{m(1, 3), m(1, 1)}, m(2, 2), yes},
	} {
		b := chronusBoard(c.total)
		b.tasks(2*lease, c.first...)
		b.tasks(2*lease, c.other)
		got, _, _ := strings.Cut(b.look(make1(t, "chronus", "")), "), 1!")
		got, _, _ = strings.Cut(got, ", 2!")
		is(t, fmt.Sprint(i), strings.TrimSuffix(got, ")")+")", c.want)
	}
}

// Only cells of the largest size within a node count, and each pinned cell for those who name it.
func TestChronusCountsCells(t *testing.T) {
	for _, c := range []struct {
		cells  []model.PoolCells
		member cell.Member
		n      int // how many of three are promised the only lease
	}{
		{[]model.PoolCells{{Size: 2, Leaves: 8}, {Size: 8, Leaves: 8}}, cell.Member{Tasks: 1, Leaves: 4}, 2},
		{[]model.PoolCells{{Size: 2, Leaves: 8}, {Size: 8, Leaves: 8}}, cell.Member{Tasks: 4, Leaves: 1}, 2},
		{[]model.PoolCells{{Size: 2, Leaves: 16}}, cell.Member{Tasks: 1, Leaves: 4}, 0},
		{[]model.PoolCells{{Size: 2, Leaves: 16}}, cell.Member{Tasks: 2, Leaves: 2}, 3},
		{[]model.PoolCells{{Size: 8, Leaves: 8}, {Pinned: "p", Size: 8, Leaves: 16}}, cell.Member{Tasks: 1, Leaves: 8}, 1},
		{[]model.PoolCells{{Size: 8, Leaves: 8}, {Pinned: "p", Size: 8, Leaves: 16}}, cell.Member{Tasks: 1, Leaves: 8, Pinned: "p"}, 2},
		{[]model.PoolCells{{Pinned: "p", Size: 8, Leaves: 16}}, cell.Member{Tasks: 1, Leaves: 1, Pinned: "q"}, 0},
	} {
		b := &pooled{chronusBoard(24), []model.Pool{{SKU: "gpu", PerNode: 8, Cells: c.cells}}}
		for i := range c.cells {
			b.pools[0].Leaves += c.cells[i].Leaves
		}
		for range 3 {
			b.tasks(2*lease, c.member)
		}
		if got := strings.Count(b.lookAt(b, make1(t, "chronus", "")), "promised"); got != c.n {
			t.Errorf("cells %v: %d of %v are promised a lease, want %d", c.cells, got, c.member, c.n)
		}
	}
}
