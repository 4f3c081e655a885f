package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Flags say in which Kubernetes cluster jobs run.
type Flags struct {
	Executor string
	File     string
	Space    string
	Work     string
	Image    string // of Comb, for pods
	URL      string // at which pods reach the server
	Listen   string
	Unkept   bool // start also where nothing keeps others from GPUs
	kept     Checks
	// PullSecrets are Secrets of each namespace with pods, with which their images are fetched.
	PullSecrets []string
}

// Add adds the flags to those of a command.
func (k *Flags) Add(f *pflag.FlagSet) {
	f.StringVar(&k.Executor, "executor", "local", "what runs tasks: local is this machine, kubernetes the nodes of a Kubernetes cluster, as pods")
	k.AddFile(f)
	k.AddSpace(f)
	f.StringVar(&k.Work, "checkpoint-claim", "", "PersistentVolumeClaim (ReadWriteMany), in each namespace with pods, "+
		"in which jobs keep their checkpoints, a folder for each; without it jobs that ask for checkpoints are refused")
	f.StringVar(&k.Image, "pod-image", "", "image of this very Comb, as make image writes it: "+
		"pods take the program from it that fetches a job's code, sends what it prints and tells its progress; "+
		"self is that of the pod in which the server itself runs")
	f.StringVar(&k.URL, "pod-url", "", "https://NAME:PORT at which pods reach the server; with --pod-image")
	f.BoolVar(&k.Unkept, "without-admission-policies", false, "start also where the policies of "+
		"deploy/kubernetes/admission.yaml are missing, so that pods of others may take GPUs that Comb gives")
	f.StringSliceVar(&k.PullSecrets, "pod-pull-secret", nil,
		"Secret of type kubernetes.io/dockerconfigjson, in each namespace with pods, with which nodes fetch "+
			"their images, and that of --pod-image; added to what a job and the service account have (may repeat)")
	f.StringVar(&k.Listen, "pod-listen", ":8421", "address on which the server listens for pods; with --pod-image")
}

// AddSpace adds only the flag that says in which namespace tasks become pods.
func (k *Flags) AddSpace(f *pflag.FlagSet) {
	f.StringVar(&k.Space, "kube-namespace", "comb", "namespace of Kubernetes in which tasks become pods, "+
		"but for virtual clusters with one of their own; it must be there")
}

// AddFile adds only the flag that says which cluster is meant.
func (k *Flags) AddFile(f *pflag.FlagSet) {
	f.StringVar(&k.File, "kubeconfig", "", "file that says which Kubernetes cluster is meant (default: $KUBECONFIG, ~/.kube/config, or the pod that this runs in)")
}

// Used reports whether jobs run on Kubernetes.
func (k *Flags) Used() bool { return k.Executor == "kubernetes" }

// Check says what is wrong with the flags. pretended says that GPUs of this machine are
// pretended.
func (k *Flags) Check(pretended bool) error {
	switch {
	case k.Executor != "local" && !k.Used():
		return fmt.Errorf("--executor %q: want local or kubernetes", k.Executor)
	case k.Work != "" && !k.Used():
		return errors.New("--checkpoint-claim is for --executor kubernetes; on one machine checkpoints are in the data directory")
	case (k.Image == "") != (k.URL == "") || k.Image != "" && !k.Used():
		return errors.New("--pod-image and --pod-url are given both or not at all, and with --executor kubernetes")
	case len(k.PullSecrets) > 0 && !k.Used():
		return errors.New("--pod-pull-secret is for --executor kubernetes; " +
			"on one machine jobs bring their own passwords for registries")
	case k.URL != "" && !strings.HasPrefix(k.URL, "https://"):
		return fmt.Errorf("--pod-url %q: want https://NAME:PORT", k.URL)
	case k.Unkept && !k.Used():
		return errors.New("--without-admission-policies is for --executor kubernetes")
	case slices.ContainsFunc(k.PullSecrets, noName):
		return fmt.Errorf("--pod-pull-secret %q: want names of Secrets", strings.Join(k.PullSecrets, ","))
	case k.Used() && pretended:
		return errors.New("--virtual-gpus is for this machine, and --executor kubernetes runs tasks on the nodes of a cluster")
	}
	return nil
}

// noName reports whether no object can have a name.
func noName(s string) bool { return len(validation.IsDNS1123Subdomain(s)) > 0 }

// Open returns the API server, and a text about it. It waits for a server that does not answer,
// and logs that; it refuses one that is too old.
func (k *Flags) Open(ctx context.Context, log *slog.Logger) (*Client, string, error) {
	client, err := Open(Options{Kubeconfig: k.File, Namespace: k.Space, Log: log})
	if err != nil {
		return nil, "", err
	}
	version, err := k.ask(ctx, client)
	said := ""
	for refused := (*refusedError)(nil); err != nil; version, err = k.ask(ctx, client) {
		if errors.As(err, &refused) {
			return nil, "", err
		}
		if why := ErrorText(err); why != said {
			log.Warn("the API server of Kubernetes cannot be asked; it is tried again until it answers",
				"server", client.Host(), "error", why)
			said = why
		}
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(5 * time.Second):
		}
	}
	if failed := k.kept.Failed(); len(failed) > 0 {
		log.Warn("pods of others may take GPUs that Comb gives; --without-admission-policies accepts that",
			"problems", failed.String())
	}
	if unsure := k.kept.Unsure(); len(unsure) > 0 {
		log.Warn("it is not known whether pods of others are kept from GPUs that Comb gives",
			"problems", unsure.String())
	}
	if k.kept.Has("PriorityClass", pods.PriorityClass) {
		client.class = pods.PriorityClass
	} else {
		log.Warn("pods of jobs have no PriorityClass, so pods of others with a priority take their room",
			"missing", pods.PriorityClass)
	}
	return client, fmt.Sprintf("pods in namespace %s of Kubernetes %s at %s", k.Space, version, client.Host()), nil
}

// ServerLink returns how pods reach this server, and where it listens for them; nil: they do not.
// dir keeps the certificate. limit bounds a job's code, in bytes.
func (k *Flags) ServerLink(ctx context.Context, c *Client, dir string, limit int64) (*pods.ServerLink, net.Listener, error) {
	if k.Image == "" {
		return nil, nil, nil
	}
	image, err := k.imageOf(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if missing, err := c.MissingForTokens(ctx); err == nil && len(missing) > 0 {
		return nil, nil, &refusedError{fmt.Sprintf("Comb lacks rights in the Kubernetes cluster at %s: %s; "+
			"by them it checks the tokens that pods show it (--pod-image): bind the ClusterRole "+
			"system:service-account-issuer-discovery to its account", c.Host(), strings.Join(missing, ", "))}
	}
	pair, pin, err := link.Identity(filepath.Join(dir, "pod-line.pem"))
	if err != nil {
		return nil, nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", k.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot listen for pods: %w; name another address with --pod-listen", err)
	}
	return &pods.ServerLink{Image: image, URL: k.URL, Pin: pin, Limit: limit},
		tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}), nil
}

// imageOf is the image that pods take this program from.
func (k *Flags) imageOf(ctx context.Context, c *Client) (string, error) {
	if k.Image != "self" {
		return k.Image, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--pod-image self: %w", err)
	}
	pod, err := c.Get(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Errorf("--pod-image self: ask for the pod of this server: %s", ErrorText(err))
	case pod == nil:
		return "", fmt.Errorf("--pod-image self: this server is no pod of namespace %s (there is none named %s): name the image", k.Space, name)
	}
	image, ok := ownImage(pod)
	if !ok {
		return "", fmt.Errorf("--pod-image self: pod %s has %d containers, and none is named comb, so it is not known which is this server's: name the image", name, len(pod.Spec.Containers))
	}
	return image, nil
}

// ownImage is the image of the container named comb, or of the only container: others may be
// added to a pod, even before it.
func ownImage(pod *corev1.Pod) (string, bool) {
	list := pod.Spec.Containers
	if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == "comb" }); i >= 0 {
		return list[i].Image, true
	}
	if len(list) == 1 {
		return list[0].Image, true
	}
	return "", false
}

// refusedError is an error that waiting does not mend.
type refusedError struct{ why string }

// Error implements error.
func (e *refusedError) Error() string { return e.why }

// ask asks for the version, and checks all that Comb needs there.
func (k *Flags) ask(ctx context.Context, c *Client) (version string, err error) {
	version, err = c.Version(ctx)
	if tooOld := (*TooOld)(nil); errors.As(err, &tooOld) {
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
	if err != nil {
		return "", err
	}
	if k.kept, err = c.CheckAdmission(ctx); err != nil {
		return "", err
	}
	if failed := k.kept.Failed(); len(failed) > 0 && !k.Unkept {
		return "", &refusedError{fmt.Sprintf("in the Kubernetes cluster at %s pods of others may take GPUs "+
			"that Comb gives:\n  %s\n--without-admission-policies starts the server all the same",
			c.Host(), strings.Join(failed.Lines(), "\n  "))}
	}
	return version, nil
}
