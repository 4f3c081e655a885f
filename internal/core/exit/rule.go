package exit

import (
	"fmt"
	"regexp"
)

// Rule is a line of the cluster file: what it means when a task fails by itself in some way. All
// that it names must fit.
type Rule struct {
	From   int32  `json:"from,omitempty"`   // exit codes From to To; 0 is any failure
	To     int32  `json:"to,omitempty"`     //
	Signal int32  `json:"signal,omitempty"` // 0 is any, or none
	Log    string `json:"log,omitempty"`    // expression over the last line of its log; "" is any
	Ruling
}

// Ruling is what a rule says about an end.
type Ruling struct {
	Class  Class  `json:"class"`
	Means  string `json:"means"`
	Next   string `json:"next,omitempty"`
	Budget int32  `json:"budget,omitempty"` // tries that do not count, if any follow; 0: no limit
}

// Matcher finds the rule that fits an end. It never changes.
type Matcher []compiled

type compiled struct {
	Rule
	log *regexp.Regexp // nil is any
}

// Compile prepares rules, in their order, once for all ends that they are matched with. One with
// an invalid expression fits nothing: expressions were checked when the file was read.
func Compile(rules []Rule) Matcher {
	var m Matcher
	for _, r := range rules {
		c := compiled{Rule: r}
		if r.Log != "" {
			var err error
			if c.log, err = regexp.Compile(r.Log); err != nil {
				continue
			}
		}
		m = append(m, c)
	}
	return m
}

// Match returns what the first rule that fits says. It is nil if none fits, or if the task did
// not fail by itself.
func (m Matcher) Match(s Observed) *Ruling {
	if s.Cause != "" || s.Code == 0 {
		return nil
	}
	for i := range m {
		if r := &m[i]; r.fits(&s) {
			return &r.Ruling
		}
	}
	return nil
}

func (c *compiled) fits(s *Observed) bool {
	return (c.From == 0 || s.Code >= c.From && s.Code <= c.To) && (c.Signal == 0 || s.Signal == c.Signal || s.Code == 128+c.Signal) &&
		(c.log == nil || c.log.MatchString(s.LastLine))
}

// ruled is the verdict of a rule.
func (r *Ruling) ruled(s *Observed) Verdict {
	v := Verdict{Code: s.Code, Phrase: "ExitRule", Class: r.Class, Actor: Owner, Retry: Never, Means: r.Means, Next: r.Next, Budget: r.Budget}
	switch r.Class {
	case User:
		v.Retry = Counted
	case Transient:
		v.Actor, v.Retry = None, Always
	case Conflict:
		v.Actor, v.Retry = None, Delayed
	case Platform:
		v.Actor, v.Retry = Administrator, Always
	}
	if v.Next == "" {
		v.Next = map[Actor]string{None: wait, Owner: readLog, Administrator: tellThem}[v.Actor]
	}
	return v
}

// Changes says in words that the rules changed; nil if they did not.
func Changes(before, after []Rule) []string {
	same := len(before) == len(after)
	for i := 0; same && i < len(before); i++ {
		same = before[i] == after[i]
	}
	if same {
		return nil
	}
	return []string{fmt.Sprintf("exit rules: %d -> %d, for ends from then on", len(before), len(after))}
}

// Delay spreads retries after a conflict over 60 to 900 seconds. It hashes the number of what
// waits and that of its try, in place of a random number.
func Delay(waiter int64, retry int32) int64 {
	x := uint64(waiter)*0x9E3779B97F4A7C15 + uint64(retry)*0xBF58476D1CE4E5B9
	x ^= x >> 31
	return int64(60 + x%841)
}
