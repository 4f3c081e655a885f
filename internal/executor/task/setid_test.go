package task

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tryBits says what each way to give a file a mode comes to.
func tryBits() int {
	fail := func(err error) int {
		fmt.Println(err)
		return 1
	}
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		return fail(err)
	}
	f, err := os.Open("file")
	if err != nil {
		return fail(err)
	}
	if err := RefuseSetID(); err != nil {
		return fail(err)
	}
	fd, n := int(f.Fd()), 0
	made := func(mode uint32, flags int) error {
		n++
		at, err := unix.Open(fmt.Sprint("made-", n), flags|unix.O_WRONLY, mode)
		if err == nil {
			err = unix.Close(at)
		}
		return err
	}
	how := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755}
	at, err2 := unix.Openat2(unix.AT_FDCWD, "by-openat2", &how)
	_ = unix.Close(at) // there is none
	name, _ := unix.BytePtrFromString("file")
	here, file := uintptr(1<<64-100), uintptr(unsafe.Pointer(name)) // AT_FDCWD
	_, _, odd := unix.Syscall6(unix.SYS_OPENAT, here, file, unix.O_RDONLY, 0o6777, 0, 0)
	for _, one := range []struct {
		what string
		err  error
	}{
		{"chmod u+s", unix.Chmod("file", 0o4755)}, {"chmod g+s", unix.Chmod("file", 0o2755)},
		{"fchmod u+s", unix.Fchmod(fd, 0o4755)}, {"fchmodat u+s", unix.Fchmodat(unix.AT_FDCWD, "file", 0o4755, 0)},
		{"open u+s", made(0o4755, unix.O_CREAT)}, {"open g+s", made(0o2755, unix.O_CREAT)},
		{"mknod u+s", unix.Mknod("node", unix.S_IFREG|0o4755, 0)},
		{"mknodat u+s", unix.Mknodat(unix.AT_FDCWD, "node", unix.S_IFREG|0o4755, 0)},
		{"openat2", err2},
		{"by a shell", exec.Command("sh", "-c", "chmod u+s file 2>/dev/null").Run()},
		{"chmod", unix.Chmod("file", 0o1755)}, {"fchmod", unix.Fchmod(fd, 0o644)}, {"open", made(0o755, unix.O_CREAT)},
		{"open of a file, with bits that mean nothing", errOf(odd)},
		{"by a shell, other bits", exec.Command("sh", "-c", "chmod 1777 . && touch new && mkdir dir").Run()},
	} {
		if e, ok := one.err.(unix.Errno); ok {
			one.err = fmt.Errorf("%s", unix.ErrnoName(e))
		}
		fmt.Printf("%s: %v\n", one.what, one.err)
	}
	return 0
}

func errOf(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func TestRefuseBits(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self, "bits")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	const want = `chmod u+s: EPERM
chmod g+s: EPERM
fchmod u+s: EPERM
fchmodat u+s: EPERM
open u+s: EPERM
open g+s: EPERM
mknod u+s: EPERM
mknodat u+s: EPERM
openat2: ENOSYS
by a shell: exit status 1
chmod: <nil>
fchmod: <nil>
open: <nil>
open of a file, with bits that mean nothing: <nil>
by a shell, other bits: <nil>
`
	if err != nil || string(out) != want {
		t.Errorf("%v, it said\n%s", err, out)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Each interface of the kernel is held to its own numbers: what the filter says is worked out as
// the kernel does.
func TestFilter(t *testing.T) {
	f := filter()
	for _, c := range []struct {
		arch, call uint32
		args       string // by their places
		want       string
	}{
		{unix.AUDIT_ARCH_X86_64, 90, "0 04755", "EPERM"}, {unix.AUDIT_ARCH_X86_64, 90 | x32, "0 04755", "EPERM"},
		{unix.AUDIT_ARCH_X86_64, 90, "04755 0755", ""}, {unix.AUDIT_ARCH_X86_64, 15, "0 04755", ""},
		{unix.AUDIT_ARCH_I386, 15, "0 04755", "EPERM"}, {unix.AUDIT_ARCH_I386, 90, "0 04755", ""},
		{unix.AUDIT_ARCH_I386, 5, "0 0101 02755", "EPERM"}, {unix.AUDIT_ARCH_I386, 5, "0 0 02755", ""},
		{unix.AUDIT_ARCH_I386, 295, "0 0 0101 04755", "EPERM"}, {unix.AUDIT_ARCH_I386, 306, "0 0 04755", "EPERM"},
		{unix.AUDIT_ARCH_X86_64, 257, "0 0 020200000 04755", "EPERM"}, {unix.AUDIT_ARCH_X86_64, 425, "", "ENOSYS"},
		{unix.AUDIT_ARCH_AARCH64, 52, "0 06000", "EPERM"}, {unix.AUDIT_ARCH_AARCH64, 56, "0 0 0100 04000", "EPERM"},
		{unix.AUDIT_ARCH_AARCH64, 452, "0 0 04755", "EPERM"}, {unix.AUDIT_ARCH_ARM, 333, "0 0 04755", "EPERM"},
		{unix.AUDIT_ARCH_AARCH64, 437, "", "ENOSYS"}, {unix.AUDIT_ARCH_PPC64, 1, "", "ENOSYS"},
	} {
		data := map[uint32]uint32{0: c.call, 4: c.arch}
		for i, text := range strings.Fields(c.args) {
			var v uint32
			if _, err := fmt.Sscanf(text, "%o", &v); err != nil {
				t.Fatal(err)
			}
			data[16+8*uint32(i)] = v
		}
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.want != "" {
			errno := map[string]unix.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}[c.want]
			want = unix.SECCOMP_RET_ERRNO | uint32(errno)
		}
		if got := judge(f, data); got != want {
			t.Errorf("call %d of interface %#x with %s: %#x, want %#x", c.call, c.arch, c.args, got, want)
		}
	}
}

// judge runs a filter.
func judge(f []unix.SockFilter, data map[uint32]uint32) uint32 {
	var a uint32
	for at := 0; ; at++ {
		i, jump := f[at], false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[i.K]
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump = a == i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump = a&i.K != 0
		}
		if at += int(i.Jf); jump {
			at += int(i.Jt) - int(i.Jf)
		}
	}
}
