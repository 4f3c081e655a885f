package judge

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/combsched/comb/internal/policy/leases"
)

func cached(t *testing.T, p *leases.Problem) Verdict {
	b, _ := json.Marshal(p)
	f := filepath.Join("/tmp/cbccache", fmt.Sprintf("%x", sha256.Sum256(b)))
	var v Verdict
	if c, err := os.ReadFile(f); err == nil {
		json.Unmarshal(c, &v)
		return v
	}
	v, err := CBC(p, t.TempDir(), 20)
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll("/tmp/cbccache", 0o755)
	c, _ := json.Marshal(v)
	os.WriteFile(f, c, 0o644)
	return v
}

var families = []Family{
	{Name: "over30", Jobs: 30, Leases: 250, Soft: 100, Load: 150},
	{Name: "over60", Jobs: 60, Leases: 250, Soft: 100, Load: 150},
	{Name: "over60h", Jobs: 60, Leases: 250, Soft: 100, Load: 150, Heavy: true},
	{Name: "over100", Jobs: 100, Leases: 250, Soft: 100, Load: 130},
	{Name: "over100b", Jobs: 100, Leases: 250, Soft: 100, Load: 200},
	{Name: "over100h", Jobs: 100, Leases: 250, Soft: 100, Load: 150, Heavy: true},
	{Name: "over160mix", Jobs: 160, Leases: 250, Soft: 50, Load: 150},
	{Name: "over400str", Jobs: 400, Leases: 250, Soft: 0, Load: 150},
	{Name: "half100", Jobs: 100, Leases: 250, Soft: 100, Load: 130, Guaranteed: 50},
	{Name: "all100", Jobs: 100, Leases: 250, Soft: 100, Load: 100, Guaranteed: 100},
	{Name: "all100h", Jobs: 100, Leases: 250, Soft: 100, Load: 100, Guaranteed: 100, Heavy: true},
	{Name: "all160mix", Jobs: 160, Leases: 250, Soft: 50, Load: 100, Guaranteed: 100, Warm: true},
}

func TestProto(t *testing.T) {
	var s leases.Solver
	var plan leases.Plan
	for _, f := range families {
		for seed := range uint64(3) {
			p := Generate(f, seed)
			rows := 0
			for _, j := range p.Jobs {
				rows += len(j.Options)
			}
			var d time.Duration
			for range 3 {
				start := time.Now()
				if err := s.Solve(p, leases.DefaultLimits(), &plan); err != nil {
					t.Fatal(err)
				}
				d = time.Since(start)
			}
			if err := leases.Check(p, &plan); err != nil {
				t.Error(err)
			}
			v := cached(t, p)
			ours := plan.Objective(p)
			fmt.Printf("%-12s %d rows %d M %d: ours %.3f bound %.3f cbc bound %.3f found %.3f opt %v inf %v  gap %.2f%% unplaced %d  %v used %d now %d\n", f.Name, seed, rows, p.Capacity[0],
				float64(ours)/Point, float64(plan.Bound)/Point, float64(v.Bound)/Point, float64(v.Found)/Point, v.Optimal, v.Infeasible, 100*float64(v.Bound-ours)/float64(v.Bound), plan.Unplaced, d, plan.Used, p.Now)
		}
	}
}
