package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/cli"
)

// The unit of systemd keeps jobs alive when it is restarted, closes nothing that GPUs, control
// groups and jobs need, and calls the server with flags that it has.
func TestSystemdUnit(t *testing.T) {
	text, err := os.ReadFile("../../deploy/systemd/comb.service")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			set[key] = value
		}
	}
	for key, want := range map[string]string{"KillMode": "process", "SendSIGKILL": "no", "Delegate": "cpu memory pids",
		"DelegateSubgroup": "comb-server",
		"TasksMax":         "infinity", "OOMPolicy": "continue"} {
		if set[key] != want {
			t.Errorf("%s is %q, want %q: else jobs die with the server, or lose their limits", key, set[key], want)
		}
	}
	for _, key := range []string{"PrivateDevices", "ProtectClock", "DevicePolicy", "DeviceAllow",
		"ProtectControlGroups", "ProtectHome",
		"PrivateTmp", "MemoryDenyWriteExecute", "SystemCallFilter", "MemoryMax", "OOMScoreAdjust", "PrivateNetwork"} {
		if value, ok := set[key]; ok {
			t.Errorf("%s=%s: jobs that run as processes inherit it", key, value)
		}
	}
	a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Errs: &bytes.Buffer{},
		Env: func(string) string { return "" }}
	words := strings.Fields(set["ExecStart"])
	c, left, err := tree(a).Find(words[1:])
	if err != nil || c.Name() != "serve" {
		t.Fatalf("ExecStart is %q: %v", words, err)
	}
	if err := c.ParseFlags(left); err != nil || len(c.Flags().Args()) > 0 {
		t.Errorf("ExecStart is %q: %v", words, err)
	}
}
