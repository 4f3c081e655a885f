package jobspec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Env is the context in which a job file is read.
type Env struct {
	User model.Subject
	// Config is the cluster: its VCs, chains, SKUs, pinned cells and nodes are what
	// a job may name. Nil is an empty cluster, on which every job is refused.
	Config *model.Config
	// DefaultVC is the VC of a job that names none. "" means the only one of VCs, else
	// "default".
	DefaultVC cell.VCName
	// VCs are the VCs to which the user may submit jobs, in order; nil is unknown.
	VCs []cell.VCName
	// Name and VC, when set, replace those of the file, as a submission may ask.
	Name   string
	VC     cell.VCName
	Upload string
	Images ImageUse
	// Uploaded reports whether the user has an upload with that digest; nil is no uploads.
	Uploaded func(digest string) bool
}

// ImageUse says how an image that a role names is treated.
type ImageUse uint8

// Where tasks run as plain processes, images are ignored with a warning, or refused. Where
// they may run in containers, images are used, or every role must have one. The last value
// also requires commands: it is for where it is unknown what an image runs by itself.
const (
	ImagesIgnored ImageUse = iota
	ImagesRefused
	ImagesUsed
	ImagesNeeded
	ImagesWrapped
)

// Result is a job file that was accepted.
type Result struct {
	Job *model.Job
	// Secrets are the values of the file's secrets by path ("a", "a.b", "a.0"); nil if it has
	// none. Job does not hold them: its Source has "******" in their places.
	Secrets map[string]string
	// Warnings are about what was accepted but has no effect, or is probably not meant.
	Warnings []string
	warned   document.Problems // the same with their positions
}

// Parse reads one job file of OpenPAI's protocol v2. file is its name in messages. It returns
// either a result or the problems: all that is wrong with the file, in order of position.
func Parse(file string, src []byte, env Env) (*Result, document.Problems) {
	root, problems := document.Parse(file, src, document.Limits{Bytes: maxSource})
	if len(problems) > 0 {
		return nil, templateProblem(file, src, problems)
	}
	p := &parser{
		r: document.NewReader(), env: env, root: root, budget: maxRendered,
		catalogue: newCatalogue(env.Config), secrets: map[string]string{}, logins: logins{}, found: map[string]found{},
		job: &model.Job{User: env.User},
	}
	p.read()
	if problems := p.r.Problems(); problems != nil {
		return nil, problems
	}
	p.job.Source = maskSecrets(file, src, root, p.passwords)
	result := &Result{Job: p.job}
	maps.Copy(p.secrets, p.logins)
	if len(p.secrets) > 0 {
		result.Secrets = p.secrets
	}
	result.warned = slices.Clone(p.r.Warnings())
	for _, w := range result.warned {
		result.Warnings = append(result.Warnings, w.String())
	}
	return result, nil
}

// parser is the state of reading a file. Problems go to r and reading goes on, so that all
// are found. Values may be wrong after a problem, but then they do not leave Parse.
type parser struct {
	r         *document.Reader
	env       Env
	catalogue *catalogue
	root      *document.Node
	budget    int // bytes that rendered commands may still take
	hints     int // how many were given so far
	failed    int // how many references could not be filled in
	found     map[string]found

	parameters    *document.Node
	secrets       map[string]string
	secretNames   []string         // sorted, once they are needed
	logins        logins           // kept with the secrets, see LoginOf
	passwords     []*document.Node // those outside of the secrets
	prerequisites []prerequisite
	roleNames     []string
	roles         []role
	deployment    *document.Node // the taskRoles of the chosen deployment
	extras        extras
	job           *model.Job
}

var (
	namePattern  = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9_.-]*$`)
	identPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// read reads the file, and first what other parts refer to.
func (p *parser) read() {
	top := p.r.Map(p.root, "a job")
	if p.root.Kind != document.Map {
		if p.root.Kind == document.Null {
			p.r.Problem(p.root, "the file is empty; a job begins with protocolVersion: 2")
		}
		return
	}
	if refuseOtherFile(p.r, p.root) {
		return
	}
	p.readHeader(top)
	p.parameters = p.openMap(top, "parameters")
	p.readSecrets(top.Node("secrets"))
	p.readPrerequisites(top)
	roles := p.readRoleNames(top)
	p.readDeployments(top)
	p.readExtras(top)
	top.Rest()

	opportunistic := p.job.Priority == cell.Opportunistic
	for _, f := range roles {
		p.roles = append(p.roles, p.readRole(f))
	}
	for i := range p.roles {
		p.sizeRole(&p.roles[i], opportunistic)
	}
	p.setElastic()
	for i := range p.roles {
		p.job.Roles = append(p.job.Roles, p.roles[i].Role)
	}
	p.checkTotals()
	p.makeGangs()
	p.checkHints()
}

func (p *parser) readHeader(top *document.MapReader) {
	top.Require("protocolVersion", "name", "type", "taskRoles")
	p.r.String(top.Node("protocolVersion"), document.Text{OneOf: []string{"2"}})
	p.r.String(top.Node("type"), document.Text{OneOf: []string{"job"}})
	name := p.name(top.Node("name"))
	if p.env.Name != "" {
		name = p.env.Name
		if !namePattern.MatchString(name) || len(name) > maxName {
			p.problemOutside("name", "%s is not a name: use at most %d letters, digits, -, _ and ., not . first", document.Quote(name), maxName)
		} else if why := notCallable(name); why != "" {
			p.problemOutside("name", "%s", why)
		}
	} else if why := notCallable(name); why != "" {
		p.r.Problem(top.Node("name"), "%s", why)
	}
	p.job.Name = model.JobName(name)
	for _, key := range []string{"version", "contributor", "description"} {
		top.String(key, document.Text{})
	}
	retry := document.Range{Min: -2, Max: maxRetries}
	p.job.Retries = int32(top.Int("jobRetryCount", retry))

	defaults := top.Map("defaults", "defaults")
	p.readVC(defaults.Node("virtualCluster"))
	defaults.Node("deployment") // read with the deployments
	defaults.Rest()
}

// notCallable says why a job of that name could not be named in a command; "" is that it
// could.
func notCallable(name string) string {
	switch {
	case strings.HasPrefix(name, "-"):
		return fmt.Sprintf("the job's name %s begins with -, as flags of commands do; begin it with a letter", document.Quote(name))
	case name != "" && strings.Trim(name, "0123456789") == "":
		return fmt.Sprintf("the job's name %s is a number, and numbers name jobs by their id; add a letter", document.Quote(name))
	}
	return ""
}

func (p *parser) readVC(at *document.Node) {
	vc := p.defaultVC()
	p.job.VC = cell.VCName(p.r.String(at, document.Text{Default: string(vc)}))
	if p.env.VC != "" {
		p.job.VC = p.env.VC
	}
	unnamed := at == nil && p.env.VC == ""
	choose := unnamed && p.env.DefaultVC == "" && len(p.env.VCs) > 1 && !slices.Contains(p.env.VCs, p.job.VC)
	if _, ok := p.catalogue.vc(p.job.VC); ok && !choose {
		return
	}
	message, names := "there is no virtual cluster %s; the cluster has %s", list(p.catalogue.vcNames())
	if p.env.VCs != nil {
		message, names = "there is no virtual cluster %s; you may use %s", list(p.env.VCs)
	}
	quoted := document.Quote(string(p.job.VC))
	switch {
	case choose:
		p.problemOutside("vc", "no virtual cluster is named, and you may use several: name one with --vc: %s", names)
	case unnamed && p.env.DefaultVC != "":
		p.problemOutside("vc", message+"; comb context use NAME --vc VC sets another", quoted, names)
	case unnamed && p.env.VCs != nil:
		p.problemOutside("vc", "you may use no virtual cluster: an administrator of the cluster puts users into groups, "+
			"with comb group update GROUP --add USER")
	case p.env.VC != "":
		p.problemOutside("vc", message, quoted, names)
	case at == nil:
		p.r.Problem(p.root, message, quoted, names)
	default:
		p.r.Problem(at, message, quoted, names)
	}
}

// defaultVC is the VC of a job that names none.
func (p *parser) defaultVC() cell.VCName {
	switch {
	case p.env.DefaultVC != "":
		return p.env.DefaultVC
	case len(p.env.VCs) == 1:
		return p.env.VCs[0]
	}
	return "default"
}

// problemOutside reports a problem with something that is not in the file.
func (p *parser) problemOutside(key, format string, args ...any) {
	p.r.Add(document.Problems{{Key: key, Message: fmt.Sprintf(format, args...)}})
}

// name reads a name of OpenPAI's alphabet; "" when there is none.
func (p *parser) name(n *document.Node) string {
	s := p.r.String(n, document.Text{Max: maxName})
	if s != "" && !namePattern.MatchString(s) {
		p.r.Problem(n, "%s is not a name: use letters, digits, -, _ and . only, not . first", document.Quote(s))
		return ""
	}
	if s == "" && n != nil && n.Kind == document.Scalar && n.Text == "" {
		p.r.Problem(n, "a name may not be empty")
	}
	return s
}

// openMap reads a key whose map may hold anything.
func (p *parser) openMap(top *document.MapReader, key string) *document.Node {
	m := top.Map(key, key)
	m.Fields()
	return m.Self()
}

// warnUnknown warns of unknown keys in a map that is open to any key.
func (p *parser) warnUnknown(m *document.MapReader, known ...string) {
	for _, f := range m.Fields() {
		if contains(known, f.Key) {
			continue
		}
		hint := p.hint(f.Key, known)
		if !strings.Contains(hint, "did you mean") {
			hint = "" // a list of the known keys is no help in an open map
		}
		p.r.Warn(f.Value, "nothing here reads this key; it is kept in the job file%s", hint)
	}
}

// hint is document.DidYouMean, limited in number and in candidates. Comparing names is
// expensive, and a hostile file could cause much of it.
func (p *parser) hint(word string, candidates []string) string {
	if p.hints++; p.hints > document.MaxProblems || len(candidates) > 200 {
		return ""
	}
	return document.DidYouMean(word, candidates)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
