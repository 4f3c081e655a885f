package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// OpenPAI's routes are guarded as all others are: hosts, origins, bodies, tokens; and the answers
// are OpenPAI's.
func TestOpenPAIIsGuarded(t *testing.T) {
	w := newWorld(t, 2)
	for _, c := range []struct {
		status             int
		code, method, path string
		body               string
		header             []string
	}{
		{200, "", "GET", "/info", "", []string{"Authorization", ""}},
		{200, "[]", "GET", "/jobs", "", nil},
		{403, "ForbiddenUserError", "GET", "/jobs", "", []string{"Host", "evil.example"}},
		{403, "ForbiddenUserError", "GET", "/info", "", []string{"Host", "evil.example"}},
		{403, "ForbiddenUserError", "POST", "/authn/basic/login", "username=a&password=b", []string{"Origin", "http://evil.example"}},
		{403, "ForbiddenUserError", "GET", "/jobs", "", []string{"Sec-Fetch-Site", "cross-site"}},
		{401, "UnauthorizedUserError", "GET", "/jobs", "", []string{"Authorization", ""}},
		{401, "UnauthorizedUserError", "GET", "/jobs", "", []string{"Authorization", "", "Cookie", "comb_session=" + w.token}},
		{401, "UnauthorizedUserError", "POST", "/jobs", strings.Repeat("x", 200<<10), []string{"Authorization", "Bearer nonsense"}},
		{401, "UnauthorizedUserError", "GET", "/jobs/protocolversion/config", "", []string{"Authorization", ""}},
		{413, "InvalidParametersError", "POST", "/jobs", strings.Repeat("x", 1<<20+1), nil},
		{413, "InvalidParametersError", "POST", "/authn/basic/login", strings.Repeat("x", 20<<10), []string{"Authorization", ""}},
		{400, "InvalidProtocolError", "POST", "/jobs", "protocolVersion: 2\n", nil},
		{400, "NoVirtualClusterError", "POST", "/jobs", jobOfVC("none"), nil},
		{202, "Update job train", "POST", "/jobs", jobOfVC("default"), nil},
		{409, "ConflictJobError", "POST", "/jobs/", jobOfVC("default"), nil},
		{404, "NoJobError", "GET", "/jobs/alice~none", "", nil},
		{200, `"virtualCluster":"default"`, "GET", "/jobs/alice~train/", "", nil},
		{200, "name: train", "GET", "/jobs/alice~train/config", "", nil},
		{200, `"JobSubmitted"`, "GET", "/jobs/alice~train/events", "", nil},
		{200, "is started already: nothing is changed", "PUT", "/jobs/alice~train/executionType", `{"value":"START"}`, nil},
		{202, "Execute job", "PUT", "/jobs/alice~train/executionType", `{"value":"STOP"}`, nil},
		{200, `"default":{"capacity":100`, "GET", "/virtual-clusters", "", nil},
		{404, "NoApiError", "GET", "/nothing", "", nil},
	} {
		header := map[string]string{}
		for i := 0; i < len(c.header); i += 2 {
			header[c.header[i]] = c.header[i+1]
		}
		status, got, text := w.request(c.method, "/rest-server/api/v2"+c.path, c.body, header)
		if status != c.status || !strings.Contains(text, c.code) || got.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s (%.40q, %q): %d, %.300s; want %d, %s", c.method, c.path, c.body, c.header, status, text, c.status, c.code)
		}
		var in struct{ Code, Message string }
		if status >= 400 && (json.Unmarshal([]byte(text), &in) != nil || in.Code == "" || in.Message == "") {
			t.Errorf("%s %s: no error of OpenPAI: %d %s", c.method, c.path, status, text)
		}
	}
	if status, _, text := w.request("GET", "/v1/inspect/clusterstatus/", "", nil); status != http.StatusOK || !strings.Contains(text, `"physicalCluster":[{`) {
		t.Errorf("HiveD's cells: %d %s", status, text)
	}
	if status, _, text := w.request("GET", "/rest-serverless", "", nil); status != http.StatusNotFound || strings.Contains(text, "NoApiError") {
		t.Errorf("another path: %d %s", status, text)
	}
}

// START releases a held job, as the own dialect does; one that has ended does not start again.
func TestOpenPAIStarts(t *testing.T) {
	w := newWorld(t, 1)
	w.submit("first", 1)
	second := w.submit("second", 1)
	if _, err := w.client.Hold(t.Context(), "second", "the data is not there"); err != nil {
		t.Fatal(err)
	}
	start := func(name string) (int, string) {
		status, _, text := w.request("PUT", "/rest-server/api/v2/jobs/alice~"+name+"/executionType", `{"value":"START"}`, nil)
		return status, text
	}
	if status, text := start("second"); status != http.StatusAccepted {
		t.Errorf("of a held job: %d %s", status, text)
	}
	j, err := w.client.Job(t.Context(), rest.JobRef(second.ID))
	if err != nil || j.Held != nil {
		t.Errorf("it is held: %+v, %v", j.Held, err)
	}
	if _, err := w.client.Stop(t.Context(), "second", ""); err != nil {
		t.Fatal(err)
	}
	if status, text := start("second"); status != http.StatusConflict || !strings.Contains(text, "ReadOnlyJobError") {
		t.Errorf("of one that has ended: %d %s", status, text)
	}
}

// jobOfVC is a job file of OpenPAI's.
func jobOfVC(vc string) string {
	return `protocolVersion: 2
name: train
type: job
prerequisites:
- {protocolVersion: 2, name: image, type: dockerimage, uri: example/train}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 1}
    commands: [sleep 60]
defaults: {virtualCluster: ` + vc + `}
`
}
