package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// ended is a batch in which 250 jobs end: their names are n0 to n4 in turn, number 100 is bob's in
// VC b, and all others ann's in VC a.
func (u *suite) ended() engine.Batch {
	b := u.submission(1, 1)
	for id := range model.JobID(250) {
		b.Ended = append(b.Ended, model.JobStatus{ID: id + 1, Name: model.JobName(fmt.Sprintf("n%d", id%5)), User: "ann", VC: "a",
			Phase: []model.Phase{model.Succeeded, model.Failed, model.Stopped}[id%3], Message: "it's <done>"})
	}
	b.Ended[99].User, b.Ended[99].VC = "bob", "b"
	return b
}

func (u *suite) finished() {
	b := u.ended()
	u.append(b)
	u.again()
	for want, filters := range map[int][]engine.FinishedFilter{
		250: {{}, {Limit: 7}, {Limit: 50}, {Limit: 1 << 30}, {Limit: -1}},
		249: {{Users: []string{"ann"}, Limit: 83}, {VCs: []string{"a"}}, {Within: &engine.Within{VCs: []string{"a"}, User: "carl"}}, {Within: &engine.Within{User: "ann"}}},
		1: {{Users: []string{"bob"}}, {VCs: []string{"b"}}, {Within: &engine.Within{VCs: []string{"c"}, User: "bob"}, Limit: 1},
			{Name: "n4", Users: []string{"bob", "carl"}, VCs: []string{"b", "c"}, Phases: []model.Phase{model.Succeeded}}},
		0: {{Users: []string{"' OR 1=1 --"}}, {Users: []string{"ann"}, VCs: []string{"b"}}, {Name: "%"}, {Name: "N1"}, {Within: &engine.Within{User: "carl"}},
			{Users: []string{"bob"}, Within: &engine.Within{VCs: []string{"a"}, User: "ann"}}},
		50:  {{Name: "n3"}, {Name: "3", Users: []string{"ann", "bob"}, VCs: []string{"a", "b"}, Limit: 9}},
		84:  {{Phases: []model.Phase{model.Succeeded}}},
		166: {{Phases: []model.Phase{model.Failed, model.Stopped}}},
	} {
		for _, f := range filters {
			u.same(fmt.Sprintf("jobs of %+v", f), len(u.all(f)), want)
		}
	}
	j, ok, err := u.s.Job(u.ctx, 100)
	u.must(err)
	u.same("whether job 100 has ended", ok, true)
	u.same("job 100", j, b.Ended[99])
	if _, ok, err := u.s.Job(u.ctx, 251); ok || err != nil {
		u.Errorf("job 251: %v %v", ok, err)
	}
}

// names: the latest of that user, however many others have had the name since.
func (u *suite) names() {
	u.append(u.ended())
	for _, c := range []struct {
		user model.Subject
		name model.JobName
		want model.JobID
	}{{"ann", "n3", 249}, {"ann", "n4", 250}, {"bob", "n4", 100}, {"bob", "n3", 0}, {"", "n4", 0}} {
		if j, ok, err := u.s.LastNamed(u.ctx, c.user, c.name); ok != (c.want > 0) || err != nil || j.ID != c.want {
			u.Errorf("latest %s of %s: %d %v %v, want %d", c.name, c.user, j.ID, ok, err, c.want)
		}
	}
}

func (u *suite) secrets() {
	const canary = "canary-7f3a9c"
	b := u.submission(1, 1)
	b.Secrets = []engine.JobSecrets{{Job: 1, Values: map[string]string{"token": canary}}, {Job: 2, Values: map[string]string{"x": canary}}}
	u.append(b)
	u.again()
	values, err := u.s.Secrets(u.ctx, 1)
	u.must(err)
	u.same("secrets of job 1", values, map[string]string{"token": canary})
	if values, err := u.s.Secrets(u.ctx, 3); err != nil || values != nil {
		u.Errorf("of no job: %v %v", values, err)
	}
	u.same("whether the secret lies in the clear", u.Lies(canary), false)
	end := u.batch(3, model.JobEnded{Job: 1})
	end.Ended = []model.JobStatus{{ID: 1, Phase: model.Stopped}}
	u.append(end)
	for id, want := range map[model.JobID]int{1: 0, 2: 1} {
		values, err := u.s.Secrets(u.ctx, id)
		u.must(err)
		u.same(fmt.Sprintf("secrets of job %d after the end of job 1", id), len(values), want)
	}
}

func (u *suite) answers() {
	meta := model.Meta{Subject: "ann", Key: "key"}
	b := u.submission(1, 1)
	b.Answers = []engine.Answered{{Meta: meta, At: 1, Request: engine.Request{7}, Answer: model.Answer{Job: 1}, Seq: 2, Note: []byte(`"note"`)}}
	u.append(b)
	// A command may be accepted and change nothing: an answer alone.
	alone := engine.Batch{First: 3, Epoch: u.s.Epoch(), Answers: []engine.Answered{{Meta: model.Meta{Subject: "bob", Key: "key"}, At: 1, Answer: model.Answer{Job: 9}}}}
	u.append(alone)
	for range 2 {
		got, err := u.s.Recall(u.ctx, meta)
		u.must(err)
		u.same("ann's answer", got, &b.Answers[0])
		got, err = u.s.Recall(u.ctx, alone.Answers[0].Meta)
		u.must(err)
		u.same("bob's answer", got, &alone.Answers[0])
		for _, none := range []model.Meta{{Subject: "eve", Key: "key"}, {Subject: "ann", Key: "KEY"}, {Subject: "ann"}, {Subject: "an", Key: "nkey"}} {
			if got, err := u.s.Recall(u.ctx, none); got != nil || err != nil {
				u.Errorf("an answer of %+v: %+v, %v", none, got, err)
			}
		}
		u.again()
	}
	u.fill(3, 1)
}

func (u *suite) keys() {
	const limit = 20
	u.must(u.s.Close())
	u.s = u.Open(limit)
	for i := range uint64(limit) {
		u.must(u.s.KeysFull("ann", true, 1))
		b := u.submission(2*i+1, model.JobID(i+1))
		b.Answers = []engine.Answered{{Meta: model.Meta{Subject: "ann", Key: fmt.Sprint(i)}, At: 1, Answer: model.Answer{Job: model.JobID(i + 1)}}}
		u.append(b)
	}
	if err := u.s.KeysFull("ann", true, 1); err == nil || !strings.Contains(err.Error(), "20 idempotency keys of ann") {
		u.Errorf("one more key: %v", err)
	}
	u.must(u.s.KeysFull("ann", false, 1)) // a stop has some more room
	u.must(u.s.KeysFull("bob", true, 1))
	u.must(u.s.KeysFull("ann", true, model.Time(1).Add(u.Forget+model.Second)))
}

func (u *suite) tokens() {
	now := model.Time(1_000_000)
	text, made, err := u.CreateToken(u.ctx, u.s, "laptop", "ann", now)
	u.must(err)
	other, _, err := u.CreateToken(u.ctx, u.s, "ci", "bob", now+1)
	if err != nil || other == text {
		u.Fatal(other, err)
	}
	parts := strings.Split(text, "_")
	if len(parts) != 3 || parts[0] != "comb" || len(parts[2]) != 64 {
		u.Fatalf("token %q", text)
	}
	later := now.Add(2 * model.Minute)
	if got, ok := u.CheckToken(u.ctx, u.s, text, later); !ok || got != "ann" {
		u.Errorf("the holder is %q %v", got, ok)
	}
	for _, wrong := range []string{"", "comb_", "comb__", text[:len(text)-1], text + "0", strings.ToUpper(text), text[5:],
		"comb_" + made.ID + "_" + strings.Split(other, "_")[2], strings.Repeat("comb_", 1000)} {
		if _, ok := u.CheckToken(u.ctx, u.s, wrong, later); ok {
			u.Errorf("%q is accepted", wrong)
		}
	}
	u.again()
	u.same("whether the secret lies in the clear", u.Lies(parts[2]), false)
	list := u.Tokens(u.s)
	if len(list) != 2 || list[0] != (Token{made.ID, "laptop", "ann", later}) || list[1].Name != "ci" {
		u.Errorf("%+v", list)
	}
	for i, want := range []bool{true, false} {
		if ok, err := u.s.RevokeToken(u.ctx, made.ID); ok != want || err != nil {
			u.Errorf("revoked for time %d: %v %v", i+1, ok, err)
		}
	}
	for range 2 {
		if _, ok := u.CheckToken(u.ctx, u.s, text, later); ok {
			u.Error("a revoked token is accepted")
		}
		if _, ok := u.CheckToken(u.ctx, u.s, other, later); !ok {
			u.Error("the other token is refused")
		}
		u.again()
	}
}

// hangUp: callers cancel in the middle of writes; what was returned is there, and nothing else.
func (u *suite) hangUp() {
	made := 0
	for i := range 300 {
		short, cancel := context.WithTimeout(u.ctx, time.Duration(i)*2*time.Microsecond)
		if _, _, err := u.CreateToken(short, u.s, "t", "ann", 1); err == nil {
			made++
		}
		cancel()
	}
	u.same("tokens", len(u.Tokens(u.s)), made)
	u.again()
	u.same("tokens after a restart", len(u.Tokens(u.s)), made)
	u.fill(1, 3)
}

// clusterFiles: what was begun is a version once it has come into force, and not before; the same
// again is none.
func (u *suite) clusterFiles() {
	apply := func(tag, file string) {
		u.must(u.s.BeginConfig(u.ctx, engine.ConfigVersion{Time: 7, Author: "ann", Reason: "why " + tag, Restored: 3}, []byte(file)))
		u.again()
		u.must(u.s.EndConfig(u.ctx, tag))
	}
	u.must(u.s.EndConfig(u.ctx, "nothing was begun"))
	apply("one", "a\nb\x00\n")
	apply("one", "a\nb\x00\n")
	apply("one", "a # other words\n")
	apply("", "never in force")
	u.must(u.s.BeginConfig(u.ctx, engine.ConfigVersion{}, []byte("left behind")))
	apply("two", "")
	u.must(u.s.BeginConfig(u.ctx, engine.ConfigVersion{}, []byte("under way")))
	u.again()
	list, err := u.s.Configs(u.ctx, 0, 10)
	u.must(err)
	want := []engine.ConfigVersion{{Version: 3, Time: 7, Author: "ann", Reason: "why two", Tag: "two", Restored: 3},
		{Version: 2, Time: 7, Author: "ann", Reason: "why one", Tag: "one", Restored: 3, Bytes: 16},
		{Version: 1, Time: 7, Author: "ann", Reason: "why one", Tag: "one", Restored: 3, Bytes: 5}}
	u.same("versions", list, want)
	list, err = u.s.Configs(u.ctx, 3, 1)
	u.must(err)
	u.same("versions before 3, one", list, want[1:2])
	v, file, ok, err := u.s.ConfigFile(u.ctx, 1)
	u.must(err)
	u.same("whether version 1 is kept", ok, true)
	u.same("version 1", v, want[2])
	u.same("its file", string(file), "a\nb\x00\n")
	for _, none := range []int64{0, -1, 4, 1 << 60} {
		if _, _, ok, err := u.s.ConfigFile(u.ctx, none); ok || err != nil {
			u.Errorf("version %d: %v %v", none, ok, err)
		}
	}
}

// removed: of jobs that have ended alone, and as it was noted first.
func (u *suite) removed() {
	b := u.ended()
	for i := range b.Ended {
		b.Ended[i].Ended = model.Time(1000 + i)
	}
	u.append(b)
	ended, err := u.s.EndedOf(u.ctx, []model.JobID{1, 250, 251, -3})
	u.must(err)
	u.same("when jobs ended", ended, map[model.JobID]model.Time{1: 1000, 250: 1249})
	u.must(u.s.MarkRemoved(u.ctx, []engine.Removed{{Job: 1, At: 5, Rule: "kept 30d"}, {Job: 251, At: 5, Rule: "it has not ended"}}))
	u.must(u.s.MarkRemoved(u.ctx, []engine.Removed{{Job: 1, At: 9, Rule: "again"}, {Job: 2, At: 9, Rule: "kept 1d"}}))
	u.again()
	for id, want := range map[model.JobID]engine.Removed{1: {Job: 1, At: 5, Rule: "kept 30d"}, 2: {Job: 2, At: 9, Rule: "kept 1d"}, 3: {}, 251: {}} {
		got, ok, err := u.s.Removed(u.ctx, id)
		u.must(err)
		u.same(fmt.Sprintf("whether files of job %d were removed", id), ok, want.Job != 0)
		if ok {
			u.same(fmt.Sprintf("what was removed of job %d", id), got, want)
		}
	}
}
