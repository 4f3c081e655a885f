package server

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const now = model.Time(1_772_323_200_000_000) // 2026-03-01T00:00:00Z

func TestUntil(t *testing.T) {
	for text, want := range map[string]string{
		"7d":                        "2026-03-08T00:00:00Z",
		"1h":                        "2026-03-01T01:00:00Z",
		"366d":                      "2027-03-02T00:00:00Z",
		"2026-03-06T18:00:00Z":      "2026-03-06T18:00:00Z",
		"2026-03-06T18:00:00+02:00": "2026-03-06T16:00:00Z",
	} {
		if at, err := parseExpiry(text, now); err != nil || instant(at) != want {
			t.Errorf("%s: %s, %v; want %s", text, instant(at), err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "0s", "-1h", "367d", "2026-03-01T00:00:00Z", "2025-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "2026-03-06", "99999999999999d"} {
		if at, err := parseExpiry(text, now); err == nil || !strings.Contains(err.Error(), "such as 2026-03-08T00:00:00Z, or a duration such as 7d") {
			t.Errorf("%q: %s, %v; want an error with an example", text, instant(at), err)
		}
	}
}

func TestEnd(t *testing.T) {
	if got := versionEnd(&engine.ConfigVersion{Version: 3}); got != (engine.ConfigEnd{}) {
		t.Errorf("of a version without an end: %+v", got)
	}
	if got := versionEnd(&engine.ConfigVersion{Version: 3, Until: now, Back: 1}); got != (engine.ConfigEnd{Version: 3, Until: now, Back: 1}) {
		t.Errorf("of a version with an end: %+v", got)
	}
}

func TestReason(t *testing.T) {
	none, some := expiringChange{}, expiringChange{Is: engine.ConfigEnd{Version: 3, Back: 1, Until: now}}
	for _, c := range []struct {
		of        *expiringChange
		why, want string
	}{
		{&none, "", ""}, {&none, "rack 7", "rack 7"},
		{&some, "", "until 2026-03-01T00:00:00Z, then version 1 again"},
		{&some, "rack 7", "rack 7 (until 2026-03-01T00:00:00Z, then version 1 again)"},
	} {
		if got := c.of.Reason(c.why); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestSentences(t *testing.T) {
	was, is := engine.ConfigEnd{Version: 2, Back: 1, Until: now}, engine.ConfigEnd{Version: 3, Back: 1, Until: now.Add(model.Hour)}
	const goes = "the server goes back to version 1 at 2026-03-01T01:00:00Z, by itself and without asking, also where that stops running work then"
	const drops = "the end of version 2 is dropped: the server does not go back to version 1 at 2026-03-01T00:00:00Z, and this configuration stays"
	for _, c := range []struct {
		name    string
		change  expiringChange
		changed bool
		want    []string
	}{
		{"no end before or after", expiringChange{}, true, nil},
		{"an end", expiringChange{Is: is}, true, []string{goes}},
		{"an end of no change", expiringChange{Is: is}, false, nil},
		{"one on top of another", expiringChange{Was: was, Is: is}, true, []string{goes, "the end of version 2 at 2026-03-01T00:00:00Z is dropped for that"}},
		{"another end of the same", expiringChange{Was: was, Is: is}, false, []string{goes}},
		{"a change without an end", expiringChange{Was: was}, true, []string{drops}},
		{"the same without an end", expiringChange{Was: was}, false, []string{drops}},
	} {
		if diff := cmp.Diff(c.want, c.change.Sentences(c.changed)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// Lists of others do not wait for what one asker works out: they are told what was known before.
func TestOneAskerWorksItOut(t *testing.T) {
	var a expiryAhead
	jobs := func() []rest.Job { return []rest.Job{{JobStatus: rest.JobStatus{Phase: model.Active}}} }
	begun, may, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- a.Tell(t.Context(), jobs(), func(context.Context) (*model.ConfigPlan, model.Time, error) {
			close(begun)
			<-may
			return nil, 0, nil
		})
	}()
	<-begun
	never := func(context.Context) (*model.ConfigPlan, model.Time, error) {
		t.Error("two work it out at a time")
		return nil, 0, nil
	}
	if err := a.Tell(t.Context(), jobs(), never); err != nil {
		t.Error(err)
	}
	a.Forget()
	close(may)
	if err := <-done; err != nil {
		t.Error(err)
	}
	anew := 0
	for range 2 {
		if err := a.Tell(t.Context(), jobs(), func(context.Context) (*model.ConfigPlan, model.Time, error) {
			anew++
			return nil, 0, nil
		}); err != nil {
			t.Error(err)
		}
	}
	if anew != 1 {
		t.Errorf("worked out %d times after a change; want once", anew)
	}
}
