package sched

import (
	"iter"
	"slices"
)

// queued yields the queue's entries of the view's priority, in the order of
// submission.
func (v view) queued() iter.Seq[queued] {
	return func(yield func(queued) bool) {
		c := v.cursor()
		for e, more := c.next(); more && yield(e); e, more = c.next() {
		}
	}
}

// cursor reads a queue's entries of one priority. Gangs that leave the queue
// while it is read are stepped over.
type cursor struct {
	view
	at   int
	last queued // what was read last; its job is 0 at the beginning
}

func (v view) cursor() cursor { return cursor{view: v, at: below(v.s.queues[v.space], v.prio+1)} }

// follows reports whether the cursor stands behind what was read last, which alone left.
func (c *cursor) follows(q []queued) bool {
	return c.at < len(q) && c.last.compare(q[c.at]) < 0 && (c.at == 0 || q[c.at-1].compare(c.last) < 0)
}

// next returns the next entry; false at the end.
func (c *cursor) next() (queued, bool) {
	q := c.s.queues[c.space]
	if c.last.job != 0 {
		found := c.at < len(q) && q[c.at] == c.last
		if !found && !c.follows(q) {
			c.at, found = slices.BinarySearchFunc(q, c.last, queued.compare)
		}
		if found {
			c.at++
		}
	}
	if c.at == len(q) || q[c.at].prio != c.prio {
		return queued{}, false
	}
	c.last = q[c.at]
	return c.last, true
}
