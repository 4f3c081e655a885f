// Package policy holds the orders that a virtual cluster can choose: one file a
// policy and one table by name. A policy is pure and keeps nothing: the same
// view gives the same order. It must not place, preempt or remember anything.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// maker makes one policy of its parameters; errors are left in the args.
type maker struct {
	name string
	make func(*args) model.Policy
}

// table lists the policies, sorted by name; docs/policies.md says when to choose
// which.
func table() []maker {
	return []maker{
		{"capacity", func(a *args) model.Policy { return newCapacity(a) }},
		{"chronus", func(a *args) model.Policy { return newChronus(a) }},
		{"drf", func(a *args) model.Policy { return newDRF(a) }},
		{"edf", func(a *args) model.Policy { return newEDF(a) }},
		{"fifo", func(a *args) model.Policy { return newFIFO(a) }},
		{"firstfit", func(*args) model.Policy { return firstfit() }},
		{"gandiva", func(a *args) model.Policy { return newGandiva(a) }},
		{"genie", func(a *args) model.Policy { return newGenie(a) }},
		{"gittins", func(a *args) model.Policy { return newGittins(a) }},
		{"hypersched", func(a *args) model.Policy { return newHypersched(a) }},
		{"las", func(a *args) model.Policy { return newLAS(a) }},
		{"offers", func(a *args) model.Policy { return newOffers(a) }},
		{"philly", func(a *args) model.Policy { return newPhilly(a) }},
		{"sjf", func(*args) model.Policy { return sjf() }},
		{"srsf", func(a *args) model.Policy { return srsf(a) }},
		{"srtf", func(a *args) model.Policy { return srtf(a) }},
		{"tetris", func(a *args) model.Policy { return newTetris(a) }},
		{"themis", func(a *args) model.Policy { return newThemis(a) }},
	}
}

// Names returns the known policies, sorted.
func Names() []string {
	var names []string
	for _, m := range table() {
		names = append(names, m.name)
	}
	return names
}

// New makes the policy that a VC's configuration names; "" is fifo. Errors name
// the policy that is not known, or all parameters that are wrong.
func New(c model.VCConfig) (model.Policy, error) {
	name := c.Policy
	if name == "" {
		name = "fifo"
	}
	all := table()
	i := slices.IndexFunc(all, func(m maker) bool { return m.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no policy %q; there are: %s", name, strings.Join(Names(), ", "))
	}
	a := &args{policy: name, given: c.Params, minRun: c.MinRun}
	p := all[i].make(a)
	return p, a.done()
}
