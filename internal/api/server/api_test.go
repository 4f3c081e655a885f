package server_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/api/server"
)

var update = flag.Bool("update", false, "rewrite the files that the tests compare")

// TestOpenAPI holds docs/openapi.yaml to the routes.
func TestOpenAPI(t *testing.T) {
	have, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "..", "docs", "openapi.yaml"), have)
}

// golden compares with a file in git, or rewrites it.
func golden(t *testing.T, path string, have []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the code says: run go test ./%s -update and read the difference", path, "internal/api/server")
	}
}

// TestRestPage wants every route in docs/rest.md.
func TestRestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rest.md"))
	if err != nil {
		t.Fatal(err)
	}
	for route := range described(t) {
		if !bytes.Contains(page, []byte("| `"+route+"` |")) {
			t.Errorf("docs/rest.md does not name %s", route)
		}
	}
}
