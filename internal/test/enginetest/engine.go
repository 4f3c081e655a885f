package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

// Engine is a container engine that one test has started.
type Engine struct {
	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
	c    *client.Client
}

var engines atomic.Int32

// Start starts Debian's engine with flags of the test's own, and ends it with the test.
func Start(t testing.TB, flags ...string) *Engine {
	t.Helper()
	top := os.Getenv(apartDir)
	if top == "" {
		t.Fatal("the package's TestMain must call enginetest.Main")
	}
	e := &Engine{t: t, dir: filepath.Join(top, fmt.Sprint(engines.Add(1)))}
	if err := os.Mkdir(e.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.args = append([]string{"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "exec"),
		"--pidfile", filepath.Join(e.dir, "pid"), "--host", e.Host(), "--exec-opt", "native.cgroupdriver=cgroupfs",
		"--cgroup-parent", "/" + filepath.Base(top), "--bip", "172.31.7.1/24",
		"--default-address-pool", "base=10.128.0.0/9,size=24"}, flags...) // tests may leave more networks than the engine's own 31
	var err error
	if e.c, err = client.New(client.WithHost(e.Host())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.end)
	e.Run()
	return e
}

// Host is the engine's address.
func (e *Engine) Host() string { return "unix://" + filepath.Join(e.dir, "docker.sock") }

// Run starts the engine, also once more after Kill, and waits until it answers.
func (e *Engine) Run() {
	e.t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	_ = os.Remove(filepath.Join(e.dir, "pid"))
	e.cmd = exec.Command("dockerd", e.args...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // it is killed
		close(done)
	}(e.cmd, e.done)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := e.c.Ping(context.Background(), client.PingOptions{NegotiateAPIVersion: true})
		if err == nil {
			return
		}
		select {
		case <-e.done:
			e.t.Fatalf("the engine ended at once:\n%s", e.log())
		default:
		}
		if time.Now().After(end) {
			e.t.Fatalf("the engine does not answer: %v\n%s", err, e.log())
		}
	}
}

func (e *Engine) log() string {
	data, err := os.ReadFile(filepath.Join(e.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}

// Kill ends the engine as the kernel does when memory is short; the containerd that it
// started dies with it, containers do not.
func (e *Engine) Kill() { e.signal(syscall.SIGKILL) }

// Stop ends the engine in good order: without --live-restore with its containers.
func (e *Engine) Stop() { e.signal(syscall.SIGTERM) }

func (e *Engine) signal(sig syscall.Signal) {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Signal(sig) // one that is gone is what is wanted
	<-e.done
	e.cmd = nil
}

// end removes the containers and their networks and ends the engine, so that the next one has the
// network's addresses and the machine to itself: bridges outlive an engine.
func (e *Engine) end() {
	if e.cmd == nil {
		e.Run()
	}
	for _, name := range e.Containers() {
		_, _ = e.c.ContainerRemove(context.Background(), name, client.ContainerRemoveOptions{Force: true})
	}
	nets, err := e.c.NetworkList(context.Background(), client.NetworkListOptions{Filters: make(client.Filters).Add("type", "custom")})
	if err != nil {
		e.t.Error(err)
	}
	for _, n := range nets.Items {
		e.freeStale(n.ID)
		if _, err := e.c.NetworkRemove(context.Background(), n.ID, client.NetworkRemoveOptions{}); err != nil {
			e.t.Errorf("the network %s stays: %v", n.Name, err)
		}
	}
	e.Stop()
	_ = e.c.Close()
}

// freeStale takes all off a network, once no container is left: an engine that was killed may keep
// ends of some.
func (e *Engine) freeStale(network string) {
	r, err := e.c.NetworkInspect(context.Background(), network, client.NetworkInspectOptions{})
	if err != nil {
		return
	}
	for _, end := range r.Network.Containers {
		_, _ = e.c.NetworkDisconnect(context.Background(), network, client.NetworkDisconnectOptions{Container: end.Name, Force: true})
	}
}

// Containers are the names of all containers, also of those that have ended.
func (e *Engine) Containers() []string {
	e.t.Helper()
	r, err := e.c.ContainerList(context.Background(), client.ContainerListOptions{All: true})
	if err != nil {
		e.t.Error(err)
	}
	var names []string
	for _, c := range r.Items {
		names = append(names, strings.TrimPrefix(strings.Join(c.Names, ","), "/"))
	}
	return names
}

// Import makes an image of busybox and a few files, by path without the first slash, links ("->
// TARGET") or pipes ("|"). Changes are lines of a Dockerfile, such as "USER 1000".
func (e *Engine) Import(ref string, files map[string]string, changes ...string) {
	e.t.Helper()
	image, err := archive(files)
	if err != nil {
		e.t.Fatal(err)
	}
	e.imported(ref, image, changes)
}

// ImportBare is Import without busybox: for an image in which nothing ever runs.
func (e *Engine) ImportBare(ref string, files map[string]string, changes ...string) {
	e.t.Helper()
	var image bytes.Buffer
	p := pack{w: tar.NewWriter(&image)}
	p.put(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, "")
	p.files(files)
	if err := p.close(); err != nil {
		e.t.Fatal(err)
	}
	e.imported(ref, &image, changes)
}

func (e *Engine) imported(ref string, image io.Reader, changes []string) {
	e.t.Helper()
	r, err := e.c.ImageImport(context.Background(), client.ImageImportSource{Source: image, SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		e.t.Fatal(err)
	}
	e.drain(r, "import "+ref)
}

// ImportOnly makes an image of a few files and nothing else, which says that it is for a CPU.
func (e *Engine) ImportOnly(ref, cpu string, files map[string]string) {
	e.t.Helper()
	var layer, image bytes.Buffer
	p := pack{w: tar.NewWriter(&layer)}
	p.files(files)
	err := p.close()
	config := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`,
		cpu, sha256.Sum256(layer.Bytes()))
	p = pack{w: tar.NewWriter(&image), err: err}
	p.files(map[string]string{"config.json": config, "layer.tar": layer.String(),
		"manifest.json": fmt.Sprintf(`[{"Config": "config.json", "RepoTags": [%q], "Layers": ["layer.tar"]}]`, ref)})
	if err := p.close(); err != nil {
		e.t.Fatal(err)
	}
	r, err := e.c.ImageLoad(context.Background(), &image)
	if err != nil {
		e.t.Fatal(err)
	}
	e.drain(r, "load "+ref)
}

// Forget removes an image, also one that a container uses.
func (e *Engine) Forget(ref string) {
	e.t.Helper()
	if _, err := e.c.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{Force: true}); err != nil {
		e.t.Fatal(err)
	}
}

// drain reads an answer to its end, which may be an error.
func (e *Engine) drain(r io.ReadCloser, what string) {
	e.t.Helper()
	defer r.Close()
	if out, err := io.ReadAll(r); err != nil || strings.Contains(string(out), `"error"`) {
		e.t.Fatalf("%s: %v %s", what, err, out)
	}
}

func archive(files map[string]string) (io.Reader, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	p := pack{w: tar.NewWriter(&b)}
	p.put(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, "")
	p.put(tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
	p.put(tar.Header{Name: "bin/busybox", Mode: 0o755}, string(program))
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			p.put(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, "")
		}
	}
	all := map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n",
		"etc/group": "root:x:0:\nada:x:1000:\n"}
	maps.Copy(all, files)
	p.files(all)
	return &b, p.close()
}

// pack writes an archive; its first error stays.
type pack struct {
	w   *tar.Writer
	err error
}

func (p *pack) put(h tar.Header, data string) {
	h.Size = int64(len(data))
	if p.err == nil {
		p.err = p.w.WriteHeader(&h)
	}
	if p.err == nil {
		_, p.err = io.WriteString(p.w, data)
	}
}

// files puts files; a text that begins with "-> " makes a link to what follows, and "|" is a pipe.
func (p *pack) files(files map[string]string) {
	for name, text := range files {
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			p.put(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, "")
			continue
		}
		if text == "|" {
			p.put(tar.Header{Name: name, Typeflag: tar.TypeFifo, Mode: 0o666}, "")
			continue
		}
		p.put(tar.Header{Name: name, Mode: 0o755}, text)
	}
}

func (p *pack) close() error {
	if p.err != nil {
		return p.err
	}
	return p.w.Close()
}

// Push gives an image to the registry that its name says, and forgets it. User "" is without
// credentials.
func (e *Engine) Push(ref, user, password string) {
	e.t.Helper()
	auth, err := authconfig.Encode(registry.AuthConfig{Username: user, Password: password})
	if err != nil {
		e.t.Fatal(err)
	}
	r, err := e.c.ImagePush(context.Background(), ref, client.ImagePushOptions{RegistryAuth: auth})
	if err != nil {
		e.t.Fatal(err)
	}
	e.drain(r, "push "+ref)
	e.Forget(ref)
}

// Tag gives an image of the engine a name.
func (e *Engine) Tag(id, ref string) {
	e.t.Helper()
	if _, err := e.c.ImageTag(context.Background(), client.ImageTagOptions{Source: id, Target: ref}); err != nil {
		e.t.Fatal(err)
	}
}

// Has reports whether an image is there.
func (e *Engine) Has(ref string) bool {
	_, err := e.c.ImageInspect(context.Background(), ref)
	return err == nil
}

// Networks are the names of all networks.
func (e *Engine) Networks() []string {
	e.t.Helper()
	r, err := e.c.NetworkList(context.Background(), client.NetworkListOptions{})
	if err != nil {
		e.t.Error(err)
	}
	var names []string
	for _, n := range r.Items {
		names = append(names, n.Name)
	}
	return names
}
