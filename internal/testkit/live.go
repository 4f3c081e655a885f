package testkit

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Worlds are what a machine may have beside Go, and tests need. A run of tests has those that
// -live names; each has a make target that brings what it needs.
var Worlds = []string{"container", "kube", "pai", "provider", "python", "torch"}

var live = flag.String("live", "", "what this machine has beside Go, of "+strings.Join(Worlds, ", ")+
	", joined by commas: tests that need more do nothing")

// Live says whether this run of the tests has a world. Where it has not the test ends at once, and
// prints that: the make target of that world runs it.
func Live(t testing.TB, world string) bool {
	t.Helper()
	if !slices.Contains(Worlds, world) {
		t.Fatalf("%q is no world: %v", world, Worlds)
	}
	if *live == "" {
		return false
	}
	has := strings.Split(*live, ",")
	for _, w := range has {
		if !slices.Contains(Worlds, w) {
			t.Fatalf("-live %s: %q is none of %s", *live, w, strings.Join(Worlds, ", "))
		}
	}
	if !slices.Contains(has, world) {
		fmt.Printf("not run: %s needs -live %s\n", t.Name(), world)
	}
	return slices.Contains(has, world)
}
