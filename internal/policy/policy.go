// Package policy holds the orders that a virtual cluster can choose: one file a
// policy and one table by name. A policy is pure and keeps nothing: the same
// view gives the same order. It must not place, preempt or remember anything.
package policy

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/sched"
)

// Names returns the known policies, sorted.
func Names() []string { return []string{"drf", "fifo"} }

// New makes the policy that a VC's configuration names; "" is fifo. Errors name
// the policy or the parameter that is not known.
func New(c sched.VCConfig) (sched.Policy, error) {
	var p sched.Policy
	switch c.Policy {
	case "", "fifo":
		return newFIFO(c.Params)
	case "drf":
		p = drf{}
	default:
		return nil, fmt.Errorf("there is no policy %q; there are: %s", c.Policy, strings.Join(Names(), ", "))
	}
	if len(c.Params) > 0 {
		return nil, fmt.Errorf("policy %q takes no parameter %q", c.Policy, c.Params[0].Key)
	}
	return p, nil
}
