package hunt

import "fmt"

// Mixed are workloads of many kinds of jobs at once, each of which stalled the loop once, on so
// many nodes. Like Known's their number of nodes is a multiple of 8, and at least 24.
func Mixed(nodes int) []Case {
	return []Case{
		shapesThatWait(nodes), halved(nodes), threeLevels(nodes), kinds(nodes), singles(nodes), spread(nodes),
		passing(nodes, "srsf", "easy"), passing(nodes, "srtf", "conservative"), passing(nodes, "fifo:preempt", "easy"),
		full(nodes, "genie"), full(nodes, "hypersched"), full(nodes, "philly"), full(nodes, "themis:auction=off"), full(nodes, "chronus"),
	}
}

// shapesThatWait is a full VC under gittins, and behind it jobs of 32 shapes which wait for what
// ends.
func shapesThatWait(nodes int) Case {
	c := Case{Name: fmt.Sprintf("gittins/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d policy=a:gittins", nodes, nodes/8, nodes)
	for i := range nodes {
		c.add("submit h%d vc=a worker=1x8 checkpoint duration=%dm", i, 5+i*7%90)
	}
	for i := range nodes * 5 / 2 {
		c.add("submit w%d vc=a worker=%dx%d checkpoint duration=%dm", i, 1+i%4, 1+i*3%8, 1+i*11%200)
	}
	c.add("wait 10m")
	c.add("wait 30m")
	return c
}

// halved is nodes full of jobs of one GPU, and a file that takes half of one VC's cells.
func halved(nodes int) Case {
	c := Case{Name: fmt.Sprintf("halved/%d", nodes)}
	layout := fmt.Sprintf("nodes=%d gpus=8 switch=4 racks=%d", nodes, nodes/8)
	c.add("cluster %s vcs=a:%d,b:%d", layout, nodes/2, nodes-nodes/2)
	for i, vc := range []string{"a", "b"} {
		for k := range nodes * 4 {
			if (i*nodes*4+k)%4000 == 3999 {
				c.add("wait 1s")
			}
			c.add("submit %s%d vc=%s worker=1x1", vc, k, vc)
		}
	}
	c.add("reconfigure %s vcs=a:%d,b:%d", layout, nodes/4, nodes-nodes/2)
	c.add("wait 1m")
	return c
}

// threeLevels is a quota of racks, nodes and single GPUs that some seventy odd jobs use, with
// bookings behind them.
func threeLevels(nodes int) Case {
	c := Case{Name: fmt.Sprintf("levels/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxrack+%d+%dxgpu,b:%d policy=a:firstfit backfill=easy", nodes, nodes/4, nodes/10, nodes/4, nodes*2, nodes/20)
	for i := range 70 {
		c.add("submit j%d vc=a worker=%dx%d prio=%d duration=%dm", i, 1+i*5%(nodes/12), 1+i*3%7, 1+i*13%60, 5+i*7%90)
	}
	for i := range 12 {
		c.add("submit o%d vc=b worker=%dx%d prio=oppo duration=%dm", i, 1+i%(nodes/8), 1+i%8, 10+i*7%50)
	}
	c.add("wait 5m")
	c.add("submit large vc=a worker=%dx7 prio=prod duration=1h", nodes/3)
	c.add("submit last vc=a worker=%dx3 prio=900 duration=1h", nodes/2)
	c.add("wait 1h")
	return c
}

// kinds is gangs of tasks of many sizes under las, whose queues end.
func kinds(nodes int) Case {
	c := Case{Name: fmt.Sprintf("kinds/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxrack+%dxgpu,b:%d policy=a:las:limits=60/600,b:las", nodes, nodes/4, nodes/10, nodes*4, nodes/10)
	for i := range nodes {
		c.add("submit j%d vc=%s prio=%d checkpoint worker=%dx%d ps=%dx%d eval=1x%d", i, []string{"a", "a", "a", "b"}[i%4], 1+i*7%40, 1+i*3%5, 1+i%8, 1+i%2, 1+i*5%3, 1+i*11%4)
	}
	c.add("wait 2m")
	c.add("submit g vc=a prio=prod worker=%dx5 ps=3x2", nodes/6)
	c.add("wait 9m")
	return c
}

// singles is a gang of very many tasks of one GPU above jobs of one to five, in a quota at three
// levels.
func singles(nodes int) Case {
	c := Case{Name: fmt.Sprintf("singles/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%dxrack+%d+%dxgpu", nodes, nodes/8, nodes/32, nodes/4, nodes*2)
	for i := range nodes {
		c.add("submit j%d vc=a worker=1x%d", i, 1+i*3%5)
	}
	c.add("submit g vc=a prio=prod worker=%dx1", nodes*4)
	c.add("assert g reason=WaitingPreemption")
	c.add("wait 1m")
	return c
}

// spread is a VC that places its tasks apart: a gang, and many small jobs.
func spread(nodes int) Case {
	c := Case{Name: fmt.Sprintf("spread/%d", nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d placement=spread", nodes, nodes/8, nodes)
	c.add("submit g vc=a worker=%dx3", nodes/2)
	for i := range nodes {
		c.add("submit j%d vc=a worker=1x%d duration=%dm", i, 1+i%4, 1+i%3)
	}
	c.add("assert g phase=Active")
	c.add("wait 5m")
	return c
}

// passing is three jobs of other shapes for each node, which wait for what runs, and may pass each
// other.
func passing(nodes int, policy, backfill string) Case {
	c := Case{Name: fmt.Sprintf("%s/%s/%d", policy, backfill, nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d policy=a:%s backfill=%s", nodes, nodes/8, nodes, policy, backfill)
	c.waiting(nodes, 3)
	return c
}

// full is five jobs of other shapes for each node under a policy that asks much.
func full(nodes int, policy string) Case {
	c := Case{Name: fmt.Sprintf("%s/%d", policy, nodes)}
	c.add("cluster nodes=%d gpus=8 switch=4 racks=%d vcs=a:%d,b:%d policy=a:%s,b:%s", nodes, nodes/8, nodes/2, nodes-nodes/2, policy, policy)
	c.waiting(nodes, 5)
	return c
}

// waiting submits so many jobs for each node, of which a few run, and lets two of their ends pass.
func (c *Case) waiting(nodes, each int) {
	for i := range nodes * each {
		if i%4000 == 3999 {
			c.add("wait 1s")
		}
		c.add("submit w%d vc=a worker=%dx%d checkpoint duration=%dm deadline=%dm", i, 1+i*3%4, 1+i*5%8, 3+i*7%200, 300+i*17%6000)
	}
	c.add("wait 3m")
	c.add("wait 7m")
}
