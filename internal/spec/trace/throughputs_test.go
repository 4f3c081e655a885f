package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/perf"
)

func TestThroughputs(t *testing.T) {
	table, err := ReadThroughputs(sample("throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	lm, a3c := perf.Work{Model: "LM (batch size 5)", Scale: 1}, perf.Work{Model: "A3C", Scale: 1}
	if r, ok := table.Rate("v100", a3c); !ok || r != 800_000_000 {
		t.Error(r, ok)
	}
	if _, ok := table.Rate("k80", a3c); ok {
		t.Error("a throughput that is not in the table")
	}
	if a, b, ok := table.Together("v100", lm, a3c); !ok || a != 2_500_000_000 || b != 1_250_000_000 {
		t.Error(a, b, ok)
	}
	if a, b, ok := table.Together("v100", a3c, lm); !ok || a != 1_250_000_000 || b != 2_500_000_000 {
		t.Error(a, b, ok)
	}
	if a, b, ok := table.Together("v100", lm, lm); !ok || a != 0 || b != 0 {
		t.Error(a, b, ok)
	}
	if _, _, ok := table.Together("k80", lm, a3c); ok {
		t.Error("a pair that is not in the table")
	}
	if fmt.Sprint(table.Workers(), table.Works("k80")) != "[k80 v100] [{LM (batch size 5) 1}]" {
		t.Error(table.Workers(), table.Works("k80"))
	}
}

func TestSpreads(t *testing.T) {
	table, err := ReadSpreads(sample("model_info.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model       string
		gpus, nodes int32
		want        perf.Speed
		ok          bool
	}{{"alexnet", 8, 4, 268_000, true}, {"alexnet", 2, 1, perf.FullSpeed, true}, {"vgg16", 4, 2, 576_428, true}, {"vgg16", 4, 4, 0, false}, {"x", 1, 1, 0, false}} {
		if got, ok := table.Speed(c.model, c.gpus, c.nodes); got != c.want || ok != c.ok {
			t.Errorf("%+v: %d %v", c, got, ok)
		}
	}
}

func TestShapesAndSamples(t *testing.T) {
	if list, err := ReadSamples(sample("samples.csv")); err != nil || fmt.Sprint(list) != "[121 200 300]" {
		t.Error(list, err)
	}
	if s, err := ReadNodeGroups(sample("cluster.csv")); err != nil || len(s) != 1 || s[0] != (NodeGroup{Nodes: 32, GPUs: 4, Switches: 2, CPUs: 64, MemoryGB: 256}) {
		t.Error(s, err)
	}
	if s, err := ParseNodeGroups("32x8:V100,8x4"); err != nil || len(s) != 2 || s[0] != (NodeGroup{Nodes: 32, GPUs: 8, Type: "V100"}) || TotalGPUs(s) != 288 {
		t.Error(s, err)
	}
	for _, text := range []string{"", "8", "x8", "8x", "0x8", "8x-1", "8x8:", "8x8,", "1048576x2", "99999999999x1", "1048576x1,1x1"} {
		if s, err := ParseNodeGroups(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

// TestTableErrors breaks each of the files beside a trace.
func TestTableErrors(t *testing.T) {
	value := func(text string) *cursor {
		c, err := readValue("f", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	rates := func(text string) error { _, err := throughputs(value(text)); return err }
	spread := func(text string) error { _, err := spreads(value(text)); return err }
	list := func(text string) error { _, err := readSamples("f", strings.NewReader(text)); return err }
	shape := func(text string) error { _, err := readNodeGroups("f", strings.NewReader(text)); return err }
	cases := []struct {
		err  error
		want string
	}{
		{rates(`{"v100": {"A3C": {}}}`), `f:1:17: v100.A3C: "A3C" names no work; want ('model', GPUs)`},
		{rates(`{"v100": {"('A', 0)": {}}}`), `"('A', 0)" names no work`},
		{rates("{\"v100\":\n {\"('A', 1)\": {\"null\": \"fast\"}}}"), `f:2:24: v100.('A', 1).null: want a number, found "\"fast\"}}}"`},
		{rates(`{"v100": {"('A', 1)": {"null": -1}}}`), "-1 is out of range"},
		{rates(`{"v100": {"('A', 1)": {"('B', 1)": [1]}}}`), "f:1:36: v100.('A', 1).('B', 1): want a list of two throughputs, found 1"},
		{rates(`{"v100": {}`), "f:1:12: the JSON ends too early: want , or }"},
		{rates(`{} {}`), "want the end of the value"},
		{spread(`{"alexnet": {"two": {}}}`), `alexnet.two: "two" is no number of GPUs or nodes`},
		{spread(`{"alexnet": {"2": {"1": 5000}}}`), "f:1:25: alexnet.2.1: 5000 is out of range; want 0 to 1000"},
		{list("time\n1\n"), "f:1: the header lacks duration"},
		{list("duration\n1\nx\n"), `f:3:1: duration: "x" is not a number`},
		{list(""), "f: the file is empty"},
		{shape("num_switch,num_node_p_switch,num_gpu_p_node\n1,0,4\n"), "f:2:3: num_node_p_switch: 0 is out of range; want 1 to 32768"},
		{shape("num_switch,num_node_p_switch,num_gpu_p_node\n1,32768,64\n"), "f:2:1: num_switch: the cluster would have 2097152 GPUs; want at most 1048576"},
		{shape("num_switch,num_node_p_switch,num_gpu_p_node\n"), "f: the file has no cluster; want a line of numbers under the header"},
	}
	for i, c := range cases {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%d: %v, want %s", i, c.err, c.want)
		}
	}
	for _, err := range []error{second(ReadThroughputs("no")), second(ReadSpreads("no")), second(ReadSamples("no")), second(ReadNodeGroups("no"))} {
		if err == nil || !strings.Contains(err.Error(), "cannot read the") {
			t.Error(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
