package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/executor/local/container"
	"github.com/combsched/comb/internal/jobspec"
)

// runtime is what runs tasks on this machine.
type runtime struct {
	engine  *container.Engine // nil: there are no containers
	network bool              // containers get one
	images  jobspec.ImageUse
	text    string // what it is, for people
}

func (r *runtime) close() {
	if r.engine != nil {
		_ = r.engine.Close() // its tasks run on
	}
}

// find looks for a container engine at an address where choice, --runtime, wants one.
func (r *runtime) find(ctx context.Context, choice, address string) error {
	if choice == "process" {
		r.text = "processes"
		return nil
	}
	engine, info, err := openEngine(ctx, address)
	if err != nil && choice == "auto" {
		r.text = "processes: " + err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	what := "containers for jobs that name an image, processes for others"
	r.engine, r.network, r.images = engine, info.Network, jobspec.ImagesUsed
	if choice == "container" {
		what, r.images = "containers", jobspec.ImagesNeeded
	}
	parts := []string{fmt.Sprintf("%s (engine %s at %s)", what, info.Version, engine.Host())}
	if !info.Network {
		parts = append(parts, "it has no network for containers")
	}
	if !info.LiveRestore {
		parts = append(parts, "containers end when it is stopped: start it with --live-restore")
	}
	r.text = strings.Join(parts, "; ")
	return nil
}

// openEngine returns the engine at an address, "" for the usual one, if tasks can run there.
func openEngine(ctx context.Context, address string) (*container.Engine, container.Info, error) {
	host, err := container.Host(address)
	if err != nil {
		return nil, container.Info{}, err
	}
	engine, err := container.Open(ctx, host)
	if err != nil {
		return nil, container.Info{}, err
	}
	info, err := engine.Info(ctx)
	if err == nil {
		err = info.Usable()
	}
	if err == nil {
		err = alone()
	}
	if err != nil {
		_ = engine.Close()
		return nil, info, fmt.Errorf("the container engine at %s cannot be used: %w", host, err)
	}
	return engine, info, nil
}

// alone refuses a program that needs libraries: it is process 1 of containers, whose images have others.
func alone() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := elf.Open(self)
	if err != nil {
		return err
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("this program was built with libraries of this machine, which images do not have: build it with make build, or with CGO_ENABLED=0")
	}
	return nil
}
