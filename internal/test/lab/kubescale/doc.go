// Package kubescale tests a server whose tasks are pods, with as many of them as a large cluster
// has: its memory, and what their tasks print. The API server is one in memory, and the processes 1
// of the pods are goroutines of the test. It must not hold anything but tests.
package kubescale
