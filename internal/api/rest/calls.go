package rest

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
)

const (
	mediaJSON = "application/json"
	mediaYAML = "application/yaml"
)

// Info asks for the name and the version of the server.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var out Info
	err := c.do(ctx, call{method: http.MethodGet, path: "/info"}, &out)
	return out, err
}

// Health asks whether the server lives; it needs no token.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var out Health
	err := c.do(ctx, call{method: http.MethodGet, path: "/health"}, &out)
	return out, err
}

// Submit submits a job. With key "" it makes a new key.
func (c *Client) Submit(ctx context.Context, r SubmitRequest, key string) (Submitted, error) {
	var out Submitted
	r.DefaultVC = cmp.Or(r.DefaultVC, c.DefaultVC)
	k := submission("/jobs", r)
	if key != "" {
		k.header = map[string]string{HeaderIdempotency: key}
	}
	err := c.write(ctx, k, &out)
	c.See(out.Seq)
	return out, err
}

// submission sends a job file unchanged, so that mistakes in its bytes have places in it, and
// anything else as JSON.
func submission(path string, r SubmitRequest) call {
	if r.Quick != nil {
		return call{method: http.MethodPost, path: path, json: r}
	}
	q := url.Values{}
	for _, kv := range [][2]string{{"name", r.Name}, {"vc", r.VC}, {"default_vc", r.DefaultVC}, {"upload", r.Upload}} {
		if kv[1] != "" {
			q.Set(kv[0], kv[1])
		}
	}
	return call{method: http.MethodPost, path: path, query: q, body: []byte(r.Source), media: mediaYAML}
}

// ValidateJob checks a job without submitting it.
func (c *Client) ValidateJob(ctx context.Context, r SubmitRequest) (Validated, error) {
	var out Validated
	r.DefaultVC = cmp.Or(r.DefaultVC, c.DefaultVC)
	err := c.do(ctx, submission("/jobs:validate", r), &out)
	return out, err
}

// Jobs returns one page of jobs, newest first.
func (c *Client) Jobs(ctx context.Context, q JobQuery) (JobList, error) {
	v := url.Values{}
	for _, s := range q.States {
		v.Add("state", string(s))
	}
	for _, s := range q.VCs {
		v.Add("vc", string(s))
	}
	for _, s := range q.Users {
		v.Add("user", string(s))
	}
	if q.Name != "" {
		v.Set("name", q.Name)
	}
	if q.Tag != "" {
		v.Set("tag", q.Tag)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Cursor != "" {
		v.Set("cursor", q.Cursor)
	}
	if q.Sort != "" {
		v.Set("sort", q.Sort)
	}
	var out JobList
	err := c.do(ctx, call{method: http.MethodGet, path: "/jobs", query: v}, &out)
	return out, err
}

// Job returns one job by number, or the newest of a name.
func (c *Client) Job(ctx context.Context, ref string) (Job, error) {
	var out Job
	err := c.do(ctx, call{method: http.MethodGet, path: "/jobs/" + element(ref)}, &out)
	return out, err
}

// Stop asks to end a job.
func (c *Client) Stop(ctx context.Context, ref string, reason string) (Done, error) {
	return c.done(ctx, "/jobs/"+element(ref)+"/stop", StopRequest{Reason: reason})
}

// JobUsage returns what the running tasks of a job used in the last minutes.
func (c *Client) JobUsage(ctx context.Context, ref string) (JobUsage, error) {
	var out JobUsage
	err := c.do(ctx, call{method: http.MethodGet, path: "/jobs/" + element(ref) + "/usage"}, &out)
	return out, err
}

// Tag adds a tag to a job, or removes it.
func (c *Client) Tag(ctx context.Context, ref, tag string, on bool) (Tagged, error) {
	k := call{method: http.MethodPut, path: "/jobs/" + element(ref) + "/tags/" + element(tag)}
	if !on {
		k.method = http.MethodDelete
	}
	var out Tagged
	err := c.do(ctx, k, &out)
	return out, err
}

// Hold keeps a waiting job from starting.
func (c *Client) Hold(ctx context.Context, ref string, reason string) (Done, error) {
	return c.done(ctx, "/jobs/"+element(ref)+"/hold", StopRequest{Reason: reason})
}

// Release lets a held job start.
func (c *Client) Release(ctx context.Context, ref string) (Done, error) {
	return c.done(ctx, "/jobs/"+element(ref)+"/release", StopRequest{})
}

// Requeue stops the running gangs of a job, so that it waits again.
func (c *Client) Requeue(ctx context.Context, ref string, in RequeueRequest) (Done, error) {
	return c.done(ctx, "/jobs/"+element(ref)+"/requeue", in)
}

// Update changes a job's priority or time limit.
func (c *Client) Update(ctx context.Context, ref string, in UpdateRequest) (Done, error) {
	return c.done(ctx, "/jobs/"+element(ref)+"/update", in)
}

// JobHistory returns a job's attempts.
func (c *Client) JobHistory(ctx context.Context, ref string) (JobHistory, error) {
	var out JobHistory
	err := c.do(ctx, call{method: http.MethodGet, path: "/jobs/" + element(ref) + "/history"}, &out)
	return out, err
}

// Explain asks why a job waits.
func (c *Client) Explain(ctx context.Context, ref string) (Explanation, error) {
	var out Explanation
	err := c.do(ctx, call{method: http.MethodGet, path: "/jobs/" + element(ref) + "/explain"}, &out)
	return out, err
}

// JobConfig returns the job file as submitted, secrets masked.
func (c *Client) JobConfig(ctx context.Context, ref string) ([]byte, error) {
	var out []byte
	k := call{method: http.MethodGet, path: "/jobs/" + element(ref) + "/config", accept: mediaYAML}
	err := c.do(ctx, k, &out)
	return out, err
}

// JobEvents returns a page of a job's history after an event.
func (c *Client) JobEvents(ctx context.Context, ref string, after uint64) (EventList, error) {
	var out EventList
	q := url.Values{}
	if after > 0 {
		q.Set("after", strconv.FormatUint(after, 10))
	}
	k := call{method: http.MethodGet, path: "/jobs/" + element(ref) + "/events", query: q, accept: mediaJSON}
	err := c.do(ctx, k, &out)
	return out, err
}

// Storages lists the storages that jobs may name.
func (c *Client) Storages(ctx context.Context) (StorageList, error) {
	var out StorageList
	err := c.do(ctx, call{method: http.MethodGet, path: "/storages"}, &out)
	return out, err
}

// VCs lists virtual clusters.
func (c *Client) VCs(ctx context.Context) (VCList, error) {
	var out VCList
	err := c.do(ctx, call{method: http.MethodGet, path: "/vcs"}, &out)
	return out, err
}

// VC returns one virtual cluster.
func (c *Client) VC(ctx context.Context, name cell.VCName) (VCStatus, error) {
	var out VCStatus
	err := c.do(ctx, call{method: http.MethodGet, path: "/vcs/" + element(string(name))}, &out)
	return out, err
}

// Node returns one node with what runs there.
func (c *Client) Node(ctx context.Context, name cell.NodeName) (Node, error) {
	var out Node
	err := c.do(ctx, call{method: http.MethodGet, path: "/nodes/" + element(string(name))}, &out)
	return out, err
}

// Drain takes a node out of placement, and makes what runs there leave it.
func (c *Client) Drain(ctx context.Context, name cell.NodeName, in DrainRequest) (Done, error) {
	return c.done(ctx, "/nodes/"+element(string(name))+"/drain", in)
}

// PlanDrain returns what a drain would do to each job, and changes nothing.
func (c *Client) PlanDrain(ctx context.Context, name cell.NodeName, in DrainRequest) (DrainPlanned, error) {
	var out DrainPlanned
	path := "/nodes/" + element(string(name)) + "/drain:plan"
	err := c.do(ctx, call{method: http.MethodPost, path: path, json: in}, &out)
	return out, err
}

// DeclareDead declares a node dead: what is unknown there counts as ended.
func (c *Client) DeclareDead(ctx context.Context, name cell.NodeName, in DeadRequest) (Done, error) {
	return c.done(ctx, "/nodes/"+element(string(name))+"/declare-dead", in)
}

// Nodes lists nodes.
func (c *Client) Nodes(ctx context.Context) (NodeList, error) {
	var out NodeList
	err := c.do(ctx, call{method: http.MethodGet, path: "/nodes"}, &out)
	return out, err
}

// Cordon takes a node out of placement; what runs there goes on.
func (c *Client) Cordon(ctx context.Context, node cell.NodeName, reason string) (Done, error) {
	return c.done(ctx, "/nodes/"+element(string(node))+"/cordon", CordonRequest{Reason: reason})
}

// Uncordon takes a node back into placement.
func (c *Client) Uncordon(ctx context.Context, node cell.NodeName) (Done, error) {
	return c.done(ctx, "/nodes/"+element(string(node))+"/uncordon", CordonRequest{})
}

// Cells returns the physical forest.
func (c *Client) Cells(ctx context.Context) (CellList, error) {
	var out CellList
	err := c.do(ctx, call{method: http.MethodGet, path: "/cells"}, &out)
	return out, err
}

// Config returns the present configuration.
func (c *Client) Config(ctx context.Context) (ClusterConfig, error) {
	var out ClusterConfig
	err := c.do(ctx, call{method: http.MethodGet, path: "/config"}, &out)
	return out, err
}

// ConfigFile returns the cluster file that the present configuration was made of.
func (c *Client) ConfigFile(ctx context.Context) ([]byte, error) {
	var out []byte
	err := c.do(ctx, call{method: http.MethodGet, path: "/config/file", accept: mediaYAML}, &out)
	return out, err
}

// ApplyConfig replaces the configuration by a cluster file. etag is that of the configuration
// that is replaced; "*" is any.
func (c *Client) ApplyConfig(ctx context.Context, file []byte, etag string) (Done, error) {
	return c.ApplyConfigAs(ctx, file, ConfigChange{IfMatch: etag})
}

// ApplyConfigAs is ApplyConfig with notes on the new version.
func (c *Client) ApplyConfigAs(ctx context.Context, file []byte, change ConfigChange) (Done, error) {
	var out Done
	q := url.Values{}
	if change.Reason != "" {
		q.Set("reason", change.Reason)
	}
	if change.Until != "" {
		q.Set("until", change.Until)
	}
	for name, n := range map[string]int64{"on": change.On, "restores": change.Restores} {
		if n > 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	err := c.write(ctx, call{method: http.MethodPut, path: "/config", query: q, body: fileBody(file), media: mediaYAML,
		header: map[string]string{"If-Match": change.IfMatch}}, &out)
	c.See(out.Seq)
	return out, err
}

// ConfigVersions returns up to limit versions of the cluster file before one, the latest
// first. 0 starts at the latest.
func (c *Client) ConfigVersions(ctx context.Context, before int64, limit int) (ConfigVersions, error) {
	var out ConfigVersions
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	err := c.do(ctx, call{method: http.MethodGet, path: "/config/versions", query: q}, &out)
	return out, err
}

// ConfigVersionFile returns the cluster file of a version.
func (c *Client) ConfigVersionFile(ctx context.Context, version int64) ([]byte, error) {
	var out []byte
	err := c.do(ctx, call{method: http.MethodGet, path: "/config/versions/" + strconv.FormatInt(version, 10) + "/file"}, &out)
	return out, err
}

// ValidateConfig checks a cluster file without applying it.
func (c *Client) ValidateConfig(ctx context.Context, file []byte) (ConfigChecked, error) {
	var out ConfigChecked
	k := call{method: http.MethodPost, path: "/config:validate", body: fileBody(file), media: mediaYAML}
	err := c.do(ctx, k, &out)
	return out, err
}

// PlanConfig returns every effect that a cluster file would have.
func (c *Client) PlanConfig(ctx context.Context, file []byte) (ConfigPlanned, error) {
	return c.PlanConfigUntil(ctx, file, "")
}

// PlanConfigUntil is PlanConfig for a file with an end, as in ConfigChange.
func (c *Client) PlanConfigUntil(ctx context.Context, file []byte, until string) (ConfigPlanned, error) {
	var out ConfigPlanned
	k := call{method: http.MethodPost, path: "/config:plan", body: fileBody(file), media: mediaYAML}
	if until != "" {
		k.query = url.Values{"until": {until}}
	}
	err := c.do(ctx, k, &out)
	return out, err
}

// fileBody is the body with a cluster file. It is never empty: a request without a body would
// be refused before the file is checked.
func fileBody(file []byte) []byte {
	if len(file) == 0 {
		return []byte("\n")
	}
	return file
}

// done makes a write that returns no data.
func (c *Client) done(ctx context.Context, path string, body any) (Done, error) {
	var out Done
	err := c.write(ctx, call{method: http.MethodPost, path: path, json: body}, &out)
	c.See(out.Seq)
	return out, err
}
