package perf

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// modelOf is a small table of everything.
func modelOf() *Model {
	f := &Factors{
		Types:      []Factor{{Any, "K80", 250_000}, {"vgg", "K80", 100_000}},
		Localities: []Factor{{Any, "node", 900_000}, {Any, "rack", 500_000}, {"vgg", "switch", 800_000}, {"vgg", "cross-rack", 200_000}},
		Hosts:      []Factor{{Any, "", 900_000}, {"vgg", "", 500_000}},
		NICs:       []Factor{{"vgg", "", 600_000}},
		Beside:     []Factor{{"vgg", Any, 300_000}, {"vgg", "lm", 700_000}},
		GPUs:       []Scale{{"vgg", 1, 1_000_000}, {"vgg", 4, 3_100_000}, {"vgg", 8, 4_000_000}},
	}
	f.Sort()
	w := func(m string, n int32) Work { return Work{m, n} }
	t := NewThroughputs([]Alone{{"v100", w("a3c", 1), 8 * PerSecond}, {"k80", w("a3c", 1), 2 * PerSecond},
		{"v100", w("lm", 2), 10 * PerSecond}, {"v100_unconsolidated", w("lm", 2), 4 * PerSecond}, {"v100", w("lm", 1), 6 * PerSecond}},
		[]Pair{{"v100", w("a3c", 1), w("lm", 1), 6 * PerSecond, 3 * PerSecond}, {"v100", w("a3c", 1), w("a3c", 1), 0, 0}})
	return &Model{Throughputs: t, Factors: f}
}

// Each effect alone, by hand.
func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		name string
		off  Effects
		ref  string
		at   SpeedInput
		want Speed
	}{
		{"nothing known of it", 0, "", SpeedInput{Model: "x", Type: "V100", Has: 1, Wants: 1, Nodes: 1}, FullSpeed},
		{"type of any model", 0, "", SpeedInput{Model: "x", Type: "K80", Has: 1, Wants: 1}, 250_000},
		{"type of this model", 0, "", SpeedInput{Model: "vgg", Type: "K80", Has: 1, Wants: 1}, 100_000},
		{"type, off", OnType, "", SpeedInput{Model: "vgg", Type: "K80", Has: 1, Wants: 1}, FullSpeed},
		{"2 of 8 steps a second on the slower type, and a quarter of any model's", 0, "", SpeedInput{Model: "a3c", Type: "K80", Has: 1, Wants: 1}, 62_500},
		{"four times as fast as the reference", 0, "k80", SpeedInput{Model: "a3c", Type: "v100", Has: 1, Wants: 1}, 4_000_000},
		{"one GPU", 0, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, Locality: OneGPU}, FullSpeed},
		{"switch", 0, "", SpeedInput{Model: "vgg", Has: 2, Wants: 2, Locality: SameSwitch}, 800_000},
		{"a rack, of which the table knows no more than the switch", 0, "", SpeedInput{Model: "vgg", Has: 2, Wants: 2, Locality: SameRack}, 800_000},
		{"cross-rack", 0, "", SpeedInput{Model: "vgg", Has: 2, Wants: 2, Locality: CrossRack}, 200_000},
		{"a socket is closer than all that the table knows", 0, "", SpeedInput{Model: "x", Has: 2, Wants: 2, Locality: SameSocket}, FullSpeed},
		{"rack of any model", 0, "", SpeedInput{Model: "x", Has: 2, Wants: 2, Locality: SameRack}, 500_000},
		{"4 of 10 steps over two machines, and half of any model's", 0, "", SpeedInput{Model: "lm", Type: "V100", Has: 2, Wants: 2, Nodes: 2, Locality: SameRack}, 200_000},
		{"locality, off", OnLocality, "", SpeedInput{Model: "lm", Type: "V100", Has: 2, Wants: 2, Nodes: 2, Locality: SameRack}, FullSpeed},
		{"two on its host: a half of a half", 0, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, HostMates: 2}, 250_000},
		{"host, off", OnHost, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, HostMates: 2}, FullSpeed},
		{"one on its network card and host: 0.6 x 0.5", 0, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, HostMates: 1, NICMates: 1}, 300_000},
		{"network card, off", OnNIC, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, HostMates: 1, NICMates: 1}, 500_000},
		{"beside a known model", 0, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, Beside: []Work{{"lm", 1}}}, 700_000},
		{"beside any other, twice", 0, "", SpeedInput{Model: "vgg", Has: 1, Wants: 1, Beside: []Work{{"x", 1}, {"y", 1}}}, 90_000},
		{"beside, 6 of 8 steps", 0, "", SpeedInput{Model: "a3c", Type: "V100", Has: 1, Wants: 1, Beside: []Work{{"lm", 1}}}, 750_000},
		{"beside, from the other side, 3 of 6 steps", 0, "", SpeedInput{Model: "lm", Type: "V100", Has: 1, Wants: 1, Beside: []Work{{"a3c", 1}}}, 500_000},
		{"two that do not fit together go on at a crawl", 0, "", SpeedInput{Model: "a3c", Type: "V100", Has: 1, Wants: 1, Beside: []Work{{"a3c", 1}}}, 1},
		{"pairs, off", OnPairs, "", SpeedInput{Model: "a3c", Type: "V100", Has: 1, Wants: 1, Beside: []Work{{"a3c", 1}}}, FullSpeed},
		{"2 GPUs of 4: between 1 and 3.1 is 1.7, of 3.1", 0, "", SpeedInput{Model: "vgg", Has: 2, Wants: 4}, 548_387},
		{"16 GPUs of 8: no more is known", 0, "", SpeedInput{Model: "vgg", Has: 16, Wants: 8}, FullSpeed},
		{"1 GPU of 2, 6 of 10 steps", 0, "", SpeedInput{Model: "lm", Type: "v100", Has: 1, Wants: 2}, 600_000},
		{"GPUs, off", OnGPUs, "", SpeedInput{Model: "vgg", Has: 2, Wants: 4}, FullSpeed},
		{"0.5 s of each turn of a minute", 0, "", SpeedInput{Model: "x", Has: 1, Wants: 1, TurnsEvery: 60_000_000, SuspendCost: 500_000}, 991_666},
		{"turns, off", OnCosts, "", SpeedInput{Model: "x", Has: 1, Wants: 1, TurnsEvery: 60_000_000, SuspendCost: 500_000}, FullSpeed},
		{"a turn that is all suspension", 0, "", SpeedInput{Model: "x", Has: 1, Wants: 1, TurnsEvery: 1, SuspendCost: 9}, 1},
	} {
		m := modelOf()
		m.Off, m.Reference = c.off, c.ref
		if got := m.Speed(&c.at); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	empty := &Model{}
	if got := empty.Speed(&SpeedInput{Model: "vgg", Type: "K80", Has: 1, Wants: 8, Nodes: 4, Locality: CrossRack, HostMates: 9, NICMates: 9, Beside: []Work{{"x", 1}}}); got != FullSpeed {
		t.Errorf("without any table: %d", got)
	}
}

func TestParseEffects(t *testing.T) {
	if e, err := ParseEffects("host,costs"); e != OnHost|OnCosts || err != nil {
		t.Errorf("%b %v", e, err)
	}
	if e, err := ParseEffects(""); e != 0 || err != nil {
		t.Errorf("%b %v", e, err)
	}
	for _, text := range []string{"hosts", "host,", ",", "Host"} {
		if _, err := ParseEffects(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestCosts(t *testing.T) {
	for _, c := range []struct {
		text string
		gpus int32
		want model.Duration
	}{{"30", 8, 30 * model.Second}, {"log2:30", 1, 30 * model.Second}, {"log2:30", 8, 120 * model.Second}, {"0.5", 4, model.Second / 2}, {"log2:0.5", 2, model.Second}} {
		cost, err := ParseCost(c.text)
		if err != nil || cost.Of(c.gpus) != c.want {
			t.Errorf("%s of %d GPUs: %d, %v", c.text, c.gpus, cost.Of(c.gpus), err)
		}
	}
	for _, text := range []string{"", "x", "-1", "log2:", "1s", "1e99", "NaN"} {
		if c, err := ParseCost(text); err == nil {
			t.Errorf("%q is taken for %+v", text, c)
		}
	}
}
