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
	has, err := Has(world)
	if err != nil {
		t.Fatal(err)
	}
	if !has {
		fmt.Printf("not run: %s needs -live %s\n", t.Name(), world)
	}
	return has
}

// Has is Live for a TestMain, which has parsed the flags. The error is about a world that is none.
func Has(world string) (bool, error) {
	var has []string
	if *live != "" {
		has = strings.Split(*live, ",")
	}
	for _, w := range append(has, world) {
		if !slices.Contains(Worlds, w) {
			return false, fmt.Errorf("-live %s: %q is none of %s", *live, w, strings.Join(Worlds, ", "))
		}
	}
	return slices.Contains(has, world), nil
}
