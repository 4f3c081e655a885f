package server

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/access"
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/identity"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// need is what a route asks for: a verb, about the cluster or about the job that its path names.
type need struct {
	verb access.Verb
	job  bool // asked once the job, or its VC, is known: by find and mayOf
	open bool // needs no token
}

// needs has a row for each route, by its operation. A route without one is refused to all.
var needs = map[string]need{
	"get-health":      {open: true},
	"get-info":        {verb: access.OwnAccount},
	"get-openapi":     {verb: access.OwnAccount},
	"submit-job":      {verb: access.SubmitJob, job: true},
	"validate-job":    {verb: access.SubmitJob, job: true},
	"list-jobs":       {verb: access.SeeJob, job: true},
	"get-job":         {verb: access.SeeJob, job: true},
	"explain-job":     {verb: access.SeeJob, job: true},
	"stop-job":        {verb: access.ChangeJob, job: true},
	"get-job-config":  {verb: access.ReadJob, job: true},
	"list-job-events": {verb: access.ReadJob, job: true},
	"get-task-log":    {verb: access.ReadJob, job: true},
	"exec-in-task":    {verb: access.EnterJob, job: true},
	"connect-to-task": {verb: access.EnterJob, job: true},
	"list-events":     {verb: access.ReadJob, job: true},
	"list-storages":   {verb: access.SeeCluster},
	"list-vcs":        {verb: access.SeeCluster},
	"get-vc":          {verb: access.SeeCluster},
	"list-nodes":      {verb: access.SeeCluster},
	"list-cells":      {verb: access.SeeCluster},
	"cordon-node":     {verb: access.ChangeCluster},
	"uncordon-node":   {verb: access.ChangeCluster},
	"get-config":      {verb: access.ChangeCluster},
	"get-config-file": {verb: access.ChangeCluster},
	"apply-config":    {verb: access.ChangeCluster},
	"validate-config": {verb: access.ChangeCluster},
	"plan-config":     {verb: access.ChangeCluster},
	"list-uploads":    {verb: access.SubmitJob},
	"put-upload":      {verb: access.SubmitJob},
	"list-images":     {verb: access.SeeImages},
	"image-history":   {verb: access.SeeImages},
	"pull-image":      {verb: access.FetchImages},
	"prune-images":    {verb: access.RemoveImages},
}

// Needs returns which routes have a row of rights, as METHOD PATH: for tests of all of them.
func Needs() map[string]bool {
	_, api := build(Options{})
	out := map[string]bool{}
	for path, item := range api.OpenAPI().Paths {
		for _, o := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if o != nil {
				if _, ok := needs[o.OperationID]; ok {
					out[o.Method+" "+path] = true
				}
			}
		}
	}
	return out
}

// askerKey carries the asker in a request's context.
type askerKey struct{}

// asker makes a request: with a credential, which a stream looks at again and again.
type asker struct {
	credential string
	principal  *identity.Principal
	verb       access.Verb
	object     access.Object // of a route about a job, once that is known
}

func askerOf(ctx context.Context) *asker {
	if a, ok := ctx.Value(askerKey{}).(*asker); ok {
		return a
	}
	return &asker{principal: &identity.Principal{}}
}

// principalOf returns the principal of a request; the guard has set it.
func principalOf(ctx context.Context) *identity.Principal { return askerOf(ctx).principal }

// subjectOf returns the name under which a request acts.
func subjectOf(ctx context.Context) sched.Subject { return sched.Subject(principalOf(ctx).User) }

// tables keeps the table of rights of the present configuration.
type tables struct {
	mu    sync.Mutex
	of    *sched.Config
	table *access.Table
}

// rights returns the table of the present configuration.
func (s *Server) rights(ctx context.Context) (*access.Table, error) {
	var c *sched.Config
	if err := s.read(ctx, 0, func(st *sched.State) { c = st.Config() }); err != nil {
		return nil, err
	}
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	if s.tables.table == nil || s.tables.of != c {
		s.tables.of = c
		c = cmp.Or(c, &sched.Config{})
		s.tables.table = access.NewTable(c.Access, c.Cluster.VCs)
	}
	return s.tables.table, nil
}

// may refuses what the asker has no right to. what is said of an object that it may not see.
func (s *Server) may(ctx context.Context, verb access.Verb, o access.Object, hidden error) error {
	table, err := s.rights(ctx)
	if err != nil {
		return err
	}
	p := principalOf(ctx)
	a := table.Allow(p, verb, o)
	if a.OK {
		return nil
	}
	s.noteRefusal(p, verb, o, a.Why)
	if !a.Seen && hidden != nil {
		return hidden
	}
	return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, a.Why)
}

// sight returns which jobs the asker may see; nil is all.
func (s *Server) sight(ctx context.Context) (func(vc cell.VCName, user sched.Subject) bool, error) {
	a := askerOf(ctx)
	if seesAll(a.principal) {
		return nil, nil
	}
	table, err := s.rights(ctx)
	if err != nil {
		return nil, err
	}
	return func(vc cell.VCName, user sched.Subject) bool {
		return table.Allow(a.principal, access.SeeJob, access.Object{VC: vc, Owner: string(user)}).OK
	}, nil
}

// seesAll reports whether nothing is hidden from a principal.
func seesAll(p *identity.Principal) bool { return p.Admin && len(p.Scope.VCs) == 0 }

// mostSeen bounds what a reader of events remembers of jobs.
const mostSeen = 10_000

// sightOfEvents returns the jobs whose events the asker may read; events of no job are for askers from which
// nothing is hidden.
func (s *Server) sightOfEvents(ctx context.Context) (func(sched.JobID) bool, error) {
	a := askerOf(ctx)
	if seesAll(a.principal) {
		return func(sched.JobID) bool { return true }, nil
	}
	var under *access.Table // what is remembered holds for
	seen := map[sched.JobID]bool{}
	return func(id sched.JobID) bool {
		if id == 0 {
			return false
		}
		table, err := s.rights(ctx)
		if err != nil {
			return false
		}
		if under != table || len(seen) >= mostSeen {
			under = table
			clear(seen)
		}
		sees, known := seen[id]
		if !known {
			o, found := s.objectOf(ctx, id)
			sees = found && table.Allow(a.principal, a.verb, o).OK
			seen[id] = sees
		}
		return sees
	}, nil
}

// objectOf returns where a job is and whose it is.
func (s *Server) objectOf(ctx context.Context, id sched.JobID) (o access.Object, found bool) {
	err := s.read(ctx, 0, func(st *sched.State) {
		var spec *sched.Job
		if spec, found = st.Spec(id); found {
			o = access.Object{VC: spec.VC, Owner: string(spec.User)}
		}
	})
	if err != nil || found {
		return o, found && err == nil
	}
	j, found, err := s.store.Job(ctx, id)
	return access.Object{VC: j.VC, Owner: string(j.User)}, found && err == nil
}

// still says why a stream must end: its credential is not valid any more, or its right is gone.
func (s *Server) still(ctx context.Context) *rest.Problem {
	a := askerOf(ctx)
	p, problem := s.principal(ctx, a.credential)
	if problem != nil {
		return problem
	}
	if a.principal = p; a.object == (access.Object{}) {
		return nil
	}
	table, err := s.rights(ctx)
	if err != nil {
		return nil // the state cannot be read now: nothing says that the right is gone
	}
	if answer := table.Allow(p, a.verb, a.object); !answer.OK {
		return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, answer.Why)
	}
	return nil
}

// checkNeed asks for what a route needs before its handler is called. Routes about a job go on: they ask once
// they know it.
func (s *Server) checkNeed(c huma.Context, next func(huma.Context)) {
	n, ok := needs[c.Operation().OperationID]
	if n.open {
		next(c)
		return
	}
	_, w := humago.Unwrap(c)
	if !ok {
		writeProblem(w, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "this route has no rights yet"))
		return
	}
	askerOf(c.Context()).verb = n.verb
	if !n.job {
		if err := s.may(c.Context(), n.verb, access.Object{}, nil); err != nil {
			writeProblem(w, problemOf(s.fail(err)))
			return
		}
	}
	next(c)
}
