package task

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	within    = 2 * time.Minute       // from one address of the gang to the next
	meetPause = 20 * time.Millisecond // between two looks, plus longer for each task of the gang
	longer    = 2 * time.Millisecond  // for each task of the gang
)

// ErrMeetStopped says that the wait was given up because the caller asked for that.
var ErrMeetStopped = errors.New("stopped")

// Placeholder stands for the address of a task, by its ordinal, until it is known.
func Placeholder(task int32) string { return fmt.Sprintf("task-%d.gang.comb.invalid", task) }

// Meet writes the address of this task into the folder and waits until every task of the gang has
// done so. It gives up two minutes after the last address came: a large gang takes its time. It
// returns a replacer that puts the addresses in place of their placeholders. ErrMeetStopped says
// that stop returned true before.
func Meet(dir string, task int32, gang []int32, stop func() bool) (own string, known *strings.Replacer, err error) {
	if own, err = address(); err != nil {
		return "", nil, err
	}
	tmp := file(dir, task) + ".new"
	if err := errors.Join(os.WriteFile(tmp, []byte(own), 0o600), os.Rename(tmp, file(dir, task))); err != nil {
		return "", nil, fmt.Errorf("leave the address for the gang: %w", err)
	}
	var pairs []string
	for _, other := range gang {
		at, err := read(dir, other)
		for ; errors.Is(err, fs.ErrNotExist); at, err = read(dir, other) {
			if stop() {
				return "", nil, ErrMeetStopped
			}
			if st, err := os.Stat(dir); err == nil && time.Since(st.ModTime()) > within {
				return "", nil, fmt.Errorf("task %d of its gang has no address %v after the last that has one", other, within)
			}
			time.Sleep(meetPause + time.Duration(len(gang))*longer)
		}
		if err != nil {
			return "", nil, err
		}
		pairs = append(pairs, Placeholder(other), at)
	}
	return own, strings.NewReplacer(pairs...), nil
}

func file(dir string, task int32) string { return filepath.Join(dir, fmt.Sprint(task)) }

func read(dir string, task int32) (string, error) {
	data, err := os.ReadFile(file(dir, task))
	if err != nil {
		return "", err
	}
	a, err := netip.ParseAddr(string(data))
	return a.String(), err
}

// address is where other containers of its network reach this container.
func address() (string, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("look for the container's address: %w", err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("the container has no address: its engine gave it no network")
}
