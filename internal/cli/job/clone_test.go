package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

const file = `protocolVersion: 2
name: old
parameters: {lr: 0.1}
secrets: {key: "******"}
taskRoles:
  main: {instances: 1, commands: [one, two]}
`

func changed(t *testing.T, sets ...string) (string, error) {
	t.Helper()
	d, err := read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	err = d.change(sets, &rest.Job{JobStatus: rest.JobStatus{Name: "train", VC: "red"}})
	text, _ := yaml.Marshal(d.root)
	return string(text), err
}

func TestChanges(t *testing.T) {
	text, err := changed(t, "lr=0.01", "taskRoles.main.instances=3", "taskRoles.main.commands.1=exec three", "extras.comb.checkpoint=true", "jobRetryCount=2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: train\n", "parameters: {lr: 0.01}", "instances: 3", "commands: [one, exec three]", "checkpoint: true", "virtualCluster: red", "jobRetryCount: 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text, err := changed(t, "name=other", "defaults.virtualCluster=blue"); err != nil || !strings.Contains(text, "name: other") || !strings.Contains(text, "virtualCluster: blue") {
		t.Errorf("%v\n%s", err, text)
	}
	_, err = changed(t, "lr", "=1", "lr=[", "secrets.key=x", "taskRoles.main.commands.2=x", "name.first=x")
	if err == nil {
		t.Fatal("all are taken")
	}
	for _, want := range []string{`"lr": want KEY=VALUE`, `"=1": want KEY=VALUE`, "lr: the value is no YAML", "--secrets FILE", "is a list of 2", "name is no map"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestSecretsOfAClone: they come from a file, all of them, or nothing is submitted.
func TestSecretsOfAClone(t *testing.T) {
	k := &commands{&cli.App{}}
	d, err := read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.fill(d, ""); err == nil || !strings.Contains(err.Error(), "--secrets FILE") {
		t.Errorf("without its secrets: %v", err)
	}
	given := filepath.Join(t.TempDir(), "given")
	if err := os.WriteFile(given, []byte("key: canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.fill(d, given); err != nil || at(at(d.root, "secrets"), "key").Value != "canary" {
		t.Errorf("with them: %v", err)
	}
}
