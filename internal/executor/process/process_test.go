package process

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	line := "4242 (a) S) b) R 1 4240 4239 0 -1 4194560 91 0 0 0 0 0 0 0 20 0 1 0 123456 2 3"
	got, ok := parseStat(line)
	if want := (Stat{State: 'R', Parent: 1, Group: 4240, Session: 4239, Start: 123456}); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) R 1", "1 (x) R a b c 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5", strings.Replace(line, "123456", "-1", 1)} {
		if got, ok := parseStat(bad); ok {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
}

// TestSessionsBefore: a session with an older member, whether its leader lives
// or not, and those from outside of the namespace cannot be a task's.
func TestSessionsBefore(t *testing.T) {
	all := map[int]Stat{
		10: {Start: 5, Session: 10}, 11: {Start: 50, Session: 10}, // its leader lives
		21: {Start: 6, Session: 20}, 22: {Start: 51, Session: 20}, // its leader is gone
		30: {Start: 52, Session: 0},
		40: {Start: 53, Session: 40}, 41: {Start: 54, Session: 40}, // as young as the task
	}
	older := sessionsBefore(all, 50)
	for session, want := range map[int]bool{0: true, 10: true, 20: true, 40: false} {
		if older[session] != want {
			t.Errorf("session %d: older %v, want %v", session, older[session], want)
		}
	}
}

func TestSignalMask(t *testing.T) {
	for _, tt := range []struct {
		mask string
		sig  unix.Signal
		want bool
	}{
		{"0000000000000200", unix.SIGUSR1, true}, {"0000000000000200", unix.SIGUSR2, false},
		{"ffffffffffffffff", 64, true}, {"", unix.SIGUSR1, false}, {"zz", unix.SIGUSR1, false},
		{"ffffffffffffffff", 0, false}, {"ffffffffffffffff", 65, false},
	} {
		if got := hasSignal(tt.mask, tt.sig); got != tt.want {
			t.Errorf("signal %d in %q: %v", tt.sig, tt.mask, got)
		}
	}
}
