// Package docker speaks Docker's API with a container engine: containers by name, networks of
// jobs, images and how they are fetched, what containers write to their disks, and what is
// mounted in them. It must not know what a task or a job is for.
package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// ErrNoEngine says that no container engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// ErrNoImage says that an image is not on this machine.
var ErrNoImage = errors.New("is not on this machine")

// ErrNotName says that a text is no image's name.
var ErrNotName = errors.New("is not the name of an image")

// ErrInTheWay says that an image has a file or link in the place of a mount.
var ErrInTheWay = errors.New("has something of its own")

// ErrExists says that there is a container of that name: it was made before.
var ErrExists = errors.New("there is a container of that name")

// ErrUnsure says that the engine's answer to a start was lost.
var ErrUnsure = errors.New("it is not known whether the container was started")

// ErrGone says that there is no container of that name.
var ErrGone = errors.New("there is no container of that name")

const (
	// DefaultHost is where an engine listens by default.
	DefaultHost = "unix:///var/run/docker.sock"

	callWithin  = 30 * time.Second // one call
	startWithin = 2 * time.Minute  // to make or start a container on a busy machine
)

// Host is the engine's address: DOCKER_HOST, or the default. Folders and devices of this machine
// are given to containers, so an engine on another machine is useless.
func Host(fromEnv string) (string, error) {
	switch {
	case fromEnv == "":
		return DefaultHost, nil
	case strings.HasPrefix(fromEnv, "unix:///"):
		return fromEnv, nil
	}
	return "", fmt.Errorf("DOCKER_HOST is %q: tasks need the engine of this machine, at an address unix:///PATH", fromEnv)
}

// Engine is a connection to a container engine. It may be used by many goroutines.
type Engine struct {
	c    *client.Client
	host string

	asking  Gate // guards about
	about   atomic.Pointer[Info]
	looking Gate             // guards fit
	fit     map[string]error // by an image's ID: the result of Fits
	masks   atomic.Pointer[[]string]
}

// Info is what an engine says of itself.
type Info struct {
	Version string // of the engine
	API     string // API version that both support
	Runtime string // the default runtime's name
	// Plain is the runtime for containers where the default one adds devices that an image asks
	// for; "": the default.
	Plain string
	Runc  string // version of runc, which makes containers; "": unknown
	// Network is false for an engine without a bridge: then containers get no network.
	Network bool
	// LiveRestore is true where containers survive the end of the engine.
	LiveRestore bool
	// Remapped is true where root in a container is another user of this machine, or the engine
	// runs without root.
	Remapped bool
}

// Usable says why tasks cannot run there; nil: they can.
func (i *Info) Usable() error {
	if i.Remapped {
		return errors.New("it maps users (userns-remap) or runs without root, which is not supported yet: run one without")
	}
	return nil
}

// Reach opens a connection to an engine that need not answer yet.
func Reach(host string) (*Engine, error) {
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("container engine at %s: %w", host, err)
	}
	return &Engine{c: c, host: host}, nil
}

// OpenEngine connects and agrees on an API version. ErrNoEngine says that no engine answers.
func OpenEngine(ctx context.Context, host string) (*Engine, error) {
	e, err := Reach(host)
	if err != nil {
		return nil, err
	}
	c := e.c
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if !Answers(host) {
		return nil, errors.Join(fmt.Errorf("%w: there is no socket %s", ErrNoEngine, strings.TrimPrefix(host, "unix://")), c.Close())
	}
	if _, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w at %s: %s", ErrNoEngine, host, reason(err)), c.Close())
	}
	return e, nil
}

// reason is an error of the engine in one line.
func reason(err error) string {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return text
}

// Close ends the connection.
func (e *Engine) Close() error { return e.c.Close() }

// Host is the engine's address.
func (e *Engine) Host() string { return e.host }

// Ask learns about the engine, once it answers, and says why tasks cannot run there; nil: they
// can.
func (e *Engine) Ask(ctx context.Context) error {
	leave, err := e.asking.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if e.about.Load() != nil {
		return nil
	}
	info, err := e.Info(ctx)
	if err == nil {
		err = info.Usable()
	}
	if err == nil {
		e.about.Store(&info)
	}
	return err
}

// About is what Ask learned; nil: nothing yet.
func (e *Engine) About() *Info { return e.about.Load() }

// Info asks the engine about itself.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Info{}, fmt.Errorf("ask the container engine what it is: %s", reason(err))
	}
	i := Info{Version: r.Info.ServerVersion, API: e.c.ClientVersion(), Runtime: r.Info.DefaultRuntime, LiveRestore: r.Info.LiveRestoreEnabled}
	i.Remapped = slices.ContainsFunc(r.Info.SecurityOptions, func(o string) bool {
		return strings.HasPrefix(o, "name=userns") || strings.HasPrefix(o, "name=rootless")
	})
	if _, has := r.Info.Runtimes[plain]; has && slices.Contains(deviceRuntimes(), i.Runtime) {
		i.Plain = plain
	}
	if v, err := e.c.ServerVersion(ctx, client.ServerVersionOptions{}); err == nil { // too old an engine lists no components
		for _, part := range v.Components {
			if part.Name == "runc" {
				i.Runc = part.Version
			}
		}
	}
	_, err = e.c.NetworkInspect(ctx, bridge, client.NetworkInspectOptions{})
	i.Network = err == nil
	return i, nil
}

// plain is the runtime that gives a container only the devices asked for.
const plain = "runc"

// deviceRuntimes are device makers' runtimes: they add devices by environment variables, also an
// image's.
func deviceRuntimes() []string { return []string{"nvidia", "amd", "habana", "ascend"} }

// bridge is the network that engines make by default.
const bridge = "bridge"

// Image is an image on this machine.
type Image struct {
	ID string // the digest of its configuration, which identifies the image
	// Digests are NAME@sha256:..., for each repository that it came from; none when it was built
	// here.
	Digests []string
	User    string // as in the image: "", NAME or number, with :GROUP or without
	CPU     string // the architecture that it is for, such as amd64; "": unknown
	// Env and Volumes are as in the image, and may be anything: see Fits.
	Env     []string
	Volumes []string
	WorkDir string   // as in the image; "" for none, or for the root, which builders set by default
	Runs    []string // its ENTRYPOINT, followed by its CMD
}

// Image looks up an image by name, tag or digest. ErrNoImage says that it is not here, ErrNotName
// that ref is not a valid name.
func (e *Engine) Image(ctx context.Context, ref string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if _, err := reference.ParseAnyReference(ref); err != nil { // ref becomes a part of a URL
		return Image{}, fmt.Errorf("%q %w", ref, ErrNotName)
	}
	r, err := e.c.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err):
		return Image{}, fmt.Errorf("the image %s %w", ref, ErrNoImage)
	case errdefs.IsInvalidArgument(err):
		return Image{}, fmt.Errorf("%q %w", ref, ErrNotName)
	case err != nil:
		return Image{}, fmt.Errorf("look up the image %s: %s", ref, reason(err))
	}
	i := Image{ID: r.ID, CPU: r.Architecture, Digests: r.RepoDigests}
	if r.Config != nil {
		i.User, i.Env, i.Volumes = r.Config.User, r.Config.Env, slices.Sorted(maps.Keys(r.Config.Volumes))
		i.Runs = slices.Concat(r.Config.Entrypoint, r.Config.Cmd)
		if dir := path.Clean("/" + r.Config.WorkingDir); dir != "/" {
			i.WorkDir = dir
		}
	}
	return i, nil
}

// Mount is a file or folder of this machine inside a container.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Box describes a container to be made.
type Box struct {
	Name    string            `json:"name"`
	Image   string            `json:"image"` // its ID
	Labels  map[string]string `json:"labels"`
	Command []string          `json:"command"`
	Env     []string          `json:"env,omitempty"`
	// ImageEnv are the variables of the image; process 1 gets none of them.
	ImageEnv []string `json:"image_env,omitempty"`
	Top      string   `json:"top"` // a folder for the mounts, read-only except for them
	Mounts   []Mount  `json:"mounts"`
	Hidden   []string `json:"hidden,omitempty"`  // files of the image that are made empty
	Masked   []string `json:"masked,omitempty"`  // what the engine hides by default, as it reports
	Devices  []string `json:"devices,omitempty"` // device files, at the same path inside
	// GPUs are NVIDIA's, by the numbers of its driver ("0", or "3:1" for a part). CDI says that
	// they are requested by CDI.
	GPUs []string `json:"gpus,omitempty"`
	CDI  bool     `json:"cdi,omitempty"`
	// Runtime makes the container; "" is the engine's default.
	Runtime string   `json:"runtime,omitempty"`
	Caps    []string `json:"caps,omitempty"`  // capabilities of process 1; all others are dropped
	Net     string   `json:"net,omitempty"`   // the name of its network; "": none
	Alias   string   `json:"alias,omitempty"` // its name for others on that network
	// The limits; 0 is none.
	MilliCPU int64 `json:"milli_cpu,omitempty"`
	MemoryMB int64 `json:"memory_mb,omitempty"`
	Pids     int64 `json:"pids,omitempty"`
	ShmMB    int64 `json:"shm_mb,omitempty"`
	// Ulimits are the limits of each process.
	Ulimits []Ulimit `json:"ulimits,omitempty"`
}

// host is what the container may use of this machine: its limits, its devices and no privilege
// beyond those named.
func (b *Box) host() *container.HostConfig {
	h := &container.HostConfig{
		NetworkMode: "none",
		CapDrop:     []string{"ALL"}, CapAdd: b.Caps,
		SecurityOpt: []string{"no-new-privileges"},
		// For what process 1 itself prints, see Words; the task's output takes another way.
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "64k", "max-file": "1"}},
		ShmSize:   b.ShmMB << 20,
		Runtime:   b.Runtime,
		Tmpfs:     map[string]string{b.Top: "ro,nosuid,nodev,size=64k,mode=755"},
		Resources: container.Resources{NanoCPUs: b.MilliCPU * 1_000_000, Memory: b.MemoryMB << 20, MemorySwap: b.MemoryMB << 20,
			Ulimits: []*container.Ulimit{{Name: "core"}}},
	}
	if b.Net != "" {
		h.NetworkMode = container.NetworkMode(b.Net)
	}
	if b.Pids > 0 {
		h.PidsLimit = &b.Pids
	}
	for _, u := range b.Ulimits {
		h.Ulimits = append(h.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Value, Hard: u.Value})
	}
	for _, m := range b.Mounts {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}})
	}
	for _, d := range b.Devices {
		h.Devices = append(h.Devices, container.DeviceMapping{PathOnHost: d, PathInContainer: d, CgroupPermissions: "rw"})
	}
	h.DeviceRequests = b.requests()
	if len(b.Hidden) > 0 { // then the engine hides nothing by default
		h.MaskedPaths = slices.Concat(b.Hidden, b.Masked, masked())
		slices.Sort(h.MaskedPaths)
		h.MaskedPaths = slices.Compact(h.MaskedPaths)
	}
	return h
}

// Masked is what the engine hides from containers by default, as reported when Fits looked at
// one; nil: unknown.
func (e *Engine) Masked() []string {
	if list := e.masks.Load(); list != nil {
		return *list
	}
	return nil
}

// masked are what engines are known to hide from containers by default.
func masked() []string {
	return []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap",
		"/sys/firmware"}
}

// env are the variables of process 1. A variable without a value is unset, whatever the image
// says.
func (b *Box) env() []string {
	env, set := slices.Clone(b.Env), map[string]bool{"": true} // one without a name cannot be set or found
	for _, v := range b.Env {
		name, _, _ := strings.Cut(v, "=")
		set[name] = true
	}
	for _, v := range b.ImageEnv {
		if name, _, _ := strings.Cut(v, "="); !set[name] {
			set[name] = true
			env = append(env, name)
		}
	}
	return env
}

// noCheck keeps an engine from running an image's HEALTHCHECK, which would have the rights of
// process 1.
func noCheck() *container.HealthConfig { return &container.HealthConfig{Test: []string{"NONE"}} }

// Create makes a container, which does not run yet. ErrExists says that it was made before.
func (e *Engine) Create(ctx context.Context, b *Box) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	_, err := e.c.ContainerCreate(ctx, client.ContainerCreateOptions{Name: b.Name, HostConfig: b.host(), NetworkingConfig: b.network(),
		Config: &container.Config{Image: b.Image, Labels: b.Labels, Env: b.env(), User: "0:0", WorkingDir: "/",
			Healthcheck: noCheck(), Entrypoint: b.Command[:1], Cmd: b.Command[1:], OpenStdin: true, StdinOnce: true, AttachStdin: true}})
	switch {
	case errdefs.IsConflict(err) || errdefs.IsAlreadyExists(err):
		return fmt.Errorf("%w: %s", ErrExists, b.Name)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("the image %s %w any more", b.Image, ErrNoImage)
	case err != nil && noGPUs(err):
		return ErrNoGPUs
	case err != nil:
		return fmt.Errorf("make the container: %s", reason(err))
	}
	return nil
}

// inTheWay reports whether a container did not start because its image has a file or a link in
// the place of a mount. Engines say so in words only.
func inTheWay(err error) bool {
	text := err.Error()
	return strings.Contains(text, "error mounting") && strings.Contains(text, "to rootfs at")
}

// Start starts a container and sends its process 1 the input, which then ends. ErrInTheWay says
// that its image cannot have the mounts, ErrUnsure that the container may run.
func (e *Engine) Start(ctx context.Context, name string, input []byte) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	a, err := e.c.ContainerAttach(ctx, name, client.ContainerAttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return fmt.Errorf("reach into the container: %s", reason(err))
	}
	defer a.Close()
	_, err = e.c.ContainerStart(ctx, name, client.ContainerStartOptions{})
	if err != nil && inTheWay(err) {
		return ErrInTheWay // the engine's words name folders of this machine
	}
	if err != nil && unfitForGPUs(err) {
		return errNoPlace
	}
	if err != nil && noGPUs(err) {
		return ErrNoGPUs
	}
	if err != nil && answered(err) {
		return fmt.Errorf("start the container: %s", reason(err))
	}
	if err != nil {
		return fmt.Errorf("%w: %s", ErrUnsure, reason(err))
	}
	_ = a.Conn.SetWriteDeadline(time.Now().Add(startWithin)) // a socket takes a deadline
	if _, err := a.Conn.Write(input); err != nil {
		return fmt.Errorf("%w: hand the task its script: %s", ErrUnsure, reason(err))
	}
	if err := a.CloseWrite(); err != nil {
		return fmt.Errorf("%w: %s", ErrUnsure, reason(err))
	}
	return nil
}

// answered reports whether an error is the engine's own answer, and not a lost answer.
func answered(err error) bool {
	return errdefs.IsInternal(err) || errdefs.IsInvalidArgument(err) || errdefs.IsNotFound(err) || errdefs.IsConflict(err) ||
		errdefs.IsPermissionDenied(err) || errdefs.IsNotModified(err)
}

// State is what the engine knows of a container.
type State struct {
	Began   bool // it was started at some time
	Running bool
	PID     int // of process 1, by its number on this machine; 0 when it does not run
	Code    int // exit code of process 1
	OOM     bool
	Error   string // why it did not start
}

// State looks at a container. ErrGone says that there is none of that name.
func (e *Engine) State(ctx context.Context, name string) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return State{}, fmt.Errorf("%w: %s", ErrGone, name)
	case err != nil:
		return State{}, fmt.Errorf("look at the container %s: %s", name, reason(err))
	case r.Container.State == nil:
		return State{}, fmt.Errorf("the engine does not say how the container %s is", name)
	}
	s := r.Container.State
	return State{Began: s.Status != container.StateCreated, Running: s.Running, PID: s.Pid, Code: s.ExitCode, OOM: s.OOMKilled, Error: s.Error}, nil
}

// longestWords bounds what is read of a container's words, in bytes.
const longestWords = 64 << 10

// Words is what process 1 of a container printed last: the panic that ended it, else the last
// line; "" where it printed nothing.
func (e *Engine) Words(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.ContainerLogs(ctx, name, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "200"})
	if err != nil {
		return "", fmt.Errorf("read what the container %s said: %s", name, reason(err))
	}
	defer r.Close()
	var text bytes.Buffer
	_, _ = stdcopy.StdCopy(&text, &text, io.LimitReader(r, longestWords)) // a part is enough
	words := ""
	for line := range strings.Lines(strings.ToValidUTF8(text.String(), "?")) {
		if line = strings.TrimSpace(line); line != "" {
			words = line
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			break
		}
	}
	return words, nil
}

// Kill ends everything in a container. It is no error when the container does not run.
func (e *Engine) Kill(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := e.c.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: "KILL"})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("kill the container %s: %s", name, reason(err))
	}
	return nil
}

// Remove removes a container with what it wrote, and ends it first where it runs. It is no error
// when there is none.
func (e *Engine) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	_, err := e.c.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove the container %s: %s", name, reason(err))
	}
	return nil
}

// List returns the labels of all containers that have a label of that value, by name.
func (e *Engine) List(ctx context.Context, label, value string) (map[string]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", label+"="+value)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %s", reason(err))
	}
	found := map[string]map[string]string{}
	for _, c := range r.Items {
		if len(c.Names) > 0 {
			found[strings.TrimPrefix(c.Names[0], "/")] = c.Labels
		}
	}
	return found, nil
}

// Answers reports whether the socket exists, without connecting to it.
func Answers(host string) bool {
	st, err := os.Stat(strings.TrimPrefix(host, "unix://"))
	return err == nil && st.Mode()&os.ModeSocket != 0
}

// Disk is what a container has on disk.
type Disk struct {
	Files []string // files that its root may write: the engine's hosts, hostname and resolv.conf
	Dirs  []string // readable folders of this machine: its volumes, and the layer that it writes
	Bytes int64    // size of that layer, where it is not in Dirs; -1: the engine could not tell
	// Whole says that Files and Dirs are all of it, as long as the container exists.
	Whole bool
}

// Disk finds what a container has on disk. Where the layer's folder cannot be read, the engine
// measures it.
func (e *Engine) Disk(ctx context.Context, name string) (l Disk, err error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	r, err := e.c.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err != nil {
		return l, fmt.Errorf("look at the container %s: %s", name, reason(err))
	}
	l.Files = []string{r.Container.HostsPath, r.Container.HostnamePath, r.Container.ResolvConfPath}
	for _, m := range r.Container.Mounts {
		if m.Type == mount.TypeVolume {
			l.Dirs = append(l.Dirs, m.Source)
		}
	}
	if d := r.Container.GraphDriver; d != nil {
		if f, err := os.Open(d.Data["UpperDir"]); err == nil {
			l.Dirs, l.Whole = append(l.Dirs, f.Name()), true
			return l, f.Close()
		}
	}
	l.Bytes = -1
	if r, err = e.c.ContainerInspect(ctx, name, client.ContainerInspectOptions{Size: true}); err != nil {
		return l, fmt.Errorf("measure the container %s: %s", name, reason(err))
	}
	if size := r.Container.SizeRw; size != nil {
		l.Bytes = *size
	}
	return l, nil
}
