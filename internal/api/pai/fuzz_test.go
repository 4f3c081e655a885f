package pai

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests sends any path, query and body of OpenPAI's dialect: it is done, or refused with a
// code and a message.
func FuzzRequests(f *testing.F) {
	w := newWorld(f)
	for _, path := range []string{"/jobs", "/jobs/alice~train", "/jobs/alice~train/tag", "/jobs/alice~train/executionType", "/users", "/users/me", "/users/bob/group",
		"/groups", "/groups/vision", "/virtual-clusters/vision", "/authn/basic/login", "/token", "/storages/x", "/jobs/~", "/jobs/a~b~c/attempts/9/taskRoles/x/taskIndex/-1/attempts/0/logs"} {
		for _, body := range []string{``, `{}`, `{"value":"START"}`, `{"value":1}`, `[]`, `null`, `{"username":"x","password":""}`, "username=x&password=%00", `{"data":{"groupname":"` + strings.Repeat("g", 3000) + `"},"patch":true}`} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				f.Add(method, path, "offset=1&limit=50000&order=jobName,DESC&state=RUNNING", body, strings.HasPrefix(body, "username"))
			}
		}
	}
	f.Add("GET", "/jobs", "limit=-1&offset=99999999999999999999&order=,&tagsContain=,,", "", false)
	f.Fuzz(func(t *testing.T, method, path, query, body string, form bool) {
		u := url.URL{Scheme: "http", Host: "comb", Path: Prefix + path, RawQuery: query}
		r, err := http.NewRequest(method, u.String(), strings.NewReader(body))
		if err != nil {
			return
		}
		if r.Header.Set("Content-Type", "application/json"); form {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Header.Set("Authorization", "Bearer "+w.token["carol"])
		out := httptest.NewRecorder()
		w.h.Serve(out, r, w.h.Principal(r))
		var said struct{ Code, Message string }
		switch text := out.Body.Bytes(); {
		case out.Code == http.StatusInternalServerError:
			t.Errorf("%s %s?%s with %q: %d %s", method, path, query, body, out.Code, text)
		case out.Code >= 400 && method != "HEAD" && (json.Unmarshal(text, &said) != nil || said.Code == "" || said.Message == ""):
			t.Errorf("%s %s?%s with %q: %d, and neither code nor message: %s", method, path, query, body, out.Code, text)
		}
	})
}
