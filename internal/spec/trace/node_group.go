package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// NodeGroup is a number of equal nodes of a cluster.
type NodeGroup struct {
	Nodes    int32  `json:"nodes"`
	GPUs     int32  `json:"gpus"` // of one node
	Type     string `json:"type,omitempty"`
	Switches int32  `json:"switches,omitempty"` // over which the nodes are spread evenly; 0 is unknown
	CPUs     int32  `json:"cpus,omitempty"`     // of one node
	MemoryGB int32  `json:"memory_gb,omitempty"`
}

// TotalGPUs is the number of GPUs of a cluster.
func TotalGPUs(cluster []NodeGroup) int64 {
	total := int64(0)
	for _, s := range cluster {
		total += int64(s.Nodes) * int64(s.GPUs)
	}
	return total
}

// ParseNodeGroups reads NODESxGPUS[:TYPE],..., such as 64x8 or 32x8:V100,8x4:T4.
func ParseNodeGroups(text string) ([]NodeGroup, error) {
	var out []NodeGroup
	for part := range strings.SplitSeq(text, ",") {
		size, typ, named := strings.Cut(part, ":")
		n, g, ok := strings.Cut(size, "x")
		nodes, err1 := strconv.ParseInt(n, 10, 32)
		gpus, err2 := strconv.ParseInt(g, 10, 32)
		if !ok || err1 != nil || err2 != nil || nodes < 1 || gpus < 1 || nodes > MaxGPUs || gpus > MaxGPUs || named && typ == "" {
			return nil, fmt.Errorf("%q is no cluster; want NODESxGPUS or NODESxGPUS:TYPE, such as 64x8 or 32x8:V100,8x4:T4", part)
		}
		out = append(out, NodeGroup{Nodes: int32(nodes), GPUs: int32(gpus), Type: typ})
	}
	if total := TotalGPUs(out); total > MaxGPUs {
		return nil, fmt.Errorf("%q has %d GPUs; want at most %d", text, total, MaxGPUs)
	}
	return out, nil
}

// ReadNodeGroups reads a cluster file of the Tiresias simulator, such as n15g4.csv.
func ReadNodeGroups(path string) ([]NodeGroup, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster: %w", err)
	}
	defer f.Close()
	return readNodeGroups(path, f)
}

func readNodeGroups(name string, in io.Reader) ([]NodeGroup, error) {
	t, f, err := smallTable(name, in, "num_switch", "num_node_p_switch", "num_gpu_p_node", "?num_cpu_p_node", "?mem_p_node")
	if err != nil {
		return nil, err
	}
	var out []NodeGroup
	for {
		r, err := t.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		few := span{1, 1 << 15}
		s := NodeGroup{Switches: int32(r.whole(f[0], few)), GPUs: int32(r.whole(f[2], few)),
			CPUs: int32(r.whole(f[3], span{0, MaxGPUs})), MemoryGB: int32(r.whole(f[4], span{0, MaxGPUs}))}
		s.Nodes = s.Switches * int32(r.whole(f[1], few))
		if total := TotalGPUs(append(out, s)); total > MaxGPUs {
			r.fail(f[0], tooLarge, fmt.Sprintf("the cluster would have %d GPUs; want at most %d", total, MaxGPUs))
		}
		if r.err != nil {
			return nil, r.err
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, &Error{File: name, Kind: "empty", Text: "the file has no cluster; want a line of numbers under the header"}
	}
	return out, nil
}
