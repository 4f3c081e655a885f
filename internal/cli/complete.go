package cli

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

// Names asks the server for the names of one kind of thing.
type Names func(context.Context, *rest.Client) ([]string, error)

// JobNames are the names of jobs that have not ended.
func JobNames(ctx context.Context, c *rest.Client) ([]string, error) {
	list, err := c.Jobs(ctx, rest.JobQuery{Limit: 200})
	var out []string
	for _, j := range list.Jobs {
		out = append(out, j.Ref)
	}
	return out, err
}

// VCNames are the names of the virtual clusters.
func VCNames(ctx context.Context, c *rest.Client) ([]string, error) {
	list, err := c.VCs(ctx)
	var out []string
	for _, v := range list.VCs {
		out = append(out, string(v.Name))
	}
	return out, err
}

// NodeNames are the names of the nodes.
func NodeNames(ctx context.Context, c *rest.Client) ([]string, error) {
	list, err := c.Nodes(ctx)
	var out []string
	for _, n := range list.Nodes {
		out = append(out, string(n.Name))
	}
	return out, err
}

// Complete makes the shell complete a command's first argument with names.
func (a *App) Complete(list Names) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := a.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client.OnCondition = nil // nothing is said on a line that is being typed
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		defer cancel()
		out, err := list(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// Guess is a name that was not found, and the list that may have the right one.
type Guess struct {
	Word string
	List Names
}

// DidYouMean adds the likely name to a "not found" error.
func (a *App) DidYouMean(ctx context.Context, client *rest.Client, err error, g Guess) error {
	_, noNumber := strconv.ParseUint(g.Word, 10, 64)
	switch {
	case rest.CodeOf(err) != rest.CodeNotFound || errors.As(err, &Hint{}):
		return err
	case noNumber == nil || strings.Contains(g.Word, "~"): // a number or another user's job is no misspelt name
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	known, listErr := g.List(ctx, client)
	if listErr != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(name string) bool { return name == g.Word })
	if next := document.DidYouMean(g.Word, known); next != "" {
		return Hint{err, next[2:]}
	}
	return err
}
