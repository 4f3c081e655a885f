package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/exit"
)

// Limits of exit rules.
const (
	maxExitRules   = 100
	maxExitPattern = 200
	maxExitText    = 200
	maxExitBudget  = 1000
)

// readExitRules reads what ends of tasks mean on this cluster:
//
//	exitRules:
//	- {code: 75, log: "NCCL.*timeout", class: transient, means: the network hung, budget: 3}
func readExitRules(b *document.Reader, n *document.Node) (rules []exit.Rule) {
	items := b.List(n)
	if len(items) > maxExitRules {
		b.Problem(n, "%d exit rules are too many: at most %d are allowed", len(items), maxExitRules)
		return nil
	}
	for _, item := range items {
		rules = append(rules, readExitRule(b, item))
	}
	return rules
}

func readExitRule(b *document.Reader, n *document.Node) exit.Rule {
	m := b.Map(n, "an exit rule")
	m.Require("class", "means")
	r := exit.Rule{From: int32(m.Int("code", document.Range{Min: 1, Max: 255})), Signal: int32(m.Int("signal", document.Range{Min: 1, Max: 64})),
		Log: m.String("log", document.Text{Max: maxExitPattern})}
	r.To = r.From
	if m.Has("codeTo") {
		r.To = int32(m.Int("codeTo", document.Range{Min: 1, Max: 255}))
		if r.From == 0 || r.To < r.From {
			b.Problem(m.Node("codeTo"), "codeTo is the last of several codes: want a code that is not above it")
		}
	}
	if !m.Has("code") && !m.Has("signal") && !m.Has("log") {
		b.Problem(m.Self(), "the rule would fit every failure: give it a code, a signal or a log")
	}
	if _, err := regexp.Compile(r.Log); err != nil {
		b.Problem(m.Node("log"), "%s is no regular expression: %v", document.Quote(r.Log), err)
	}
	r.Class = exit.Class(m.String("class", document.Text{Max: maxExitText}))
	r.Means = m.String("means", document.Text{Max: maxExitText})
	r.Next = m.String("next", document.Text{Max: maxExitText})
	if r.Class != "" && !slices.Contains(exit.Classes(), r.Class) {
		b.Problem(m.Node("class"), "%s is no class: want %s", document.Quote(string(r.Class)), classWords())
	}
	if m.Has("budget") {
		r.Budget = int32(m.Int("budget", document.Range{Min: 1, Max: maxExitBudget}))
		if final := []exit.Class{exit.User, exit.Permanent, exit.Resource}; slices.Contains(final, r.Class) {
			b.Problem(m.Node("budget"), "a budget is of tries that do not count: of the classes transient, conflict and platform alone")
		}
	}
	m.Rest()
	return r
}

func classWords() string {
	var words []string
	for _, c := range exit.Classes() {
		words = append(words, string(c))
	}
	return strings.Join(words, ", ")
}
