package admin

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// What a plan that was seen says of ends counts, apart from times; and a difference is never told
// by nothing.
func TestPlansWithEnds(t *testing.T) {
	none := rest.ConfigPlanned{}
	week := rest.ConfigPlanned{Until: 7, Back: 1, Ends: []string{"the server goes back to version 1 at 2026-03-08T00:00:00Z, by itself"}}
	later := rest.ConfigPlanned{Until: 8, Back: 1, Ends: []string{"the server goes back to version 1 at 2026-03-08T00:00:07Z, by itself"}}
	drops := rest.ConfigPlanned{Drops: true, Ends: []string{"the end of version 2 is dropped: the server does not go back to version 1 at 2026-03-08T00:00:00Z, and"}}
	for _, c := range []struct {
		name      string
		seen, now *rest.ConfigPlanned
		want      string // "": they are alike
	}{
		{"the same duration later", &week, &later, ""},
		{"none twice", &none, &none, ""},
		{"an end that was not planned", &none, &week, "  it was planned without --until: plan it with --until, too|  now: the server goes back to version 1, by itself"},
		{"no end that was planned", &week, &none, "  it was planned with --until: give that to apply, too|  no more: the server goes back to version 1, by itself"},
		{"an end that is dropped now", &none, &drops, "  now: the end of version 2 is dropped: the server does not go back to version 1, and"},
	} {
		if same := sameEffect(c.seen, c.now); same != (c.want == "") {
			t.Errorf("%s: alike %v", c.name, same)
		}
		if got := strings.Join(differences(c.seen, c.now), "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
