package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Driver is how NVIDIA's driver can be seen on a machine.
type Driver struct {
	Program string // that lists its GPUs, as nvidia-smi does
	Dev     string // folder of device files: /dev
	Proc    string // folder in which the driver says which file is whose GPU: /proc/driver/nvidia
}

// Card is a GPU as the driver lists it.
type Card struct {
	UUID string
	File string // its device file, in the folder of device files
}

// NVIDIAControl is the device file without which no program reaches the driver.
const NVIDIAControl = "nvidiactl"

// Cards asks the driver for its GPUs, by index. It fails where the driver is missing or does not
// answer.
func (d *Driver) Cards(ctx context.Context) (map[int32]Card, error) {
	if err := d.CheckFile(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(d.Program)
	if err != nil {
		return nil, fmt.Errorf("the driver is not there: %s is not found", filepath.Base(d.Program))
	}
	text, err := ask(ctx, path, "--query-gpu=index,gpu_uuid,pci.bus_id")
	if err != nil {
		return nil, fmt.Errorf("the driver does not answer: %w", err)
	}
	list, err := rows(text, -1)
	if err != nil {
		return nil, fmt.Errorf("the driver does not answer: %w", err)
	}
	cards := map[int32]Card{}
	for _, row := range list {
		if len(row) == 1 && strings.HasPrefix(strings.ToLower(row[0]), "no devices") {
			return cards, nil
		}
		index, err := strconv.ParseInt(strings.TrimSpace(row[0]), 10, 32)
		if _, twice := cards[int32(index)]; err != nil || len(row) != 3 || index < 0 || twice {
			return nil, fmt.Errorf("the driver does not answer: %s prints the line %q",
				filepath.Base(d.Program), firstText(strings.Join(row, ",")))
		}
		cards[int32(index)] = Card{UUID: strings.TrimSpace(row[1]),
			File: "nvidia" + d.minor(strings.TrimSpace(row[2]), index)}
	}
	return cards, nil
}

// CheckFile says that the driver's device file is missing; nil: it is there.
func (d *Driver) CheckFile() error {
	if _, err := os.Stat(filepath.Join(d.Dev, NVIDIAControl)); err != nil {
		return fmt.Errorf("the driver is not there: /dev/%s is missing", NVIDIAControl)
	}
	return nil
}

// minor is the number in the name of a GPU's device file: the driver's own number, or the index
// where the driver does not say.
func (d *Driver) minor(bus string, index int64) string {
	domain, rest, _ := strings.Cut(strings.ToLower(bus), ":")
	if len(domain) > 4 { // nvidia-smi writes eight digits, the kernel four
		domain = domain[len(domain)-4:]
	}
	file := filepath.Join(d.Proc, "gpus", filepath.Base(domain+":"+rest), "information")
	if text, err := os.ReadFile(file); err == nil {
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "Device Minor:"); ok {
				if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16); err == nil {
					return strconv.FormatUint(n, 10)
				}
			}
		}
	}
	return strconv.FormatInt(index, 10)
}
