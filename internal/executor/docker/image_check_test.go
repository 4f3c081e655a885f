package docker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What an image says of itself is judged before a container of it is made to be looked at.
func TestSane(t *testing.T) {
	many := func(n int, text string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(text, i))
		}
		return list
	}
	places := []string{"/comb", "/mnt", "/proc", "/sys", "/dev"}
	for name, c := range map[string]struct {
		volumes, env []string
		says         string // "" is that nothing is wrong
	}{
		"a usual one":      {[]string{"/data", "/var/lib/x", "/combs", "/etcetera"}, many(1000, "V%d="), ""},
		"the top folder":   {[]string{"/comb"}, nil, `its VOLUME "/comb" is in a place that containers need themselves: use one without`},
		"in it":            {[]string{"/comb/private/x"}, nil, `its VOLUME "/comb/private/x" is in a place`},
		"by dots":          {[]string{"/tmp/../comb/locks"}, nil, `its VOLUME "/tmp/../comb/locks" is in a place`},
		"without a slash":  {[]string{"comb"}, nil, `its VOLUME "comb" is in a place`},
		"a storage":        {[]string{"/ok", "/mnt/data/x"}, nil, `its VOLUME "/mnt/data/x" is in a place`},
		"the system's":     {[]string{"/proc/self"}, nil, `its VOLUME "/proc/self" is in a place`},
		"users":            {[]string{"/etc"}, nil, `its VOLUME "/etc" is in a place`},
		"all":              {[]string{"/"}, nil, `its VOLUME "/" is in a place`},
		"a zero byte":      {[]string{"/x\x00"}, nil, "is in a place"},
		"as many volumes":  {many(32, "/v%d"), nil, ""},
		"too many volumes": {many(33, "/v%d"), nil, "it has 33 VOLUMEs, more than 32: use one with fewer"},
		"many variables":   {nil, many(1001, "V%d="), "its ENV has 1001 variables"},
		"a long variable":  {nil, []string{"V=" + strings.Repeat("x", longestEnv)}, "its ENV has 1 variables of 131073 bytes together, more than 1000 or 131071"},
		"as long as may":   {nil, []string{"V=" + strings.Repeat("x", longestEnv-2)}, ""},
		"a zero in one":    {nil, []string{"V=\x00"}, "its ENV has a zero byte"},
	} {
		err := (&Image{Volumes: c.volumes, Env: c.env}).sane(slices.Clone(places))
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
}

// No word of what an image runs by itself is longer than Linux takes it.
func TestWordsOfImages(t *testing.T) {
	for n, says := range map[int]string{128<<10 - 1: "", 128 << 10: "a zero byte, or more than 1000 words or 131071 bytes"} {
		err := (&Image{Runs: []string{strings.Repeat("x", n)}}).sane(nil)
		if says == "" && err != nil || says != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%d bytes: %v, want %q", n, err, says)
		}
	}
}

// However many parts the paths of an image's VOLUMEs have, so many are looked at: each look is a
// question to the engine.
func TestLongPaths(t *testing.T) {
	asked, gone := 0, false
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"Id": "x"}`)
		case r.Method == http.MethodHead && strings.HasSuffix(r.URL.Path, "/containers/look/archive"):
			asked++
			stat := fmt.Sprintf(`{"name": "x", "mode": %d}`, uint32(fs.ModeDir|0o755))
			w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(stat)))
		case strings.HasSuffix(r.URL.Path, "/containers/look/json"):
			fmt.Fprint(w, `{"Id": "x"}`)
		case r.Method == http.MethodDelete:
			gone = true
		}
	})
	image := &Image{ID: "sha256:1"}
	for i := range mostVolumes {
		image.Volumes = append(image.Volumes, fmt.Sprintf("/v%d%s", i, strings.Repeat("/x", 20)))
	}
	for range 2 { // the second time it is known
		if err := e.Fits(t.Context(), image, "look", "/comb"); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "have more than 512 parts") {
			t.Errorf("%v", err)
		}
	}
	if asked != mostSteps || !gone {
		t.Errorf("%d parts were looked at, and the container is gone: %v", asked, gone)
	}
}

// Where a file of the image is hidden, all is hidden besides that the engine hides by itself, also
// what no engine of today does. Else nothing is said of it.
func TestHidden(t *testing.T) {
	var made []string // by its name, what is to be hidden
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			var body struct {
				HostConfig struct{ MaskedPaths []string }
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			made = append(made, r.URL.Query().Get("name")+": "+strings.Join(body.HostConfig.MaskedPaths, " "))
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"Id": "x"}`)
		case strings.HasSuffix(r.URL.Path, "/containers/look/json"):
			fmt.Fprint(w, `{"Id": "x", "HostConfig": {"MaskedPaths": ["/proc/kcore", "/proc/tomorrow"]}}`)
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	if got := e.Masked(); got != nil {
		t.Errorf("before a look: %q", got)
	}
	if err := e.Fits(t.Context(), &Image{ID: "sha256:1"}, "look", "/comb"); err != nil {
		t.Fatal(err)
	}
	for name, hidden := range map[string][]string{"plain": nil, "hides": {"/etc/ld.so.preload"}} {
		b := &Box{Name: name, Image: "sha256:1", Command: []string{"/x"}, Masked: e.Masked(), Hidden: hidden}
		if err := e.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(made)
	all := slices.Sorted(slices.Values(append(masked(), "/etc/ld.so.preload", "/proc/tomorrow")))
	want := []string{"hides: " + strings.Join(all, " "), "look: ", "plain: "}
	if !slices.Equal(made, want) {
		t.Errorf("made %q, want %q", made, want)
	}
}
