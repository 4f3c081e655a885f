package job

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// orders are the orders of lists. Among equal jobs the newer one comes first.
var orders = map[string]func(a, b *rest.Job) int{
	"submitted": func(a, b *rest.Job) int { return cmp.Compare(b.Submitted, a.Submitted) },
	"name":      func(a, b *rest.Job) int { return cmp.Compare(a.Ref, b.Ref) },
	"user":      func(a, b *rest.Job) int { return cmp.Compare(a.User, b.User) },
	"vc":        func(a, b *rest.Job) int { return cmp.Compare(a.VC, b.VC) },
	"priority":  func(a, b *rest.Job) int { return cmp.Compare(b.Priority, a.Priority) },
	"gpus":      func(a, b *rest.Job) int { return cmp.Compare(b.GPUs, a.GPUs) },
	"run":       func(a, b *rest.Job) int { return cmp.Compare(b.Ran, a.Ran) },
	"left":      func(a, b *rest.Job) int { return cmp.Compare(ends(a), ends(b)) },
}

// Orders are the names of the orders.
func Orders() []string { return slices.Sorted(maps.Keys(orders)) }

// ends is when a job ends; the largest time where that is unknown.
func ends(j *rest.Job) model.Time {
	if j.Outlook == nil || j.Outlook.Ends == 0 {
		return 1<<63 - 1
	}
	return j.Outlook.Ends
}

// Sort sorts jobs by one of Orders.
func Sort(jobs []rest.Job, by string) {
	order := orders[by]
	slices.SortStableFunc(jobs, func(a, b rest.Job) int { return cmp.Or(order(&a, &b), cmp.Compare(b.ID, a.ID)) })
}

// Nodes are the nodes that a job's live tasks hold, each once.
func Nodes(j *rest.Job) string {
	var out []cell.NodeName
	for i := range j.Tasks {
		t := &j.Tasks[i]
		switch t.State {
		case model.TaskStarting, model.TaskRunning, model.TaskSuspended, model.TaskStopping, model.TaskIsUnknown:
			if !slices.Contains(out, t.Node) {
				out = append(out, t.Node)
			}
		}
	}
	return nodes(out, 0)
}

// Since removes the jobs that were submitted before a time. Since lists are in order of
// submission, there is no further page once a job is removed.
func Since(list *rest.JobList, from model.Time) {
	n := len(list.Jobs)
	list.Jobs = slices.DeleteFunc(list.Jobs, func(j rest.Job) bool { return j.Submitted < from })
	if len(list.Jobs) < n {
		list.Next = ""
	}
}

// Watch draws again and again until it is interrupted, and shows the text each time it has
// changed. On a terminal it replaces the previous text. After the first success errors are
// only shown, and it goes on: a server may restart.
func Watch(ctx context.Context, every time.Duration, terminal bool, draw func() (string, error),
	show func(text string, err error)) error {
	last, failed := "", ""
	for drawn := false; ; drawn = true {
		text, err := draw()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !drawn:
			return err
		case err != nil && err.Error() != failed:
			failed = err.Error()
			show("", err)
		case err == nil && (text != last || failed != ""):
			last, failed = text, ""
			if terminal {
				text = "\x1b[H\x1b[2J" + text
			}
			show(text, nil)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
