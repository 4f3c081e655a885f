// Package access decides what a principal may do: users, groups and tokens as
// values, roles in virtual clusters that the cluster file gives to groups, and one
// table of rights. Nothing else decides on a right. It must not know people beyond
// the principal that asks, nor jobs beyond their owner and virtual cluster, and
// reads no clock, no store and no network.
package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// Role is what a user is in a virtual cluster, or in the whole cluster. A higher role may do all
// that a lower may.
type Role uint8

// The roles.
const (
	Stranger      Role = iota // no role there
	Viewer                    // sees the jobs of a VC
	Member                    // submits to it, and reads what its jobs print
	Manager                   // an administrator of a VC: changes all jobs there
	Administrator             // of the whole cluster
)

var roleNames = [...]string{"stranger", "viewer", "member", "administrator of the VC", "administrator of the cluster"}

// String is the role in words.
func (r Role) String() string { return roleNames[r] }

// Verb is one thing to do.
type Verb string

// The verbs. Those of jobs are asked about a VC and an owner, the others about the cluster.
const (
	SeeJob        Verb = "see the job"
	ReadJob       Verb = "read the job's file, logs and events"
	SubmitJob     Verb = "submit jobs"
	ChangeJob     Verb = "stop or change the job"
	EnterJob      Verb = "run commands beside the job's tasks"
	SeeCluster    Verb = "see the cluster"
	SeeFile       Verb = "see the cluster file"
	ChangeCluster Verb = "change the cluster"
	SeeImages     Verb = "see images"
	FetchImages   Verb = "fetch images"
	BuildImages   Verb = "build images"
	RemoveImages  Verb = "remove images"
	SeePeople     Verb = "see users and groups"
	ChangePeople  Verb = "change users and groups"
	OwnAccount    Verb = "use the own account"
	ReadAudit     Verb = "read the audit log"
	SeeMetrics    Verb = "read the metrics"
)

// right is a row of the table.
type right struct {
	verb   Verb
	least  Role // lowest role that may: in the object's VC, or in any VC if the object has none
	owner  Role // lowest role with which the job's own user may; noOwner: being its user gives nothing
	writes bool // a token for reading only may not
}

// ofJobs are the verbs that are asked about jobs of a VC.
var ofJobs = []Verb{SeeJob, ReadJob, SubmitJob, ChangeJob, EnterJob}

// noOwner is above all roles.
const noOwner = Administrator + 1

// rights is the table. What is not in it is refused. A user that has left a VC still sees and stops
// its own jobs.
var rights = []right{
	{SeeJob, Viewer, Stranger, false},
	{ReadJob, Member, Stranger, false},
	{SubmitJob, Member, noOwner, true},
	{ChangeJob, Manager, Stranger, true},
	{EnterJob, Manager, Member, true},
	{SeeCluster, Stranger, noOwner, false},
	{SeeFile, Administrator, noOwner, false},
	{ChangeCluster, Administrator, noOwner, true},
	{SeeImages, Viewer, noOwner, false},
	{FetchImages, Member, noOwner, true},
	// A Dockerfile runs anything, in no VC's share.
	{BuildImages, Administrator, noOwner, true},
	{RemoveImages, Administrator, noOwner, true},
	{SeePeople, Administrator, noOwner, false},
	{ChangePeople, Administrator, noOwner, true},
	{OwnAccount, Stranger, noOwner, false},
	{ReadAudit, Administrator, noOwner, false},
	{SeeMetrics, Administrator, noOwner, false}, // they name jobs and users of all VCs
}

// Grant gives groups roles in one virtual cluster, and in those inside of it.
type Grant struct {
	VC       cell.VCName `json:"vc"`
	Managers []string    `json:"administrators,omitempty"`
	Members  []string    `json:"members,omitempty"`
	Viewers  []string    `json:"viewers,omitempty"`
}

// String is a grant in words: "administrators leads; members vision, nlp".
func (g *Grant) String() string {
	var parts []string
	for _, r := range []struct {
		role   string
		groups []string
	}{{"administrators", g.Managers}, {"members", g.Members}, {"viewers", g.Viewers}} {
		if len(r.groups) > 0 {
			parts = append(parts, r.role+" "+strings.Join(r.groups, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// Groups are those that have a role by a grant.
func (g *Grant) Groups() []string { return slices.Concat(g.Managers, g.Members, g.Viewers) }

// VCsGranted are the virtual clusters in which grants give a group a role.
func VCsGranted(grants []Grant, group string) (vcs []string) {
	for i := range grants {
		if slices.Contains(grants[i].Groups(), group) {
			vcs = append(vcs, string(grants[i].VC))
		}
	}
	return vcs
}

// GrantChanges says in words how two lists of grants differ, a line for each VC, in their order.
func GrantChanges(was, is []Grant) (lines []string) {
	find := func(list []Grant, vc cell.VCName) string {
		if i := slices.IndexFunc(list, func(g Grant) bool { return g.VC == vc }); i >= 0 {
			return list[i].String()
		}
		return "no access of its own"
	}
	var vcs []cell.VCName
	for _, list := range [][]Grant{was, is} {
		for i := range list {
			vcs = append(vcs, list[i].VC)
		}
	}
	slices.Sort(vcs)
	for _, vc := range slices.Compact(vcs) {
		if a, b := find(was, vc), find(is, vc); a != b {
			lines = append(lines, fmt.Sprintf("access to VC %s: %s -> %s", vc, a, b))
		}
	}
	return lines
}

// Rights answers for one configuration. Its methods may be called from any goroutine.
type Rights struct {
	byVC           map[cell.VCName][]groupRole   // each VC's own and inherited, the higher roles first
	inAnyVC        []groupRole                   // the same, of all VCs together
	around         map[cell.VCName][]cell.VCName // each VC itself, and those that it is inside of
	openToNamesake map[cell.VCName]bool          // VCs without any grant: each is for the group of its name
}

type groupRole struct {
	group string
	role  Role
}

// NewRights makes the table of a configuration's grants. A VC inherits what those around it give.
// A VC without grants, its own or inherited, is for the group of its own name, as in OpenPAI: so
// a user is given access to it without a change of the cluster file.
func NewRights(grants []Grant, vcs []cell.VCSpec) *Rights {
	own := map[cell.VCName][]groupRole{}
	for i := range grants {
		g := &grants[i]
		for _, r := range []struct {
			role   Role
			groups []string
		}{{Manager, g.Managers}, {Member, g.Members}, {Viewer, g.Viewers}} {
			for _, group := range r.groups {
				own[g.VC] = append(own[g.VC], groupRole{group, r.role})
			}
		}
	}
	parent := map[cell.VCName]cell.VCName{}
	for i := range vcs {
		parent[vcs[i].Name] = vcs[i].Parent
	}
	t := &Rights{byVC: map[cell.VCName][]groupRole{}, around: map[cell.VCName][]cell.VCName{},
		openToNamesake: map[cell.VCName]bool{}}
	for i := range vcs {
		at := vcs[i].Name
		for range len(vcs) { // a chain of parents is no longer than that
			t.around[vcs[i].Name] = append(t.around[vcs[i].Name], at)
			if at = parent[at]; at == "" {
				break
			}
		}
		gives := func(vc cell.VCName) bool { return len(own[vc]) > 0 }
		t.openToNamesake[vcs[i].Name] = !slices.ContainsFunc(t.around[vcs[i].Name], gives) && vcs[i].Name != Everyone
	}
	for i := range vcs {
		var all []groupRole
		for _, vc := range t.around[vcs[i].Name] {
			all = append(all, own[vc]...)
			if t.openToNamesake[vc] {
				all = append(all, groupRole{string(vc), Member})
			}
		}
		t.byVC[vcs[i].Name] = highest(all)
		t.inAnyVC = append(t.inAnyVC, all...)
	}
	t.inAnyVC = highest(t.inAnyVC)
	return t
}

// highest keeps each group's highest role, the higher roles first.
func highest(all []groupRole) []groupRole {
	slices.SortFunc(all, func(a, b groupRole) int {
		if a.role != b.role {
			return int(b.role) - int(a.role)
		}
		return strings.Compare(a.group, b.group)
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(g groupRole) bool {
		was := seen[g.group]
		seen[g.group] = true
		return was
	})
}

// Object is what a verb is about. The zero Object is the cluster.
type Object struct {
	VC    cell.VCName
	Owner string // of a job; "" where there is none
}

// Answer says whether a request is allowed. Without Visible the asker must not learn that the
// object exists.
type Answer struct {
	OK      bool
	Visible bool
	Why     string // why not, and which groups may: a sentence
}

// Allow answers whether a principal may do something. A token's scope bounds its user's rights.
func (t *Rights) Allow(p *Principal, verb Verb, o Object) Answer {
	a, why := t.decide(p, verb, o)
	if !a.OK {
		a.Why = why()
	}
	return a
}

// May is Allow for callers that look at many objects: it says no reason.
func (t *Rights) May(p *Principal, verb Verb, o Object) bool {
	a, _ := t.decide(p, verb, o)
	return a.OK
}

func (t *Rights) decide(p *Principal, verb Verb, o Object) (a Answer, why func() string) {
	i := slices.IndexFunc(rights, func(r right) bool { return r.verb == verb })
	if i < 0 || p == nil {
		return Answer{}, func() string { return "there is no right to do that" }
	}
	r := rights[i]
	role := t.RoleIn(p, o.VC)
	mine := o.VC != "" && p.IsUser && o.Owner == p.User
	a.Visible = o.VC == "" || role >= Viewer || mine
	switch {
	case o.VC != "" && !t.inScope(p, o.VC):
		return Answer{}, func() string { return fmt.Sprintf("this token is not for VC %s", o.VC) }
	case o.VC == "" && len(p.Scope.VCs) > 0 && r.least > Member:
		return a, func() string { return "this token is for the VC " + strings.Join(p.Scope.VCs, ", ") + " alone" }
	case r.writes && p.Scope.ReadOnly:
		return a, func() string { return "this token is for reading only" }
	case role >= r.least, mine && role >= r.owner:
		return Answer{OK: true, Visible: true}, nil
	}
	return a, func() string { return t.refusal(p, r, o, role) }
}

// Within returns the VCs in which a principal may do something with jobs of any owner, in order.
func (t *Rights) Within(p *Principal, verb Verb) (vcs []string) {
	for vc := range t.byVC { // sorted below
		if t.May(p, verb, Object{VC: vc}) {
			vcs = append(vcs, string(vc))
		}
	}
	slices.Sort(vcs)
	return vcs
}

// Verbs returns what a principal may do with an object, in the order of the table: with the
// cluster, or with jobs of a VC.
func (t *Rights) Verbs(p *Principal, o Object) (verbs []Verb) {
	for i := range rights {
		if verb := rights[i].verb; slices.Contains(ofJobs, verb) == (o.VC != "") && t.May(p, verb, o) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// RoleIn returns a principal's role in a VC; in any VC where it is "".
func (t *Rights) RoleIn(p *Principal, vc cell.VCName) Role {
	if p.Admin {
		return Administrator
	}
	list := t.inAnyVC
	if vc != "" {
		list = t.byVC[vc]
	}
	for i := range list {
		if p.In(list[i].group) {
			return list[i].role
		}
	}
	return Stranger
}

// GroupRole returns the role that a group has in a VC.
func (t *Rights) GroupRole(group string, vc cell.VCName) Role {
	if i := slices.IndexFunc(t.byVC[vc], func(g groupRole) bool { return g.group == group }); i >= 0 {
		return t.byVC[vc][i].role
	}
	return Stranger
}

// Submits reports whether a principal is of those that submit jobs to a VC, by a token for it. That
// the token is for reading only does not matter: it reads what its user reads.
func (t *Rights) Submits(p *Principal, vc cell.VCName) bool {
	reader := *p
	reader.Scope.ReadOnly = false
	return t.May(&reader, SubmitJob, Object{VC: vc})
}

// SubmitsTo returns the VCs to which a principal submits jobs, in order; none is not nil.
func (t *Rights) SubmitsTo(p *Principal) []cell.VCName {
	vcs := []cell.VCName{}
	for vc := range t.byVC { // sorted below
		if t.Submits(p, vc) {
			vcs = append(vcs, vc)
		}
	}
	slices.Sort(vcs)
	return vcs
}

// HasRole reports whether a principal has a role in a VC or in one inside of it: a token that is
// bounded to it can do something.
func (t *Rights) HasRole(p *Principal, vc cell.VCName) bool {
	for inside, around := range t.around { // in any order: whether there is one
		if slices.Contains(around, vc) && t.RoleIn(p, inside) > Stranger {
			return true
		}
	}
	return false
}

// inScope reports whether a principal's token may be used for a VC.
func (t *Rights) inScope(p *Principal, vc cell.VCName) bool {
	return len(p.Scope.VCs) == 0 || slices.Contains(p.Scope.VCs, string(vc)) ||
		slices.ContainsFunc(t.around[vc], func(a cell.VCName) bool { return slices.Contains(p.Scope.VCs, string(a)) })
}

// refusal says why not, which groups may, and what gives the right.
func (t *Rights) refusal(p *Principal, r right, o Object, role Role) string {
	name := p.User
	if r.least == Administrator {
		return fmt.Sprintf("%s cannot %s: only an administrator of the cluster can", name, r.verb)
	}
	if o.VC == "" {
		return fmt.Sprintf("%s cannot %s: it is a %s of no virtual cluster. The cluster file gives groups their virtual clusters (access), "+
			"and an administrator puts users into groups", name, r.verb, r.least)
	}
	may := "a " + r.least.String() + " of the VC"
	if r.least == Manager {
		may = "an administrator of the VC"
	}
	groups := t.groupsOf(o.VC, r.least)
	if len(groups) > 0 && role >= Viewer {
		may = "a member of " + strings.Join(groups, " or ")
	}
	what := "submit jobs in VC " + string(o.VC)
	if r.owner < noOwner {
		may = "its owner, or " + may + ","
		what = strings.Replace(string(r.verb), "the job", "this job", 1) + " in VC " + string(o.VC)
	}
	why := fmt.Sprintf("%s cannot %s: %s can. ", name, what, may)
	switch {
	case role == Stranger:
		why += name + " has no role there. "
	case len(groups) == 0:
		why += fmt.Sprintf("%s is a %s there. ", name, role)
	}
	return why + t.remedy(name, r, o.VC, role)
}

// remedy says what gives a user a right in a VC. Groups that the cluster file names are told to
// those that have a role there alone.
func (t *Rights) remedy(name string, r right, vc cell.VCName, role Role) string {
	groups, key := t.groupsOf(vc, r.least), "members"
	if r.least == Manager {
		key = "administrators"
	}
	switch {
	case t.openToNamesake[vc] && r.least <= Member:
		return fmt.Sprintf("An administrator of the cluster puts %s into the group %s, which is that of this VC: "+
			"comb group update %[2]s --add %[1]s (comb group create %[2]s makes it)", name, vc)
	case len(groups) == 0:
		return fmt.Sprintf("No group has that right: the cluster file gives it, by access: {%s: [GROUP]} of VC %s",
			key, vc)
	case role == Stranger:
		return fmt.Sprintf("An administrator of the cluster puts %s into one of the groups that the cluster file "+
			"names for VC %s (access): comb group update GROUP --add %[1]s", name, vc)
	}
	return fmt.Sprintf("An administrator of the cluster puts %s there: comb group update %s --add %[1]s",
		name, groups[0])
}

// groupsOf lists the groups that have at least a role in a VC.
func (t *Rights) groupsOf(vc cell.VCName, least Role) (groups []string) {
	for _, g := range t.byVC[vc] {
		if g.role >= least {
			groups = append(groups, g.group)
		}
	}
	slices.Sort(groups)
	return groups
}
