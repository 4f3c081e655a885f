// Package portal serves the files of the portal, which `make web` builds from web/ and the
// binary contains. It must not know any route of the API, any right or any user: what it
// serves is public and the same for everyone.
package portal

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed all:dist
var built embed.FS

const (
	index    = "index.html"
	assets   = "assets/"             // files whose names change with their content
	nonceTag = "NONCE_OF_THE_ANSWER" // placeholder in the index for the nonce of the answer
)

// others are path prefixes that never belong to the portal.
var others = []string{"/api/", "/rest-server/", "/v1/"}

// Portal is an http.Handler for the requests that Serves accepts.
type Portal struct {
	files  map[string][]byte
	packed sync.Map // gzipped files by name, each after its first request
}

// New reads the files in the binary.
func New() *Portal {
	root, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is a constant that the compiler has checked
	}
	return of(root)
}

func of(root fs.FS) *Portal {
	p := &Portal{files: map[string][]byte{}}
	_ = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p.files[name], err = fs.ReadFile(root, name)
		return err
	})
	return p
}

// Serves reports whether a request is for the portal: for one of its files, or from a browser
// that opens a page. Pages are rendered in the browser, so the index is the answer for each
// of them.
func (p *Portal) Serves(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || len(r.URL.Path) > 2048 {
		return false
	}
	for _, prefix := range others {
		if strings.HasPrefix(r.URL.Path+"/", prefix) {
			return false
		}
	}
	return p.files[strings.TrimPrefix(r.URL.Path, "/")] != nil || opensPage(r)
}

// opensPage reports whether a browser wants a page rather than a part of one.
func opensPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/"+assets)
}

// ServeHTTP implements http.Handler.
func (p *Portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	data, ok := p.files[name]
	if !ok || name == index {
		p.serveIndex(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", typeOf(name))
	h.Set("Content-Security-Policy", policy("'none'"))
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, assets) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Vary", "Accept-Encoding")
	if len(data) >= small && takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		data = p.pack(name, data)
	}
	_, _ = w.Write(data)
}

// small is the size in bytes up to which files are not compressed.
const small = 1024

// takesGzip reports whether a client accepts gzip.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, quality, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if coding == "gzip" {
			return !strings.HasPrefix(quality, "q=0") || strings.Trim(quality, "q=0.") != ""
		}
	}
	return false
}

// pack compresses a file, once.
func (p *Portal) pack(name string, data []byte) []byte {
	if done, ok := p.packed.Load(name); ok {
		if b, ok := done.([]byte); ok {
			return b
		}
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = z.Write(data)                                  // writes to memory do not fail
	_ = z.Close()
	p.packed.Store(name, b.Bytes())
	return b.Bytes()
}

// serveIndex answers with the index. Its nonce is new each time: only the page's own script
// may add styles.
func (p *Portal) serveIndex(w http.ResponseWriter) {
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy("'self' 'nonce-"+nonce+"'"))
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	_, _ = w.Write([]byte(strings.ReplaceAll(string(p.files[index]), nonceTag, nonce)))
}

// policy is the content security policy of a page: it may run and load what comes from this
// server, and nothing inline.
func policy(style string) string {
	return "default-src 'none'; script-src 'self'; style-src " + style + "; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
		"worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// types are the media types of the files that Vite writes; a machine's own table may lack
// them.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2",
}

func typeOf(name string) string {
	if t := types[path.Ext(name)]; t != "" {
		return t
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}
