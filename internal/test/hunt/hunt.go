// Package hunt looks for decisions that would stall the loop: it runs scripts, those that were slow
// once and random ones, and counts the steps of every check and decision. It must not judge
// what is decided, nor by time.
package hunt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/combsched/comb/internal/sim/script"
)

// Case is a script, a line a command.
type Case struct {
	Name  string
	Lines []string
}

// Finding is the heaviest check or decision of one line of a case.
type Finding struct {
	Case  Case // up to that line
	Steps int64
	CPU   time.Duration // of the whole line, whatever else it does
}

// Line is the command that caused it.
func (f *Finding) Line() string { return f.Case.Lines[len(f.Case.Lines)-1] }

// Run runs a case and returns a finding a line, or what the engine or the simulated machines
// found wrong.
func Run(c Case) ([]Finding, error) {
	s := script.New()
	s.Quiet = true
	defer s.Close()
	var out []Finding
	for i, line := range c.Lines {
		began := processor()
		if _, err := s.Do(line, ""); err != nil && !strings.HasPrefix(line, "stop ") { // of a job that is over, or was refused
			return out, fmt.Errorf("%s, line %d, %s: %w", c.Name, i+1, line, err)
		}
		if s.Failed() > 0 {
			return out, fmt.Errorf("%s, line %d, %s: it does not hold", c.Name, i+1, line)
		}
		out = append(out, Finding{Case{c.Name, c.Lines[:i+1]}, script.MostSteps(s), processor() - began})
	}
	return out, nil
}

// processor is the time that this process had a processor.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Worst are the heaviest of some findings, by steps or else by time, at most n and one a case.
func Worst(all []Finding, n int, byTime bool) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		if byTime {
			return cmp.Compare(b.CPU, a.CPU)
		}
		return cmp.Compare(b.Steps, a.Steps)
	})
	var out []Finding
	seen := map[string]bool{}
	for _, f := range all {
		if len(out) < n && !seen[f.Case.Name] {
			seen[f.Case.Name] = true
			out = append(out, f)
		}
	}
	return out
}

// keeps is how much of a finding's steps, in percent, a smaller script must still cause.
const keeps = 70

// Shrink leaves out lines, many at once and then fewer, as long as the last line still causes most
// of the steps. It runs at most so many scripts.
func Shrink(f Finding, tries int) Finding {
	least := f.Steps * keeps / 100
	for part := len(f.Case.Lines) / 2; part > 0 && tries > 0; part /= 2 {
		for from := 1; from+part < len(f.Case.Lines) && tries > 0; tries-- { // the cluster stays, and so does the last line
			less := Case{f.Case.Name, slices.Delete(slices.Clone(f.Case.Lines), from, from+part)}
			found, err := Run(less)
			if err == nil && found[len(found)-1].Steps >= least {
				f = found[len(found)-1]
			} else {
				from += part
			}
		}
	}
	return f
}

// String is the finding with its script; of runs of lines that differ in numbers only the first and
// the last are shown.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d steps, %s of CPU: %s\n", f.Case.Name, f.Steps, f.CPU.Round(time.Millisecond), f.Line())
	for i := 0; i < len(f.Case.Lines); {
		n := i + 1
		for n < len(f.Case.Lines) && sameBut(f.Case.Lines[i], f.Case.Lines[n]) {
			n++
		}
		b.WriteString("    " + f.Case.Lines[i] + "\n")
		switch n - i {
		case 1:
		case 2:
			b.WriteString("    " + f.Case.Lines[n-1] + "\n")
		default:
			fmt.Fprintf(&b, "    ... %d more like it, up to\n    %s\n", n-i-2, f.Case.Lines[n-1])
		}
		i = n
	}
	return b.String()
}

// sameBut reports whether two lines are the same but for their digits.
func sameBut(a, b string) bool {
	digits := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return strings.Map(digits, a) == strings.Map(digits, b)
}
