package accounts

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
)

// TestPasswordsWaitTheirTurn: where a password is not looked at the answer says when to try again.
// Only where there were wrong ones it speaks of wrong ones.
func TestPasswordsWaitTheirTurn(t *testing.T) {
	a := &accounts{Deps: Deps{Fail: func(err error) error { return err }}}
	for _, c := range []struct {
		err     error
		text    string
		seconds int
	}{
		{&people.Slow{For: 1200 * time.Millisecond}, "too many wrong passwords or codes: wait 2s", 2},
		{&people.Slow{}, "wait 1s", 1},
		{people.ErrBusy, "many passwords are being looked at: try again", 1},
	} {
		var p *rest.Problem
		if err := a.fail(c.err); !errors.As(err, &p) || p.Status != http.StatusTooManyRequests ||
			p.Code != rest.CodeBusy || p.Seconds != c.seconds || !strings.Contains(p.Detail, c.text) {
			t.Errorf("%v: %+v", c.err, err)
		}
	}
}

// TestLifeHasAUnit: a bare number may be meant in any.
func TestLifeHasAUnit(t *testing.T) {
	if d, err := life("30d"); err != nil || d != 720*time.Hour {
		t.Errorf("30d is %v, %v", d, err)
	}
	var p *rest.Problem
	if _, err := life("30"); !errors.As(err, &p) || p.Errors[0].Detail != "30: say of what: 30d, 30h, 30m or 30s" {
		t.Errorf("30: %+v", p)
	}
}
