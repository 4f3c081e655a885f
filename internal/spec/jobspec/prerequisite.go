package jobspec

import (
	"cmp"
	"errors"
	"strings"

	"github.com/distribution/reference"

	"github.com/combsched/comb/internal/base/document"
)

// A prerequisite is something that a role needs beside its commands: an image, a script, data
// or a place for output.
type prerequisite struct {
	node   *document.Node
	kind   string // dockerimage, script, data or output
	name   string
	uri    string // of an image
	starts []*document.Node
	ends   []*document.Node
	needs  []string // names of prerequisites that come before
	strict bool     // a failed callback fails the task
}

var prerequisiteKinds = []string{"dockerimage", "script", "data", "output"}

func (p *parser) readPrerequisites(top *document.MapReader) {
	for _, item := range top.List("prerequisites") {
		m := p.r.Map(item, "a prerequisite")
		pre := prerequisite{node: item}
		m.Require("name", "type")
		p.r.String(m.Node("protocolVersion"), document.Text{OneOf: []string{"2"}})
		pre.name = p.name(m.Node("name"))
		pre.kind = m.String("type", document.Text{OneOf: prerequisiteKinds})
		for _, key := range []string{"version", "contributor", "description", "plugin"} {
			m.String(key, document.Text{})
		}
		p.readURI(m, &pre)
		p.readAuth(m, &pre)
		p.readCallbacks(m, &pre)
		p.warnUnknown(m, "protocolVersion", "name", "type", "version", "contributor", "description",
			"uri", "auth", "plugin", "require", "callbacks", "failurePolicy")
		if p.prerequisite(pre.kind, pre.name) != nil && pre.name != "" {
			p.r.Problem(m.Node("name"), "there are two prerequisites of type %s with the name %s", pre.kind, document.Quote(pre.name))
		}
		p.prerequisites = append(p.prerequisites, pre)
		if len(p.prerequisites) > maxPrerequisites {
			p.r.Problem(item, "at most %d prerequisites are allowed", maxPrerequisites)
			break
		}
	}
	p.checkNeeds()
}

// readURI reads the location: a list for data, else one string. Only the prerequisite of a
// plug-in may have none.
func (p *parser) readURI(m *document.MapReader, pre *prerequisite) {
	if !m.Has("plugin") {
		m.Require("uri")
	}
	n := m.Node("uri")
	if pre.kind == "data" {
		if uris := p.r.Strings(n, document.Text{}); n != nil && n.Kind == document.List && len(uris) == 0 {
			p.r.Problem(n, "the list needs at least one URI")
		}
		return
	}
	pre.uri = p.r.String(n, document.Text{})
	if why := notImage(pre.uri); pre.kind == "dockerimage" && pre.uri != "" && why != "" {
		p.r.Problem(n, "%s is not the name of an image: %s", document.Quote(pre.uri), why)
	}
}

// notImage says why a text cannot name an image; "" is that it can.
func notImage(name string) string {
	_, err := reference.ParseAnyReference(name)
	_, lower := reference.ParseAnyReference(strings.ToLower(name))
	switch {
	case err == nil:
		return ""
	case strings.Contains(name, "<%"):
		return "<% %> tags are filled in in commands only; write one such as python:3.12"
	case lower == nil:
		return "it has capital letters in front of its tag; write one such as python:3.12"
	case errors.Is(err, reference.ErrNameTooLong):
		return "it is too long; write one such as python:3.12"
	}
	return "write one such as python:3.12 or registry.example.com/team/train:3"
}

func (p *parser) readAuth(m *document.MapReader, pre *prerequisite) {
	auth := m.Map("auth", "auth")
	values := map[string]string{}
	login := Login{}
	for _, key := range []string{"username", "password", "registryuri"} {
		n := auth.Node(key)
		if n == nil || n.Kind == document.Null {
			continue
		}
		value := p.r.String(n, document.Text{})
		segments, err := splitTemplate(value)
		if err != nil {
			p.r.Problem(n, "%s", err)
		}
		secret := ""
		for _, s := range segments {
			text, from := p.authText(n, s)
			values[key] += text
			secret = cmp.Or(secret, from)
		}
		if key != "password" {
			continue
		}
		refuseMasked(p.r, n)
		if login.Secret = secret; secret == "" {
			p.passwords = append(p.passwords, n)
			p.r.Warn(n, "the password stands in the job file for all to read; put it under secrets and write <%% $secrets.NAME %%> here")
		}
	}
	login.User, login.Password = values["username"], values["password"]
	p.logins.keep(p.r, m.Self(), pre, login, values["registryuri"])
	if m.Has("auth") {
		p.warnUnknown(auth, "username", "password", "registryuri")
	}
}

// authText is the value of a segment of an auth, and the secret from which it comes.
func (p *parser) authText(n *document.Node, s segment) (text, secret string) {
	if s.ref == "" {
		return s.text, ""
	}
	if !strings.HasPrefix(s.ref, secretsRoot) || len(s.ref) == len(secretsRoot) {
		p.r.Problem(n, "%s: only $secrets can be used here", clip(s.text))
		return "", ""
	}
	text, err := p.lookup(nil, s.ref)
	if err != nil {
		p.r.Problem(n, "%s", err)
	}
	return text, strings.TrimPrefix(s.ref, secretsRoot)
}

// readCallbacks reads the commands that run when a task starts or succeeds.
func (p *parser) readCallbacks(m *document.MapReader, pre *prerequisite) {
	pre.needs = m.Strings("require", document.Text{Max: maxName})
	policy := m.String("failurePolicy", document.Text{Default: "ignore", OneOf: []string{"ignore", "fail"}})
	pre.strict = policy == "fail"
	for _, item := range m.List("callbacks") {
		c := p.r.Map(item, "a callback")
		c.Require("event", "commands")
		event := c.String("event", document.Text{OneOf: []string{"taskStarts", "taskSucceeds"}})
		commands := p.commandNodes(c.Node("commands"))
		p.warnUnknown(c, "event", "commands")
		if event == "taskSucceeds" {
			pre.ends = append(pre.ends, commands...)
		} else {
			pre.starts = append(pre.starts, commands...)
		}
	}
}

// prerequisite finds one by type and name.
func (p *parser) prerequisite(kind, name string) *prerequisite {
	for i := range p.prerequisites {
		if p.prerequisites[i].kind == kind && p.prerequisites[i].name == name {
			return &p.prerequisites[i]
		}
	}
	return nil
}

// named finds the prerequisites with a name, of any type.
func (p *parser) named(name string) []int {
	var found []int
	for i := range p.prerequisites {
		if p.prerequisites[i].name == name {
			found = append(found, i)
		}
	}
	return found
}

func (p *parser) prerequisiteNames(kind string) []string {
	var names []string
	for _, pre := range p.prerequisites {
		if pre.name != "" && (kind == "" || pre.kind == kind) {
			names = append(names, pre.name)
		}
	}
	return names
}

// pick finds the one prerequisite with a name, and reports when there is none or several.
func (p *parser) pick(at *document.Node, name string) int {
	found := p.named(name)
	switch len(found) {
	case 1:
		return found[0]
	case 0:
		names := p.prerequisiteNames("")
		p.r.Problem(at, "there is no prerequisite %s%s", document.Quote(name), p.hint(name, names))
	default:
		p.r.Problem(at, "there are %d prerequisites with the name %s; rename them so that this one is clear", len(found), document.Quote(name))
	}
	return -1
}

// checkNeeds checks that the prerequisites that others require exist, and that there is no
// cycle.
func (p *parser) checkNeeds() {
	state := make([]int8, len(p.prerequisites)) // 1: being visited, 2: done
	for i := range p.prerequisites {
		p.visit(i, state)
	}
}

func (p *parser) visit(i int, state []int8) {
	if state[i] != 0 {
		return
	}
	state[i] = 1
	at := p.prerequisites[i].node.Get("require")
	for _, name := range p.prerequisites[i].needs {
		next := p.pick(at, name)
		switch {
		case next < 0:
		case state[next] == 1:
			p.r.Problem(at, "the prerequisites require each other in a circle through %s", document.Quote(name))
		default:
			p.visit(next, state)
		}
	}
	state[i] = 2
}

// ordered returns the named prerequisites with all that they require, each once and after
// those it requires.
func (p *parser) ordered(names []*document.Node) []*prerequisite {
	var (
		out  []*prerequisite
		seen = make([]bool, len(p.prerequisites))
		add  func(i int)
	)
	add = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, name := range p.prerequisites[i].needs {
			if found := p.named(name); len(found) == 1 {
				add(found[0])
			}
		}
		out = append(out, &p.prerequisites[i])
	}
	for _, n := range names {
		if i := p.pick(n, p.r.String(n, document.Text{})); i >= 0 {
			add(i)
		}
	}
	return out
}
