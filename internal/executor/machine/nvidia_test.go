package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseGPUs(t *testing.T) {
	got, err := parseGPUs("0, NVIDIA H200, 143771\n1, Tesla V100-SXM2-32GB, 32510\n2, NVIDIA A100, 40GB, [N/A]\n")
	want := []GPU{{0, "NVIDIA H200", 143771}, {1, "Tesla V100-SXM2-32GB", 32510}, {2, "NVIDIA A100,40GB", 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseGPUs("No devices were found\n"); err != nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"x, y, 1\n", "0, a\n", "0, a, 1\n0, b, 1\n", "-1, a, 1\n", "99999999999, a, 1\n"} {
		if got, err := parseGPUs(bad); err == nil {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
}

func TestListGPUs(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "smi")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got, err := ListGPUs(t.Context(), "no-such-program-anywhere"); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ListGPUs(t.Context(), write("echo 0, X, 10")); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ListGPUs(t.Context(), write("echo driver mismatch >&2; exit 9")); err == nil || !strings.Contains(err.Error(), "driver mismatch") {
		t.Errorf("%v", err)
	}
}

// Whatever the program prints, no device or process comes of what is none.
func TestHostileSamples(t *testing.T) {
	good := "0, GPU-a, 50, 100, 1000\n"
	if devices, err := parseDevices(good); err != nil || devices[0] == nil || *devices[0] != (Device{"GPU-a", 500, 100, 1000}) {
		t.Errorf("%v, %v", devices, err)
	}
	for i, bad := range []string{
		"", "no devices were found\n", "0, GPU-a, 50, 100\n", "0, GPU-a, 50, 100, 1000, 7\n", "x, GPU-a, 50, 100, 1000\n",
		"-1, GPU-a, 50, 100, 1000\n", good + good, "99999999999, GPU-a, 50, 100, 1000\n", "0, GPU-a, [N/A], 100, 1000\n",
		"0, GPU-a, 101, 100, 1000\n", "0, GPU-a, 50, -4, 1000\n", "0, GPU-a, 50, 99999999999999999999, 1000\n",
		strings.Repeat("1, GPU-a, 50, 100, 1000\n", 5000), strings.Repeat("x", 3<<20), "\"0, GPU", "\x00\xff\n",
	} {
		text := bad
		if devices, err := parseDevices(text); err == nil && len(devices) > 0 {
			t.Errorf("answer %d gives %v", i, devices)
		}
	}
	for _, bad := range []string{"GPU-a, 1\n", "GPU-a, 1, 2, 3\n", strings.Repeat("GPU-a, 1, 2\n", 5000)} {
		if apps, err := parseApps(bad); err == nil {
			t.Errorf("processes %.20q give %v", bad, apps)
		}
	}
	apps, err := parseApps("GPU-a, 0, 5\nGPU-a, -3, 5\nGPU-a, 7, [Not Supported]\nGPU-a, 8, 5\n")
	if err != nil || len(apps) != 1 || apps[0].PID != 8 {
		t.Errorf("%v, %v", apps, err)
	}
}
