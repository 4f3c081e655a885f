// Package enginetest gives tests a container engine of their own, in namespaces of its
// own: what the engine does to networks, mounts and processes ends with the test. Nothing
// but tests may import it.
package enginetest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	apartDir = "ENGINE_TEST_DIR" // set: this process is in namespaces of its own, and may use that folder
	packages = "docker.io iptables busybox-static util-linux"
)

// programs are what an engine of Debian and its images are made of.
func programs() []string {
	return []string{"dockerd", "containerd", "runc", "iptables", "busybox", "unshare", "nsenter"}
}

// Main runs the tests of a package in namespaces of their own: processes, mounts and
// network. It returns the exit code, and says what is missing where that is impossible.
func Main(m *testing.M) int {
	if os.Getenv(apartDir) != "" {
		return m.Run()
	}
	if err := possible(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("/tmp", "comb-engine-") // a socket's path may not be long
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := goApart(dir)
	removeGroups(filepath.Base(dir))
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func possible() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("tests with containers start an engine and need root: sudo make test-container")
	}
	missing := slices.DeleteFunc(programs(), func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	if len(missing) > 0 {
		return fmt.Errorf("tests with containers need %s: apt-get install %s", strings.Join(missing, ", "), packages)
	}
	return static("busybox")
}

// static refuses a program with libraries: an image of it alone would not run.
func static(name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s needs libraries, and images are made of it alone: apt-get install busybox-static", path)
	}
	return nil
}

// ownDevices lays a folder of this mount namespace over /dev, so that a device file that a test
// makes is in no other's way.
const ownDevices = `
own="$ENGINE_TEST_DIR/devices"
mkdir "$own" && mount -t tmpfs tmpfs "$own" && mkdir "$own/upper" "$own/work" "$own/all" || exit 1
mount -t overlay -o "lowerdir=/dev,upperdir=$own/upper,workdir=$own/work" overlay "$own/all" || exit 1
for dir in /dev/*; do
  if mountpoint -q "$dir"; then mount --rbind "$dir" "$own/all/${dir#/dev/}" || exit 1; fi
done
mount --move "$own/all" /dev || exit 1
`

// goApart runs this program again. The shell is process 1 there and takes the exits of
// those that lost their parent; when it ends the kernel kills all others.
func goApart(dir string) int {
	args := []string{"--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--",
		"/bin/sh", "-c", ownDevices + `busybox ip link set lo up || exit 1; "$@"; exit $?`, "apart", os.Args[0]}
	runtime.LockOSThread() // Pdeathsig is sent at the end of this thread
	cmd := exec.Command("unshare", append(args, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), apartDir+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// removeGroups removes the control groups of an engine whose processes are dead. Those of
// this machine are not in a namespace.
func removeGroups(name string) {
	for range 20 {
		tops, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", name))
		tops = append(tops, filepath.Join("/sys/fs/cgroup", name))
		left := false
		for _, top := range tops {
			var dirs []string
			_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			slices.Reverse(dirs) // children first
			for _, dir := range dirs {
				left = os.Remove(dir) != nil || left
			}
		}
		if !left {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
