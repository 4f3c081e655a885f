package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/api/rest"
)

// localKey marks the context of a request that came over the socket of ListenLocal from the
// server's own user, as the kernel tells.
type localKey struct{}

// isLocal reports whether the request comes from the server's own user, on this machine.
func isLocal(ctx context.Context) bool { return ctx.Value(localKey{}) != nil }

// ListenLocal opens the server's socket in a directory that only its user can enter. The
// directory's lock must be held: an existing socket is then that of a dead server.
func ListenLocal(ctx context.Context, dir string) (net.Listener, error) {
	path := filepath.Join(dir, rest.SocketName)
	if err := os.RemoveAll(path); err != nil {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	short, release, err := rest.SocketAddress(path)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", short)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, rootOf(err))
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its name is the short one, which is gone by then
	return &socket{listener{l}, path}, os.Chmod(path, 0o600)
}

// socket is a listener that removes its file when it is closed.
type socket struct {
	listener
	path string
}

// Close implements net.Listener.
func (s *socket) Close() error {
	os.Remove(s.path)
	return s.listener.Close()
}

// markLocal marks requests over a socket from this process's own user.
func markLocal(ctx context.Context, c net.Conn) context.Context {
	if uid, err := rest.PeerUser(c); err == nil && uid == os.Geteuid() {
		return context.WithValue(ctx, localKey{}, true)
	}
	return ctx
}

// checkCaller checks a submission that is to run where its caller is. Only the server's own
// user may ask for that, and both must mean the same folder by its name.
func (s *Server) checkCaller(ctx context.Context, c *rest.Caller) error {
	switch {
	case c == nil:
		return nil
	case !isLocal(ctx):
		return invalid("quick.caller", "a caller's folder and environment are taken only over the server's own socket, and from its own user")
	case s.opts.SameFolder == nil:
		return invalid("quick.caller", "the tasks of this server do not run where its callers are")
	}
	if err := s.opts.SameFolder(c.Folder); err != nil {
		return invalid("quick.caller.folder", "%s", err)
	}
	return nil
}
