// Package link carries what a task's pod and the server say to each other: the pod fetches its
// job's code, and reports the task's progress. It must not know pods or jobs; its caller supplies
// what is asked for.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// Bounds: tasks are not trusted.
const (
	maxTold    = 64 << 10 // bytes of progress in a request
	maxCode    = 32       // downloads of code at the same time
	maxLogs    = 64       // parts of logs that come at the same time
	logsAtOnce = 8        // of these that are written at the same time
	logTime    = 5 * time.Second
	maxConns   = 8192
	codeTime   = 30 * time.Second // for a download, and a second more for each codeRate
	codeRate   = 256 << 10        // bytes
	headerTime = 10 * time.Second
)

// Keys of values in the context of a request.
type (
	callerKey struct{} // its *caller
	podKey    struct{} // the name of the pod that asks
)

// ErrNoTask says that there is no such task, or not what it asked for.
var ErrNoTask = errors.New("there is nothing for this task")

// ErrSoon says that a task asks too soon or too often. The server is there, and has not looked
// into the request.
var ErrSoon = errors.New("it is too soon: ask again in a second")

// Handler answers pods. A pod speaks for itself alone.
type Handler struct {
	// Admit says whether a token is that of the pod of a name, and of a task that still exists:
	// ErrToken, ErrNoTask, ErrSoon where that is not known yet, or why it cannot be told now.
	Admit func(ctx context.Context, pod, token string) error
	// Code opens the code of a pod's job, and returns its size in bytes.
	Code func(pod string) (io.ReadCloser, int64, error)
	// Gang returns the addresses of the tasks of a pod's gang, by the host names that they were
	// given for each other. ErrSoon: one has no address yet.
	Gang func(pod string) (map[string]string, error)
	// Members returns which tasks of a pod's job run. ErrSoon: it is not known yet.
	Members func(pod string) (executor.Membership, error)
	// Told takes lines of progress; the last may be incomplete.
	Told func(pod string, lines []byte) error
	// Took takes what a pod's task used lately.
	Took func(pod string, u Usage) error
	// Log takes some of what a pod's task printed, and returns up to where its output is kept. The
	// text is the caller's when it returns.
	Log func(pod string, b LogBlock) (kept int64, err error)
	// Turn takes how far a pod's task is with its turns, and returns the rotation.
	Turn func(pod string, ask TurnReport) (TurnAnswer, error)
}

// TurnReport is what a task reports of its turns.
type TurnReport struct {
	Has   string `json:"has,omitempty"`   // the Is of its rotation; "": the one it was started with
	Holds bool   `json:"holds,omitempty"` // it may be using its devices: it is not suspended
	Wants bool   `json:"wants,omitempty"` // it has its turn, and asks to run
	Why   string `json:"why,omitempty"`   // why it is being stopped: it was not suspended in time
}

// TurnAnswer is the answer.
type TurnAnswer struct {
	Is       string          `json:"is"`
	Rotation *model.Rotation `json:"rotation,omitempty"` // nil: unchanged; without turns it runs all the time
	Enter    bool            `json:"enter,omitempty"`    // it may run: the other turns are suspended
	// Guard is how long the tasks of the other turns may take to be suspended. A task that gets
	// no more answers waits that long.
	Guard model.Duration `json:"guard,omitempty"`
}

// LongestLog is how much of a log is sent at a time, in bytes.
const LongestLog = 256 << 10

// LogBlock is some of what a task printed.
type LogBlock struct {
	From int64     // where it begins in all that the task printed, in bytes
	At   time.Time // when its last byte was printed, by the clock of its node
	Last bool      // nothing follows
	Text []byte
}

// logAnswer says up to where a log is kept.
type logAnswer struct {
	Kept int64 `json:"kept"`
}

// Usage is what a task used in the seconds before it is sent.
type Usage struct {
	CPU      int64 `json:"cpu"` // thousandths of a CPU
	MemoryMB int64 `json:"memory_mb"`
	Read     int64 `json:"read"` // bytes a second
	Written  int64 `json:"written"`
}

// Serve answers on a listener until ctx is done.
func (h *Handler) Serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
	return h.serve(ctx, newCallers(netutil.LimitListener(l, maxConns), log, usual), log)
}

func (h *Handler) serve(ctx context.Context, l *tokenListener, log *slog.Logger) error {
	slots, fetching := make(chan struct{}, maxCode), &oneEach{of: map[string]bool{}}
	mux := http.NewServeMux()
	route := func(pattern string, then podHandler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { then(w, r, r.Context().Value(podKey{}).(string)) })
	}
	route("GET /v1/code", func(w http.ResponseWriter, _ *http.Request, pod string) {
		if !fetching.enters(pod) {
			fail(w, ErrSoon)
			return
		}
		defer fetching.leaves(pod)
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			h.code(w, pod)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many pods fetch their code: ask again", http.StatusServiceUnavailable)
		}
	})
	route("GET /v1/gang", func(w http.ResponseWriter, _ *http.Request, pod string) { tell(w, pod, h.Gang) })
	route("GET /v1/members", h.members)
	route("POST /v1/progress", h.told)
	route("POST /v1/usage", h.took)
	route("POST /v1/turn", h.turn)
	logs := newLogTaker(h.Log)
	route("POST "+logPath, logs.take)
	asks := newPace(time.Now, askEvery, askAtOnce)
	s := &http.Server{Handler: h.known(asks, logs.pace, mux), DisableGeneralOptionsHandler: true, // nothing is answered without a token
		ReadHeaderTimeout: l.header, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, callerKey{}, c) },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// podHandler answers a pod.
type podHandler = func(w http.ResponseWriter, r *http.Request, pod string)

// known lets in pods that show their token, each on few connections and at a bounded rate. It
// stands before all routes: a connection without a token ends with its first request. Where the
// connection has shown the pod's token before, the rate is looked at first: what a pod asks beyond
// it costs no look at the token. Elsewhere the name may be another's.
func (h *Handler) known(asks, logs *pace, then http.Handler) http.HandlerFunc {
	slow := func(r *http.Request, pod string) bool {
		if r.URL.Path == logPath { // they have a pace of their own
			return !logs.allows(pod, leastLog)
		}
		return !asks.allows(pod, 1)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(callerKey{}).(*caller)
		// A pod that does not read its answer holds nothing for long.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(3 * c.of.header))
		if r.ContentLength != 0 { // also of unknown length: no body is waited for
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.of.header))
		}
		shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		pod, token, _ := strings.Cut(shown, ":")
		proven := c.proven(pod)
		if proven && slow(r, pod) {
			fail(w, ErrSoon)
			return
		}
		err := ErrToken
		if pod != "" {
			err = h.Admit(r.Context(), pod, token)
		}
		switch {
		case err != nil:
			w.Header().Set("Connection", "close")
			fail(w, err)
		case !c.shows(pod):
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("this pod has %d connections, and may have no more: use those, or close one", c.of.pod), http.StatusTooManyRequests)
		case !proven && slow(r, pod):
			fail(w, ErrSoon)
		default:
			if c.of.crowded() {
				w.Header().Set("Connection", "close")
			}
			then.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), podKey{}, pod)))
		}
	}
}

func (h *Handler) code(w http.ResponseWriter, pod string) {
	file, size, err := h.Code(pod)
	if err != nil {
		fail(w, err)
		return
	}
	defer file.Close()
	within := codeTime + time.Duration(size/codeRate)*time.Second // others wait for its place
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	_, _ = io.Copy(w, file) // a pod that got less asks again
}

// members answers with the members of a pod's job, unless the pod has that version.
func (h *Handler) members(w http.ResponseWriter, r *http.Request, pod string) {
	now, err := h.Members(pod)
	if err == nil && r.URL.Query().Get("has") == strconv.FormatInt(now.Version, 10) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	tell(w, pod, func(string) (executor.Membership, error) { return now, err })
}

// tell answers with the result of ask.
func tell[T any](w http.ResponseWriter, pod string, ask func(string) (T, error)) {
	known, err := ask(pod)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(known) // a pod that got less asks again
}

func (h *Handler) told(w http.ResponseWriter, r *http.Request, pod string) {
	lines, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTold))
	if err != nil {
		http.Error(w, "progress is at most 64 KiB at a time", http.StatusRequestEntityTooLarge)
		return
	}
	if err := h.Told(pod, lines); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) took(w http.ResponseWriter, r *http.Request, pod string) {
	var u Usage
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1024)).Decode(&u); err != nil || min(u.CPU, u.MemoryMB, u.Read, u.Written) < 0 {
		http.Error(w, "usage is an object of four numbers from 0 up", http.StatusBadRequest)
		return
	}
	if err := h.Took(pod, u); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) turn(w http.ResponseWriter, r *http.Request, pod string) {
	var ask TurnReport
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&ask); err != nil {
		http.Error(w, "how far it is with its turns is an object", http.StatusBadRequest)
		return
	}
	tell(w, pod, func(pod string) (TurnAnswer, error) { return h.Turn(pod, ask) })
}

func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrToken):
		http.Error(w, ErrToken.Error(), http.StatusUnauthorized)
	case errors.Is(err, ErrNoTask):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, ErrSoon):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	default:
		http.Error(w, "it cannot be done now: ask again", http.StatusServiceUnavailable)
	}
}
