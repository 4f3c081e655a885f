package machine

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	sampleTime  = 20 * time.Second // for one answer: a driver that was idle needs several seconds
	sampleRows  = 4096             // of one answer
	maxDeviceMB = 1 << 30
)

// GPU is one NVIDIA device.
type GPU struct {
	Index    int32
	Name     string
	MemoryMB int64 // MiB; 0 when the driver does not say
}

// Device is the use of one GPU at one moment.
type Device struct {
	UUID        string
	Util        int32 // thousandths
	Used, Total int64 // MiB; Total 0: unknown
}

// maxOutput bounds the output of a program that lists devices, in bytes.
const maxOutput = 1 << 20

// ListGPUs returns the devices of this machine; none where there is no such program. A program
// that fails is an error, because its devices would silently be lost.
func ListGPUs(ctx context.Context, program string) ([]GPU, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, nil // no driver, no GPUs
	}
	text, err := ask(ctx, path, "--query-gpu=index,name,memory.total")
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	return parseGPUs(text)
}

func firstText(s string) string { return s[:min(len(s), 200)] }

// limited keeps the first bytes that are written to it. The buffer is not embedded: then ReadFrom
// could fill it without Write.
type limited struct{ b bytes.Buffer }

// Write takes everything and keeps maxOutput of it.
func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(maxOutput-l.b.Len(), 0))])
	return len(p), nil
}

// String is what was kept.
func (l *limited) String() string { return l.b.String() }

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

// NVIDIADevices returns the use of all devices, by index.
func NVIDIADevices(ctx context.Context, program string) (map[int32]*Device, error) {
	text, err := ask(ctx, program, "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total")
	if err != nil {
		return nil, err
	}
	return parseDevices(text)
}

// Apps returns the processes on all devices; told is false where the driver does not report them.
func Apps(ctx context.Context, program string) (apps []App, told bool, err error) {
	text, err := ask(ctx, program, "--query-compute-apps=gpu_uuid,pid,used_memory")
	if err != nil {
		return nil, false, nil
	}
	apps, err = parseApps(text)
	return apps, true, err
}

// ask runs the program; its output and its time are bounded.
func ask(ctx context.Context, program, query string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, query, "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, query, err, firstText(strings.TrimSpace(errs.String()+" "+out.String())))
	}
	if out.b.Len() >= maxOutput {
		return "", fmt.Errorf("%s %s: more than %d bytes of output", program, query, maxOutput)
	}
	return out.String(), nil
}

// rows reads lines with a given number of fields.
func rows(text string, fields int) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.LazyQuotes, r.FieldsPerRecord = true, true, fields
	var list [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the samples cannot be read: %w", err)
		}
		if len(list) == sampleRows {
			return nil, fmt.Errorf("the samples have more than %d lines", sampleRows)
		}
		list = append(list, row)
	}
}

// parseDevices reads "index, uuid, percent, MiB used, MiB in all". A device with an unknown value
// ("[N/A]") is left out; an impossible value is an error.
func parseDevices(text string) (map[int32]*Device, error) {
	list, err := rows(text, 5)
	if err != nil {
		return nil, err
	}
	devices := map[int32]*Device{}
	for _, row := range list {
		index, err := strconv.ParseInt(strings.TrimSpace(row[0]), 10, 32)
		if err != nil || index < 0 || devices[int32(index)] != nil {
			return nil, fmt.Errorf("the samples have a wrong index %q", firstText(row[0]))
		}
		util, said := amount(row[2], 100)
		used, said2 := amount(row[3], maxDeviceMB)
		total, _ := amount(row[4], maxDeviceMB)
		if said && said2 {
			devices[int32(index)] = &Device{UUID: strings.TrimSpace(row[1]), Util: int32(10 * util), Used: used, Total: total}
		}
	}
	return devices, nil
}

// amount reads a number within bounds.
func amount(text string, most int64) (int64, bool) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return v, err == nil && v >= 0 && v <= most
}

// App is a process on a device.
type App struct {
	UUID string // of the device
	PID  int
	Used int64 // MiB
}

// parseApps reads "uuid, pid, MiB"; lines without a size are left out.
func parseApps(text string) ([]App, error) {
	list, err := rows(text, 3)
	if err != nil {
		return nil, err
	}
	var apps []App
	for _, row := range list {
		pid, ok := amount(row[1], 1<<22)
		used, ok2 := amount(row[2], maxDeviceMB)
		if ok && ok2 && pid > 0 {
			apps = append(apps, App{strings.TrimSpace(row[0]), int(pid), used})
		}
	}
	return apps, nil
}
