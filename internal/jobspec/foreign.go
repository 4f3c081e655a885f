package jobspec

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/combsched/comb/internal/document"
)

// howTo is where each of these files is put beside a job file, key by key.
const howTo = " (docs/from-openpai.md, \"Files that are no job files\")"

// foreign reports a file of another kind by its name, with the way from it to a job file, instead of all the keys of
// it that are not a job's.
func (p *parser) foreign() bool {
	at, say := foreignKind(p.root)
	if at != nil {
		p.r.Problem(at, "%s%s", say, howTo)
	}
	return at != nil
}

// foreignKind is what a file is that is no job file, and where that stands; nil is that it may be one.
func foreignKind(root *document.Node) (at *document.Node, say string) {
	text := func(n *document.Node) string {
		if n == nil || n.Kind != document.Scalar {
			return ""
		}
		return n.Text
	}
	kind, version, roles := root.Get("kind"), root.Get("apiVersion"), root.Get("taskRoles")
	group, _, _ := strings.Cut(text(version), "/")
	switch {
	case text(kind) == "Framework" || version != nil && slices.Contains([]string{"frameworkcontroller.microsoft.com", "launcher.microsoft.com"}, group):
		return frameworkKind(root, kind, version)
	case kind != nil && version != nil && roles == nil:
		return kind, "this is an object of Kubernetes, a " + clip(text(kind)) + ", and no job file: write a job file of protocol 2 with its image, its command and what it asks for"
	case root.Get("jobName") != nil || isList(roles, "taskNumber"):
		return firstOf(root.Get("jobName"), roles), "this is a job of OpenPAI's protocol 1, and Comb reads protocol 2: jobName becomes name, image a prerequisite of type dockerimage, each entry of taskRoles a role " +
			"with taskNumber as instances, cpuNumber, memoryMB and gpuNumber in resourcePerInstance and command in commands, and retryCount becomes jobRetryCount"
	case root.Get("protocol_version") != nil || isList(root.Get("tasks"), "role"):
		return firstOf(root.Get("protocol_version"), root.Get("tasks")), "this is a template of OpenPAI's first marketplace, and Comb reads protocol 2: each entry of tasks becomes a role of taskRoles, its resource.instances instances, " +
			"its command commands, $$NAME$$ becomes <% $parameters.NAME %>, and retryCount jobRetryCount"
	case roles == nil && slices.Contains([]string{"dockerimage", "data", "script", "output"}, text(root.Get("type"))):
		return root.Get("type"), "this is a " + text(root.Get("type")) + " of OpenPAI's marketplace, a template for a part of a job, and no job: put it into the list prerequisites of a job file, and name it in a role"
	case roles == nil && (text(root.Get("type")) == "template" || root.Get("protocol") != nil || root.Get("jobConfig") != nil):
		return firstOf(root.Get("protocol"), root.Get("jobConfig"), root.Get("type")), "this is an item of OpenPAI's marketplace, a template with its title and author: " +
			"the job file is the value of protocol (of jobConfig in older ones); submit that"
	}
	return nil, ""
}

// frameworkKind says how one comes from a Framework to a job file: OpenPAI's own carry theirs.
func frameworkKind(root, kind, version *document.Node) (*document.Node, string) {
	const is = "this is a Framework of FrameworkController, and no job file: "
	if kind == nil {
		kind = version
	}
	if m := root.Get("metadata"); m != nil && m.Get("annotations") != nil && m.Get("annotations").Get("config") != nil {
		return kind, is + "OpenPAI made it of one, which is the text of metadata.annotations.config; submit that, with the values of its secrets"
	}
	return kind, is + "each entry of spec.taskRoles becomes a role of taskRoles, with taskNumber as instances, frameworkAttemptCompletionPolicy as completion, its container's image as a prerequisite of type dockerimage, " +
		"its command in commands and its limits in resourcePerInstance; spec.retryPolicy.maxRetryCount becomes jobRetryCount"
}

func firstOf(nodes ...*document.Node) *document.Node {
	i := slices.IndexFunc(nodes, func(n *document.Node) bool { return n != nil })
	return nodes[i]
}

// isList reports whether a value is a list of maps with such a key.
func isList(n *document.Node, key string) bool {
	return n != nil && n.Kind == document.List && slices.ContainsFunc(n.Items, func(item *document.Node) bool { return item.Get(key) != nil })
}

// placePattern is a place that a template engine fills in, as Helm's, Jinja's and Mustache's.
var placePattern = regexp.MustCompile(`\{\{-?\s*[#/^$.\w][^{}\n]*\}\}|\{%-?\s*\w+[^{}\n]*%\}`)

// unfilled puts in front of what is wrong with a text that it is a template whose places are not filled in, where it
// has such places: they are no YAML.
func unfilled(file string, src []byte, problems document.Problems) document.Problems {
	at := placePattern.FindIndex(src)
	if at == nil {
		return problems
	}
	before := string(src[:at[0]])
	line := strings.Count(before, "\n") + 1
	return append(document.Problems{{File: file, Line: line, Column: utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1, Message: "this looks like a template, with a place " +
		clip(string(src[at[0]:at[1]])) + " that is not filled in: have its program fill it in (helm template, jinja2), and submit what that writes; or put the text in quotes"}}, problems...)
}

// isMasked reports whether a value is what an export shows in a secret's place.
func isMasked(n *document.Node) bool {
	return n != nil && n.Kind == document.Scalar && n.Text == secretMask
}

// refuseMasked reports the secrets of a file that an export does not show.
func (p *parser) refuseMasked(n *document.Node) {
	if isMasked(n) {
		p.r.Problem(n, "this file is an export of a job, which shows its secrets as %s: write the value in its place, or leave the secret out where nothing uses it (comb job clone --secrets FILE fills them in of a job that is here)", secretMask)
	}
}
