package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
)

// ProfilesPath is below which Profiles answers.
const ProfilesPath = "/debug/pprof/"

// longestProfile bounds for how long one profile or trace may watch the process.
const longestProfile = 5 * time.Minute

// ListenProfiles opens a listener for Profiles. Only this machine itself may reach it.
func ListenProfiles(ctx context.Context, at string) (net.Listener, error) {
	if err := CheckProfiles(at); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", at, rootOf(err))
	}
	return l, nil
}

// CheckProfiles says what is wrong with an address for profiles.
func CheckProfiles(at string) error {
	host, _, err := net.SplitHostPort(at)
	if err != nil || !rest.Loopback(host) {
		return fmt.Errorf("%q: want an address that only this machine reaches, such as 127.0.0.1:6060, since profiles "+
			"show what the server does; from another machine use a tunnel (ssh -L, kubectl port-forward)", at)
	}
	return nil
}

// Profiles returns the HTTP server of Go's profiles of this process. It lets in the tokens of
// administrators alone, and no cookies.
func Profiles(s *Server) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc(ProfilesPath, pprof.Index)
	mux.HandleFunc(ProfilesPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(ProfilesPath+"profile", pprof.Profile)
	mux.HandleFunc(ProfilesPath+"symbol", pprof.Symbol)
	mux.HandleFunc(ProfilesPath+"trace", pprof.Trace)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if p := mayProfile(s, r); p != nil {
				writeProblem(w, p)
				return
			}
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// mayProfile says why a request gets no profile; nil when it does.
func mayProfile(s *Server, r *http.Request) *rest.Problem {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		token = ""
	}
	ctx := people.WithClientAddress(r.Context(), hostOf(r))
	principal, p := s.authorizer.Principal(ctx, token)
	if p != nil {
		return p
	}
	ctx = people.With(ctx, &people.Asker{Credential: token, Principal: principal})
	err := s.authorizer.May(ctx, access.SeeMetrics, access.Object{}, nil)
	switch {
	case errors.As(err, &p):
		return p
	case err != nil:
		return rest.NewProblem(http.StatusInternalServerError, rest.CodeInternal,
			"the right to profiles cannot be looked up: try again")
	}
	seconds, err := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64)
	if most := longestProfile.Seconds(); err == nil && !(seconds <= most) { // also where it is no number
		return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid,
			fmt.Sprintf("seconds: want at most %.0f", most))
	}
	return nil
}
