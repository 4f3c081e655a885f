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

// membersEvery is how often a task asks which others of its job run.
const membersEvery = time.Second

// members keeps the file that says which tasks of the job run. While the server is away it stays as
// it was.
type members struct {
	server *link.Client
	file   string
	signal string
	has    executor.Membership
}

// begin makes the file, as the server says it or else without any member, and keeps it from then
// on.
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

// look asks once, and reports whether there are other members. A server that was restarted counts
// its versions anew.
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

// write replaces the file as a whole. What the task put in its place is not followed.
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

// tellCatchers signals the topmost processes of the task that catch a signal.
func tellCatchers(sig unix.Signal) {
	all, err := process.All()
	if err != nil {
		return // the file says it all
	}
	for _, p := range process.CatchersBelow(all, os.Getpid(), sig) {
		p.Signal(sig)
	}
}
