package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/process"
)

// Machine is what this machine can give to tasks.
type Machine struct {
	Host     string // its name
	Boot     string // its boot id
	Cores    int    // that this process may use
	MemoryMB int64  // MiB in all
	GPUs     []machine.GPU
}

// Discover looks at this machine. A machine without nvidia-smi has no GPUs; one
// whose nvidia-smi fails is an error, because its GPUs would silently be lost.
func Discover(ctx context.Context) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU()}
	var err error
	if m.Host, err = os.Hostname(); err != nil {
		return m, fmt.Errorf("read this machine's name: %w", err)
	}
	if m.Boot, err = process.BootID(); err != nil {
		return m, err
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("read this machine's memory: %w", err)
	}
	if m.MemoryMB, err = parseMemory(string(text)); err != nil {
		return m, err
	}
	if m.GPUs, err = machine.ListGPUs(ctx, "nvidia-smi"); err != nil {
		err = fmt.Errorf("%w: %w", ErrDriver, err)
	}
	return m, err
}

// ErrDriver says that NVIDIA's driver does not answer; what else the machine has is known.
var ErrDriver = errors.New("NVIDIA's driver does not answer")

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
