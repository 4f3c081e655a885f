package containers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// longAgo has the server believe that images were last used then: the first of the list first.
func (w *world) longAgo(ids ...string) {
	w.Helper()
	w.server.Kill()
	path := filepath.Join(w.dir, "data", "jobs", "images.json")
	var book struct {
		Asked  map[string]bool           `json:"asked,omitempty"`
		Images map[string]map[string]any `json:"images"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &book)
	}
	if err != nil {
		w.Fatal(err)
	}
	for i, id := range ids {
		if book.Images[id] == nil {
			w.Fatalf("the image %s is not known: %s", id, data)
		}
		book.Images[id]["used"] = 1_700_000_000 + i
	}
	if data, err = json.Marshal(book); err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.start()
}

// stored returns the images of the machine by name.
func (w *world) stored() map[string]rest.Image {
	w.Helper()
	list, err := w.client.Images(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]rest.Image{}
	for _, i := range list.Images {
		for _, name := range i.Names {
			out[name] = i
		}
	}
	return out
}

// Images are listed with what uses them, fetched beforehand, and removed beyond a budget: never
// what a container uses, what was used lately, or what could not be fetched again.
func TestImageStock(t *testing.T) {
	w, h := newWorld(t, plain), newHub(t)
	names := []string{h.ref("team/a:1"), h.ref("team/b:1"), h.ref("team/c:1")}
	for _, name := range names {
		w.engine.Import(name, map[string]string{"etc/motd": name}, `CMD ["/bin/sh"]`)
		w.engine.Push(name, "", "")
		if out, errs, code := w.cli("image", "pull", name); code != 0 || !strings.Contains(out, "the image "+name+" was fetched: 1 layers") {
			t.Fatalf("pull %s: %d %s%s", name, code, out, errs)
		}
	}
	if _, errs, code := w.cli("image", "pull", h.ref("team/none:1")); code == 0 || !strings.Contains(errs, "is not in its registry") {
		t.Errorf("pull of none: %d %s", code, errs)
	}
	before := h.copies()
	ref := w.submit(with("uses", names[2], "while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done"))
	w.until(ref, "it runs", running(1))
	if n := h.copies(); n != before {
		t.Errorf("what was fetched beforehand was read again")
	}
	m := w.stored()[names[2]]
	if len(m.Jobs) != 1 || rest.JobRef(m.Jobs[0]) != ref || m.Stays != "in use" || !m.Public || m.Used == 0 {
		t.Errorf("the image of job %s is %+v", ref, m)
	}
	if m := w.stored()[image]; m.Stays != "of no registry" {
		t.Errorf("the image that was made here is %+v", m)
	}
	list, _, _ := w.cli("image", "list")
	history, _, code := w.cli("image", "history", names[2])
	if !strings.Contains(list, names[0]) || !strings.Contains(list, "used lately") || !strings.Contains(list, "of layers, each once, stored by") || code != 0 || !strings.Contains(history, "MB") {
		t.Errorf("%s\n%s", list, history)
	}
	t.Logf("\n%s\n%s", list, history)
	if _, errs, code := w.cli("image", "history", "local.test/none:1"); code != 3 || !strings.Contains(errs, "there is no such image on this machine") {
		t.Errorf("history of none: %d %s", code, errs)
	}
	if out, _, _ := w.cli("image", "prune", "--keep", "0"); !strings.Contains(out, "nothing is removed") {
		t.Errorf("what was used lately: %s", out)
	}
	if _, errs, code := w.cli("image", "prune"); code == 0 || !strings.Contains(errs, "has no --image-budget") {
		t.Errorf("prune without a budget: %d %s", code, errs)
	}
	a, b := w.stored()[names[0]].ID, w.stored()[names[1]].ID
	w.longAgo(b, a, m.ID)
	out, errs, _ := w.cli("image", "prune", "--keep", "0")
	if first, second := strings.Index(out, names[1]), strings.Index(out, names[0]); first < 0 || second < first || strings.Contains(out, names[2]) || strings.Contains(out, image) {
		t.Errorf("removed: %s%s", out, errs)
	}
	if left := w.stored(); len(left) != 2 || w.engine.Has(names[0]) || !w.engine.Has(names[2]) {
		t.Errorf("left: %+v", left)
	}
	w.letGo(ref)
	w.ends(ref)

	w.cli("image", "pull", names[0])
	w.server.Args = append(w.server.Args, "--image-budget", "1Mi")
	w.longAgo(a, m.ID)
	w.cli("image", "pull", names[1])
	testkit.WaitFor(t, func() string { return fmt.Sprintf("nothing is beyond the budget: %+v\n%s", w.stored(), w.log()) },
		func() bool { return !w.engine.Has(names[0]) && !w.engine.Has(names[2]) })
	if !w.engine.Has(names[1]) || !w.engine.Has(image) {
		t.Errorf("left: %+v", w.stored())
	}
	w.noContainers()
}
