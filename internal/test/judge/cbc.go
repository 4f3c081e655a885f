package judge

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/policy/leases"
)

// WriteLP writes a problem as a mixed-integer program in CPLEX' LP format, the
// rewards in points. It is the published form, s_j_p for option p of job j and
// x_j_p_t for its lease t, and x_jpt <= s_jp beside it: that loses no plan, and
// without it the relaxation takes a tenth of a deadline with one lease of ten.
func WriteLP(w io.Writer, p *leases.Problem) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "Maximize\n obj:")
	each(p, func(j, i int, o leases.Option) {
		fmt.Fprintf(b, " + %.9f s_%d_%d", float64(o.Reward)/Point, j, i)
		fmt.Fprintf(b, " %+.9f x_%d_%d_0\n", float64(p.CurrentWorth)*float64(p.Jobs[j].GPUs)/Point, j, i)
	})
	fmt.Fprint(b, "Subject To\n")
	writeJobs(b, p)
	for t, c := range p.Capacity {
		any := false
		each(p, func(j, i int, o leases.Option) {
			if t < int(o.Leases) {
				fmt.Fprintf(b, " + %d x_%d_%d_%d", p.Jobs[j].GPUs, j, i, t)
				any = true
			}
		})
		if any {
			fmt.Fprintf(b, " <= %d\n", c)
		}
	}
	fmt.Fprint(b, "Binary\n")
	each(p, func(j, i int, o leases.Option) {
		fmt.Fprintf(b, " s_%d_%d\n", j, i)
		for t := range o.Leases {
			fmt.Fprintf(b, " x_%d_%d_%d\n", j, i, t)
		}
	})
	fmt.Fprint(b, "End\n")
	return b.Flush()
}

// each visits the options that have enough leases to be chosen.
func each(p *leases.Problem, visit func(j, i int, o leases.Option)) {
	for j := range p.Jobs {
		for i, o := range p.Jobs[j].Options {
			if o.Leases >= p.Jobs[j].Need {
				visit(j, i, o)
			}
		}
	}
}

// writeJobs writes how many options a job has, and what each takes.
func writeJobs(b *bufio.Writer, p *leases.Problem) {
	for j := range p.Jobs {
		choose := ""
		for i, o := range p.Jobs[j].Options {
			if o.Leases >= p.Jobs[j].Need {
				choose += fmt.Sprintf(" + s_%d_%d", j, i)
			}
		}
		switch {
		case choose == "" && p.Jobs[j].Guaranteed: // there is no plan: say so
			fmt.Fprintf(b, " n_%d >= 2\n n_%d - m_%d <= 1\n m_%d <= 0\n", j, j, j, j)
		case choose == "":
		case p.Jobs[j].Guaranteed:
			fmt.Fprintf(b, "%s = 1\n", choose)
		default:
			fmt.Fprintf(b, "%s <= 1\n", choose)
		}
	}
	each(p, func(j, i int, o leases.Option) {
		for t := range o.Leases {
			fmt.Fprintf(b, " + x_%d_%d_%d", j, i, t)
		}
		fmt.Fprintf(b, " - %d s_%d_%d = 0\n", p.Jobs[j].Need, j, i)
		for t := range o.Leases {
			fmt.Fprintf(b, " x_%d_%d_%d - s_%d_%d <= 0\n", j, i, t, j, i)
		}
	})
}

// Verdict is what cbc says of a problem, in the unit of the rewards.
type Verdict struct {
	// Bound is an upper bound of the objective, Found the best plan's, 0 when none was found.
	Bound, Found int64
	// Optimal means that both are the optimum, Infeasible that there is no plan.
	Optimal, Infeasible bool
}

// CBC asks cbc, an open-source solver, for the optimum of a problem, or the best
// bound within seconds. It works in the folder dir. An error says that cbc is
// missing or answered something unknown.
func CBC(p *leases.Problem, dir string, seconds int) (Verdict, error) {
	lp := filepath.Join(dir, "problem.lp")
	f, err := os.Create(lp)
	if err != nil {
		return Verdict{}, err
	}
	err = WriteLP(f, p)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("writing the problem for cbc: %w", err)
	}
	out, err := exec.Command("cbc", lp, "-ratioGap", "0.00001", "-timeMode", "elapsed", "-sec", strconv.Itoa(seconds), "-solve").CombinedOutput()
	if err != nil {
		return Verdict{}, fmt.Errorf("cbc (Debian's package coinor-cbc): %w", err)
	}
	return read(string(out))
}

// read understands cbc's report. Where time ran out before the search began, the
// bound is that of the first relaxation.
func read(out string) (Verdict, error) {
	var v Verdict
	relaxed := int64(0)
	for line := range strings.SplitSeq(out, "\n") {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Result - Optimal solution found":
			v.Optimal = true
		case "Result - Problem proven infeasible":
			v.Infeasible = true
		case "Objective value":
			v.Found = points(value)
		case "Upper bound", "Lower bound": // cbc turns maximising around in some versions
			v.Bound = max(points(value), -points(value))
		}
		if strings.HasPrefix(line, "Problem is infeasible") {
			v.Infeasible = true
		}
		if first, ok := strings.CutPrefix(line, "Continuous objective value is "); ok {
			first, _, _ = strings.Cut(first, " ")
			relaxed = points(first)
		}
	}
	switch {
	case v.Optimal:
		v.Bound = v.Found
	case v.Bound == 0:
		v.Bound = relaxed
	}
	if v.Bound == 0 && !v.Optimal && !v.Infeasible {
		return v, fmt.Errorf("cbc's answer has neither a result nor a bound: %q", out[max(0, len(out)-400):])
	}
	return v, nil
}

func points(text string) int64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0
	}
	return int64(f * Point)
}
