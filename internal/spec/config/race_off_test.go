//go:build !race

package config

// slowness is how much longer a test may take without the race detector.
const slowness = 1
