package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/config"
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

// Where the configuration in force asks for what the executor cannot do any more, the log says so in the words of the refusal that a new one gets.
func TestAConfigurationInForceThatDoesNotFit(t *testing.T) {
	x, err := local.New(local.Options{Dir: filepath.Join(t.TempDir(), "jobs"), Cluster: "test", Self: "/bin/true", Tell: func(sched.Fact) {}, NoCgroups: true, NoSuspend: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	c := &sched.Config{VCs: []sched.VCConfig{{Name: "vision", Policy: "gandiva"}, {Name: "text", Policy: "gandiva"}}}
	for _, file := range []*config.Cluster{nil, {Config: c}} {
		var said strings.Builder
		d := &daemon{flags: serveFlags{overcommit: true, cluster: "cluster.yaml"}, executor: x, log: slog.New(slog.NewTextHandler(&said, nil))}
		refusal := d.fits(c, file, false)
		if refusal == nil || said.Len() > 0 {
			t.Fatalf("a new one is refused with %v; the log says %s", refusal, &said)
		}
		if err := d.fits(c, file, true); err != nil {
			t.Errorf("the one in force is refused: %v", err)
		}
		for line := range strings.Lines(refusal.Error()) {
			if !strings.Contains(said.String(), strings.TrimSpace(line)) {
				t.Errorf("the log does not say %q: %s", line, &said)
			}
		}
		if n := strings.Count(said.String(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings for 2 virtual clusters: %s", n, &said)
		}
	}
}
