package job

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
)

// WaitLines show why a job waits, and what it is told: each kind of reason and each notice once,
// and on a terminal as lines that change in their place until the job runs.
type WaitLines struct {
	Terminal bool
	Boxed    bool // the job runs in containers: all notices are shown, else those that last
	Clean    func(string) string
	reason   *cli.LineWriter
	notice   *cli.LineWriter
	last     string // what kind of reason is shown
	told     map[string]bool
}

// On begins to show on a screen, and what goes on to out.
func (w *WaitLines) On(onto *cli.Screen, out io.Writer) *WaitLines {
	w.told = map[string]bool{}
	w.reason = onto.Writer(out, w.Terminal, "waiting: ")
	w.notice = onto.Writer(out, w.Terminal, "notice: ")
	return w
}

// Show shows what is new.
func (w *WaitLines) Show(j *rest.Job) {
	changes, lasting := w.Terminal && j.Started == 0, min(j.Lasting, len(j.Notices))
	reason, kind := "", ""
	if r := j.Reason; r != nil && !j.Phase.Ended() {
		reason = w.Clean(r.Message)
		// The message has times and numbers that change with each look.
		kind = fmt.Sprint(r.Code, r.Jobs, r.Nodes)
	}
	if kind != w.last && !changes {
		stay(w.reason, reason)
	}
	w.last = kind
	var now []string
	for i, text := range j.Notices {
		text = w.Clean(text)
		switch last := i >= len(j.Notices)-lasting; {
		case last && changes:
			now = append(now, text)
		case !w.told[text] && (last || w.Boxed):
			stay(w.notice, text)
			w.told[text] = true
		}
	}
	if !changes {
		reason = ""
	}
	if w.Terminal {
		fmt.Fprint(w.reason, "\r", cmp.Or(reason, " "))
		fmt.Fprint(w.notice, "\r", cmp.Or(strings.Join(now, "; "), " "))
	}
}

// stay writes a line that stays.
func stay(w *cli.LineWriter, text string) {
	if text != "" {
		fmt.Fprintf(w, "\r%s\n", text)
	}
}

// The pauses between two looks at a job that waits or starts, and at one that runs.
const (
	lookSoon = time.Second
	lookLate = 10 * time.Second
)

// Follow looks again and again, until ctx is done or the job has ended.
func (w *WaitLines) Follow(ctx context.Context, client *rest.Client, ref string) {
	for pause := lookSoon; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		j, err := client.Job(ctx, ref)
		if err != nil {
			continue // what reads the logs says what is wrong with the server
		}
		if w.Show(&j); j.Phase.Ended() {
			return
		}
		if pause = lookSoon; runs(&j) {
			pause = lookLate
		}
	}
}

// runs reports whether no task of a job waits or starts.
func runs(j *rest.Job) bool {
	return !slices.ContainsFunc(j.Tasks, func(t rest.TaskStatus) bool {
		return t.State == model.TaskWaiting || t.State == model.TaskStarting
	})
}
