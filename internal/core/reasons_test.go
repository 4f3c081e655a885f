package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// crowded is a full virtual cluster of so many nodes with so many jobs of several shapes that wait.
func crowded(t testing.TB, nodes, waiting int) *core.State {
	s := core.New(policy.New)
	now := model.Time(1)
	give := func(c model.Command) {
		events, _, no := s.Check(c, now)
		if no != nil {
			t.Fatal(no)
		}
		for _, e := range events {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
		}
	}
	give(model.Reconfigure{Config: cluster(nodes, map[cell.VCName]int32{"a": int32(nodes)})})
	for i := range nodes {
		give(model.Submit{Job: gangJob(fmt.Sprint("runs", i), "a", 10, 1, 4)})
	}
	for i := range waiting {
		give(model.Submit{Job: gangJob(fmt.Sprint("waits", i), "a", 10, int32(1+i%4), int32(1+i%3))})
	}
	s.Settle(now)
	return s
}

// reasonsOf asks why all of them wait.
func reasonsOf(t testing.TB, s *core.State) (n int) {
	for _, j := range s.Jobs() {
		if e, ok := s.Why(j.ID); ok && len(e.Gangs) > 0 {
			n++
		}
	}
	return n
}

// The reasons of a list read each leaf once, however many wait and of whatever shapes.
func TestReasonsReadLeavesOnce(t *testing.T) {
	const nodes, waiting = 16, 200
	s := crowded(t, nodes, waiting)
	before := s.LeavesRead()
	if n := reasonsOf(t, s); n != waiting {
		t.Fatalf("%d wait, want %d", n, waiting)
	}
	if read := s.LeavesRead() - before; read != 4*nodes {
		t.Errorf("the reasons of %d jobs read %d leaves, want those of the cluster once: %d", waiting, read, 4*nodes)
	}
}

// ailing is a cluster of so many nodes on each of which three GPUs are bad, and jobs that wait for
// them.
func ailing(t *testing.T, nodes, waiting int) *core.State {
	w := newWorld(t, cluster(nodes, map[cell.VCName]int32{"a": int32(nodes)}))
	for n := range nodes {
		for d := range int32(3) {
			w.tell(model.LeafHealth{Node: cell.NodeName(fmt.Sprint("n", n)), SKU: "G", Device: d, Reason: "Xid 79"})
		}
	}
	for i := range waiting {
		w.submit(gangJob(fmt.Sprint("waits", i), "a", 10, 1, int32(2+2*(i%2))))
	}
	return w.s
}

// What is out of order is looked at once for each shape of gangs, and what was said of it once for
// all, however many wait; and ten nodes are named, as many as there are.
func TestReasonsReadFaultsOnce(t *testing.T) {
	const nodes, shapes = 16, 2
	for _, waiting := range []int{4, 100} {
		s := ailing(t, nodes, waiting)
		before := s.LeavesRead()
		if n := reasonsOf(t, s); n != waiting {
			t.Fatalf("%d wait, want %d", n, waiting)
		}
		// Each shape reads all leaves, and one list of what is in use does.
		if read := s.LeavesRead() - before; read > (shapes+1)*4*nodes+3*nodes {
			t.Errorf("the reasons of %d jobs read %d leaves and notes", waiting, read)
		}
		for _, j := range s.Jobs() {
			e, _ := s.Why(j.ID)
			r := &e.Gangs[0].Reason
			if r.Code != model.BadHardware || len(r.Nodes) != 10 || r.MoreNodes != nodes-10 {
				t.Errorf("%s waits for %s: %s %v and %d more", j.Name, r.Code, r.Message, r.Nodes, r.MoreNodes)
			}
		}
	}
}

// Who holds what is in use beside what is out of order is looked up once for each shape, too, and a
// job of which a part runs is not in its own way.
func TestReasonsReadHoldersOnce(t *testing.T) {
	const nodes = 16
	for _, priority := range []cell.Priority{10, -1} {
		var read []int
		for _, waiting := range []int{4, 100} {
			w := newWorld(t, cluster(nodes, map[cell.VCName]int32{"a": int32(nodes)}))
			for i := range nodes - 1 {
				w.submit(gangJob(fmt.Sprint("runs", i), "a", 10, 1, 4))
			}
			both := gangJob("both", "a", priority, 2, 4)
			both.Gangs = []model.Gang{{Name: "first", Tasks: []int32{0}}, {Name: "second", Tasks: []int32{1}}}
			own := w.submit(both)
			for n := range nodes {
				w.do(model.Cordon{Node: cell.NodeName(fmt.Sprint("n", n)), On: true})
			}
			for i := range waiting {
				w.submit(gangJob(fmt.Sprint("waits", i), "a", priority, 1, int32(2+2*(i%2))))
			}
			before := w.s.LeavesRead()
			reasonsOf(t, w.s)
			read = append(read, w.s.LeavesRead()-before)
			for _, j := range w.s.Jobs()[nodes-1:] {
				want := nodes
				if j.ID == own {
					want--
				}
				e, _ := w.s.Why(j.ID)
				if r := &e.Gangs[0].Reason; r.Code != model.Cordoned || len(r.Jobs)+r.More != want {
					t.Errorf("%s waits for %s: %s", j.Name, r.Code, r.Message)
				}
			}
		}
		if read[0] != read[1] {
			t.Errorf("of priority %d the reasons of 4 jobs read %d leaves and attempts, those of 100 %d", priority, read[0], read[1])
		}
	}
}

// What is remembered for a list does not outlive what happens: an ended job is named no more.
func TestReasonsAreOfNow(t *testing.T) {
	s := crowded(t, 2, 1)
	id := s.Jobs()[2].ID
	was, _ := s.Why(id)
	if got := was.Gangs[0].Reason.Jobs; len(got) != 2 {
		t.Fatalf("it waits for %v, want both that run", got)
	}
	for _, e := range s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: 1, N: 1}, Task: 0}) {
		s.Apply(model.Record{Seq: s.Seq() + 1, Time: s.Now(), Event: e})
	}
	s.Settle(s.Now() + 1)
	if is, _ := s.Why(id); len(is.Gangs) > 0 {
		t.Errorf("it still waits: %s", is.Gangs[0].Reason.Message)
	}
	if j, ok := s.Job(id); !ok || j.Phase != model.Active {
		t.Errorf("it is %v", j.Phase)
	}
}

// BenchmarkReasons asks why each of very many waits.
func BenchmarkReasons(b *testing.B) {
	s := crowded(b, 1000, 10_000)
	for b.Loop() {
		reasonsOf(b, s)
		s = s.Clone() // which remembers nothing
	}
}

// What is worked out while a state tells a reader serves the next one, and has no names of the
// first.
func TestWhatOneReaderIsToldServesTheNext(t *testing.T) {
	const nodes = 20
	s := crowded(t, nodes, 30)
	tell := func(reader model.Subject, hides func(*model.Job) bool) (text string, read int) {
		before := s.LeavesRead()
		back := s.TellFor(reader, hides)
		for _, j := range s.Jobs() {
			if ex, _ := s.Why(j.ID); len(ex.Gangs) > 0 {
				text += ex.Gangs[0].Reason.Message + "\n"
			}
		}
		back()
		return text, s.LeavesRead() - before
	}
	mine, first := tell("u", nil)
	others, second := tell("other", nil)
	hidden, third := tell("other", func(*model.Job) bool { return true })
	again, fourth := tell("", nil)
	if first == 0 || second+third+fourth != 0 {
		t.Errorf("leaves read: %d, and then %d, %d and %d", first, second, third, fourth)
	}
	for i, c := range []struct {
		text     string
		has, not string
	}{{mine, "by runs0,", "~"}, {others, "by u~runs0,", " runs0"}, {hidden, "by job 1,", "runs"}, {again, "by runs0,", "~"}} {
		if !strings.Contains(c.text, c.has) || strings.Contains(c.text, c.not) {
			t.Errorf("%d: it lacks %q, or has %q:\n%s", i, c.has, c.not, c.text)
		}
	}
}
