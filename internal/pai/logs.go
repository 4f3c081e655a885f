package pai

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A client follows the address of a log without its token, as a page that is opened in a browser. So the address has a
// ticket: for that one log, for a short time, and only as long as the token is valid for which it was made.
const (
	ticketPath  = "/logs/"
	ticketLife  = 10 * time.Minute
	mostTickets = 10_000
)

// streams are a task's logs, by their names in OpenPAI.
var streams = []string{"stdout", "stderr"}

type ticket struct {
	token string // the token's text: its right is asked for again
	log   LogRef
	until time.Time
}

// tickets are kept in memory alone; the zero value is ready.
type tickets struct {
	mu  sync.Mutex
	all map[string]ticket
}

// give makes a ticket.
func (t *tickets) give(one ticket) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]ticket{}
	}
	if len(t.all) >= mostTickets {
		t.drop(time.Now())
	}
	name := rand.Text()
	t.all[name] = one
	return name
}

// drop forgets what is over; where nothing is, what ends first. The mutex is held.
func (t *tickets) drop(now time.Time) {
	first := ""
	for name, one := range t.all {
		switch {
		case now.After(one.until):
			delete(t.all, name)
		case first == "" || one.until.Before(t.all[first].until):
			first = name
		}
	}
	if len(t.all) >= mostTickets {
		delete(t.all, first)
	}
}

func (t *tickets) of(name string) (ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.all[name]
	return one, ok && time.Now().Before(one.until)
}

// logRef returns the log that a path names. Where there is none, the request is answered.
func (h *Handler) logRef(w http.ResponseWriter, r *http.Request) (*LogRef, bool) {
	j, i, ok := h.theTask(w, r)
	if !ok {
		return nil, false
	}
	t := &j.Tasks[i]
	run, err := strconv.ParseInt(r.PathValue("run"), 10, 32)
	if err != nil || run < 0 || int32(run) >= t.Attempt {
		refuse(w, http.StatusNotFound, "NoTaskLogError", fmt.Sprintf("Log of attempt %s of task %s-%d is not found.", clip(r.PathValue("run")), t.Role, t.Index))
		return nil, false
	}
	query := r.URL.Query()
	return &LogRef{Ref: Ref{string(j.User), string(j.Name)}, Role: t.Role, Index: t.Index, Attempt: int32(run) + 1,
		Tail: query.Get("tailMode") == "true" || query.Get("tail-mode") == "true"}, true
}

// logPath is where a task's logs are listed.
func logPath(j *Job, role string, index, attempt int32) string {
	return fmt.Sprintf("%s/jobs/%s~%s/attempts/%d/taskRoles/%s/taskIndex/%d/attempts/%d/logs", Prefix, j.User, j.Name, j.Retry, role, index, attempt)
}

func (h *Handler) taskLogs(w http.ResponseWriter, r *http.Request) {
	ref, ok := h.logRef(w, r)
	if !ok {
		return
	}
	type location struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	all := []location{}
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") { // the address goes back to the client alone: nothing is believed of it
		scheme = "https"
	}
	for _, s := range streams {
		ref.Stream = s
		name := h.tickets.give(ticket{tokenOf(r), *ref, time.Now().Add(ticketLife)})
		all = append(all, location{s, scheme + "://" + r.Host + Prefix + ticketPath + name})
	}
	answer(w, http.StatusOK, map[string]any{"locations": all})
}

// taskLog answers with a log itself.
func (h *Handler) taskLog(w http.ResponseWriter, r *http.Request) {
	ref, ok := h.logRef(w, r)
	if !ok {
		return
	}
	ref.Stream = r.PathValue("stream")
	if ref.Stream != "stdout" && ref.Stream != "stderr" {
		refuse(w, http.StatusNotFound, "NoTaskLogError", "Log "+clip(ref.Stream)+" is not found: there are stdout and stderr.")
		return
	}
	if err := h.app.Log(w, r, principalOf(r), ref); err != nil {
		fail(w, err, codes{missing: "NoTaskLogError", conflict: "NoTaskLogError"})
	}
}

func (h *Handler) ticketLog(w http.ResponseWriter, r *http.Request) {
	t, ok := h.tickets.of(r.PathValue("ticket"))
	if ok {
		if p, valid := h.people.Principal(r.Context(), t.token); valid {
			if err := h.app.Log(w, r, p, &t.log); err != nil {
				fail(w, err, codes{missing: "NoTaskLogError", conflict: "NoTaskLogError"})
			}
			return
		}
	}
	refuse(w, http.StatusNotFound, "NoTaskLogError", "This address of a log is not valid any more: ask for the task's logs again.")
}
