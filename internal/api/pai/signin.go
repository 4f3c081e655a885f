package pai

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/engine/store"
)

// login accepts a form, as OpenPAI's clients send it, or the same as JSON.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	form, ok := loginForm(w, r)
	if !ok {
		return
	}
	name := form.Get("username")
	life, err := lifeOf(form.Get("expiration"))
	if err != "" || name == "" {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", "want username, password and expiration, the last in seconds")
		return
	}
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	kept := rest.Tickets(r.Header)
	token, _, fault := h.people.SignIn(r.Context(), name, form.Get("password"),
		people.From{Address: from, Ticket: kept}, life)
	if fault != nil {
		signInFault(w, fault)
		return
	}
	u, fault := h.people.User(name)
	if fault != nil {
		fail(w, fault, codes{missing: noUser})
		return
	}
	if kept = h.people.KeepTicket(kept, name); kept != "" {
		overTLS := r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
		c := rest.DeviceCookie(overTLS, kept, people.TicketLife)
		http.SetCookie(w, &c)
	}
	answer(w, http.StatusOK, map[string]any{"token": token, "user": u.Name, "admin": u.Admin, "hasGitHubPAT": false})
}

// signInFault answers where a password was not accepted.
func signInFault(w http.ResponseWriter, err error) {
	if errors.Is(err, people.ErrSignIn) {
		refuse(w, http.StatusBadRequest, "IncorrectPasswordError", err.Error())
		return
	}
	fail(w, err, codes{missing: noToken})
}

// loginForm reads the fields of a sign-in. On an error it answers the request.
func loginForm(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.EqualFold(strings.TrimSpace(media), "application/json") {
		var in struct {
			Username   string      `json:"username"`
			Password   string      `json:"password"`
			Expiration json.Number `json:"expiration"`
		}
		ok := read(w, r, &in)
		return url.Values{"username": {in.Username}, "password": {in.Password}, "expiration": {in.Expiration.String()}}, ok
	}
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", "the form cannot be read")
		return nil, false
	}
	return r.PostForm, true
}

// lifeOf reads how long a session should last. Too long and too short values become the
// nearest allowed one.
func lifeOf(text string) (life time.Duration, wrong string) {
	if text == "" {
		return people.DefaultSession, ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, text
	}
	n = min(max(n, 60), int64(people.LongestSession/time.Second))
	return time.Duration(n) * time.Second, ""
}

func (h *Handler) logout(w http.ResponseWriter, r *http.Request) {
	p := principalOf(r)
	if err := h.people.Revoke(r.Context(), p.User, p.User, p.Token); err != nil {
		fail(w, err, codes{missing: noToken})
		return
	}
	done(w, http.StatusOK, "Logout successfully")
}

const noToken = "NoTokenError"

// own reports whether a principal has an account of its own and may use it. If not it answers
// the request.
func (h *Handler) own(w http.ResponseWriter, r *http.Request) bool {
	if !h.allowed(w, r, access.OwnAccount) {
		return false
	}
	if principalOf(r).IsUser {
		return true
	}
	refuse(w, http.StatusForbidden, "ForbiddenUserError",
		"the token of the data directory belongs to no user: sign in as one")
	return false
}

// inPerson reports whether a principal has signed in itself. A token that was made for a
// program must not make tokens, end other tokens or change a password. If not it answers the
// request.
func (h *Handler) inPerson(w http.ResponseWriter, r *http.Request) bool {
	if !h.own(w, r) {
		return false
	}
	p := principalOf(r)
	if slices.ContainsFunc(h.people.Tokens(p.User), func(t store.Token) bool { return t.ID == p.Token && t.Kind == access.Session }) {
		return true
	}
	refuse(w, http.StatusForbidden, "ForbiddenUserError", "Applications are not allowed to do this operation: sign in with a password.")
	return false
}

// listTokens answers with the ids of a user's tokens, since their texts are not kept.
func (h *Handler) listTokens(w http.ResponseWriter, r *http.Request) {
	if !h.own(w, r) {
		return
	}
	ids := []string{}
	for _, t := range h.people.Tokens(principalOf(r).User) {
		ids = append(ids, t.ID)
	}
	answer(w, http.StatusOK, map[string]any{"tokens": ids})
}

func (h *Handler) createToken(w http.ResponseWriter, r *http.Request) {
	p := principalOf(r)
	token, _, err := h.people.CreateToken(r.Context(), p.User,
		people.NewToken{User: p.User, Name: "openpai", Scope: p.Scope})
	if err != nil {
		fail(w, err, codes{missing: noUser, conflict: "ForbiddenUserError"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"token": token, "application": true})
}

// revokeToken takes a token's id or its text.
func (h *Handler) revokeToken(w http.ResponseWriter, r *http.Request) {
	if !h.own(w, r) {
		return
	}
	p, id := principalOf(r), r.PathValue("token")
	if of, ok := h.people.Principal(r.Context(), id); ok && of.IsUser && of.User == p.User {
		id = of.Token
	}
	if id != p.Token && !h.inPerson(w, r) {
		return
	}
	if !slices.ContainsFunc(h.people.Tokens(p.User), func(t store.Token) bool { return t.ID == id }) {
		refuse(w, http.StatusForbidden, "ForbiddenUserError", "None of your tokens has this id.")
		return
	}
	if err := h.people.Revoke(r.Context(), p.User, p.User, id); err != nil {
		fail(w, err, codes{missing: noToken})
		return
	}
	done(w, http.StatusOK, "revoke successfully")
}
