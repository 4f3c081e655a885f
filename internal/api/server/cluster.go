package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
)

func (s *Server) registerCluster(api huma.API) {
	get := func(id, path, summary string) huma.Operation {
		return operation(api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"cluster"}})
	}
	huma.Register(api, get("list-storages", "/storages", "List storages that jobs may name"), s.listStorages)
	huma.Register(api, get("list-vcs", "/vcs", "List virtual clusters"), s.listVCs)
	huma.Register(api, get("get-vc", "/vcs/{name}", "One virtual cluster"), s.getVC)
	huma.Register(api, get("list-nodes", "/nodes", "List nodes"), s.listNodes)
	huma.Register(api, get("list-cells", "/cells", "The physical cells as a tree"), s.listCells)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "cordon-node", Method: http.MethodPost, Path: "/nodes/{name}/cordon",
		Summary: "Take a node out of placement; what runs there goes on", Tags: []string{"cluster"},
	}), nodes{s}.cordon(true))
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "uncordon-node", Method: http.MethodPost, Path: "/nodes/{name}/uncordon",
		Summary: "Take a node back into placement", Tags: []string{"cluster"},
	}), nodes{s}.cordon(false))
	nodes{s}.register(api)
}

func (s *Server) listStorages(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.StorageList], error) {
	out := rest.StorageList{Storages: []rest.StorageStatus{}}
	table, err := s.authorizer.Table(ctx)
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, in.after(), func(st *core.State) {
		c := st.Config()
		if c == nil {
			return
		}
		for _, one := range c.Storages {
			if !people.SeesAll(ctx) && !slices.ContainsFunc(c.Cluster.VCs, func(v cell.VCSpec) bool {
				return one.For(model.VCAndParents(c.Cluster.VCs, v.Name)) && table.Allow(people.Of(ctx).Principal, access.SubmitJob, access.Object{VC: v.Name}).OK
			}) {
				continue
			}
			out.Storages = append(out.Storages, rest.StorageStatus{Name: one.Name, Variable: model.StorageVariable(one.Name),
				ReadOnly: one.ReadOnly, PerUser: one.PerUser, VCs: append([]cell.VCName{}, one.VCs...)})
		}
	})
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

func (s *Server) listVCs(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.VCList], error) {
	var out rest.VCList
	err := s.read(ctx, in.after(), func(st *core.State) { out.VCs = rest.VCsOf(st.VCs()) })
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

type namedRead struct {
	AfterSeq
	Name string `path:"name"`
}

func (s *Server) getVC(ctx context.Context, in *namedRead) (*body[rest.VCStatus], error) {
	if err := checkName("virtual cluster", in.Name); err != nil {
		return nil, err
	}
	var found *rest.VCStatus
	err := s.read(ctx, in.after(), func(st *core.State) {
		for _, vc := range st.VCs() {
			if vc.Name == cell.VCName(in.Name) {
				of := rest.VCOf(&vc)
				found = &of
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, notFound("no virtual cluster %q; see comb vc list", in.Name)
	}
	return answer(*found), nil
}

func (s *Server) listNodes(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.NodeList], error) {
	out := rest.NodeList{Runtime: s.opts.Runtime}
	if !people.SeesAll(ctx) {
		out.Runtime = plainRuntime(out.Runtime)
	}
	err := s.read(ctx, in.after(), func(st *core.State) { out.Nodes = rest.NodesOf(st.Nodes()) })
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

// plainRuntime cuts from the name of the runtime its address and its problems, which are for
// administrators.
func plainRuntime(text string) string {
	for _, more := range []string{" (", ": ", "; "} {
		text, _, _ = strings.Cut(text, more)
	}
	return text
}

func (s *Server) listCells(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.CellList], error) {
	var out rest.CellList
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, in.after(), func(st *core.State) {
		out.Cells = rest.CellsOf(st.Cells())
		if sight != nil {
			hideJobs(st, out.Cells, sight)
		}
		out.Names = cellJobs(st, out.Cells, people.Subject(ctx), nil)
	})
	if err != nil {
		return nil, err
	}
	out.Names = sortedNames(out.Names)
	return answer(out), nil
}

// hideJobs removes from cells the jobs that the asker may not see.
func hideJobs(st *core.State, cells []rest.CellStatus, sight *people.Sight) {
	for i := range cells {
		if spec, ok := st.Spec(cells[i].Job); !ok || !sight.Sees(spec.VC, spec.User) {
			cells[i].Job = 0
		}
		hideJobs(st, cells[i].Children, sight)
	}
}

// cellJobs collects the names of the jobs that hold leaves. The depth is that of the
// cluster's own levels.
func cellJobs(st *core.State, cells []rest.CellStatus, reader model.Subject, names []rest.NamedJob) []rest.NamedJob {
	for _, c := range cells {
		if c.Job != 0 {
			names = appendName(st, names, reader, c.Job)
		}
		names = cellJobs(st, c.Children, reader, names)
	}
	return names
}

func appendName(st *core.State, names []rest.NamedJob, reader model.Subject, id model.JobID) []rest.NamedJob {
	if n := len(names); n > 0 && names[n-1].ID == id {
		return names
	}
	if spec, ok := st.Spec(id); ok && st.HidesName(spec) {
		name := fmt.Sprint("job ", id)
		names = append(names, rest.NamedJob{ID: id, Name: model.JobName(name), Ref: name, VC: spec.VC})
	} else if ok {
		names = append(names, namedJob(reader, id, spec))
	}
	return names
}

// namedJob is the name of a job for a reader.
func namedJob(reader model.Subject, id model.JobID, j *model.Job) rest.NamedJob {
	return rest.NamedJob{ID: id, Name: j.Name, User: j.User, Ref: j.Name.ShownTo(reader, j.User), VC: j.VC}
}

type cordonInput struct {
	Meta
	Name string              `path:"name"`
	Body *rest.CordonRequest `required:"false"`
}

// nodes has the routes about single nodes.
type nodes struct{ *Server }

type drainInput struct {
	Meta
	Name string             `path:"name"`
	Body *rest.DrainRequest `required:"false"`
}

type deadInput struct {
	Meta
	Name string `path:"name"`
	Body rest.DeadRequest
}

func (s nodes) register(api huma.API) {
	op := func(id, method, path, summary string) huma.Operation {
		return operation(api, huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"cluster"}})
	}
	huma.Register(api, op("get-node", http.MethodGet, "/nodes/{name}", "One node with what runs there"), s.get)
	huma.Register(api, op("drain-node", http.MethodPost, "/nodes/{name}/drain", "Take a node out of placement, and have what runs there leave it"),
		func(ctx context.Context, in *drainInput) (*body[rest.Done], error) {
			var r rest.DrainRequest
			if in.Body != nil {
				r = *in.Body
			}
			return s.change(ctx, target{&in.Meta, "drain", in.Name, r}, func(m model.Meta, name cell.NodeName) model.Command {
				return model.Cordon{Meta: m, Node: name, On: true, Drain: s.opts.Now().Add(r.Within), Reason: r.Reason}
			})
		})
	huma.Register(api, op("plan-drain", http.MethodPost, "/nodes/{name}/drain:plan",
		"Say what a drain would do to each job, and change nothing"), s.plan)
	huma.Register(api, op("declare-node-dead", http.MethodPost, "/nodes/{name}/declare-dead", "Say that a node is dead: what is unknown there counts as ended"),
		func(ctx context.Context, in *deadInput) (*body[rest.Done], error) {
			return s.change(ctx, target{&in.Meta, "declare-dead", in.Name, in.Body}, func(m model.Meta, name cell.NodeName) model.Command {
				return model.DeclareDead{Meta: m, Node: name, Reason: in.Body.Reason}
			})
		})
}

type drainPlanInput struct {
	Name string             `path:"name"`
	Body *rest.DrainRequest `required:"false"`
}

// plan drains a node in a copy of the state and runs that forward.
func (s nodes) plan(ctx context.Context, in *drainPlanInput) (*body[rest.DrainPlanned], error) {
	if err := checkName("node", in.Name); err != nil {
		return nil, err
	}
	var r rest.DrainRequest
	if in.Body != nil {
		r = *in.Body
	}
	out := rest.DrainPlanned{}
	var refusal *model.Refusal
	err := s.think(ctx, 0, func(st *core.State) {
		c := model.Cordon{Node: cell.NodeName(in.Name), On: true, Drain: s.opts.Now().Add(r.Within), Reason: r.Reason}
		var p *model.DrainPlan
		if p, refusal = st.PlanDrain(c); refusal == nil {
			p.Say(people.Subject(ctx), instant)
			out.DrainPlan = *p
		}
	})
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, refusalProblem(refusal)
	}
	return answer(out), nil
}

func (s nodes) cordon(on bool) func(context.Context, *cordonInput) (*body[rest.Done], error) {
	return func(ctx context.Context, in *cordonInput) (*body[rest.Done], error) {
		reason := ""
		if in.Body != nil {
			reason = in.Body.Reason
		}
		return s.change(ctx, target{&in.Meta, "cordon", in.Name, []any{on, reason}}, func(m model.Meta, name cell.NodeName) model.Command {
			return model.Cordon{Meta: m, Node: name, On: on, Reason: reason}
		})
	}
}

// change gives a command about a node.
func (s nodes) change(ctx context.Context, in target, command func(model.Meta, cell.NodeName) model.Command) (*body[rest.Done], error) {
	if err := checkName("node", in.ref); err != nil {
		return nil, err
	}
	over := ""
	out, err := s.Server.command(ctx, in, func(m model.Meta) (model.Command, *engine.Audit, error) {
		c := command(m, cell.NodeName(in.ref))
		err := s.read(ctx, 0, func(st *core.State) {
			for _, n := range st.Nodes() {
				if string(n.Name) == in.ref {
					over = drainOver(c, &n)
				}
			}
		})
		return c, lineOfNode(ctx, s.opts.People, c, in.ref, over), err
	})
	if err == nil && over != "" {
		out.Body.Effects = append(slices.Clip(out.Body.Effects), over)
	}
	return out, err
}

func (s nodes) get(ctx context.Context, in *namedRead) (*body[rest.Node], error) {
	if err := checkName("node", in.Name); err != nil {
		return nil, err
	}
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return nil, err
	}
	out := rest.Node{Jobs: []rest.NodeJob{}}
	found := false
	err = s.read(ctx, in.after(), func(st *core.State) {
		for _, n := range st.Nodes() {
			if string(n.Name) == in.Name {
				out.NodeStatus, found = rest.NodeOf(&n), true
			}
		}
		for _, on := range st.On(cell.NodeName(in.Name)) {
			spec, ok := st.Spec(on.Job)
			if !ok || sight != nil && !sight.Sees(spec.VC, spec.User) {
				out.Hidden++
				continue
			}
			out.Jobs = append(out.Jobs, rest.NodeJob{NamedJob: namedJob(people.Subject(ctx), on.Job, spec), Attempt: on.Attempt, State: on.State, Leaves: on.Leaves})
		}
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound("no node %q; see comb node list", in.Name)
	}
	return answer(out), nil
}

// images has the routes about the machine's images.
type images struct {
	*Server
	store executor.Images // nil where tasks do not run from images
}

// pullWait is how long one request waits for an image; its client then asks again.
const pullWait = 15 * time.Second

func (m images) register(api huma.API) {
	op := func(id, method, path, summary string, more ...int) huma.Operation {
		return operation(api, huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"images"}}, more...)
	}
	huma.Register(api, op("list-images", http.MethodGet, "/images", "The images of the machine that runs tasks"),
		m.list)
	huma.Register(api, op("image-history", http.MethodGet, "/images:history", "The steps that made an image"),
		m.history)
	huma.Register(api, op("pull-image", http.MethodPost, "/images:pull",
		"Fetch an image without credentials; it goes on when the answer says that it is not done"), m.pull)
	m.registerBuild(api)
	huma.Register(api, op("prune-images", http.MethodPost, "/images:prune",
		"Remove images that Comb fetched and nothing uses, the least recently used first"), m.prune)
}

// registerBuild registers the route that answers line by line.
func (m images) registerBuild(api huma.API) {
	line := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[rest.BuildLine](), true, "")
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "build-image", Method: http.MethodPost, Path: "/images:build", Tags: []string{"images"},
		Summary:     "Build an image from a Dockerfile; it ends with the request",
		Description: "The answer has a JSON value in each line while it is built, and empty lines as signs of life; the last value has the image's `id`, or the `problem`.",
		Responses:   map[string]*huma.Response{"200": {Description: "What is printed", Content: map[string]*huma.MediaType{rest.MediaLines: {Schema: line}}}},
	}), func(ctx context.Context, in *struct{ Body rest.ImageBuild }) (*huma.StreamResponse, error) {
		if err := m.there(); err != nil {
			return nil, err
		}
		done, p := m.openStream(ctx)
		if p != nil {
			return nil, withHeaders(p)
		}
		b := imageBuilder{Images: m.store, Depot: m.opts.Uploads, Note: m.opts.People.Note, Over: m.mayNotBuild, Closing: m.closing, Fail: m.fail}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer done()
			r, w := humago.Unwrap(c)
			if err := b.Serve(w, r, string(people.Subject(ctx)), &in.Body); err != nil {
				writeProblem(w, problemOf(err))
			}
		}}, nil
	})
}

// mayNotBuild says why a build must end: its credential or its right is gone.
func (m images) mayNotBuild(ctx context.Context) *rest.Problem {
	if p := m.authorizer.CheckStream(ctx); p != nil {
		return p
	}
	if err := m.authorizer.May(ctx, access.BuildImages, access.Object{}, nil); err != nil {
		return problemOf(m.fail(err))
	}
	return nil
}

// there refuses requests where tasks do not run from images.
func (m images) there() error {
	if m.store == nil {
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, "tasks run as processes here: there are no images")
	}
	return nil
}

// problem turns an executor's error into the answer to a request.
func (m images) problem(err error) error {
	switch {
	case errors.Is(err, executor.ErrNoImage):
		return notFound("%v; see comb image list", err)
	case errors.Is(err, executor.ErrNoBudget):
		return invalid("/keep", "%v", err)
	case err != nil:
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, err.Error())
	}
	return nil
}

func (m images) list(ctx context.Context, _ *struct{}) (*body[rest.ImageList], error) {
	if err := m.there(); err != nil {
		return nil, err
	}
	list, err := m.store.List(ctx)
	if err != nil {
		return nil, m.problem(err)
	}
	if list.Images, err = m.visible(ctx, list.Images); err != nil {
		return nil, err
	}
	out := rest.ImageList{Images: wireImages(list.Images), Fetching: []rest.Fetching{}, Bytes: list.Bytes, Budget: list.Budget, Driver: list.Driver}
	for _, f := range list.Fetching {
		if !people.SeesAll(ctx) {
			break // the users of the jobs are not told
		}
		out.Fetching = append(out.Fetching, rest.Fetching(f))
	}
	return answer(out), nil
}

// visible removes what the asker may not see: images that were fetched with credentials of
// other VCs, and their jobs.
func (m images) visible(ctx context.Context, list []executor.Image) (out []executor.Image, err error) {
	p := people.Of(ctx).Principal
	if people.SeesAll(ctx) {
		return list, nil
	}
	table, err := m.authorizer.Table(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		i.VCs = slices.DeleteFunc(slices.Clone(i.VCs), func(vc string) bool {
			return !table.Allow(p, access.SeeImages, access.Object{VC: cell.VCName(vc)}).OK
		})
		i.Jobs = slices.DeleteFunc(slices.Clone(i.Jobs), func(id model.JobID) bool {
			o, found := m.authorizer.Object(ctx, id)
			return !found || !table.Allow(p, access.SeeJob, o).OK
		})
		if i.Public || len(i.VCs) > 0 || len(i.Jobs) > 0 {
			out = append(out, i)
		}
	}
	return out, nil
}

func wireImages(list []executor.Image) []rest.Image {
	out := []rest.Image{}
	for _, i := range list {
		w := rest.Image{ID: i.ID, Names: nonNil(i.Names), Digests: nonNil(i.Digests), Size: i.Size, Shared: i.Shared, Created: i.Created, Used: i.Used,
			Jobs: nonNil(i.Jobs), Public: i.Public, Stays: i.Stays}
		for _, vc := range i.VCs {
			w.VCs = append(w.VCs, cell.VCName(vc))
		}
		out = append(out, w)
	}
	return out
}

// nonNil is list, but [] in JSON when it is empty.
func nonNil[T any](list []T) []T { return append([]T{}, list...) }

// mayKnow answers for an image that the asker may not see as for one that does not exist.
func (m images) mayKnow(ctx context.Context, name string) error {
	if people.SeesAll(ctx) {
		return nil
	}
	all, err := m.store.List(ctx)
	if err != nil {
		return m.problem(err)
	}
	list, err := m.visible(ctx, all.Images)
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.ID == name || slices.Contains(i.Names, name) || slices.Contains(i.Digests, name) {
			return nil
		}
	}
	return notFound("%v: %s; see comb image list", executor.ErrNoImage, clip(name))
}

func (m images) history(ctx context.Context, in *struct {
	Name string `query:"name" required:"true" maxLength:"1024" doc:"An image of the machine, by tag, digest or ID"`
}) (*body[rest.ImageHistory], error) {
	if err := m.there(); err != nil {
		return nil, err
	}
	if err := m.mayKnow(ctx, in.Name); err != nil {
		return nil, err
	}
	layers, err := m.store.History(ctx, in.Name)
	if err != nil {
		return nil, m.problem(err)
	}
	out := rest.ImageHistory{Layers: []rest.ImageLayer{}}
	for _, l := range layers {
		out.Layers = append(out.Layers, rest.ImageLayer(l))
	}
	return answer(out), nil
}

func (m images) pull(ctx context.Context, in *struct{ Body rest.ImagePull }) (*body[rest.Fetching], error) {
	if err := m.there(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	f, err := m.store.Fetch(ctx, in.Body.Name)
	if err != nil {
		return nil, m.problem(err)
	}
	return answer(rest.Fetching(f)), nil
}

func (m images) prune(ctx context.Context, in *struct{ Body rest.ImagePrune }) (*body[rest.ImagesPruned], error) {
	if err := m.there(); err != nil {
		return nil, err
	}
	keep := int64(-1)
	if in.Body.Keep != nil {
		keep = *in.Body.Keep
	}
	gone, err := m.store.Prune(ctx, keep)
	if err != nil {
		return nil, m.problem(err)
	}
	return answer(rest.ImagesPruned{Images: wireImages(gone)}), nil
}
