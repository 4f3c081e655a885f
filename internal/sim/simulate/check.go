package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/trace"
)

// mistake is what is wrong with one flag.
type mistake struct {
	flag string // with its dashes
	err  error
}

// String begins with the flag, unless the place in a file says more.
func (m *mistake) String() string {
	var places document.Problems
	if errors.As(m.err, &places) {
		return m.err.Error()
	}
	return m.flag + ": " + m.err.Error()
}

type mistakes []mistake

func (m *mistakes) add(flag string, err error) {
	if err != nil {
		*m = append(*m, mistake{flag, err})
	}
}

// all is an error with a line for each mistake; nil when there are none.
func (m mistakes) all() error {
	var wrong problems
	for i := range m {
		wrong.add(errors.New(m[i].String()))
	}
	return wrong.all()
}

// Check finds all that is wrong with a Spec and can be known before the trace is read, and
// reports it at once, a line each. policies are those that exist, with their parameters.
func (s *Spec) Check(policies model.Policies) error {
	wrong := s.mistakes(policies)
	wrong.add("--policy "+s.Policy, checkPolicy(s.Policy, policies))
	return wrong.all()
}

// mistakes is what Check finds, without the checks of Policy.
func (s *Spec) mistakes(policies model.Policies) mistakes {
	wrong := s.readFlags(&plan{})
	wrong.add("--cluster", s.checkCluster(policies))
	wrong = append(wrong, s.contradictions()...)
	switch {
	case s.VCs == "" || s.VCs == "from-trace":
	case isFile(s.VCs):
		_, err := readClusterConfig(s.VCs, policies)
		wrong.add("--vcs", err)
	default:
		wrong.add("--vcs", fmt.Errorf("want from-trace or a cluster file; there is no file %q", s.VCs))
	}
	return append(wrong, s.checkVCPolicies(policies)...)
}

// CheckReplay does what Check does for a replay of a journal.
func (s *Spec) CheckReplay(policies model.Policies) error {
	wrong := s.readFlags(&plan{})
	if s.Policy != "" {
		wrong.add("--policy "+s.Policy, checkPolicy(s.Policy, policies))
	}
	return append(wrong, s.checkVCPolicies(policies)...).all()
}

func (s *Spec) checkVCPolicies(policies model.Policies) (wrong mistakes) {
	for _, vc := range slices.Sorted(maps.Keys(s.VCPolicies)) {
		wrong.add("--vc-policy "+vc+"="+s.VCPolicies[vc], checkPolicy(s.VCPolicies[vc], policies))
	}
	return wrong
}

// checkCluster checks --cluster; the caller reports an empty one.
func (s *Spec) checkCluster(policies model.Policies) error {
	if s.Cluster == "" {
		return nil
	}
	if isFile(s.Cluster) {
		_, err := readClusterConfig(s.Cluster, policies)
		return err
	}
	if _, err := os.Stat(s.Cluster); err == nil {
		return fmt.Errorf("%s is no regular file: name a cluster file, or give NODESxGPUS[:TYPE],... such as 64x8", s.Cluster)
	}
	_, err := trace.ParseNodeGroups(s.Cluster)
	if err != nil && strings.ContainsAny(s.Cluster, "./") {
		return fmt.Errorf("there is no file %q", s.Cluster)
	}
	return err
}

// contradictions reports flags that do not go with the cluster that --cluster names.
func (s *Spec) contradictions() (wrong mistakes) {
	if isFile(s.Cluster) {
		said := fmt.Errorf("the cluster file %s says that: leave it out", s.Cluster)
		for flag, given := range map[string]bool{"--vcs from-trace": s.VCs == "from-trace", "--racks": s.Racks != 0,
			"--placement count": s.Placement == "count", "--quota count": s.Quota == "count"} {
			if given {
				wrong.add(flag, said)
			}
		}
		slices.SortFunc(wrong, func(a, b mistake) int { return strings.Compare(a.flag, b.flag) })
		return wrong
	}
	shapes, err := trace.ParseNodeGroups(s.Cluster)
	if err != nil {
		return nil // reported already
	}
	if s.VCs == "from-trace" && len(shapes) != 1 {
		wrong.add("--vcs from-trace", fmt.Errorf("divides nodes of one kind; %q has %d kinds", s.Cluster, len(shapes)))
	}
	for _, sh := range shapes {
		if s.Racks < 0 || s.Racks > 0 && sh.Nodes%s.Racks != 0 {
			wrong.add("--racks", fmt.Errorf("%d nodes do not divide among %d racks; choose a number that divides the nodes", sh.Nodes, s.Racks))
			break
		}
	}
	return wrong
}

// checkPolicy checks the policy that a flag names, with 1 for values that only the trace
// tells.
func checkPolicy(text string, policies model.Policies) error {
	vc, err := readPolicy(text, nil)
	if err == nil {
		for i := range vc.Params {
			if vc.Params[i].Value == "median" {
				vc.Params[i].Value = "1"
			}
		}
		_, err = policies(vc)
	}
	var missing *fs.PathError
	if errors.As(err, &missing) {
		return fmt.Errorf("cannot read %s: %w", missing.Path, missing.Err)
	}
	return err
}
