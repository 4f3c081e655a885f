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

// A client opens the address of a log without its token, like a page in a browser. So the
// address contains a ticket. A ticket is for that log only, for a short time, and valid only
// while the token is for which it was made.
const (
	ticketPath  = "/logs/"
	ticketLife  = 10 * time.Minute
	mostTickets = 10_000 // of all users
	userTickets = 2_000  // of one user
)

// streams are a task's logs, by OpenPAI's names.
var streams = []string{"stdout", "stderr"}

type ticket struct {
	token string // text of the token, whose right is checked again
	log   LogRef
	until time.Time
}

// tickets are kept in memory; the zero value is ready. A user that asks for too many
// addresses loses its own oldest tickets. Where tickets of all users are too many, the user
// that has most loses its oldest.
type tickets struct {
	mu  sync.Mutex
	all map[string]ticket
	of  map[string][]string // by user, oldest first: they end in this order
}

// give makes a ticket for a user.
func (t *tickets) give(user string, one ticket) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all, t.of = map[string]ticket{}, map[string][]string{}
	}
	if len(t.of[user]) >= userTickets {
		t.end(user)
	}
	if len(t.all) >= mostTickets {
		t.room(time.Now())
	}
	name := rand.Text()
	t.all[name] = one
	t.of[user] = append(t.of[user], name)
	return name
}

// end drops a user's oldest ticket. The mutex is held.
func (t *tickets) end(user string) {
	delete(t.all, t.of[user][0])
	if t.of[user] = t.of[user][1:]; len(t.of[user]) == 0 {
		delete(t.of, user)
	}
}

// room drops expired tickets; where there is none, the oldest one of the user that has most.
// The mutex is held.
func (t *tickets) room(now time.Time) {
	most := ""
	for user := range t.of {
		for len(t.of[user]) > 0 && now.After(t.all[t.of[user][0]].until) {
			t.end(user)
		}
		if n := len(t.of[user]); n > len(t.of[most]) || n > 0 && n == len(t.of[most]) && user < most {
			most = user
		}
	}
	if len(t.all) >= mostTickets {
		t.end(most)
	}
}

func (t *tickets) find(name string) (ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.all[name]
	return one, ok && time.Now().Before(one.until)
}

// logRef returns the log that a path names. Where there is none, or the asker may not read
// it, it answers the request.
func (h *Handler) logRef(w http.ResponseWriter, r *http.Request) (*LogRef, bool) {
	j, i, ok := h.theTask(w, r)
	if !ok {
		return nil, false
	}
	if err := h.app.MayRead(r.Context(), principalOf(r), Ref{string(j.User), string(j.Name)}); err != nil {
		fail(w, err, aboutJob)
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

// logPath is the path at which a task's logs are listed.
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
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") { // only the client itself gets the address
		scheme = "https"
	}
	for _, s := range streams {
		ref.Stream = s
		name := h.tickets.give(principalOf(r).User, ticket{tokenOf(r), *ref, time.Now().Add(ticketLife)})
		all = append(all, location{s, scheme + "://" + r.Host + Prefix + ticketPath + name})
	}
	answer(w, http.StatusOK, map[string]any{"locations": all})
}

// taskLog answers with a log.
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
	t, ok := h.tickets.find(r.PathValue("ticket"))
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
