package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// TestTags: a job bears tags while it lives and when it has ended, a list finds it by them, and
// they have bounds.
func TestTags(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	made, err := w.client.Submit(ctx, rest.SubmitRequest{Quick: &rest.QuickJob{Name: "train", GPUs: 1, CPUs: "1", MemoryMB: 100, Command: []string{"true"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	w.until("it runs", w.running(made.ID))
	found := func(tag, want string) {
		t.Helper()
		out, err := w.client.Jobs(ctx, rest.JobQuery{Tag: tag})
		got := ""
		for i := range out.Jobs {
			got += out.Jobs[i].Ref + " " + strings.Join(out.Jobs[i].Tags, ",")
		}
		if err != nil || got != want {
			t.Errorf("tag %s finds %q, %v; want %q", tag, got, err, want)
		}
	}
	tag := func(name string, on bool, want ...string) {
		t.Helper()
		if out, err := w.client.Tag(ctx, "train", name, on); err != nil || !slices.Equal(out.Tags, want) {
			t.Errorf("tag %s: %q, %v; want %q", name, out.Tags, err, want)
		}
	}
	tag("lr=0.1", true, "lr=0.1")
	tag("a", true, "a", "lr=0.1")
	tag("a", true, "a", "lr=0.1") // once more is no more
	found("a", "train a,lr=0.1")
	found("b", "")
	w.exit(made.ID, 1, 0)
	w.until("it has ended", func() bool {
		j, err := w.client.Job(ctx, "train")
		return err == nil && j.Phase.Ended() && slices.Equal(j.Tags, []string{"a", "lr=0.1"})
	})
	found("a", "train a,lr=0.1")
	tag("a", false, "lr=0.1")
	tag("none", false, "lr=0.1")
	found("a", "")
	for i := range 31 {
		if _, err := w.client.Tag(ctx, "train", fmt.Sprint("t", i), true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.client.Tag(ctx, "train", "more", true); rest.CodeOf(err) != rest.CodeConflict || !strings.Contains(err.Error(), "32 tags") {
		t.Errorf("one more than it may have: %v", err)
	}
	for _, bad := range []string{"a b", "-x", "ä", strings.Repeat("x", 65), "a/b", "<b>"} {
		if _, err := w.client.Tag(ctx, "train", bad, true); rest.CodeOf(err) != rest.CodeInvalid {
			t.Errorf("%q is a tag: %v", bad, err)
		}
	}
	if _, err := w.of("eve").Tag(ctx, "train", "x", true); rest.CodeOf(err) != rest.CodeNotFound {
		t.Errorf("eve tags a job that it does not have: %v", err)
	}
	problems := 0
	if n, err := w.store.Check(ctx, func(p string) { problems++; t.Error(p) }); err != nil || n.Tags != 32 || problems > 0 {
		t.Errorf("the check counts %d tags, %v", n.Tags, err)
	}
}
