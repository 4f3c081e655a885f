package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
)

// doShow prints state: show jobs|cells|free|bindings|vcs|nodes|events, or show
// explain NAME. show cells under=n1 prints one node's.
func (s *Session) doShow(c command) (string, error) {
	var out strings.Builder
	what, name := c.args.word(0), c.args.word(1)
	after, under, chain := c.args.number("after", 0), c.args.text("under", ""), c.args.text("chain", "")
	if err := c.args.done(2); err != nil {
		return "", err
	}
	if what == "explain" {
		return s.showExplain(name)
	}
	if what == "events" {
		return s.showEvents(uint64(max(after, 0)))
	}
	err := s.read(func(st *core.State) {
		switch what {
		case "jobs":
			for _, j := range st.AsOf(s.world.Now()).Jobs() {
				s.showJob(&out, j)
			}
		case "cells":
			cells := st.Cells()
			if under != "" {
				cells = findCells(cells, under, chain)
			}
			for _, c := range cells {
				s.showCell(&out, c, 0)
			}
		case "free":
			showFree(&out, st.Cells())
		case "bindings":
			showBindings(&out, st.Cells())
		case "vcs":
			for _, v := range st.VCs() {
				showVC(&out, v)
			}
		case "nodes":
			for _, n := range st.Nodes() {
				s.showNode(&out, n)
			}
		default:
			fmt.Fprintf(&out, "%q is none of jobs, cells, free, bindings, vcs, nodes, events, explain\n", what)
		}
	})
	if out.Len() == 0 {
		out.WriteString("none\n")
	}
	return out.String(), err
}

// showEvents prints the journal as kinds with their JSON.
func (s *Session) showEvents(after uint64) (string, error) {
	var out strings.Builder
	err := s.journal.Replay(context.Background(), after, func(r model.Record) error {
		kind, _, data, err := model.EncodeEvent(r.Event)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%d %s %s %s\n", r.Seq, s.clock(r.Time), kind, data)
		return nil
	})
	return out.String(), err
}

func (s *Session) showJob(out *strings.Builder, j model.JobStatus) {
	fmt.Fprintf(out, "%s %s, VC %s, %s", s.jobName(j.ID), j.Phase, j.VC, formatPriority(j.Priority))
	if j.Retry > 0 {
		fmt.Fprintf(out, ", retry %d", j.Retry)
	}
	if j.Preempted > 0 {
		fmt.Fprintf(out, ", preempted %s", count(j.Preempted, "time", "times"))
	}
	if j.Held != nil {
		out.WriteString(", held")
	}
	if j.Stopping {
		out.WriteString(", to stop")
	}
	out.WriteString("\n")
	for _, t := range j.Tasks {
		fmt.Fprintf(out, "  %s[%d] %s", t.Role, t.Index, t.State)
		if t.Node != "" {
			fmt.Fprintf(out, " on %s, attempt %d", formatPlace(t.Node, t.Devices, t.Parts), t.Attempt)
		}
		if t.Exit != nil {
			fmt.Fprintf(out, ", %s", strings.Replace(formatExit(*t.Exit), "exits", "exited", 1))
		}
		out.WriteString("\n")
	}
	for _, a := range j.Attempts {
		switch {
		case a.Opportunistic && a.Ended == 0:
			fmt.Fprintf(out, "  attempt %s is opportunistic\n", a.ID)
		case a.Opportunistic:
			fmt.Fprintf(out, "  attempt %s was opportunistic\n", a.ID)
		}
	}
}

func (s *Session) showCell(out *strings.Builder, c model.CellStatus, depth int) {
	fmt.Fprintf(out, "%s%s %s %s", strings.Repeat("  ", depth), c.Type, c.Address, c.State)
	if !c.Healthy {
		out.WriteString(" bad")
	}
	if c.Virtual != "" {
		fmt.Fprintf(out, " for %s", c.Virtual)
	}
	if c.Pinned != "" {
		fmt.Fprintf(out, " pinned %s", c.Pinned)
	}
	if c.Job != 0 {
		fmt.Fprintf(out, " by %s", s.jobName(c.Job))
	}
	out.WriteString("\n")
	for _, child := range c.Children {
		s.showCell(out, child, depth+1)
	}
}

// count is "1 leaf" or "3 leaves".
func count(n int32, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func showVC(out *strings.Builder, v model.VCStatus) {
	fmt.Fprintf(out, "%s (%s): ", v.Name, cmp.Or(v.Policy, "gone"))
	for i := range v.SKUs {
		u := &v.SKUs[i]
		fmt.Fprintf(out, "%s", u.Amount(u.Guaranteed))
		if len(v.SKUs) > 1 {
			fmt.Fprintf(out, " of %s", u.SKU)
		}
		fmt.Fprintf(out, " guaranteed, %s used, %s borrowed, %s lent, %s bad; ", u.Number(u.Used), u.Number(u.Opportunistic), u.Number(u.Lent), u.Number(u.Bad))
	}
	fmt.Fprintf(out, "%s active, %d waiting\n", count(v.Active, "job", "jobs"), v.Waiting)
	if v.Failed != nil {
		fmt.Fprintf(out, "  %s\n", v.Failed.Words())
	}
	if v.Orphaned > 0 {
		fmt.Fprintf(out, "  %d devices drain that the configuration lacks\n", v.Orphaned)
	}
	for _, q := range v.Cells {
		name := string(q.Type)
		if q.Pinned != "" {
			name += " " + string(q.Pinned)
		}
		fmt.Fprintf(out, "  %s: %d of %d in use\n", name, q.Bound, q.Total)
	}
}

func (s *Session) showNode(out *strings.Builder, n model.NodeStatus) {
	state := map[bool]string{true: "up", false: "down"}[n.Up]
	if n.Cordoned {
		state += ", cordoned"
	}
	if n.Suspect != 0 {
		state += ", suspect until " + s.clock(n.Suspect)
	}
	if n.Gone {
		state += ", gone from the configuration"
	}
	fmt.Fprintf(out, "%s %s%s", n.Name, state, because(n.Reason))
	if n.Orphaned > 0 {
		fmt.Fprintf(out, "; %d drain", n.Orphaned)
	}
	for _, k := range n.SKUs {
		fmt.Fprintf(out, "; %s %s of %s used", k.SKU, k.Number(k.Used), k.Amount(k.Total))
		if k.Bad > 0 {
			fmt.Fprintf(out, ", %s bad", k.Number(k.Bad))
		}
		if k.HeldByOthers > 0 {
			fmt.Fprintf(out, ", %s held by others%s", k.Number(k.HeldByOthers), because(k.Holders))
		}
	}
	out.WriteString("\n")
}

// doVerify checks the state's invariants, decides every batch of the journal again, and
// compares the state with one that is folded from the journal alone.
func (s *Session) doVerify(c command) (string, error) {
	if err := c.args.done(0); err != nil {
		return "", err
	}
	var invariants error
	err := s.read(func(st *core.State) { invariants = st.Verify() })
	if err != nil {
		return "", err
	}
	if invariants != nil {
		return "", fmt.Errorf("verify: %w", invariants)
	}
	report, err := engine.Verify(context.Background(), s.journal, policy.New)
	if err != nil {
		return "", fmt.Errorf("verify: %w", err)
	}
	for _, p := range report.Problems {
		err = errors.Join(err, fmt.Errorf("verify: event %d: %s", p.Seq, p.Message))
	}
	if own := s.digest(); err == nil && report.Digest != own {
		err = fmt.Errorf("verify: the journal gives a state with digest %s, the present one has %s", report.Digest, own)
	}
	if err != nil {
		return "", err
	}
	return "verified\n", nil
}
