package leases

// Rounded is a job's GPU count after rounding up.
type Rounded struct {
	// GPUs is what the job is planned with (g').
	GPUs int
	// Waste is how many of them the job does not use.
	Waste int
}

// RoundUp rounds a job's GPU count up to {1, 2, 4, ..., n, 2n, 3n, ...}.
func RoundUp(gpus, node int) Rounded {
	up := 1
	for up < gpus && up*2 < node {
		up *= 2
	}
	if up < gpus {
		up = (gpus + node - 1) / node * node
	}
	return Rounded{up, up - gpus}
}
