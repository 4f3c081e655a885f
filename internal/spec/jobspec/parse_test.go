package jobspec

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const jobFiles = "../../../testdata/jobs"

// golden compares with a file beside the job file, or rewrites it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", filepath.Base(path), diff)
	}
}

func jobFile(t *testing.T, path string) []byte {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(jobFiles, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return paths
}

// view is what a golden file shows of an accepted job file.
type view struct {
	Job      *model.Job        `json:"job"`
	Secrets  map[string]string `json:"secrets,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Source   []string          `json:"source,omitempty"` // only when it differs from the file
}

func TestGoodFiles(t *testing.T) {
	for _, path := range files(t, "good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src := jobFile(t, path)
			result, problems := Parse(filepath.Base(path), src, testEnv())
			if problems != nil {
				t.Fatalf("refused:\n%v", problems)
			}
			checkSource(t, result)
			checkJob(t, result)
			v := view{Job: result.Job, Secrets: result.Secrets, Warnings: result.Warnings}
			if result.Job.Source != string(src) {
				v.Source = strings.Split(result.Job.Source, "\n")
			}
			result.Job.Source = ""
			var out bytes.Buffer
			enc := json.NewEncoder(&out)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(v); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".json", out.Bytes())
		})
	}
}

func TestBadFiles(t *testing.T) {
	for _, path := range files(t, "bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			result, problems := Parse(filepath.Base(path), jobFile(t, path), testEnv())
			if problems == nil {
				t.Fatal("accepted")
			}
			if result != nil {
				t.Error("a file with problems gives a result")
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", []byte(problems.Error()+"\n"))
		})
	}
}

// newSecret is what checkSource writes in the place of each secret.
const newSecret = "a-new-value"

// checkSource checks that the job's source gives the same job again, once its secrets are there
// again, and holds no secret's value.
func checkSource(t *testing.T, r *Result) {
	t.Helper()
	if strings.Contains(strings.ReplaceAll(r.Job.Source, `"`+secretMask+`"`, ""), secretMask) {
		return // it stands elsewhere, too
	}
	again, problems := Parse("again", []byte(strings.ReplaceAll(r.Job.Source, secretMask, newSecret)), testEnv())
	if problems != nil {
		t.Fatalf("the job's source is refused:\n%v\n%s", problems, r.Job.Source)
	}
	a, b := *r.Job, *again.Job
	if a.Source != b.Source {
		t.Errorf("masking again changes the source:\n%s", cmp.Diff(a.Source, b.Source))
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the source gives another job (-first +again):\n%s", diff)
	}
	if len(again.Secrets) != len(r.Secrets) {
		t.Errorf("the source has %d secrets, the file %d", len(again.Secrets), len(r.Secrets))
	}
	for key, value := range again.Secrets {
		if image, ok := strings.CutPrefix(key, loginKey); ok {
			l, err := LoginOf(again.Secrets, image)
			if err != nil {
				t.Fatal(err)
			}
			value = l.Password
		}
		if value != newSecret && value != "" {
			t.Errorf("the source shows the secret %s", key)
		}
	}
}

// checkJob checks what every accepted job keeps to.
func checkJob(t *testing.T, r *Result) {
	t.Helper()
	job, tasks := r.Job, int32(0)
	for _, role := range job.Roles {
		tasks += role.Tasks
		if role.Tasks < 1 || role.Leaves < 1 || len(role.Launch.Command) == 0 && role.Launch.Image == "" {
			t.Errorf("role %s: %d tasks, %d leaves, %d commands", role.Name, role.Tasks, role.Leaves, len(role.Launch.Command))
		}
		var lines []string
		for _, line := range role.Launch.Command {
			filled, err := RenderSecrets(line, r.Secrets)
			if err != nil {
				t.Errorf("role %s: %q cannot be filled: %v", role.Name, line, err)
			}
			lines = append(lines, filled)
		}
		script, err := RenderSecrets(strings.Join(role.Launch.Command, "\n"), r.Secrets)
		if err != nil || script != strings.Join(lines, "\n") {
			t.Errorf("role %s: the lines joined are filled as %q, %v; alone as %q", role.Name, script, err, lines)
		}
	}
	seen := make([]int, tasks)
	for _, g := range job.Gangs {
		if len(g.Tasks) == 0 {
			t.Errorf("gang %s is empty", g.Name)
		}
		for _, task := range g.Tasks {
			seen[task]++
		}
	}
	for task, n := range seen {
		if n != 1 {
			t.Errorf("task %d is in %d gangs", task, n)
		}
	}
	if _, err := json.Marshal(job); err != nil {
		t.Error(err)
	}
}

func TestEnv(t *testing.T) {
	const src = `
protocolVersion: 2
name: from-file
type: job
prerequisites: [{name: image, type: dockerimage, uri: a/b}]
taskRoles:
  main: {dockerImage: image, resourcePerInstance: {gpu: 1}, commands: [x]}
defaults: {virtualCluster: nowhere}
`
	env := testEnv()
	env.Name, env.VC = "re.placed-v1.2", "mixed"
	result, problems := Parse("", []byte(src), env)
	if problems != nil || result.Job.Name != "re.placed-v1.2" || result.Job.VC != "mixed" || len(result.Job.Roles[0].SKUs) != 2 {
		t.Errorf("a submission's name and VC: %+v, %v", result, problems)
	}
	env.Name, env.VC, env.Images = ".b", "none", ImagesRefused
	_, problems = Parse("f", []byte(src), env)
	want := strings.Join([]string{
		`name: ".b" is not a name: use at most 255 letters, digits, -, _ and ., not . first`,
		`vc: there is no virtual cluster "none"; the cluster has all, cpu, default, mixed, pinned`,
		`f:7:23: taskRoles.main.dockerImage: the image "a/b" cannot be used: tasks run as plain processes of the machine here; leave it out, or have the server started where a container engine answers (comb serve --runtime container)`,
	}, "\n")
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	env = Env{User: "ada", DefaultVC: "cpu", Config: testCluster()}
	result, problems = Parse("", []byte(strings.Replace(src, "virtualCluster: nowhere", "", 1)), env)
	if problems != nil || result.Job.VC != "cpu" {
		t.Errorf("the default VC: %+v, %v", result, problems)
	}
	for _, c := range []struct {
		what        string
		byDefault   cell.VCName
		mine        []cell.VCName
		vc, problem string
	}{
		{"the only one", "", []cell.VCName{"cpu"}, "cpu", ""},
		{"one of several that is called default", "", []cell.VCName{"cpu", "default"}, "default", ""},
		{"the context's before the only one", "mixed", []cell.VCName{"cpu"}, "mixed", ""},
		{"several", "", []cell.VCName{"cpu", "mixed"}, "",
			"vc: no virtual cluster is named, and you may use several: name one with --vc: cpu, mixed"},
		{"a context's that is gone", "gone", []cell.VCName{"cpu"}, "",
			`vc: there is no virtual cluster "gone"; you may use cpu; comb context use NAME --vc VC sets another`},
	} {
		env = Env{User: "ada", DefaultVC: c.byDefault, VCs: c.mine, Config: testCluster()}
		result, problems = Parse("", []byte(strings.Replace(src, "virtualCluster: nowhere", "", 1)), env)
		if got := problems.Error(); problems != nil && got != c.problem || problems == nil &&
			string(result.Job.VC) != c.vc {
			t.Errorf("%s: %q, %+v", c.what, got, result)
		}
	}
	if _, problems := Parse("", []byte(src), Env{}); len(problems) == 0 {
		t.Error("a job is accepted without a cluster")
	}
}
