package leases

// Rounded is a job's GPU count as it is planned.
type Rounded struct {
	// GPUs is what the job is planned with (g').
	GPUs int
	// Waste is how many of them the job does not use.
	Waste int
	// Parts are the pieces to place, none larger than a node, largest first.
	Parts []int
}

// RoundUp rounds a job's GPU count up to a power of two below a node's GPUs, or to
// whole nodes: for nodes of 8 to {1, 2, 4, 8n}. When the node is a power of two and
// every request is of this form, each size divides the next; so with placing in
// descending order, best fit never needs more nodes for a job than its GPUs do, and
// counting GPUs is enough to plan. gpus and node must be at least 1.
//
// Erratum of the paper: its equation (6) rounds this count, not the run time.
func RoundUp(gpus, node int) Rounded {
	node = max(node, 1)
	if part := power(gpus, node); part < node {
		return Rounded{part, part - gpus, []int{part}}
	}
	return Split((gpus+node-1)/node*node, node).of(gpus)
}

// Split is the alternative for jobs larger than a node: whole nodes, and the rest
// rounded up for itself. So 10 GPUs are 8+2, where RoundUp wastes 6 of 16. All
// pieces have the sizes of RoundUp, so placing them is as safe; what is lost is
// only that the last node is shared with other jobs.
func Split(gpus, node int) Rounded {
	node = max(node, 1)
	whole := gpus / node
	r := Rounded{}
	for range whole {
		r.Parts = append(r.Parts, node)
	}
	r.GPUs = whole * node
	if rest := gpus - r.GPUs; rest > 0 {
		part := power(rest, node)
		r.GPUs += part
		r.Parts = append(r.Parts, part)
	}
	return r.of(gpus)
}

// of says what a job of so many GPUs wastes.
func (r Rounded) of(gpus int) Rounded {
	r.Waste = r.GPUs - gpus
	return r
}

// power returns the smallest power of two that is at least gpus, at most the node.
func power(gpus, node int) int {
	up := 1
	for up < gpus && up < node {
		up *= 2
	}
	return min(up, node)
}

// Part returns the smallest part of a node that holds so many GPUs, at most the node, of a
// chain of parts each of which divides the next: 1, 2, 4, 8 of a node of 8; 1, 2, 4, 12 of one
// of 12. Jobs that hold parts of one size or larger, wherever they are, leave the rest of all
// nodes free in parts of that size.
func Part(gpus, node int) int {
	var primes []int // of the node, with their multiples, rising
	for by, rest := 2, node; rest > 1; {
		switch {
		case rest%by == 0:
			primes = append(primes, by)
			rest /= by
		case by*by > rest:
			by = rest
		default:
			by++
		}
	}
	part := max(node, 1)
	for i := len(primes) - 1; i >= 0 && part/primes[i] >= gpus; i-- {
		part /= primes[i]
	}
	return part
}
