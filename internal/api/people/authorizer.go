package people

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Authorizer checks requests against the rights of the present configuration. Its methods may
// be called from any goroutine.
type Authorizer struct {
	People *Directory
	// Read calls its argument with the present state.
	Read func(context.Context, func(*core.State)) error
	// Past returns an ended job.
	Past func(context.Context, model.JobID) (model.JobStatus, bool, error)
	Log  *slog.Logger

	mu       sync.Mutex
	of       *model.Config
	table    *access.Rights
	refusals refusals
}

// askerKey is the key of the asker in a request's context.
type askerKey struct{}

// Asker is the user or token that makes a request. A stream checks its credential again and again.
type Asker struct {
	Credential string
	Principal  *access.Principal
	Verb       access.Verb
	Object     access.Object // of a route about a job, once the job is known
	renewals   int           // counts the calls of CheckStream, after which Reads looks up the rights again
}

// With puts an asker into a request's context.
func With(ctx context.Context, a *Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

// Of returns the asker of a request; without one it returns an asker without rights.
func Of(ctx context.Context) *Asker {
	if a, ok := ctx.Value(askerKey{}).(*Asker); ok {
		return a
	}
	return &Asker{Principal: &access.Principal{}}
}

// Subject returns the name of the user of a request.
func Subject(ctx context.Context) model.Subject { return model.Subject(Of(ctx).Principal.User) }

// SeesAll reports whether the asker sees all jobs and users.
func SeesAll(ctx context.Context) bool {
	p := Of(ctx).Principal
	return p.Admin && len(p.Scope.VCs) == 0
}

// Table returns the table of rights of the present configuration.
func (w *Authorizer) Table(ctx context.Context) (*access.Rights, error) {
	var c *model.Config
	if err := w.Read(ctx, func(st *core.State) { c = st.Config() }); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.table == nil || w.of != c {
		w.of = c
		c = cmp.Or(c, &model.Config{})
		w.table = access.NewRights(c.Access, c.Cluster.VCs)
	}
	return w.table, nil
}

// May refuses what the asker has no right to. The error is hidden where the asker may not
// even learn that the object exists.
func (w *Authorizer) May(ctx context.Context, verb access.Verb, o access.Object, hidden error) error {
	table, err := w.Table(ctx)
	if err != nil {
		return err
	}
	p := Of(ctx).Principal
	a := table.Allow(p, verb, o)
	if a.OK {
		return nil
	}
	w.noteRefusal(ctx, p, verb, o, a.Why)
	if !a.Visible && hidden != nil {
		return hidden
	}
	return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, a.Why)
}

// Notices returns the notices of a request's job to an asker that may read the job, since
// they can contain commands that users ran in it. Else it returns none.
func (w *Authorizer) Notices(ctx context.Context, notices []string) ([]string, error) {
	table, err := w.Table(ctx)
	if a := Of(ctx); err != nil || !table.May(a.Principal, access.ReadJob, a.Object) {
		return nil, err
	}
	return notices, nil
}

// Sight is which jobs a reader may see; nil is all.
type Sight struct {
	table *access.Rights
	p     *access.Principal
}

// Sees reports whether the reader may see jobs of a user in a VC.
func (s *Sight) Sees(vc cell.VCName, user model.Subject) bool {
	return s == nil || s.table.May(s.p, access.SeeJob, access.Object{VC: vc, Owner: string(user)})
}

// Submits reports whether the reader may submit jobs to a VC.
func (s *Sight) Submits(vc cell.VCName) bool {
	return s == nil || s.table.Submits(s.p, vc)
}

// Within returns the VCs, or the user, to which visible jobs are confined; nil is no limit.
// There may be invisible jobs among them.
func (s *Sight) Within() *engine.Within {
	if s == nil {
		return nil
	}
	return &engine.Within{VCs: s.table.Within(s.p, access.SeeJob), User: s.p.User}
}

// Sight returns which jobs the asker may see.
func (w *Authorizer) Sight(ctx context.Context) (*Sight, error) {
	if SeesAll(ctx) {
		return nil, nil
	}
	table, err := w.Table(ctx)
	if err != nil {
		return nil, err
	}
	return &Sight{table: table, p: Of(ctx).Principal}, nil
}

// mostSeen bounds the jobs that a reader of events remembers.
const mostSeen = 10_000

// Reads returns a function that reports for which jobs the asker may use its route, such as
// to read their events. Events about no job are for askers that see all. The function is for
// one goroutine. It follows the rights after each call of CheckStream.
func (w *Authorizer) Reads(ctx context.Context) func(model.JobID) bool {
	a := Of(ctx)
	var table *access.Rights // the remembered jobs are valid for this table
	seen, looks := map[model.JobID]bool{}, -1
	return func(id model.JobID) bool {
		if SeesAll(ctx) { // asked each time, since CheckStream renews the principal
			return true
		}
		if id == 0 {
			return false
		}
		if looks != a.renewals { // not for each event, since reading the state takes a lock
			var err error
			if table, err = w.Table(ctx); err != nil {
				return false
			}
			looks = a.renewals
			clear(seen)
		}
		if len(seen) >= mostSeen {
			clear(seen)
		}
		sees, known := seen[id]
		if !known {
			o, found := w.Object(ctx, id)
			sees = found && table.May(a.Principal, a.Verb, o)
			seen[id] = sees
		}
		return sees
	}
}

// Object returns the VC and the owner of a job.
func (w *Authorizer) Object(ctx context.Context, id model.JobID) (o access.Object, found bool) {
	err := w.Read(ctx, func(st *core.State) {
		var spec *model.Job
		if spec, found = st.Spec(id); found {
			o = access.Object{VC: spec.VC, Owner: string(spec.User)}
		}
	})
	if err != nil || found {
		return o, found && err == nil
	}
	j, found, err := w.Past(ctx, id)
	return access.Object{VC: j.VC, Owner: string(j.User)}, found && err == nil
}

// Principal returns the principal of a token.
func (w *Authorizer) Principal(ctx context.Context, token string) (*access.Principal, *rest.Problem) {
	if token == "" || len(token) > 512 {
		return nil, unauthorized("a token is needed: send it as Authorization: Bearer TOKEN; comb login makes one, and the server's data directory holds one in admin-token")
	}
	p, ok := w.People.Principal(ctx, token)
	if !ok {
		return nil, unauthorized("the token is not valid here, or not any more: sign in again with comb login; the server's data directory holds a valid one in admin-token")
	}
	return p, nil
}

func unauthorized(detail string) *rest.Problem {
	return rest.NewProblem(http.StatusUnauthorized, rest.CodeUnauthorized, detail)
}

// CheckStream says why a stream must end: its credential is no longer valid, or its right is gone.
// nil is that it may go on.
func (w *Authorizer) CheckStream(ctx context.Context) *rest.Problem {
	a := Of(ctx)
	a.renewals++
	p, problem := w.Principal(ctx, a.Credential)
	if problem != nil {
		return problem
	}
	if a.Principal = p; a.Object == (access.Object{}) {
		return nil
	}
	table, err := w.Table(ctx)
	if err != nil {
		return nil // the state cannot be read now, which does not show that the right is gone
	}
	if answer := table.Allow(p, a.Verb, a.Object); !answer.OK {
		return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, answer.Why)
	}
	return nil
}
