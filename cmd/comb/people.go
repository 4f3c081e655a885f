package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/contexts"
	"github.com/combsched/comb/internal/peoplecmd"
)

// peopleCommands are those about users, groups, tokens and sessions.
func peopleCommands(a *app) []*cobra.Command {
	list := peoplecmd.Commands(&peoplecmd.Kit{Client: a.client, When: a.when, In: os.Stdin, Prompt: a.errs, ReadFile: a.readFile, Usage: usage, Noun: noun,
		Contexts: contexts.Dir(a.env), User: a.env("USER"), Say: func(text string) { fmt.Fprintln(a.errs, clean(text, false)) },
		Server: func() (string, error) { t, err := a.target(); return t.URL, err },
		Hint:   func(err error, next string) error { return hint{err, next} },
		Guess: func(c *cobra.Command, err error, word string, of peoplecmd.Names) error {
			client, _ := a.client()
			return a.didYouMean(c.Context(), client, err, guess{word, names(of)})
		},
		Complete: func(of peoplecmd.Names) peoplecmd.Completion { return a.complete(names(of)) },
		Show: func(v any, draw func(peoplecmd.Table)) error {
			return a.show(v, func(t *table) { draw(peoplecmd.Table{Head: t.head, Row: t.row, Line: t.line}) })
		}})
	for _, c := range list {
		for _, v := range append(c.Commands(), c) {
			if v.Args != nil && !v.HasSubCommands() {
				v.Args = args(v.Args)
			}
		}
	}
	return list
}
