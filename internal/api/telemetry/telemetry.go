// Package telemetry measures a server for Prometheus: what the cluster does, and what the
// server itself needs for it. It reads the present state and the stream of events, and must
// not change either. No metric has a label of a job, a user or anything else without a bound,
// except those of OpenPAI's exporter, which are about running tasks.
package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/upkeep"
)

// Options are what is measured.
type Options struct {
	Replica *engine.Replica
	Version string
	// Streams is the number of open streams, Kept what retention did; nil is not measured.
	Streams func() int
	Kept    func() upkeep.Stats
	// Certificate is the end of the server's certificate; nil or zero is without TLS.
	Certificate func() time.Time
	// Room returns nil while there is room for durable data.
	Room func() error
	// Conditions is how many conditions hold now; see executor.Condition.
	Conditions func() int
}

// Metrics are the metrics of one server.
type Metrics struct {
	registry *prometheus.Registry
	round    prometheus.Histogram
	journal  prometheus.Histogram
	failures prometheus.Counter
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	follow   *follower
}

var (
	quick = []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10}
	long  = []float64{1, 10, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

// New makes the metrics of a server.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(),
		round: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "comb_round_seconds", Buckets: quick,
			Help: "How long the loop took to check what came and to decide, before it wrote."}),
		journal: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "comb_journal_append_seconds", Buckets: quick,
			Help: "How long it took to make a round's events durable."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "comb_journal_append_failures_total",
			Help: "Rounds that could not be made durable, and were taken back."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "comb_http_requests_total",
			Help: "Requests by route and status."}, []string{"route", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "comb_http_request_seconds", Buckets: quick,
			Help: "How long requests took by route, but for streams."}, []string{"route"}),
		follow: newFollower(),
	}
	m.registry.MustRegister(m.round, m.journal, m.failures, m.requests, m.took,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.follow.all()...)
	return m
}

// Observe adds the metrics of the state, and counts events until ctx is done.
func (m *Metrics) Observe(ctx context.Context, o Options) {
	m.registry.MustRegister(&state{o: o})
	go m.follow.run(ctx, o.Replica)
}

// Handler answers Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Timed passes inputs on, and measures the time from there to the journal.
type Timed struct {
	engine.Inputs
	metrics *Metrics
	given   time.Time
}

// Inputs wraps the inputs of an engine.
func (m *Metrics) Inputs(in engine.Inputs) *Timed { return &Timed{Inputs: in, metrics: m} }

// Next implements engine.Inputs.
func (t *Timed) Next(ctx context.Context, wake model.Time) (model.Time, []engine.Input, error) {
	now, in, err := t.Inputs.Next(ctx, wake)
	t.given = time.Now()
	return now, in, err
}

// NotBefore passes on a call to an engine.LiveInputs.
func (t *Timed) NotBefore(at model.Time) {
	if in, ok := t.Inputs.(interface{ NotBefore(model.Time) }); ok {
		in.NotBefore(at)
	}
}

// Append measures a round, which write is about to write.
func (t *Timed) Append(write func() error) error {
	began := time.Now()
	if !t.given.IsZero() {
		t.metrics.round.Observe(began.Sub(t.given).Seconds())
		t.given = time.Time{}
	}
	err := write()
	t.metrics.journal.Observe(time.Since(began).Seconds())
	if err != nil {
		t.metrics.failures.Inc()
	}
	return err
}

type routeKey struct{}

// Route sets the name of a request's route. There must be few names, such as the patterns of
// routes.
func Route(r *http.Request, name string) {
	if to, ok := r.Context().Value(routeKey{}).(*string); ok {
		*to = name
	}
}

// Over measures the requests that a handler answers.
func (m *Metrics) Over(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := "other"
		seen := &watched{ResponseWriter: w}
		began := time.Now()
		defer func() {
			code := seen.code
			if code == 0 {
				code = http.StatusOK
			}
			m.requests.WithLabelValues(route, strconv.Itoa(code)).Inc()
			if !seen.flushed {
				m.took.WithLabelValues(route).Observe(time.Since(began).Seconds())
			}
		}()
		h.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), routeKey{}, &route)))
	})
}

// watched notes the status of an answer, and whether it is a stream.
type watched struct {
	http.ResponseWriter
	code    int
	flushed bool
}

// WriteHeader implements http.ResponseWriter.
func (w *watched) WriteHeader(code int) {
	if w.code == 0 || w.code < 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController, and WebSockets.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError is called by http.ResponseController.
func (w *watched) FlushError() error {
	w.flushed = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}
