package mutant

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	which = flag.String("mutants", "", "all, or the names of faults to plant, joined by commas; empty is a few that are caught fast")
	every = flag.Bool("every", false, "ask every detector, also when one has caught the fault already")
)

// root is the module's folder.
const root = "../../.."

// detector is a part of the suite that may catch a fault.
type detector struct {
	name string
	of   string   // the only folder or file whose faults it can see; "" is all
	args []string // of go test
	long bool     // it takes minutes: that it does not end in time says nothing
}

// detectors, the fastest first.
var detectors = []detector{
	{"link", kube + "link/", []string{"./" + kube + "link"}, false},
	{"kube", kube, []string{"./" + kube, "-skip", "^TestFaultsOfTheAPI$", "-failfast"}, false},
	{"kube faults", kube, []string{"./" + kube, "-run", "^TestFaultsOfTheAPI$"}, true},
	{"machine", "internal/core/cell/", []string{"./internal/core/cell", "-run", "^TestMachine$", "-rapid.nofailfile", "-rapid.shrinktime=1s"}, false},
	{"exhaustive", "", []string{"./internal/core", "-run", "^TestExhaustive$", "-args", "-depth", "4"}, false},
	{"cell", "internal/core/cell/", []string{"./internal/core/cell", "-skip", "^TestMachine$", "-short"}, false},
	{"core", "", []string{"./internal/core", "-skip", "^TestExhaustive$", "-short"}, false},
	{"turns", "internal/core/model/rotation.go", []string{"./internal/core/model"}, false},
	{"policy", "internal/core/policy/", []string{"./internal/core/policy/...", "-short"}, false},
	{"recovery", "internal/core/state/snapshot.go", []string{"./internal/engine", "-run", "^TestOriginsOutliveTheServer$"}, false},
	{"engine", "internal/core/state/policy_fault.go", []string{"./internal/engine", "-run", "^TestPolicyUnmadeAtStart$"}, false},
	{"scripts", "", []string{"./internal/sim/script", "-run", "^Test(Scripts|OnceFailed)$"}, false},
	{"deep", "", []string{"./internal/core", "-run", "^TestExhaustive$", "-args", "-depth", "6"}, true},
	{"crowds", "", []string{"./internal/sim/script", "-run", "^Test(Crowded|Promised)Seeds$", "-args", "-seeds", "1:300", "-first"}, true},
	{"moves", "", []string{"./internal/sim/script", "-run", "^TestMovingSeeds$", "-args", "-seeds", "1:1200", "-first"}, true},
	{"sharing seeds", "", []string{"./internal/sim/script", "-run", "^TestSharedSeeds$", "-args", "-seeds", "1:1200", "-first"}, true},
	{"seeds", "", []string{"./internal/sim/script", "-run", "^TestSeeds$", "-args", "-seeds", "1:1000", "-first"}, true},
}

// A fault whose place is gone proves nothing: the table must follow the code.
func TestFaultsHaveTheirPlace(t *testing.T) {
	names := map[string]bool{}
	for _, f := range faults {
		if _, err := f.plant(); err != nil {
			t.Error(err)
		}
		if names[f.name] {
			t.Errorf("two faults are called %q", f.name)
		}
		names[f.name] = true
	}
	if len(faults) < 20 {
		t.Errorf("%d faults are too few", len(faults))
	}
}

// The page of tests says of each fault what catches it.
func TestFaultsAreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if !bytes.Contains(page, []byte("\n| "+f.name+" | `internal/")) {
			t.Errorf("docs/testing.md does not say what catches the fault %q", f.name)
		}
	}
}

// Each planted fault makes some part of the suite fail.
func TestFaultsAreCaught(t *testing.T) {
	chosen := map[string]bool{}
	for _, n := range strings.Split(*which, ",") {
		chosen[n] = true
	}
	var report strings.Builder
	for _, f := range faults {
		if *which == "all" || chosen[f.name] || *which == "" && f.fast && !testing.Short() {
			line := f.hunt(t)
			t.Log(line)
			report.WriteString(line + "\n")
		}
	}
	t.Logf("the table for docs/testing.md:\n%s", report.String())
}

// place matches what a fault replaces, wherever its lines are broken inside.
func (f *fault) place() *regexp.Regexp {
	words := strings.Fields(f.old)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	inside := strings.TrimSpace(f.old)
	before, after, _ := strings.Cut(f.old, inside)
	return regexp.MustCompile(regexp.QuoteMeta(before) + strings.Join(words, `\s+`) + regexp.QuoteMeta(after))
}

// plant returns the source file with the fault in it.
func (f fault) plant() ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, f.file))
	if err != nil {
		return nil, err
	}
	at := f.place().FindAllIndex(src, 2)
	if len(at) != 1 {
		return nil, fmt.Errorf("fault %q: its place is found %d times in %s, want once: change the table:\n%s", f.name, len(at), f.file, f.old)
	}
	return slices.Concat(src[:at[0][0]], []byte(f.new), src[at[0][1]:]), nil
}

// hunt plants a fault and runs one detector after the other; it returns what is
// worth telling, as a line of a table.
func (f fault) hunt(t *testing.T) string {
	src, err := f.plant()
	if err != nil {
		t.Error(err)
		return ""
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	place, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := json.Marshal(map[string]map[string]string{"Replace": {place: mutated}})
	if err := os.WriteFile(mutated, src, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, paths, 0o600); err != nil {
		t.Fatal(err)
	}
	var caught []string
	for _, d := range detectors {
		if !strings.HasPrefix(f.file, d.of) || strings.HasPrefix(f.file, kube) && !strings.HasPrefix(d.of, kube) {
			continue
		}
		if found := d.ask(t, f, overlay); found != "" {
			caught = append(caught, found)
			if !*every {
				break
			}
		}
	}
	if len(caught) == 0 {
		t.Errorf("nothing catches the fault %q (%s)", f.name, f.file)
		caught = []string{"nothing"}
	}
	return fmt.Sprintf("| %s | `%s` | %s |", f.name, f.file, strings.Join(caught, ", "))
}

var (
	aSeed  = regexp.MustCompile(`seed (\d+):`)
	aCheck = regexp.MustCompile(`failed after (\d+) tests`)
)

// ask runs a detector on the source with the fault; it returns "" when it passes,
// else its name, how long it took and how many random runs.
func (d detector) ask(t *testing.T, f fault, overlay string) string {
	begin := time.Now()
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=12m", "-overlay=" + overlay}, d.args...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	took := time.Since(begin).Round(100 * time.Millisecond)
	if err == nil {
		return ""
	}
	text := string(out)
	if strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]") || !strings.Contains(text, "FAIL") {
		t.Errorf("fault %q is not Go, or the tests cannot run: change the table:\n%s", f.name, text)
		return ""
	}
	late := strings.Contains(text, "test timed out")
	if late && d.long {
		t.Logf("fault %q: %s did not end in time", f.name, d.name)
		return ""
	}
	note := fmt.Sprintf("%s (%s", d.name, took)
	if late {
		note += ", it went on for ever"
	}
	if m := aCheck.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		note += fmt.Sprintf(", history %d", n+1)
	}
	least := 0
	for _, m := range aSeed.FindAllStringSubmatch(text, -1) {
		if n, _ := strconv.Atoi(m[1]); least == 0 || n < least {
			least = n
		}
	}
	if least > 0 {
		note += ", seed " + strconv.Itoa(least)
	}
	return note + ")"
}
