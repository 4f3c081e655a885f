package docker

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func TestMostOfALimit(t *testing.T) {
	const limits = `Limit                     Soft Limit           Hard Limit           Units
Max stack size            8388608              unlimited            bytes
Max open files            1024                 20000                files
Max locked memory         8388608              8388608              bytes
`
	for name, want := range map[string]int64{"nofile": 20000, "memlock": 8388608, "stack": Unlimited} {
		if got := hardLimit(limits, name); got != want {
			t.Errorf("%s: %d, not %d", name, got, want)
		}
	}
	for status, want := range map[string]bool{
		"CapEff:\t000001ffffffffff\n": true, "CapEff:\t000001fffeffffff\n": false, "": false} {
		if got := mayExceed("Name:\tdockerd\n" + status); got != want {
			t.Errorf("%q: %v", status, got)
		}
	}
	for _, c := range []struct {
		value, most int64
		want        bool
	}{{Unlimited, Unlimited, false}, {5, Unlimited, false}, {Unlimited, 5, true}, {6, 5, true}, {5, 5, false}} {
		if got := Exceeds(c.value, c.most); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// No engine gives more open files than its kernel allows, whatever it may do besides.
func TestMostFilesOfTheKernel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nr_open")
	if got := kernelFiles(path); got != Unlimited {
		t.Errorf("a file that is not there says %d", got)
	}
	if err := os.WriteFile(path, []byte("1048576\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := kernelFiles(path); got != 1048576 {
		t.Errorf("it says %d", got)
	}
	all := kernelFiles("/proc/sys/fs/nr_open")
	if all <= 0 {
		t.Fatalf("this kernel allows %d", all)
	}
	here := fake(t, func(http.ResponseWriter, *http.Request) {}) // this process
	for name, e := range map[string]*Engine{"not known": {}, "this one": here} {
		if got := e.Most("nofile"); got <= 0 || got > all {
			t.Errorf("an engine that is %s gives %d files, of %d", name, got, all)
		}
	}
	if got := (&Engine{}).Most("stack"); got != Unlimited {
		t.Errorf("of an engine that is not known the stack has %d", got)
	}
}

// An engine says in words only which limit it could not give.
func TestLimitInWords(t *testing.T) {
	for words, want := range map[string]string{
		"OCI runtime create failed: error setting rlimits for ready process: error setting " +
			"rlimit type 7: operation not permitted": "nofile",
		"error setting rlimit type 8: operation not permitted":    "memlock",
		"crun: setrlimit `RLIMIT_STACK`: Operation not permitted": "stack",
		"error setting rlimit type 77: operation not permitted":   "",
		"no space left on device":                                 "",
	} {
		if got := LimitOf(words); got != want {
			t.Errorf("%q is of %q, not of %q", words, got, want)
		}
	}
}
