package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core/access"
)

// Client is the address of a request's client.
func (p Proxies) Client(r *http.Request) string { return hostOf(p.client(r)) }

// Lanes are where requests wait for their turn.
func (s *Server) Lanes() map[string]*limiter.Limiter {
	l := s.lanes
	return map[string]*limiter.Limiter{"look": &l.Look, "think": &l.Think, "plan": &l.Plan, "pack": &l.Pack}
}

// Need is a row of rights.
type Need struct {
	Verb      access.Verb
	Job, Open bool
}

// Needs returns the routes that have a row of rights, as METHOD PATH.
func Needs() map[string]Need {
	_, api := build(Options{})
	out := map[string]Need{}
	for path, item := range api.OpenAPI().Paths {
		for _, o := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if o == nil {
				continue
			}
			if n, ok := requiredRights[o.OperationID]; ok {
				out[o.Method+" "+path] = Need{n.verb, n.job, n.open}
			}
		}
	}
	return out
}

// Instant is how an end is told.
var Instant = instant
