package hunt

import "fmt"

// Known are the workloads that stalled the loop once, on so many nodes: S1 to S5, and what they
// have relatives of. nodes is a multiple of 8, and at least 24.
func Known(nodes int) []Case {
	return []Case{
		partsAlone(nodes), tooLarge(nodes), manyShapes(nodes), priorities(nodes), queueEnds(nodes), largeHolders(nodes), deadlines(nodes), lent(nodes), scattered(nodes), lazyHolders(nodes), notLent(nodes),
	}
}

func (c *Case) add(format string, v ...any) { c.Lines = append(c.Lines, fmt.Sprintf(format, v...)) }

// half is a cluster of which VC a owns half the GPUs, one by one.
func half(nodes int, policy string) string {
	return fmt.Sprintf("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxgpu policy=a:%s", nodes, nodes/8, nodes*4, policy)
}

// partsAlone is S1: a gang of sevens in a quota of single GPUs, and then a small job.
func partsAlone(nodes int) Case {
	c := Case{Name: fmt.Sprintf("S1/%d", nodes)}
	c.add("%s", half(nodes, "firstfit"))
	c.add("submit l vc=a worker=%dx7", nodes*4/7)
	c.add("assert l phase=Active")
	c.add("submit t1 vc=a")
	return c
}

// tooLarge is a gang that can never start, and one that waits and is asked about at each end.
func tooLarge(nodes int) Case {
	c := Case{Name: fmt.Sprintf("never/%d", nodes)}
	c.add("%s", half(nodes, "firstfit"))
	c.add("submit l vc=a worker=%dx8", nodes/2+1)
	c.add("submit h vc=a worker=%dx8", nodes/4)
	c.add("submit w vc=a worker=%dx7", nodes/2)
	c.add("submit t1 vc=a duration=1m")
	c.add("wait 2m")
	return c
}

// manyShapes is ten gangs of different shapes that wait, with room for none of them.
func manyShapes(nodes int) Case {
	c := Case{Name: fmt.Sprintf("shapes/%d", nodes)}
	c.add("%s", half(nodes, "firstfit"))
	c.add("submit h vc=a worker=%dx8", nodes/4)
	for i := range 10 {
		c.add("submit w%d vc=a worker=%dx7", i, nodes/3-i)
	}
	c.add("submit t1 vc=a duration=1m")
	c.add("wait 2m")
	return c
}

// priorities is S2: many priorities run below a gang that needs some of them gone.
func priorities(nodes int) Case {
	c := Case{Name: fmt.Sprintf("S2/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxgpu", nodes, nodes/8, nodes*4)
	each := max(nodes/2/52, 1)
	for i := range min(52, nodes/2/each) {
		c.add("submit f%d vc=a worker=%dx8 prio=%d", i+1, each, i+1)
	}
	c.add("submit g vc=a worker=%dx7 prio=900", nodes/2)
	c.add("assert g reason=WaitingPreemption")
	return c
}

// queueEnds is S3: many run under las, and more wait, when the queues of all of them end.
func queueEnds(nodes int) Case {
	c := Case{Name: fmt.Sprintf("S3/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d policy=a:las:limits=60/600", nodes, nodes/8, nodes)
	for i := range nodes * 2 {
		if i%4000 == 3999 { // the simulated world takes so many for a loop without end, if they come at one instant
			c.add("wait 1s")
		}
		c.add("submit w%d vc=a worker=1x8 checkpoint", i)
	}
	c.add("wait 2m")
	c.add("wait 9m")
	return c
}

// largeHolders is S4: twelve gangs hold nearly all, and one preempts.
func largeHolders(nodes int) Case {
	c := Case{Name: fmt.Sprintf("S4/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d", nodes, nodes/4)
	for i, s := range []int{8, 4, 5, 3, 8, 6, 8, 4, 5, 3, 8, 6} {
		c.add("submit h%d worker=%dx%d", i, nodes/12, s)
	}
	c.add("wait 1m")
	c.add("submit urgent prio=prod worker=%dx5", nodes*3/4)
	c.add("assert urgent reason=WaitingPreemption")
	return c
}

// deadlines is S5: many jobs with deadlines under chronus.
func deadlines(nodes int) Case {
	c := Case{Name: fmt.Sprintf("S5/%d", nodes)}
	n := nodes / 4
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d policy=a:chronus", n, n/2, n)
	for i := range n * 5 {
		c.add("submit w%d vc=a worker=1x8 checkpoint duration=%dm deadline=%dm", i, 10+i*37%500, 100+i*17%6000)
	}
	c.add("wait 1m")
	c.add("wait 20m")
	return c
}

// lent is cells that are taken back from opportunistic jobs of one GPU.
func lent(nodes int) Case {
	c := Case{Name: fmt.Sprintf("lent/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d,b:%d", nodes, nodes/8, nodes/2, nodes/2)
	c.add("submit o vc=b prio=oppo incremental worker=%dx1", min(nodes*8, 4000))
	c.add("submit back vc=a gpus=8")
	c.add("submit more vc=a worker=%dx5", nodes/4)
	return c
}

// scattered is many small jobs of which some end, so that holes are everywhere, and then a gang of
// sevens in a quota at three levels.
func scattered(nodes int) Case {
	c := Case{Name: fmt.Sprintf("holes/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxrack+%d+%dxgpu,b:%dxgpu policy=a:firstfit", nodes, nodes/8, nodes/32, nodes/8, nodes*2, nodes*2)
	for i := range nodes / 4 {
		c.add("submit s%d vc=a worker=1x%d duration=%dm", i, 1+i*7%5, 1+i%2*60)
		c.add("submit b%d vc=b worker=2x%d duration=%dm", i, 1+i*5%3, 1+i%3*60)
	}
	c.add("wait 2m")
	c.add("submit g vc=a worker=%dx7", nodes/6)
	c.add("submit p vc=a worker=%dx5 prio=prod", nodes/4)
	c.add("submit t vc=a duration=1m")
	c.add("wait 2m")
	return c
}

// lazyHolders is a VC that is full of jobs which may go on without a guarantee, and a gang for
// which many of them must: the GPUs beside the VC are free.
func lazyHolders(nodes int) Case {
	c := Case{Name: fmt.Sprintf("lazy/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxgpu", nodes, nodes/8, nodes*4)
	for i := range nodes / 2 {
		c.add("submit f%d vc=a worker=1x8 prio=test lazy", i)
	}
	c.add("submit g vc=a worker=%dx8 prio=prod", nodes/10)
	c.add("assert g phase=Active")
	c.add("assert waiting=0 active=%d", nodes/2+1)
	return c
}

// notLent is opportunistic gangs of many shapes that wait, since the cells that they would have are
// not lent, and small jobs of another VC that come meanwhile.
func notLent(nodes int) Case {
	c := Case{Name: fmt.Sprintf("nolend/%d", nodes)}
	b := nodes * 35 / 100
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d,b:%d,c:%d lending=none", nodes, nodes/8, nodes/2, b, nodes-nodes/2-b)
	c.add("submit o vc=a prio=oppo worker=%dx8", nodes/2-nodes/20)
	c.add("assert o phase=Active")
	shapes := min(30, nodes/4)
	for i := range shapes {
		c.add("submit w%d vc=a prio=oppo worker=%dx8", i, nodes/20+1+i)
	}
	for i := range 40 {
		c.add("submit t%d vc=c", i)
	}
	c.add("assert waiting=%d active=41", shapes)
	return c
}
