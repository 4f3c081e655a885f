package simulate

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/config"
)

// readClusterConfig reads a cluster file; nil policies are not checked.
func readClusterConfig(file string, policies model.Policies) (*model.Config, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, _, found := config.Parse(file, src, config.Policies{New: policies})
	if len(found) > 0 {
		return nil, found
	}
	return c.Config, nil
}

// vcsOf gives the cluster of a plan the virtual clusters of a cluster file. Each owns cells
// of the same size and type of GPU as in the file. Where the cells above the node differ it
// owns as many nodes instead. leaves says that VCs own numbers of GPUs, whatever cells the
// file names. A virtual cluster without a policy in the file gets the one given.
func vcsOf(to *model.Config, file string, leaves bool, text string, given model.VCConfig) error {
	from, err := readClusterConfig(file, nil)
	if err != nil {
		return err
	}
	var wrong problems
	to.Cluster.VCs, to.VCs = nil, nil
	for i := range from.Cluster.VCs {
		v := &from.Cluster.VCs[i]
		if len(v.Pinned) > 0 {
			wrong.add(fmt.Errorf("--vcs %s: virtual cluster %q owns pinned cells, which belong to the machines of that file; give it with --cluster", file, v.Name))
		}
		out := cell.VCSpec{Name: v.Name, Parent: v.Parent}
		for _, q := range v.Quota {
			own, err := translate(&from.Cluster, q, &to.Cluster, leaves)
			if err != nil {
				wrong.add(fmt.Errorf("--vcs %s: virtual cluster %q: %w", file, v.Name, err))
				continue
			}
			at := slices.IndexFunc(out.Quota, func(o cell.QuotaSpec) bool { return o.Chain == own.Chain && o.Level == own.Level })
			if at < 0 {
				out.Quota = append(out.Quota, own)
			} else {
				out.Quota[at].Number += own.Number
			}
		}
		to.Cluster.VCs = append(to.Cluster.VCs, out)
		to.VCs = append(to.VCs, orGiven(from.VCs[i], text, given))
	}
	return wrong.all()
}

// orGiven gives a virtual cluster that names no policy the one given.
func orGiven(vc model.VCConfig, text string, given model.VCConfig) model.VCConfig {
	if vc.Policy == "" {
		override(&vc, text, given)
		if vc.Budget == nil {
			vc.Budget = given.Budget
		}
	}
	return vc
}

// translate finds the cells of another cluster that are as large as those of a quota.
func translate(from *cell.Spec, q cell.QuotaSpec, to *cell.Spec, leaves bool) (cell.QuotaSpec, error) {
	ch := chainOf(from, q.Chain)
	size, leaf := sizeOf(ch, q.Level), ch.Levels[0].Type
	var sizes []string
	for i := range to.Chains {
		c := &to.Chains[i]
		// A cluster in the short form need not name its only type.
		if c.Levels[0].Type != leaf && !(len(to.Chains) == 1 && c.Levels[0].Type == plainGPU) {
			continue
		}
		if leaves {
			return cell.QuotaSpec{Chain: c.Name, Level: 1, Number: q.Number * size}, nil
		}
		for level := 1; level <= len(c.Levels); level++ {
			own := sizeOf(c, cell.Level(level))
			sizes = append(sizes, fmt.Sprint(own))
			if own == size || c.Levels[level-1].IsNode && size > own && size%own == 0 && !hasSize(c, size) {
				return cell.QuotaSpec{Chain: c.Name, Level: cell.Level(level), Number: q.Number * (size / own)}, nil
			}
		}
	}
	if len(sizes) == 0 {
		return cell.QuotaSpec{}, fmt.Errorf("it owns cells of %s, which --cluster has none of", leaf)
	}
	return cell.QuotaSpec{}, fmt.Errorf("it owns cells of %d %s; those of --cluster have %s", size, leaf, strings.Join(sizes, ", "))
}

func chainOf(s *cell.Spec, name cell.ChainName) *cell.ChainSpec {
	i := slices.IndexFunc(s.Chains, func(c cell.ChainSpec) bool { return c.Name == name })
	return &s.Chains[i]
}

// sizeOf is how many leaves a cell of a level has.
func sizeOf(c *cell.ChainSpec, level cell.Level) int32 {
	n := int32(1)
	for _, l := range c.Levels[1:level] {
		n *= l.Fanout
	}
	return n
}

func hasSize(c *cell.ChainSpec, size int32) bool {
	for level := 1; level <= len(c.Levels); level++ {
		if sizeOf(c, cell.Level(level)) == size {
			return true
		}
	}
	return false
}
