package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The queue tree of the capacity policy.

// fullShare is a guarantee of everything, in parts of a VC.
const fullShare = 1_000_000

// Bounds of a tree.
const (
	maxQueues = 1000
	maxDepth  = 8
)

// queueNode is one queue. Shares are absolute, in millionths of the VC.
type queueNode struct {
	name     string
	up       int // -1 above the first level
	below    []int
	depth    int
	percent  int64 // of the queue above
	share    int64 // what it is guaranteed
	most     int64 // its maximum capacity
	mostPart int64 // the same in percent of the queue above
}

// tree is all queues: those of one level in the order of the parameter. Jobs that
// name no leaf of it go to the one called default; if there is none, to one that is
// guaranteed nothing.
type tree struct {
	queues []queueNode
	roots  []int
	leaves map[string]int // by full name, and by last part where that is unique
	other  int            // the leaf for all others
}

// queues reads prod:60:100/prod.train:70/prod.serve:30/dev:40:50: the full name, the
// guarantee in percent of the queue above, and the most it may use (100).
func (a *args) queues(key string) *tree {
	want := "a list of queues, each with its percentage and the most it may use, such as prod:60:100/prod.train:70/prod.serve:30/dev:40"
	t := &tree{leaves: map[string]int{}}
	pairs := a.pairs(key, want)
	if len(pairs) > maxQueues {
		a.fail(key, fmt.Sprintf("a list of at most %d queues", maxQueues), "longer")
		pairs = nil
	}
	for _, p := range pairs {
		least, most, hasMost := strings.Cut(p[1], ":")
		n, err1 := strconv.ParseInt(least, 10, 64)
		m, err2 := int64(100), error(nil)
		if hasMost {
			m, err2 = strconv.ParseInt(most, 10, 64)
		}
		if err1 != nil || err2 != nil || n < 0 || n > m || m > 100 || p[0] == "" {
			a.fail(key, want, p[0]+":"+p[1])
			continue
		}
		t.queues = append(t.queues, queueNode{name: p[0], up: -1, percent: n, mostPart: m})
	}
	a.link(key, t)
	t.nameLeaves()
	return t
}

// link finds what stands above each queue, and makes shares absolute.
func (a *args) link(key string, t *tree) {
	at := map[string]int{}
	for i := range t.queues {
		at[t.queues[i].name] = i
	}
	for i := range t.queues {
		q := &t.queues[i]
		dot := strings.LastIndexByte(q.name, '.')
		if dot < 0 {
			t.roots = append(t.roots, i)
			continue
		}
		up, ok := at[q.name[:dot]]
		if !ok {
			a.refuse(key, "parameter %q of policy %q: there is no queue %q for %q to stand under", key, a.policy, q.name[:dot], q.name)
			continue
		}
		q.up = up
		t.queues[up].below = append(t.queues[up].below, i)
	}
	a.share(key, t, t.roots, -1)
}

// share makes the shares of one level absolute, and of those below.
func (a *args) share(key string, t *tree, level []int, up int) {
	if len(level) == 0 {
		return
	}
	share, most, depth, where := int64(fullShare), int64(fullShare), 1, "the VC"
	if up >= 0 {
		u := &t.queues[up]
		share, most, depth, where = u.share, u.most, u.depth+1, u.name
	}
	if depth > maxDepth {
		a.refuse(key, "parameter %q of policy %q has more than %d levels", key, a.policy, maxDepth)
		return
	}
	var sum int64
	for _, i := range level {
		q := &t.queues[i]
		sum += q.percent
		q.share, q.most, q.depth = share*q.percent/100, most*q.mostPart/100, depth
		a.share(key, t, q.below, i)
	}
	if sum != 100 {
		a.refuse(key, "parameter %q of policy %q: the queues of %s sum to %d percent, not 100", key, a.policy, where,
			sum)
	}
}

// nameLeaves says by which names jobs find their queues.
func (t *tree) nameLeaves() {
	last := func(i int) string { return t.queues[i].name[strings.LastIndexByte(t.queues[i].name, '.')+1:] }
	named := map[string]int{} // how many leaves have a last part
	for i := range t.queues {
		if len(t.queues[i].below) == 0 {
			t.leaves[t.queues[i].name] = i
			named[last(i)]++
		}
	}
	for i := range t.queues {
		if _, taken := t.leaves[last(i)]; len(t.queues[i].below) == 0 && named[last(i)] == 1 && !taken {
			t.leaves[last(i)] = i
		}
	}
	var ok bool
	if t.other, ok = t.leaves["default"]; ok {
		return
	}
	t.other = len(t.queues)
	q := queueNode{name: "default", up: -1, depth: 1, most: fullShare}
	if len(t.queues) == 0 {
		q.share = fullShare
	}
	t.queues = append(t.queues, q)
	t.roots = append(slices.Clone(t.roots), t.other)
}

// leaf is the queue that a job goes to.
func (t *tree) leaf(name string) int {
	if i, ok := t.leaves[name]; ok {
		return i
	}
	return t.other
}
