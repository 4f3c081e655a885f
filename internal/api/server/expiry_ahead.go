package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// keepAhead is how long the effect of the end of a configuration is reused, since it is
// computed on a copy of the state.
const keepAhead = 10 * time.Second

// expiryAhead is what the end of the present configuration will do to running attempts. It
// may be some seconds old. Its zero value is ready, and it may be used by many goroutines.
type expiryAhead struct {
	mu      sync.Mutex
	at      time.Time
	list    map[model.AttemptID]rest.Coming
	working bool // a caller computes it; others get the last result
	changes int  // number of changes of the configuration
}

// Forget drops the result, since there is another configuration.
func (a *expiryAhead) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = nil
	a.changes++
}

// expiryWork computes what going back would do, and when that is. A nil plan means that the
// present configuration has no end.
type expiryWork func(context.Context) (*model.ConfigPlan, model.Time, error)

// Tell adds to jobs what the end will do to them.
func (a *expiryAhead) Tell(ctx context.Context, jobs []rest.Job, work expiryWork) error {
	if !slices.ContainsFunc(jobs, func(j rest.Job) bool { return j.Phase == model.Active }) {
		return nil
	}
	list, err := a.known(ctx, work)
	for i := range jobs {
		tellComing(&jobs[i], list)
	}
	return err
}

// known is the last result. If it is old, and no other caller computes it, this one does. No
// other caller waits: on a large cluster it takes a while.
func (a *expiryAhead) known(ctx context.Context, work expiryWork) (map[model.AttemptID]rest.Coming, error) {
	a.mu.Lock()
	list, changes := a.list, a.changes
	old := !a.working && (list == nil || time.Since(a.at) > keepAhead)
	a.working = a.working || old
	a.mu.Unlock()
	if !old {
		return list, nil
	}
	defer a.worked()
	plan, until, err := work(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if list = ahead(plan, until); changes == a.changes { // else it is for an earlier configuration
		a.at, a.list = time.Now(), list
	}
	return list, nil
}

func (a *expiryAhead) worked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working = false
}

func tellComing(j *rest.Job, list map[model.AttemptID]rest.Coming) {
	added := false
	for k := range j.Attempts {
		if c, ok := list[j.Attempts[k].ID]; ok && j.Attempts[k].Cause == 0 && !slices.Contains(j.Coming, c) {
			j.Coming, added = append(slices.Clip(j.Coming), c), true
		}
	}
	if added {
		slices.SortStableFunc(j.Coming, func(a, b rest.Coming) int {
			if (a.At == 0) != (b.At == 0) {
				return cmp.Compare(b.At, a.At)
			}
			return cmp.Compare(a.At, b.At)
		})
	}
}

// ahead describes the effect on each attempt that a plan stops, moves or demotes.
func ahead(p *model.ConfigPlan, until model.Time) map[model.AttemptID]rest.Coming {
	out := map[model.AttemptID]rest.Coming{}
	if p == nil {
		return out
	}
	for i := range p.Running {
		if r := &p.Running[i]; fates[r.Fate] != "" {
			says := "an earlier cluster file comes back then: as it stands now, " + fates[r.Fate]
			out[r.Attempt] = rest.Coming{Kind: model.ComesFile, At: until, Message: says}
		}
	}
	return out
}

const leaves = "devices on which it runs leave the configuration"

var fates = map[model.Fate]string{
	model.IsStopped:     "it is told to stop, with its grace, and waits again",
	model.Moves:         "it is told to stop, with its grace, and goes on elsewhere",
	model.Opportunistic: "it loses its guarantee, and runs on as opportunistic",
	model.Drains:        leaves + ": it may end there, and does not start there again",
	model.DrainsLazily:  leaves + ", and it loses its guarantee: it may end there as opportunistic",
}
