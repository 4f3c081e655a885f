package script_test

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// met counts what the random runs came to: a check that never met its case says nothing.
type met struct {
	policies map[string]*tries
	joins    int // attempts that share the leaves of others
	moves    int // gangs that moved for another
	pauses   int // trials that were paused
	lates    int // trials that were ended since their deadline had passed
	earlies  int // jobs that were stopped for their loss
	debts    int // comparisons of what was borrowed
	kept     int // jobs that ended by a guaranteed deadline
	alone    int // gangs that were placed on nodes for themselves
	leased   int // looks at tasks on the type of which their job is guaranteed leases
	grows    int // jobs that grew beyond their usual size
	shrinks  int // members of these that left for others of their priority
	beside   int // starts on a machine of one that began when the file said otherwise of its devices
	followed int // suggestions that came true
	keeps    int // gangs beside which a later one was given cells while the platform stopped them
	loans    int // leaves that were lent at some look
	promoted int // gangs that starved, and began anew in the first queue
}

// tries are what happened under one policy.
type tries struct {
	starts, yields int
}

// of finds the count of a VC's policy.
func (m *met) of(vc cell.VCName, cfg *model.Config) *tries {
	name := "" // of a VC that is no more
	if i := slices.IndexFunc(cfg.VCs, func(v model.VCConfig) bool { return v.Name == vc }); i >= 0 {
		name = cfg.VCs[i].Policy
	}
	if m.policies[name] == nil {
		m.policies[name] = &tries{}
	}
	return m.policies[name]
}

func (m *met) places(vc cell.VCName, cfg *model.Config) { m.of(vc, cfg).starts++ }

// add adds the counts of another run.
func (m *met) add(o *met) {
	for name, t := range o.policies {
		if m.policies[name] == nil {
			m.policies[name] = &tries{}
		}
		m.policies[name].starts += t.starts
		m.policies[name].yields += t.yields
	}
	m.grows, m.shrinks = m.grows+o.grows, m.shrinks+o.shrinks
	m.joins, m.earlies, m.debts = m.joins+o.joins, m.earlies+o.earlies, m.debts+o.debts
	m.keeps, m.loans = m.keeps+o.keeps, m.loans+o.loans
	m.beside, m.followed = m.beside+o.beside, m.followed+o.followed
	m.kept, m.alone, m.moves = m.kept+o.kept, m.alone+o.alone, m.moves+o.moves
	m.pauses, m.leased, m.promoted, m.lates = m.pauses+o.pauses, m.leased+o.leased, m.promoted+o.promoted, m.lates+o.lates
}

// judge fails where the checks looked at nothing: every policy must have started gangs, and
// those that let some leave within a priority have done so.
func (m *met) judge(t *testing.T) {
	for _, name := range policy.Names() {
		if n := m.policies[name]; n == nil || n.starts < 20 {
			t.Errorf("under %s too little happened: %+v", name, n)
		}
	}
	for _, name := range []string{"capacity", "chronus", "edf", "fifo", "genie", "gittins", "las", "srsf", "srtf", "themis"} {
		if n := m.policies[name]; n != nil && n.yields == 0 {
			t.Errorf("under %s nobody left within a priority", name)
		}
	}
	if m.followed == 0 || m.earlies == 0 || m.debts == 0 || m.kept == 0 || m.alone == 0 || m.promoted == 0 || m.loans == 0 {
		t.Errorf("%d suggestions were followed, %d were stopped early, %d ended by a guaranteed deadline, %d had nodes for themselves, %d were promoted; %d times it was counted who borrowed, %d leaves were lent", m.followed, m.earlies, m.kept, m.alone, m.promoted, m.debts, m.loans)
	}
}
