package pai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// memory is an app with jobs in memory, under a real table of rights.
type memory struct {
	past   []rest.PastAttempt
	table  *access.Rights
	vcs    []cell.VCName
	jobs   []*Job // the newest first
	broken bool   // one GPU and one node
}

var vcs = []cell.VCName{"nlp", "vision"}

func (m *memory) Rights(context.Context) (*access.Rights, []cell.VCName, error) {
	return m.table, m.vcs, nil
}

func (m *memory) may(p *access.Principal, verb access.Verb, j *Job) bool {
	return m.table.Allow(p, verb, access.Object{VC: j.VC, Owner: string(j.User)}).OK
}

func (m *memory) May(_ context.Context, p *access.Principal, verb access.Verb) error {
	if a := m.table.Allow(p, verb, access.Object{}); !a.OK {
		return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, a.Why)
	}
	return nil
}

func (m *memory) Submit(_ context.Context, p *access.Principal, file []byte) (model.JobName, error) {
	vc, ok := strings.CutPrefix(string(file), "vc: ")
	if !ok {
		return "", rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "the job cannot be accepted", rest.FieldError{Detail: "vc is missing", Line: 1, Column: 1})
	}
	j := &Job{Spec: &model.Job{Roles: []model.Role{{Name: "worker", Launch: model.Launch{Ports: []model.Port{{Label: "ssh", Count: 1}, {Label: "http", Count: 2}}}}}}}
	j.JobStatus = rest.JobStatus{ID: model.JobID(len(m.jobs) + 1), Name: "train", User: model.Subject(p.User), VC: cell.VCName(vc), Phase: model.Active, Priority: 10, GPUs: 2,
		Submitted: model.Time(len(m.jobs)+1) * 1_000_000, Attempts: []rest.AttemptStatus{{ID: model.AttemptID{N: 1}, State: model.AttemptRunning, Started: 5_000_000}},
		Tasks: []rest.TaskStatus{{Role: "worker", State: model.TaskRunning, Attempt: 1, Node: "node1", Host: "127.0.0.1", Ports: []int32{2022, 8080, 8081}, Devices: []int32{0, 1}}}}
	a := m.table.Allow(p, access.SubmitJob, access.Object{VC: j.VC})
	switch {
	case !a.OK:
		return "", rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, a.Why)
	case slices.ContainsFunc(m.jobs, func(o *Job) bool { return o.User == j.User && !o.Phase.Ended() }):
		return "", rest.NewProblem(http.StatusConflict, rest.CodeConflict, "you have a job train already")
	}
	m.jobs = append([]*Job{j}, m.jobs...)
	return j.Name, nil
}

func (m *memory) Jobs(_ context.Context, p *access.Principal, q *rest.JobQuery, each func(*rest.Job) bool) error {
	for _, j := range m.jobs {
		if len(q.Users) > 0 && !slices.Contains(q.Users, j.User) || len(q.VCs) > 0 && !slices.Contains(q.VCs, j.VC) || !m.may(p, access.SeeJob, j) {
			continue
		}
		if !each(&j.Job) {
			break
		}
	}
	return nil
}

func (m *memory) find(p *access.Principal, of Ref, verb access.Verb) (*Job, error) {
	for _, j := range m.jobs {
		if string(j.User) == of.User && string(j.Name) == of.Name && m.may(p, verb, j) {
			return j, nil
		}
	}
	return nil, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "no job "+of.String())
}

func (m *memory) Job(_ context.Context, p *access.Principal, of Ref) (*Job, error) {
	return m.find(p, of, access.SeeJob)
}

func (m *memory) JobConfig(_ context.Context, p *access.Principal, of Ref) ([]byte, error) {
	_, err := m.find(p, of, access.ReadJob)
	return []byte("protocolVersion: 2\n"), err
}

func (m *memory) Stop(_ context.Context, p *access.Principal, of Ref) error {
	j, err := m.find(p, of, access.ChangeJob)
	if err == nil {
		j.Phase, j.Cause = model.Stopped, model.EndStopped
		j.ExitClass = rest.StatusOf(&model.JobStatus{Phase: j.Phase, Cause: j.Cause}).ExitClass
	}
	return err
}

func (m *memory) Start(_ context.Context, p *access.Principal, of Ref) (bool, error) {
	j, err := m.find(p, of, access.ChangeJob)
	changed := err == nil && j.Held != nil
	if changed {
		j.Held = nil
	}
	return changed, err
}

func (m *memory) MayRead(_ context.Context, p *access.Principal, of Ref) error {
	_, err := m.find(p, of, access.ReadJob)
	return err
}

func (m *memory) History(_ context.Context, p *access.Principal, of Ref) ([]rest.PastAttempt, error) {
	_, err := m.find(p, of, access.ReadJob)
	return m.past, err
}

func (m *memory) Tag(_ context.Context, p *access.Principal, of Ref, tag string, on bool) error {
	j, err := m.find(p, of, access.ChangeJob)
	if err == nil {
		j.Tags = slices.DeleteFunc(j.Tags, func(t string) bool { return t == tag })
		if on {
			j.Tags = append(j.Tags, tag)
		}
	}
	return err
}

func (m *memory) Events(_ context.Context, p *access.Principal, of Ref) ([]rest.Event, error) {
	_, err := m.find(p, of, access.ReadJob)
	return []rest.Event{{Seq: 3, Kind: "JobSubmitted", Data: json.RawMessage(`{}`), Says: "submitted"}, {Seq: 4, Kind: "TaskRefused", Data: json.RawMessage(`{"task":0}`), Says: "worker-0 could not be started"}}, err
}

func (m *memory) Log(w http.ResponseWriter, _ *http.Request, p *access.Principal, of *LogRef) error {
	if _, err := m.find(p, of.Ref, access.ReadJob); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s of %s %s-%d, attempt %d", of.Stream, of.Ref, of.Role, of.Index, of.Attempt)
	return err
}

func (m *memory) VCs(context.Context, *access.Principal) ([]rest.VCStatus, error) {
	carry := model.Carry{SKU: "gpu", GPU: 1, MilliCPU: 4000, MemoryMB: 1024}
	return []rest.VCStatus{{Name: "nlp", Guaranteed: 2, SKUs: []rest.VCUse{{Carry: carry, Guaranteed: 2}}},
		{Name: "vision", Guaranteed: 2, Used: 1, SKUs: []rest.VCUse{{Carry: carry, Guaranteed: 2, Used: 1, Bad: 1}},
			Cells: []rest.QuotaUse{{Type: "GPU", Total: 2, Bound: 1}}}}, nil
}

func (m *memory) Cells(context.Context, *access.Principal) ([]rest.CellStatus, error) {
	leaf := func(at string, vc cell.VCName, state string) rest.CellStatus {
		virtual := ""
		if vc != "" {
			virtual = string(vc) + "/0"
		}
		return rest.CellStatus{Type: "GPU", Address: "node1/" + at, Level: 1, Node: "node1", State: state, Healthy: at != "1", Priority: 10, VC: vc, Virtual: virtual}
	}
	return []rest.CellStatus{{Type: "NODE", Address: "node1", Level: 2, Node: "node1", State: "Used", Healthy: true, Children: []rest.CellStatus{leaf("0", "vision", "Used"), leaf("1", "", "Free")}}}, nil
}

func (m *memory) Nodes(context.Context, *access.Principal) ([]rest.NodeStatus, error) {
	sku := rest.NodeSKU{Carry: model.Carry{SKU: "gpu", GPU: 1, MilliCPU: 4000, MemoryMB: 1024}, Total: 4}
	if m.broken {
		sku.Bad, sku.Fault = 1, "its node is cordoned"
		return []rest.NodeStatus{{Name: "node1", Up: true, SKUs: []rest.NodeSKU{sku}}, {Name: "node2", SKUs: []rest.NodeSKU{}}}, nil
	}
	return []rest.NodeStatus{{Name: "node1", Up: true, SKUs: []rest.NodeSKU{sku}}}, nil
}

func (m *memory) Storages(context.Context, *access.Principal) ([]rest.StorageStatus, error) {
	return []rest.StorageStatus{{Name: "data"}, {Name: "images", VCs: []cell.VCName{"vision"}, PerUser: true}}, nil
}
