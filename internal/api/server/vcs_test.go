package server_test

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
)

// A submission that names no virtual cluster is of the only one to which its user may submit. With
// several the refusal names those of that user alone. A default of the client counts before both.
func TestTheOnlyVC(t *testing.T) {
	w := teams(t)
	group := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := w.people.CreateGroup(ctx, "test", access.Group{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	group("leads", "red", "guests", "blue")
	for name, groups := range map[string][]string{"one": {"red"}, "both": {"red", "blue"}, "guest": {"guests"}} {
		u := people.NewUser{User: access.User{Name: name, Groups: groups}, Password: canary + "-" + name}
		if err := w.people.CreateUsers(ctx, "test", []people.NewUser{u}); err != nil {
			t.Fatal(err)
		}
	}
	const file = "protocolVersion: 2\nname: filed\ntype: job\ntaskRoles: {main: {resourcePerInstance: {gpu: 1}, commands: ['true']}}\n"
	for _, c := range []struct{ user, byDefault, vc, want string }{
		{"one", "", "a", ""},
		{"one", "b", "", "one cannot submit jobs in VC b"},
		{"both", "", "", "no virtual cluster is named, and you may use several: name one with --vc: a, b"},
		{"both", "b", "b", ""},
		{"guest", "", "", "you may use no virtual cluster: an administrator of the cluster puts users into groups, " +
			"with comb group update GROUP --add USER"},
	} {
		client, err := rest.NewClient(w.url, w.signIn(c.user))
		if err != nil {
			t.Fatal(err)
		}
		client.DefaultVC = c.byDefault
		for _, r := range []rest.SubmitRequest{
			{Quick: &rest.QuickJob{Name: "quick", GPUs: 1, Command: []string{"true"}}}, {Source: file}} {
			v, err := client.ValidateJob(ctx, r)
			switch {
			case c.want == "" && (err != nil || string(v.Job.VC) != c.vc):
				t.Errorf("%+v: %v, %v", c, v.Job, err)
			case c.want != "" && (err == nil || !contains(err, c.want)):
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

// contains reports whether an error or one of its details has a text.
func contains(err error, text string) bool {
	return strings.Contains(err.Error(), text)
}
