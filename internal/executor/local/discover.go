package local

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is what this machine can give to tasks.
type Machine struct {
	Host     string // its name
	Boot     string // its boot id
	Cores    int    // that this process may use
	MemoryMB int64  // MiB in all
	GPUs     []GPU
}

// GPU is one NVIDIA device.
type GPU struct {
	Index    int32
	Name     string
	MemoryMB int64 // MiB; 0 when the driver does not say
}

// maxOutput bounds what is taken from a program that lists devices.
const maxOutput = 1 << 20

// Discover looks at this machine. A machine without nvidia-smi has no GPUs; one
// whose nvidia-smi fails is an error, because its GPUs would silently be lost.
func Discover(ctx context.Context) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU()}
	var err error
	if m.Host, err = os.Hostname(); err != nil {
		return m, fmt.Errorf("read this machine's name: %w", err)
	}
	if m.Boot, err = bootID(); err != nil {
		return m, err
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("read this machine's memory: %w", err)
	}
	if m.MemoryMB, err = parseMemory(string(text)); err != nil {
		return m, err
	}
	m.GPUs, err = listGPUs(ctx, "nvidia-smi")
	return m, err
}

func parseMemory(text string) (int64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "MemTotal:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("/proc/meminfo has no line MemTotal")
}

// listGPUs asks nvidia-smi.
func listGPUs(ctx context.Context, program string) ([]GPU, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, nil // no driver, no GPUs
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // a cold driver needs several seconds
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("list GPUs with %s: %w: %s", path, err, strings.TrimSpace(errs.String()+" "+firstText(out.String())))
	}
	return parseGPUs(out.String())
}

func firstText(s string) string { return s[:min(len(s), 200)] }

// limited keeps the first bytes that are written to it.
type limited struct{ bytes.Buffer }

// Write takes everything and keeps maxOutput of it.
func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(maxOutput-l.Len(), 0))])
	return len(p), nil
}

// parseGPUs reads lines "index, name, MiB". Memory may be "[N/A]".
func parseGPUs(text string) ([]GPU, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = true, -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("the list of GPUs cannot be read: %w", err)
	}
	var gpus []GPU
	seen := map[int32]bool{}
	for _, row := range rows {
		if len(row) == 1 && strings.HasPrefix(strings.ToLower(row[0]), "no devices") {
			return nil, nil
		}
		if len(row) < 3 {
			return nil, fmt.Errorf("the list of GPUs has a line %q, not \"index, name, memory\"", strings.Join(row, ","))
		}
		index, err := strconv.ParseInt(strings.TrimSpace(row[0]), 10, 32)
		if err != nil || index < 0 || seen[int32(index)] {
			return nil, fmt.Errorf("the list of GPUs has a wrong index %q", row[0])
		}
		seen[int32(index)] = true
		last := len(row) - 1 // a name may hold commas
		memory, _ := strconv.ParseInt(strings.TrimSpace(row[last]), 10, 64)
		gpus = append(gpus, GPU{Index: int32(index), Name: strings.TrimSpace(strings.Join(row[1:last], ",")), MemoryMB: max(memory, 0)})
	}
	return gpus, nil
}
