package walk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// The folder of a small OpenPAI cluster: a worker with two GPUs, of which VC default has one and
// vc1 the other.
const (
	paiLayout = `machine-sku:
  master-machine: {mem: 1Gi, cpu: {vcore: 1}}
  gpu-machine: {mem: 1Gi, cpu: {vcore: 2}, computing-device: {type: nvidia.com/gpu, model: K80, count: 2}}
machine-list:
- {hostname: pai-master, hostip: 10.0.0.1, machine-type: master-machine, pai-master: "true"}
- {hostname: pai-worker1, hostip: 10.0.0.2, machine-type: gpu-machine, pai-worker: "true"}
`
	paiServices = `webportal: {server-port: 9286}
hivedscheduler:
  config: |
    physicalCluster:
      skuTypes:
        K80: {gpu: 1, cpu: 1, memory: 512Mi}
      cellTypes:
        K80-NODE: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - {cellType: K80-NODE, cellAddress: pai-worker1}
    virtualClusters:
      default:
        virtualCells: [{cellType: K80-NODE.K80, cellNumber: 1}]
      vc1:
        virtualCells: [{cellType: K80-NODE.K80, cellNumber: 1}]
`
	paiJob = `protocolVersion: 2
name: %s
type: job
taskRoles:
  main:
    instances: 1
    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 1}
    commands: ["echo by $PAI_USER_NAME in VC %[2]s"]
defaults: {virtualCluster: %[2]s}
`
	paiPassword = "correct-horse-battery"
)

// fromOpenPAI: the configuration of an OpenPAI cluster is pushed, an administrator gives a user a
// virtual cluster by OpenPAI's own call, and the user's job runs there. Another user has VC default
// alone, and is told what would give it the other.
func fromOpenPAI(ctx context.Context, w *walk) error {
	if err := w.push(ctx); err != nil {
		return err
	}
	made, err := w.as(ctx, "", paiPassword, "user", "create", "paula", "--admin", "--password-stdin")
	if err != nil || made.code != 0 {
		return fmt.Errorf("an administrator: %s, %w", made.all(), err)
	}
	paula, err := w.paiSignIn(ctx, "paula")
	if err != nil {
		return err
	}
	for name, vcs := range map[string]string{"vera": `,"virtualCluster":["vc1"]`, "dora": ""} {
		body := fmt.Sprintf(`{"username":%q,"password":%q%s}`, name, paiPassword, vcs)
		status, text, err := w.pai(ctx, paula, "POST", "/users", body)
		if err != nil {
			return err
		}
		w.expect(status == http.StatusCreated, "OpenPAI's call makes the user "+name, "%d %s", status, text)
	}
	vera, err := w.paiSignIn(ctx, "vera")
	if err != nil {
		return err
	}
	dora, err := w.paiSignIn(ctx, "dora")
	if err != nil {
		return err
	}
	if err := w.paiRuns(ctx, vera, "vera", "vc1"); err != nil {
		return err
	}
	_, text, err := w.pai(ctx, dora, "GET", "/users/dora", "")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(text, `"virtualCluster":["default"]`), "dora has VC default alone", "%s", text)
	status, text, err := w.pai(ctx, dora, "POST", "/jobs", fmt.Sprintf(paiJob, "no", "vc1"))
	if err != nil {
		return err
	}
	w.expect(status == http.StatusForbidden && strings.Contains(text, "comb group update vc1 --add dora"),
		"a refusal says what gives dora the right", "%d %s", status, text)
	for _, name := range []string{"vera", "dora"} {
		status, text, err := w.pai(ctx, paula, "DELETE", "/users/"+name, "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("%s is deleted: %d %s, %w", name, status, text, err)
		}
	}
	if _, err := w.must(ctx, "user", "delete", "paula", "--yes"); err != nil {
		return err
	}
	_, err = w.must(ctx, "config", "apply", "--yes", w.path("cluster.yaml"))
	return err
}

// push makes OpenPAI's configuration the cluster's.
func (w *walk) push(ctx context.Context) error {
	folder := w.path("cluster-configuration")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"layout.yaml": paiLayout, "services-configuration.yaml": paiServices} {
		if _, err := w.write("cluster-configuration/"+name, text); err != nil {
			return err
		}
	}
	pushed, err := w.must(ctx, "config", "push", "-p", folder, "--yes")
	if err != nil {
		return err
	}
	all := true
	for _, fate := range []string{"taken over", "changed", "left out"} {
		all = all && strings.Contains(pushed.errs, "\n"+fate+"  ")
	}
	w.expect(all,
		"one table says what was taken over, changed and left out", "%s", pushed.errs)
	w.expect(strings.Contains(pushed.out, "access to VC default: no access of its own -> members everyone"),
		"VC default is open to all users, as there", "%s", pushed.all())
	return nil
}

// paiRuns submits a job as OpenPAI's clients do, waits until it has ended and reads its log.
func (w *walk) paiRuns(ctx context.Context, token, user, vc string) error {
	status, text, err := w.pai(ctx, token, "POST", "/jobs", fmt.Sprintf(paiJob, "first", vc))
	if err != nil {
		return err
	}
	w.expect(status == http.StatusAccepted, user+" submits to VC "+vc, "%d %s", status, text)
	var job struct {
		JobStatus struct{ State string }
	}
	for end := time.Now().Add(patience); job.JobStatus.State != "SUCCEEDED"; time.Sleep(glance) {
		if _, text, err = w.pai(ctx, token, "GET", "/jobs/"+user+"~first", ""); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &job); err != nil || time.Now().After(end) {
			return fmt.Errorf("the job of %s: %s, %w", user, text, err)
		}
	}
	var logs struct{ Locations []struct{ URI string } }
	at := "/jobs/" + user + "~first/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs"
	_, text, err = w.pai(ctx, token, "GET", at, "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &logs); err != nil || len(logs.Locations) == 0 {
		return fmt.Errorf("the addresses of the log: %s, %w", text, err)
	}
	status, text, err = ask(ctx, "", "GET", logs.Locations[0].URI, "")
	if err != nil {
		return err
	}
	w.expect(status == http.StatusOK && strings.Contains(text, "by "+user+" in VC "+vc),
		"its log is at the address that OpenPAI's call gives", "%d %s", status, text)
	return nil
}

// paiSignIn returns the token of a user, by OpenPAI's call.
func (w *walk) paiSignIn(ctx context.Context, user string) (string, error) {
	form := url.Values{"username": {user}, "password": {paiPassword}, "expiration": {"600"}}
	status, text, err := w.pai(ctx, "", "POST", "/authn/basic/login", form.Encode())
	if err != nil {
		return "", err
	}
	var in struct{ Token string }
	if err := json.Unmarshal([]byte(text), &in); err != nil || in.Token == "" {
		return "", fmt.Errorf("%s signs in: %d %s", user, status, text)
	}
	return in.Token, nil
}

// pai makes a call of OpenPAI's API.
func (w *walk) pai(ctx context.Context, token, method, path, body string) (int, string, error) {
	return ask(ctx, token, method, w.server.URL+"/rest-server/api/v2"+path, body)
}

// ask makes a request, with the type of body that OpenPAI's clients give it.
func ask(ctx context.Context, token, method, address, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	kind := "application/json"
	switch {
	case strings.HasPrefix(body, "expiration="):
		kind = "application/x-www-form-urlencoded"
	case strings.HasPrefix(body, "protocolVersion"):
		kind = "text/yaml"
	}
	r.Header.Set("Content-Type", kind)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), err
}
