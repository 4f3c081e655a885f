// Package mutant plants faults in the decision core and sees whether the suite
// catches them. A fault is a change of the source: the program that users run
// knows nothing of it, and the change is laid over the file only for the run of
// one test.
package mutant

// fault is one change of one line or two. The text it replaces must stand in the
// file exactly once.
type fault struct {
	name     string
	file     string
	old, new string
	fast     bool // `make test` plants it: it is caught within seconds
}

const (
	space   = "internal/cell/space.go"
	cluster = "internal/cell/cluster.go"
)

var faults = []fault{
	{name: "safety is off by one", file: space, fast: true,
		old: "\t\tif left < 0 {\n",
		new: "\t\tif left < -1 {\n"},
	{name: "a level's fan-out is off by one", file: space,
		old: "left *= int64(ch.fanout[l-1])",
		new: "left *= int64(ch.fanout[l-1] + 1)"},
	{name: "splitting leaks a free cell", file: space,
		old: "\t\t\tif ch := first + CellID(i)*step; ch != keep {\n",
		new: "\t\t\tif ch := first + CellID(i)*step; ch != keep && i > 0 {\n"},
	{name: "merging is missed", file: space,
		old: "sib != id && !list.has(sib) {",
		new: "!list.has(sib) {"},
	{name: "lazy preemption keeps the guarantee's cells", file: cluster,
		old: "func (c *Cluster) Demote(id AllocID) {\n\tc.useRoots(id, -1)\n",
		new: "func (c *Cluster) Demote(id AllocID) {\n"},
	{name: "a node's fault does not count", file: "internal/cell/cluster.go",
		old: "return !c.bad[l] && c.nodes[c.f.Cells[c.f.Leaves[l]].Node] == 0",
		new: "return !c.bad[l]"},
	{name: "equal priorities may be lifted", file: "internal/cell/search.go",
		old: "return a.Space == r.Space && a.Priority < r.Lift.Below",
		new: "return a.Space == r.Space && a.Priority <= r.Lift.Below"},
	{name: "a lost node's work is counted on", file: "internal/cell/search.go",
		old: "\tcase a.mood == Stuck:\n\t\treturn false\n",
		new: ""},
	{name: "victims are chosen in the wrong order", file: "internal/cell/lift.go",
		old: "cmp.Compare(min(b.leaves, n-free), min(a.leaves, n-free))",
		new: "cmp.Compare(min(a.leaves, n-free), min(b.leaves, n-free))"},
	{name: "a promise to a dead job stays", file: "internal/sched/decide.go", fast: true,
		old: "\t\t\ts.emit(Unreserved{Attempt: a.id, Reason: \"its job ends\"})\n\t\t\tcontinue\n",
		new: "\t\t\tcontinue\n"},
	{name: "a promise on a bad leaf stays", file: "internal/sched/decide.go",
		old: "\t\t\tcase s.leafBad(l):\n",
		new: "\t\t\tcase s.leafBad(l) && s.now == 0:\n"},
	{name: "a promise behind a lost node stays", file: "internal/sched/decide.go",
		old: "hold != cell.None && s.holder(hold).state == AttemptUnknown:",
		new: "hold != cell.None && s.holder(hold).state == AttemptOver:"},
	{name: "an attempt ends before its last task", file: "internal/sched/decide.go",
		old: "\tif a.alive > 0 {\n\t\treturn\n\t}\n",
		new: "\tif a.alive > 1 {\n\t\treturn\n\t}\n"},
	{name: "reservations are miscounted", file: "internal/sched/outcomes.go", fast: true,
		old: "\tif a.state == AttemptReserving {\n\t\ts.unpromise(g.attempt)\n\t}\n\tif a.lazy",
		new: "\tif a.lazy"},
	{name: "a snapshot forgets lazy preemption", file: "internal/sched/snapshot.go",
		old: "\t\tif a.Lazy && j.spec.Priority >= cell.MinGuaranteed {\n",
		new: "\t\tif a.Lazy && j.spec.Priority > cell.MinGuaranteed+2 {\n"},
	{name: "a snapshot forgets a back-off", file: "internal/sched/snapshot.go",
		old: "\t\ts.at(g.After, im.ID, int32(i))\n",
		new: ""},
	{name: "the queue is in the wrong order", file: "internal/sched/queue.go",
		old: "cmp.Compare(b.prio, a.prio), cmp.Compare(a.job, b.job)",
		new: "cmp.Compare(b.prio, a.prio), cmp.Compare(b.job, a.job)"},
	{name: "a gang in front blocks nobody", file: "internal/sched/walk.go",
		old: "\t\t\tif w.blocked[ci] == 0 && (",
		new: "\t\t\tif w.blocked[ci] != 0 && ("},
	{name: "capacity that was freed is not looked at", file: "internal/sched/look.go",
		old: "\tif !own {\n\t\ts.look = true\n\t\treturn\n",
		new: "\tif !own {\n\t\treturn\n"},
	{name: "a back-off is ignored", file: "internal/sched/walk.go",
		old: "return !j.quarantined && j.after <= s.now && j.gangs[g].after <= s.now",
		new: "return !j.quarantined && j.after <= s.now"},
	{name: "a node that came up is not looked at", file: "internal/sched/facts.go",
		old: "\tn.Down, n.Reason = !e.Up, e.Reason\n\ts.blame(n)\n\ts.look = true\n",
		new: "\tn.Down, n.Reason = !e.Up, e.Reason\n\ts.blame(n)\n"},
	{name: "a refusing node is tried again at once", file: "internal/sched/outcomes.go",
		old: "\tg.avoid[i].Until = e.Until\n",
		new: "\tg.avoid[i].Until = s.now\n"},
	{name: "an unbound cell is owed no more", file: space,
		old: "\tc.spaces[up].owed[c.f.slot(r.Chain, r.Level)]++\n\tc.restore(up, id)\n",
		new: "\tc.restore(up, id)\n"},
	{name: "a promise that is kept stays one as well", file: cluster,
		old: "c.hold[l], c.resv[l] = id, None",
		new: "c.hold[l] = id"},
	{name: "idle leaves are not counted when one is freed", file: cluster,
		old: "\t\tc.shift(same, is, 1)\n",
		new: "\t\tif is != useIdle {\n\t\t\tc.shift(same, is, 1)\n\t\t}\n"},
	{name: "health is ignored in the search", file: "internal/cell/bins.go",
		old: "\tcase !r.IgnoreHealth && c.state[l] == useSick:\n",
		new: "\tcase !r.IgnoreHealth && c.state[l] == useSick && c.bad[l]:\n"},
	{name: "superfluous victims are kept", file: "internal/cell/fewest.go",
		old: "\tstaying := c.staying(res.Victims)\n\tif len(staying) == 0 {\n",
		new: "\tstaying := c.staying(res.Victims)\n\tif len(staying) >= 0 {\n"},
	{name: "an upgrade is not judged", file: "internal/cell/upgrade.go",
		old: "\t\tif s.used[ci] && (",
		new: "\t\tif s.used[ci] && s.space < 0 && ("},
	{name: "a bind is not judged on healthy cells", file: space,
		old: "if !c.safe(up, r.Chain) || sound && c.sound(up, r.Chain) != 0 {",
		new: "if !c.safe(up, r.Chain) || sound && c.sound(up, r.Chain) > 99 {"},
	{name: "a recovered cell stays charged", file: "internal/cell/doom.go",
		old: "\tif c.doomed == 0 {\n\t\treturn None, None, false\n",
		new: "\tif c.doomed >= 0 {\n\t\treturn None, None, false\n"},
}
