package core_test

import (
	"errors"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// A report comes at the very instant at which a job has proven itself under philly. The loop knew
// that instant before and looks at the VC; who reads the journal finds it out with the report
// applied, and decides the same.
func TestProvenAsAReportComes(t *testing.T) {
	cfg := cluster(4, map[cell.VCName]int32{"a": 2, "b": 2})
	cfg.VCs = []model.VCConfig{{Name: "a", Policy: "philly", Params: []model.Param{{Key: "probe", Value: "1"}, {Key: "probeTime", Value: "300"}}}}
	w := &world{t: t, s: core.New(policy.New), now: 1_000_000}
	w.do(model.Reconfigure{Config: cfg})
	reports := w.submit(gangJob("reports", "b", 10, 1, 4))
	w.submit(gangJob("first", "a", 10, 1, 4))
	second := w.submit(gangJob("second", "a", 10, 1, 4))
	for id := range second {
		w.start(id + 1)
	}
	want(t, "second", w.where(second), "Waiting")
	read, err := core.Load(w.s.Save(), policy.New)
	if err != nil {
		t.Fatal(err)
	}
	at := w.s.Wake()
	want(t, "when first has proven itself", at, w.now.Add(300*model.Second))
	for _, s := range []*core.State{w.s, read} {
		for _, e := range s.Accept(model.Progress{Attempt: w.attempt(reports, 0), Step: 5}) {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: at, Event: e})
		}
		s.Decide(at)
	}
	if w.where(second) == "Waiting" {
		t.Error("second does not start")
	}
	want(t, "what is decided by who read the journal", read.Digest(), w.s.Digest())
}

// Before PolicyFailed is recorded a VC whose policy cannot be made is shown as fifo serves it.
func TestUnmadeIsShownAsServed(t *testing.T) {
	cfg := cluster(2, map[cell.VCName]int32{"a": 2})
	cfg.VCs = []model.VCConfig{{Name: "a", Policy: "las", Params: []model.Param{{Key: "limits", Value: "100/1000"}}}}
	w := &world{t: t, s: core.New(policy.New), now: 1_000_000}
	w.do(model.Reconfigure{Config: cfg})
	s, err := core.Load(w.s.Save(), func(c model.VCConfig) (model.Policy, error) {
		if c.Policy == "las" {
			return nil, errors.New("it is not known")
		}
		return policy.New(c)
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.VCs()[0]; v.Policy != "fifo" || len(v.Params) > 0 || v.Failed == nil {
		t.Errorf("%s %v, failed %v", v.Policy, v.Params, v.Failed)
	}
}
