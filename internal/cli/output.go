package cli

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
	"github.com/combsched/comb/internal/core/model"
)

// MoreFormats is the annotation of a command with one more output format.
const MoreFormats = "more-formats"

// CheckFlags checks the flags that all commands have, and starts the time limit.
func (a *App) CheckFlags(c *cobra.Command) error {
	formats := []string{"table", "json", "yaml"}
	if more := c.Annotations[MoreFormats]; more != "" {
		formats = append(formats, more)
	}
	if !slices.Contains(formats, a.Format) {
		last := len(formats) - 1
		return Usage(c, "--output %q: want %s or %s", a.Format, strings.Join(formats[:last], ", "), formats[last])
	}
	if a.Timeout > 0 {
		// The process ends with the command, so nothing needs to be released earlier.
		ctx, cancel := context.WithTimeout(c.Context(), a.Timeout)
		context.AfterFunc(ctx, cancel)
		c.SetContext(ctx)
	}
	return nil
}

// Show prints a value in the format that the user chose: the API's own object as JSON or
// YAML, or a table that draw fills.
func (a *App) Show(v any, draw func(*Table)) error {
	switch a.Format {
	case "json":
		e := json.NewEncoder(a.Out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case "yaml":
		return a.ShowYAML(v)
	}
	t := &Table{App: a, w: tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)}
	draw(t)
	return t.w.Flush()
}

// ShowYAML converts JSON, so that both formats have the same keys in the same order.
func (a *App) ShowYAML(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return err
	}
	plain(&tree)
	e := yaml.NewEncoder(a.Out)
	e.SetIndent(2)
	return e.Encode(&tree)
}

// plain gives a tree the style in which people write YAML: no braces, quotes where needed.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, inner := range n.Content {
		plain(inner)
	}
}

// Table is plain columns for people.
type Table struct {
	App *App
	w   *tabwriter.Writer
}

// Head prints the names of the columns.
func (t *Table) Head(names ...string) {
	if !t.App.NoHeaders {
		fmt.Fprintln(t.w, strings.Join(names, "\t"))
	}
}

// Row prints one line; empty cells show as "-".
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		c = strings.ReplaceAll(Clean(c, false), "\t", " ")
		if c == "" {
			c = "-"
		}
		cells[i] = c
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Line prints text that is not a row.
func (t *Table) Line(format string, args ...any) {
	_ = t.w.Flush()
	fmt.Fprintln(t.App.Out, Clean(fmt.Sprintf(format, args...), false))
}

// Text prints the lines of a file unchanged.
func (t *Table) Text(lines string) {
	_ = t.w.Flush()
	fmt.Fprint(t.App.Out, Clean(lines, true))
}

// When writes a time: how long ago on a terminal, RFC 3339 otherwise.
func (a *App) When(t model.Time) string {
	if t == 0 {
		return ""
	}
	at := time.UnixMicro(int64(t))
	if !a.TTY {
		return at.UTC().Format(time.RFC3339)
	}
	d := a.Now().Sub(at)
	if d < 0 {
		return "in " + narrate.Short(-d)
	}
	return narrate.Short(d) + " ago"
}

// Span writes the time from one moment to another, or to now without an end.
func (a *App) Span(from, to model.Time) string {
	if from == 0 {
		return ""
	}
	end := a.Now()
	if to != 0 {
		end = time.UnixMicro(int64(to))
	}
	return narrate.Short(max(end.Sub(time.UnixMicro(int64(from))), 0))
}

// Number writes an integer of any type.
func Number[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint64](n T) string {
	return fmt.Sprint(n)
}

// Count is "1 leaf" or "3 leaves".
func Count[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Rows prints a table.
func (a *App) Rows(v any, head []string, rows [][]string) error {
	return a.Show(v, func(t *Table) {
		t.Head(head...)
		for _, r := range rows {
			t.Row(r...)
		}
	})
}

// Say prints text on stderr.
func (a *App) Say(text string) { fmt.Fprintln(a.Errs, Clean(text, false)) }
