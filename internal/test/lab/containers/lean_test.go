package containers

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/testkit"
)

// TestLean: what looks after a task in a container, its supervisor and process 1, has at most
// 10 MiB of the memory to itself; what it shares with all others of them are pages of the program.
func TestLean(t *testing.T) {
	const most = 10 << 10 // KiB
	w := newWorld(t, plain)
	ref := w.submit(with("runs", image, "while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done"))
	j := w.until(ref, "it runs", running(1))
	pids := append(w.supervisors(), int(j.Tasks[0].PID))
	if len(pids) != 2 {
		t.Fatalf("the processes %v look after one task", pids)
	}
	var own []int
	says := func() string { return fmt.Sprintf("they have at most %d KiB; they have %d", most, own) }
	testkit.WaitFor(w, says, func() bool {
		sum := 0
		own = nil
		for _, pid := range pids {
			kib, err := lab.Anonymous(pid)
			if err != nil {
				t.Fatal(err)
			}
			own, sum = append(own, kib), sum+kib
		}
		return sum <= most
	})
	w.letGo(ref)
	w.succeeds(ref)
}
