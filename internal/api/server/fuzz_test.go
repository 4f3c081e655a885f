package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
)

// FuzzBodies sends any body to each route that takes one: it is done or refused with a problem, and
// nothing breaks.
func FuzzBodies(f *testing.F) {
	w := newWorld(f, 2)
	var routes []string
	for r := range server.Needs() {
		// Streams and sessions do not answer at once, and a token that is revoked ends the test.
		if !strings.HasPrefix(r, "GET ") && !strings.Contains(r, "exec") && !strings.Contains(r, "connect") && !strings.Contains(r, "tokens") && !strings.Contains(r, "sessions") {
			routes = append(routes, r)
		}
	}
	slices.Sort(routes)
	for i := range routes {
		for _, body := range []string{``, `{}`, `[]`, `null`, `{"reason":"\u0000"}`, `{"reason":1}`, `{"a":{"a":{"a":[[[[[[1e999]]]]]]}}}`, "{\"reason\":\"\xff\"}", `{"job":"name: x"}`,
			`{"quick":{"name":"a","gpus":-1,"command":["x"]}}`, `{"priority":99999999999999999999}`, `{"within":-9223372036854775808}`, `{"reason":"a","reason":"b"}`, strings.Repeat(`[`, 20000)} {
			f.Add(uint16(i), body, "application/json")
		}
	}
	f.Add(uint16(0), "physicalCluster: {}\n", "application/yaml")
	client := &http.Client{Timeout: 20 * time.Second}
	f.Fuzz(func(t *testing.T, route uint16, body, media string) {
		method, path, _ := strings.Cut(routes[int(route)%len(routes)], " ")
		path = strings.NewReplacer("{ref}", "1", "{name}", "vm-1", "{role}", "main", "{index}", "0", "{tag}", "x", "{id}", "x", "{digest}", strings.Repeat("a", 64)).Replace(path)
		r, err := http.NewRequest(method, w.url+rest.Prefix+strings.TrimPrefix(path, rest.Prefix), strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+w.token)
		if r.Header.Set("Content-Type", media); strings.ContainsAny(media, "\r\n\x00") {
			return
		}
		answer, err := client.Do(r)
		if err != nil {
			if strings.Contains(err.Error(), "invalid header") {
				return
			}
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode == http.StatusInternalServerError || answer.StatusCode < 400 && answer.StatusCode >= 300 {
			t.Fatalf("%s %s with %q: %d %s", method, path, body, answer.StatusCode, text)
		}
		var p rest.Problem
		if answer.StatusCode >= 400 && (json.Unmarshal(text, &p) != nil || p.Code == "" || p.Detail == "") {
			t.Errorf("%s %s with %q: %d, and no problem: %s", method, path, body, answer.StatusCode, text)
		}
	})
}
