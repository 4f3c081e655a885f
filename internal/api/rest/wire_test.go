package rest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

var update = flag.Bool("update", false, "rewrite what is kept of the wire's form; clients of before must still read it")

// filled sets every field of a value, each list to two entries, so that nothing is left out for
// being empty. Each value is another one: with no n by where it stands, so that one more field
// changes one line of what is kept.
func filled(v reflect.Value, n *int64) { filledAt(v, n, "") }

func filledAt(v reflect.Value, n *int64, path string) {
	at := int64(crc32.ChecksumIEEE([]byte(path)) % 10_000)
	if n != nil {
		*n++
		at = *n
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Map: // of what no answer has
	case reflect.Uint64:
		v.SetUint(uint64(at))
	case reflect.Float64:
		v.SetFloat(float64(at))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filledAt(v.Elem(), n, path)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]model.CellStatus]() { // which have cells
			v.Set(reflect.ValueOf([]model.CellStatus{{Address: "below"}}))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			filledAt(v.Index(i), n, fmt.Sprint(path, "/", i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				filledAt(v.Field(i), n, path+"."+v.Type().Field(i).Name)
			}
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", at))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8: // words of states
		v.SetInt(2)
	default:
		v.SetInt(at)
	}
}

// TestJobOnTheWire: a job of a list, with every field that the core can fill, is what clients have
// always got.
func TestJobOnTheWire(t *testing.T) {
	var status model.JobStatus
	var reason model.Reason
	n := int64(0)
	filled(reflect.ValueOf(&status).Elem(), &n)
	filled(reflect.ValueOf(&reason).Elem(), &n)
	status.Phase, status.Tasks[0].State, status.Tasks[1].State = model.Failed, model.TaskFailed, model.TaskEnded
	job := Job{JobStatus: StatusOf(&status), Ref: "bob~train", Reason: ReasonOf(&reason), CheckpointDir: "/checkpoints/1", Position: 3}
	sparse := Job{JobStatus: StatusOf(&model.JobStatus{ID: 1, Name: "train", User: "ann", Tasks: []model.TaskStatus{{Role: "main"}}}), Ref: "train"}
	has := JobList{Jobs: []Job{job, sparse}, Next: "1", Seq: 9}
	want := kept(t, "jobs.json", has)
	// What a client reads is what was sent.
	var back JobList
	if err := json.Unmarshal(want, &back); err != nil || !reflect.DeepEqual(back.Jobs[0], job) {
		t.Errorf("it is read as %+v, %v", back.Jobs, err)
	}
}

// kept compares what clients get with what is kept of it, and returns that.
func kept(t *testing.T, name string, v any) []byte {
	t.Helper()
	has, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	has = append(has, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, has, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(has, want) {
		t.Errorf("what clients get is not what %s holds:\n%s", path, has)
	}
	return want
}

// TestClusterOnTheWire: VCs, nodes and cells, with every field that the core can fill, are what
// clients have always got.
func TestClusterOnTheWire(t *testing.T) {
	var core struct {
		VC   model.VCStatus
		Node model.NodeStatus
		Cell model.CellStatus
	}
	n := int64(0)
	filled(reflect.ValueOf(&core).Elem(), &n)
	var cluster struct {
		VCs   VCList
		Nodes NodeList
		Cells CellList
	}
	cluster.VCs.VCs = VCsOf([]model.VCStatus{core.VC, {Name: "sparse"}})
	cluster.Nodes.Nodes = NodesOf([]model.NodeStatus{core.Node, {Name: "sparse"}})
	cluster.Cells.Cells = CellsOf([]model.CellStatus{core.Cell, {Address: "sparse"}})
	back := cluster
	if err := json.Unmarshal(kept(t, "cluster.json", cluster), &back); err != nil || !reflect.DeepEqual(back, cluster) {
		t.Errorf("it is read as %+v, %v", back, err)
	}
}

// TestListsAreTheWiresOwn: no type of the core that has fields is in a list of jobs, VCs, nodes or
// cells, but the number of an attempt, limits and amounts.
func TestListsAreTheWiresOwn(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type, string)
	walk = func(of reflect.Type, at string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		core := strings.Contains(of.PkgPath(), "internal/core/")
		plain := of == reflect.TypeFor[model.AttemptID]() || of == reflect.TypeFor[model.Limits]() || of == reflect.TypeFor[model.Carry]()
		if core && !plain {
			t.Errorf("%s is a %v: map it in fromcore.go", at, of)
		}
		for i := range of.NumField() {
			walk(of.Field(i).Type, at+"."+of.Field(i).Name)
		}
	}
	walk(reflect.TypeFor[JobList](), "JobList")
	walk(reflect.TypeFor[VCList](), "VCList")
	walk(reflect.TypeFor[VCStatus](), "VCStatus")
	walk(reflect.TypeFor[NodeList](), "NodeList")
	walk(reflect.TypeFor[Node](), "Node")
	walk(reflect.TypeFor[CellList](), "CellList")
	if len(seen) < 20 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// TestAnswersOnTheWire: an explanation and a plan, with every field that the core can fill, are
// what clients have always got. Their values are the core's (why, effects, setting), which no
// journal holds: this test is what keeps their names.
func TestAnswersOnTheWire(t *testing.T) {
	var answers struct {
		Explanation Explanation
		Plan        ConfigPlanned
	}
	filled(reflect.ValueOf(&answers).Elem(), nil)
	kept(t, "answers.json", answers)
}
