package walk

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// cluster is the walk's cluster file: three machines of two GPUs, of which the first
// virtual cluster owns some and the second the rest. All are this machine.
const cluster = `physicalCluster:
  skuTypes:
    WALK-GPU: {gpu: 1, cpu: 1, memory: 512Mi}
  cellTypes:
    WALK-NODE: {childCellType: WALK-GPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: WALK-NODE, cellAddress: walk-1}
  - {cellType: WALK-NODE, cellAddress: walk-2}
  - {cellType: WALK-NODE, cellAddress: walk-3}
virtualClusters:
  red:
    virtualCells: [{cellType: WALK-NODE, cellNumber: %d}]
  blue:
    virtualCells: [{cellType: WALK-NODE, cellNumber: %d}]
`

func configure(ctx context.Context, w *walk) error {
	file, err := w.write("cluster.yaml", fmt.Sprintf(cluster, 2, 1))
	if err != nil {
		return err
	}
	plan, err := w.comb(ctx, "config", "plan", file)
	if err != nil {
		return err
	}
	w.expect(plan.code == 0 && strings.Contains(plan.out, "red") && strings.Contains(plan.out, "blue"),
		"the plan names both virtual clusters", "%s", plan.all())
	before, err := w.names(ctx)
	if err != nil {
		return err
	}
	w.expect(!slices.Contains(before, "red"), "planning changes nothing", "virtual clusters %v", before)
	if _, err := w.must(ctx, "config", "apply", "--yes", file); err != nil {
		return err
	}
	after, err := w.names(ctx)
	if err != nil {
		return err
	}
	w.expect(slices.Equal(after, []string{"blue", "red"}), "the file is in force", "virtual clusters %v", after)
	again, err := w.must(ctx, "config", "plan", file)
	if err != nil {
		return err
	}
	w.expect(strings.Contains(again.all(), "no change"), "the same file once more changes nothing", "%s", again.all())
	return nil
}

// names are the virtual clusters' names.
func (w *walk) names(ctx context.Context) ([]string, error) {
	var list rest.VCList
	err := w.read(ctx, &list, "vc", "list")
	var out []string
	for _, v := range list.VCs {
		out = append(out, string(v.Name))
	}
	slices.Sort(out)
	return out, err
}

// cordoned: what runs on a cordoned node goes on, nothing new starts there.
func cordoned(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "stays", "--vc", "blue", "--gpus", "1"); err != nil {
		return err
	}
	stays, err := w.job(ctx, "stays")
	if err != nil {
		return err
	}
	node := string(stays.Tasks[0].Node)
	if _, err := w.must(ctx, "node", "cordon", node, "--reason", "a new fan"); err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "run", "-d", "--name", "elsewhere", "--vc", "blue", "--gpus", "1", "--", "true"); err != nil {
		return err
	}
	explained, err := w.must(ctx, "job", "explain", "elsewhere")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(explained.out, "cordon"), "a job of its virtual cluster waits for the cordon", "%s", explained.all())
	list, err := w.must(ctx, "node", "list")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(list.out, "a new fan"), "node list tells the reason", "%s", list.all())
	if stays, err = w.job(ctx, "stays"); err != nil {
		return err
	}
	w.expect(stays.Phase == "Active" && len(stays.Attempts) == 1, "what runs there goes on", "stays is %s in attempt %d", stays.Phase, stays.Tasks[0].Attempt)
	if _, err := w.must(ctx, "node", "uncordon", node); err != nil {
		return err
	}
	elsewhere, err := w.ended(ctx, "elsewhere")
	if err != nil {
		return err
	}
	w.expect(elsewhere.Phase == "Succeeded", "after uncordon it runs", "elsewhere has %s", strings.ToLower(string(elsewhere.Phase)))
	return w.stop(ctx, "stays")
}

// saver is a program that saves when it is told to stop and ends with 0, as most do. It reports
// when it is ready for that.
const saver = `n=$(cat "$COMB_CHECKPOINT_DIR/n" 2>/dev/null || echo 0)
trap 'echo $((n+1)) > "$COMB_CHECKPOINT_DIR/n"; exit 0' TERM
echo "{\"step\": $((n+1))}" >> "$COMB_PROGRESS_FILE"
while :; do sleep 0.05; done
`

// drained: what a drain does to a job is told before it happens, and happens so.
func drained(ctx context.Context, w *walk) error {
	program, err := w.write("saver.sh", saver)
	if err != nil {
		return err
	}
	run := []string{"job", "run", "-d", "--name", "saver", "--vc", "red", "--gpus", "2", "--checkpoint"}
	run = append(run, "--", "sh", program)
	if _, err := w.must(ctx, run...); err != nil {
		return err
	}
	reports := func(step int64) func(rest.Job) bool {
		return func(j rest.Job) bool { return j.Tasks[0].Progress != nil && j.Tasks[0].Progress.Step == step }
	}
	saver, err := w.until(ctx, "saver", "ready", reports(1))
	if err != nil {
		return err
	}
	node := string(saver.Tasks[0].Node)
	var plan rest.DrainPlanned
	if err := w.read(ctx, &plan, "node", "drain", node, "--dry-run"); err != nil {
		return err
	}
	if len(plan.Jobs) != 1 || plan.Jobs[0].Fate != "starts" || len(plan.Jobs[0].Nodes) != 1 {
		return fmt.Errorf("a plan of the drain of %s is %+v", node, plan)
	}
	to := string(plan.Jobs[0].Nodes[0])
	w.expect(to != node, "the plan says where it starts again", "%s: %s", node, plan.Jobs[0].Says)
	if _, err := w.must(ctx, "node", "drain", node, "--deadline", "1h", "--reason", "new memory"); err != nil {
		return err
	}
	told, err := w.must(ctx, "job", "explain", "saver")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(told.out, "node "+node+" is drained (new memory): the job is told to stop"),
		"its owner is told, and when", "%s", told.all())
	if _, err := w.must(ctx, "node", "drain", node); err != nil {
		return err
	}
	if saver, err = w.until(ctx, "saver", "at its second step", reports(2)); err != nil {
		return err
	}
	w.expect(string(saver.Tasks[0].Node) == to && saver.Counted == 0 && saver.Tasks[0].Attempt == 2,
		"it has saved, ended with 0, and goes on where that was said",
		"on %s, said was %s; attempt %d, %d retries", saver.Tasks[0].Node, to, saver.Tasks[0].Attempt, saver.Counted)
	if _, err := w.must(ctx, "node", "uncordon", node); err != nil {
		return err
	}
	return w.stop(ctx, "saver")
}

// requota: blue loses its node to red while a job of blue's runs on it.
func requota(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "tenant", "--vc", "blue", "--gpus", "2"); err != nil {
		return err
	}
	file, err := w.write("quota.yaml", fmt.Sprintf(cluster, 3, 0))
	if err != nil {
		return err
	}
	plan, err := w.must(ctx, "config", "plan", file)
	if err != nil {
		return err
	}
	w.expect(strings.Contains(plan.out, "2 -> 3") && strings.Contains(plan.out, "tenant"),
		"the plan tells red's new guarantee, and what becomes of the job that runs", "%s", plan.all())
	if _, err := w.must(ctx, "config", "apply", "--yes", file); err != nil {
		return err
	}
	tenant, err := w.job(ctx, "tenant")
	if err != nil {
		return err
	}
	w.expect(tenant.Phase == "Active" && len(tenant.Attempts) == 1 && tenant.Attempts[0].Opportunistic,
		"the job runs on without its guarantee", "tenant is %s, opportunistic %v", tenant.Phase, tenant.Attempts[0].Opportunistic)
	if _, err := w.must(ctx, "config", "apply", "--yes", w.path("cluster.yaml")); err != nil {
		return err
	}
	if tenant, err = w.until(ctx, "tenant", "guaranteed again", func(j rest.Job) bool {
		return len(j.Attempts) > 0 && !j.Attempts[0].Opportunistic
	}); err != nil {
		return err
	}
	w.expect(tenant.Phase == "Active" && tenant.Preempted == 0, "taken back, it is guaranteed again and was never stopped",
		"tenant is %s, preempted %d times", tenant.Phase, tenant.Preempted)
	return w.stop(ctx, "tenant")
}

// turns: under a policy that shares, two trainings take turns on blue's GPUs, each frozen while the
// other runs.
func turns(ctx context.Context, w *walk) error {
	file, err := w.write("turns.yaml", fmt.Sprintf(cluster, 2, 1)+"    policy: {name: gandiva, params: {quantum: 1}}\n")
	if err != nil {
		return err
	}
	if _, err := w.must(ctx, "config", "apply", "--yes", file); err != nil {
		return err
	}
	names := []string{"turn-a", "turn-b"}
	for _, name := range names {
		text := strings.NewReplacer("red}", "blue}", "checkpoint: true", "checkpoint: true, suspendable: true").Replace(w.heldTraining(name, 150))
		if file, err = w.write(name+".yaml", text); err != nil {
			return err
		}
		if _, err := w.must(ctx, "job", "submit", file); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := w.until(ctx, name, "frozen", func(j rest.Job) bool {
			return len(j.Attempts) > 0 && j.Attempts[0].State == model.AttemptSuspended
		}); err != nil {
			return err
		}
	}
	if err := w.release(names...); err != nil {
		return err
	}
	whole, err := w.must(ctx, "job", "logs", "whole")
	if err != nil {
		return err
	}
	want := match(weights, whole.out)
	for _, name := range names {
		j, err := w.ended(ctx, name)
		if err != nil {
			return err
		}
		logs, err := w.must(ctx, "job", "logs", name)
		if err != nil {
			return err
		}
		got := match(weights, logs.out)
		w.expect(j.Phase == "Succeeded" && j.Tasks[0].Attempt == 1 && got == want,
			"it succeeds in one attempt, with the parameters of a training that was never frozen", "%s %s in attempt %d, weights %s and %s", name, j.Phase, j.Tasks[0].Attempt, got, want)
		asleep := model.Duration(j.Ended-j.Started) - j.Ran
		w.expect(asleep >= model.Second, "the other's turns are no time that it ran", "%s ran for %.1f s and was frozen for %.1f s", name, seconds(j.Ran), seconds(asleep))
	}
	_, err = w.must(ctx, "config", "apply", "--yes", w.path("cluster.yaml"))
	return err
}

func seconds(d model.Duration) float64 { return float64(d) / float64(model.Second) }
