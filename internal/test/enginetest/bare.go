package enginetest

import (
	"context"
	"io"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Bare runs a shell's script in a container without the protection that tasks have, in which
// folders of this machine are where they are here, and returns what it prints. So a test shows that
// what its tasks may not do can be done at all.
func (e *Engine) Bare(ref, script string, folders ...string) string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	host := &container.HostConfig{NetworkMode: "host", IpcMode: "host", CgroupnsMode: "host", CapAdd: []string{"SYS_ADMIN", "MKNOD"},
		SecurityOpt: []string{"seccomp=unconfined", "apparmor=unconfined"}}
	for _, f := range folders {
		host.Binds = append(host.Binds, f+":"+f)
	}
	made, err := e.c.ContainerCreate(ctx, client.ContainerCreateOptions{HostConfig: host,
		Config: &container.Config{Image: ref, Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{script}, Tty: true, User: "0"}})
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() {
		if _, err := e.c.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			e.t.Error(err)
		}
	}()
	if _, err := e.c.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		e.t.Fatal(err)
	}
	r, err := e.c.ContainerLogs(ctx, made.ID, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		e.t.Fatal(err)
	}
	defer r.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(out)
}
