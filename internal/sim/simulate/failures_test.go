package simulate

import (
	"strconv"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// Jobs that are drawn to fail do so after about the mean, as many as asked for.
func TestFailuresAreDrawn(t *testing.T) {
	f, err := parseFailures("20,100", 7)
	if err != nil {
		t.Fatal(err)
	}
	n, sum := 0, model.Duration(0)
	for i := range 10_000 {
		if d := f.failsAfter(strconv.Itoa(i)); d > 0 {
			n, sum = n+1, sum+d
		}
	}
	if mean := sum / model.Duration(max(n, 1)) / model.Second; n < 1800 || n > 2200 || mean < 90 || mean > 110 {
		t.Errorf("%d of 10000 jobs fail, after %d s in the mean", n, mean)
	}
	if f, err := parseFailures("20,100,3", 7); err != nil || f.retriesOf() != 3 {
		t.Errorf("three retries are read as %v, %v", f, err)
	}
	for _, bad := range []string{"20", "x,1", "101,1", "5,x", "20,100,", "20,100,-1", "20,100,2,3"} {
		if _, err := parseFailures(bad, 1); err == nil {
			t.Errorf("--failures %s is accepted", bad)
		}
	}
}
