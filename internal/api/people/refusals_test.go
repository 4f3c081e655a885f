package people

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A refusal that comes while others are written does not lie until a third one comes: it has a
// timer of its own.
func TestRefusalWhileWriting(t *testing.T) {
	var w Authorizer
	r := &w.refusals
	w.startTimer(time.Hour)
	before := r.timer
	before.Stop()
	r.due(time.Now(), false) // is what a write begins with
	w.startTimer(time.Hour)
	if r.timer == nil || r.timer == before {
		t.Fatal("nothing will write it")
	}
	r.timer.Stop()
}

// A program that asks again and again for what it may not do is one line at once and one a minute,
// with how often; many kinds of one principal are told apart up to a limit, and those of others
// stay.
func TestRefusalsComeTogether(t *testing.T) {
	var r refusals
	now := time.Date(2026, 11, 26, 1, 0, 0, 0, time.UTC)
	poll := refusal{"alice", "list nodes", "the cluster", "refused"}
	var lines []string
	for second := range 180 {
		for range 50 {
			r.add(poll, "no right", "10.0.0.7", now)
		}
		now = now.Add(time.Second)
		got, more := r.due(now, false)
		if !more {
			t.Fatalf("second %d: nothing waits", second)
		}
		for _, l := range got {
			lines = append(lines, l.Detail)
		}
	}
	if len(lines) != 3 || lines[0] != "50 times since 2026-11-26T01:00:00Z: no right" || lines[1] != "3000 times since 2026-11-26T01:00:01Z: no right" {
		t.Errorf("9,000 refusals of one kind in three minutes are %d lines: %q", len(lines), lines)
	}
	if got, _ := r.due(now, true); len(got) != 1 || !strings.HasPrefix(got[0].Detail, "2950 times since") {
		t.Errorf("at the end: %+v", got)
	}
	now = now.Add(2 * time.Minute)
	if got, more := r.due(now, false); len(got) != 0 || more || len(r.kinds)+len(r.kindsOf) != 0 {
		t.Errorf("what came no more is remembered: %v, %v, %v", got, r.kinds, r.kindsOf)
	}
	for i := range 500 {
		r.add(refusal{"mallory", "see job", fmt.Sprint("VC ", i), "refused"}, "no right", "10.0.0.7", now)
	}
	r.add(poll, "no right", "10.0.0.7", now)
	got, _ := r.due(now, false)
	if len(got) != mostKinds+2 || got[0].Detail != "no right" || got[len(got)-1].Verb != "several" || !strings.HasPrefix(got[len(got)-1].Detail, "490 times since") {
		t.Errorf("500 kinds of one principal are %d lines, the last %+v", len(got), got[len(got)-1])
	}
	for i := range 3000 {
		r.add(refusal{fmt.Sprint("u", i), "see job", "VC a", "refused"}, "no right", "10.0.0.7", now)
	}
	if len(r.kinds) > mostRefusals+1 {
		t.Errorf("%d kinds are remembered", len(r.kinds))
	}
}
