package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
)

// moreFormats is the annotation of a command that has one more output format.
const moreFormats = "more-formats"

// checkFlags checks the flags that all commands have, and starts the time limit.
func (a *app) checkFlags(c *cobra.Command) error {
	formats := []string{"table", "json", "yaml"}
	if more := c.Annotations[moreFormats]; more != "" {
		formats = append(formats, more)
	}
	if !slices.Contains(formats, a.format) {
		last := len(formats) - 1
		return usage(c, "--output %q: want %s or %s", a.format, strings.Join(formats[:last], ", "), formats[last])
	}
	if a.timeout > 0 {
		// The process ends with the command: nothing has to be released earlier.
		ctx, cancel := context.WithTimeout(c.Context(), a.timeout)
		context.AfterFunc(ctx, cancel)
		c.SetContext(ctx)
	}
	return nil
}

// drawn prints the result of a command that lives in a package of its own.
func (a *app) drawn(v any, as func(cli.Table)) error {
	return a.show(v, func(t *table) { as(cli.Table{Head: t.head, Row: t.row, Line: t.line, Text: t.text}) })
}

// show prints a value as the user asked for: the API's own object as JSON or
// YAML, or a table that draw fills.
func (a *app) show(v any, draw func(*table)) error {
	switch a.format {
	case "json":
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case "yaml":
		return a.showYAML(v)
	}
	t := &table{app: a, w: tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)}
	draw(t)
	return t.w.Flush()
}

// showYAML goes through JSON, which is YAML too, so that both formats have the
// same keys in the same order.
func (a *app) showYAML(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return err
	}
	plain(&tree)
	e := yaml.NewEncoder(a.out)
	e.SetIndent(2)
	return e.Encode(&tree)
}

// plain makes a tree look as people write YAML: no braces, quotes where needed.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, inner := range n.Content {
		plain(inner)
	}
}

// table is plain columns for people.
type table struct {
	app *app
	w   *tabwriter.Writer
}

// head prints the names of the columns.
func (t *table) head(names ...string) {
	if !t.app.noHeaders {
		fmt.Fprintln(t.w, strings.Join(names, "\t"))
	}
}

// row prints one line; empty cells show as "-".
func (t *table) row(cells ...string) {
	for i, c := range cells {
		c = strings.ReplaceAll(clean(c, false), "\t", " ")
		if c == "" {
			c = "-"
		}
		cells[i] = c
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// line prints text that is no row.
func (t *table) line(format string, args ...any) {
	_ = t.w.Flush()
	fmt.Fprintln(t.app.out, clean(fmt.Sprintf(format, args...), false))
}

// text prints the lines of a file as they are.
func (t *table) text(lines string) {
	_ = t.w.Flush()
	fmt.Fprint(t.app.out, clean(lines, true))
}

// when shows a time: how long ago on a terminal, RFC 3339 otherwise.
func (a *app) when(t model.Time) string {
	if t == 0 {
		return ""
	}
	at := time.UnixMicro(int64(t))
	if !a.tty {
		return at.UTC().Format(time.RFC3339)
	}
	d := a.now().Sub(at)
	if d < 0 {
		return "in " + narrate.Short(-d)
	}
	return narrate.Short(d) + " ago"
}

// span shows the time from one moment to another, or to now when there is no end.
func (a *app) span(from, to model.Time) string {
	if from == 0 {
		return ""
	}
	end := a.now()
	if to != 0 {
		end = time.UnixMicro(int64(to))
	}
	return narrate.Short(max(end.Sub(time.UnixMicro(int64(from))), 0))
}

// number shows an integer of any kind.
func number[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint64](n T) string {
	return fmt.Sprint(n)
}

// count is "1 leaf" or "3 leaves".
func count[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
