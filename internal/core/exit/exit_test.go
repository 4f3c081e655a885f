package exit

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/exit-codes.md anew")

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		seen   Seen
		class  Class
		retry  Retry
		actor  Actor
		code   int32
		phrase string
	}{
		"success":          {Seen{}, "", Never, None, 0, "Succeeded"},
		"its own failure":  {Seen{Code: 3, Own: true, End: "failed"}, User, Counted, Owner, 3, "FailedByUser"},
		"nothing is known": {Seen{End: "failed"}, Platform, Counted, Administrator, -310, "PodCreationUnknownError"},
		"transient":        {Seen{Code: 200, End: "failed"}, Transient, Always, None, 200, "ContainerTransientFailed"},
		"conflict":         {Seen{Code: 201}, Conflict, Delayed, None, 201, "ContainerTransientConflictFailed"},
		"permanent":        {Seen{Code: 210}, Permanent, Never, Owner, 210, "ContainerPermanentFailed"},
		"no such library": {Seen{Code: 127, Own: true, End: "failed", Words: "a: error while loading shared libraries: libcuda.so.1: " +
			"cannot open shared object file: No such file or directory"}, User, Counted, Owner, 127, "LibraryMissing"},
		"a signal":            {Seen{Code: 139, Signal: 11}, User, Never, Owner, 139, "ContainerSigSegvReceived"},
		"a signal by a shell": {Seen{Code: 139}, User, Never, Owner, 139, "ContainerSigSegvReceived"},
		"killed from outside": {Seen{Code: 137, Signal: 9}, User, Counted, Owner, 137, "ContainerSigKillReceived"},
		"an unlisted signal":  {Seen{Code: 138, Signal: 10}, User, Counted, Owner, 138, "FailedByUser"},
		"out of memory":       {Seen{Code: 137, Signal: 9, Cause: "out of memory"}, Resource, Never, Owner, -1200, "UserContainerDockerOOMKilled"},
		"too many processes":  {Seen{Code: 254, Own: true, Cause: "too many processes"}, Resource, Never, Owner, 254, "TooManyProcesses"},
		"no thread":           {Seen{Code: 1, Words: "can't start new thread"}, Resource, Counted, Owner, 1, "TooManyProcesses"},
		"no process":          {Seen{Code: 254, Words: "/proc/self/fd/3: fork: Resource temporarily unavailable"}, Resource, Counted, Owner, 254, "TooManyProcesses"},
		"no process, again":   {Seen{Code: 254, Words: "bash: fork: retry: Resource temporarily unavailable"}, Resource, Counted, Owner, 254, "TooManyProcesses"},
		"a socket of no data": {Seen{Code: 1, Words: "read: Resource temporarily unavailable"}, User, Counted, Owner, 1, "FailedByUser"},
		"node lost":           {Seen{Code: 1, Cause: "node lost"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
		"lost, not seen":      {Seen{End: "platform"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
		"refused":             {Seen{Cause: "start refused"}, Platform, Always, Administrator, -1201, "ContainerDockerCreationError"},
		"preempted":           {Seen{Code: 143, Signal: 15, End: "preempted"}, Transient, Always, None, -101, "PodExternalDeleted"},
		"stopped":             {Seen{Code: 143, Signal: 15, End: "stopped"}, User, Never, None, -210, "StopFrameworkRequested"},
		"another task ended":  {Seen{Code: 143, End: "completed"}, Permanent, Never, None, -220, "FrameworkAttemptCompletion"},
		"failed before that":  {Seen{Code: 4, End: "completed", Own: true}, User, Counted, Owner, 4, "FailedByUser"},
		"time limit":          {Seen{Code: 143, End: "time limit"}, Resource, Never, Owner, -1004, "PodDeadlineExceeded"},
		"a missing module":    {Seen{Code: 1, Words: "ModuleNotFoundError: No module named 'torch'"}, User, Never, Owner, 232, "ContainerImportError"},
		"GPU memory":          {Seen{Code: 1, Words: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"}, Resource, Never, Owner, 226, "ContainerCudaOOMKilled"},
		"shared memory": {Seen{Code: 1, Words: "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. " +
			"It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit."},
			Resource, Never, Owner, 1, "TooLittleSharedMemory"},
		"shared memory, of a worker": {Seen{Code: 1, Words: "ERROR: Unexpected bus error encountered in worker. " +
			"This might be caused by insufficient shared memory (shm)."}, Resource, Never, Owner, 1, "TooLittleSharedMemory"},
		"GPU memory, of old": {Seen{Code: 1, Words: "RuntimeError: cuda runtime error (2) : out of memory at a.cu:58"}, Resource, Never, Owner, 226, "ContainerCudaOOMKilled"},
		"a broken GPU":       {Seen{Code: 1, Words: "RuntimeError: CUDA error: uncorrectable ECC error encountered"}, Platform, Always, Administrator, 223, "ContainerCudaUncorrectableECCError"},
		"no such command":    {Seen{Code: 127, Words: "bash: line 1: pyton: command not found"}, User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such command, of dash": {Seen{Code: 127, Words: "sh: 1: nosuchprog: not found"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such command, of busybox": {Seen{Code: 127, Words: "sh: nosuchprog: not found"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such path, of bash": {Seen{Code: 127, Words: "line 1: /opt/none: No such file or directory"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such program, of a pod": {Seen{Code: 127, Words: "comb: start the task: fork/exec /opt/none: no such file or directory"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such program, of PATH": {Seen{Code: 127, Words: `comb: start the task: exec: "none": executable file not found in $PATH`},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"may not be looked up": {Seen{Code: 127, Words: "sh: 1: /data/prog: Permission denied"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"may not be run": {Seen{Code: 126, Words: "sh: 1: ./data.txt: Permission denied"},
			User, Never, Owner, 126, "NotStartable"},
		"words without 127":    {Seen{Code: 1, Words: "404: not found"}, User, Counted, Owner, 1, "FailedByUser"},
		"127 of its own":       {Seen{Code: 127}, User, Counted, Owner, 127, "FailedByUser"},
		"words of a success":   {Seen{Words: "ImportError: caught"}, "", Never, None, 0, "Succeeded"},
		"words of a lost node": {Seen{Code: 1, Cause: "node lost", Words: "SyntaxError: x"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
	} {
		v := Judge(c.seen)
		if v.Class != c.class || v.Retry != c.retry || v.Actor != c.actor || v.Code != c.code || v.Phrase != c.phrase {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestRules(t *testing.T) {
	rules := []Rule{
		{From: 75, To: 79, Log: "NCCL .* timeout", Ruling: Ruling{Class: Transient, Means: "the network hung", Budget: 3}},
		{Signal: 10, Ruling: Ruling{Class: Platform, Means: "the watchdog", Next: "look at the machine"}},
		{From: 139, To: 139, Ruling: Ruling{Class: Conflict, Means: "crowded"}},
	}
	matcher := Compile(rules)
	for name, c := range map[string]struct {
		seen  Seen
		class Class
		retry Retry
		means string
	}{
		"all fits":              {Seen{Code: 77, Words: "NCCL watchdog timeout"}, Transient, Always, "the network hung"},
		"other words":           {Seen{Code: 77, Words: "no"}, User, Counted, "its program failed by itself"},
		"another code":          {Seen{Code: 80, Words: "NCCL watchdog timeout"}, User, Counted, "its program failed by itself"},
		"a signal":              {Seen{Code: 138, Signal: 10}, Platform, Always, "the watchdog"},
		"a signal by a shell":   {Seen{Code: 138}, Platform, Always, "the watchdog"},
		"before the table":      {Seen{Code: 139, Signal: 11}, Conflict, Delayed, "crowded"},
		"not of a lost machine": {Seen{Code: 139, Cause: "node lost"}, Platform, Always, "its machine, or what watched it there, was lost"},
		"not of a stop":         {Seen{Code: 139, Signal: 11, End: "stopped"}, User, Never, "a user asked to stop it"},
		"not of a success":      {Seen{}, "", Never, "it did its work"},
	} {
		c.seen.Rule = matcher.Match(c.seen)
		v := Judge(c.seen)
		if v.Class != c.class || v.Retry != c.retry || v.Means != c.means || v.Next == "" || (v.Budget == 3) != (c.class == Transient) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if Changes(rules, rules) != nil || len(Changes(nil, rules)) != 1 || len(Changes(rules[:1], rules[1:2])) != 1 {
		t.Error("what changed is not told")
	}
}

// TestMatchCompilesNothing: expressions are compiled when rules are made ready, and not at each end
// they are held to.
func TestMatchCompilesNothing(t *testing.T) {
	var rules []Rule
	for range 100 {
		rules = append(rules, Rule{Log: "(a|b)+c.*d{1,50}", Ruling: Ruling{Class: Transient}})
	}
	m := Compile(append(rules, Rule{Log: "(", Ruling: Ruling{Class: User}}))
	seen := Seen{Code: 1, Words: "no such thing"}
	if m.Match(seen) != nil || len(m) != len(rules) {
		t.Errorf("%d rules", len(m))
	}
	if n := testing.AllocsPerRun(10, func() { m.Match(seen) }); n > float64(len(rules)) {
		t.Errorf("%v allocations for %d rules", n, len(rules))
	}
}

// TestFinal: nobody is told to wait for another try of a job that has ended.
func TestFinal(t *testing.T) {
	for _, e := range Table() {
		a, r, next := Final(e.Actor, e.Retry, e.Next)
		if r != Never || strings.Contains(next, again) || e.Retry != Never && a == None {
			t.Errorf("%s: %s, %s, %s", e.Phrase, a, r, next)
		}
		if e.Retry == Never && (a != e.Actor || next != e.Next) {
			t.Errorf("%s never runs again anyway, and is told otherwise: %s, %s", e.Phrase, a, next)
		}
	}
	if a, r, next := Final(None, Always, "restart the licence server"); a != None || r != Never || next != "restart the licence server" {
		t.Errorf("of a rule: %s, %s, %s", a, r, next)
	}
}

// TestFree: a budget ends tries that do not count; without one they go on.
func TestFree(t *testing.T) {
	for _, c := range []struct {
		v     Verdict
		tries int32
		free  bool
	}{
		{Verdict{Retry: Always}, 1000, true}, {Verdict{Retry: Delayed, Budget: 2}, 1, true}, {Verdict{Retry: Always, Budget: 2}, 2, false},
		{Verdict{Retry: Counted, Budget: 2}, 0, false}, {Verdict{Retry: Never}, 0, false},
	} {
		if c.v.Free(c.tries) != c.free {
			t.Errorf("%+v after %d tries: %v", c.v, c.tries, !c.free)
		}
	}
}

// TestDelay: retries after a conflict are 60 to 900 seconds later, and not all at once.
func TestDelay(t *testing.T) {
	seen := map[int64]bool{}
	for job := range int64(100) {
		d := Delay(job, 1)
		if seen[d] = true; d < 60 || d > 900 {
			t.Errorf("job %d: %d s", job, d)
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d delays", len(seen))
	}
}

// TestTable: every line can be reached or is foreign, and says all that there is to say.
func TestTable(t *testing.T) {
	for _, e := range Table() {
		if e.Means == "" || e.Next == "" || e.Phrase == "" || e.Actor == "" || e.Retry == "" || (e.When == "") != e.Foreign() {
			t.Errorf("%+v leaves something out", e)
		}
		if strings.ContainsAny(e.Means+e.Next+e.When, "|\n") {
			t.Errorf("%s does not fit a table", e.Phrase)
		}
	}
}

const page = "../../../docs/exit-codes.md"

// TestPage: what the page shows is the table.
func TestPage(t *testing.T) {
	has, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var given, foreign strings.Builder
	given.WriteString("| seen | code | name | class | must act | retried | means | what to do |\n|---|---|---|---|---|---|---|---|\n")
	foreign.WriteString("| code | name | class | must act | retried | means | what to do |\n|---|---|---|---|---|---|---|\n")
	for _, e := range Table() {
		code := fmt.Sprint(e.Code)
		if e.Code == 0 {
			code = "its own"
		}
		class := string(e.Class)
		if class == "" {
			class = "-"
		}
		row := fmt.Sprintf("%s | %s | %s | %s | %s | %s | %s |\n", code, e.Phrase, class, e.Actor, e.Retry, e.Means, e.Next)
		if e.Foreign() {
			foreign.WriteString("| " + row)
		} else {
			given.WriteString("| " + e.When + " | " + row)
		}
	}
	want := between(between(string(has), "table", given.String()), "foreign", foreign.String())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(has) {
		t.Errorf("%s is not the table: go test ./internal/core/exit -update", page)
	}
}

// between puts text between two marks of a page.
func between(text, mark, with string) string {
	begin, end := "<!-- "+mark+" -->\n", "<!-- end of "+mark+" -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		panic("no mark " + mark)
	}
	return before + begin + "\n" + with + "\n" + end + after
}

// A plan of a change says how many rules there were, and then how many there are.
func TestChanges(t *testing.T) {
	one, two := []Rule{{From: 1}}, []Rule{{From: 1}, {From: 2}}
	if got := fmt.Sprint(Changes(two, one), Changes(one, two), Changes(one, one)); got != "[exit rules: 2 -> 1, for ends from then on] [exit rules: 1 -> 2, for ends from then on] []" {
		t.Error(got)
	}
}
