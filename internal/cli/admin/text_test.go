package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

func TestRulesOfAVCAreShown(t *testing.T) {
	budget := int32(1)
	v := rest.VCStatus{Name: "a", Policy: "fifo", Params: []rest.Param{{Key: "preempt", Value: "true"}}, Backfill: "easy",
		MinRun: 20_000_000, Budget: &budget, SKUs: []rest.VCUse{
			{Carry: model.Carry{SKU: "V100", Device: cell.NVIDIA, GPU: 1, MilliCPU: 4500, MemoryMB: 16384}, Guaranteed: 8, Used: 2},
			{Carry: model.Carry{SKU: "slot", Device: cell.CPU, MilliCPU: 2000, MemoryMB: 512}, Guaranteed: 3, Opportunistic: 2}}}
	var out strings.Builder
	a := &cli.App{Out: &out, Format: "table", Now: time.Now}
	if err := a.Show(v, func(t *cli.Table) { drawVC(t, &v) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fifo preempt=true", "easy", "20s, then", "1 preemption of",
		"V100  1 GPU, 4.5 CPUs, 16 GiB  8 GPUs      2", "slot  2 CPUs, 512 MiB          6 CPUs      0     4"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// What a node has is told as GPUs and CPUs of each type, never as leaves.
func TestNodesAreToldByType(t *testing.T) {
	v100 := model.Carry{SKU: "V100", Device: cell.NVIDIA, GPU: 1}
	slot := model.Carry{SKU: "slot", Device: cell.CPU, MilliCPU: 1500}
	var out strings.Builder
	a := &cli.App{Out: &out, Format: "table", Now: time.Now}
	nodes := []rest.NodeStatus{{Name: "n1", Up: true, SKUs: []rest.NodeSKU{{Carry: v100, Chain: "node", Total: 8, Used: 5, Bad: 1}, {Carry: slot, Chain: "cpus", Total: 4, Used: 1}}}}
	if err := a.Show(nodes, func(t *cli.Table) { (&commands{a}).drawNodes(t, nodes) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 GPU     8 GPUs  5     1", "1.5 CPUs  6 CPUs  1.5   0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "lea") {
		t.Error(out.String())
	}
}
