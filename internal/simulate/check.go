package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/trace"
)

// Check finds everything that is wrong with a Spec and that can be known before the
// trace is read, all at once, a line each. policies knows which policies there are
// and what they take.
func (s *Spec) Check(policies sched.Policies) error {
	var wrong problems
	if err := s.effects(&plan{}); err != nil {
		wrong.add(err)
	}
	wrong.add(s.checkCluster(policies))
	switch {
	case s.VCs == "" || s.VCs == "from-trace":
	case isFile(s.VCs):
		_, err := readClusterConfig("--vcs", s.VCs, policies)
		wrong.add(err)
	default:
		wrong.add(fmt.Errorf("--vcs is from-trace or a cluster file; there is no file %q", s.VCs))
	}
	wrong.add(checkPolicy("--policy", s.Policy, policies))
	wrong.add(s.checkVCPolicies(policies))
	return wrong.all()
}

// CheckReplay does so for a replay of a journal.
func (s *Spec) CheckReplay(policies sched.Policies) error {
	var wrong problems
	if err := s.effects(&plan{}); err != nil {
		wrong.add(err)
	}
	if s.Policy != "" {
		wrong.add(checkPolicy("--policy", s.Policy, policies))
	}
	wrong.add(s.checkVCPolicies(policies))
	return wrong.all()
}

func (s *Spec) checkVCPolicies(policies sched.Policies) error {
	var wrong problems
	for _, vc := range slices.Sorted(maps.Keys(s.VCPolicies)) {
		wrong.add(checkPolicy("--vc-policy "+vc, s.VCPolicies[vc], policies))
	}
	return wrong.all()
}

// checkCluster checks what --cluster and --racks say.
func (s *Spec) checkCluster(policies sched.Policies) error {
	if isFile(s.Cluster) {
		_, err := readClusterConfig("--cluster", s.Cluster, policies)
		return err
	}
	if _, err := os.Stat(s.Cluster); err == nil {
		return fmt.Errorf("--cluster %s is no regular file: name a cluster file, or give NODESxGPUS[:TYPE],... such as 64x8", s.Cluster)
	}
	shapes, err := trace.ParseShapes(s.Cluster)
	if err != nil {
		if strings.ContainsAny(s.Cluster, "./") {
			return fmt.Errorf("--cluster: there is no file %q", s.Cluster)
		}
		return fmt.Errorf("--cluster: %w", err)
	}
	for _, sh := range shapes {
		if s.Racks < 0 || s.Racks > 0 && sh.Nodes%s.Racks != 0 {
			return fmt.Errorf("--racks %d: %d nodes do not divide among them; choose a number that divides the nodes", s.Racks, sh.Nodes)
		}
	}
	return nil
}

// checkPolicy makes the policy that a flag names, with 1 for what only the trace says.
func checkPolicy(flag, text string, policies sched.Policies) error {
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
		return fmt.Errorf("%s: cannot read %s: %w", flag, missing.Path, missing.Err)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, text, err)
	}
	return nil
}
