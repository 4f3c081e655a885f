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
		"success":              {Seen{}, "", Never, None, 0, "Succeeded"},
		"its own failure":      {Seen{Code: 3, Own: true, End: "failed"}, User, Counted, Owner, 3, "FailedByUser"},
		"nothing is known":     {Seen{End: "failed"}, Platform, Counted, Administrator, -310, "PodCreationUnknownError"},
		"transient":            {Seen{Code: 200, End: "failed"}, Transient, Always, None, 200, "ContainerTransientFailed"},
		"conflict":             {Seen{Code: 201}, Conflict, Delayed, None, 201, "ContainerTransientConflictFailed"},
		"permanent":            {Seen{Code: 210}, Permanent, Never, Owner, 210, "ContainerPermanentFailed"},
		"a signal":             {Seen{Code: 139, Signal: 11}, User, Never, Owner, 139, "ContainerSigSegvReceived"},
		"a signal by a shell":  {Seen{Code: 139}, User, Never, Owner, 139, "ContainerSigSegvReceived"},
		"killed from outside":  {Seen{Code: 137, Signal: 9}, User, Counted, Owner, 137, "ContainerSigKillReceived"},
		"an unlisted signal":   {Seen{Code: 138, Signal: 10}, User, Counted, Owner, 138, "FailedByUser"},
		"out of memory":        {Seen{Code: 137, Signal: 9, Cause: "out of memory"}, Resource, Never, Owner, -1200, "UserContainerDockerOOMKilled"},
		"node lost":            {Seen{Code: 1, Cause: "node lost"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
		"lost, not seen":       {Seen{End: "platform"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
		"refused":              {Seen{Cause: "start refused"}, Platform, Always, Administrator, -1201, "ContainerDockerCreationError"},
		"preempted":            {Seen{Code: 143, Signal: 15, End: "preempted"}, Transient, Always, None, -101, "PodExternalDeleted"},
		"stopped":              {Seen{Code: 143, Signal: 15, End: "stopped"}, User, Never, None, -210, "StopFrameworkRequested"},
		"another task ended":   {Seen{Code: 143, End: "completed"}, Permanent, Never, None, -220, "FrameworkAttemptCompletion"},
		"failed before that":   {Seen{Code: 4, End: "completed", Own: true}, User, Counted, Owner, 4, "FailedByUser"},
		"time limit":           {Seen{Code: 143, End: "time limit"}, Resource, Never, Owner, -1004, "PodDeadlineExceeded"},
		"a missing module":     {Seen{Code: 1, Words: "ModuleNotFoundError: No module named 'torch'"}, User, Never, Owner, 232, "ContainerImportError"},
		"GPU memory":           {Seen{Code: 1, Words: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"}, Resource, Never, Owner, 226, "ContainerCudaOOMKilled"},
		"GPU memory, of old":   {Seen{Code: 1, Words: "RuntimeError: cuda runtime error (2) : out of memory at a.cu:58"}, Resource, Never, Owner, 226, "ContainerCudaOOMKilled"},
		"a broken GPU":         {Seen{Code: 1, Words: "RuntimeError: CUDA error: uncorrectable ECC error encountered"}, Platform, Always, Administrator, 223, "ContainerCudaUncorrectableECCError"},
		"no such command":      {Seen{Code: 127, Words: "bash: line 1: pyton: command not found"}, User, Never, Owner, 220, "UserCommandExitWithError"},
		"127 of its own":       {Seen{Code: 127}, User, Counted, Owner, 127, "FailedByUser"},
		"words of a success":   {Seen{Words: "ImportError: caught"}, "", Never, None, 0, "Succeeded"},
		"words of a lost node": {Seen{Code: 1, Cause: "node lost", Words: "SyntaxError: x"}, Platform, Always, Administrator, -1001, "PodNodeLost"},
	} {
		v := Judge(&c.seen)
		if v.Class != c.class || v.Retry != c.retry || v.Actor != c.actor || v.Code != c.code || v.Phrase != c.phrase {
			t.Errorf("%s: %+v", name, v)
		}
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

const page = "../../docs/exit-codes.md"

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
		t.Errorf("%s is not the table: go test ./internal/exit -update", page)
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
