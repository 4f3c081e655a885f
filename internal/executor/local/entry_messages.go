package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
)

// socketName is the name of a EntryServer's socket in the task's folder.
const socketName = "door"

// Limits of one task.
const (
	MaxCommands = 16 // that run, or wait until the task runs
	maxDials    = 32 // at the same time

	// longest bounds a message in bytes. As JSON a byte becomes up to six.
	longest = 6*executor.MaxCommand + 4096
)

// request is the first message.
type request struct {
	Command *executor.Command `json:"command,omitempty"`
	Port    uint16            `json:"port,omitempty"`
}

// reply is each message back. The first says how it began, and carries the files. A command's
// second one says how it ended.
type reply struct {
	Refused string          `json:"refused,omitempty"`
	Over    bool            `json:"over,omitempty"` // the task has ended
	Ended   *executor.Ended `json:"ended,omitempty"`
}

// send writes one message with files.
func send(c *net.UnixConn, v any, files ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	// The files come with the first bytes.
	if _, _, err := c.WriteMsgUnix(text, rights, nil); err != nil {
		return err
	}
	_, err = c.Write(body)
	return err
}

// receive reads one message. At most a few files come with it, and none is left open when it
// fails.
func receive(c *net.UnixConn, v any) (files []int, err error) {
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m, _, _, err := c.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	files, err = filesOf(oob[:m])
	if err == nil {
		_, err = io.ReadFull(c, head[n:])
	}
	size := binary.BigEndian.Uint32(head[:])
	if err == nil && size > longest {
		err = fmt.Errorf("a message of %d bytes is too long", size)
	}
	if err == nil {
		body := make([]byte, size)
		if _, err = io.ReadFull(c, body); err == nil {
			err = json.Unmarshal(body, v)
		}
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

// maxFiles of one message.
const maxFiles = 3

func filesOf(oob []byte) (files []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	list, err := unix.ParseSocketControlMessage(oob)
	for _, m := range list {
		some, rightsErr := unix.ParseUnixRights(&m)
		err = errors.Join(err, rightsErr)
		files = append(files, some...)
	}
	return files, err
}

func closeAll(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

// address is a name for the socket that is short enough for the kernel, until release is called.
func address(dir string) (name *net.UnixAddr, release func(), err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	path := filepath.Join(fmt.Sprintf("/proc/self/fd/%d", fd), socketName)
	return &net.UnixAddr{Net: "unix", Name: path}, func() { unix.Close(fd) }, nil
}

// peer is the process and the user at the other end.
func peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, got
}
