package admin

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
)

func (a *commands) journalCommand() *cobra.Command {
	data := ""
	verify := &cobra.Command{Use: "verify", Short: "Replay a journal and take every decision again",
		Long: `Replay a journal from its first event: every decision of this version is taken
again and must agree bit for bit, and every invariant is checked. Of a data directory
everything else is read as well: archive, snapshots, finished jobs, secrets, tokens and
answers to idempotency keys, each against its checksum, and its end against the seal.
The journal is that of a data directory, whose server may run meanwhile, or the file
that "comb sim run --journal" wrote. Nothing is written.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			dir := a.DataDir(data)
			h, err := store.OpenHistory(c.Context(), dir.Path)
			if err != nil {
				return cli.Unfound(err, dir.Path)
			}
			defer h.Close()
			report, err := engine.Verify(c.Context(), h, policy.New)
			if err != nil && len(report.Problems) == 0 {
				return err
			}
			err = errors.Join(err, a.Show(report, func(t *cli.Table) {
				if text := dir.String(); text != "" {
					t.Row("of directory", text)
				}
				drawReport(t, &report)
			}))
			if err == nil && len(report.Problems) > 0 {
				return cli.Outcome(cli.ExitFailure)
			}
			return err
		}}
	verify.Flags().StringVar(&data, "data", "", "data directory, or the journal file of a simulation (default: that of the server that the other commands find, else that of comb serve)")
	return cli.Noun("journal", "The journal: the stream of events that is the database", verify, a.repairCommand())
}

func drawReport(t *cli.Table, r *engine.Report) {
	t.Row("events", cli.Number(r.Events))
	t.Row("decisions", cli.Number(r.Decisions)+" taken again, and equal")
	t.Row("other versions", cli.Number(r.Other)+" replayed only")
	t.Row("snapshots", cli.Number(r.Snapshots)+" compared, and equal")
	t.Row("kept beside", fmt.Sprintf("%s finished jobs, secrets of %s jobs, %s tokens, %s answers to idempotency keys",
		cli.Number(r.Finished), cli.Number(r.Secrets), cli.Number(r.Tokens), cli.Number(r.Answers)))
	t.Row("invariants", cli.Number(r.Invariants)+" times checked")
	t.Row("digest", r.Digest)
	for _, p := range r.Problems {
		if p.Seq > 0 {
			p.Message = fmt.Sprintf("event %d: %s", p.Seq, p.Message)
		}
		t.Row("problem", p.Message)
	}
	if len(r.Problems) == 0 {
		t.Row("journal", "sound")
	}
}
