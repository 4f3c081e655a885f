package narrate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TestEveryEventIsTold checks that the events of a job are sentences: an event
// that the narrator forgets would be shown as its data.
func TestEveryEventIsTold(t *testing.T) {
	notOfJobs := map[model.Kind]bool{"Configured": true, "NodeCordoned": true, "NodeHealth": true, "LeafHealth": true,
		"NodeSuspected": true, "Lost": true, "Rotated": true, "Doomed": true, "Spared": true, "Decided": true}
	n := New(&rest.Job{}, nil)
	for _, zero := range model.Kinds() {
		kind, version, data, err := model.EncodeEvent(zero)
		if err != nil {
			t.Fatal(err)
		}
		text := n.Tell(&rest.Event{Kind: kind, Version: version, Data: json.RawMessage(data)})
		if told := !strings.HasPrefix(text, "{"); told == notOfJobs[kind] {
			t.Errorf("%s: %q", kind, text)
		}
	}
}

func TestPartsOfDevicesAreShown(t *testing.T) {
	p := cell.Placement{Tasks: []cell.Task{{Node: "n", Devices: []int32{0, 0}, Parts: []int32{1, 3}},
		{Node: "m", Devices: []int32{4}}}}
	if got := Places(p); got != "n devices 0:1,0:3; m device 4" {
		t.Error(got)
	}
}

// A pod has no process to name, and a task that never started has no exit code.
func TestTasksOfPodsAreTold(t *testing.T) {
	n := New(&rest.Job{}, nil)
	tell := func(e model.Event) string {
		kind, version, data, err := model.EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		return n.Tell(&rest.Event{Kind: kind, Version: version, Data: json.RawMessage(data)})
	}
	if got := tell(model.TaskStarted{Host: "10.0.0.7"}); !strings.HasSuffix(got, " runs at 10.0.0.7") {
		t.Errorf("a pod's start is %q", got)
	}
	if got := tell(model.TaskStarted{Host: "n7", PID: 12}); !strings.HasSuffix(got, " runs as process 12 of n7") {
		t.Errorf("a process's start is %q", got)
	}
	if got := tell(model.TaskExited{Exit: model.Exit{Cause: model.NeverStarted, Message: "its quota is full"}}); !strings.HasSuffix(got, " ended: never started: its quota is full") {
		t.Errorf("a task that never started is %q", got)
	}
}
