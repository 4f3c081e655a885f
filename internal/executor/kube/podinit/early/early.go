// Package early hears the signals that process 1 of a pod is sent before anything else of this
// program begins: until they are heard the kernel keeps them from such a process, or they end it,
// and a slow CPU takes a second to begin. It must import nothing that takes time.
package early

import (
	"os"
	"os/signal"
	"syscall"
)

// Stops are the signals that came, of a program that was started as `comb attend`; nil of others.
var Stops = listen()

func listen() chan os.Signal {
	if len(os.Args) < 2 || os.Args[1] != "attend" {
		return nil
	}
	stops := make(chan os.Signal, 8)
	signal.Notify(stops, append(Asks(), syscall.SIGUSR1, syscall.SIGUSR2)...)
	return stops
}

// Asks are the signals by which a task is asked to end: SIGTERM, and what images say in its place
// (STOPSIGNAL), which kubelets send although the image's own program is not the one that runs. 37
// is SIGRTMIN+3.
func Asks() []os.Signal {
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH,
		syscall.Signal(37)}
}
