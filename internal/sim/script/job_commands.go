package script

import (
	"fmt"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// doJobCommand runs a command on a job: hold NAME, release NAME, requeue NAME [hold], each with
// [reason="..."], and update NAME [prio=..] [limit=..].
func doJobCommand(s *Session, c command) (string, error) {
	id, _, err := s.job(c.args.word(0))
	if err != nil {
		return "", err
	}
	meta, reason := s.meta(c.args), ""
	if c.args.name != "update" {
		reason = c.args.text("reason", "")
	}
	var in model.Command
	switch c.args.name {
	case "hold", "release":
		in = model.Hold{Meta: meta, Job: id, On: c.args.name == "hold", Reason: reason}
	case "requeue":
		in = model.Requeue{Meta: meta, Job: id, Hold: c.args.flag("hold"), Reason: reason}
	default:
		u := model.Update{Meta: meta, Job: id}
		if c.args.has("prio") {
			p := priority(c.args)
			u.Priority = &p
		}
		if c.args.has("limit") {
			d := c.args.duration("limit", 0)
			u.TimeLimit = &d
		}
		in = u
	}
	if err := c.args.done(1); err != nil {
		return "", err
	}
	r, err := s.give(engine.Input{Command: in})
	if err != nil || r.Refusal == nil {
		return "", err
	}
	return s.refused(r.Refusal), nil
}

// cordoned prints what became of a node.
func cordoned(now model.Time, e model.NodeCordoned) string {
	switch {
	case e.Dead:
		return "declared dead"
	case e.Drain > 0:
		return fmt.Sprintf("cordoned; jobs there have %s to end", formatDuration(model.Duration(max(e.Drain-now, 0))))
	case e.On:
		return "cordoned"
	}
	return "uncordoned"
}

// updates lists what an update changes.
func updates(e model.JobUpdated) (out []string) {
	if e.Priority != nil {
		out = append(out, "priority "+formatPriority(*e.Priority))
	}
	if e.TimeLimit != nil {
		out = append(out, "time limit "+formatDuration(*e.TimeLimit))
	}
	return out
}
