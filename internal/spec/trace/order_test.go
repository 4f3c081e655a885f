package trace

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// phillyTable writes a philly-csv file of jobs with these submissions, in seconds, whose ids
// are their places.
func phillyTable(t *testing.T, name string, submits []int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(phillyHead)
	for i, s := range submits {
		fmt.Fprintf(&b, "%d,%d,1,1,a\n", i, s)
	}
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if strings.HasSuffix(name, ".gz") {
		z := gzip.NewWriter(f)
		if _, err = z.Write([]byte(b.String())); err == nil {
			err = z.Close()
		}
	} else {
		_, err = f.WriteString(b.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInOrder compares the order of two readings with a stable sort of the rows, of
// files in order, nearly so and not at all.
func TestInOrder(t *testing.T) {
	for seed := range seeds.Of(t, 12) {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, n := range []int{1, 2, orderBlock - 1, orderBlock, orderBlock + 1, 3*orderBlock + random.IntN(orderBlock)} {
			submits := make([]int, n)
			for i := range submits {
				switch seed % 4 {
				case 0:
					submits[i] = i / 3
				case 1:
					submits[i] = i/3 + random.IntN(400)
				case 2:
					submits[i] = random.IntN(n)
				case 3:
					submits[i] = (n - i) / 2
				}
			}
			want := make([]string, n)
			places := make([]int, n)
			for i := range places {
				places[i] = i
			}
			slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(submits[a], submits[b]) })
			for i, at := range places {
				want[i] = fmt.Sprint(at, " ", submits[at])
			}
			path := phillyTable(t, []string{"t.csv", "t.csv.gz"}[seed/4%2], submits)
			r, err := Open(path, Options{})
			if err == nil && seed%12 >= 8 { // as a stream
				var text []byte
				if text, err = os.ReadFile(path); err == nil {
					r, err = OpenStream("stream", iotest.HalfReader(bytes.NewReader(text)), Options{})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for j, err := range r.InOrder() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(j.ID, " ", int64(j.Submit)/int64(model.Second)))
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, %d jobs: another order", seed, n)
			}
		}
	}
}

// TestOpenStreamLeavesNothing reads streams of several formats, also bad ones, and looks
// for what is left among the temporary files.
func TestOpenStreamLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for text, want := range map[string]int{phillyHead + "b,2,1,1,v\na,1,1,1,v\n": 2, "{\"comb_trace\":1}\n{\"id\":\"a\",\"submit_us\":1,\"gpus\":1}\n": 1,
		phillyHead + "b,x,1,1,v\n": 0, "no trace\n": -1, "": -1} {
		r, err := OpenStream("stream", strings.NewReader(text), Options{})
		if (err != nil) != (want < 0) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			continue
		}
		n := 0
		for _, err := range r.InOrder() {
			if err == nil {
				n++
			}
		}
		if err := r.Close(); err != nil || n != want {
			t.Errorf("%q: %d jobs, %v", text, n, err)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSpoolHasNoName reads a stream in which more may follow: its file has no name even
// then, and a format that is read once has none and needs no folder for it.
func TestSpoolHasNoName(t *testing.T) {
	for text, kept := range map[string]bool{phillyHead + "b,2,1,1,v\n": true, "{\"comb_trace\":1}\n{\"id\":\"a\",\"submit_us\":1,\"gpus\":1}\n": false} {
		for _, format := range []Format{Auto, map[bool]Format{true: PhillyCSV, false: Comb}[kept]} {
			t.Setenv("TMPDIR", t.TempDir())
			waiting := &lister{dir: os.Getenv("TMPDIR"), rest: strings.NewReader(text)}
			r, err := OpenStream("stream", waiting, Options{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range r.InOrder() {
				if err != nil {
					t.Error(err)
				}
			}
			if err := r.Close(); err != nil || waiting.reads < 2 || len(waiting.seen) > 0 {
				t.Errorf("%s: %d reads saw %v, %v", format, waiting.reads, waiting.seen, err)
			}
			t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
			r, err = OpenStream("stream", strings.NewReader(text), Options{Format: format})
			if kept && (err == nil || !strings.Contains(err.Error(), "TMPDIR")) || !kept && err != nil {
				t.Errorf("%s without a folder: %v", format, err)
			}
			if err == nil {
				r.Close()
			}
		}
	}
}

// lister looks into a folder whenever something is read.
type lister struct {
	dir   string
	rest  io.Reader
	reads int
	seen  []string
}

func (l *lister) Read(p []byte) (int, error) {
	l.reads++
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		l.seen = append(l.seen, e.Name())
	}
	return l.rest.Read(p)
}

// endless repeats a text, unless it is empty.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.text == "" {
		return 0, io.EOF
	}
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// TestSpoolIsBounded reads streams with members of gzip that hold nothing and do not end,
// before and behind the jobs, and a plain one that is too long.
func TestSpoolIsBounded(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	some := phillyHead + strings.Repeat("b,2,1,1,v\n", 10_000)
	nothing := strings.Repeat(packed(""), 1000)
	for _, c := range []struct {
		before, again string
		most          int64
		want          string
	}{
		{packed(some), nothing, 1 << 20, "more than 1048576 bytes to keep"},
		{packed(phillyHead), nothing, 1 << 20, "more than 1048576 bytes"},
		{"", nothing, 1 << 40, "more than 4194304 bytes before its format"},
		{some, "b,2,1,1,v\n", 1 << 20, "more than 1048576 bytes"},
		{"", some, 10, "more than 10 bytes"},
		{phillyHead, "", 10, "more than 10 bytes"},
	} {
		r, err := OpenStream("stream", io.MultiReader(strings.NewReader(c.before), &endless{text: c.again}), Options{MaxBytes: c.most})
		if err == nil {
			for _, bad := range r.InOrder() {
				err = errors.Join(err, bad)
			}
			r.Close()
		}
		var told *Error
		if !errors.As(err, &told) || told.Kind != "file too large" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// TestWindowHoldsLittle counts the jobs that wait: none of a file in order, and of one
// where nobody stands more than 200 places from his, no more than a block and these.
func TestWindowHoldsLittle(t *testing.T) {
	for _, late := range []int{1, 200} {
		random := rand.New(rand.NewPCG(1, 2))
		var o Order
		jobs := make([]Job, 10*orderBlock)
		for i := range jobs {
			jobs[i].Submit = model.Time(i + random.IntN(late))
			o.add(jobs[i].Submit)
		}
		o.finish()
		given, most := 0, 0
		w := reorderBuffer{order: &o, yield: func(Job, error) bool { given++; return true }}
		for i := range jobs {
			w.take(&jobs[i])
			most = max(most, len(w.held))
		}
		w.release(jobs[len(jobs)-1].Submit + model.Time(late))
		if given != len(jobs) || late == 1 && most != 0 || late > 1 && (most < 1 || most > orderBlock+late) {
			t.Errorf("late by %d: %d given, %d held", late, given, most)
		}
	}
}

// TestFollow gives the order of one file to the reader of another: of a file that
// changed between two readings.
func TestFollow(t *testing.T) {
	first, err := Open(phillyTable(t, "t.csv", []int{3, 1, 2}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.Order() != nil {
		t.Error("an order before anything was read")
	}
	for range first.Jobs() {
		continue
	}
	for _, now := range [][]int{{3, 1, 2}, {3, 1}, {3, 1, 2, 4}} {
		second, err := Open(phillyTable(t, "t.csv", now), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		var last error
		for _, err := range second.Follow(first.Order()) {
			last = err
		}
		if (last == nil) != (len(now) == 3) || last != nil && !strings.Contains(last.Error(), fmt.Sprintf("had 3 jobs and now has %d", len(now))) {
			t.Errorf("%v: %v", now, last)
		}
	}
}

// TestErrorsComeFirst checks that bad rows are told once, before any job, and that the
// good ones follow.
func TestErrorsComeFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(phillyHead+"a,5,1,1,v\nb,x,1,1,v\nc,4,1,1,v\nd,1,1,-1,v\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for j, err := range r.InOrder() {
		if err != nil {
			got = append(got, strings.TrimPrefix(err.Error(), path))
		} else {
			got = append(got, j.ID)
		}
	}
	if len(got) != 4 || !strings.HasPrefix(got[0], ":3:3: submit_s:") || !strings.HasPrefix(got[1], ":5:7: num_gpus:") || got[2] != "c" || got[3] != "a" {
		t.Errorf("%q", got)
	}
}
