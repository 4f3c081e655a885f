//go:build !race

package lab

// raced makes the programs under test carry the race detector too.
const raced = false
