package podinit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/process"
)

// membersEvery is how often a task asks which tasks of its job run.
const membersEvery = time.Second

// members keeps the file that lists the running tasks of the job. While the server is away the
// file stays as it was.
type members struct {
	server *link.Client
	file   string
	signal string
	has    executor.Membership
}

// begin writes the file, as the server says or else without any member, and keeps it up to date
// from then on.
func (m *members) begin(ctx context.Context) error {
	if !m.look(ctx) {
		if err := m.write(executor.Membership{Members: []executor.Member{}}); err != nil {
			return fmt.Errorf("tell the task which others run: %w", err)
		}
	}
	go m.keep(ctx)
	return nil
}

func (m *members) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(membersEvery):
		}
		if m.look(ctx) && m.signal != "" {
			tellCatchers(unix.SignalNum("SIG" + m.signal))
		}
	}
}

// look asks once, and reports whether the members have changed. A restarted server numbers its
// versions anew.
func (m *members) look(ctx context.Context) bool {
	now, changed, err := m.server.Members(ctx, m.has.Version)
	if err != nil || !changed {
		return false
	}
	if err := m.write(now); err != nil {
		fmt.Fprintln(os.Stderr, "comb: tell the task which others run:", err)
		return false
	}
	others := m.has.Version == 0 || !reflect.DeepEqual(now.Members, m.has.Members)
	m.has = now
	return others
}

// write replaces the file as a whole. It follows nothing that the task put in its place.
func (m *members) write(now executor.Membership) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	tmp := m.file + ".new"
	if err := os.Remove(tmp); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, m.file)
}

// tellCatchers signals the topmost processes of the task that have a handler for a signal.
func tellCatchers(sig unix.Signal) {
	all, err := process.All()
	if err != nil {
		return // the file tells it all
	}
	for _, p := range process.CatchersBelow(all, os.Getpid(), sig) {
		p.Signal(sig)
	}
}
