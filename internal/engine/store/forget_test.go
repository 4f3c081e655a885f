package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// TestAuditForgets: old lines go in favour of a line that says so, and what is left is proven with
// it; whatever is done to that line or to those behind it is found.
func TestAuditForgets(t *testing.T) {
	for name, change := range map[string]string{
		"nothing":                "SELECT 1",
		"the first that is left": "DELETE FROM audit WHERE seq = (SELECT min(seq) FROM audit)",
		"the last":               "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
		"what it says":           "UPDATE audit SET detail = replace(detail, 'to 1500', 'to 1501') WHERE verb = 'forget lines'",
		"whose line it is":       "UPDATE audit SET subject = 'eve' WHERE verb = 'forget lines'",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			for i := range 16 {
				lines := make([]AuditLine, 100)
				for n := range lines {
					lines[n] = AuditLine{Time: model.Time(i), Subject: "alice", Verb: "stop", Object: fmt.Sprint("job ", n), Outcome: "done"}
				}
				if err := s.PutObjects(ctx, nil, lines); err != nil {
					t.Fatal(err)
				}
			}
			gone := []int{}
			for range 4 {
				n, err := Retention{s}.ForgetAudit(ctx, 15, 20)
				if err != nil {
					t.Fatal(err)
				}
				gone = append(gone, n)
			}
			if fmt.Sprint(gone) != "[1000 500 0 0]" {
				t.Errorf("lines forgotten: %v", gone)
			}
			p, err := s.VerifyAudit(ctx)
			if err != nil || p.Problem != "" || p.Forgotten != 1500 || p.Lines != 1602 || len(p.Head) != 32 {
				t.Errorf("%+v, %v", p, err)
			}
			at, err := Retention{s}.OldestAudit(ctx)
			if err != nil || at != 15 {
				t.Errorf("the oldest line is of %d, %v", at, err)
			}
			last, err := s.AuditLines(ctx, 0, 1)
			if err != nil || len(last) != 1 || last[0].Subject != "system" || !strings.HasPrefix(last[0].Detail, "forgot lines 1 to 1500, head ") {
				t.Errorf("%+v, %v", last, err)
			}
			s.Close()
			execSQL(change)(t, dir)
			s = open(t, dir)
			if p := problems(t, s); (len(p) == 0) != (name == "nothing") {
				t.Errorf("%q", p)
			}
		})
	}
}
