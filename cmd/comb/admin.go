package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/sim/script"
)

func (a *app) journalCommand() *cobra.Command {
	data := ""
	verify := &cobra.Command{Use: "verify", Short: "Replay a journal and take every decision again",
		Long: `Replay a journal from its first event: every decision of this version is taken
again and must agree bit for bit, and every invariant is checked. Of a data directory
everything else is read as well: archive, snapshots, finished jobs, secrets, tokens and
answers to idempotency keys, each against its checksum, and its end against the seal.
The journal is that of a data directory, whose server may run meanwhile, or the file
that "comb sim run --journal" wrote. Nothing is written.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			dir := a.dataDir(data)
			h, err := store.OpenHistory(c.Context(), dir.Path)
			if err != nil {
				return unfound(err, dir.Path)
			}
			defer h.Close()
			report, err := engine.Verify(c.Context(), h, policy.New)
			if err != nil && len(report.Problems) == 0 {
				return err
			}
			err = errors.Join(err, a.show(report, func(t *table) {
				if text := dir.String(); text != "" {
					t.row("of directory", text)
				}
				drawReport(t, &report)
			}))
			if err == nil && len(report.Problems) > 0 {
				return outcome(exitFailure)
			}
			return err
		}}
	verify.Flags().StringVar(&data, "data", "", "data directory, or the journal file of a simulation (default: that of the server that the other commands find, else that of comb serve)")
	return noun("journal", "The journal: the stream of events that is the database", verify, a.repairCommand())
}

func drawReport(t *table, r *engine.Report) {
	t.row("events", number(r.Events))
	t.row("decisions", number(r.Decisions)+" taken again, and equal")
	t.row("other versions", number(r.Other)+" replayed only")
	t.row("snapshots", number(r.Snapshots)+" compared, and equal")
	t.row("kept beside", fmt.Sprintf("%s finished jobs, secrets of %s jobs, %s tokens, %s answers to idempotency keys",
		number(r.Finished), number(r.Secrets), number(r.Tokens), number(r.Answers)))
	t.row("invariants", number(r.Invariants)+" times checked")
	t.row("digest", r.Digest)
	for _, p := range r.Problems {
		if p.Seq > 0 {
			p.Message = fmt.Sprintf("event %d: %s", p.Seq, p.Message)
		}
		t.row("problem", p.Message)
	}
	if len(r.Problems) == 0 {
		t.row("journal", "sound")
	}
}

func (a *app) scriptCommand() *cobra.Command {
	return &cobra.Command{Use: "script FILE", Short: "Run a scenario on a simulated cluster; no server is needed",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			src, err := a.readFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			err = script.Run(c.Context(), a.out, args[0], src)
			if stopped := c.Context().Err(); stopped != nil {
				return stopped
			}
			if err != nil && !errors.Is(err, script.ErrAssert) {
				return hint{usageError{c, err}, "the commands are in docs/script.md"}
			}
			return err
		}}
}
