package discover

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/base/document"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLists(t *testing.T) {
	l, err := ReadHosts(folder(t, map[string]string{
		"master.csv":  "\ufeff# the control plane\nm1, 10.0.0.1\n",
		"worker.csv":  "gpu-01,10.0.0.2\nm1,10.0.0.1\n",
		"config.yaml": "user: ops\npassword: canary\ndocker_image_tag: v1.8.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Hosts) != 2 || !l.Hosts[0].Master || !l.Hosts[0].Worker || l.Hosts[1].Master || l.User != "ops" || !l.Password {
		t.Errorf("%+v", l)
	}
	text := Inventory(l)
	for _, want := range []string{"    \"m1\": {ansible_host: \"10.0.0.1\", ip: \"10.0.0.1\"}\n", "  vars: {ansible_user: \"ops\"}\n", "    agent:\n      hosts:\n        \"gpu-01\":\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the inventory lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary") {
		t.Errorf("the inventory has the password:\n%s", text)
	}
}

// TestWrongLists: all that is wrong is said at once, with its file and line.
func TestWrongLists(t *testing.T) {
	_, err := ReadHosts(folder(t, map[string]string{
		"master.csv":  "m1,10.0.0.1\nm1,10.0.0.1\n-oProxyCommand=x,10.0.0.9\nm2\n",
		"worker.csv":  "w1,10.0.0.1\nm1,10.0.0.7\nw2,somewhere\nw3,fe80::1%eth0\n",
		"config.yaml": "user: \"-l root\"\n"}))
	if err == nil {
		t.Fatal("they are taken")
	}
	for _, want := range []string{"master.csv, line 2: m1 is there twice", "master.csv, line 3: \"-oProxyCommand=x\" is no name of a node", "master.csv, line 4: 1 fields: want NAME,IP",
		"worker.csv, line 1: w1 has the address 10.0.0.1 of m1", "worker.csv, line 2: m1 had the address 10.0.0.1 before", "worker.csv, line 3: \"somewhere\" is no IP address",
		"worker.csv, line 4: \"fe80::1%eth0\" is no IP address", "config.yaml:1", "is no name of a user"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it lacks %q:\n%v", want, err)
		}
	}
	empty := t.TempDir()
	for dir, want := range map[string][]string{
		empty:  {"folder " + empty + " has no master.csv: make it, with a line NAME,IP for each machine", "has no worker.csv: make it"},
		"gone": {"there is no folder gone: name the one with master.csv and worker.csv; without a folder a Kubernetes cluster is looked at"},
	} {
		_, err := ReadHosts(dir)
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("of %s it says %v, want %q", dir, err, text)
			}
		}
	}
}

const well = `time TIME
name gpu-01
machine 0123
os Debian GNU/Linux 13
kernel 6.12.0-1
arch x86_64
cpus 64
memory 527000000
swap 0
disk 200000000
images 900000000
cgroups cgroup2fs
synced yes
root yes
pci nvidia
pci nvidia
gpu NVIDIA H100 80GB HBM3, 580.82.07, 81559
gpu NVIDIA H100 80GB HBM3, 580.82.07, 81559
containerd 2.1.4
toolkit 1.18.0
end yes
`

func TestVerdicts(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		change []string // pairs
		off    time.Duration
		wrong  string // a part of what is wrong; "" is nothing
		note   string
	}{
		"well":             {},
		"a slow clock":     {off: -time.Minute, wrong: "behind this machine's"},
		"a fast clock":     {off: time.Hour, wrong: "ahead of this machine's"},
		"no driver":        {change: []string{"gpu NVIDIA H100 80GB HBM3, 580.82.07, 81559\n", ""}, wrong: "2 NVIDIA GPUs and no driver"},
		"a broken driver":  {change: []string{"gpu NVIDIA H100 80GB HBM3, 580.82.07, 81559\n", "gpu NVIDIA-SMI has failed\n"}, wrong: "nvidia-smi says: NVIDIA-SMI has failed"},
		"a GPU is missing": {change: []string{"pci nvidia\n", "pci nvidia\npci nvidia\n"}, wrong: "the driver sees 2 of its 4 NVIDIA GPUs"},
		"swap":             {change: []string{"swap 0", "swap 1"}, wrong: "swap is on"},
		"little room":      {change: []string{"images 900000000", "images 9000000"}, wrong: "8 GiB are free in /var/lib"},
		"old groups":       {change: []string{"cgroup2fs", "tmpfs"}, wrong: "version 1"},
		"an old kernel":    {change: []string{"kernel 6.12.0-1", "kernel 3.10.0-1160.el7"}, wrong: "its kernel is 3.10.0-1160.el7: at least 4.18"},
		"no rights":        {change: []string{"root yes", "root no"}, wrong: "sudo asks for a password"},
		"another name":     {change: []string{"name gpu-01", "name localhost"}, note: "it calls itself localhost"},
		"used before":      {change: []string{"end yes", "k3s v1.36\nend yes"}, note: "k3s v1.36 is installed already"},
		"cut off":          {change: []string{"end yes\n", ""}, wrong: "its answer is not whole"},
	} {
		text := strings.NewReplacer(append([]string{"TIME", stamp(now.Add(c.off))}, c.change...)...).Replace(well)
		h := Host{Name: "gpu-01", IP: netip.MustParseAddr("10.0.0.2"), Worker: true}
		v := JudgeHosts(&HostLists{}, []HostAnswer{parse(h, text, now.Add(-100*time.Millisecond), now.Add(100*time.Millisecond))})[0]
		if wrong := strings.Join(v.Wrong, "; "); c.wrong == "" && wrong != "" || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: wrong: %s", name, wrong)
		}
		if notes := strings.Join(v.Notes, "; "); c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes: %s", name, notes)
		}
		if name == "well" && (v.GPUs != 2 || v.Driver != "580.82.07" || v.MemoryGB != 502 || v.DiskGB != 858 || v.Runtime != "containerd 2.1.4" || v.Clock != "right") {
			t.Errorf("%+v", v)
		}
	}
	one := parse(Host{Name: "a"}, strings.Replace(well, "TIME", stamp(now), 1), now, now.Add(time.Millisecond))
	two := parse(Host{Name: "b"}, strings.Replace(well, "TIME", stamp(now), 1), now, now.Add(time.Millisecond))
	if v := JudgeHosts(&HostLists{}, []HostAnswer{one, two}); !strings.Contains(strings.Join(v[1].Wrong, ";"), "machine-id of a") {
		t.Errorf("a copy: %+v", v[1].Wrong)
	}
}

// TestLongAnswers: a machine that never ends to talk fills no memory.
func TestLongAnswers(t *testing.T) {
	var l limited
	if _, err := io.Copy(&l, io.LimitReader(endless{}, 4*maxAnswer)); err != nil || l.b.Len() != maxAnswer {
		t.Errorf("%d bytes are kept, %v", l.b.Len(), err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestInventoryIsYAML: names that YAML takes for something else stay names.
func TestInventoryIsYAML(t *testing.T) {
	l := &HostLists{User: "yes", Hosts: []Host{{Name: "123", IP: netip.MustParseAddr("10.0.0.1"), Master: true}, {Name: "null", IP: netip.MustParseAddr("fd00::1"), Worker: true}}}
	n, problems := document.Parse("inventory.yaml", []byte(Inventory(l)), document.DefaultLimits())
	if err := problems.Err(); err != nil {
		t.Fatalf("%v:\n%s", err, Inventory(l))
	}
	all := n.Get("all")
	if all.Get("hosts").Get("123") == nil || all.Get("vars").Get("ansible_user").Text != "yes" || all.Get("children").Get("k3s_cluster").Get("children").Get("agent") == nil ||
		all.Get("children").Get("agent").Get("hosts").Get("null") == nil {
		t.Errorf("it is read as something else:\n%s", Inventory(l))
	}
}

func stamp(at time.Time) string { return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()) }
