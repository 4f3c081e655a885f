package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/pai"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/telemetry"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const (
	maxLogin = 16 << 10 // bytes of the body of a request without a token
	tailed   = "1000"   // lines of a log in OpenPAI's tail mode
)

// openPAI is a server that also implements OpenPAI's API.
type openPAI struct {
	*Server
	pai *pai.Handler
}

// OpenPAI returns a server that answers OpenPAI's clients under /rest-server, and all others
// as before.
func OpenPAI(s *Server) http.Handler {
	return &openPAI{s, pai.New(paiApp{s}, s.opts.People, s.opts.Version)}
}

// ServeHTTP guards OpenPAI's routes as Server.ServeHTTP does its own. It accepts only the
// cookie of a device, when its user signs in.
func (o *openPAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !pai.Speaks(r.URL.Path) {
		o.Server.ServeHTTP(w, r)
		return
	}
	telemetry.Route(r, "rest-server")
	defer o.recover(w, r)
	r = o.opts.Proxies.client(r)
	connOf(r.Context()).answer()
	setSecurityHeaders(w.Header())
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // unless the body is read
	}
	free, who, p := o.readRequest(w, r)
	if p != nil {
		hurry(w, r)
		pai.Refuse(w, p)
		return
	}
	defer free()
	o.pai.Serve(w, r, who)
}

// readRequest admits a request and reads its body. The caller must call free when it is answered.
func (o *openPAI) readRequest(w http.ResponseWriter, r *http.Request) (free func(), who *access.Principal, p *rest.Problem) {
	if r.ProtoMajor != 1 {
		return nil, nil, refusalOf(http.StatusHTTPVersionNotSupported, "")
	}
	if p = o.checkHost(r); p == nil {
		p = checkOrigin(r)
	}
	if p != nil {
		return nil, nil, p
	}
	who = o.pai.Principal(r)
	caller, limit := model.Subject(""), int64(rest.MaxBody)
	switch {
	case who != nil:
		caller = model.Subject(who.User)
	case pai.Open(r):
		caller, limit = model.Subject("address "+people.Network(hostOf(r))), maxLogin // no user has a space in its name
	default: // the request is refused whatever its body is
		hurry(w, r)
		return func() {}, nil, nil
	}
	if free, p = o.bodies.receive(w, r, caller, limit); p == nil {
		w.Header().Del("Connection")
	}
	return free, who, p
}

// paiApp implements pai.App by the server's own functions.
type paiApp struct{ s *Server }

// as is a context in which a principal asks for something about a job.
func as(ctx context.Context, p *access.Principal, verb access.Verb) context.Context {
	return people.With(ctx, &people.Asker{Principal: p, Verb: verb})
}

// cluster is a context in which a principal asks for something about the cluster, or the
// error that it may not.
func (a paiApp) cluster(ctx context.Context, p *access.Principal, verb access.Verb) (context.Context, error) {
	ctx = as(ctx, p, verb)
	return ctx, a.s.authorizer.May(ctx, verb, access.Object{}, nil)
}

// Rights implements pai.App.
func (a paiApp) Rights(ctx context.Context) (*access.Rights, []cell.VCName, error) {
	table, err := a.s.authorizer.Table(ctx)
	if err != nil {
		return nil, nil, err
	}
	vcs := []cell.VCName{}
	err = a.s.read(ctx, 0, func(st *core.State) {
		for _, v := range st.VCs() {
			vcs = append(vcs, v.Name)
		}
	})
	return table, vcs, err
}

// May implements pai.App.
func (a paiApp) May(ctx context.Context, p *access.Principal, verb access.Verb) error {
	_, err := a.cluster(ctx, p, verb)
	return err
}

// Submit implements pai.App.
func (a paiApp) Submit(ctx context.Context, p *access.Principal, file []byte) (model.JobName, error) {
	out, err := a.s.submit(as(ctx, p, access.SubmitJob), &submitInput{ContentType: "text/yaml", RawBody: file})
	if err != nil {
		return "", err
	}
	return out.Body.Name, nil
}

// Jobs implements pai.App.
func (a paiApp) Jobs(ctx context.Context, p *access.Principal, q *rest.JobQuery, each func(*rest.Job) bool) error {
	ctx = as(ctx, p, access.SeeJob)
	in := &listInput{Name: q.Name, Limit: maxPage}
	for _, phase := range q.States {
		in.State = append(in.State, string(phase))
	}
	for _, vc := range q.VCs {
		in.VC = append(in.VC, string(vc))
	}
	for _, user := range q.Users {
		in.User = append(in.User, string(user))
	}
	for more := true; more; {
		err := a.inTurn(ctx, func() error { // a turn for each page
			page, err := a.s.listJobs(ctx, in)
			if err != nil {
				return err
			}
			for i := range page.Body.Jobs {
				if !each(&page.Body.Jobs[i]) {
					more = false
					return nil
				}
			}
			in.Cursor = page.Body.Next
			more = in.Cursor != ""
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inTurn calls look, which is costly, at the asker's turn.
func (a paiApp) inTurn(ctx context.Context, look func() error) error {
	leave, err := awaitTurn(ctx, &a.s.lanes.Look, people.Subject(ctx))
	if err != nil {
		return a.s.fail(err)
	}
	defer leave()
	return look()
}

// Job implements pai.App.
func (a paiApp) Job(ctx context.Context, p *access.Principal, of pai.Ref) (*pai.Job, error) {
	ctx = as(ctx, p, access.SeeJob)
	j, err := a.find(ctx, of)
	if err != nil {
		return nil, err
	}
	spec, _, err := a.s.store.Spec(ctx, j.ID)
	if err != nil {
		return nil, a.s.fail(err)
	}
	one := []rest.Job{j}
	if err := (tags{a.s}).add(ctx, one); err != nil {
		return nil, err
	}
	return &pai.Job{Job: one[0], Spec: spec}, nil
}

// JobConfig implements pai.App.
func (a paiApp) JobConfig(ctx context.Context, p *access.Principal, of pai.Ref) ([]byte, error) {
	out, err := a.s.jobConfig(as(ctx, p, access.ReadJob), &jobRead{Ref: of.String()})
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

// Stop implements pai.App.
func (a paiApp) Stop(ctx context.Context, p *access.Principal, of pai.Ref) error {
	_, err := a.s.stop(as(ctx, p, access.ChangeJob), &stopInput{Ref: of.String()})
	return err
}

// Start implements pai.App.
func (a paiApp) Start(ctx context.Context, p *access.Principal, of pai.Ref) (bool, error) {
	ctx = as(ctx, p, access.ChangeJob)
	j, err := a.find(ctx, of)
	if err == nil && j.Stopping {
		err = rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			"job "+of.String()+" is being stopped, and does not start again: submit it again")
	}
	if err != nil {
		return false, err
	}
	out, err := jobCommands{a.s}.release(ctx, &stopInput{Ref: of.String()})
	if err != nil {
		return false, err
	}
	return !out.Body.Repeated, nil
}

// MayRead implements pai.App.
func (a paiApp) MayRead(ctx context.Context, p *access.Principal, of pai.Ref) error {
	_, err := a.find(as(ctx, p, access.ReadJob), of)
	return err
}

// find is a job, at the asker's turn.
func (a paiApp) find(ctx context.Context, of pai.Ref) (j rest.Job, err error) {
	err = a.inTurn(ctx, func() (err error) {
		j, err = a.s.find(ctx, of.String(), 0)
		return err
	})
	return j, err
}

// History implements pai.App.
func (a paiApp) History(ctx context.Context, p *access.Principal, of pai.Ref) ([]rest.PastAttempt, error) {
	h, err := pastOf(as(ctx, p, access.ReadJob), a.s, &jobRead{Ref: of.String()})
	if err != nil {
		return nil, err
	}
	return h.Body.Attempts, nil
}

// Tag implements pai.App.
func (a paiApp) Tag(ctx context.Context, p *access.Principal, of pai.Ref, tag string, on bool) error {
	j, err := a.find(as(ctx, p, access.ChangeJob), of)
	if err == nil {
		_, err = tags{a.s}.set(ctx, &j, tag, on)
	}
	return err
}

// Events implements pai.App: it returns the first page of a job's events.
func (a paiApp) Events(ctx context.Context, p *access.Principal, of pai.Ref) ([]rest.Event, error) {
	ctx = as(ctx, p, access.ReadJob)
	j, err := a.find(ctx, of)
	if err != nil {
		return nil, err
	}
	var page rest.EventList
	err = a.inTurn(ctx, func() (err error) {
		page, err = jobPage(ctx, a.s, &j, 0)
		return err
	})
	return page.Events, a.s.fail(err)
}

// Log implements pai.App.
func (a paiApp) Log(w http.ResponseWriter, r *http.Request, p *access.Principal, of *pai.LogRef) error {
	ctx := as(r.Context(), p, access.ReadJob)
	in := &logInput{Ref: of.Ref.String(), Role: of.Role, Index: int64(of.Index), Attempt: int64(of.Attempt), Stream: of.Stream}
	if of.Tail {
		in.Tail = tailed
	}
	out, err := a.s.taskLog(ctx, in)
	if err != nil {
		return err
	}
	out.Body(humago.NewContext(&huma.Operation{}, r.WithContext(ctx), w))
	return nil
}

// VCs implements pai.App.
func (a paiApp) VCs(ctx context.Context, p *access.Principal) ([]rest.VCStatus, error) {
	ctx, err := a.cluster(ctx, p, access.SeeCluster)
	if err != nil {
		return nil, err
	}
	var out *body[rest.VCList]
	if err = a.inTurn(ctx, func() (err error) {
		out, err = a.s.listVCs(ctx, &struct{ AfterSeq }{})
		return err
	}); err != nil {
		return nil, err
	}
	return out.Body.VCs, nil
}

// Cells implements pai.App.
func (a paiApp) Cells(ctx context.Context, p *access.Principal) ([]rest.CellStatus, error) {
	ctx, err := a.cluster(ctx, p, access.SeeCluster)
	if err != nil {
		return nil, err
	}
	var out *body[rest.CellList]
	if err = a.inTurn(ctx, func() (err error) {
		out, err = a.s.listCells(ctx, &struct{ AfterSeq }{})
		return err
	}); err != nil {
		return nil, err
	}
	return out.Body.Cells, nil
}

// Nodes implements pai.App.
func (a paiApp) Nodes(ctx context.Context, p *access.Principal) ([]rest.NodeStatus, error) {
	ctx, err := a.cluster(ctx, p, access.SeeCluster)
	if err != nil {
		return nil, err
	}
	var out *body[rest.NodeList]
	if err = a.inTurn(ctx, func() (err error) {
		out, err = a.s.listNodes(ctx, &struct{ AfterSeq }{})
		return err
	}); err != nil {
		return nil, err
	}
	return out.Body.Nodes, nil
}

// Storages implements pai.App.
func (a paiApp) Storages(ctx context.Context, p *access.Principal) ([]rest.StorageStatus, error) {
	ctx, err := a.cluster(ctx, p, access.SeeCluster)
	if err != nil {
		return nil, err
	}
	out, err := a.s.listStorages(ctx, &struct{ AfterSeq }{})
	if err != nil {
		return nil, err
	}
	return out.Body.Storages, nil
}
