package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

func (k *commands) clone() *cobra.Command {
	var sets []string
	secrets, show := "", false
	c := &cobra.Command{Use: "clone JOB", Short: "Submit a job like another one, with changes",
		Long: `Submit the file of a job again, with changes. KEY is a place in the job file, with a dot between its
levels, or the name of one of its parameters; VALUE is YAML. Without changes the new job has the same name,
which the old one must not use any more if it is your own. Secrets are not in the file that is kept: give
them as a file with the keys of "secrets".`,
		Example: "  comb job clone train --set lr=0.01 --set name=train-2\n  comb job clone bob~train --set taskRoles.worker.instances=2 --show"}
	c.Flags().StringArrayVar(&sets, "set", nil, "KEY=VALUE, a change of the file; may repeat")
	c.Flags().StringVar(&secrets, "secrets", "", "a YAML file with the secrets (- is standard input)")
	c.Flags().BoolVar(&show, "show", false, "print the new file instead of submitting it")
	return k.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		file, err := client.JobConfig(ctx, rest.JobRef(j.ID))
		if err != nil {
			return err
		}
		d, err := read(file)
		if err != nil {
			return err
		}
		if err := d.change(sets, &j); err != nil {
			return err
		}
		if err := k.fill(d, secrets); err != nil {
			return err
		}
		return k.submitClone(ctx, client, &j, d, show)
	})
}

func (k *commands) submitClone(ctx context.Context, client *rest.Client, j *rest.Job, d *doc, show bool) error {
	text, err := yaml.Marshal(d.root)
	if err != nil {
		return err
	}
	if show {
		return k.Show(rest.SubmitRequest{Source: string(text)}, func(t *cli.Table) { t.Text(string(text)) })
	}
	r := rest.SubmitRequest{Source: string(text)}
	if j.Upload != nil {
		r.Upload = j.Upload.Digest
	}
	out, err := k.accept(ctx, client, submission{r, ""})
	if err != nil {
		return ofNewFile(err)
	}
	return k.Show(out, func(t *cli.Table) { t.Line("job %s submitted, id %d", out.Name, out.ID) })
}

// ofNewFile says that the lines in a refusal are those of the new file, which the user has
// not seen.
func ofNewFile(err error) error {
	var p *rest.Problem
	if errors.As(err, &p) && slices.ContainsFunc(p.Errors, func(e rest.FieldError) bool { return e.Line > 0 }) {
		p.Detail += "; the lines are those of the new file, which --show prints"
	}
	return err
}

// doc is a job file that is edited.
type doc struct{ root *yaml.Node }

func read(file []byte) (*doc, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(file, &n); err != nil {
		return nil, fmt.Errorf("the job's file cannot be read: %w", err)
	}
	if len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the job's file is no map")
	}
	return &doc{n.Content[0]}, nil
}

// change makes the changes, all or none. Name and VC become those that the job had, whatever
// its file says.
func (d *doc) change(sets []string, j *rest.Job) error {
	problems := []error{put(d, []string{"name"}, scalar(string(j.Name))),
		put(d, []string{"defaults", "virtualCluster"}, scalar(string(j.VC)))}
	for _, set := range sets {
		key, value, ok := strings.Cut(set, "=")
		var v yaml.Node
		if !ok || key == "" {
			problems = append(problems, fmt.Errorf("--set %q: want KEY=VALUE", set))
			continue
		}
		if err := yaml.Unmarshal([]byte(value), &v); err != nil || len(v.Content) > 1 {
			problems = append(problems, fmt.Errorf("--set %s: the value is no YAML", key))
			continue
		}
		if strings.HasPrefix(key, "secrets") {
			problems = append(problems, errors.New("--set secrets: what is secret does not go on a command line: --secrets FILE"))
			continue
		}
		n := scalar("")
		if len(v.Content) == 1 {
			n = v.Content[0]
		}
		path := strings.Split(key, ".")
		if len(path) == 1 && at(d.root, key) == nil && at(at(d.root, "parameters"), key) != nil {
			path = []string{"parameters", key}
		}
		if err := put(d, path, n); err != nil {
			problems = append(problems, fmt.Errorf("--set %s: %w", key, err))
		}
	}
	return errors.Join(problems...)
}

// at is the value of a key of a map; nil if there is none.
func at(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

// put sets the value at a path. It creates maps on the way. Elements of lists are numbered
// from 0.
func put(d *doc, path []string, v *yaml.Node) error {
	n := d.root
	for i, key := range path {
		last := i == len(path)-1
		switch n.Kind {
		case yaml.MappingNode:
			next := at(n, key)
			if next == nil {
				next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				n.Content = append(n.Content, scalar(key), next)
			}
			n = next
		case yaml.SequenceNode:
			index, err := strconv.Atoi(key)
			if err != nil || index < 0 || index >= len(n.Content) {
				return fmt.Errorf("%s is a list of %d: want the number of one of them, from 0",
					strings.Join(path[:i], "."), len(n.Content))
			}
			n = n.Content[index]
		default:
			return fmt.Errorf("%s is no map in the file", strings.Join(path[:i], "."))
		}
		if last {
			*n = *v
		}
	}
	return nil
}

// masked replaces a secret in the stored file.
const masked = "******"

// fill fills in secrets from a file. If the job has secrets all of them must be given.
func (k *commands) fill(d *doc, file string) error {
	if file != "" {
		data, err := k.ReadFile(file, rest.MaxBody)
		if err != nil {
			return err
		}
		given, err := read(data)
		if err != nil {
			return errors.New("the file of secrets is no YAML map")
		}
		for i := 0; i+1 < len(given.root.Content); i += 2 {
			if err := put(d, []string{"secrets", given.root.Content[i].Value}, given.root.Content[i+1]); err != nil {
				return err
			}
		}
	}
	if hides(d.root) {
		return errors.New("the job has secrets, which its file does not show: give them all with --secrets FILE")
	}
	return nil
}

// hides reports whether a masked secret is left.
func hides(n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode && n.Value == masked {
		return true
	}
	for _, c := range n.Content {
		if hides(c) {
			return true
		}
	}
	return false
}
