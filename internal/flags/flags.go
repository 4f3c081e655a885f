// Package flags says what is wrong with the flags of a command, in words. It must not know what any command does.
package flags

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/document"
	"github.com/combsched/comb/internal/rest"
)

// ErrEmpty is the error of an empty value, where none may be empty.
var ErrEmpty = errors.New("it is empty")

// filled is the value of a flag that chooses things. An empty value would choose all of them, and in a script it is a
// variable that was not set.
type filled struct{ pflag.Value }

// NeverEmpty makes flags of a set refuse an empty value, and an empty one in a list.
func NeverEmpty(set *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := set.Lookup(name)
		f.Value = filled{f.Value}
		if f.DefValue == "[]" {
			f.DefValue = "" // the help shows the default of a value that it does not know
		}
	}
}

// Set implements pflag.Value.
func (f filled) Set(text string) error {
	if slices.Contains(strings.Split(text, ","), "") {
		return ErrEmpty
	}
	return f.Value.Set(text)
}

// Near says which flag of a command was meant, if one is near: "; did you mean --gpus?".
func Near(c *cobra.Command, word string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	if text := document.DidYouMean("--"+word, names); len(word) > 1 && strings.Contains(text, "did you mean") {
		return text
	}
	return ""
}

// Named names the flags of a command where a server's refusal names fields of the request that they became.
func Named(c *cobra.Command, err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.Errors {
		e := &p.Errors[i]
		_, field, ok := strings.Cut(e.Pointer, ".")
		name := strings.ReplaceAll(field, "_", "-")
		if f := c.Flags().Lookup(name); ok && f != nil && f.Changed && slices.Contains([]string{"body." + field, "query." + field}, e.Pointer) {
			e.Pointer = "--" + name
			if len(p.Errors) == 1 && e.Line == 0 && strings.HasPrefix(e.Detail, "is ") {
				p.Detail, p.Errors = e.Pointer+" "+e.Detail, nil
			}
		}
	}
	return err
}
