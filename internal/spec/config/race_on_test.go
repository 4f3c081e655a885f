//go:build race

package config

// slowness is how much longer a test may take under the race detector.
const slowness = 20
