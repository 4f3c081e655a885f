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
