package docker

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestBuild: what an engine says of a build comes as lines, with its steps and which of them were
// cached, in however many pieces it arrives; what a step prints does not end it; an error of a step
// is the build's.
func TestBuild(t *testing.T) {
	said := []string{
		`{"stream":"Step 1/4 : FROM base"}`, `{"stream":"\n"}`, `{"status":"Pulling from base","id":"1"}`, `{"status":"Downloading","progressDetail":{"current":1,"total":2},"id":"abc"}`,
		`{"stream":" ---\u003e 0123456789ab\n"}`,
		`{"stream":"Step 2/4 : ENV a=b"}`, `{"stream":"\n"}`, `{"stream":" ---\u003e Using cache\n"}`, `{"stream":" ---\u003e 1123456789ab\n"}`,
		`{"stream":"Step 3/4 : RUN x"}`, `{"stream":"\n"}`, `{"stream":" ---\u003e Running in 2123456789ab\n"}`,
		`{"stream":"par"}`, `{"stream":"tial\nsecond : line\n"}`, `{"stream":"\u001b[91mred\n\u001b[0m"}`, `{"stream":"10%\r20%\r30%\n\n"}`,
		`{"stream":"Removing intermediate container 2123456789ab\n"}`, `{"stream":" ---\u003e 3123456789ab\n"}`,
		`{"stream":"Step 4/4 : CMD y"}`, `{"stream":"\n ---\u003e 4123456789ab\n"}`, `{"aux":{"ID":"sha256:1"}}`,
		`{"stream":"Successfully built 4123456789ab\n"}`, `{"stream":"Successfully tagged team/x:1\n"}`,
	}
	want := []BuildLine{{1, 4, false, "FROM base"}, {Text: "Pulling from base"}, {2, 4, true, "ENV a=b"}, {3, 4, false, "RUN x"}, {Text: "partial"}, {Text: "second : line"},
		{Text: "red"}, {Text: "30%"}, {4, 4, false, "CMD y"}}
	fails := slices.Concat(said[:12], []string{`{"stream":"oh"}`, `{"errorDetail":{"code":2,"message":"The command '/bin/sh -c x' returned a non-zero code: 2"},"error":"x"}`})
	for name, c := range map[string]struct {
		said []string
		want []BuildLine
		err  string
	}{
		"all is well":    {said, want, ""},
		"a step fails":   {fails, append(slices.Clone(want[:4]), BuildLine{Text: "oh"}), "cannot be built (The command '/bin/sh -c x' returned a non-zero code: 2)"},
		"the disk fills": {[]string{`{"errorDetail":{"message":"write /x: no space left on device"}}`}, nil, "the disk of the container engine is full"},
		"a long line":    {[]string{`{"stream":"` + strings.Repeat("x", longestLine+5) + `"}`}, []BuildLine{{Text: strings.Repeat("x", longestLine)}, {Text: "xxxxx"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := fake(t, builder(t, c.said))
			var got []BuildLine
			image, err := e.Build(t.Context(), &Build{Name: "team/x:1", Dockerfile: "docker/gpu", Args: map[string]string{"A": "b"}, Memory: 1000}, strings.NewReader("a context"),
				func(l BuildLine) { got = append(got, l) })
			if c.err == "" && (err != nil || image.ID != "sha256:1") || c.err != "" && (!errors.Is(err, ErrBuild) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%+v, %v; want %q", image, err, c.err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
	e := fake(t, func(http.ResponseWriter, *http.Request) { t.Error("the engine is asked") })
	for _, name := range []string{"", "A", "a b", "team/x@sha256:" + strings.Repeat("a", 64)} {
		if _, err := e.Build(t.Context(), &Build{Name: name}, strings.NewReader(""), nil); !errors.Is(err, ErrNotName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// builder answers a build with what it says.
func builder(t *testing.T, said []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/build"):
			q := r.URL.Query()
			data, err := io.ReadAll(r.Body)
			if err != nil || string(data) != "a context" || q.Get("t") != "team/x:1" || q.Get("dockerfile") != "docker/gpu" || q.Get("networkmode") != "none" || q.Get("forcerm") != "1" ||
				q.Get("memory") != "1000" || q.Get("memswap") != "1000" || q.Get("cpushares") != "64" || q.Get("buildargs") != `{"A":"b"}` || q.Get("version") != "1" {
				t.Errorf("%q, %v with %v", data, err, q)
			}
			fmt.Fprint(w, strings.Join(said, "\r\n"))
		case strings.HasSuffix(r.URL.Path, "/images/team/x:1/json"):
			fmt.Fprint(w, `{"Id": "sha256:1"}`)
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}
