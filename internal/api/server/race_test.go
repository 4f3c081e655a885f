//go:build race

package server_test

// raced says that the detector's own memory is in what is measured: twice the stacks, and
// pools that give less back.
const raced = true
