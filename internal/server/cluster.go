package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/storage"
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
	}), s.cordon)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "uncordon-node", Method: http.MethodPost, Path: "/nodes/{name}/uncordon",
		Summary: "Take a node back into placement", Tags: []string{"cluster"},
	}), s.uncordon)
}

func (s *Server) listStorages(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.StorageList], error) {
	out := rest.StorageList{Storages: []rest.StorageStatus{}}
	err := s.read(ctx, in.after(), func(st *sched.State) {
		c := st.Config()
		if c == nil {
			return
		}
		for _, one := range c.Storages {
			out.Storages = append(out.Storages, rest.StorageStatus{Name: one.Name, Variable: storage.Variable(one.Name),
				ReadOnly: one.ReadOnly, PerUser: one.PerUser, VCs: append([]cell.VCName{}, one.VCs...)})
		}
	})
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

func (s *Server) listVCs(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.VCList], error) {
	out := rest.VCList{VCs: []sched.VCStatus{}}
	err := s.read(ctx, in.after(), func(st *sched.State) { out.VCs = append(out.VCs, st.VCs()...) })
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

type namedRead struct {
	AfterSeq
	Name string `path:"name"`
}

func (s *Server) getVC(ctx context.Context, in *namedRead) (*body[sched.VCStatus], error) {
	if err := checkName("virtual cluster", in.Name); err != nil {
		return nil, err
	}
	var found *sched.VCStatus
	err := s.read(ctx, in.after(), func(st *sched.State) {
		for _, vc := range st.VCs() {
			if vc.Name == cell.VCName(in.Name) {
				found = &vc
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
	out := rest.NodeList{Nodes: []sched.NodeStatus{}, Runtime: s.opts.Runtime}
	err := s.read(ctx, in.after(), func(st *sched.State) { out.Nodes = append(out.Nodes, st.Nodes()...) })
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

func (s *Server) listCells(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.CellList], error) {
	out := rest.CellList{Cells: []sched.CellStatus{}}
	err := s.read(ctx, in.after(), func(st *sched.State) {
		out.Cells = append(out.Cells, st.Cells()...)
		out.Names = cellJobs(st, out.Cells, nil)
	})
	if err != nil {
		return nil, err
	}
	out.Names = sortedNames(out.Names)
	return answer(out), nil
}

// cellJobs collects the names of the jobs that hold leaves. The depth is that of
// the cluster's own levels.
func cellJobs(st *sched.State, cells []sched.CellStatus, names []rest.NamedJob) []rest.NamedJob {
	for _, c := range cells {
		if c.Job != 0 {
			names = appendName(st, names, c.Job)
		}
		names = cellJobs(st, c.Children, names)
	}
	return names
}

func appendName(st *sched.State, names []rest.NamedJob, id sched.JobID) []rest.NamedJob {
	if n := len(names); n > 0 && names[n-1].ID == id {
		return names
	}
	if spec, ok := st.Spec(id); ok {
		names = append(names, rest.NamedJob{ID: id, Name: spec.Name, VC: spec.VC})
	}
	return names
}

type cordonInput struct {
	Meta
	Name string              `path:"name"`
	Body *rest.CordonRequest `required:"false"`
}

func (s *Server) cordon(ctx context.Context, in *cordonInput) (*body[rest.Done], error) {
	return s.setCordon(ctx, in, true)
}

func (s *Server) uncordon(ctx context.Context, in *cordonInput) (*body[rest.Done], error) {
	return s.setCordon(ctx, in, false)
}

func (s *Server) setCordon(ctx context.Context, in *cordonInput, on bool) (*body[rest.Done], error) {
	if err := checkName("node", in.Name); err != nil {
		return nil, err
	}
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	w, err := in.writeOf(ctx, "cordon", in.Name, on, reason)
	if err != nil {
		return nil, s.fail(err)
	}
	reply, err := s.once(ctx, w, func() (engine.Reply, error) {
		return s.do(ctx, w, engine.Input{Command: sched.Cordon{Meta: w.meta, Node: cell.NodeName(in.Name), On: on, Reason: reason}})
	})
	if err != nil {
		return nil, err
	}
	return doneOf(reply), nil
}
