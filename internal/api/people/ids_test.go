package people

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/access"
)

// The numbers of a user's tasks are its own, else those of its first group by name; the audit log
// has the old and the new ones.
func TestNumbersOfTasks(t *testing.T) {
	w := newWorld(t)
	w.Platform = []int64{64789}
	for _, g := range []access.Group{{Name: "nlp", IDs: access.IDs{UID: 5001, GID: 5000}}, {Name: "audio", IDs: access.IDs{GID: 4000}}, {Name: "none"}} {
		w.must(w.CreateGroup(ctx, "admin", g))
	}
	w.must(w.CreateUsers(ctx, "admin", []NewUser{{User: access.User{Name: "alice", Groups: []string{"nlp", "audio"}}},
		{User: access.User{Name: "bob", Groups: []string{"audio"}}}, {User: access.User{Name: "carol", IDs: access.IDs{UID: 4003}}}}))
	number := func(n int64) *int64 { return &n }
	want := func(user string, uid, gid int64) {
		t.Helper()
		if got, err := w.TaskIDs(user); err != nil || got != (access.IDs{UID: uid, GID: gid}) {
			t.Errorf("%s has %+v, %v, want %d, %d", user, got, err, uid, gid)
		}
	}
	want("alice", 5001, 4000) // of nlp, and of audio, which comes first
	want("bob", 0, 0)         // a gid alone changes nothing
	want("carol", 4003, 4003)
	_, err := w.UpdateUser(ctx, "admin", "alice", UserChange{UID: number(4001), GID: number(4009)})
	w.must(err)
	want("alice", 4001, 4009)
	_, err = w.UpdateUser(ctx, "admin", "alice", UserChange{UID: number(4002), GID: number(access.NoID)})
	w.must(err)
	want("alice", 4002, 4000)
	_, err = w.UpdateGroup(ctx, "admin", "audio", GroupChange{GID: number(4001)})
	w.must(err)
	want("alice", 4002, 4001)
	log, err := w.Log(ctx, 0, 10)
	w.must(err)
	var lines []string
	for _, l := range log {
		lines = append(lines, l.Verb+" "+l.Object+": "+l.Detail)
	}
	if diff := cmp.Diff([]string{"change group group audio: gid 4001, was 4000", "change user user alice: uid 4002, was 4001, gid none, was 4009",
		"change user user alice: uid 4001, was none, gid 4009, was none", "create user user carol: groups none, uid 4003", "create user user bob: groups audio",
		"create user user alice: groups audio,nlp", "create group group none: ", "create group group audio: gid 4000", "create group group nlp: uid 5001, gid 5000"}, lines); diff != "" {
		t.Error(diff)
	}
	for bad, text := range map[int64]string{0: "the uid 0 is root's", 1: "the uid 1 is not possible", 999: "not possible: want 1000 to", -7: "not possible",
		65534: "not possible", 1 << 32: "not possible", 64789: "with which Comb itself runs"} {
		if _, err := w.UpdateUser(ctx, "admin", "alice", UserChange{UID: &bad}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("uid %d: %v", bad, err)
		}
		if _, err := w.UpdateGroup(ctx, "admin", "nlp", GroupChange{GID: &bad}); err == nil || !strings.Contains(err.Error(), strings.Replace(text, "uid", "gid", 1)) {
			t.Errorf("gid %d: %v", bad, err)
		}
		if bad == 0 {
			continue // says nothing
		}
		if err := w.CreateUsers(ctx, "admin", []NewUser{{User: access.User{Name: "eve", IDs: access.IDs{UID: bad}}}}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("a user with %d: %v", bad, err)
		}
		if err := w.CreateGroup(ctx, "admin", access.Group{Name: "bad", IDs: access.IDs{GID: bad}}); err == nil {
			t.Errorf("a group with %d is made", bad)
		}
	}
	want("alice", 4002, 4001)
	w.Platform = []int64{4002} // the server runs as that user since
	const why = "uid 4002 and gid 4001, and Comb itself runs with one of them now"
	if got, err := w.TaskIDs("alice"); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("with numbers that are the platform's it has %+v, %v", got, err)
	}
	w.must(w.DeleteUser(ctx, "admin", "carol"))
	if got, err := w.TaskIDs("carol"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a user that is not there has %+v, %v", got, err)
	}
}
