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
		seen   Observed
		class  Class
		retry  Retry
		actor  Actor
		code   int32
		phrase string
	}{
		"success":          {Observed{}, "", Never, None, 0, "Succeeded"},
		"its own failure":  {Observed{Code: 3, EndedItself: true, End: "failed"}, User, Counted, Owner, 3, "FailedByUser"},
		"nothing is known": {Observed{End: "failed"}, Platform, Counted, Administrator, -310, "PodCreationUnknownError"},
		"transient":        {Observed{Code: 200, End: "failed"}, Transient, Always, None, 200, "ContainerTransientFailed"},
		"conflict":         {Observed{Code: 201}, Conflict, Delayed, None, 201, "ContainerTransientConflictFailed"},
		"permanent":        {Observed{Code: 210}, Permanent, Never, Owner, 210, "ContainerPermanentFailed"},
		"no such library": {Observed{Code: 127, EndedItself: true, End: "failed", LastLine: "a: error while loading shared libraries: libcuda.so.1: " +
			"cannot open shared object file: No such file or directory"}, User, Counted, Owner, 127, "LibraryMissing"},
		"a signal":            {Observed{Code: 139, Signal: 11}, User, Never, Owner, 139, "ContainerSigSegvReceived"},
		"a signal by a shell": {Observed{Code: 139}, User, Never, Owner, 139, "ContainerSigSegvReceived"},
		"killed from outside": {Observed{Code: 137, Signal: 9}, User, Counted, Owner, 137, "ContainerSigKillReceived"},
		"an unlisted signal":  {Observed{Code: 138, Signal: 10}, User, Counted, Owner, 138, "FailedByUser"},
		"out of memory":       {Observed{Code: 137, Signal: 9, Cause: "out of memory"}, Resource, Never, Owner, -1200, "UserContainerDockerOOMKilled"},
		"too many processes":  {Observed{Code: 254, EndedItself: true, Cause: "too many processes"}, Resource, Never, Owner, 254, "TooManyProcesses"},
		"no thread":           {Observed{Code: 1, LastLine: "can't start new thread"}, Resource, Counted, Owner, 1, "TooManyProcesses"},
		"no process":          {Observed{Code: 254, LastLine: "/proc/self/fd/3: fork: Resource temporarily unavailable"}, Resource, Counted, Owner, 254, "TooManyProcesses"},
		"no process, again":   {Observed{Code: 254, LastLine: "bash: fork: retry: Resource temporarily unavailable"}, Resource, Counted, Owner, 254, "TooManyProcesses"},
		"a socket of no data": {Observed{Code: 1, LastLine: "read: Resource temporarily unavailable"}, User, Counted, Owner, 1, "FailedByUser"},
		"node lost":           {Observed{Code: 1, Cause: "node lost"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
		"pod deleted":         {Observed{Code: 143, Signal: 15, Cause: "pod deleted", End: "platform"}, Transient, Always, None, -101, "PodExternalDeleted"},
		"lost, not seen":      {Observed{End: "platform"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
		"refused":             {Observed{Cause: "start refused"}, Platform, Always, Administrator, -1201, "ContainerDockerCreationError"},
		"preempted":           {Observed{Code: 143, Signal: 15, End: "preempted"}, Transient, Always, None, -101, "PodExternalDeleted"},
		"stopped":             {Observed{Code: 143, Signal: 15, End: "stopped"}, User, Never, None, -210, "StopFrameworkRequested"},
		"another task ended":  {Observed{Code: 143, End: "completed"}, Permanent, Never, None, -220, "FrameworkAttemptCompletion"},
		"failed before that":  {Observed{Code: 4, End: "completed", EndedItself: true}, User, Counted, Owner, 4, "FailedByUser"},
		"time limit":          {Observed{Code: 143, End: "time limit"}, Resource, Never, Owner, -1004, "PodDeadlineExceeded"},
		"a missing module":    {Observed{Code: 1, LastLine: "ModuleNotFoundError: No module named 'torch'"}, User, Never, Owner, 232, "ContainerImportError"},
		"GPU memory":          {Observed{Code: 1, LastLine: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"}, Resource, Never, Owner, 226, "ContainerCudaOOMKilled"},
		"shared memory": {Observed{Code: 1, LastLine: "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. " +
			"It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit."},
			Resource, Never, Owner, 1, "TooLittleSharedMemory"},
		"shared memory, of a worker": {Observed{Code: 1, LastLine: "ERROR: Unexpected bus error encountered in worker. " +
			"This might be caused by insufficient shared memory (shm)."}, Resource, Never, Owner, 1, "TooLittleSharedMemory"},
		"GPU memory, of old": {Observed{Code: 1, LastLine: "RuntimeError: cuda runtime error (2) : out of memory at a.cu:58"}, Resource, Never, Owner, 226, "ContainerCudaOOMKilled"},
		"a broken GPU":       {Observed{Code: 1, LastLine: "RuntimeError: CUDA error: uncorrectable ECC error encountered"}, Platform, Always, Administrator, 223, "ContainerCudaUncorrectableECCError"},
		"no such command":    {Observed{Code: 127, LastLine: "bash: line 1: pyton: command not found"}, User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such command, of dash": {Observed{Code: 127, LastLine: "sh: 1: nosuchprog: not found"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such command, of busybox": {Observed{Code: 127, LastLine: "sh: nosuchprog: not found"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such path, of bash": {Observed{Code: 127, LastLine: "line 1: /opt/none: No such file or directory"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such program, of a pod": {Observed{Code: 127, LastLine: "comb: start the task: fork/exec /opt/none: no such file or directory"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"no such program, of PATH": {Observed{Code: 127, LastLine: `comb: start the task: exec: "none": executable file not found in $PATH`},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"may not be looked up": {Observed{Code: 127, LastLine: "sh: 1: /data/prog: Permission denied"},
			User, Never, Owner, 220, "UserCommandExitWithError"},
		"may not be run": {Observed{Code: 126, LastLine: "sh: 1: ./data.txt: Permission denied"},
			User, Never, Owner, 126, "NotStartable"},
		"words without 127":    {Observed{Code: 1, LastLine: "404: not found"}, User, Counted, Owner, 1, "FailedByUser"},
		"127 of its own":       {Observed{Code: 127}, User, Counted, Owner, 127, "FailedByUser"},
		"words of a success":   {Observed{LastLine: "ImportError: caught"}, "", Never, None, 0, "Succeeded"},
		"words of a lost node": {Observed{Code: 1, Cause: "node lost", LastLine: "SyntaxError: x"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
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
		seen  Observed
		class Class
		retry Retry
		means string
	}{
		"all fits":              {Observed{Code: 77, LastLine: "NCCL watchdog timeout"}, Transient, Always, "the network hung"},
		"other words":           {Observed{Code: 77, LastLine: "no"}, User, Counted, "its program failed by itself"},
		"another code":          {Observed{Code: 80, LastLine: "NCCL watchdog timeout"}, User, Counted, "its program failed by itself"},
		"a signal":              {Observed{Code: 138, Signal: 10}, Platform, Always, "the watchdog"},
		"a signal by a shell":   {Observed{Code: 138}, Platform, Always, "the watchdog"},
		"before the table":      {Observed{Code: 139, Signal: 11}, Conflict, Delayed, "crowded"},
		"not of a lost machine": {Observed{Code: 139, Cause: "node lost"}, Platform, Always, "its machine, or what watched it there, was lost"},
		"not of a stop":         {Observed{Code: 139, Signal: 11, End: "stopped"}, User, Never, "a user asked to stop it"},
		"not of a success":      {Observed{}, "", Never, "it did its work"},
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
	seen := Observed{Code: 1, LastLine: "no such thing"}
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
		if c.v.Uncounted(c.tries) != c.free {
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
