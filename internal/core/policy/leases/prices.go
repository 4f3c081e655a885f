package leases

// prices are Lagrangean multipliers: what one GPU of each lease costs, in scaled reward. They
// never rise from a lease to the next, because a job that can use a lease can use every earlier
// one; so the cheapest leases before a deadline are the last, and a job's cost is one
// difference of prefix sums.
type prices struct {
	lease  []int64 // best found
	prefix []int64 // prefix[t] is the price of all leases before t
	bound  int64   // the dual value of the best prices: no plan's scaled reward is above it

	trial  []int64
	excess []int64 // GPUs asked for beyond each lease's capacity, under the trial's prices
	blocks []block
}

// block is a run of leases with one price, while prices are made monotone.
type block struct {
	sum   int64
	count int64
}

// maxCost caps what a job may cost, so that sums do not overflow. A cost that is
// too small keeps the bound valid.
const maxCost = 1 << 44

// find improves the bound by subgradient steps of Polyak's length towards target,
// the value of a plan that is known.
func (q *prices) find(rows []row, capacity []int32, target int64, steps int) {
	n := len(capacity)
	q.lease, q.prefix, q.trial, q.excess = grown(q.lease, n), grown(q.prefix, n+1), grown(q.trial, n), grown(q.excess, n+1)
	q.blocks = grown(q.blocks, n)
	clear(q.trial)
	clear(q.lease)
	q.bound = 1 << 62
	aim, stale := 1.0, 0
	for range steps {
		value := q.value(rows, capacity)
		if value < q.bound {
			q.bound = value
			copy(q.lease, q.trial)
			stale = 0
		} else if stale++; stale == 8 {
			aim, stale = float64(aim*0.7), 0
		}
		if q.bound <= target || !q.step(value-target, aim) {
			break
		}
	}
	copy(q.trial, q.lease)
	q.sums()
}

func (q *prices) sums() {
	sum := int64(0)
	for t, price := range q.trial {
		q.prefix[t] = sum
		sum += price
	}
	q.prefix[len(q.trial)] = sum
}

// cost is what need leases before lease m cost at least, g GPUs in each.
func (q *prices) cost(g, need, m int32) int64 {
	return min(q.prefix[m]-q.prefix[m-need], maxCost/int64(g)) * int64(g)
}

// value returns the dual value of the trial's prices and fills excess.
func (q *prices) value(rows []row, capacity []int32) int64 {
	q.sums()
	clear(q.excess)
	value := int64(0)
	for i := range rows {
		r := &rows[i]
		best, at := int64(0), int32(-1)
		for _, o := range r.options {
			if gain := o.Reward - q.cost(r.gpus, r.need, o.Leases); gain > best || at < 0 && r.guaranteed {
				best, at = gain, o.Leases
			}
		}
		if at >= 0 {
			value += best
			q.excess[at-r.need] += int64(r.gpus)
			q.excess[at] -= int64(r.gpus)
		}
	}
	used := int64(0)
	for t, price := range q.trial {
		used += q.excess[t]
		q.excess[t] = used - int64(capacity[t])
		value += price * int64(capacity[t])
	}
	return value
}

// step moves the trial's prices along the excess and makes them monotone again;
// false when nothing is in excess.
func (q *prices) step(gap int64, aim float64) bool {
	norm := 0.0
	for t, price := range q.trial {
		if e := q.excess[t]; e > 0 || price > 0 {
			norm += float64(float64(e) * float64(e))
		}
	}
	if norm == 0 {
		return false
	}
	length := float64(aim * float64(float64(gap)/norm))
	blocks := q.blocks[:0]
	for t, price := range q.trial {
		change := min(max(float64(length*float64(q.excess[t])), -MaxReward), MaxReward)
		b := block{min(max(price+int64(change), 0), MaxReward), 1}
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.sum*b.count >= b.sum*last.count {
				break
			}
			b.sum += last.sum
			b.count += last.count
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	t := 0 // the blocks' averages, rounded down, are the prices
	for _, b := range blocks {
		for range b.count {
			q.trial[t] = b.sum / b.count
			t++
		}
	}
	return true
}

// worth is a row's best reward against what it costs.
func (q *prices) worth(r *row) int64 {
	best := int64(0)
	for _, o := range r.options {
		best = max(best, o.Reward<<20/(q.cost(r.gpus, r.need, o.Leases)+1))
	}
	return best
}
