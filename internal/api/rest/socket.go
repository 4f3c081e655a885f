package rest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketName is the name of a server's socket in its data directory.
const SocketName = "socket"

// MaxCallerEnv bounds the environment of a caller, in bytes, so that it fits into a request
// with the rest of a submission.
const MaxCallerEnv = 512 << 10

// Local returns a client of the same server over its socket. What it sends reaches only a
// process of this user on this machine: at each connection the kernel tells the user of the
// listener. The error says why that is impossible.
func (c *Client) Local(ctx context.Context, socket string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialLocal(ctx, socket, os.Geteuid()) }
	conn, err := dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	conn.Close()
	// The kernel identifies the listener, so an https address needs no TLS here.
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial, ResponseHeaderTimeout: requestTimeout, MaxIdleConnsPerHost: 64}
	return &Client{base: c.base, token: c.token, OnWait: c.OnWait, OnCondition: c.OnCondition, DefaultVC: c.DefaultVC,
		http: &http.Client{Transport: transport, CheckRedirect: c.http.CheckRedirect}}, nil
}

// dialLocal connects to a socket at which only that user listens.
func dialLocal(ctx context.Context, socket string, user int) (net.Conn, error) {
	short, release, err := SocketAddress(socket)
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", short)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: fmt.Errorf("%s: %w", socket, rootCause(err))}
	}
	uid, err := PeerUser(conn)
	if err == nil && uid != user {
		err = fmt.Errorf("user %d listens at %s, and you are user %d", uid, socket, user)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// SocketAddress returns a name of a socket's path that is short enough for the kernel, which
// allows 107 bytes. It is valid until release is called.
func SocketAddress(path string) (short string, release func(), err error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("cannot use the folder of %s: %w", path, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)), func() { unix.Close(dir) }, nil
}

// PeerUser returns the user at the other end of a socket of this machine.
func PeerUser(c net.Conn) (int, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a socket of this machine")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if got != nil {
		return 0, got
	}
	return int(cred.Uid), nil
}

// FolderAt identifies a folder of this machine, so that another process can check whether it
// sees the same one under the path.
func FolderAt(path string) (Folder, error) {
	f := Folder{Path: path}
	info, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return f, errors.New("it is no folder")
	}
	f.Device, f.Inode = st.Dev, st.Ino
	return f, nil
}
