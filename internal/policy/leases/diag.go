package leases
import "fmt"
func (s *Solver) Diag() {
	sc := float64(int64(1)<<s.shift) * 1e6
	var waste, regret, regretUn, choice int64
	for t, l := range s.prices.lease {
		left := int64(0)
		for k := range s.left.planes { left += int64(s.left.bits[k*s.words+t/64]>>(t%64)&1)<<k }
		waste += left*l
	}
	un := 0
	for j := range s.rows {
		r := &s.rows[j]
		best := int64(0)
		for _, o := range r.options { best = max(best, o.Reward - s.prices.cost(r.gpus, r.need, o.Leases)) }
		if s.chosen[j] == none { regretUn += best; un++; continue }
		act := r.options[s.chosen[j]].Reward
		c := int64(0)
		for t, l := range s.prices.lease { if Vector(s.has(int32(j))).Has(t) { c += l*int64(r.gpus) } }
		regret += best-(act-c)
		choice += best - (act - s.prices.cost(r.gpus, r.need, r.options[s.chosen[j]].Leases))
	}
	fmt.Printf("   waste %.2f regret placed %.2f (of which option %.2f) unplaced %.2f (%d)\n", float64(waste)/sc, float64(regret)/sc, float64(choice)/sc, float64(regretUn)/sc, un)
	fmt.Print("   left/price:")
	for t, l := range s.prices.lease {
		if t > 100 || t%3 != 0 && t > 10 {continue}
		left := int64(0)
		for k := range s.left.planes { left += int64(s.left.bits[k*s.words+t/64]>>(t%64)&1)<<k }
		fmt.Printf(" %d/%.3f", left, float64(l)/sc*100)
	}
	fmt.Println()
}
