package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/sched"
)

// maxList bounds the values of a parameter that is a list.
const maxList = 100_000

// args reads a policy's parameters: each reader takes one by its key, gives the
// default where it is absent, and remembers what is wrong; done says all of it.
type args struct {
	policy string
	given  []sched.Param
	known  []string
	wrong  []string
}

// take returns the value of a key.
func (a *args) take(key string) (string, bool) {
	a.known = append(a.known, key)
	for _, p := range a.given {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

func (a *args) fail(key, want, got string) {
	if len(got) > 64 {
		got = got[:64] + "..."
	}
	a.wrong = append(a.wrong, fmt.Sprintf("parameter %q of policy %q is %s, not %q", key, a.policy, want, got))
}

// flag reads true or false; yes, no, on and off are understood.
func (a *args) flag(key string, otherwise bool) bool {
	v, ok := a.take(key)
	switch {
	case !ok:
		return otherwise
	case v == "true" || v == "yes" || v == "on":
		return true
	case v != "false" && v != "no" && v != "off":
		a.fail(key, "true or false", v)
	}
	return false
}

// list reads numbers of at least 1 that rise, divided by "/"; strictly where so
// asked.
func (a *args) list(key string, otherwise []int64, strictly bool) []int64 {
	v, ok := a.take(key)
	if !ok {
		return otherwise
	}
	want := "a list of rising numbers such as 3250/7200"
	parts := strings.Split(v, "/")
	if len(parts) > maxList {
		a.fail(key, fmt.Sprintf("a list of at most %d numbers", maxList), v)
		return otherwise
	}
	var out []int64
	for _, p := range parts {
		n, err := strconv.ParseInt(p, 10, 64)
		last := int64(0)
		if len(out) > 0 {
			last = out[len(out)-1]
		}
		if err != nil || n < 1 || n > 1<<40 || n < last || strictly && n == last {
			a.fail(key, want, v)
			return otherwise
		}
		out = append(out, n)
	}
	return out
}

// number reads a whole number within bounds.
func (a *args) number(key string, otherwise, least, most int64) int64 {
	v, ok := a.take(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < least || n > most {
		a.fail(key, fmt.Sprintf("a number from %d to %d", least, most), v)
		return otherwise
	}
	return n
}

// done returns all that is wrong, and what is not known.
func (a *args) done() error {
	for _, p := range a.given {
		if slices.Contains(a.known, p.Key) {
			continue
		}
		takes := "takes none"
		if len(a.known) > 0 {
			takes = "takes: " + strings.Join(a.known, ", ")
		}
		a.wrong = append(a.wrong, fmt.Sprintf("policy %q takes no parameter %q; it %s", a.policy, p.Key, takes))
	}
	if len(a.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(a.wrong, "; "))
}
