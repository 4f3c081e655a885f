package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Lines of the audit log about commands: all that administrators do to nodes and to the
// configuration, and what users do to jobs of others. Such a line is durable with the events
// of its command, or neither is.

// done is a line about what a request does.
func done(ctx context.Context, verb, object, detail string) people.AuditLine {
	return people.AuditLine{Subject: string(people.Subject(ctx)), Verb: verb, Object: object,
		Outcome: people.Done, Detail: detail}
}

// lineOfJob is the line about a command on a job; j and limit are the job and its time limit
// before it. It is nil where the job is the asker's own.
func lineOfJob(ctx context.Context, d *people.Directory, c model.Command, j *rest.Job,
	limit model.Duration) *engine.Audit {
	if j.User == people.Subject(ctx) {
		return nil
	}
	verb, detail := "stop job", ""
	switch c := c.(type) {
	case model.Stop:
		detail = c.Reason
	case model.Hold:
		verb, detail = "hold job", c.Reason
		if !c.On {
			verb = "release job"
		}
	case model.Requeue:
		verb, detail = "requeue job", c.Reason
		if c.Hold {
			detail = sentence("and hold it", c.Reason)
		}
	case model.Update:
		verb, detail = "change job", changes(&c, j, limit)
	}
	return d.Line(ctx, done(ctx, verb, jobObject(j), detail))
}

// jobObject is a job in the audit log, under the name that all users can use.
func jobObject(j *rest.Job) string {
	return fmt.Sprintf("job %s~%s (%d) in VC %s", j.User, j.Name, j.ID, j.VC)
}

// changes describes what an update changes, with the old values.
func changes(c *model.Update, j *rest.Job, limit model.Duration) string {
	var parts []string
	if c.Priority != nil {
		parts = append(parts, fmt.Sprintf("priority %d -> %d", j.Priority, *c.Priority))
	}
	if c.TimeLimit != nil {
		parts = append(parts, fmt.Sprintf("time limit %s -> %s", limitText(limit), limitText(*c.TimeLimit)))
	}
	return strings.Join(parts, ", ")
}

func limitText(limit model.Duration) string {
	if limit == 0 {
		return "none"
	}
	return document.FormatDuration(int64(limit))
}

// lineOfNode is the line about a command on a node. over is the drain that it ends, "" for
// none. A command that changes nothing has no line.
func lineOfNode(ctx context.Context, d *people.Directory, c model.Command, name, over string) *engine.Audit {
	verb, detail := "uncordon node", over
	switch c := c.(type) {
	case model.Cordon:
		switch {
		case c.Drain > 0:
			verb = "drain node"
			detail = sentence("until "+instant(c.Drain), c.Reason)
			if over != "" {
				detail = over + "; " + detail
			}
		case c.On:
			verb, detail = "cordon node", c.Reason
			if over != "" {
				detail = sentence(over, c.Reason)
			}
		}
	case model.DeclareDead:
		verb, detail = "declare node dead", c.Reason
	}
	line := d.Line(ctx, done(ctx, verb, "node "+name, detail))
	line.Changes = true
	return line
}

// drainOver describes the drain of a node that a command ends; "" is none.
func drainOver(c model.Command, n *model.NodeStatus) string {
	if _, ok := c.(model.Cordon); !ok || n.Drain == 0 {
		return ""
	}
	text := "the drain until " + instant(n.Drain)
	if n.Reason != "" {
		text += " (" + n.Reason + ")"
	}
	return text + " is over"
}

// clusterFile is the object of changes of the configuration.
const clusterFile = "the cluster file"

// lineOfConfig is the line about a change of the configuration.
func lineOfConfig(ctx context.Context, d *people.Directory, restores int64, reason string,
	o *expiringChange) *engine.Audit {
	verb, what := "apply configuration", fmt.Sprintf("in place of version %d", o.Latest)
	switch {
	case restores > 0:
		verb, what = "roll back configuration", fmt.Sprintf("to version %d, in place of version %d", restores, o.Latest)
	case o.Same && o.Was.Version > 0 && o.Is.Version == 0:
		verb, what = "keep configuration", fmt.Sprintf("version %d has no end any more", o.Was.Version)
	case o.Latest == 0:
		what = "the first one"
	}
	line := d.Line(ctx, done(ctx, verb, clusterFile, sentence(what, o.Reason(reason))))
	// The file in force, with no end before or after it, changes nothing.
	line.Changes = line.Changes || o.Same && o.Was.Version == 0 && o.Is.Version == 0
	return line
}

// lineOfEnd is the line about the end of a configuration, at which the server goes back by
// itself.
func lineOfEnd(back int64, why string) *engine.Audit {
	return &engine.Audit{Subject: "system", Verb: "roll back configuration", Object: clusterFile,
		Outcome: people.Done, Detail: fmt.Sprintf("to version %d: %s", back, why)}
}

// lineOfTag is the line about a tag that a job of another user gets, or loses.
func lineOfTag(ctx context.Context, j *rest.Job, tag string, on bool) people.AuditLine {
	verb := "tag job"
	if !on {
		verb = "untag job"
	}
	return done(ctx, verb, jobObject(j), tag)
}

// lineOfVisit is the line about a command that is run beside a task of another user's job.
func lineOfVisit(ctx context.Context, j *rest.Job, task, command string) people.AuditLine {
	return done(ctx, "run a command in job", jobObject(j), "task "+task+": "+command)
}

// sentence is a fact with the reason of its user, if there is one.
func sentence(fact, reason string) string {
	if reason == "" {
		return fact
	}
	return fact + ": " + reason
}
