// Package judge measures the lease-selection solver: seeded instances, an exhaustive
// twin for tiny ones, and cbc, an open-source solver that runs as a process, for the
// best known bound of large ones. For tests and figures only; nothing that schedules
// may import it.
package judge
