package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
)

// names asks the server for the names of one kind of thing.
type names func(context.Context, *rest.Client) ([]string, error)

func jobNames(ctx context.Context, c *rest.Client) ([]string, error) {
	list, err := c.Jobs(ctx, rest.JobQuery{Limit: 200})
	var out []string
	for _, j := range list.Jobs {
		out = append(out, j.Ref)
	}
	return out, err
}

func vcNames(ctx context.Context, c *rest.Client) ([]string, error) {
	list, err := c.VCs(ctx)
	var out []string
	for _, v := range list.VCs {
		out = append(out, string(v.Name))
	}
	return out, err
}

func nodeNames(ctx context.Context, c *rest.Client) ([]string, error) {
	list, err := c.Nodes(ctx)
	var out []string
	for _, n := range list.Nodes {
		out = append(out, string(n.Name))
	}
	return out, err
}

// complete lets the shell complete a command's first argument with names.
func (a *app) complete(list names) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		defer cancel()
		out, err := list(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// guess is a name that was not found, and where the right one may be.
type guess struct {
	word string
	list names
}

// didYouMean adds the likely name to a "not found".
func (a *app) didYouMean(ctx context.Context, client *rest.Client, err error, g guess) error {
	_, noNumber := strconv.ParseUint(g.word, 10, 64)
	switch {
	case rest.CodeOf(err) != rest.CodeNotFound || errors.As(err, &hint{}):
		return err
	case noNumber == nil || strings.Contains(g.word, "~"): // no own name is near a number, or another user's job
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	known, listErr := g.list(ctx, client)
	if listErr != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(name string) bool { return name == g.word })
	if next := document.DidYouMean(g.word, known); next != "" {
		return hint{err, next[2:]}
	}
	return err
}
