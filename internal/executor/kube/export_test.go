package kube

import "time"

// CloseSpaces looks which namespaces are needed no more, as is done each half minute.
func CloseSpaces(e *Executor) { e.spaces.close() }

// SetRoomPause sets after how long it is tried again to set CPUs and memory aside. No executor may be open.
func SetRoomPause(d time.Duration) { roomPause = d }
