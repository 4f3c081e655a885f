package script

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/spec/config"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// parseClusterFile reads a cluster file. The text lists errors and warnings.
func parseClusterFile(name, src string) (*config.Cluster, string) {
	cluster, warnings, problems := config.Parse(name, []byte(src), config.Policies{Names: policy.Names(), New: policy.New})
	var out strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	for _, p := range problems {
		fmt.Fprintf(&out, "refused: %s\n", p)
	}
	if len(problems) > 0 {
		return nil, out.String()
	}
	return cluster, out.String()
}

// readFile reads a file that a script names, relative to the script itself.
func (s *Session) readFile(name string) (string, error) {
	f, err := os.Open(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err != nil {
		return "", err
	}
	if len(src) > maxScript {
		return "", fmt.Errorf("%s is larger than %d bytes", name, maxScript)
	}
	return string(src), nil
}

// submitFile submits a job file of OpenPAI's protocol.
func (s *Session) submitFile(name, src string, m model.Meta) (string, error) {
	var config *model.Config
	if err := s.read(func(st *core.State) { config = st.Config() }); err != nil {
		return "", err
	}
	r, problems := jobspec.Parse(name, []byte(src), jobspec.Env{User: m.Subject, Config: config})
	if len(problems) > 0 {
		var out strings.Builder
		for _, p := range problems {
			fmt.Fprintf(&out, "refused: %s\n", p)
		}
		return out.String(), nil
	}
	out := ""
	for _, w := range r.Warnings {
		out += "warning: " + w + "\n"
	}
	delete(s.behaviors, jobKey(r.Job))
	more, err := s.submit(engine.Input{Command: model.Submit{Meta: m, Job: r.Job}, Secrets: r.Secrets})
	return out + more, err
}
