package portal

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func get(p *Portal, path, accept string) (bool, *httptest.ResponseRecorder) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	if !p.Serves(r) {
		return false, w
	}
	p.ServeHTTP(w, r)
	return true, w
}

var tiny = of(fstest.MapFS{
	"index.html":     {Data: []byte(`<meta property="csp-nonce" nonce="NONCE_OF_THE_ANSWER"><script src="/assets/a.js"></script>`)},
	"scheme.js":      {Data: []byte("1")},
	"assets/a-1f.js": {Data: []byte("2")},
})

func TestServes(t *testing.T) {
	for _, c := range []struct {
		path, accept string
		want         bool
	}{
		{"/", "text/html", true},
		{"/jobs/alice~train", "text/html,*/*", true},
		{"/assets/a-1f.js", "*/*", true},
		{"/scheme.js", "*/*", true},
		{"/jobs/7", "*/*", false},                   // no browser that opens a page
		{"/assets/gone.js", "text/html", false},     // a file of an older version is not the index
		{"/api/v1/jobs", "text/html", false},        // the API's
		{"/api", "text/html", false},                //
		{"/rest-server/api", "text/html", false},    // OpenPAI's
		{"/v1/inspect/clusterstatus", "*/*", false}, // HiveD's
	} {
		if got, _ := get(tiny, c.path, c.accept); got != c.want {
			t.Errorf("%s for %s: serves %v, want %v", c.path, c.accept, got, c.want)
		}
	}
	if tiny.Serves(httptest.NewRequest(http.MethodPost, "/", nil)) {
		t.Error("it takes a POST")
	}
}

func TestCaching(t *testing.T) {
	for path, want := range map[string]string{
		"/assets/a-1f.js": "public, max-age=31536000, immutable", "/scheme.js": "no-cache", "/": "no-store", "/jobs": "no-store",
	} {
		if _, w := get(tiny, path, "text/html"); w.Header().Get("Cache-Control") != want {
			t.Errorf("%s: Cache-Control %q, want %q", path, w.Header().Get("Cache-Control"), want)
		}
	}
}

func TestNonce(t *testing.T) {
	nonce := regexp.MustCompile(`nonce="([A-Z2-7]{20,})"`)
	seen := map[string]bool{}
	for range 3 {
		_, w := get(tiny, "/", "text/html")
		m := nonce.FindStringSubmatch(w.Body.String())
		if m == nil {
			t.Fatalf("the index has no nonce: %s", w.Body)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "style-src 'self' 'nonce-"+m[1]+"'") || strings.Contains(policy, "unsafe") {
			t.Errorf("policy %s does not have the page's nonce %s alone", policy, m[1])
		}
		seen[m[1]] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d nonces in 3 answers", len(seen))
	}
}

// inline is a script that stands in the page, which the policy would not run.
var inline = regexp.MustCompile(`<script[^>]*>[^<]|\son[a-z]+=|style=`)

func TestBuilt(t *testing.T) {
	ok, w := get(New(), "/", "text/html")
	if page := w.Body.String(); !ok || !strings.Contains(page, "/assets/") || inline.MatchString(page) || strings.Contains(page, nonceTag) {
		t.Fatalf("the index that the binary carries does not load its script from its own files alone:\n%s", page)
	}
	for _, file := range regexp.MustCompile(`(?:src|href)="/([^"]+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		if strings.HasPrefix(file[1], "api/") { // an answer that the page asks for ahead, and no file
			continue
		}
		if New().files[file[1]] == nil {
			t.Errorf("the index names %s, which is not built", file[1])
		}
	}
}

// TestGzip: who takes packed files gets them, and what is in them is the same.
func TestGzip(t *testing.T) {
	text := strings.Repeat("let x = 1;\n", 1000)
	p := of(fstest.MapFS{"index.html": {Data: []byte("x")}, "assets/a.js": {Data: []byte(text)}, "assets/b.js": {Data: []byte("1")}})
	for _, c := range []struct {
		name, takes string
		packed      bool
	}{
		{"assets/a.js", "gzip, deflate, br", true}, {"assets/a.js", "br;q=1.0, gzip;q=0.8", true}, {"assets/a.js", "gzip;q=0", false}, {"assets/a.js", "gzip;q=0.0", false},
		{"assets/a.js", "", false}, {"assets/a.js", "xgzip", false}, {"assets/b.js", "gzip", false},
	} {
		for range 2 {
			r := httptest.NewRequest(http.MethodGet, "/"+c.name, nil)
			r.Header.Set("Accept-Encoding", c.takes)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			got := w.Body.String()
			if (w.Header().Get("Content-Encoding") == "gzip") != c.packed || w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s for %q: %v", c.name, c.takes, w.Header())
				continue
			}
			if c.packed {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(z)
				if err != nil || len(got) > len(text)/10 {
					t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
				}
				got = string(b)
			}
			if want := map[string]string{"assets/a.js": text, "assets/b.js": "1"}[c.name]; got != want {
				t.Errorf("%s for %q is another file", c.name, c.takes)
			}
		}
	}
}
