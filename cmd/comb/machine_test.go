package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/executor/local"
	"github.com/combsched/comb/internal/sched"
)

// A server whose executor cannot suspend refuses a policy that needs it, and says
// for which virtual cluster and why.
func TestPolicyThatTheExecutorCannotServe(t *testing.T) {
	c := &sched.Config{VCs: []sched.VCConfig{{Name: "speech", Policy: "las"}, {Name: "vision", Policy: "gandiva"}}}
	for _, can := range []bool{true, false} {
		x, err := local.New(local.Options{Dir: filepath.Join(t.TempDir(), "jobs"), Cluster: "test", Self: "/bin/true",
			Tell: func(sched.Fact) {}, NoCgroups: true, NoSuspend: !can})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		d := &daemon{flags: serveFlags{overcommit: true}, executor: x}
		err = d.checkCluster(c)
		if can {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "virtual cluster vision: the policy gandiva needs an executor that can suspend tasks") ||
			strings.Contains(err.Error(), "speech") {
			t.Errorf("it says %v", err)
		}
	}
}
