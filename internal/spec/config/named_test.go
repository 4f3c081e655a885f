package config_test

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/spec/config"
)

// Where nodes are machines, one without a name is refused, with its place and what to write;
// elsewhere it is warned of.
func TestNodesHaveNames(t *testing.T) {
	const file = "physicalCluster:\n  cellTypes: {N: {childCellType: G, childCellNumber: 1, isNodeLevel: true}}\n" +
		"  physicalCells:\n  - {cellType: N, cellAddress: gpu-1}\n  - {cellType: N}\nvirtualClusters: {v: {virtualCells: [{cellType: N, cellNumber: 2}]}}\n"
	for _, named := range []bool{false, true} {
		_, warnings, problems := config.Parse("f", []byte(file), config.Policies{Names: policy.Names(), New: policy.New, Named: named})
		said := warnings
		if named {
			said = problems
		}
		if len(problems) > 0 != named || len(said) != 1 || !strings.HasPrefix(said[0].String(), "f:5:5: ") || !strings.Contains(said[0].String(), "a node has no cellAddress") {
			t.Errorf("named %v: %v, %v", named, warnings, problems)
		}
		if named && !strings.Contains(said[0].String(), "would be called \"1\"; write the machine's name, such as cellAddress: gpu-2") {
			t.Error(said[0])
		}
	}
}
