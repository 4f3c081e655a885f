package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// LongestProgress is the longest line that is read, in bytes.
const LongestProgress = 4096

// ParseProgress reads one line. The attempt and the task are the caller's to fill in.
func ParseProgress(line []byte) (model.Progress, error) {
	var r report
	if err := json.Unmarshal(quoteNoNumbers(line), &r); err != nil {
		return model.Progress{}, err
	}
	return model.Progress{Checkpoint: r.Checkpoint, Step: r.Step.count(), Total: r.Total.count(), Loss: r.Loss.text(),
		Iteration: model.Duration(bounded(r.Iteration.value() * float64(model.Second))), MemoryMB: r.Memory.count()}, nil
}

// FillProgress fills in what a report does not say from an earlier one that was not told.
func FillProgress(f, before *model.Progress) {
	f.Step, f.Total, f.Loss = cmp.Or(f.Step, before.Step), cmp.Or(f.Total, before.Total), cmp.Or(f.Loss, before.Loss)
	f.Iteration, f.MemoryMB = cmp.Or(f.Iteration, before.Iteration), cmp.Or(f.MemoryMB, before.MemoryMB)
}

// report is one line of a progress file. Unknown keys are ignored.
type report struct {
	Step       figure `json:"step"`
	Total      figure `json:"total"`
	Loss       figure `json:"loss"`
	Iteration  figure `json:"iteration_s"`
	Memory     figure `json:"memory"` // MiB
	Checkpoint bool   `json:"checkpoint"`
}

// figure is a number as it was written, or one of the words by which Python and others write what
// is not a number: NaN, Infinity, -Infinity.
type figure string

// UnmarshalJSON implements json.Unmarshaler.
func (f *figure) UnmarshalJSON(b []byte) error {
	var n json.Number
	if err := json.Unmarshal(bytes.Trim(b, `"`), &n); err == nil && len(b) > 0 && b[0] != '"' {
		*f = figure(n)
		return nil
	}
	if w := string(bytes.Trim(b, `"`)); slices.Contains(noNumbers, w) {
		*f = figure(w)
		return nil
	}
	return fmt.Errorf("%.40s is no number", b)
}

var noNumbers = []string{"-Infinity", "Infinity", "NaN"}

// quoteNoNumbers quotes the words NaN and Infinity, which JSON does not have. Inside texts they
// stay as they are.
func quoteNoNumbers(line []byte) []byte {
	if !bytes.Contains(line, []byte("NaN")) && !bytes.Contains(line, []byte("Infinity")) {
		return line
	}
	var out []byte
	for text := false; len(line) > 0; {
		word := slices.IndexFunc(noNumbers, func(w string) bool { return !text && bytes.HasPrefix(line, []byte(w)) })
		switch {
		case word >= 0:
			out = append(append(append(out, '"'), noNumbers[word]...), '"')
			line = line[len(noNumbers[word]):]
			continue
		case line[0] == '"':
			text = !text
		case line[0] == '\\' && len(line) > 1:
			out, line = append(out, line[0]), line[1:]
		}
		out, line = append(out, line[0]), line[1:]
	}
	return out
}

// value is the number; 0 where there is none.
func (f figure) value() float64 {
	v, err := strconv.ParseFloat(string(f), 64)
	if err != nil {
		return 0
	}
	return v
}

// count takes a step, also one written as 1e3; anything but a number from 0 up is 0.
func (f figure) count() int64 {
	if v, err := strconv.ParseInt(string(f), 10, 64); err == nil {
		return max(v, 0)
	}
	return bounded(f.value())
}

func bounded(v float64) int64 {
	if math.IsNaN(v) || v <= 0 {
		return 0
	}
	return int64(min(v, 1<<53))
}

// text keeps a number as it was written, or, where that is long, as the shortest text of the same
// number.
func (f figure) text() string {
	if len(f) <= 32 {
		return string(f)
	}
	return strconv.FormatFloat(f.value(), 'g', -1, 64)
}
