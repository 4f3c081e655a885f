package hunt_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/test/hunt"
)

// Where the smallest of many gangs finds nothing, those that ask for more are not looked at one by
// one, whatever their priorities: what a decision costs does not grow with them.
func TestGangsThatAskForMoreCostNothing(t *testing.T) {
	steps := func(waiting int) int64 {
		c := hunt.Case{Name: fmt.Sprint(waiting), Lines: []string{"cluster nodes=120 gpus=8 switch=4 racks=30 vcs=a:120 policy=a:firstfit"}}
		for i := range 120 { // so on each node 3 GPUs are free
			c.Lines = append(c.Lines, fmt.Sprintf("submit h%d vc=a worker=1x5 prio=900 duration=%dm", i, 100+i))
		}
		for i := range waiting {
			c.Lines = append(c.Lines, fmt.Sprintf("submit w%d vc=a worker=%dx4 ps=%dx2 prio=%d", i, 3+i%30, 1+i/30, 400-i))
		}
		c.Lines = append(c.Lines, "submit small vc=a worker=1x3 prio=1", "assert small phase=Active", "stop h0", "wait 1s", "assert w0 phase=Waiting")
		found, err := hunt.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		var all int64
		for _, f := range found[len(found)-3:] {
			all += f.Steps
		}
		return all
	}
	few, many := steps(5), steps(150)
	if many > 2*few {
		t.Errorf("5 gangs that wait cost %d steps, 150 cost %d", few, many)
	}
}

// How near its tasks are to be hangs on what a gang asks for: one that fits one node waits for
// that, and a larger one starts where it can.
func TestLargerGangMayBeFartherApart(t *testing.T) {
	c := hunt.Case{Name: "near", Lines: []string{
		"cluster nodes=3 gpus=8 vcs=a:3 policy=a:las:skewed=m",
		"submit r1 vc=a gpus=5", "submit r2 vc=a gpus=5", "submit r3 vc=a gpus=5",
		"submit small vc=a worker=2x2 model=m",
		"assert small phase=Waiting",
		"submit large vc=a worker=3x3 model=m",
		"assert large phase=Active",
	}}
	if _, err := hunt.Run(c); err != nil {
		t.Error(err)
	}
}
