package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/local"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/spec/config"
)

// readCluster looks at this machine and reads the cluster file; nil without one.
func (d *daemon) readCluster(ctx context.Context) (*config.Cluster, error) {
	var err error
	if !d.flags.kube.Used() {
		if d.machine, err = local.Discover(ctx); errors.Is(err, local.ErrDriver) && store.Begun(d.flags.data) {
			d.log.Warn("the GPUs of this machine are out of use until their driver answers", "error", err)
		} else if err != nil {
			return nil, err
		}
	}
	if d.flags.cluster == "" {
		return nil, nil
	}
	src, err := d.app.ReadFile(d.flags.cluster, rest.MaxConfigBody)
	if err != nil {
		return nil, err
	}
	d.source = src
	c, warnings, problems := config.Parse(d.flags.cluster, src, d.policies())
	for _, w := range warnings {
		fmt.Fprintf(d.app.Errs, "warning: %s\n", cli.Clean(w.String(), false))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	// A used directory may have it in force.
	if err := d.checkCluster(c.Config); err != nil && !store.Begun(d.flags.data) {
		return nil, fmt.Errorf("%s: %w", d.flags.cluster, err)
	}
	return c, nil
}

// policies are the policies that cluster files may name, and how GPUs are pretended.
func (d *daemon) policies() config.Policies {
	return config.Policies{Names: policy.Names(), New: policy.New, Named: true, Pretend: d.pretends}
}

// pretends reports whether GPUs are pretended where a file does not say. They are if the
// server was started so, or if all GPUs in force are and this machine has none. Where its
// driver does not answer the machine may have some. from says why they are, and is "" for the
// server's flag.
func (d *daemon) pretends() (yes bool, from string) {
	if d.flags.virtualGPUs > 0 {
		return true, ""
	}
	c := d.inForce()
	if c == nil || config.RealGPUs(c, nil) != "" ||
		!slices.ContainsFunc(c.Cluster.SKUs, func(s cell.SKU) bool { return s.Pretended }) {
		return false, ""
	}
	if d.flags.kube.Used() {
		return true, "those in force are"
	}
	if gpus, err := d.gpus(); len(gpus) > 0 || err != nil {
		return false, ""
	}
	return true, "those in force are, and none is found on this machine"
}

// inForce is the present configuration; nil where there is none, or it is not known yet.
func (d *daemon) inForce() (c *model.Config) {
	if r := d.replica.Load(); r != nil {
		_ = r.Read(context.Background(), 0, func(s *core.State) { c = s.Config() })
	}
	return c
}

// gpus are this machine's GPUs. Where none was found at the start the driver is asked again,
// since it may have been away.
func (d *daemon) gpus() ([]machine.GPU, error) {
	if len(d.machine.GPUs) > 0 {
		return d.machine.GPUs, nil
	}
	return machine.ListGPUs(context.Background(), "nvidia-smi")
}

// rereadFile reads the cluster file of the start again, now that the configuration in force is
// known: that may decide which of its GPUs are pretended.
func (d *daemon) rereadFile(file *config.Cluster) (*config.Cluster, error) {
	if file == nil {
		return nil, nil
	}
	c, _, problems := config.Parse(d.flags.cluster, d.source, d.policies()) // its warnings were reported already
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// checkCluster refuses a cluster that needs more than this machine has, on which all its
// nodes run. It also refuses policies that need what the executor cannot do.
func (d *daemon) checkCluster(c *model.Config) error {
	if d.executor != nil { // else it is checked again when there is an executor
		if d.pods != nil {
			kube.AwaitNodes(d.pods) // nodes tell what pods can do; an API server that is away is reported below
		}
		if err := engine.CheckAbilities(c, policy.New, d.executor); err != nil {
			return err
		}
	}
	if err := model.CheckStorages(c.Storages, d.flags.kube.Used()); err != nil {
		return err
	}
	if d.flags.kube.Used() {
		if d.pods == nil {
			return nil // it is checked again when its nodes are known
		}
		return d.checkNodes(c)
	}
	if err := config.CheckNoPods(c); err != nil {
		return err
	}
	kept := []string{d.flags.data}
	if e := d.runtime.Engine; e != nil {
		kept = append(kept, strings.TrimPrefix(e.Host(), "unix://"))
	}
	if err := machine.StoragesApart(c.Storages, kept...); err != nil {
		return err
	}
	gpus, away := d.gpus()
	if real := config.RealGPUs(c, d.inForce()); real != "" && len(gpus) == 0 {
		problem := "no NVIDIA GPU is found on this machine"
		if away != nil {
			problem = "NVIDIA's driver does not answer on this machine"
		}
		return fmt.Errorf("%s, and those of %s are real ones: write pretended: true "+
			"at %s in skuTypes, or start the server with --virtual-gpus, so that they are pretended; "+
			"if the machine has GPUs, see that nvidia-smi lists them and try again", problem, real, real)
	}
	if d.flags.overcommit {
		return nil
	}
	have := config.Capacity{MilliCPU: int64(d.machine.Cores) * 1000, MemoryMB: d.machine.MemoryMB,
		GPU: int64(len(gpus))}
	if d.flags.virtualGPUs > 0 {
		have.GPU, have.Pretended = int64(max(d.flags.virtualGPUs, len(gpus))), true
	} else if have.GPU == 0 {
		have.GPU = config.Unlimited // devices of other makers are not counted
	}
	if err := config.CheckMachine(c, have); err != nil {
		return fmt.Errorf("%w; or start the server with --overcommit", err)
	}
	return nil
}

// checkConfig refuses a configuration that needs what cannot be done here. file is nil where the
// configuration comes from no file. If it is in force already, problems are only logged: a
// change since then, such as in what nodes have, must not keep a server from its jobs.
func (d *daemon) checkConfig(c *model.Config, file *config.Cluster, inForce bool) (err error) {
	if file != nil {
		if err = d.checkCluster(c); err != nil {
			err = fmt.Errorf("%s: %w", d.flags.cluster, err)
		}
	} else if d.pods == nil || kube.AwaitNodes(d.pods) { // nodes tell what pods can do
		err = engine.CheckAbilities(c, policy.New, d.executor)
	}
	if err == nil {
		for _, text := range d.warnOfCluster(c) {
			d.log.Warn(text)
		}
	}
	if err == nil || !inForce {
		return err
	}
	for line := range strings.Lines(err.Error()) {
		d.log.Warn("the configuration in force asks for what cannot be done here; the server starts all the same",
			"problem", strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// sameConfig reports whether a configuration is in force.
func sameConfig(c, present *model.Config) bool {
	if present == nil {
		return false
	}
	one, err := server.ETag(c)
	other, otherErr := server.ETag(present)
	return err == nil && otherErr == nil && one == other
}

// machineConfig is the configuration without a file. This machine is one node, and all of it
// belongs to one virtual cluster. Its leaves are its GPUs, each with an equal part of its
// cores and memory. Without GPUs they are its cores.
func (d *daemon) machineConfig() *model.Config {
	m := &d.machine
	sku := cell.SKU{Name: "CPU", Device: cell.CPU}
	leaves := m.Cores
	if gpus := max(len(m.GPUs), d.flags.virtualGPUs); gpus > 0 {
		sku = cell.SKU{Name: "GPU", GPU: 1, Device: cell.NVIDIA}
		leaves = gpus
		if sku.Pretended = d.flags.virtualGPUs > 0; !sku.Pretended {
			sku.Name = skuName(m.GPUs[0].Name)
		}
	}
	sku.MilliCPU = int64(m.Cores) * 1000 / int64(leaves)
	sku.MemoryMB = m.MemoryMB / int64(leaves)
	return config.Single(m.Host, sku, leaves)
}

// skuName makes a name of the driver's name of a device.
func skuName(device string) cell.TypeName {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, device)
	if name = strings.Trim(name, "-"); name == "" {
		return "GPU"
	}
	return cell.TypeName(name[:min(len(name), 60)])
}

// checkNodes refuses new nodes and namespaces that the Kubernetes cluster lacks. It warns of
// lacking ones that were in force before.
func (d *daemon) checkNodes(c *model.Config) error {
	var had []cell.NodeName
	var hadSpaces map[string]cell.VCName
	if d.engine != nil {
		if err := d.engine.Replica().Read(context.Background(), 0, func(s *core.State) {
			if present := s.Config(); present != nil {
				had, hadSpaces = config.NodeNames(present), model.Namespaces(present)
			}
		}); err != nil {
			return err
		}
	}
	away, err := d.pods.CheckNodes(config.NodeNames(c), had)
	if len(away) > 0 {
		d.log.Warn("the Kubernetes cluster has no such nodes now: nothing starts there", "nodes", api.FirstFew(away))
	}
	err = errors.Join(err, d.checkWorkloads(c))
	claims := slices.ContainsFunc(c.Cluster.SKUs, func(s cell.SKU) bool { return s.DRA.Class != "" })
	lost, unasked, without := kube.CheckNamespaces(d.pods, model.Namespaces(c), hadSpaces, claims)
	for _, why := range lost {
		d.log.Warn("a namespace of the cluster file cannot be used now: nothing starts there", "namespace", why)
	}
	if len(unasked) > 0 {
		d.log.Warn("the API server of Kubernetes did not say in time whether pods can be in namespaces of the cluster file", "namespaces", api.FirstFew(unasked))
	}
	for _, why := range kube.Unkept(d.pods, c.Cluster.SKUs) {
		d.log.Warn("the admission policies do not keep all GPUs of the cluster file from others", "problem", why)
	}
	return errors.Join(err, without, kube.CheckClaims(d.pods, c.Cluster.SKUs))
}

// judgeCluster refuses a cluster that cannot run here, and says what is doubtful in another.
func (d *daemon) judgeCluster(c *model.Config) ([]string, error) {
	if err := d.checkCluster(c); err != nil {
		return nil, err
	}
	return d.warnOfCluster(c), nil
}

// warnOfCluster says which nodes have less for jobs than a configuration says.
func (d *daemon) warnOfCluster(c *model.Config) []string {
	if d.pods == nil {
		return nil
	}
	var rooms []kube.Room
	for _, n := range config.NodeSums(c) {
		rooms = append(rooms, kube.Room{Node: n.Node, MilliCPU: n.MilliCPU, MemoryMB: n.MemoryMB})
	}
	if text := kube.LessRoom(d.pods, rooms); text != "" {
		return []string{text}
	}
	return nil
}

// namespaceOf is the namespace of a virtual cluster's pods in the present configuration; ""
// is the server's own. known is whether there is a configuration.
func (d *daemon) namespaceOf(vc cell.VCName) (space string, known bool) {
	r := d.replica.Load()
	if r == nil {
		return "", false
	}
	err := r.Read(context.Background(), 0, func(s *core.State) {
		if c := s.Config(); c != nil {
			space, known = model.NamespaceOf(c, vc), true
		}
	})
	return space, known && err == nil
}

// infinibandOf reports whether tasks of a virtual cluster may have RDMA network devices in
// the present configuration. known is whether there is one.
func (d *daemon) infinibandOf(vc cell.VCName) (may, known bool) {
	r := d.replica.Load()
	if r == nil {
		return false, false
	}
	err := r.Read(context.Background(), 0, func(s *core.State) {
		if c := s.Config(); c != nil {
			may, known = model.HasInfiniBand(c, vc), true
		}
	})
	return may, known && err == nil
}

// leaves are the leaves of the present configuration.
func (d *daemon) leaves() (list []machine.Leaf) {
	r := d.replica.Load()
	if r == nil { // nothing is configured yet
		return nil
	}
	_ = r.Read(context.Background(), 0, func(s *core.State) {
		skus := map[cell.TypeName]cell.SKU{}
		for _, sku := range skusOf(s) {
			skus[sku.Name] = sku
		}
		for _, n := range s.Nodes() {
			for _, l := range s.LeavesOf(n.Name) {
				list = append(list, machine.Leaf{LeafHealth: l, SKU: skus[l.SKU]})
			}
		}
	})
	return list
}

// leavesOf are the leaves of a node in the present configuration.
func (d *daemon) leavesOf(node cell.NodeName) (list []kube.Leaf) {
	r := d.replica.Load()
	if r == nil { // nothing is configured yet
		return nil
	}
	_ = r.Read(context.Background(), 0, func(s *core.State) {
		skus := map[cell.TypeName]cell.SKU{}
		for _, sku := range skusOf(s) {
			if sku.Device != cell.CPU {
				skus[sku.Name] = sku
			}
		}
		for _, l := range s.LeavesOf(node) {
			list = append(list, kube.Leaf{LeafHealth: l, GPUs: skus[l.SKU].GPU, DRA: skus[l.SKU].DRA,
				Resource: skus[l.SKU].Resource})
		}
	})
	return list
}

// openKube makes the executor of a Kubernetes cluster, and the server that its pods talk to.
func (d *daemon) openKube(ctx context.Context) error {
	way, listener, err := d.flags.kube.ServerLink(ctx, d.kube, d.flags.data, d.flags.uploadLimit.Bytes())
	if err != nil {
		return err
	}
	code := func(job *model.Job) (io.ReadCloser, int64, error) {
		f, err := d.uploads.ReadAgain(string(job.User), job.Upload) // pods check the digest themselves
		if err != nil {
			return nil, 0, err
		}
		return f, d.uploads.Size(string(job.User), job.Upload), nil
	}
	d.pods, err = kube.New(kube.Options{API: d.kube, Dir: d.store.JobsDir(),
		KeyFile: filepath.Join(d.flags.data, "pod-key"),
		Cluster: d.store.ClusterID(), Tell: d.live.Tell, Secrets: d.secrets(ctx), Identity: identities(d.people),
		Storage: d.storage, Leaves: d.leavesOf, Namespace: d.namespaceOf, InfiniBand: d.infinibandOf,
		Workloads: d.workloadSpaces, LeftOn: d.leftOn, CameUp: d.cameUp,
		WhyEnded: d.whyEnded, Work: d.flags.kube.Work, DiskMB: int64(d.flags.boxDisk.MemoryFlag),
		MostMB: d.flags.boxDisk.Most(), ServerLink: way, PullSecrets: d.flags.kube.PullSecrets, Code: code,
		Log: d.log, Limits: kube.Within(d.flags.pullTimeout)})
	if err == nil {
		over := d.overPods()
		d.workloads.Store(over)
		d.executor = over
	}
	if err == nil && listener != nil {
		go func() {
			if err := d.pods.PodHandler().Serve(ctx, listener, d.log); err != nil {
				d.log.Error("pods are not answered any more: start the server again", "error", err)
			}
		}()
	}
	return err
}

// skusOf are the SKUs of the present configuration.
func skusOf(s *core.State) []cell.SKU {
	if c := s.Config(); c != nil {
		return c.Cluster.SKUs
	}
	return nil
}

// check reports what is wrong with the flags alone.
func (s *serveFlags) check(c *cobra.Command) error {
	if (s.tlsCert == "") != (s.tlsKey == "") || s.tlsCert != "" && s.insecure {
		return cli.Usage(c, "--tls-cert and --tls-key are given both or not at all, and not with --insecure-listen-without-tls")
	}
	if err := rest.CheckAddress(c.Context(), s.listen, s.insecure || s.tlsCert != ""); err != nil {
		return cli.Usage(c, "%w", err)
	}
	if s.debug != "" {
		if err := server.CheckProfiles(s.debug); err != nil {
			return cli.Usage(c, "--debug-listen %w", err)
		}
	}
	if _, err := server.ParseProxies(s.proxies); err != nil {
		return cli.Usage(c, "--trusted-proxy: %w", err)
	}
	if s.virtualGPUs < 0 || s.virtualGPUs > 4096 {
		return cli.Usage(c, "--virtual-gpus %d: want 0 to 4096", s.virtualGPUs)
	}
	if !slices.Contains([]string{"auto", "container", "process"}, s.runtime) {
		return cli.Usage(c, "--runtime %q: want auto, container or process", s.runtime)
	}
	if err := s.kube.Check(s.virtualGPUs > 0); err != nil {
		return cli.Usage(c, "%w", err)
	}
	if s.pullTimeout < time.Second || s.pullTimeout > 24*time.Hour {
		return cli.Usage(c, "--image-pull-timeout %v: want 1s to 24h", s.pullTimeout)
	}
	if c.Flags().Changed("image-budget") && s.imageBudget.MemoryFlag == 0 {
		return cli.Usage(c, "--image-budget 0: no image is that small; without the flag nothing bounds what they take")
	}
	if s.uploadLimit.MemoryFlag < 1 || s.uploadQuota.MemoryFlag < s.uploadLimit.MemoryFlag {
		return cli.Usage(c, "--upload-limit %s, --upload-quota %s: want 1Mi or more, and no larger limit than quota",
			s.uploadLimit.String(), s.uploadQuota.String())
	}
	return nil
}
