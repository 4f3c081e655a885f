package server

import (
	"net/http"
	"strings"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/executor"
)

// conditionsFor are the conditions that an asker may see; none without a token.
func conditionsFor(s *Server, a *people.Asker) (list []string) {
	e, ok := s.logs.(executor.HasConditions)
	if !ok || a.Principal.User == "" {
		return nil
	}
	for _, c := range e.Conditions() {
		if a.Principal.Admin || !c.Admin {
			list = append(list, c.Text)
		}
	}
	return list
}

// maxCondition bounds a condition in a header, in bytes.
const maxCondition = 1 << 10

// tellConditions writes conditions into the headers of an answer. They may quote what a program
// printed, so what no header may hold becomes a question mark.
func tellConditions(h http.Header, conditions []string) {
	for _, text := range conditions {
		text = strings.Map(func(c rune) rune {
			if c < ' ' || c > '~' {
				return '?'
			}
			return c
		}, text)
		h.Add(rest.HeaderCondition, text[:min(len(text), maxCondition)])
	}
}
