// Package budget bounds searches by counted steps, which every machine counts
// alike: a search that may take no more ends with the best that it has. It also
// has searches that are worth a bound: the fewest changes of a list that suffice,
// and things of several sizes in bins. It must not know the time, nor what is
// searched for.
package budget

// Meter counts steps: a bin or a cell that is looked at, a cell that is bound, a task that is
// packed. A step takes some 50 to 300 ns.
type Meter struct {
	taken int64
	stop  int64 // how many there may be; 0 is no bound
	last  int64 // how many with what is kept for More
	early int   // searches that ended before everything was tried, and found nothing
}

// Step counts n more.
func (m *Meter) Step(n int) { m.taken += int64(n) }

// Taken is how many were counted so far.
func (m *Meter) Taken() int64 { return m.taken }

// Over reports whether no more may be taken.
func (m *Meter) Over() bool { return m.stop > 0 && m.taken >= m.stop }

// EndedEarly counts a search that found nothing before everything was tried.
func (m *Meter) EndedEarly() { m.early++ }

// Early is how many did so far.
func (m *Meter) Early() int { return m.early }

// Left is how many may be taken, at most n.
func (m *Meter) Left(n int64) int64 {
	if m.stop == 0 {
		return n
	}
	return min(n, max(m.stop-m.taken, 0))
}

// Within bounds what follows to n more, or to fewer where less is left, and returns the bound that
// was there, for Until. Beside the widest bound a quarter more is kept, for More.
func (m *Meter) Within(n int64) (had int64) {
	if had = m.stop; had == 0 {
		m.last = m.taken + n + n/4
	}
	m.stop = max(m.taken+m.Left(n), 1)
	return had
}

// More lets what follows take one of so many parts of what is left with what is kept, where the
// bound leaves less, and returns the bound that was there, for Until.
func (m *Meter) More(parts int64) (had int64) {
	if had = m.stop; had > 0 {
		m.stop = max(had, m.taken+(m.last-m.taken)/parts)
	}
	return had
}

// Until sets a bound again.
func (m *Meter) Until(had int64) { m.stop = had }
