package metrics

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// timeline keeps the integrals at equal distances. When there are more rows than its limit it
// drops every second one and doubles the distance. So rows are means over equal times, no
// area is lost, and their number is bounded.
type timeline struct {
	width     model.Duration
	limit     int
	start     model.Time
	next      model.Time // end of the present row
	rows      [][]uint64 // integrals at the end of each row: the cluster's, then those of each VC
	freedRows [][]uint64 // dropped rows, whose memory is reused
}

// vcSeries is how many series of a VC the timeline has, from the first on.
const vcSeries = int(opportunistic) + 1

func (l *timeline) begin(now model.Time) {
	l.start, l.next = now, now.Add(l.width)
}

// advance closes the rows that end by t.
func (l *timeline) advance(f *Fold, t model.Time) {
	for l.next <= t {
		f.now = max(f.now, l.next)
		l.rows = append(l.rows, f.integrals(l.row()))
		for len(l.rows) >= l.limit || int64(t-l.start)/int64(l.width) >= 4*int64(l.limit) {
			l.halve()
		}
		l.next = l.start.Add(l.width * model.Duration(len(l.rows)+1))
	}
}

// halve doubles the width. A last row that is then incomplete is dropped: its area is in the
// next one.
func (l *timeline) halve() {
	n := len(l.rows) / 2
	for i, row := range l.rows {
		if i%2 == 0 {
			l.freedRows = append(l.freedRows, row)
		} else {
			l.rows[i/2] = row
		}
	}
	clear(l.rows[n:])
	l.rows = l.rows[:n]
	l.width *= 2
}

// row returns memory for one more row.
func (l *timeline) row() []uint64 {
	n := len(l.freedRows)
	if n == 0 {
		return nil
	}
	out := l.freedRows[n-1]
	l.freedRows = l.freedRows[:n-1]
	return out[:0]
}

// integrals writes all integrals up to now into out, if it is large enough.
func (f *Fold) integrals(out []uint64) []uint64 {
	out = slices.Grow(out, int(numStates)+(vcSeries+1)*len(f.vcs))
	f.leaves.integrate(f.now)
	out = append(out, f.leaves.area[:]...)
	for _, a := range f.vcs {
		a.integrate(f.now)
		out = append(out, a.area[:vcSeries]...)
		out = append(out, a.area[quota])
	}
	return out
}

// Point is one row of the timeline: means over its time, of one VC, or of the
// cluster when VC is "".
type Point struct {
	At            model.Time // begin of the row
	VC            string
	Waiting       Number // gangs
	Running       Number // gangs
	Guaranteed    Number // leaves in use within guarantees
	Opportunistic Number // leaves in use beyond them
	Idle          Number // of the cluster: idle leaves; of a VC: leaves of its guarantee that it does not use
	Bad           Number // of the cluster; not defined for a VC
}

// Timeline is a run over time. Steps are rows of equal width, of which the last may be
// shorter. Each has the cluster first, then the VCs in order of name.
type Timeline struct {
	Origin model.Time
	Width  model.Duration
	VCs    []string
	Steps  [][]Point
	End    model.Time
}

// points turns the integrals into means; the last row ends at end.
func (f *Fold) points(end model.Time) Timeline {
	l := &f.line
	out := Timeline{Origin: f.o.Origin, Width: l.width, End: end}
	order := make([]int, len(f.vcs))
	for i := range f.vcs {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.vcs[a].name, f.vcs[b].name) })
	for _, i := range order {
		out.VCs = append(out.VCs, string(f.vcs[i].name))
	}
	was, at := []uint64(nil), l.start
	rows := l.rows
	if end > l.start.Add(l.width*model.Duration(len(rows))) {
		rows = append(slices.Clip(rows), f.integrals(nil))
	}
	out.Steps = slices.Grow(out.Steps, len(rows))
	points := make([]Point, len(rows)*(len(order)+1))
	for i, row := range rows {
		to := min(l.start.Add(l.width*model.Duration(i+1)), end)
		if to <= at {
			break
		}
		n := len(order) + 1
		out.Steps = append(out.Steps, out.step(points[:1:n], window{at, to, was, row}, order))
		points = points[n:]
		was, at = row, to
	}
	return out
}

// window is a span of time with the integrals at its begin and its end.
type window struct {
	from, to model.Time
	was, is  []uint64
}

// mean is the mean of one integral. VCs that were added after the begin count from 0.
func (w *window) mean(i int) Number {
	var was uint64
	switch {
	case i >= len(w.is):
		return 0
	case i < len(w.was):
		was = w.was[i]
	}
	return ratio(float64(w.is[i]-was), float64(w.to-w.from))
}

// step adds the points of one row: the VCs in the given order. The first point, which is
// there already, is the cluster's.
func (t *Timeline) step(ps []Point, w window, order []int) []Point {
	all := Point{At: w.from, Idle: w.mean(idle), Bad: w.mean(bad)}
	for k, i := range order {
		base := numStates + (vcSeries+1)*i
		p := Point{At: w.from, VC: t.VCs[k], Waiting: w.mean(base + int(waiting)), Running: w.mean(base + int(running)),
			Guaranteed: w.mean(base + int(guaranteed)), Opportunistic: w.mean(base + int(opportunistic)), Bad: undefined()}
		p.Idle = max(w.mean(base+vcSeries)-p.Guaranteed, 0)
		all.Waiting += p.Waiting
		all.Running += p.Running
		all.Guaranteed += p.Guaranteed
		all.Opportunistic += p.Opportunistic
		ps = append(ps, p)
	}
	ps[0] = all
	return ps
}

// WriteCSV writes timeline.csv.
func (t *Timeline) WriteCSV(w io.Writer) error {
	out := bufio.NewWriter(w)
	b := []byte("time_s,vc,waiting_gangs,running_gangs,gpus_guaranteed,gpus_opportunistic,gpus_idle,gpus_bad\n")
	for _, ps := range t.Steps {
		for i := range ps {
			p := &ps[i]
			b = appendText(append(appendSeconds(b, int64(p.At-t.Origin)), ','), p.VC)
			for _, n := range [...]Number{p.Waiting, p.Running, p.Guaranteed, p.Opportunistic, p.Idle, p.Bad} {
				if b = append(b, ','); n.Defined() {
					b = n.append(b)
				}
			}
			b = append(b, '\n')
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if _, err := out.Write(b); err != nil {
		return err
	}
	return out.Flush()
}

// Describe says how many rows there are, and how wide.
func (t *Timeline) Describe() string {
	return strconv.Itoa(len(t.Steps)) + " rows of " + string(appendSeconds(nil, int64(t.Width))) + " s"
}
