package lab

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// reasonPoll is how often the reasons of waiting jobs are asked for.
const reasonPoll = 150 * time.Millisecond

// watch follows a server's events, keeps their timeline and prints what happens.
type watch struct {
	client *rest.Client
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	out     io.Writer
	line    *timeline
	changed chan struct{} // closed and made anew at every event
	err     error
	reasons map[model.JobID]string   // last printed
	seen    map[model.JobID][]string // codes of all reasons observed
}

func newWatch(c *rest.Client, out io.Writer) *watch {
	return &watch{client: c, out: out, line: newTimeline(), changed: make(chan struct{}),
		reasons: map[model.JobID]string{}, seen: map[model.JobID][]string{}}
}

// begin follows from the first event on, until end.
func (w *watch) begin(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.group.Go(func() {
		err := w.client.Follow(ctx, "", 0, rest.Follower{Event: w.event})
		if ctx.Err() == nil {
			w.mu.Lock()
			w.err = fmt.Errorf("the event stream broke: %w", err)
			w.wake()
			w.mu.Unlock()
		}
	})
	w.group.Go(func() { w.askReasons(ctx) })
}

func (w *watch) end() {
	w.cancel()
	w.group.Wait()
}

func (w *watch) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watch) event(e rest.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	event, err := w.line.add(e)
	if err != nil {
		return err
	}
	if text, job := w.describe(event); text != "" {
		w.print(e.Time, job, text)
	}
	w.wake()
	return nil
}

// seq is the last event seen.
func (w *watch) seq() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.line.events); n > 0 {
		return w.line.events[n-1].Seq
	}
	return 0
}

// look calls f with the timeline, which f must not keep.
func (w *watch) look(f func(*timeline)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.line)
}

// until waits until f is true of the timeline; what is said when it never is.
func (w *watch) until(ctx context.Context, what string, f func(*timeline) bool) error {
	for {
		w.mu.Lock()
		ok, err, changed := f(w.line), w.err, w.changed
		w.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
}

// codes returns the codes of the reasons for which a job was seen to wait.
func (w *watch) codes(id model.JobID) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen[id]...)
}

func (w *watch) askReasons(ctx context.Context) {
	tick := time.NewTicker(reasonPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := w.client.Jobs(ctx, rest.JobQuery{States: []model.Phase{model.Waiting, model.Active}})
		if err != nil {
			continue // the next round asks again; a dead server shows in the event stream
		}
		for _, j := range list.Jobs {
			if j.Reason != nil {
				w.reason(j.ID, j.Reason)
			}
		}
	}
}

func (w *watch) reason(id model.JobID, r *rest.Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.line.jobs[id] == nil {
		return
	}
	text := fmt.Sprintf("waits (%s): %s", r.Code, r.Message)
	if w.reasons[id] == text {
		return
	}
	w.reasons[id] = text
	w.seen[id] = append(w.seen[id], string(r.Code))
	w.print(model.Time(time.Now().UnixMicro()), id, text)
}

func (w *watch) heading(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "\n%s\n", text)
	fmt.Fprintf(w.out, "  %-12s %-18s %-8s %-14s %s\n", "time", "job", "VC", "cell", "what happens and why")
}

func (w *watch) print(at model.Time, id model.JobID, text string) {
	name, vc, cell := "-", "-", "-"
	if j := w.line.jobs[id]; j != nil {
		name, vc, cell = string(j.spec.Name), string(j.spec.VC), held(j)
	}
	clock := time.UnixMicro(int64(at)).Format("15:04:05.000")
	fmt.Fprintf(w.out, "  %-12s %-18s %-8s %-14s %s\n", clock, name, vc, cell, text)
}

// held names the cells that a job holds now.
func held(j *jobLine) string {
	var out []string
	for _, r := range j.runs {
		if r.freed == 0 {
			out = append(out, fmt.Sprintf("%s/%s", r.node, strings.Trim(fmt.Sprint(r.devices), "[]")))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ",")
}

// describe says in words what an event means; "" for events that only matter to
// the machinery.
func (w *watch) describe(event model.Event) (string, model.JobID) {
	switch v := event.(type) {
	case model.JobSubmitted:
		leaves := int32(0)
		for _, r := range v.Job.Roles {
			leaves += r.Tasks * r.Leaves
		}
		return fmt.Sprintf("submitted: priority %d, %d GPU", v.Job.Priority, leaves), v.ID
	case model.Configured:
		return fmt.Sprintf("configuration applied: %d VCs", len(v.Config.VCs)), 0
	case model.Placed:
		return fmt.Sprintf("attempt %d is placed", v.Attempt.N), v.Attempt.Job
	case model.Reserved:
		if len(v.Victims) == 0 {
			return fmt.Sprintf("it is to move: attempt %d has its cells", v.Attempt.N), v.Attempt.Job
		}
		return fmt.Sprintf("its cell is reserved, %d attempts are being stopped for it", len(v.Victims)), v.Attempt.Job
	case model.Unreserved:
		return "its reservation is taken back: " + v.Reason, v.Attempt.Job
	case model.StopSent:
		return w.describeStop(v), v.Attempt.Job
	case model.TaskStarted:
		return fmt.Sprintf("task %d runs, process %d", v.Task, v.PID), v.Attempt.Job
	case model.TaskExited:
		return fmt.Sprintf("task %d ends with exit code %d %s", v.Task, v.Exit.Code, v.Exit.Cause), v.Attempt.Job
	case model.TaskRefused:
		return fmt.Sprintf("task %d could not start: %s", v.Task, v.Reason), v.Attempt.Job
	case model.Progress:
		if v.Checkpoint {
			return fmt.Sprintf("task %d saved a checkpoint at step %d", v.Task, v.Step), v.Attempt.Job
		}
	case model.AttemptEnded:
		return fmt.Sprintf("attempt %d is over: %s", v.Attempt.N, v.Cause), v.Attempt.Job
	case model.TaskRetried:
		return "queued again", v.Job
	case model.JobEnded:
		return strings.TrimSpace(fmt.Sprintf("%s: %s", v.Phase, v.Message)), v.Job
	}
	return "", 0
}

func (w *watch) describeStop(v model.StopSent) string {
	by := ""
	if v.By != nil && w.line.jobs[v.By.Job] != nil {
		by = " by " + string(w.line.jobs[v.By.Job].spec.Name)
	}
	return fmt.Sprintf("attempt %d is asked to stop: %s%s, %v of grace", v.Attempt.N, v.Cause, by,
		time.Duration(v.Grace)*time.Microsecond)
}
