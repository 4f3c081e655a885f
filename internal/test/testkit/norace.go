//go:build !race

package testkit

// Raced says that the race detector watches this test.
const Raced = false
