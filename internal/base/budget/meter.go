// Package budget bounds searches by counted steps, which are the same on every machine: a search
// that may take no more ends with the best that it has. It also has searches that need a bound:
// the fewest changes of a list that suffice, and packing things of several sizes into bins. It
// must not know the time, nor what is searched for.
package budget

// Meter counts steps: a bin or cell that is looked at, a cell that is bound, a task that is
// packed. A step takes some 50 to 300 ns.
type Meter struct {
	taken int64
	stop  int64 // the bound on taken; 0: none
	last  int64 // the bound with the reserve for WithinReserve
	early int   // searches that were cut short, and found nothing
}

// Step counts n more.
func (m *Meter) Step(n int) { m.taken += int64(n) }

// Taken is how many steps were counted so far.
func (m *Meter) Taken() int64 { return m.taken }

// Over reports whether no more steps may be taken.
func (m *Meter) Over() bool { return m.stop > 0 && m.taken >= m.stop }

// EndedEarly counts a search that found nothing before it had tried everything.
func (m *Meter) EndedEarly() { m.early++ }

// Early is how many such searches there were so far.
func (m *Meter) Early() int { return m.early }

// Left is how many steps may be taken, at most n.
func (m *Meter) Left(n int64) int64 {
	if m.stop == 0 {
		return n
	}
	return min(n, max(m.stop-m.taken, 0))
}

// Within bounds later steps to n, or to fewer where less is left, and returns the earlier bound
// for Restore. Where there was no bound, a reserve of a quarter more is kept for WithinReserve.
func (m *Meter) Within(n int64) (had int64) {
	if had = m.stop; had == 0 {
		m.last = m.taken + n + n/4
	}
	m.stop = max(m.taken+m.Left(n), 1)
	return had
}

// WithinReserve bounds later steps to one in parts of what is left with the reserve, where the
// bound leaves less. It returns the earlier bound for Restore.
func (m *Meter) WithinReserve(parts int64) (had int64) {
	if had = m.stop; had > 0 {
		m.stop = max(had, m.taken+(m.last-m.taken)/parts)
	}
	return had
}

// Restore restores an earlier bound.
func (m *Meter) Restore(had int64) { m.stop = had }
