// Package leases is Chronus' planning: which jobs hold which leases so that
// deadlines are met (Gao et al., Chronus, SoCC'21), for one chain of equal nodes.
// It knows numbers only: no job of the core, no clock, no state between calls but
// memory that is used again. It must not decide what a job needs or where it runs.
//
// # The problem
//
// Job j asks for g_j GPUs in r_j leases, any r_j of those that end before the
// deadline it is held to; deadline p allows the leases 0 to m_jp-1 and is worth
// v_jp. Maximise the sum of v, so that no lease t gives more than its capacity M_t
// and each job has at most one deadline, a guaranteed job exactly one. Erratum: the
// paper's capacity constraint multiplies by the run time; it must be the GPUs.
//
// # The solution
//
// What is left of each lease is kept in bit planes, one bit a lease: to find the
// leases that have room for a job, and to give or take any set of them, is a few
// dozen machine words whatever the job's length. On that:
//
//  1. Greedy plans: what the last plan gave, then by reward for each GPU-lease;
//     the latter alone; Chronus' order (large first, then least slack), filled
//     backwards from the deadline, and filled where most is left; last by reward
//     against price. Guaranteed jobs always come first.
//  2. Prices of leases (Lagrangean multipliers, subgradient steps of Polyak's
//     length). A row that can use a lease can use every earlier one, so prices may be
//     held monotone (pool adjacent violators), and then a job's cheapest leases before
//     a deadline are the last ones: a step is linear in rows and leases. The dual
//     value is Plan.Bound.
//  3. Local search by ruin and recreate: a row without its best deadline goes in
//     first, up to 14 rows that hold one of its leases go out and come back in
//     random order, others by price. What is not worse is kept. Always taking the
//     latest leases that have room was better than any mix with best fit.
//  4. Single leases move to or from lease 0, as the worth of its use wants. Rewards
//     come first: this term only chooses among plans of one reward.
//
// Sums, rewards and prices are integers; the length of a step is the only floating
// point, one rounding an operation, so every machine finds the same plan. A
// guaranteed job is never dropped while its warm start is kept: value counts
// guaranteed jobs before rewards, and local search never loses value.
//
// # Measured
//
// See docs/performance.md.
package leases
