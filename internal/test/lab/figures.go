package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figures prints what was measured, a line each: name{labels} value unit.
type Figures struct{ Out io.Writer }

// Print prints one figure; labels are pairs of a name and a value.
func (f Figures) Print(name string, value float64, unit string, labels ...string) {
	var in []string
	for i := 0; i+1 < len(labels); i += 2 {
		in = append(in, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
	}
	fmt.Fprintf(f.Out, "%s{%s} %.6g %s\n", name, strings.Join(in, ","), value, unit)
}

// Quantiles prints the least, the median, the 99th percentile and the largest in milliseconds. It
// sorts all.
func (f Figures) Quantiles(name string, all []time.Duration, labels ...string) {
	slices.Sort(all)
	for _, q := range []struct {
		label string
		at    int
	}{{"0", 0}, {"0.5", len(all) / 2}, {"0.99", len(all) * 99 / 100}, {"1", len(all) - 1}} {
		f.Print(name, float64(all[min(q.at, len(all)-1)].Microseconds())/1000, "ms", append(labels, "quantile", q.label)...)
	}
}

// Resident is the memory of a process in KiB, with the pages of files, which others may share.
func Resident(pid int) (kib int, err error) { return memory(pid, "VmRSS:") }

// MostResident is the most that it was.
func MostResident(pid int) (kib int, err error) { return memory(pid, "VmHWM:") }

// Anonymous is the part of it in KiB that is the process's own.
func Anonymous(pid int) (kib int, err error) { return memory(pid, "RssAnon:") }

func memory(pid int, kind string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), kind)
	if f := strings.Fields(rest); len(f) > 0 {
		return strconv.Atoi(f[0])
	}
	return 0, errors.New("the kernel does not tell a process's memory")
}
