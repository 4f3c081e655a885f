package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

// Sharing incentive: N equal apps, submitted together, in leases of 20 minutes. On an N-th
// of the GPUs each would take N times as long as on all of them; shared, none takes
// longer. That holds with the auction and without, and twice the same run gives the same.
func TestSharingIncentive(t *testing.T) {
	const apps, minutes = 5, 100
	var b strings.Builder
	b.WriteString("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n")
	for i := range apps {
		fmt.Fprintf(&b, "%d,4,0,1,vgg11,%d,20\n", i, minutes*60)
	}
	file := filepath.Join(t.TempDir(), "apps.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"themis:auction=on", "themis:auction=off", "themis:f=0"} {
		var ends [2]string
		for again := range ends {
			worst := 0.0
			r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "1x4", Policy: name}, &simulate.Trace{Path: file},
				simulate.Options{Policies: policy.New, Ended: func(r *metrics.Row) {
					worst = max(worst, float64(r.JCT())/(apps*minutes*60e6))
					ends[again] += fmt.Sprintf("%s %.0f, ", r.TraceID, float64(r.JCT())/1e6)
				}})
			if err != nil {
				t.Fatal(err)
			}
			if worst > 1 || r.Summary.Finished != apps {
				t.Errorf("%s: the largest finish-time fairness is %.4f, %d apps ended", name, worst, r.Summary.Finished)
			}
			// With f=0 all bid, and who has least left gains most by going on.
			if r.Summary.Preemptions < apps && name != "themis:f=0" {
				t.Errorf("%s: %d preemptions: nobody's lease was taken", name, r.Summary.Preemptions)
			}
		}
		if ends[0] != ends[1] {
			t.Errorf("%s: a second run differs: %s and %s", name, ends[0], ends[1])
		}
	}
}
