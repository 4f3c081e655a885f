package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/test/lab"
)

// parts are the processes whose work is measured, and the audit log of the API server.
type parts struct {
	pid   map[string]int
	audit string
}

// openParts finds them in the folder of a cluster; at is "BIN FOLDER", as test/kube/run says it.
func openParts(at string) (*parts, error) {
	_, folder, ok := strings.Cut(at, " ")
	if !ok {
		return nil, errors.New("CLUSTER_AT is not set: run this by make bench-kube")
	}
	p := &parts{pid: map[string]int{}, audit: filepath.Join(folder, "audit.log")}
	for _, name := range []string{"etcd", "apiserver", "manager", "scheduler", "kwok"} {
		text, err := os.ReadFile(filepath.Join(folder, "pid", name))
		if err != nil {
			return nil, err
		}
		if p.pid[name], err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// usage is what each part had used at one time.
type usage struct {
	cpu   map[string]time.Duration
	calls map[string]int // by verb and resource
}

// now reads it. A part that is gone has used nothing.
func (p *parts) now() usage {
	u := usage{map[string]time.Duration{}, p.calls()}
	for name, pid := range p.pid {
		if d, err := lab.CPUTime(pid); err == nil {
			u.cpu[name] = d
		}
	}
	return u
}

// calls counts the calls in the audit log; none where there is no log.
func (p *parts) calls() map[string]int {
	calls := map[string]int{}
	f, err := os.Open(p.audit)
	if err != nil {
		return calls
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var call struct {
			Verb      string
			ObjectRef struct{ Resource, Subresource string }
		}
		if json.Unmarshal(lines.Bytes(), &call) == nil {
			calls[strings.TrimSuffix(call.Verb+" "+call.ObjectRef.Resource+"/"+call.ObjectRef.Subresource, "/")]++
		}
	}
	return calls
}

// since is what was used since then.
func (u usage) since(then usage) usage {
	d := usage{map[string]time.Duration{}, map[string]int{}}
	for name, cpu := range u.cpu {
		d.cpu[name] = cpu - then.cpu[name]
	}
	for call, n := range u.calls {
		d.calls[call] = n - then.calls[call]
	}
	return d
}

// print prints it for each of so many pods.
func (u usage) print(f *lab.Figures, label string, pods int) {
	var all time.Duration
	for _, name := range slices.Sorted(maps.Keys(u.cpu)) {
		all += u.cpu[name]
		f.Print(label+"_cpu_of_a_pod", u.cpu[name].Seconds()*1000/float64(pods), "ms", "part", name)
	}
	f.Print(label+"_cpu_of_a_pod", all.Seconds()*1000/float64(pods), "ms", "part", "all")
	for _, call := range slices.Sorted(maps.Keys(u.calls)) {
		if per := float64(u.calls[call]) / float64(pods); per >= 0.02 {
			f.Print(label+"_calls_of_a_pod", per, "", "call", call)
		}
	}
}
