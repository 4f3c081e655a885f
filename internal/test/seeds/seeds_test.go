package seeds

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Slices that follow each other cover every seed once, whatever their size.
func TestSlices(t *testing.T) {
	for _, modest := range []uint64{1, 12, 40, 299, 300, 301, 3000} {
		next := uint64(1)
		for _, s := range []string{"1:1", "2:7", "8:300", "301:310", "311:5000"} {
			from, to, err := slice(s, modest)
			if err != nil || from != next || to+1 < from {
				t.Fatalf("modest %d: %s is %d to %d, %v; want from %d", modest, s, from, to, err, next)
			}
			next = to + 1
		}
		if _, to, err := slice("5000", modest); err != nil || to+1 != next {
			t.Errorf("modest %d: in one it ends at %d, in slices at %d, %v", modest, to, next-1, err)
		}
	}
	for _, bad := range []string{"0", "x", "3:2", "1:", ":4", "-1", "1:2:3", "99999999999999"} {
		if _, _, err := slice(bad, 300); err == nil {
			t.Errorf("-seeds %s is accepted", bad)
		}
	}
	if from, to, err := slice("", 40); from != 1 || to != 40 || err != nil {
		t.Errorf("without -seeds: %d to %d, %v", from, to, err)
	}
}

// Flag names a slice in which a seed is, and where a slice can be as small, it alone.
func TestFlag(t *testing.T) {
	for _, modest := range []uint64{1, 12, 37, 75, 200, 300, 1000} {
		for seed := uint64(1); seed < 2000; seed += 7 {
			flag := Flag(seed, modest)
			from, to, err := slice(strings.TrimPrefix(flag, "-seeds "), modest)
			if err != nil || from > seed || to < seed || modest <= Unit && from != to {
				t.Fatalf("modest %d: seed %d is in %s, which is %d to %d, %v", modest, seed, flag, from, to, err)
			}
		}
	}
}

// random is what draws histories; from a constant seed it draws one fixed input.
var random = regexp.MustCompile(`rand\.NewPCG\([a-z]|rapid\.Check\(`)

// takesSeeds is how the Makefile finds the random tests.
var takesSeeds = regexp.MustCompile(`seeds\.(Of|Range)\(t, |modest\(t, `)

// Every file of random tests takes its seeds from here, so that make soak, which
// runs the packages that do, runs them all.
func TestAllRandomTestsTakeSeeds(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.Contains(path, filepath.Join("internal", "seeds")) {
			return err
		}
		src, err := os.ReadFile(path)
		text := string(src)
		if !random.MatchString(text) {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if found++; !takesSeeds.MatchString(text) {
			t.Errorf("%s draws random numbers and takes no seeds: use seeds.Of", name)
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d files of random tests found: %v", found, err)
	}
}
