package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// follower counts events of the stream, from the start of the server on.
type follower struct {
	events    *prometheus.CounterVec
	ended     *prometheus.CounterVec
	submitted *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	stops     *prometheus.CounterVec
	queued    *prometheus.HistogramVec
	missed    prometheus.Counter

	since map[model.JobID]waits // jobs that wait for their first start
}

type waits struct {
	from model.Time
	vc   string
}

func newFollower() *follower {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &follower{
		events:    vec("comb_events_total", "Events since the start, by kind.", "kind"),
		submitted: vec("comb_jobs_submitted_total", "Jobs that were accepted.", "vc"),
		ended:     vec("comb_jobs_ended_total", "Jobs that ended, by state.", "state"),
		attempts:  vec("comb_attempts_ended_total", "Attempts of gangs that ended, by cause.", "cause"),
		stops:     vec("comb_stops_total", "Attempts that were told to stop, by cause: preempted, migrated, drained and others.", "cause"),
		queued: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "comb_queue_wait_seconds", Buckets: long,
			Help: "From a job's submission to its first start."}, []string{"vc"}),
		missed: prometheus.NewCounter(prometheus.CounterOpts{Name: "comb_events_uncounted_total",
			Help: "Events that were too fast to be counted by kind."}),
		since: map[model.JobID]waits{},
	}
}

func (f *follower) all() []prometheus.Collector {
	return []prometheus.Collector{f.events, f.ended, f.submitted, f.attempts, f.stops, f.queued, f.missed}
}

// run counts events until ctx is done.
func (f *follower) run(ctx context.Context, r *engine.Replica) {
	var at uint64
	_ = r.Read(ctx, 0, func(st *core.State) {
		at = st.Seq()
		if st.Size() > mostJobs {
			return
		}
		for _, j := range st.Jobs() {
			if j.Started == 0 {
				f.since[j.ID] = waits{j.Submitted, string(j.VC)}
			}
		}
	})
	for ctx.Err() == nil {
		t, err := r.Tail(ctx, at, 512)
		if err != nil {
			return
		}
		if t.Older {
			f.missed.Add(float64(t.End - at))
			at = t.End
			continue
		}
		for i := range t.Records {
			at = t.Records[i].Seq
			f.count(&t.Records[i])
		}
		if at < t.End {
			continue
		}
		select {
		case <-t.Changed:
		case <-t.Ended:
			return
		case <-ctx.Done():
			return
		}
		select { // several events at once
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (f *follower) count(r *model.Record) {
	f.events.WithLabelValues(string(model.KindOf(r.Event))).Inc()
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		vc := string(e.Job.VC)
		f.submitted.WithLabelValues(vc).Inc()
		f.since[e.ID] = waits{r.Time, vc}
	case model.Placed:
		if w, ok := f.since[e.Attempt.Job]; ok {
			f.queued.WithLabelValues(w.vc).Observe(float64(r.Time-w.from) / 1e6)
			delete(f.since, e.Attempt.Job)
		}
	case model.StopSent:
		f.stops.WithLabelValues(e.Cause.String()).Inc()
	case model.AttemptEnded:
		f.attempts.WithLabelValues(e.Cause.String()).Inc()
	case model.JobEnded:
		f.ended.WithLabelValues(string(e.Phase)).Inc()
		delete(f.since, e.Job)
	case model.Configured:
		f.known(e.Config)
	}
}

// known drops virtual clusters that are gone, so that renames do not add names for ever.
func (f *follower) known(c *model.Config) {
	names := map[string]bool{}
	for i := range c.Cluster.VCs {
		names[string(c.Cluster.VCs[i].Name)] = true
	}
	for id, w := range f.since {
		if !names[w.vc] {
			delete(f.since, id)
		}
	}
}
