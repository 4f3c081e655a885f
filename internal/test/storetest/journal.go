package storetest

import (
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

func (u *suite) empty() {
	state, seq, err := u.s.Snapshot(u.ctx)
	if state != nil || seq != 0 || err != nil {
		u.Errorf("a snapshot of nothing: %q %d %v", state, seq, err)
	}
	u.same("events", len(u.replayed(0)), 0)
	u.same("jobs", len(u.all(engine.FinishedFilter{})), 0)
	if records, err := u.s.Events(u.ctx, 0, 1000); len(records) != 0 || err != nil {
		u.Errorf("a page of nothing: %d events, %v", len(records), err)
	}
	u.must(u.s.Room())
	u.must(u.s.Sealed())
}

func (u *suite) eventsOutlive() {
	u.fill(1, 1200) // 2,400 events
	before := u.replayed(0)
	u.same("events", len(before), 2400)
	for _, seq := range []uint64{700, 2300} {
		u.must(u.s.SaveSnapshot(u.ctx, seq, fmt.Appendf(nil, "state %d", seq)))
		u.sameEvents(fmt.Sprint("after the snapshot of ", seq), u.replayed(0), before)
	}
	u.again()
	u.fill(2401, 5)
	for _, after := range []uint64{0, 1, 699, 700, 701, 1699, 1700, 2299, 2300, 2399} {
		u.sameEvents(fmt.Sprint("after ", after), u.replayed(after)[:2400-after], before[after:])
	}
	u.same("events after the end", len(u.replayed(5000)), 0)
	if state, seq, err := u.s.Snapshot(u.ctx); string(state) != "state 2300" || seq != 2300 || err != nil {
		u.Errorf("snapshot %d %q %v", seq, state, err)
	}
}

func (u *suite) fencing() {
	u.fill(1, 3)
	old := u.submission(7, 4)
	old.Epoch--
	for name, b := range map[string]engine.Batch{"gap": u.submission(8, 4), "overlap": u.submission(6, 4), "old epoch": old} {
		if err := u.s.Append(u.ctx, b); !errors.Is(err, engine.ErrFenced) {
			u.Errorf("%s: %v", name, err)
		}
	}
	u.same("events", len(u.replayed(0)), 6)
	u.fill(7, 1)
}

func (u *suite) olderEpoch() {
	u.fill(1, 1)
	late := u.submission(3, 2)
	u.again()
	if err := u.s.Append(u.ctx, late); !errors.Is(err, engine.ErrFenced) {
		u.Errorf("a batch of the epoch before: %v", err)
	}
	u.fill(3, 1)
}

func (u *suite) allOrNothing() {
	b := u.submission(1, 1)
	b.Ended = []model.JobStatus{{ID: 9}, {ID: 9}} // no job ends twice
	b.Secrets = []engine.JobSecrets{{Job: 1, Values: map[string]string{"a": "b"}}}
	b.Answers = []engine.Answered{{Meta: model.Meta{Subject: "ann", Key: "key"}, At: 1, Answer: model.Answer{Job: 1}}}
	if err := u.s.Append(u.ctx, b); err == nil {
		u.Fatal("appended")
	}
	u.same("events of a failed batch", len(u.replayed(0)), 0)
	if _, ok, err := u.s.Job(u.ctx, 9); ok || err != nil {
		u.Errorf("a finished job of a failed batch: %v %v", ok, err)
	}
	if values, err := u.s.Secrets(u.ctx, 1); values != nil || err != nil {
		u.Errorf("secrets of a failed batch: %v %v", values, err)
	}
	if answer, err := u.s.Recall(u.ctx, b.Answers[0].Meta); answer != nil || err != nil {
		u.Errorf("an answer of a failed batch: %v %v", answer, err)
	}
	u.fill(1, 1)
}

// pages: a page has about as many bytes as were asked for, one event at least, and what is behind
// it comes next.
func (u *suite) pages() {
	u.fill(1, 300)
	u.must(u.s.SaveSnapshot(u.ctx, 400, nil))
	want := u.replayed(0)
	for _, size := range []int{1, 5_000, 1 << 20} {
		var got []model.Record
		for pages := 0; ; pages++ {
			page, err := u.s.Events(u.ctx, uint64(len(got)), size)
			u.must(err)
			if len(page) == 0 {
				break
			}
			if size == 1 && len(page) != 1 {
				u.Fatalf("%d events in %d bytes", len(page), size)
			}
			got = append(got, page...)
		}
		u.sameEvents(fmt.Sprint("in pages of ", size), got, want)
	}
}

func (u *suite) eventsOfAJob() {
	const jobs, each = 7, 400
	seq := uint64(0)
	for i := range each {
		var events []model.Event
		for id := range model.JobID(jobs) {
			if i == 0 {
				events = append(events, model.JobSubmitted{ID: id + 1, Job: &model.Job{Source: fmt.Sprintf("source %d", id+1)}})
			} else {
				events = append(events, model.Progress{Attempt: model.AttemptID{Job: id + 1, N: 1}, Step: int64(i)})
			}
		}
		b := u.batch(seq+1, events...)
		u.append(b)
		if seq = b.Last(); i == 330 {
			u.must(u.s.SaveSnapshot(u.ctx, seq, nil))
		}
	}
	for _, limit := range []int{0, 1, 37, each} {
		var got []model.Record
		for after := uint64(0); ; after = got[len(got)-1].Seq {
			page, err := u.s.JobEvents(u.ctx, 3, after, limit)
			u.must(err)
			if len(page) == 0 {
				break
			}
			if limit > 0 && len(page) > limit {
				u.Fatalf("limit %d: a page of %d", limit, len(page))
			}
			got = append(got, page...)
		}
		if len(got) != each {
			u.Fatalf("limit %d: %d events", limit, len(got))
		}
		for i, r := range got[1:] {
			if p := r.Event.(model.Progress); p.Attempt.Job != 3 || p.Step != int64(i+1) {
				u.Fatalf("event %d is %+v", i+1, p)
			}
		}
	}
	if job, ok, err := u.s.Spec(u.ctx, 5); !ok || err != nil || job.Source != "source 5" {
		u.Errorf("spec of job 5: %+v %v %v", job, ok, err)
	}
	if _, ok, err := u.s.Spec(u.ctx, 8); ok || err != nil {
		u.Errorf("spec of no job: %v %v", ok, err)
	}
}
