package jobspec

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/combsched/comb/internal/base/document"
)

// Files of other kinds, and how to make a job file of each.
const (
	isFramework = "this is a Framework of FrameworkController, and no job file: each entry of " +
		"spec.taskRoles becomes a role of taskRoles, with taskNumber as instances, " +
		"frameworkAttemptCompletionPolicy as completion, its container's image as a prerequisite " +
		"of type dockerimage, its command in commands and its limits in resourcePerInstance; " +
		"spec.retryPolicy.maxRetryCount becomes jobRetryCount"
	isFrameworkOfJob = "this is a Framework of FrameworkController, and no job file: OpenPAI made it of one, " +
		"which is the text of metadata.annotations.config; submit that, with the values of its " +
		"secrets"
	isObject = "this is an object of Kubernetes, and no job file: write a job file of protocol 2 with " +
		"its image, its command and what it asks for"
	isProtocol1 = "this is a job of OpenPAI's protocol 1, and Comb reads protocol 2: jobName becomes name, " +
		"image a prerequisite of type dockerimage, each entry of taskRoles a role with taskNumber " +
		"as instances, cpuNumber, memoryMB and gpuNumber in resourcePerInstance and command in " +
		"commands, and retryCount becomes jobRetryCount"
	isFirstTemplate = "this is a template of OpenPAI's first marketplace, and Comb reads protocol 2: each entry " +
		"of tasks becomes a role of taskRoles, its resource.instances instances, its command " +
		"commands, $$NAME$$ becomes <% $parameters.NAME %>, and retryCount jobRetryCount"
	isPart = "this is a template for a part of a job, as OpenPAI's marketplace has them, and no job: " +
		"put it into the list prerequisites of a job file, and name it in a role"
	isItem = "this is an item of OpenPAI's marketplace, a template with its title and author: the job " +
		"file is the value of protocol (of jobConfig in older ones); submit that"
	isTemplate = " stands for a value that is not filled in, so that this looks like a template: have its " +
		"program fill it in (helm template, jinja2), and submit what that writes; or put the text " +
		"in quotes"

	// howTo is where docs show each of them beside a job file, key by key.
	howTo = " (docs/from-openpai.md, \"Files that are no job files\")"
)

// refuseOtherFile reports a file of another kind as such, and how to make a job file of it. Else
// each of its keys would be reported as unknown.
func refuseOtherFile(r *document.Reader, root *document.Node) bool {
	at, is := otherFileKind(root)
	if at != nil {
		r.Problem(at, "%s%s", is, howTo)
	}
	return at != nil
}

// otherFileKind is what kind of other file this is, and the place that shows it. at is nil
// where it may be a job file.
func otherFileKind(root *document.Node) (at *document.Node, is string) {
	kind, version, roles := root.Get("kind"), root.Get("apiVersion"), root.Get("taskRoles")
	group, _, _ := strings.Cut(textOf(version), "/")
	controller := group == "frameworkcontroller.microsoft.com" || group == "launcher.microsoft.com"
	jobName, older, tasks := root.Get("jobName"), root.Get("protocol_version"), root.Get("tasks")
	kindOfPart, item := root.Get("type"), cmp.Or(root.Get("protocol"), root.Get("jobConfig"))
	switch {
	case controller || textOf(kind) == "Framework":
		if m := root.Get("metadata"); m != nil && hasKey(m.Get("annotations"), "config") {
			return cmp.Or(kind, version), isFrameworkOfJob
		}
		return cmp.Or(kind, version), isFramework
	case kind != nil && version != nil && roles == nil:
		return kind, isObject
	case jobName != nil && (roles == nil || roles.Kind == document.List) || listHas(roles, "taskNumber"):
		return cmp.Or(jobName, roles), isProtocol1
	case older != nil || listHas(tasks, "role"):
		return cmp.Or(older, tasks), isFirstTemplate
	case roles == nil && slices.Contains([]string{"dockerimage", "data", "script", "output"}, textOf(kindOfPart)):
		return kindOfPart, isPart
	case roles == nil && (item != nil || textOf(kindOfPart) == "template"):
		return cmp.Or(item, kindOfPart), isItem
	}
	return nil, ""
}

// textOf is the text of a scalar, and "" of any other value.
func textOf(n *document.Node) string {
	if n == nil || n.Kind != document.Scalar {
		return ""
	}
	return n.Text
}

// hasKey reports whether a value is a map with this key.
func hasKey(n *document.Node, key string) bool { return n != nil && n.Get(key) != nil }

// listHas reports whether a value is a list with a map that has this key.
func listHas(n *document.Node, key string) bool {
	has := func(item *document.Node) bool { return hasKey(item, key) }
	return n != nil && n.Kind == document.List && slices.ContainsFunc(n.Items, has)
}

// placePattern matches a place that a template engine fills in, such as Helm's, Jinja's or
// Mustache's.
var placePattern = regexp.MustCompile(`\{\{-?\s*[#/^$.\w][^{}\n]*\}\}|\{%-?\s*\w+[^{}\n]*%\}`)

// templateProblem adds a first problem where a text has such places: it is a template that was not
// filled in, and so is not YAML.
func templateProblem(file string, src []byte, problems document.Problems) document.Problems {
	at := placePattern.FindIndex(src)
	if at == nil {
		return problems
	}
	before := string(src[:at[0]])
	line := before[strings.LastIndex(before, "\n")+1:]
	first := document.Problem{File: file,
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(line) + 1,
		Message: document.Quote(string(src[at[0]:at[1]])) + isTemplate}
	return append(document.Problems{first}, problems...)
}
