package discover

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// Host is a machine of the lists.
type Host struct {
	Name   string
	IP     netip.Addr
	Master bool // it runs the control plane
	Worker bool // it runs jobs
}

// HostLists are the input of an installation of OpenPAI: master.csv, worker.csv and config.yaml.
type HostLists struct {
	Hosts []Host // masters first, in the order of their files
	User  string // the user for ssh; "" is ssh's own default
	// Password is true where config.yaml has one. It is not used.
	Password bool
}

const (
	maxList  = 4 << 20 // bytes of a file
	maxHosts = 10_000
)

// ReadHosts reads the lists of a folder, and reports everything that is wrong with them.
func ReadHosts(dir string) (*HostLists, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no folder %s: name the one with master.csv and worker.csv; "+
			"without a folder a Kubernetes cluster is looked at", dir)
	}
	l := &HostLists{}
	at := map[string]int{} // hosts by name
	ips := map[netip.Addr]string{}
	var errs []error
	for _, file := range []string{"master.csv", "worker.csv"} {
		text, err := readFile(filepath.Join(dir, file))
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("folder %s has no %s: make it, with a line NAME,IP for each machine", dir, file)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, l.add(file, text, at, ips)...)
	}
	if err := l.config(filepath.Join(dir, "config.yaml")); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 && len(l.Hosts) > maxHosts {
		errs = append(errs, fmt.Errorf("%d hosts: at most %d are looked at", len(l.Hosts), maxHosts))
	}
	return l, errors.Join(errs...)
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err == nil && len(text) > maxList {
		err = fmt.Errorf("%s: longer than %d MiB", path, maxList>>20)
	}
	return string(text), err
}

// hostName matches names that Kubernetes takes for a node and that are no option of ssh.
var hostName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

const longestHost = 253

func (l *HostLists) add(file, text string, at map[string]int, ips map[netip.Addr]string) (errs []error) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	r.Comment, r.FieldsPerRecord, r.TrimLeadingSpace = '#', -1, true
	for n := 0; ; n++ {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				errs = append(errs, fmt.Errorf("%s: no host: want a line NAME,IP for each", file))
			}
			return errs
		}
		if err != nil {
			return append(errs, fmt.Errorf("%s: %w", file, err))
		}
		line, _ := r.FieldPos(0)
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s, line %d: %s", file, line, fmt.Sprintf(format, args...)))
		}
		if len(fields) != 2 {
			wrong("%d fields: want NAME,IP", len(fields))
			continue
		}
		name := strings.TrimSpace(fields[0])
		ip, err := netip.ParseAddr(strings.TrimSpace(fields[1]))
		switch i, known := at[name]; {
		case len(name) > longestHost || !hostName.MatchString(name):
			wrong("%q is no name of a node: want small letters, digits, - and .", clip(name))
		case err != nil || ip.Zone() != "":
			wrong("%q is no IP address", clip(fields[1]))
		case known && l.Hosts[i].IP != ip:
			wrong("%s had the address %s before, and has %s here", name, l.Hosts[i].IP, ip)
		case known && (file == "master.csv" || l.Hosts[i].Worker):
			wrong("%s is there twice", name)
		case !known && ips[ip] != "":
			wrong("%s has the address %s of %s", name, ip, ips[ip])
		case known:
			l.Hosts[i].Worker = true
		default:
			at[name], ips[ip] = len(l.Hosts), name
			l.Hosts = append(l.Hosts, Host{Name: name, IP: ip, Master: file == "master.csv", Worker: file == "worker.csv"})
		}
	}
}

var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

const longestName = 64

// config reads which user signs in; other keys are for OpenPAI's services.
func (l *HostLists) config(path string) error {
	text, err := readFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n, problems := document.Parse(filepath.Base(path), []byte(text), document.DefaultLimits())
	if err := problems.Err(); err != nil || n == nil {
		return err
	}
	if user := n.Get("user"); user != nil && user.Kind == document.Scalar {
		if len(user.Text) > longestName || !userName.MatchString(user.Text) {
			return document.Problems{user.Problem(document.Quote(user.Text) + " is no name of a user")}.Err()
		}
		l.User = user.Text
	}
	l.Password = n.Get("password") != nil
	return nil
}

func clip(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "..."
	}
	return text
}
