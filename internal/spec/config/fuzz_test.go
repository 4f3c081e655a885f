package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// FuzzParse checks on any input: no panic, the bounds kept, the same answer
// twice, and that the core takes every cluster that is found right.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(testdata, "*.yaml"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(cluster(someTypes, someCells, someVCs)))
	f.Add([]byte(cluster("N: {childCellType: N, childCellNumber: 2, isNodeLevel: true}", "- {cellType: N}", "v: ")))
	f.Add([]byte(cluster(someTypes, "- cellType: R\n  cellChildren: [{cellAddress: a, cellChildren: [{pinnedCellId: P}, {}]}, {cellAddress: b}]", "v: {policy: {name: drf, params: {a: 1}}, pinnedCells: [{pinnedCellId: P}]}")))
	f.Add([]byte(cluster(someTypes, someCells, nestedVCs)))
	f.Add([]byte("physicalCluster:\n  skuTypes: {P: {gpu: 1, part: share}}\n  cellTypes:\n    D: {childCellType: P, childCellNumber: 2, isDeviceLevel: true}\n    N: {childCellType: D, childCellNumber: 2, isNodeLevel: true}\n" +
		"  physicalCells: [{cellType: N, cellAddress: n, formerly: m, cellChildren: [{cellAddress: 3, cellChildren: [{cellAddress: \"3:1\"}, {}]}, {}]}]\nvirtualClusters: {v: {virtualCells: [{cellType: N.D, cellNumber: 2}], minRunTime: 1h, backfill: none, virtualClusters: {w: {formerly: x, virtualCells: [{cellType: N.D.P, cellNumber: 4}]}}}}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, warnings, problems := Parse("f", src, known)
		if (c == nil) != (len(problems) > 0) || len(problems) > document.MaxProblems || len(warnings) > document.MaxProblems {
			t.Fatalf("cluster %v with %d problems, %d warnings", c != nil, len(problems), len(warnings))
		}
		if c == nil {
			return
		}
		if leaves(c) > 20_000 {
			return // right, but slow to check for the core
		}
		if _, err := cell.New(&c.Config.Cluster); err != nil {
			t.Fatalf("found right, but the core says: %v", err)
		}
		again, _, _ := Parse("f", src, known)
		if a, b := text(t, c), text(t, again); a != b {
			t.Fatalf("two answers:\n%s\n%s", a, b)
		}
		if Summary(c) == "" {
			t.Fatal("no summary")
		}
	})
}

func leaves(c *Cluster) int {
	n := 0
	for i := range c.Config.Cluster.Cells {
		n += count(&c.Config.Cluster.Cells[i])
	}
	return n
}

func count(s *cell.CellSpec) int {
	if len(s.Children) == 0 {
		return 1
	}
	n := 0
	for i := range s.Children {
		n += count(&s.Children[i])
	}
	return n
}

func text(t *testing.T, c *Cluster) string {
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// BenchmarkParse reads the largest file in testdata.
func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile(filepath.Join(testdata, "large.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, _, problems := Parse("large.yaml", src, Policies{}); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}
