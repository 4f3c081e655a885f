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

// WaitLines show why a job waits, and its notices: each kind of reason and each notice once.
// On a terminal the reason is a line that changes in place until the job runs.
type WaitLines struct {
	Terminal bool
	Boxed    bool // the job runs in containers: all notices are shown, else only lasting ones
	Clean    func(string) string
	reason   *cli.LineWriter
	notice   *cli.LineWriter
	last     string // kind of the reason that is shown
	told     map[string]bool
}

// On begins to show lines on a screen, which goes on to out.
func (w *WaitLines) On(onto *cli.Screen, out io.Writer) *WaitLines {
	w.told = map[string]bool{}
	w.reason = onto.Writer(out, w.Terminal, "waiting: ")
	w.notice = onto.Writer(out, w.Terminal, "notice: ")
	return w
}

// Show prints what is new.
func (w *WaitLines) Show(j *rest.Job) {
	changes, lasting := w.Terminal && j.Started == 0, min(j.Lasting, len(j.Notices))
	reason, kind := "", ""
	if r := j.Reason; r != nil && !j.Phase.Ended() {
		reason = w.Clean(r.Message)
		// The message has times and numbers that change each time.
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

// Pauses between two requests: for a job that waits or starts, and for one that runs.
const (
	lookSoon = time.Second
	lookLate = 10 * time.Second
)

// Follow repeats the request until ctx is done or the job has ended.
func (w *WaitLines) Follow(ctx context.Context, client *rest.Client, ref string) {
	for pause := lookSoon; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		j, err := client.Job(ctx, ref)
		if err != nil {
			continue // the reader of the logs reports what is wrong with the server
		}
		if w.Show(&j); j.Phase.Ended() {
			return
		}
		if pause = lookSoon; runs(&j) {
			pause = lookLate
		}
	}
}

// runs reports whether all tasks of a job run: none waits or starts.
func runs(j *rest.Job) bool {
	return !slices.ContainsFunc(j.Tasks, func(t rest.TaskStatus) bool {
		return t.State == model.TaskWaiting || t.State == model.TaskStarting
	})
}
