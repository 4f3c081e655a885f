package admin

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/machine"
)

// reportCommands report on this machine.
type reportCommands struct{ *cli.App }

const program = "nvidia-smi"

// ReportRow is one line of the report.
type ReportRow struct {
	What  string `json:"what"`
	Value string `json:"value"`
}

// all are the commands.
func (k *reportCommands) all() []*cobra.Command {
	return []*cobra.Command{{Use: "lab", Short: "Show what this machine is: CPU, GPU, IP, host, OS, engine, CUDA, version", Args: cobra.NoArgs,
		Long: "Show what this machine is, for a report about what was tried on it: run it on each machine.",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
			defer cancel()
			list := LabReport(ctx, k.Version, k.Env("DOCKER_HOST"))
			var rows [][]string
			for _, r := range list {
				rows = append(rows, []string{r.What, r.Value})
			}
			return k.Rows(list, []string{"WHAT", "VALUE"}, rows)
		}}}
}

// LabReport collects the report on this machine.
func LabReport(ctx context.Context, version, engine string) []ReportRow {
	gpu, driver, cuda := gpus(ctx)
	host, _ := os.Hostname()
	return []ReportRow{
		{"host", or(host)},
		{"ip", or(strings.Join(addresses(), ", "))},
		{"os", or(osName()) + ", Linux " + or(kernel())},
		{"cpu", or(cpu())},
		{"memory", or(memory())},
		{"gpu", or(gpu)},
		{"driver", or(driver)},
		{"cuda", or(cuda)},
		{"engine", or(engineVersion(ctx, engine))},
		{"comb", version},
	}
}

func or(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return "-"
	}
	return s
}

// field returns the first value of a key in a file of "key: value" or "key=value" lines.
func field(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) != key {
			if name, value, ok = strings.Cut(line, "="); !ok || strings.TrimSpace(name) != key {
				continue
			}
		}
		return strings.Trim(strings.TrimSpace(value), `"`)
	}
	return ""
}

func cpu() string {
	return fmt.Sprintf("%s, %d processors", or(field("/proc/cpuinfo", "model name")), runtime.NumCPU())
}

func memory() string {
	kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
}

func osName() string { return field("/etc/os-release", "PRETTY_NAME") }

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return string(text)
}

// addresses are those by which other machines may reach this one.
func addresses() (out []string) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// driverLine matches the head of nvidia-smi's output; no query returns CUDA's version.
var driverLine = regexp.MustCompile(`Driver Version: *([0-9.]+) +CUDA Version: *([0-9.]+)`)

// gpus asks the driver.
func gpus(ctx context.Context) (names, driver, cuda string) {
	list, err := machine.ListGPUs(ctx, program)
	if err != nil || len(list) == 0 {
		return "", "", ""
	}
	count := map[string]int{}
	var order []string
	for _, g := range list {
		name := g.Name + " " + model.MemoryText(g.MemoryMB)
		if count[name]++; count[name] == 1 {
			order = append(order, name)
		}
	}
	for i, name := range order {
		order[i] = fmt.Sprintf("%d x %s", count[name], name)
	}
	if text, err := exec.CommandContext(ctx, program).Output(); err == nil {
		if m := driverLine.FindSubmatch(text); m != nil {
			driver, cuda = string(m[1]), string(m[2])
		}
	}
	return strings.Join(order, ", "), driver, cuda
}

// engineVersion asks the container engine of this machine.
func engineVersion(ctx context.Context, fromEnv string) string {
	host, err := docker.Host(fromEnv)
	if err != nil {
		return err.Error()
	}
	e, err := docker.OpenEngine(ctx, host)
	if err != nil {
		return ""
	}
	defer e.Close()
	info, err := e.Info(ctx)
	if err != nil {
		return ""
	}
	return info.Version
}
