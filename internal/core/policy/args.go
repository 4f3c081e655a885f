package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// maxList bounds the values of a parameter that is a list.
const maxList = 100_000

// args reads a policy's parameters: each reader takes one by its key, gives the default where
// it is absent, and remembers what is wrong; done returns all errors.
type args struct {
	policy string
	given  []model.Param
	known  []string
	minRun model.Duration // the VC's
	wrong  model.BadParams
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
	a.refuse(key, "parameter %q of policy %q is %s, not %q", key, a.policy, want, got)
}

// refuse remembers what is wrong with a parameter, in a sentence.
func (a *args) refuse(key, format string, v ...any) {
	a.wrong = append(a.wrong, model.BadParam{Key: key, Why: fmt.Sprintf(format, v...)})
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

// list reads rising numbers of at least 1, separated by "/"; strictly rising if so asked.
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

// patience reads a time, or never, which is a time below 0.
func (a *args) patience(key string, otherwise model.Duration) model.Duration {
	v, ok := a.take(key)
	if !ok {
		return otherwise
	}
	if v == "never" {
		return -1
	}
	n, ok := parseSeconds(v)
	if !ok || n > maxLease {
		a.fail(key, fmt.Sprintf("a time of 0 to %d seconds such as 300 or 5m, or never", maxLease), v)
		return otherwise
	}
	return model.Duration(n) * model.Second
}

// seconds reads a time within bounds, which are in seconds as the default is.
func (a *args) seconds(key string, otherwise, least, most int64) model.Duration {
	v, ok := a.take(key)
	if !ok {
		return model.Duration(otherwise) * model.Second
	}
	n, ok := parseSeconds(v)
	if !ok || n < least || n > most {
		a.fail(key, fmt.Sprintf("a time of %d to %d seconds, such as 90, 90s or 5m", least, most), v)
		n = otherwise
	}
	return model.Duration(n) * model.Second
}

// parseSeconds reads a whole number of seconds, or of s, m, h or d.
func parseSeconds(v string) (int64, bool) {
	digits := strings.TrimRight(v, "smhd")
	unit, known := map[string]int64{"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[v[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 40)
	return int64(n) * unit, known && err == nil
}

// quantum reads how long a gang runs before its own priority may stop it: quantum=60
// seconds, as long as a turn of Gandiva and a round of HyperSched, and twice the 30
// seconds that a restart costs in Pollux' port of Tiresias. The papers of the
// orders have none, which is quantum=0.
func (a *args) quantum() model.Duration { return a.seconds("quantum", 60, 0, maxLease) }

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

// choice reads one of a few words; the first is the default.
func (a *args) choice(key string, words ...string) string {
	v, ok := a.take(key)
	switch {
	case !ok:
		return words[0]
	case !slices.Contains(words, v):
		a.fail(key, strings.Join(words, " or "), v)
		return words[0]
	}
	return v
}

// thousandths reads a decimal number such as 0.25 as 250, within bounds.
func (a *args) thousandths(key string, otherwise, least, most int64) int64 {
	v, ok := a.take(key)
	if !ok {
		return otherwise
	}
	n, ok := parseThousandths(v)
	if !ok || n < least || n > most {
		a.fail(key, fmt.Sprintf("a number from %s to %s with at most three decimals", decimal(least), decimal(most)), v)
		return otherwise
	}
	return n
}

// parseThousandths reads a decimal number.
func parseThousandths(v string) (int64, bool) {
	whole, part, _ := strings.Cut(v, ".")
	n, err := strconv.ParseUint(whole+part+strings.Repeat("0", max(3-len(part), 0)), 10, 40)
	return int64(n), err == nil && whole != "" && len(part) <= 3
}

// factors reads a list such as vgg16:1.7/resnet50:1.05 of numbers from 1 to 1000, in
// thousandths.
func (a *args) factors(key string) map[string]int64 {
	want := "a list of names with numbers from 1 to 1000, such as vgg16:1.7/resnet50:1.05"
	out := map[string]int64{}
	for _, p := range a.pairs(key, want) {
		n, ok := parseThousandths(p[1])
		if !ok || n < 1000 || n > 1_000_000 {
			a.fail(key, want, p[0]+":"+p[1])
			return nil
		}
		out[p[0]] = n
	}
	return out
}

// decimal writes thousandths.
func decimal(n int64) string {
	if n%1000 == 0 {
		return strconv.FormatInt(n/1000, 10)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", n/1000, n%1000), "0")
}

// pairs reads a list such as ann:2/bob:1: names, and what follows the colon of each.
func (a *args) pairs(key, want string) [][2]string {
	v, ok := a.take(key)
	if !ok {
		return nil
	}
	parts := strings.Split(v, "/")
	if len(parts) > maxList {
		a.fail(key, fmt.Sprintf("a list of at most %d", maxList), v)
		return nil
	}
	var out [][2]string
	for _, p := range parts {
		name, rest, found := strings.Cut(p, ":")
		if !found || slices.ContainsFunc(out, func(o [2]string) bool { return o[0] == name }) {
			a.fail(key, want, v)
			return nil
		}
		out = append(out, [2]string{name, rest})
	}
	return out
}

// weights reads a list such as ann:2/bob:1 of whole numbers from 1 to 1,000,000; names that are
// not in it weigh 1.
func (a *args) weights(key string) map[string]int64 {
	want := "a list of names with whole weights from 1 to 1000000, such as ann:2/bob:1"
	out := map[string]int64{}
	for _, p := range a.pairs(key, want) {
		n, err := strconv.ParseInt(p[1], 10, 64)
		if err != nil || n < 1 || n > maxWeight {
			a.fail(key, want, p[0]+":"+p[1])
			return nil
		}
		out[p[0]] = n
	}
	return out
}

// maxWeight bounds weights, so that a share times a weight is an int64.
const maxWeight = 1_000_000

// done returns all that is wrong, and what is not known, as model.BadParams.
func (a *args) done() error {
	for _, p := range a.given {
		if slices.Contains(a.known, p.Key) {
			continue
		}
		takes := "takes none"
		if len(a.known) > 0 {
			takes = "takes: " + strings.Join(a.known, ", ")
		}
		a.refuse(p.Key, "policy %q takes no parameter %q; it %s", a.policy, p.Key, takes)
	}
	if len(a.wrong) == 0 {
		return nil
	}
	return a.wrong
}
