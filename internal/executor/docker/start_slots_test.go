package docker

import (
	"path/filepath"
	"testing"
	"time"
)

// So many start at once and no more; one that is told to stop waits no longer, and one that leaves
// lets the next in.
func TestTurns(t *testing.T) {
	dir := t.TempDir()
	never, now := func() bool { return false }, func() bool { return true }
	var leaves []func()
	for range maxStarts() {
		leave, ok := AwaitStart(dir, never)
		if !ok {
			t.Fatal("a turn is not given")
		}
		leaves = append(leaves, leave)
	}
	looks := 0
	if _, ok := AwaitStart(dir, func() bool { looks++; return looks > 3 }); ok || looks != 4 {
		t.Errorf("one more has a turn: %v, after %d looks", ok, looks)
	}
	next := make(chan func())
	go func() {
		leave, _ := AwaitStart(dir, never)
		next <- leave
	}()
	leaves[1]()
	select {
	case leave := <-next:
		leave()
	case <-time.After(time.Minute):
		t.Fatal("one that left let no other in")
	}
	if _, ok := AwaitStart(dir, now); ok {
		t.Error("one that is to stop has a turn")
	}
	if leave, ok := AwaitStart(filepath.Join(dir, "none"), never); !ok {
		t.Error("where no file can be made none starts")
	} else {
		leave()
	}
}
