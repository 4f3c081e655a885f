package sim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/simulate"
)

func (a *commands) simSweep() *cobra.Command {
	dir, workers := "", 0
	c := &cobra.Command{Use: "sweep FILE -o DIR", Short: "Replay a trace under many policies, loads and seeds",
		Long: `Replay a trace under every combination of the policies, loads and seeds of a file
(docs/simulate.md), several at a time, each into a folder of its own, and write
sweep.csv. A cell whose folder holds the results of the same inputs is not run
again: an interrupted sweep goes on where it was. What comes of it does not depend
on --workers.`,
		Example: "  comb sim sweep sweep.yaml -o out/sweep",
		Args:    cli.Args(cobra.ExactArgs(1))}
	c.Flags().StringVarP(&dir, "output", "o", "", "folder for the results")
	c.Flags().IntVar(&workers, "workers", 0, "runs side by side (default: one for each processor)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if dir == "" {
			return cli.Usage(c, "give -o, the folder for the results")
		}
		if workers < 0 {
			return cli.Usage(c, "--workers %d: want 1 or more", workers)
		}
		return a.sweep(c, args[0], dir, workers)
	}
	return c
}

// sweep runs a sweep file into a folder.
func (a *commands) sweep(c *cobra.Command, file, dir string, workers int) error {
	src, err := a.ReadFile(file, rest.MaxConfigBody)
	if err != nil {
		return err
	}
	s, found := simulate.ParseSweep(file, src, policy.New)
	if len(found) > 0 {
		return cli.UsageError{Command: c, Err: found}
	}
	if err := a.KeepApart(c, append(s.Reads(), file), cli.Writes{Flag: "-o", Files: s.Writes(dir)}); err != nil {
		return err
	}
	o := simulate.SweepOptions{Folder: simulate.Folder{Dir: dir, Version: a.Version},
		Options: simulate.Options{Policies: policy.New}, Workers: workers}
	p := sweepProgress{w: a.Errs, all: len(s.Cells()), began: time.Now(), shown: cli.IsTerminal(os.Stderr)}
	o.Done = p.cell
	cells, err := s.Run(c.Context(), o)
	p.end()
	if cells == nil {
		return traceError(err)
	}
	if err != nil {
		fmt.Fprintln(a.Errs, "interrupted; run it again to go on: finished cells are kept")
		return err
	}
	if err := s.WriteFile(dir, cells); err != nil {
		return err
	}
	if err := a.Show(cells, func(t *cli.Table) { drawSweep(t, dir, cells) }); err != nil {
		return err
	}
	return sweepErrors(cells)
}

// shownCells bounds the errors of cells that are shown.
const shownCells = 10

// sweepErrors reports which cells failed, and why.
func sweepErrors(cells []simulate.Cell) error {
	first, same := []*simulate.Cell{}, map[string]int{} // equal failures are reported once
	for i := range cells {
		c := &cells[i]
		if c.Err == nil {
			continue
		}
		if same[c.Err.Error()]++; same[c.Err.Error()] == 1 {
			first = append(first, c)
		}
	}
	var bad []error
	for _, c := range first[:min(len(first), shownCells)] {
		others := ""
		if n := same[c.Err.Error()] - 1; n > 0 {
			others = " and " + cli.Count(n, "other", "others")
		}
		bad = append(bad, fmt.Errorf("%s%s: %w", c.Dir, others, c.Err))
	}
	if more := len(first) - shownCells; more > 0 {
		bad = append(bad, fmt.Errorf("and %s", cli.Count(more, "other error", "other errors")))
	}
	return errors.Join(bad...)
}

func drawSweep(t *cli.Table, dir string, cells []simulate.Cell) {
	t.Head("POLICY", "LOAD", "SEED", "JOBS", "JCT", "P95", "QUEUEING", "UTILIZATION", "PREEMPTIONS")
	for i := range cells {
		c := &cells[i]
		load, seed := strconv.FormatFloat(c.Spec.Load, 'g', -1, 64), strconv.FormatUint(c.Spec.Seed, 10)
		if c.Summary == nil {
			t.Row(c.Spec.Policy, load, seed, "failed")
			continue
		}
		s := c.Summary
		t.Row(c.Spec.Policy, load, seed, cli.Number(s.Finished), whole(float64(s.JCTAvg)), whole(float64(s.JCTP95)),
			whole(float64(s.QueueAvg)),
			percent(float64(s.GPUUtilization), 1), cli.Number(s.Preemptions))
	}
	t.Line("")
	t.Row("table", filepath.Join(dir, "sweep.csv"))
}

// sweepProgress shows the progress of a sweep on a terminal; elsewhere it is silent.
type sweepProgress struct {
	w                io.Writer
	all, done, fresh int
	began            time.Time
	shown            bool
}

// cell counts a finished cell.
func (p *sweepProgress) cell(c *simulate.Cell) {
	if p.done++; !c.Kept {
		p.fresh++
	}
	if !p.shown {
		return
	}
	line := fmt.Sprintf("%d of %d", p.done, p.all)
	if took := time.Since(p.began); p.fresh > 0 {
		each := took / time.Duration(p.fresh)
		line += fmt.Sprintf(", %.1f a minute, %s left", float64(time.Minute)/float64(max(each, 1)),
			(each * time.Duration(p.all-p.done)).Round(time.Second))
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

func (p *sweepProgress) end() {
	if p.shown && p.done > 0 {
		fmt.Fprintln(p.w)
	}
}
