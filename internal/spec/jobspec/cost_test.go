package jobspec

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
)

// Files near the limits, made to be expensive, must be read in the time of a
// request. The bound is many times what they take, so that it holds on a busy
// machine and still catches quadratic work, which would take minutes.
func TestHostileFilesAreReadInTime(t *testing.T) {
	const head = "protocolVersion: 2\nname: hostile\ntype: job\n"
	main := func(commands string) string {
		return "taskRoles:\n  main:\n    resourcePerInstance: {}\n    commands:\n" + commands
	}
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	lines := func(tag string) string { // a megabyte of references, less what the rest needs
		return strings.Repeat("      - '"+strings.Repeat(tag, 60_000/len(tag))+"'\n", 13)
	}
	long := strings.Repeat("k", 50)
	for name, src := range map[string]string{
		"unknown parameters": head + "parameters:\n" + many(2500, "  "+long+"%d: 1\n") + main(lines("<%$parameters.zz%>")),
		"unknown secrets":    head + "secrets:\n" + many(2500, "  "+long+"%d: 1\n") + main(lines("<%$secrets.zz%>")),
		"last parameter":     head + "parameters:\n" + many(4000, "  a%d: ''\n") + main(lines("<%$parameters.a3999%>")),
		"prerequisites":      head + "prerequisites:\n" + many(990, "  - {name: "+long+"%d, type: script, uri: u}\n") + main("      - x\n"),
		"requirements":       head + "prerequisites:\n" + many(600, "  - {name: p%d, type: script, uri: u, require: ["+strings.Repeat("no, ", 2)+"p0]}\n") + main("      - x\n"),
		"role names":         head + "deployments: [{name: d, taskRoles: {" + many(3000, long+"%d: {}, ") + "}}]\n" + main("      - x\n"),
		"unknown keys":       head + many(4000, long+"%d: 1\n"),
		"open keys":          head + "extras:\n" + many(4000, "  "+long+"%d: 1\n") + main("      - x\n"),
		"open tags":          head + main(lines("<% ")),
		"half tags":          head + main(lines("<%$parameters.")),
		"brackets":           head + main(lines("<%$parameters.a"+strings.Repeat("[0]", 300)+"%>")),
	} {
		began := busy(t)
		_, problems := Parse(name, []byte(src), testEnv())
		took := busy(t) - began
		first := ""
		if len(problems) > 0 {
			first = problems[0].String()
		}
		t.Logf("%s: %d bytes, %v, %d problems, first %s", name, len(src), took, len(problems), clip(first))
		if took > 10*time.Second {
			t.Errorf("%s takes %v of processor time", name, took)
		}
		for _, p := range problems {
			if len(p.Message) > 2000 {
				t.Errorf("%s: a message of %d bytes", name, len(p.Message))
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile(jobFiles + "/good/distributed-tf.yaml")
	if err != nil {
		b.Fatal(err)
	}
	env := testEnv()
	for i := range 16_384 { // a large cluster must not make each submission slow
		env.Config.Cluster.Cells = append(env.Config.Cluster.Cells, cell.CellSpec{
			Type: "V100-NODE", Address: fmt.Sprint("n", i), Children: make([]cell.CellSpec, 8),
		})
	}
	b.ResetTimer()
	for b.Loop() {
		if _, problems := Parse("", src, env); problems != nil {
			b.Fatal(problems)
		}
	}
}

// busy is the processor time that this process has used: unlike the clock it says as
// much on a loaded machine.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
