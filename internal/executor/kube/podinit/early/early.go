// Package early catches the signals that process 1 of a pod gets before the rest of this program
// starts. Until a handler is set the kernel drops them for process 1, or they end the process,
// and on a slow CPU a start takes a second. It must import nothing that takes time.
package early

import (
	"os"
	"os/signal"
	"syscall"
)

// Received are the signals that came to a program started as `comb attend`; nil for others.
var Received = listen()

func listen() chan os.Signal {
	if len(os.Args) < 2 || os.Args[1] != "attend" {
		return nil
	}
	stops := make(chan os.Signal, 8)
	signal.Notify(stops, append(StopSignals(), syscall.SIGUSR1, syscall.SIGUSR2)...)
	return stops
}

// StopSignals are the signals by which a task is asked to end: SIGTERM, and those that images set
// in its place (STOPSIGNAL). Kubelets send the latter even if another program than the image's
// runs. 37 is SIGRTMIN+3.
func StopSignals() []os.Signal {
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH,
		syscall.Signal(37)}
}
