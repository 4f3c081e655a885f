package policy

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// Classes are half doublings: 1, 2, 3, 4-5, 6-7, 8-11, 12-15 and so on.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		seconds int64
		class   int
		middle  int64
	}{{0, 0, 1}, {1, 0, 1}, {2, 2, 2}, {3, 3, 3}, {5, 4, 5}, {6, 5, 7}, {11, 6, 10}, {12, 7, 15}, {100, 13, 120}, {1 << 40, 80, 1<<40 + 1<<38}} {
		if k := classOf(c.seconds); k != c.class || middle(k) != c.middle {
			t.Errorf("%d s: class %d, middle %d; want %d, %d", c.seconds, k, middle(k), c.class, c.middle)
		}
	}
}

// Two gangs of 4 GPUs that ran 25 s are 100 GPU-seconds each; what never ran says nothing;
// a full note is halved.
func TestLearns(t *testing.T) {
	p := &learned{}
	var note []byte
	for _, ran := range []model.Duration{25, 25, 1} {
		note = p.Learn(note, &model.GangView{Leaves: 4, Ran: ran * model.Second})
	}
	if string(note) != "4:1/13:2" {
		t.Errorf("note %q", note)
	}
	if again := p.Learn(note, &model.GangView{Leaves: 4}); again != nil {
		t.Errorf("a gang that never ran made it %q", again)
	}
	if got := p.Learn([]byte("4:1999/13:2001"), &model.GangView{Leaves: 4, Ran: model.Second}); string(got) != "4:1000/13:1000" {
		t.Errorf("a full note becomes %q", got)
	}
	if counts, sum := readHistory([]byte("4:1/x:2/200:3/5:-1/6:2")); sum != 3 || counts[4] != 1 || counts[6] != 2 {
		t.Errorf("of a note that is half nonsense %d are read", sum)
	}
}

// After 40 gangs of 100 GPU-seconds and 20 of 10,000, one that attained 200 has 20 of 20 before it
// and none within 1,000: index 0 p, while one of 50 has 40 of 60 within 1,000. So does one that
// attained 9,500: it is about to end. By the given history alone all differ otherwise.
func TestLearnedIndex(t *testing.T) {
	p := &learned{levels: levels{1 << 60}, given: gittins{delta: 1000}}
	h := p.history(view{note: []byte("13:40/26:20")})
	if len(h.past) != 60 || h.past[0] != 120 || h.past[59] != 10240 {
		t.Fatalf("history %v", h.past)
	}
	// 40 of 60 end within 1000, and take (40 x 120 + 20 x 1000) / 60 each: 40/24800.
	if got, want := h.index(50), int64(40)*1_000_000_000_000/24_800; got != want {
		t.Errorf("index of 50: %d, want %d", got, want)
	}
	if got := h.index(200); got != 0 {
		t.Errorf("index of 200: %d, want 0", got)
	}
	// all 20 past 9,500 but one, which stands for the last sample: 19 / (19 x 10240 + 1000).
	if got, want := h.index(9500), int64(19)*1_000_000_000_000/195_560; got != want {
		t.Errorf("index of 9500: %d, want %d", got, want)
	}
	if p.history(view{note: []byte("13:49")}) != &p.given {
		t.Error("49 gangs are no history yet")
	}
}

// view is a VC with a note.
type view struct {
	model.View
	note []byte
}

func (v view) Note(model.JobID) []byte { return v.note }
