package access

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
)

// A team with a part inside of it, and another team.
func teams() *Rights {
	return NewRights(
		[]Grant{{VC: "vision", Managers: []string{"leads"}, Members: []string{"vision"}, Viewers: []string{"guests"}},
			{VC: "vision-lab", Members: []string{"guests"}},
			{VC: "nlp", Members: []string{"nlp"}}},
		[]cell.VCSpec{{Name: "nlp"}, {Name: "vision"}, {Name: "vision-lab", Parent: "vision"}})
}

func user(name string, groups ...string) *Principal {
	return &Principal{User: name, Groups: groups, IsUser: true}
}

func TestRoles(t *testing.T) {
	table := teams()
	for _, c := range []struct {
		who    *Principal
		vc     cell.VCName
		want   Role
		inside bool
	}{
		{who: user("lead", "leads"), vc: "vision", want: Manager},
		{who: user("lead", "leads"), vc: "vision-lab", want: Manager}, // inherited
		{who: user("lead", "leads"), vc: "nlp", want: Stranger},
		{who: user("alice", "vision"), vc: "vision-lab", want: Member},
		{who: user("guest", "guests"), vc: "vision", want: Viewer},
		{who: user("guest", "guests"), vc: "vision-lab", want: Member}, // its own is more than what it inherits
		{who: user("carol"), vc: "vision", want: Stranger},
		{who: user("alice", "vision"), vc: "gone", want: Stranger},
		{who: &Principal{User: "admin", Admin: true}, vc: "nlp", want: Administrator},
		{who: user("alice", "vision"), vc: "", want: Member},
	} {
		if got := table.RoleIn(c.who, c.vc); got != c.want {
			t.Errorf("%s in %q is a %v, want a %v", c.who.User, c.vc, got, c.want)
		}
	}
}

// Each row of the table, for each role, for the job's own user and for others.
func TestRights(t *testing.T) {
	table := teams()
	people := map[string]*Principal{
		"stranger": user("s", "nlp"), "viewer": user("v", "guests"), "member": user("m", "vision"), "manager": user("l", "leads"),
		"admin": {User: "admin", Admin: true},
	}
	want := map[Verb]string{ // who may, of another's job; then who may of its own
		SeeJob: "viewer member manager admin | stranger viewer member manager", ReadJob: "member manager admin | stranger viewer member manager",
		SubmitJob: "member manager admin | member manager", ChangeJob: "manager admin | stranger viewer member manager", EnterJob: "manager admin | member manager",
		SeeCluster: "stranger viewer member manager admin", SeeFile: "admin", ChangeCluster: "admin", SeeImages: "stranger viewer member manager admin",
		FetchImages: "stranger viewer member manager admin", BuildImages: "admin", RemoveImages: "admin", SeePeople: "admin", ChangePeople: "admin",
		OwnAccount: "stranger viewer member manager admin", ReadAudit: "admin", SeeMetrics: "admin",
	}
	if len(want) != len(rights) {
		t.Errorf("%d verbs are tried, there are %d", len(want), len(rights))
	}
	for verb, text := range want {
		others, own, job := strings.Cut(text, " | ")
		if job != slices.Contains(ofJobs, verb) {
			t.Errorf("%q is about jobs: %v", verb, !job)
		}
		for name, p := range people {
			o := Object{}
			if job {
				o = Object{VC: "vision", Owner: "somebody"}
			}
			a := table.Allow(p, verb, o)
			if may := strings.Contains(" "+others+" ", " "+name+" "); a.OK != may || !a.OK && a.Why == "" {
				t.Errorf("%s, %s: %+v, want %v", name, verb, a, may)
			}
			if job && name == "stranger" && a.Visible {
				t.Errorf("a stranger learns of another's job by %s", verb)
			}
			if !job || name == "admin" {
				continue
			}
			o.Owner = p.User
			if may := strings.Contains(" "+own+" ", " "+name+" "); table.Allow(p, verb, o).OK != may {
				t.Errorf("%s, %s of its own: %+v, want %v", name, verb, table.Allow(p, verb, o), may)
			}
		}
	}
	if a := table.Allow(people["admin"], "fly", Object{}); a.OK {
		t.Error("an unknown verb is allowed")
	}
	// The holder of the data directory's token bears a name that a user may have, too.
	if a := table.Allow(&Principal{User: "s"}, ReadJob, Object{VC: "vision", Owner: "s"}); a.OK {
		t.Error("a principal that is no user owns a job")
	}
}

func TestScopes(t *testing.T) {
	table := teams()
	p := user("alice", "nlp", "vision")
	p.Scope.VCs = []string{"vision"}
	for vc, want := range map[cell.VCName]bool{"vision": true, "vision-lab": true, "nlp": false} {
		if a := table.Allow(p, SubmitJob, Object{VC: vc}); a.OK != want {
			t.Errorf("%s: %+v", vc, a)
		}
	}
	if a := table.Allow(p, SeeJob, Object{VC: "nlp", Owner: "alice"}); a.OK || a.Visible {
		t.Errorf("a job outside of the scope: %+v", a)
	}
	p.Scope = Scope{ReadOnly: true}
	if a := table.Allow(p, ReadJob, Object{VC: "nlp"}); !a.OK {
		t.Errorf("reading: %+v", a)
	}
	if a := table.Allow(p, SubmitJob, Object{VC: "nlp"}); a.OK || !a.Visible {
		t.Errorf("writing: %+v", a)
	}
	root := &Principal{User: "root", Admin: true, Scope: Scope{VCs: []string{"nlp"}}}
	if a := table.Allow(root, ChangeCluster, Object{}); a.OK {
		t.Errorf("an administrator's token for one VC changes the cluster: %+v", a)
	}
}

func BenchmarkAllow(b *testing.B) {
	table, p := teams(), user("alice", "nlp", "vision")
	for b.Loop() {
		table.Allow(p, ReadJob, Object{VC: "vision-lab", Owner: "bob"})
	}
}

// The page shows the table as it is.
func TestPageShowsTheTable(t *testing.T) {
	text, err := os.ReadFile("../../../docs/rights.md")
	if err != nil {
		t.Fatal(err)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	for _, r := range rights {
		own := "| "
		switch {
		case r.owner == Stranger:
			own = "| yes "
		case r.owner == Member:
			own = "| as a member "
		}
		row := "| " + string(r.verb)
		for _, role := range []Role{Viewer, Member, Manager, Administrator} {
			row += " | " + yes[role >= r.least]
		}
		row += " " + own + "|\n"
		if !strings.Contains(string(text), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}

func TestVerbs(t *testing.T) {
	table := teams()
	scoped := user("m", "vision")
	scoped.Scope.ReadOnly = true
	for _, c := range []struct {
		who  *Principal
		o    Object
		want []Verb
	}{
		{user("m", "vision"), Object{VC: "vision"}, []Verb{SeeJob, ReadJob, SubmitJob}},
		{user("m", "vision"), Object{VC: "vision", Owner: "m"}, []Verb{SeeJob, ReadJob, SubmitJob, ChangeJob, EnterJob}},
		{user("m", "vision"), Object{VC: "nlp"}, nil},
		{user("m", "vision"), Object{VC: "nlp", Owner: "m"}, []Verb{SeeJob, ReadJob, ChangeJob}},
		{user("m", "vision"), Object{}, []Verb{SeeCluster, SeeImages, FetchImages, OwnAccount}},
		{scoped, Object{VC: "vision", Owner: "m"}, []Verb{SeeJob, ReadJob}},
		{scoped, Object{}, []Verb{SeeCluster, SeeImages, OwnAccount}},
	} {
		if got := table.Verbs(c.who, c.o); !slices.Equal(got, c.want) {
			t.Errorf("%s, %+v: %q, want %q", c.who.User, c.o, got, c.want)
		}
	}
}
