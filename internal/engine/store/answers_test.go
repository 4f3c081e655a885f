package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// answered is a data directory with the answers 31 to 90, of jobs 31 to 90: the first 30 were
// forgotten as too old.
func answered(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	for i := range model.JobID(90) {
		id := i + 1
		b := submission(s, uint64(2*id-1), id, "")
		at := model.Time(1)
		if id > 30 {
			at = model.Time(1).Add(KeepAnswers + model.Second)
		}
		b.Answers = []engine.Answered{{Meta: model.Meta{Subject: "ann", Key: fmt.Sprint("key-", id)}, At: at, Answer: model.Answer{Job: id}}}
		if err := s.Append(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checked is what verify says of a directory, and how many answers it read.
func checked(t *testing.T, dir string) (problems []string, n int) {
	t.Helper()
	s, err := Open(ctx, dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.Check(ctx, func(p string) { problems = append(problems, p) })
	if err != nil {
		t.Fatal(err)
	}
	return problems, c.Answers
}

func TestDamagedAnswersAreFound(t *testing.T) {
	whole := answered(t)
	for _, c := range []struct{ query, want string }{
		{"", ""},
		{"UPDATE answers SET data = replace(data, '\"job\":40', '\"job\":41') WHERE id = 40", `answer 40 to an idempotency key of "ann" about job 41 is damaged`},
		{"UPDATE answers SET data = x'00' WHERE id = 40", `answer 40 to an idempotency key of "ann" is damaged`},
		{"UPDATE answers SET mark = (SELECT mark FROM answers WHERE id = 41) WHERE id = 40", "answer 40 to"},
		{"UPDATE answers SET mark = x'00' WHERE id = 40", "answer 40 to"},
		{"UPDATE answers SET at = at + 1 WHERE id = 40", "answer 40 to"},
		{"UPDATE answers SET sum = sum + 1 WHERE id = 90", "answer 90 to"},
		{"DELETE FROM answers WHERE id IN (40, 41)", "answers 40 to 41 are missing"},
		{"DELETE FROM answers WHERE id = 31", "answer 31 is missing"},
		{"DELETE FROM answers WHERE id > 60", "answers 61 to 90 are missing"},
		{"DELETE FROM answers", "answers 31 to 90 are missing"},
		{"UPDATE head SET answered = 89", "answer 90 is one too many"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		copyDir(t, whole, dir)
		if c.query != "" {
			execSQL(c.query)(t, dir)
		}
		problems, n := checked(t, dir)
		if c.want == "" && (len(problems) > 0 || n != 60) || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.want)) {
			t.Errorf("%s: of %d answers it is said %q, want %q", c.query, n, problems, c.want)
		}
	}
}

// A number that is missing stays missing: what comes later is not taken for it.
func TestLostAnswersStayLost(t *testing.T) {
	dir := answered(t)
	execSQL("DELETE FROM answers WHERE id > 60")(t, dir)
	s := open(t, dir)
	b := submission(s, 181, 91, "")
	b.Answers = []engine.Answered{{Meta: model.Meta{Subject: "ann", Key: "later"}, At: model.Time(1).Add(KeepAnswers + model.Minute)}}
	if err := s.Append(ctx, b); err != nil {
		t.Fatal(err)
	}
	problems, n := checked(t, dir)
	if n != 31 || len(problems) != 1 || !strings.Contains(problems[0], "answers 61 to 90 are missing") {
		t.Errorf("of %d answers it is said %q", n, problems)
	}
}

// toVersion2Again makes of a data directory what the program before left.
const toVersion2Again = backTo3 + `
ALTER TABLE head DROP COLUMN forgot;
ALTER TABLE head DROP COLUMN answered;
PRAGMA user_version = 2;
`

// TestDirectoryOfVersion2CountsItsAnswers: what is there when it is brought up to date is what is
// counted; a reader does not change it.
func TestDirectoryOfVersion2CountsItsAnswers(t *testing.T) {
	dir := answered(t)
	execSQL(toVersion2Again)(t, dir)
	for _, query := range []string{"", "DROP TABLE answers"} { // a version 2 from before there were keys
		if query != "" {
			execSQL(toVersion2Again+query)(t, dir)
		}
		if problems, n := checked(t, dir); len(problems) > 0 || n != 0 {
			t.Errorf("version 2 has %d answers that can be checked, and %q", n, problems)
		}
		s := open(t, dir)
		if keeps := slices.ContainsFunc([]int{31, 60, 90}, func(id int) bool {
			a, err := s.Recall(ctx, model.Meta{Subject: "ann", Key: fmt.Sprint("key-", id)})
			return err != nil || (a != nil) != (query == "")
		}); keeps {
			t.Errorf("after %q it does not remember what it had", query)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if problems, n := checked(t, dir); len(problems) > 0 || n != 60*(1-min(len(query), 1)) {
			t.Errorf("brought up to date it has %d answers, and %q", n, problems)
		}
	}
}
