package server_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What is done to nodes, to the configuration and to jobs of others is a line each, with where it
// came from; what users do to their own jobs is none.
func TestAuditOfCommands(t *testing.T) {
	w := newWorld(t, 1)
	carol := w.of("carol")
	must := func(_ rest.Done, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	apply := func(file string, c rest.ConfigChange) {
		c.IfMatch = "*"
		must(carol.ApplyConfigAs(ctx, []byte(file), c))
	}
	apply(clusterFile, rest.ConfigChange{Reason: "first"})
	apply(otherFile, rest.ConfigChange{Until: "7d"})
	apply(otherFile, rest.ConfigChange{})
	apply(otherFile, rest.ConfigChange{}) // in force already: no line
	apply(clusterFile, rest.ConfigChange{Restores: 1, Reason: "that was wrong"})
	w.submit("before", 2)
	job := w.submit("train", 1)
	must(w.client.Hold(ctx, "train", "my own"))
	must(w.client.Release(ctx, "train"))
	ref := rest.JobRef(job.ID)
	must(carol.Hold(ctx, ref, "too early"))
	must(carol.Release(ctx, ref))
	priority, limit := cell.Priority(5), model.Hour
	must(carol.Update(ctx, ref, rest.UpdateRequest{Priority: &priority, TimeLimit: &limit}))
	none := model.Duration(0)
	must(carol.Update(ctx, ref, rest.UpdateRequest{TimeLimit: &none}))
	for _, on := range []bool{true, false} {
		if _, err := carol.Tag(ctx, ref, "lr", on); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Tag(ctx, ref, "own", on); err != nil {
			t.Fatal(err)
		}
	}
	must(w.client.Stop(ctx, "before", "my own"))
	w.until("it runs", w.running(job.ID))
	must(carol.Requeue(ctx, ref, rest.RequeueRequest{Hold: true, Reason: "not now"}))
	must(carol.Stop(ctx, ref, "never"))
	must(carol.Uncordon(ctx, "n2"))
	must(carol.Cordon(ctx, "n2", "a look"))
	must(carol.Cordon(ctx, "n2", "a look"))
	must(carol.Cordon(ctx, "n2", "a second look"))
	must(carol.Drain(ctx, "n2", rest.DrainRequest{Within: model.Hour, Reason: "new fans"}))
	over, err := carol.Cordon(ctx, "n2", "not today")
	must(over, err)
	if len(over.Effects) != 1 || !strings.HasPrefix(over.Effects[0], "the drain until 20") ||
		!strings.HasSuffix(over.Effects[0], "Z (new fans) is over") {
		t.Errorf("the answer says %q", over.Effects)
	}
	must(carol.Drain(ctx, "n2", rest.DrainRequest{Within: model.Hour, Reason: "today"}))
	must(carol.Uncordon(ctx, "n2"))
	must(carol.Uncordon(ctx, "n2"))
	lost := w.submit("lost", 1)
	w.until("it runs", w.running(lost.ID))
	w.live.Tell(model.TaskUnknown{Attempt: model.AttemptID{Job: lost.ID, N: 1}})
	must(carol.Drain(ctx, "n2", rest.DrainRequest{Within: model.Hour, Reason: "new fans"}))
	must(carol.DeclareDead(ctx, "n2", rest.DeadRequest{Reason: "it burnt down"}))
	if _, err := carol.Stop(ctx, ref, "again"); err == nil {
		t.Error("a job that has ended is stopped")
	}
	log, err := w.client.People().Audit(ctx, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	until := regexp.MustCompile(`20\d\d-[0-9T:-]+Z`)
	var got []string
	for _, l := range slices.Backward(log.Lines) {
		got = append(got, fmt.Sprintf("%s|%s|%s|%s|%s|%s", l.User, l.From, l.Verb, l.Object, l.Outcome,
			until.ReplaceAllString(l.Detail, "T")))
	}
	the := func(verb, object, detail string) string {
		return "carol|127.0.0.1|" + verb + "|" + object + "|done|" + detail
	}
	train := fmt.Sprintf("job alice~train (%d) in VC default", job.ID)
	want := []string{
		the("apply configuration", "the cluster file", "the first one: first"),
		the("apply configuration", "the cluster file", "in place of version 1: until T, then version 1 again"),
		the("keep configuration", "the cluster file", "version 2 has no end any more"),
		the("roll back configuration", "the cluster file", "to version 1, in place of version 2: that was wrong"),
		the("hold job", train, "too early"),
		the("release job", train, ""),
		the("change job", train, "priority 10 -> 5, time limit none -> 1h"),
		the("change job", train, "time limit 1h -> none"),
		the("tag job", train, "lr"),
		the("untag job", train, "lr"),
		the("requeue job", train, "and hold it: not now"),
		the("stop job", train, "never"),
		the("cordon node", "node n2", "a look"),
		the("cordon node", "node n2", "a second look"),
		the("drain node", "node n2", "until T: new fans"),
		the("cordon node", "node n2", "the drain until T (new fans) is over: not today"),
		the("drain node", "node n2", "until T: today"),
		the("uncordon node", "node n2", "the drain until T (today) is over"),
		the("drain node", "node n2", "until T: new fans"),
		the("declare node dead", "node n2", "it burnt down"),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, l := range log.Lines {
		if !slices.Contains(auditVerbs(t), l.Verb) {
			t.Errorf("docs/people.md does not name %q", l.Verb)
		}
	}
	checked, err := w.client.People().VerifyAudit(ctx)
	if err != nil || !checked.Sound || checked.Lines != int64(len(want)) {
		t.Errorf("%+v, %v", checked, err)
	}
	problems := 0
	if _, err := w.store.Check(ctx, func(p string) { problems++; t.Error(p) }); err != nil || problems > 0 {
		t.Errorf("%d problems, %v", problems, err)
	}
}

// auditVerbs are those that docs/people.md names.
func auditVerbs(t *testing.T) (verbs []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/people.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text2, _ := strings.Cut(string(text), "| verb | written when |")
	table, _, _ := strings.Cut(text2, "\n\n")
	for line := range strings.SplitSeq(table, "\n") {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			verbs = append(verbs, m[1])
		}
	}
	return verbs
}

// The table of docs/people.md has each verb that the code writes, and no other.
func TestAuditKinds(t *testing.T) {
	docs := auditVerbs(t)
	written := map[string]bool{string(access.BuildImages): true}
	verb := regexp.MustCompile(`(?:\b[vV]erb(?:, \w+)?\s*(?::=|[:=])|` +
		`\b(?:signIn|useToken|forgetVerb)\s*=|done\(ctx,)\s*"([a-z ]+)"`)
	for _, dir := range []string{"../..", "../../../cmd/comb"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) == "access" || !strings.HasSuffix(path,
				".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || !regexp.MustCompile(`AuditLine|Audit\b|clusterFile`).Match(text) {
				return err
			}
			for _, m := range verb.FindAllStringSubmatch(string(text), -1) {
				written[m[1]] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	delete(written, "several") // stands for verbs that are not told apart
	for v := range written {
		if !slices.Contains(docs, v) {
			t.Errorf("the audit log may have %q, which docs/people.md does not name", v)
		}
	}
	for _, v := range docs {
		if !written[v] {
			t.Errorf("docs/people.md names %q, which nothing writes", v)
		}
	}
	if len(docs) < 20 {
		t.Errorf("docs/people.md names %q alone", docs)
	}
}
