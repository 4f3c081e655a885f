package admin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/local"
)

// repair is what a damaged data directory has lost, as comb journal repair shows it.
type repair struct {
	Dir      string   `json:"dir"`
	Problems []string `json:"problems"`
	// From and To are the events that are lost, 0 for none.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	// FirstJob and LastJob are the jobs that are lost, 0 for none.
	FirstJob model.JobID `json:"firstJob,omitempty"`
	LastJob  model.JobID `json:"lastJob,omitempty"`
	// Attempts have left traces on this machine, and are not in the journal.
	Attempts []string `json:"attempts,omitempty"`
	// Running are those of their tasks with processes, which the next start ends.
	Running []string `json:"running,omitempty"`
	// Copies is the folder with copies of the files, once the repair is done.
	Copies string `json:"copies,omitempty"`

	state   *core.State
	records []model.Record
}

func (a *commands) repairCommand() *cobra.Command {
	data, yes := "", false
	c := &cobra.Command{Use: "repair", Short: "Show what a damaged journal lost, and go on without it",
		Long: `Show what a data directory lost of what its server had acknowledged, as far as its
journal, its seal (journal.seal), its jobs' folders and the processes of this machine
tell; ask; and then make it good for a start without what is lost. The server must not
run.

Restore a backup instead where there is one that has more. What is done:
the files of the journal are copied aside as they are; events that cannot be read, and
all behind them, are removed; for each lost event the journal says that it is lost, so
that no number of an event, a job or an attempt is given twice. Tasks of attempts that
the journal does not know run on until the next start of the server, which ends them.`,
		Example: "  comb journal repair --data ./comb-data\n  comb journal repair --data ./comb-data --yes",
		Args:    cli.Args(cobra.NoArgs)}
	c.Flags().StringVar(&data, "data", "", "data directory (default: that of comb serve)")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	_ = c.MarkFlagDirname("data")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.repair(c.Context(), cli.First(data, a.DefaultData()), yes)
	}
	return c
}

func (a *commands) repair(ctx context.Context, dir string, yes bool) error {
	if _, err := os.Stat(dir); err != nil { // else opening it would create it
		return cli.CannotRead(dir, err)
	}
	s, err := store.Examine(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := examine(ctx, s, dir)
	if err != nil {
		return err
	}
	if len(r.Problems) == 0 {
		return a.Show(r, func(t *cli.Table) {
			t.Row("data directory", r.Dir)
			t.Row("journal", "nothing is lost: there is nothing to repair")
		})
	}
	if a.Format == "table" || !yes {
		if err := a.Show(r, func(t *cli.Table) { r.draw(t) }); err != nil {
			return err
		}
	}
	if !yes {
		if err := a.Confirm("Go on without what is lost?", "to go on without what is lost, repeat the command with --yes"); err != nil {
			return err
		}
	}
	live := make([]model.JobID, 0, r.state.Size())
	for _, j := range r.state.Jobs() {
		live = append(live, j.ID)
	}
	r.Copies, err = s.Repair(ctx, store.RepairPlan{Cut: r.state.Seq(), Records: r.records, Live: live,
		Now: cli.WallTime()})
	if err != nil {
		return err
	}
	return a.Show(r, func(t *cli.Table) {
		t.Row("repaired", fmt.Sprintf("the next event is %d, the next job %d at least",
			r.records[len(r.records)-1].Seq+1, r.next()))
		t.Row("copies", r.Copies)
	})
}

// examine finds what is lost, and what the journal must record about it.
func examine(ctx context.Context, s *store.Store, dir string) (*repair, error) {
	r := &repair{Dir: dir}
	lost := model.Lost{NextJob: s.LastJob() + 1}
	if l := s.Loss(); l != nil {
		r.Problems = append(r.Problems, l.Problem)
	}
	state, damage, err := engine.Salvage(ctx, s, policy.New)
	if err != nil {
		return nil, err
	}
	if damage != nil {
		r.Problems = append(r.Problems, damage.Error())
	}
	end, err := s.End(ctx)
	if err != nil {
		return nil, err
	}
	r.state = state
	if end > state.Seq() {
		r.From, r.To = state.Seq()+1, end
		lost.First, lost.Last = r.From, r.To
	}
	seen, err := UnknownAttempts(s, state)
	if err != nil {
		return nil, err
	}
	for _, at := range seen.Attempts {
		r.Attempts = append(r.Attempts, AttemptName(at))
	}
	r.Running = seen.Running
	if len(r.Attempts) > 0 {
		r.Problems = append(r.Problems, FoundHere(r.Attempts))
	}
	lost.Reason = strings.Join(r.Problems, "; ")
	before := state.NextJob()
	r.records = state.CloseGap(lost, seen.Attempts)
	if next := r.next(); next > before {
		r.FirstJob, r.LastJob = before, next-1
	}
	return r, nil
}

// next is the first number for new jobs.
func (r *repair) next() model.JobID {
	return r.records[len(r.records)-1].Event.(model.Lost).NextJob
}

// UnknownAttempts are the attempts that left traces on this machine and are not in the
// journal.
func UnknownAttempts(s *store.Store, state *core.State) (executor.FoundWork, error) {
	known := func(id model.JobID) bool {
		_, ok := state.Job(id)
		return ok
	}
	seen, err := local.Look(s.JobsDir(), s.ClusterID(), known)
	if err != nil {
		return seen, fmt.Errorf("cannot look which attempts this machine knows: %w", err)
	}
	seen.Attempts = slices.DeleteFunc(seen.Attempts, state.NumberGiven)
	slices.SortFunc(seen.Attempts, func(a, b model.AttemptID) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang), cmp.Compare(a.N, b.N))
	})
	seen.Attempts = slices.Compact(seen.Attempts)
	seen.Running = slices.DeleteFunc(seen.Running, func(task string) bool {
		return !slices.ContainsFunc(seen.Attempts, func(at model.AttemptID) bool {
			return strings.HasPrefix(task,
				at.String()+"/")
		})
	})
	return seen, nil
}

// AttemptName names an attempt in messages.
func AttemptName(at model.AttemptID) string {
	if at.N == 0 {
		return fmt.Sprintf("job %d", at.Job)
	}
	return "attempt " + at.String()
}

// FoundHere says which attempts left traces here.
func FoundHere(names []string) string {
	shown := strings.Join(names[:min(3, len(names))], ", ")
	if len(names) > 3 {
		shown += fmt.Sprintf(" and %s more", cli.Number(len(names)-3))
	}
	return "its jobs' folders or processes of this machine show " + shown + ", and the journal does not know of them"
}

func (r *repair) draw(t *cli.Table) {
	t.Row("data directory", r.Dir)
	for _, p := range r.Problems {
		t.Row("problem", p)
	}
	if r.From > 0 {
		t.Row("lost events", fmt.Sprintf("%d to %d (%s)", r.From, r.To, cli.Number(r.To-r.From+1)))
	}
	if r.FirstJob > 0 {
		t.Row("lost jobs", fmt.Sprintf("%d to %d (%s)", r.FirstJob, r.LastJob, cli.Number(r.LastJob-r.FirstJob+1)))
	}
	for _, task := range r.Running {
		t.Row("runs here", "task "+task+": the next start ends it")
	}
	t.Row("kept", fmt.Sprintf("the journal up to event %d, with %s jobs that have not ended", r.state.Seq(),
		cli.Number(r.state.Size())))
	t.Row("better", "a backup that has more; the files are copied to "+filepath.Join(r.Dir,
		"before-repair-...")+" first")
}
