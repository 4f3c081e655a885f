package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/spec/jobspec"
)

// Runtime is what runs tasks on this machine.
type Runtime struct {
	Engine *Engine // nil: there are no containers
	Images jobspec.ImageUse
	Text   string // what it is, for people
}

// engineFile, in a data directory, says that its jobs have run in containers. Then, without an
// engine, they wait for one: as processes they could reach all that the server can.
const engineFile = "engine"

// Close closes the connection to the engine.
func (r *Runtime) Close() {
	if r.Engine != nil {
		_ = r.Engine.Close() // its tasks run on
	}
}

// Find looks for a container engine at an address if choice, --runtime, wants one. had says that
// jobs of this data directory had one before.
func (r *Runtime) Find(ctx context.Context, choice, address string, had bool) error {
	if choice == "process" {
		r.Text = "processes"
		return nil
	}
	engine, info, err := openEngine(ctx, address)
	late := had && errors.Is(err, ErrNoEngine)
	switch {
	case late:
		r.Engine, err = lateEngine(address)
	case err != nil && choice == "auto" && !had:
		r.Text = "processes: " + err.Error()
		return nil
	default:
		r.Engine = engine
	}
	if err != nil {
		return err
	}
	what := "containers for jobs that name an image, processes for others"
	if r.Images = jobspec.ImagesUsed; choice == "container" {
		what, r.Images = "containers", jobspec.ImagesNeeded
	}
	if late {
		r.Text = what + fmt.Sprintf(" (no engine answers at %s now: what is to start in a container waits for it)", r.Engine.Host())
		return nil
	}
	r.Text = what + describe(engine, &info)
	return nil
}

func describe(engine *Engine, info *Info) string {
	text := fmt.Sprintf(" (engine %s at %s)", info.Version, engine.Host())
	if !info.Network {
		text += "; it has no network for containers"
	}
	if !info.LiveRestore {
		text += "; containers end when it is stopped: start it with --live-restore"
	}
	if old := OldRunc(info.Runc); old != "" {
		text += "; " + old
	}
	return text
}

// Remember notes in a data directory that its jobs may run in containers.
func (r *Runtime) Remember(data string) error {
	path := filepath.Join(data, engineFile)
	if r.Engine == nil {
		return os.RemoveAll(path)
	}
	return os.WriteFile(path, []byte(r.Engine.Host()+"\n"), 0o600)
}

// HadEngine reports whether jobs of a data directory have run in containers.
func HadEngine(data string) bool {
	_, err := os.Lstat(filepath.Join(data, engineFile))
	return err == nil
}

// lateEngine is an engine that does not answer yet.
func lateEngine(address string) (*Engine, error) {
	host, err := Host(address)
	if err != nil {
		return nil, err
	}
	return Reach(host)
}

// openEngine returns the engine at an address, "" for the default one, if tasks can run there.
func openEngine(ctx context.Context, address string) (*Engine, Info, error) {
	host, err := Host(address)
	if err != nil {
		return nil, Info{}, err
	}
	engine, err := OpenEngine(ctx, host)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := engine.Info(ctx)
	if err == nil {
		err = info.Usable()
	}
	if err != nil {
		_ = engine.Close()
		return nil, info, fmt.Errorf("the container engine at %s cannot be used: %w", host, err)
	}
	return engine, info, nil
}
