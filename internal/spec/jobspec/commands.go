package jobspec

import (
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// The lines around the commands of callbacks. $? is the status of the last command before
// them.
const (
	// stopOnFailure ends the task when the command before it failed.
	stopOnFailure = `comb_status=$?; [ "$comb_status" -eq 0 ] || exit "$comb_status"`
	// giveStatus ends the task with status 0, whatever the status of an optional callback.
	giveStatus = `exit 0`
)

// commandNodes returns the commands of a list, which must be strings.
func (p *parser) commandNodes(n *document.Node) []*document.Node {
	var out []*document.Node
	for _, item := range p.r.List(n) {
		switch item.Kind {
		case document.Scalar:
			out = append(out, item)
		case document.Null:
			p.r.Problem(item, "expected a command, found nothing")
		default:
			p.r.Problem(item, "expected a command as one string, found %s; quote a command that contains \": \" or begins with [ or {", item.Kind)
		}
	}
	return out
}

// readDeployments checks all deployments and keeps the one that defaults name.
func (p *parser) readDeployments(top *document.MapReader) {
	chosen := p.root.Get("defaults").Get("deployment")
	want := p.r.String(chosen, document.Text{})
	var names []string
	for _, item := range top.List("deployments") {
		m := p.r.Map(item, "a deployment")
		m.Require("name", "taskRoles")
		name := m.String("name", document.Text{Max: maxName})
		if contains(names, name) {
			p.r.Problem(m.Node("name"), "there are two deployments with the name %s", document.Quote(name))
		}
		if name != "" {
			names = append(names, name)
		}
		p.checkDeployment(m)
		if name == want && name != "" {
			p.deployment = item.Get("taskRoles")
		}
		m.Rest()
	}
	if want != "" && !contains(names, want) {
		p.r.Problem(chosen, "there is no deployment %s%s", document.Quote(want), p.hint(want, names))
	}
}

func (p *parser) checkDeployment(m *document.MapReader) {
	roles := m.Map("taskRoles", "the task roles of a deployment")
	for _, f := range roles.Fields() {
		p.checkRoleName(f)
		d := p.r.Map(f.Value, "a deployment's task role")
		p.commandNodes(d.Node("preCommands"))
		p.commandNodes(d.Node("postCommands"))
		d.Rest()
	}
}

// checkRoleName reports a key that should name a task role and does not, and returns false.
func (p *parser) checkRoleName(f document.Field) bool {
	if contains(p.roleNames, f.Key) {
		return true
	}
	p.r.Problem(f.Value, "there is no task role %s%s", document.Quote(f.Key), p.hint(f.Key, p.roleNames))
	return false
}

// makeCommands puts a role's shell lines together: what its prerequisites do at the start,
// the deployment's preCommands, its own commands, the postCommands, and what its
// prerequisites do on success, in reverse order.
func (p *parser) makeCommands(r *role, used []*prerequisite, own []*document.Node) {
	for _, pre := range used {
		p.addCommands(r, pre.starts)
		if pre.strict && len(pre.starts) > 0 {
			r.Launch.Command = append(r.Launch.Command, stopOnFailure)
		}
	}
	deployed := p.deployment.Get(r.Name)
	p.addCommands(r, items(deployed.Get("preCommands")))
	p.addCommands(r, own)
	p.addCommands(r, items(deployed.Get("postCommands")))
	p.addSuccess(r, used)
}

// addSuccess adds the taskSucceeds callbacks. They run only when the commands before ended
// with status 0, and only a strict one can still fail the task.
func (p *parser) addSuccess(r *role, used []*prerequisite) {
	guarded, strict := false, true
	for i := len(used) - 1; i >= 0; i-- {
		if len(used[i].ends) == 0 {
			continue
		}
		if !guarded {
			r.Launch.Command = append(r.Launch.Command, stopOnFailure)
			guarded = true
		}
		p.addCommands(r, used[i].ends)
		if strict = used[i].strict; strict {
			r.Launch.Command = append(r.Launch.Command, stopOnFailure)
		}
	}
	if guarded && !strict {
		r.Launch.Command = append(r.Launch.Command, giveStatus)
	}
}

func items(n *document.Node) []*document.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// addCommands renders commands and appends them. Like OpenPAI it trims each; an
// empty one is left out.
func (p *parser) addCommands(r *role, nodes []*document.Node) {
	fill := renderer{budget: &p.budget, lookup: func(ref string) (string, error) { return p.lookup(r, ref) }}
	for _, n := range nodes {
		if p.budget < 0 || p.failed >= document.MaxProblems {
			return
		}
		if n.Kind != document.Scalar {
			continue // reported already
		}
		line, errs := fill.render(strings.TrimSpace(n.Text))
		for _, err := range errs {
			p.r.Problem(n, "%s", err)
		}
		p.failed += len(errs)
		if strings.IndexByte(line, 0) >= 0 {
			p.r.Problem(n, "a command cannot hold a zero byte")
		}
		if line = strings.TrimSpace(line); line != "" {
			r.Launch.Command = append(r.Launch.Command, line)
		}
	}
}
