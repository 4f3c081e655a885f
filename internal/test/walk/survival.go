package walk

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

const (
	clients   = 4                      // that submit while the server is killed
	loadTime  = 700 * time.Millisecond // before the kill, and after the restart
	loadPause = 15 * time.Millisecond  // between a client's submissions
)

// load is what clients were told while the server was killed.
type load struct {
	mu    sync.Mutex
	acked map[string]model.JobID
	wrong []string
}

// killed: kill -9 under load loses nothing that was acknowledged and stops no work.
func killed(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "survivor", "--vc", "red", "--gpus", "1"); err != nil {
		return err
	}
	before, err := w.job(ctx, "survivor")
	if err != nil {
		return err
	}
	l := &load{acked: map[string]model.JobID{}}
	loading, enough := context.WithCancel(ctx)
	defer enough()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() { l.submit(loading, ctx, w, c) })
	}
	time.Sleep(loadTime)
	w.server.Kill()
	if err := w.server.Start(ctx); err != nil {
		return err
	}
	time.Sleep(loadTime)
	enough()
	all.Wait()
	w.expect(len(l.acked) > 0 && len(l.wrong) == 0, "every submission is acknowledged in the end", "%d acknowledged; %s", len(l.acked), strings.Join(l.wrong, "; "))
	if err := l.settled(ctx, w); err != nil {
		return err
	}
	after, err := w.job(ctx, "survivor")
	if err != nil {
		return err
	}
	w.expect(running(after) && after.Tasks[0].PID == before.Tasks[0].PID && after.Tasks[0].Attempt == 1, "what ran runs on, in the same process",
		"process %d, then %d, attempt %d", before.Tasks[0].PID, after.Tasks[0].PID, after.Tasks[0].Attempt)
	return w.stop(ctx, "survivor")
}

// settled wants that every acknowledged job ends well under its name and id.
func (l *load) settled(ctx context.Context, w *walk) error {
	for end := time.Now().Add(patience); ; time.Sleep(loadTime) {
		var list rest.JobList
		if err := w.read(ctx, &list, "job", "list", "--all", "--name", "load-"); err != nil {
			return err
		}
		well := 0
		for _, j := range list.Jobs {
			if j.Phase == model.Succeeded && l.acked[string(j.Name)] == j.ID {
				well++
			}
		}
		if well == len(l.acked) || time.Now().After(end) {
			w.expect(well == len(l.acked) && well == len(list.Jobs), "every acknowledged job ends well under its id", "%d of %d do", well, len(l.acked))
			return nil
		}
	}
}

// submit submits short jobs by REST until loading ends. A submission whose fate is
// unknown is repeated with its key.
func (l *load) submit(loading, ctx context.Context, w *walk, client int) {
	for i := 0; loading.Err() == nil && ctx.Err() == nil; i++ {
		name, key := fmt.Sprintf("load-%d-%d", client, i), rest.NewKey()
		quick := &rest.QuickJob{Name: name, VC: "red", GPUs: 1, Command: []string{"true"}}
		for ctx.Err() == nil {
			s, err := w.client.Submit(ctx, rest.SubmitRequest{Quick: quick}, key)
			if err == nil {
				l.mu.Lock()
				l.acked[name] = s.ID
				l.mu.Unlock()
				break
			}
			if code := rest.CodeOf(err); code != "" && code != rest.CodeBusy && code != rest.CodeUnavailable {
				l.mu.Lock()
				l.wrong = append(l.wrong, fmt.Sprintf("%s: %v", name, err))
				l.mu.Unlock()
				break
			}
			time.Sleep(glance)
		}
		time.Sleep(loadPause)
	}
}

// replayed: the journal is sound, and what it tells happens again.
func replayed(ctx context.Context, w *walk) error {
	verified, err := w.comb(ctx, "journal", "verify", "--data", w.server.Data)
	if err != nil {
		return err
	}
	w.expect(verified.code == 0, "every decision of the day is taken again alike", "exit code %d: %s", verified.code, verified.all())
	own, other := w.path("own"), w.path("las")
	if _, err := w.must(ctx, "sim", "replay", w.server.Data, "-o", own); err != nil {
		return err
	}
	if err := w.agree(ctx, own); err != nil {
		return err
	}
	if _, err := w.must(ctx, "sim", "replay", w.server.Data, "--policy", "las", "-o", other); err != nil {
		return err
	}
	compared, err := w.must(ctx, "sim", "compare", own, other)
	if err != nil {
		return err
	}
	w.expect(strings.Contains(compared.out, "las"), "both are compared", "%.200s", compared.all())
	return nil
}

// agree holds the jobs of a replay under the day's own policies against what happened.
func (w *walk) agree(ctx context.Context, dir string) error {
	var live rest.JobList
	if err := w.read(ctx, &live, "job", "list", "--all"); err != nil {
		return err
	}
	rows, err := table(dir + "/jobs.csv")
	if err != nil {
		return err
	}
	var apart []string
	for _, j := range live.Jobs {
		r := rows[strconv.FormatInt(int64(j.ID), 10)]
		if r["phase"] != string(j.Phase) || r["preemptions"] != strconv.Itoa(int(j.Preempted)) {
			apart = append(apart, fmt.Sprintf("%s %s, preempted %d (in the replay %s, %s)", j.Name, j.Phase, j.Preempted, r["phase"], r["preemptions"]))
		}
	}
	w.expect(len(apart) == 0 && len(rows) == len(live.Jobs), "the replay ends each job as it ended, after as many preemptions",
		"%d jobs, %d in the replay, %d differ %s", len(live.Jobs), len(rows), len(apart), strings.Join(apart, "; "))
	return nil
}

// table reads a table of jobs: for each job of the trace its columns by name.
func table(path string) (map[string]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, values := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = values[i]
		}
		out[row["trace_id"]] = row
	}
	return out, nil
}
