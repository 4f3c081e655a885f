package policy_test

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// Patience 2 and epsilon 0.1: from 1.0 the loss must fall below 0.9, then from 0.8 below
// 0.72. After 40 of 100 steps of 4 GPUs in 4 hours, 6 hours of 10 are saved: 24 of 40
// GPU-hours.
func TestEarly(t *testing.T) {
	for _, c := range []struct{ mode, loss4, stop, note string }{
		{"stop", "0.72", "its loss has not fallen by 0.1 of 0.8 since step 20, for 2 reports; 24.00 of 40.00 GPU-hours are saved", "loss 800000000 at 20, 2 reports since, seen 14400000001"},
		{"warn", "0.72", "", "loss 800000000 at 20, 2 reports since, seen 14400000001; warning: its loss has not fallen by 0.1 of 0.8 since step 20, for 2 reports; 24.00 of 40.00 GPU-hours are saved"},
		{"stop", "0.7199", "", "loss 719900000 at 40, 0 reports since, seen 14400000001"},
		{"stop", "nan", "its loss has not fallen by 0.1 of 0.8 since step 20, for 2 reports; 24.00 of 40.00 GPU-hours are saved", "loss 800000000 at 20, 2 reports since, seen 14400000001"},
	} {
		w := make1(t, "philly", "early="+c.mode+" patience=2 epsilon=0.1").(model.ProgressWatcher)
		g := model.GangView{Leaves: 4, Started: 1, Hints: &model.Hints{}}
		stop := ""
		for i, loss := range []string{"1.0", "8e-1", "0.75", c.loss4} {
			if stop != "" {
				t.Fatalf("stopped before report %d: %s", i, stop)
			}
			ran := model.Duration(i+1) * model.Hour
			g.Ran = ran
			g.Progress = &model.TaskProgress{At: g.Started.Add(ran), StepAt: g.Started.Add(ran), Step: int64(10 * (i + 1)), Total: 100, Loss: loss, LossAt: g.Started.Add(ran)}
			g.Note, stop = w.Watch(&g)
			g.Progress.At++ // what is seen of the devices is told as well
			if again, _ := w.Watch(&g); again != nil {
				t.Errorf("a report counts twice: %s", again)
			}
		}
		if stop != c.stop || string(g.Note) != c.note {
			t.Errorf("%s, then %s: stop %q, note %q", c.mode, c.loss4, stop, g.Note)
		}
	}
	if p, err := policy.New(model.VCConfig{Policy: "philly"}); err != nil {
		t.Error(err)
	} else if _, watches := p.(model.ProgressWatcher); watches {
		t.Error("without early stopping philly watches")
	}
}
