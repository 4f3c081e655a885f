package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
)

// ofSKU is a cluster of one node with a leaf of a SKU.
func ofSKU(sku string) []byte {
	return fmt.Appendf(nil, "physicalCluster:\n  skuTypes:\n    G: %s\n  cellTypes: {N: {childCellType: G, childCellNumber: 1, isNodeLevel: true}}\n"+
		"  physicalCells: [{cellType: N, cellAddress: n}]\nvirtualClusters: {v: {virtualCells: [{cellType: N, cellNumber: 1}]}}\n", sku)
}

func TestDRA(t *testing.T) {
	for text, want := range map[string]cell.DRA{
		"{gpu: 1}": {},
		"{gpu: 1, dra: {deviceClass: gpu.nvidia.com}}":                                                         {Class: "gpu.nvidia.com", Driver: "gpu.nvidia.com", Device: "gpu-%d", Attribute: "uuid"},
		`{gpu: 8, dra: {deviceClass: big, driver: d.example, device: "%d-of-8", attribute: example.org/slot}}`: {Class: "big", Driver: "d.example", Device: "%d-of-8", Attribute: "example.org/slot"},
	} {
		c, _, problems := Parse("f", ofSKU(text), known)
		if len(problems) > 0 || c.Config.Cluster.SKUs[0].DRA != want {
			t.Fatalf("%s: %v, %+v", text, problems, c)
		}
		if err := CheckNoPods(c.Config); (err == nil) != (want == cell.DRA{}) {
			t.Errorf("%s on one machine: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"{gpu: 1, dra: gpu.nvidia.com}":                                   "f:3:22: physicalCluster.skuTypes.G.dra: ",
		"{gpu: 1, dra: {}}":                                               "f:3:22: physicalCluster.skuTypes.G.dra: dra needs deviceClass",
		"{gpu: 1, dra: {deviceClass: GPU}}":                               `f:3:36: physicalCluster.skuTypes.G.dra.deviceClass: "GPU" is no name of a DeviceClass`,
		"{gpu: 1, dra: {deviceClass: a, driver: b_c}}":                    `f:3:47: physicalCluster.skuTypes.G.dra.driver: "b_c" is no name of a driver`,
		"{gpu: 1, dra: {deviceClass: a, device: gpu}}":                    `f:3:47: physicalCluster.skuTypes.G.dra.device: "gpu" does not say`,
		`{gpu: 1, dra: {deviceClass: a, device: "%d-%d"}}`:                `physicalCluster.skuTypes.G.dra.device: "%d-%d" does not say`,
		`{gpu: 1, dra: {deviceClass: a, device: "gpu-%s"}}`:               `physicalCluster.skuTypes.G.dra.device: "gpu-%s" does not say`,
		`{gpu: 1, dra: {deviceClass: a, attribute: "a b"}}`:               `physicalCluster.skuTypes.G.dra.attribute: "a b" is no attribute`,
		"{gpu: 1, dra: {deviceClass: a, class: b}}":                       "physicalCluster.skuTypes.G.dra.class: unknown key",
		"{cpu: 1, dra: {deviceClass: a}}":                                 "physicalCluster.skuTypes.G.dra: a SKU of device cpu has no devices that a driver could give",
		"{gpu: 1, part: share, dra: {deviceClass: a}}":                    "physicalCluster.skuTypes.G.dra: a part of a device is not given by dra",
		"{gpu: 1, dra: {deviceClass: a, driver: " + long + "}}":           "is no name of a driver",
		"{gpu: 1, dra: {deviceClass: " + long + long + long + long + "}}": "deviceClass: ",
	} {
		_, _, problems := Parse("f", ofSKU(text), known)
		if got := problems.Error(); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestResource(t *testing.T) {
	for text, want := range map[string]string{
		"{gpu: 1}": "",
		"{gpu: 1, resource: nvidia.com/mig-1g.5gb}":          "nvidia.com/mig-1g.5gb",
		"{gpu: 2, device: other, resource: habana.ai/gaudi}": "habana.ai/gaudi",
	} {
		c, _, problems := Parse("f", ofSKU(text), known)
		if len(problems) > 0 || c.Config.Cluster.SKUs[0].Resource != want {
			t.Fatalf("%s: %v, %+v", text, problems, c)
		}
		if err := CheckNoPods(c.Config); (err == nil) != (want == "") {
			t.Errorf("%s on one machine: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"{gpu: 1, resource: gpu}":                              `f:3:27: physicalCluster.skuTypes.G.resource: "gpu" is no name of what a device plugin offers`,
		"{gpu: 1, resource: [a]}":                              "physicalCluster.skuTypes.G.resource: ",
		"{gpu: 1, resource: requests.kubernetes.io/x}":         "is Kubernetes' own",
		"{gpu: 1, infiniband: nvidia.com/gpu}":                 "\"nvidia.com/gpu\" is a GPU",
		"{gpu: 1, infiniband: ib0}":                            `physicalCluster.skuTypes.G.infiniband: "ib0" is no name of what a device plugin offers`,
		"{gpu: 1, resource: a/b/c}":                            `"a/b/c" is no name`,
		"{gpu: 1, resource: a.b/" + long + "}":                 "is no name of what a device plugin offers",
		"{cpu: 1, resource: a.b/c}":                            "a SKU of device cpu has no devices that a plugin could give",
		"{gpu: 1, resource: a.b/c, dra: {deviceClass: a}}":     "by a device plugin or by dra, not by both",
		"{gpu: 1, part: mig, resource: nvidia.com/mig-1g.5gb}": "a part of a device that a plugin gives is a device of its own",
	} {
		_, _, problems := Parse("f", ofSKU(text), known)
		if got := problems.Error(); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

var long = strings.Repeat("a", 64)
