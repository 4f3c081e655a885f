package perf

import (
	"fmt"
	"math"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// Cost is how long something takes: Base for any gang or, if it Grows, that times 1 + log2 of the
// gang's GPUs (Chronus' model of checkpoint and resume).
type Cost struct {
	Base  model.Duration
	Grows bool
}

// maxCost bounds a cost: a century.
const maxCost = 100 * 366 * 24 * 3600

// ParseCost reads SECONDS or log2:SECONDS; fractions of a second are allowed.
func ParseCost(text string) (Cost, error) {
	word, grows := strings.CutPrefix(text, "log2:")
	var seconds float64
	var tail string
	if n, _ := fmt.Sscanf(word, "%g%s", &seconds, &tail); n != 1 || !(seconds >= 0 && seconds <= maxCost) {
		return Cost{}, fmt.Errorf("want SECONDS or log2:SECONDS, not %q", text)
	}
	return Cost{model.Duration(math.Round(seconds * 1e6)), grows}, nil
}

// Of is the cost for a gang of so many GPUs.
func (c Cost) Of(gpus int32) model.Duration {
	if !c.Grows {
		return c.Base
	}
	return c.Base + model.Duration(math.Round(float64(c.Base)*math.Log2(float64(max(gpus, 1)))))
}

// Costs are the times that changes cost a gang before it works on.
type Costs struct {
	Restart Cost // each start after the first
	Migrate Cost // in addition, a start on a machine that the start before did not use
	Suspend Cost // each turn of a gang that takes turns on its GPUs
}
