package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/executor"
)

// What concerns everybody is on each answer, and what only administrators can mend is told to them
// alone.
func TestConditions(t *testing.T) {
	now := []executor.Condition{{Text: "the cable is out"}, {Text: "the image “x”\nfails", Admin: true}}
	w := newWorld(t, 1)
	w.logs.conditions = now
	user := w.user("bob")
	look := func(token, path string) (told, info []string) {
		t.Helper()
		_, header, text := w.request(http.MethodGet, path, "", map[string]string{"Authorization": "Bearer " + token})
		var i rest.Info
		if path == "/api/v1/info" {
			if err := json.Unmarshal([]byte(text), &i); err != nil {
				t.Fatal(err)
			}
		}
		return header.Values(rest.HeaderCondition), i.Conditions
	}
	for _, path := range []string{"/api/v1/info", "/api/v1/nodes", "/api/v1/jobs", "/api/v1/jobs/none"} {
		told, info := look(user, path)
		if !slices.Equal(told, []string{"the cable is out"}) || info != nil && !slices.Equal(info, told) {
			t.Errorf("a user at %s: %q, %q", path, told, info)
		}
	}
	told, info := look(w.token, "/api/v1/info")
	clean, whole := []string{"the cable is out", "the image ?x??fails"}, []string{now[0].Text, now[1].Text}
	if !slices.Equal(told, clean) || !slices.Equal(info, whole) {
		t.Errorf("an administrator: %q, %q", told, info)
	}
	for _, token := range []string{"", "wrong"} {
		if told, _ := look(token, "/api/v1/jobs"); told != nil {
			t.Errorf("without a token: %q", told)
		}
	}
	if told, _ := look("", "/api/v1/health"); told != nil {
		t.Errorf("the health: %q", told)
	}
	if told, _ := look("", "/api/v1/sign-in"); told != nil {
		t.Errorf("before the sign-in: %q", told)
	}
}
