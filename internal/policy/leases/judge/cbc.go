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

	"github.com/combsched/comb/internal/policy/leases"
)

// WriteLP writes a problem as a mixed-integer program in CPLEX' LP format, the
// rewards in points. s_j_p is option p of job j, y_j_t says that job j holds lease
// t. The published form has a variable for each job, option and lease; since the
// options of a job differ only in how far they reach, one for each job and lease
// says the same, with fewer variables and a tighter relaxation:
//
//	sum_t y_jt = r_j sum_p s_jp            y_jt <= sum of s_jp with t < m_jp
//	sum_{t<m_jq} y_jt >= r_j sum_{p<=q} s_jp
func WriteLP(w io.Writer, p *leases.Problem) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "Maximize\n obj:")
	for j := range p.Jobs {
		for i, o := range p.Jobs[j].Options {
			if o.Leases >= p.Jobs[j].Need {
				fmt.Fprintf(b, " + %.9f s_%d_%d\n", float64(o.Reward)/Point, j, i)
			}
		}
		if p.Now != 0 && end(&p.Jobs[j]) > 0 {
			fmt.Fprintf(b, " %+.9f y_%d_0\n", float64(p.Now)*float64(p.Jobs[j].GPUs)/Point, j)
		}
	}
	fmt.Fprint(b, "Subject To\n")
	for j := range p.Jobs {
		writeJob(b, j, &p.Jobs[j])
	}
	for t, c := range p.Capacity {
		any := false
		for j := range p.Jobs {
			if t < int(end(&p.Jobs[j])) {
				fmt.Fprintf(b, " + %d y_%d_%d", p.Jobs[j].GPUs, j, t)
				any = true
			}
		}
		if any {
			fmt.Fprintf(b, " <= %d\n", c)
		}
	}
	fmt.Fprint(b, "Binary\n")
	for j := range p.Jobs {
		for i, o := range p.Jobs[j].Options {
			if o.Leases >= p.Jobs[j].Need {
				fmt.Fprintf(b, " s_%d_%d\n", j, i)
			}
		}
		for t := range end(&p.Jobs[j]) {
			fmt.Fprintf(b, " y_%d_%d\n", j, t)
		}
	}
	fmt.Fprint(b, "End\n")
	return b.Flush()
}

// end is how many leases any option of a job reaches, 0 when none can be chosen.
func end(job *leases.Job) int32 {
	if n := len(job.Options); n > 0 && job.Options[n-1].Leases >= job.Need {
		return job.Options[n-1].Leases
	}
	return 0
}

func writeJob(b *bufio.Writer, j int, job *leases.Job) {
	first := 0
	for first < len(job.Options) && job.Options[first].Leases < job.Need {
		first++
	}
	if first == len(job.Options) {
		return
	}
	choose := ""
	for i := first; i < len(job.Options); i++ {
		choose += fmt.Sprintf(" + s_%d_%d", j, i)
	}
	sign := "<="
	if job.Guaranteed {
		sign = "="
	}
	fmt.Fprintf(b, "%s %s 1\n", choose, sign)
	for q := first; q < len(job.Options); q++ {
		for t := range job.Options[q].Leases {
			fmt.Fprintf(b, " + y_%d_%d", j, t)
		}
		for i := first; i <= q; i++ {
			fmt.Fprintf(b, " - %d s_%d_%d", job.Need, j, i)
		}
		sign := ">="
		if q == len(job.Options)-1 {
			sign = "="
		}
		fmt.Fprintf(b, " %s 0\n", sign)
	}
	for t := range end(job) {
		fmt.Fprintf(b, " y_%d_%d", j, t)
		for i := first; i < len(job.Options); i++ {
			if t < job.Options[i].Leases {
				fmt.Fprintf(b, " - s_%d_%d", j, i)
			}
		}
		fmt.Fprint(b, " <= 0\n")
	}
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
