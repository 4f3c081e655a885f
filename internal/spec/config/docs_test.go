package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
)

const page = "../../../docs/cluster-file.md"

// TestPage reads the example of the page for users, and makes the mistake that
// the page shows the message of.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("no example")
	}
	example := blocks[0][1] // a whole file; what follows are parts of one
	c, warnings, problems := Parse("cluster.yaml", []byte(example), known)
	if len(problems) > 0 || len(warnings) > 0 {
		t.Fatal(problems, warnings)
	}
	if _, err := cell.New(&c.Config.Cluster); err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(example, "V100-RACK.V100-NODE.V100-PAIR, cellNumber: 1", "V100-RACK.V100-NODE, cellNumber: 2", 1)
	_, _, problems = Parse("cluster.yaml", []byte(wrong), known)
	if got := problems.Error(); !strings.Contains(strings.Join(strings.Fields(string(text)), " "), got) {
		t.Errorf("the page does not show the message: %s", got)
	}
}

// TestPageNamesKeys wants every key that the reader knows on the page.
func TestPageNamesKeys(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	keys := append(ignored(), "physicalCluster", "skuTypes", "cellTypes", "physicalCells", "virtualClusters", "nodes",
		"childCellType", "childCellNumber", "isNodeLevel", "cellType", "cellAddress", "pinnedCellId", "cellChildren",
		"gpu", "cpu", "memory", "gpuMemory", "device", "envVar", "deviceFiles", "virtualCells", "pinnedCells", "cellNumber", "policy", "params",
		"isDeviceLevel", "part", "formerly", "backfill", "minRunTime", "preemptionBudget", "opportunisticWeight", "lending", "placement", "defragmentation", "movesPerHour", "opportunisticHalfLife", "throughputs",
		"storages", "folder", "readOnly", "perUser", "namespace", "workloads", "namespaces",
		"resource", "infiniband", "dra", "deviceClass", "driver", "attribute",
		"access", "administrators", "members", "viewers")
	for _, key := range keys {
		if !strings.Contains(string(text), key) {
			t.Errorf("the page does not name %s", key)
		}
	}
	for _, k := range []cell.DeviceKind{cell.NVIDIA, cell.AMD, cell.TPU, cell.CPU, cell.Other} {
		if !strings.Contains(string(text), "| `"+string(k)+"` | `"+envVar(k)+"` |") {
			t.Errorf("the page does not give the variable of %s", k)
		}
	}
}
