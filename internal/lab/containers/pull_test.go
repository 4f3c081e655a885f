//go:build container

package containers

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// noticed reports whether a job was told something.
func noticed(j *rest.Job, text string) bool {
	return strings.Contains(strings.Join(j.Notices, "\n"), text)
}

// ends waits for the end of a job of one task and returns how it ended.
func (w *world) ends(ref string) *rest.Job {
	w.Helper()
	return w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
}

// An image that is not on the machine is fetched, by tag and by digest, once for all tasks that wait for it. Later
// attempts run what the first ran, also when the tag means something else by then and the machine has forgotten it.
func TestPull(t *testing.T) {
	w, h := newWorld(t, plain), newHub(t)
	first, again := h.ref("team/box:1"), strings.Replace(with("again", h.ref("team/box:1"),
		"cat /etc/motd", "test -e /comb/checkpoint/ran && exit 0", "touch /comb/checkpoint/ran; while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done", "exit 9"),
		"name: again", "name: again\njobRetryCount: 1", 1)
	w.engine.Import(first, map[string]string{"etc/motd": "first"})
	w.engine.Push(first, "", "")
	h.set(func() { h.rate = 400_000 })

	ref := w.submit(strings.Replace(with("eight", first, "cat /etc/motd"), "    dockerImage: box", "    instances: 8\n    dockerImage: box", 1))
	if j := w.ends(ref); j.Phase != sched.Succeeded || !noticed(j, "is being fetched: ") || !noticed(j, "was fetched: 1 layers") {
		t.Errorf("it is %s and was told %q", j.Phase, j.Notices)
	} else {
		t.Logf("told: %q", j.Notices)
	}
	if n := h.copies(); n != 1 {
		t.Errorf("8 tasks read a layer %d times", n)
	}
	h.set(func() { h.rate = 0 })
	ref = w.submit(again)
	j := w.until(ref, "it runs", running(1))
	digest := ""
	for _, text := range j.Notices {
		if _, after, ok := strings.Cut(text, "@"); ok {
			digest = strings.TrimSpace(after)
		}
	}
	w.engine.Import(first, map[string]string{"etc/motd": "second"})
	w.engine.Push(first, "", "")
	w.engine.Forget(h.ref("team/box@" + digest))
	w.letGo(ref)
	if j := w.ends(ref); j.Phase != sched.Succeeded {
		t.Errorf("the later attempt is %s: %+v", j.Phase, j.Tasks[0].Exit)
	}
	if out, _, _ := w.cli("job", "logs", ref); out != "first" {
		t.Errorf("the later attempt printed %q", out)
	}
	for name, want := range map[string]string{first: "second", h.ref("team/box@" + digest): "first"} {
		ref := w.submit(with("names", name, "cat /etc/motd"))
		w.ends(ref)
		if out, _, _ := w.cli("job", "logs", ref); out != want {
			t.Errorf("%s printed %q, want %s", name, out, want)
		}
	}
	for name, says := range map[string]string{
		h.ref("team/box:2"):  "is not in its registry",
		h.ref("team/none:1"): "is not in its registry",
		h.ref("team/box@sha256:" + strings.Repeat("0", 64)): "is not in its registry",
		"sha256:" + strings.Repeat("0", 64):                 "an ID cannot be fetched",
	} {
		j := w.ends(w.submit(with("wrong", name, "true")))
		if x := j.Tasks[0].Exit; j.Phase != sched.Failed || x == nil || x.Code != 126 || !strings.Contains(x.Message, says) {
			t.Errorf("%s: %s with %+v, want %q", name, j.Phase, x, says)
		}
	}
}
