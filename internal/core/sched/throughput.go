package sched

// Measured implements View.
func (v view) Measured() bool { return len(v.s.cfg.Throughputs) > 0 }

// Elastic implements View.
func (v view) Elastic() bool { return v.s.tallies[v.space].partials > 0 }
