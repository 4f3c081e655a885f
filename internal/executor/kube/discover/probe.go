package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// script is what a machine runs to describe itself: each line of the answer is KEY VALUE. It
// needs a POSIX shell and changes nothing.
const script = `export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin:/usr/local/bin"
say() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n' ' ' | cut -c1-200)"; }
say time "$(date +%s.%N)"
say name "$(hostname)"
say machine "$(cat /etc/machine-id 2>/dev/null)"
say os "$(. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME")"
say kernel "$(uname -r)"
say arch "$(uname -m)"
say cpus "$(getconf _NPROCESSORS_ONLN)"
say memory "$(awk '$1 == "MemTotal:" {print $2}' /proc/meminfo)"
say swap "$(awk 'NR > 1' /proc/swaps | wc -l)"
say disk "$(df -Pk / | awk 'NR == 2 {print $4}')"
[ -d /var/lib ] && say images "$(df -Pk /var/lib | awk 'NR == 2 {print $4}')"
say cgroups "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)"
say synced "$(timedatectl show -p NTPSynchronized --value 2>/dev/null)"
if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then say root yes; else say root no; fi
for d in /sys/bus/pci/devices/*; do
  case "$(cat "$d/vendor" 2>/dev/null) $(cat "$d/class" 2>/dev/null)" in "0x10de 0x030"*) say pci nvidia;; "0x1002 0x038"*|"0x1002 0x12"*) say pci amd;; esac
done
if command -v nvidia-smi >/dev/null; then
  timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader,nounits 2>&1 | while read -r line; do say gpu "$line"; done
fi
command -v containerd >/dev/null && say containerd "$(containerd --version | awk '{print $3}')"
command -v docker >/dev/null && say docker "$(docker --version | awk '{print $3}' | tr -d ,)"
command -v crio >/dev/null && say crio "$(crio --version | awk 'NR == 1 {print $3}')"
command -v nvidia-ctk >/dev/null && say toolkit "$(nvidia-ctk --version | awk 'NR == 1 {print $NF}')"
command -v k3s >/dev/null && say k3s "$(k3s --version | awk 'NR == 1 {print $3}')"
command -v kubelet >/dev/null && say kubelet "$(kubelet --version | awk '{print $2}')"
say end yes
`

// HostAnswer is what a machine said of itself; Err is why it said nothing.
type HostAnswer struct {
	Host  Host
	Err   error
	Said  map[string][]string
	Ahead time.Duration // how far its clock is ahead of this machine's, give or take Half
	Half  time.Duration // half the time until the answer began
}

const (
	atOnce    = 16
	perHost   = 60 * time.Second
	maxAnswer = 256 << 10
)

// AskHosts asks all machines by ssh, with its user's configuration (keys, ports, known hosts) or
// with the given file.
func AskHosts(ctx context.Context, l *HostLists, config string) []HostAnswer {
	out := make([]HostAnswer, len(l.Hosts))
	var group sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for i := range l.Hosts {
		group.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			out[i] = ask(ctx, l.Hosts[i], l.User, config)
		})
	}
	group.Wait()
	return out
}

// limited keeps the first bytes written to it, and when they came. The buffer is not embedded:
// then ReadFrom could fill it without Write.
type limited struct {
	b     bytes.Buffer
	first time.Time
}

func (l *limited) Write(p []byte) (int, error) {
	if l.first.IsZero() {
		l.first = time.Now()
	}
	l.b.Write(p[:min(len(p), max(maxAnswer-l.b.Len(), 0))])
	return len(p), nil
}

func ask(ctx context.Context, h Host, user, config string) HostAnswer {
	ctx, cancel := context.WithTimeout(ctx, perHost)
	defer cancel()
	argv := []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR"}
	if config != "" {
		argv = append(argv, "-F", config)
	}
	if user != "" {
		argv = append(argv, "-l", user)
	}
	c := exec.CommandContext(ctx, "ssh", append(argv, "--", h.IP.String(), "sh", "-s")...)
	var said, errs limited
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(script), &said, &errs
	c.WaitDelay = time.Second
	began := time.Now()
	err := c.Run()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(errs.b.String()), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			err = errors.New(last)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", perHost)
		}
		if strings.Contains(errs.b.String(), "Host key verification failed") {
			err = fmt.Errorf("its key is not known: compare it, and ssh-keyscan %s >> ~/.ssh/known_hosts", h.IP)
		}
		return HostAnswer{Host: h, Err: err}
	}
	return parse(h, said.b.String(), began, said.first)
}

// parse reads an answer, which is not trusted.
func parse(h Host, text string, began, first time.Time) HostAnswer {
	a := HostAnswer{Host: h, Said: map[string][]string{}}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if len(a.Said[key]) < 64 && len(a.Said) < 64 {
			a.Said[key] = append(a.Said[key], strings.TrimSpace(value))
		}
	}
	if a.One("end") != "yes" {
		a.Err = errors.New("its answer is not whole")
		return a
	}
	// The clock is the first thing that is said: it was read between the beginning and the first
	// bytes.
	if at, err := strconv.ParseFloat(a.One("time"), 64); err == nil && at > 0 && at < 1e11 {
		a.Half = first.Sub(began) / 2
		a.Ahead = time.UnixMicro(int64(at * 1e6)).Sub(began.Add(a.Half))
	}
	return a
}

// One is the value of a key, "" when there is none.
func (a *HostAnswer) One(key string) string {
	if list := a.Said[key]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// Number is the value of a key as a whole number, -1 when there is none.
func (a *HostAnswer) Number(key string) int64 {
	n, err := strconv.ParseInt(a.One(key), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
