package engine_test

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the reference part of docs/events.md anew")

const (
	eventsPage = "../../docs/events.md"
	beginMark  = "<!-- reference: written by go test ./internal/engine -run EventsPage -rewrite -->\n"
)

// examples are one event of every kind.
func examples() []model.Event {
	id := model.AttemptID{Job: 7, Gang: 0, N: 2}
	by := model.AttemptID{Job: 9, Gang: 0, N: 1}
	place := cell.Placement{Tasks: []cell.Task{{Node: "n1", SKU: "V100", Leaves: []cell.LeafID{0, 1}, Devices: []int32{0, 1}}},
		Binds: []cell.Bind{{Root: 0, Cell: 4}}}
	meta := model.Meta{Subject: "ann", Key: "4f1c"}
	prio, limit := cell.Priority(100), 2*model.Hour
	return []model.Event{
		model.JobSubmitted{ID: 7, Meta: meta, Job: &model.Job{Name: "resnet", User: "ann", VC: "vision", Priority: 100,
			Roles: []model.Role{{Name: "worker", Tasks: 1, Leaves: 2, SKUs: []cell.TypeName{"V100"}, MinFailed: 1, MinSucceeded: -1,
				Launch: model.Launch{Command: []string{"python train.py"}, GPU: 2}}},
			Gangs: []model.Gang{{Name: "resnet", Tasks: []int32{0}}}, Grace: 30 * model.Second}},
		model.StopRequested{Job: 7, Reason: "wrong data set", Meta: meta},
		model.JobHeld{Job: 7, On: true, Reason: "the data is not there", Meta: meta},
		model.JobRequeued{Job: 7, Hold: true, Reason: "a bad node", Meta: meta},
		model.JobUpdated{Job: 7, Priority: &prio, TimeLimit: &limit, Meta: meta},
		model.Configured{Config: &model.Config{VCs: []model.VCConfig{{Name: "vision", Policy: "fifo"}}}, Meta: meta,
			Moves: []model.Move{{Attempt: id, Placement: place, Lazy: true}}},
		model.NodeCordoned{Node: "n1", On: true, Reason: "new memory", Meta: meta},
		model.TaskStarted{Attempt: id, Task: 0, Host: "10.0.0.4", PID: 4211, Ports: []int32{20001}},
		model.TaskExited{Attempt: id, Task: 0, Exit: model.Exit{Code: 143, Signal: 15}},
		model.TaskRefused{Attempt: id, Task: 0, Reason: "no space left for its directory"},
		model.TaskUnknown{Attempt: id, Task: 0, Reason: "its supervisor does not answer"},
		model.NodeHealth{Node: "n1", Up: false, Reason: "no answer for 30 s"},
		model.LeafHealth{Node: "n1", SKU: "V100", Device: 1, Good: false, Reason: "Xid 79"},
		model.Progress{Attempt: id, Task: 0, Step: 400, Total: 1000, Loss: "0.231", Checkpoint: true, Use: &model.DeviceUse{Util: 870, MemoryMB: 14200}},
		model.Notice{Job: 7, Message: "the memory limit is not enforced on this machine"},
		model.Foretold{Job: 7, Coming: model.Coming{Kind: model.ComesDrain, At: 1_790_003_600_000_000, Message: "node n1 is drained: it is told to stop then, with its grace of 30 s, and waits again"}},
		model.Placed{Attempt: id, Placement: place},
		model.Reserved{Attempt: by, Placement: place, Victims: []model.AttemptID{id}},
		model.Unreserved{Attempt: by, Reason: "its job was stopped"},
		model.Booked{Job: 8, Gang: 0, Start: 1_790_000_600_000_000, Leaves: place.Tasks[0].Leaves, Binds: place.Binds},
		model.Sized{Job: 7, Size: 3},
		model.StopSent{Attempt: id, Cause: model.EndPreempted, Grace: 30 * model.Second, By: &by},
		model.Joined{Attempt: id, Host: by, Placement: cell.Placement{Tasks: place.Tasks}},
		model.Rotated{Rotation: model.Rotation{Turns: [][]model.AttemptID{{by}, {id}}, Quantum: model.Minute, Epoch: 1_790_000_000_000_000}},
		model.LazilyPreempted{Attempt: id, By: &by},
		model.Upgraded{Attempt: id, Binds: place.Binds},
		model.Doomed{VC: "vision", Root: 1, Cell: 20},
		model.Spared{VC: "vision", Root: 1},
		model.AttemptEnded{Attempt: id, Cause: model.EndPreempted},
		model.TaskRetried{Job: 7, Gang: 0},
		model.JobCompleting{Job: 7, Phase: model.Failed, Cause: model.EndFailed, Exit: model.Exit{Code: 1}, Task: 0},
		model.JobRetried{Job: 7, Counted: true},
		model.JobEnded{Job: 7, Phase: model.Failed, Cause: model.EndFailed, Exit: model.Exit{Code: 1}},
		model.NodeAvoided{Job: 7, Gang: 0, Node: "n1", Until: 1_790_000_060_000_000},
		model.NodeSuspected{Node: "n1", Until: 1_790_000_600_000_000, Reason: "refused 3 jobs"},
		model.Noted{VC: "vision", Policy: "fifo", Job: 7, Data: []byte("{}")},
		model.Decided{Now: 1_790_000_000_000_000, Through: 41, Digest: "9d5ed678fe57bcca", Version: model.Version},
		model.Quarantined{Job: 7, Stack: "c3ab8ff13720e8ad"},
		model.PolicyFailed{VC: "vision", Policy: "las", Stack: "c3ab8ff13720e8ad"},
		model.Lost{First: 31, Last: 42, NextJob: 9, Attempts: []model.AttemptID{id}, Reason: "the write-ahead log was removed"},
	}
}

// TestEventsPage compares the reference part of docs/events.md with the types.
func TestEventsPage(t *testing.T) {
	docs := comments(t)
	var b strings.Builder
	known := model.Kinds()
	all := examples()
	if len(all) != len(known) {
		t.Fatalf("%d examples for %d kinds", len(all), len(known))
	}
	for i, e := range all {
		if model.KindOf(known[i]) != model.KindOf(e) {
			t.Fatalf("example %d is a %s; the kind there is %s", i, model.KindOf(e), model.KindOf(known[i]))
		}
		b.WriteString(section(t, e, docs))
	}
	page, err := os.ReadFile(eventsPage)
	if err != nil {
		t.Fatal(err)
	}
	prose, reference, found := strings.Cut(string(page), beginMark)
	if !found {
		t.Fatalf("the page has no line %s", beginMark)
	}
	if *rewrite {
		if err := os.WriteFile(eventsPage, []byte(prose+beginMark+b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), reference); diff != "" {
		t.Errorf("docs/events.md does not tell what the types are (run with -rewrite): %s", diff)
	}
}

// section is one kind's part of the page.
func section(t *testing.T, e model.Event, docs map[string]string) string {
	t.Helper()
	kind, version, data, err := model.EncodeEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := model.DecodeEvent(kind, version, data)
	if diff := cmp.Diff(e, back); err != nil || diff != "" {
		t.Errorf("%s does not come back as it was: %v %s", kind, err, diff)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s, version %d\n\n", kind, version)
	if docs[string(kind)] == "" {
		t.Errorf("%s has no comment", kind)
	}
	fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(docs[string(kind)]))
	for _, f := range reflect.VisibleFields(reflect.TypeOf(e)) {
		if f.Anonymous {
			continue // its fields follow
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			t.Errorf("%s.%s has no JSON name", kind, f.Name)
		}
		optional := ""
		if strings.Contains(options, "omitempty") {
			optional = ", left out when empty"
		}
		fmt.Fprintf(&b, "* `%s`: %s%s\n", name, jsonType(f.Type), optional)
	}
	line, err := json.Marshal(struct {
		Seq     uint64          `json:"seq"`
		Time    model.Time      `json:"time"`
		Kind    model.Kind      `json:"kind"`
		Version int             `json:"version"`
		Job     model.JobID     `json:"job,omitempty"`
		Data    json.RawMessage `json:"data"`
	}{42, 1_790_000_000_000_000, kind, version, engine.JobOf(e), data})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n```json\n%s\n```\n", line)
	return b.String()
}

// jsonType says in words what a field is in JSON.
func jsonType(t reflect.Type) string {
	own := ""
	if t.PkgPath() != "" {
		own = " (" + t.Name() + ")"
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return "text" + own
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text" + own
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes in base64"
		}
		return "list of " + jsonType(t.Elem())
	case reflect.Struct:
		return "object" + own
	}
	return "number" + own
}

// comments are the comments of the types of package model, by name.
func comments(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	paths, err := filepath.Glob("../core/model/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && len(g.Specs) == 1 {
				docs[g.Specs[0].(*ast.TypeSpec).Name.Name] = g.Doc.Text()
			}
		}
	}
	return docs
}

// TestJobOfKnowsEveryKind fails when a new kind names a job that JobOf does not see.
func TestJobOfKnowsEveryKind(t *testing.T) {
	for _, e := range examples() {
		want := model.JobID(0)
		v := reflect.ValueOf(e)
		for _, name := range []string{"ID", "Job", "Attempt"} {
			f := v.FieldByName(name)
			if !f.IsValid() {
				continue
			}
			switch x := f.Interface().(type) {
			case model.JobID:
				want = x
			case model.AttemptID:
				want = x.Job
			}
		}
		if got := engine.JobOf(e); got != want {
			t.Errorf("JobOf(%s) = %d, want %d", model.KindOf(e), got, want)
		}
	}
}
