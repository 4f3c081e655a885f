package policy

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// early stops jobs whose loss no longer falls, or warns of them: most jobs of Philly reach
// their lowest loss long before they end (Jeon et al., ATC'19, section 4.2).
//
// The note of a job is "loss BEST at STEP, N reports since, seen AT", the loss in parts of
// 10^9.
type early struct {
	// early=off, warn, or stop.
	mode string
	// patience=10 is how many reports may bring nothing, epsilon=0.001 the part of the
	// lowest loss by which a report must lie below it (both ours).
	patience int64
	epsilon  int64 // thousandths
}

func newEarly(a *args) early {
	return early{
		mode:     a.choice("early", "off", "warn", "stop"),
		patience: a.number("patience", 10, 1, 1_000_000),
		epsilon:  a.thousandths("epsilon", 1, 0, 1000),
	}
}

// trend is the course of a job's loss: the lowest in parts of 10^9, its step, the reports
// since, and when the last was made.
type trend struct {
	best, step, reports int64
	seen                model.Time
}

func readTrend(note []byte) (t trend, ok bool) {
	n, _ := fmt.Sscanf(string(note), "loss %d at %d, %d reports since, seen %d", &t.best, &t.step, &t.reports, &t.seen)
	return t, n == 4
}

func (t *trend) text() []byte {
	return fmt.Appendf(nil, "loss %d at %d, %d reports since, seen %d", t.best, t.step, t.reports, t.seen)
}

// billionths reads a loss; what is no number is the largest.
func billionths(loss string) int64 {
	f, err := strconv.ParseFloat(loss, 64)
	if err != nil || f-f != 0 || f > 1e9 { // NaN, infinite or huge: no good loss
		return math.MaxInt64
	}
	return int64(max(f, -1e9) * 1e9)
}

// Watch implements model.ProgressWatcher.
func (e *early) Watch(g *model.GangView) (note []byte, stop string) {
	p := g.Progress
	if e.mode == "off" || p.Loss == "" {
		return nil, ""
	}
	t, known := readTrend(g.Note)
	if known && t.seen == p.LossAt { // a report without a new loss
		return nil, ""
	}
	loss := billionths(p.Loss)
	falls := !known || loss < t.best-max(scale(max(t.best, -t.best), e.epsilon, 1000), 0)
	if t.seen, t.reports = p.LossAt, t.reports+1; falls {
		t.best, t.step, t.reports = loss, p.Step, 0
	}
	note = t.text()
	if t.reports < e.patience {
		return note, ""
	}
	why := fmt.Sprintf("its loss has not fallen by %s of %s since step %d, for %d reports", decimal(e.epsilon), amount(t.best), t.step, t.reports)
	if saved := saves(g); saved != "" {
		why += "; " + saved
	}
	if e.mode == "stop" {
		return note, why
	}
	return append(append(note, "; warning: "...), why...), ""
}

// saves says how many GPU-hours a stop now saves, by the steps that a job reported; "" where
// that is not known.
func saves(g *model.GangView) string {
	all := reportedRunTime(g)
	if all == 0 || all <= int64(g.Ran) {
		return ""
	}
	hundredths := func(t int64) string {
		n := times(t, g.Leaves) / (int64(model.Hour) / 100)
		return fmt.Sprintf("%d.%02d", n/100, n%100)
	}
	return fmt.Sprintf("%s of %s GPU-hours are saved", hundredths(all-int64(g.Ran)), hundredths(all))
}

// amount writes billionths.
func amount(n int64) string {
	if n == math.MaxInt64 {
		return "no number"
	}
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	out := fmt.Appendf(nil, "%s%d.%09d", sign, n/1e9, n%1e9)
	return string(bytes.TrimRight(bytes.TrimRight(out, "0"), "."))
}
