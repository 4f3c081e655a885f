package discover

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// HostVerdict is what was found out about a machine.
type HostVerdict struct {
	Name     string   `json:"name"`
	IP       string   `json:"ip"`
	Master   bool     `json:"master,omitempty"`
	Worker   bool     `json:"worker,omitempty"`
	OS       string   `json:"os,omitempty"`
	Kernel   string   `json:"kernel,omitempty"`
	CPUs     int64    `json:"cpus,omitempty"`
	MemoryGB int64    `json:"memory_gib,omitempty"`
	DiskGB   int64    `json:"disk_free_gib,omitempty"`
	GPUs     int      `json:"gpus,omitempty"`
	GPU      string   `json:"gpu,omitempty"`    // the model
	Driver   string   `json:"driver,omitempty"` // its version
	Runtime  string   `json:"runtime,omitempty"`
	Clock    string   `json:"clock,omitempty"` // how far it is off, where that is known
	Wrong    []string `json:"wrong,omitempty"` // must be mended before an installation
	Notes    []string `json:"notes,omitempty"` // should be looked at
}

// What a machine needs.
const (
	diskNeeded   = 20  // GiB free
	memoryNeeded = 2   // GiB
	clockMost    = 2.0 // seconds: certificates and leases need clocks that agree
	longAnswer   = 5.0 // seconds: after a longer answer the clock says little
	leastKernel  = "4.18"
)

// JudgeHosts says what is wrong with each machine, and with all of them together.
func JudgeHosts(l *HostLists, answers []HostAnswer) []HostVerdict {
	out := make([]HostVerdict, len(answers))
	machines, masters := map[string]string{}, 0
	for i := range l.Hosts {
		if l.Hosts[i].Master {
			masters++
		}
	}
	for i := range answers {
		a := &answers[i]
		v := &out[i]
		*v = HostVerdict{Name: a.Host.Name, IP: a.Host.IP.String(), Master: a.Host.Master, Worker: a.Host.Worker}
		if a.Err != nil {
			v.wrong("ssh does not get in: %v", a.Err)
			if l.Password && strings.Contains(a.Err.Error(), "Permission denied") {
				v.note("the password of config.yaml is not used: give the machine your key, ssh-copy-id %s", a.Host.IP)
			}
			continue
		}
		v.facts(a)
		v.basics(a)
		v.clock(a)
		v.devices(a)
		if id := a.One("machine"); id != "" {
			if other := machines[id]; other != "" {
				v.wrong("it has the machine-id of %s: it is a copy; remove /etc/machine-id and run systemd-machine-id-setup", other)
			}
			machines[id] = a.Host.Name
		}
		if a.Host.Master && masters%2 == 0 {
			v.note("there are %d masters: etcd wants an odd number, of which one less than half may fail", masters)
		}
	}
	return out
}

func (v *HostVerdict) wrong(format string, args ...any) {
	v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
}
func (v *HostVerdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

func (v *HostVerdict) facts(a *HostAnswer) {
	v.OS, v.Kernel, v.CPUs = a.One("os"), a.One("kernel"), max(a.Number("cpus"), 0)
	v.MemoryGB = max(a.Number("memory"), 0) >> 20
	v.DiskGB = max(a.Number("images"), 0) >> 20
	if a.Number("images") < 0 {
		v.DiskGB = max(a.Number("disk"), 0) >> 20
	}
	for _, name := range []string{"containerd", "crio", "docker"} {
		if version := a.One(name); version != "" {
			v.Runtime = cmp.Or(v.Runtime, name+" "+version)
		}
	}
}

func (v *HostVerdict) basics(a *HostAnswer) {
	if name := a.One("name"); name != v.Name && !strings.HasPrefix(name, v.Name+".") {
		v.note("it calls itself %s: Kubernetes would too; hostnamectl set-hostname %s", clip(name), v.Name)
	}
	if a.One("root") != "yes" {
		v.wrong("its user is not root, and sudo asks for a password: an installer needs one of both")
	}
	if v.CPUs < 1 || v.MemoryGB < memoryNeeded {
		v.wrong("%d CPUs and %d GiB of memory: at least 1 CPU and %d GiB are needed", v.CPUs, v.MemoryGB, memoryNeeded)
	}
	if v.DiskGB < diskNeeded {
		v.wrong("%d GiB are free in /var/lib: images need at least %d GiB", v.DiskGB, diskNeeded)
	}
	if a.Number("swap") > 0 {
		v.wrong("swap is on, which kubelet refuses: swapoff -a, and out of /etc/fstab")
	}
	if a.One("cgroups") != "cgroup2fs" {
		v.wrong("it has control groups of version 1, and Kubernetes needs version 2: systemd.unified_cgroup_hierarchy=1, or a newer system")
	}
	if less(v.Kernel, leastKernel) {
		v.wrong("its kernel is %s: at least %s is needed", clip(v.Kernel), leastKernel)
	}
	for _, has := range []string{"k3s", "kubelet"} {
		if version := a.One(has); version != "" {
			v.note("%s %s is installed already", has, clip(version))
		}
	}
}

// less compares the first two numbers of versions; a text without them is not less.
func less(version, least string) bool {
	var a, b, c, d int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n != 2 {
		return false
	}
	_, _ = fmt.Sscanf(least, "%d.%d", &c, &d)
	return a < c || a == c && b < d
}

func (v *HostVerdict) clock(a *HostAnswer) {
	off := max(a.Ahead-a.Half, -a.Ahead-a.Half, 0) // it is off by at least so much
	switch {
	case a.Half == 0:
		v.note("its clock could not be read")
		return
	case off.Seconds() > clockMost:
		word := "ahead of"
		if a.Ahead < 0 {
			word = "behind"
		}
		v.Clock = fmt.Sprintf("%v %s this machine's", off.Round(100*time.Millisecond), word)
		v.wrong("its clock is %s: keep both by a time server (chrony, systemd-timesyncd)", v.Clock)
		return
	case 2*a.Half.Seconds() > longAnswer:
		v.note("it took %v until it answered: how right its clock is cannot be said", (2 * a.Half).Round(100*time.Millisecond))
		return
	}
	v.Clock = "right"
	if a.One("synced") == "no" {
		v.note("its clock is right, and follows no time server")
	}
}

func (v *HostVerdict) devices(a *HostAnswer) {
	onBus := map[string]int{}
	for _, vendor := range a.Said["pci"] {
		onBus[vendor]++
	}
	models := map[string]bool{}
	for _, line := range a.Said["gpu"] {
		fields := strings.Split(line, ", ")
		if len(fields) != 3 {
			v.wrong("nvidia-smi says: %s", clip(line))
			continue
		}
		v.GPUs++
		models[fields[0]] = true
		v.GPU, v.Driver = fields[0], fields[1]
	}
	switch {
	case onBus["nvidia"] > 0 && len(a.Said["gpu"]) == 0:
		v.wrong("it has %d NVIDIA GPUs and no driver: install one", onBus["nvidia"])
	case v.GPUs > 0 && onBus["nvidia"] > v.GPUs:
		v.wrong("the driver sees %d of its %d NVIDIA GPUs: one may be broken", v.GPUs, onBus["nvidia"])
	case len(models) > 1:
		v.note("its GPUs are of %d models: a node of a cluster file has equal ones", len(models))
	}
	if v.GPUs > 0 && a.One("toolkit") == "" {
		v.note("it has no NVIDIA container toolkit: the GPU operator brings one, or install nvidia-container-toolkit")
	}
	if onBus["amd"] > 0 {
		v.GPUs += onBus["amd"]
		v.GPU = cmp.Or(v.GPU, "AMD")
	}
	if v.Worker && v.GPUs == 0 && onBus["nvidia"] == 0 {
		v.note("it has no GPU: its CPUs are what jobs get")
	}
}
