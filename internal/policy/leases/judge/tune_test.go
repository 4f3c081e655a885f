package judge
import ("testing";"fmt";"time";"slices";"os";"syscall";"strconv";"github.com/combsched/comb/internal/policy/leases")
func TestTune(t *testing.T) {
	var s leases.Solver
	var plan leases.Plan
	lim := leases.DefaultLimits()
	if r := os.Getenv("R"); r != "" { lim.Rounds, _ = strconv.Atoi(r) }
	if r := os.Getenv("P"); r != "" { lim.Prices, _ = strconv.Atoi(r) }
	var all float64; var sum time.Duration
	for _, f := range families {
		var gaps []float64
		var times []time.Duration
		bad := 0
		for seed := range uint64(12) {
			p := Generate(f, seed)
			s.Solve(p, leases.Limits{Prices:3000}, &plan); b := plan.Bound; if p.Now>0 {b -= Point}
			best := time.Hour
			for range 3 {
			start := cpu()
			s.Solve(p, lim, &plan)
			best = min(best, cpu()-start)
			}
			if err := leases.Check(p, &plan); err != nil { t.Fatal(err) }
			times = append(times, best)
			if plan.Unplaced > 0 { bad++ }
			gaps = append(gaps, 100*float64(b-plan.Reward)/float64(b))
		}
		slices.Sort(gaps); slices.Sort(times)
		m := 0.0
		for _, g := range gaps { m += g/12 }
		all += m
		sum += times[6]
		fmt.Printf("%-12s mean %.2f max %.2f  unplaced %d  time median %v max %v\n", f.Name, m, gaps[11], bad, times[6], times[11])
	}
	fmt.Printf("ALL %.3f  time %v\n", all/float64(len(families)), sum/time.Duration(len(families)))
}
func init() {
	if h := os.Getenv("BLINK"); h != "" { leases.BLINK, _ = strconv.Atoi(h) }
	if h := os.Getenv("REL"); h != "" { leases.REL, _ = strconv.Atoi(h) }

	if h := os.Getenv("HEAT"); h != "" { leases.HEAT, _ = strconv.Atoi(h) }
	if h := os.Getenv("OUT"); h != "" { leases.OUT, _ = strconv.Atoi(h) }
	leases.UPG = os.Getenv("NOUPG") == ""
}

func cpu() time.Duration { var r syscall.Rusage; syscall.Getrusage(syscall.RUSAGE_SELF, &r); return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
