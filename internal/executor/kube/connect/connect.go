// Package connect finds the Kubernetes cluster in which jobs run, as flags say.
package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// Flags say in which Kubernetes cluster jobs run.
type Flags struct {
	Executor string
	File     string
	Space    string
	Work     string
}

// Add adds them to those of a command.
func (k *Flags) Add(f *pflag.FlagSet) {
	f.StringVar(&k.Executor, "executor", "local", "what runs tasks: local is this machine, kubernetes the nodes of a Kubernetes cluster, as pods")
	k.AddFile(f)
	f.StringVar(&k.Space, "kube-namespace", "comb", "namespace of Kubernetes in which tasks become pods; it must be there")
	f.StringVar(&k.Work, "checkpoint-claim", "", "PersistentVolumeClaim (ReadWriteMany) of that namespace in which jobs keep their checkpoints, a folder for each; without one jobs that ask for checkpoints are refused")
}

// AddFile adds only the one that says which cluster is meant.
func (k *Flags) AddFile(f *pflag.FlagSet) {
	f.StringVar(&k.File, "kubeconfig", "", "file that says which Kubernetes cluster (default: $KUBECONFIG, ~/.kube/config, or the pod that this runs in)")
}

// Used reports whether jobs run on Kubernetes.
func (k *Flags) Used() bool { return k.Executor == "kubernetes" }

// Check says what is wrong with them. pretended is that GPUs of this machine are pretended.
func (k *Flags) Check(pretended bool) error {
	switch {
	case k.Executor != "local" && !k.Used():
		return fmt.Errorf("--executor %q: want local or kubernetes", k.Executor)
	case k.Work != "" && !k.Used():
		return errors.New("--checkpoint-claim is for --executor kubernetes; on one machine checkpoints are in the data directory")
	case k.Used() && pretended:
		return errors.New("--virtual-gpus is for this machine, and --executor kubernetes runs tasks on the nodes of a cluster")
	}
	return nil
}

// Open returns the API server, and what runs tasks in words. It waits for one that does not answer, and says so; one
// that is too old it refuses.
func (k *Flags) Open(ctx context.Context, log *slog.Logger) (*api.Client, string, error) {
	client, err := api.Open(api.Options{Kubeconfig: k.File, Namespace: k.Space, Log: log})
	if err != nil {
		return nil, "", err
	}
	version, err := k.ask(ctx, client)
	for refused := (*refusedError)(nil); err != nil; version, err = k.ask(ctx, client) {
		if errors.As(err, &refused) {
			return nil, "", err
		}
		log.Warn("the API server of Kubernetes cannot be asked; it is tried again", "server", client.Host(), "error", api.Words(err))
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(5 * time.Second):
		}
	}
	return client, fmt.Sprintf("pods in namespace %s of Kubernetes %s at %s", k.Space, version, client.Host()), nil
}

// refusedError is what does not become better by waiting.
type refusedError struct{ why string }

// Error implements error.
func (e *refusedError) Error() string { return e.why }

// ask asks for the version, and for all that Comb needs there.
func (k *Flags) ask(ctx context.Context, c *api.Client) (version string, err error) {
	version, err = c.Version(ctx)
	if tooOld := (*api.TooOld)(nil); errors.As(err, &tooOld) {
		return "", &refusedError{tooOld.Error()}
	}
	if err != nil {
		return "", err
	}
	missing, err := c.Missing(ctx)
	if err != nil {
		return "", err
	}
	if len(missing) > 0 {
		return "", &refusedError{fmt.Sprintf("Comb lacks rights in the Kubernetes cluster at %s (namespace %s): %s; deploy/kubernetes/rights.yaml has them", c.Host(), k.Space, strings.Join(missing, ", "))}
	}
	there, err := c.HasNamespace(ctx)
	if err == nil && !there {
		return "", &refusedError{fmt.Sprintf("the Kubernetes cluster has no namespace %s: make it with kubectl create namespace %s, or name another one with --kube-namespace", k.Space, k.Space)}
	}
	return version, err
}
