package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/api/telemetry"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/admin"
	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/engine/upkeep"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/workloads"
	"github.com/combsched/comb/internal/executor/local"
	"github.com/combsched/comb/internal/spec/config"
	"github.com/combsched/comb/internal/spec/jobspec"
	"github.com/combsched/comb/internal/spec/upload"
)

const (
	tokenFile    = "admin-token"
	adminUser    = "admin"
	shutdownTime = 5 * time.Second
	defaultAddr  = "127.0.0.1:8420"
)

// serveFlags are the flags of comb serve.
type serveFlags struct {
	data         string
	listen       string
	debug        string
	insecure     bool
	tlsCert      string
	tlsKey       string
	oidc         string
	hosts        []string
	proxies      []string
	cluster      string
	virtualGPUs  int
	dev          string
	overcommit   bool
	refuseImages bool
	trustUsers   bool
	runtime      string
	pullTimeout  time.Duration
	imageBudget  cli.BudgetFlag
	boxDisk      cli.DiskFlag
	uploadLimit  cli.BudgetFlag
	uploadQuota  cli.BudgetFlag
	log          telemetry.LogFlags
	keep         upkeep.Flags
	kube         api.Flags
}

const serveHelp = `Run the server: it accepts jobs, places them, and runs their tasks.

Tasks run on this machine: in containers where a job names an image and a container engine answers (DOCKER_HOST
says where, else /var/run/docker.sock), as processes else. Without a cluster file the machine is one node with its GPUs and
one virtual cluster, "default". With one, all nodes of the file run here.

With --executor kubernetes each task is a pod, and the nodes are those of a Kubernetes cluster: "comb cluster discover"
proposes the file for --cluster, and "comb cluster check" says what the cluster lacks. docs/kubernetes.md says all.

The first start makes a token and keeps it in the data directory as admin-token.
Tasks outlive the server: the next start on the same directory finds them again,
and goes on with the configuration that the directory has. It says which
version that is. "comb config apply" replaces it, and so does --cluster with a new file.
A file of --cluster that an apply has replaced stays replaced, so that a unit may name it:
the start warns, and says how it is applied all the same.`

func serveCommand(a *cli.App) *cobra.Command {
	s := serveFlags{}
	c := &cobra.Command{Use: "serve", Short: "Run the server on this machine",
		Long: serveHelp,
		Example: "  comb serve\n  comb serve --virtual-gpus 4 --data ./comb-data\n" +
			"  comb serve --executor kubernetes --cluster cluster.yaml",
		Args: cli.Args(cobra.NoArgs)}
	f := c.Flags()
	f.StringVar(&s.data, "data", "", "data directory (default: $XDG_DATA_HOME/comb, else ~/.local/share/comb)")
	f.StringVar(&s.listen, "listen", defaultAddr, "address to listen on; port 0 takes a free one")
	f.StringVar(&s.debug, "debug-listen", "",
		"address of this machine's loopback, such as 127.0.0.1:6060, on which administrators get Go's profiles of "+
			"the server")
	f.BoolVar(&s.insecure, "insecure-listen-without-tls", false,
		"allow an address that other machines reach: tokens cross the network in clear")
	f.StringVar(&s.tlsCert, "tls-cert", "", "serve with TLS: file with the server's certificate, then those that lead to its authority, PEM; read again when it changes")
	f.StringVar(&s.tlsKey, "tls-key", "", "file with the private key of --tls-cert, PEM; read again when it changes")
	f.StringVar(&s.oidc, "oidc", "", "let an OpenID Connect provider say who signs in: file of settings, as in docs/people.md")
	f.StringSliceVar(&s.hosts, "host", nil, "another name under which clients reach this server (may repeat)")
	f.StringSliceVar(&s.proxies, "trusted-proxy", nil,
		"network or address of a proxy whose X-Forwarded-For says from where a request comes: of proxies only, "+
			"since clients there could invent addresses (may repeat)")
	f.StringVar(&s.cluster, "cluster", "", "cluster file to apply at the start, unless it was in force already and an apply has replaced it")
	f.IntVar(&s.virtualGPUs, "virtual-gpus", 0, "pretend so many GPUs, for machines without; on a data directory that has no cluster file's configuration it changes their number")
	f.StringVar(&s.dev, "dev", "/dev", "folder of the machine's device files")
	_ = f.MarkHidden("dev") // used by tests
	f.BoolVar(&s.overcommit, "overcommit", false, "allow a cluster file with more than this machine has")
	f.BoolVar(&s.refuseImages, "refuse-images", false,
		"refuse jobs with a container image, instead of ignoring the image with a warning")
	f.BoolVar(&s.refuseImages, "require-image", false, "")
	_ = f.MarkDeprecated("require-image", "its name says the opposite of what it does: use --refuse-images")
	f.BoolVar(&s.trustUsers, "trust-users", false, "let the jobs of several users run as processes, which can read and end each other's")
	f.StringVar(&s.runtime, "runtime", "auto", "auto: jobs with an image run in containers where an engine answers, all others as processes; container: every job needs an image and runs in a container; process: images are ignored")
	f.DurationVar(&s.pullTimeout, "image-pull-timeout", 30*time.Minute, "how long the fetching of one image may take")
	f.Var(&s.imageBudget, "image-budget", "what fetched images may take of the engine's disk, such as 500Gi; beyond, the least recently used are removed (default: no limit)")
	s.boxDisk.MemoryFlag = 100 << 10
	f.Var(&s.boxDisk, "container-disk", "what a container may write to its own disk, at most and when its task asks for nothing; 0 is any amount; on Kubernetes a task may ask for more than the default")
	s.uploadLimit.MemoryFlag, s.uploadQuota.MemoryFlag = cli.MemoryFlag(upload.Default.Bytes>>20), 10<<10
	f.Var(&s.uploadLimit, "upload-limit", "how large one upload may be, such as 100Mi")
	f.Var(&s.uploadQuota, "upload-quota", "how large all uploads of one user may be together")
	s.keep.Add(f)
	s.kube.Add(f)
	s.log.Add(f)
	_ = c.MarkFlagDirname("data")
	c.RunE = func(c *cobra.Command, _ []string) error {
		log, err := s.log.Logger(a.Errs)
		if err != nil {
			return cli.Usage(c, "%w", err)
		}
		if err := s.check(c); err != nil {
			return err
		}
		s.data = cli.First(s.data, a.DefaultData())
		if strings.HasPrefix(s.data, "/nonexistent/") {
			return cli.Usage(c, "HOME is not set: name a data directory with --data")
		}
		return (&daemon{app: a, flags: s, log: log, metrics: telemetry.New()}).run(c.Context())
	}
	return c
}

// daemon is one run of the server with its parts.
type daemon struct {
	app   *cli.App
	flags serveFlags
	log   *slog.Logger

	cert      *server.Certificate // nil without TLS
	provider  *oidc.Provider      // nil when users sign in by password only
	store     *store.Store
	people    *people.Directory
	uploads   *upload.Depot
	live      *engine.LiveInputs
	executor  executor.Executor
	runtime   docker.Runtime
	engine    *engine.Engine
	metrics   *telemetry.Metrics
	keeper    *upkeep.Keeper
	machine   local.Machine
	kube      *api.Client                        // nil when tasks run on this machine
	pods      *kube.Executor                     // nil when tasks run on this machine
	workloads atomic.Pointer[workloads.Executor] // over pods; nil until there is one
	replica   atomic.Pointer[engine.Replica]     // for goroutines of the start; nil until there is one
	source    []byte                             // of the cluster file
}

// run opens everything, serves until ctx is done, and closes everything in the opposite
// order. Tasks go on.
func (d *daemon) run(ctx context.Context) error {
	file, err := d.readCluster(ctx)
	if err != nil {
		return err
	}
	if err := d.findRuntime(ctx); err != nil {
		return err
	}
	defer d.runtime.Close()
	if d.provider, err = oidc.Open(d.flags.oidc); err != nil {
		return err
	}
	if d.cert, err = server.OpenCertificate(d.flags.tlsCert, d.flags.tlsKey, time.Now, d.log); err != nil {
		return err
	}
	listener, err := server.Listen(ctx, d.flags.listen, d.flags.insecure || d.cert != nil)
	if err != nil {
		return err
	}
	listener = d.cert.Over(listener)
	defer listener.Close()
	if d.store, err = store.Open(ctx, d.flags.data, store.Options{Now: cli.WallTime(), Log: d.log}); err != nil {
		if strings.Contains(err.Error(), "disk is full") {
			return cli.Hint{Err: err, Next: "free space on the disk of " + d.flags.data + " and start again; nothing is lost"}
		}
		return err
	}
	defer d.store.Close()
	if err := d.app.CheckAlone(d.flags.data, d.store.ClusterID()); err != nil {
		return err
	}
	if err := d.store.Room(); err != nil {
		d.log.Warn("jobs are refused until there is more room", "error", err)
	}
	if err := d.runtime.Remember(d.flags.data); err != nil {
		return err
	}
	if err := d.openUploads(); err != nil {
		return err
	}
	if err := d.openEngine(ctx); err != nil {
		return err
	}
	defer d.executor.Close()
	if err := d.checkUnknown(ctx); err != nil {
		return err
	}
	token, err := d.adminToken(ctx)
	if err != nil {
		return err
	}
	loop, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.engine.Run(loop) }()
	inForce, err := d.configure(ctx, file)
	if err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	d.configured()
	d.sweep(ctx)
	go d.uploads.Tidy(loop, d.usedUploads)
	kept := upkeep.Folder{Dir: d.store.JobsDir(), Remove: d.executor.Forget}
	d.keeper = upkeep.New(store.Retention{Store: d.store}, kept, d.flags.keep.Options(cli.WallTime, d.log))
	go d.keeper.Run(loop)
	err = d.serve(ctx, listener, serving{token, inForce, ended})
	stop()
	return errors.Join(err, <-ended)
}

// findRuntime finds the runtime of tasks.
func (d *daemon) findRuntime(ctx context.Context) (err error) {
	if d.flags.kube.Used() {
		if d.runtime.Images = jobspec.ImagesNeeded; d.flags.kube.Image != "" {
			d.runtime.Images = jobspec.ImagesWrapped
		}
		d.kube, d.runtime.Text, err = d.flags.kube.Open(ctx, d.log)
		return err
	}
	if d.runtime.Images = jobspec.ImagesIgnored; d.flags.refuseImages {
		d.runtime.Images = jobspec.ImagesRefused
	}
	if err = d.runtime.Find(ctx, d.flags.runtime, d.app.Env("DOCKER_HOST"),
		docker.HadEngine(d.flags.data)); err != nil {
		return cli.Hint{Err: err, Next: "start an engine (dockerd), let the server's user use its socket, or run the server with --runtime process"}
	}
	return nil
}

// openEngine makes the executor and recovers the state from the journal.
func (d *daemon) openEngine(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	d.live = engine.NewLiveInputs(cli.WallTime)
	if d.people, err = people.Open(ctx, d.store, cli.WallTime); err != nil { // before any task starts
		return err
	}
	d.people.Platform = local.Platform()
	if d.kube != nil {
		err = d.openKube(ctx)
	} else {
		err = d.openLocal(ctx, self)
	}
	if err != nil {
		return err
	}
	inputs := d.metrics.Inputs(d.live)
	d.engine, err = engine.Open(ctx, engine.Options{Inputs: inputs, Executor: d.executor,
		Journal:  timedJournal{d.store, inputs},
		Policies: policy.New, Epoch: d.store.Epoch(), Log: d.log})
	if err != nil {
		d.executor.Close()
		return fmt.Errorf("cannot recover from the journal in %s: %w", d.flags.data, err)
	}
	d.replica.Store(d.engine.Replica())
	d.configured()
	return nil
}

// configured makes the executor look at the nodes of a new cluster file at once.
func (d *daemon) configured() {
	switch e := d.executor.(type) {
	case *workloads.Executor:
		kube.LookAtLeaves(d.pods)
		e.Watch(d.workloadSpaces())
	case *local.Executor:
		local.LookAgain(e)
	}
}

// secrets returns a function that reads a job's secrets for the executor.
func (d *daemon) secrets(ctx context.Context) func(model.JobID) (map[string]string, error) {
	return func(id model.JobID) (map[string]string, error) {
		return d.store.Secrets(context.WithoutCancel(ctx), id)
	}
}

// identities returns a function that gives jobs in old journals, which name no number, the
// present number of their user. Where there are no accounts, all jobs belong to the holder of
// the data directory's token.
func identities(d *people.Directory) func(model.Subject) (executor.Identity, error) {
	return func(user model.Subject) (executor.Identity, error) {
		ids, err := d.TaskIDs(string(user))
		if errors.Is(err, people.ErrNotFound) && len(d.Users()) == 0 {
			err = nil
		}
		return executor.Identity{UID: uint32(ids.UID), GID: uint32(ids.GID)}, err
	}
}

// openLocal makes the executor of this machine.
func (d *daemon) openLocal(ctx context.Context, self string) (err error) {
	if most := d.flags.imageBudget; most.MemoryFlag > 0 && most.MemoryFlag < 1<<10 {
		d.log.Warn("the --image-budget is smaller than most images: they are removed and fetched again and again",
			"budget", most.String())
	}
	d.executor, err = local.New(local.Options{
		Dir: d.store.JobsDir(), Cluster: d.store.ClusterID(), Self: self, Tell: d.live.Tell,
		Secrets: d.secrets(ctx), Identity: identities(d.people),
		Code:    func(job *model.Job, path string) error { return d.uploads.Link(string(job.User), job.Upload, path) },
		Storage: d.storage, Leaves: d.leaves, Dev: d.flags.dev, Room: d.store.Room,
		RequireImage: d.flags.refuseImages, Engine: d.runtime.Engine,
		ContainerDiskMB: int64(d.flags.boxDisk.MemoryFlag), Images: docker.ImageOptions{Within: d.flags.pullTimeout,
			Budget: d.flags.imageBudget.Bytes()}, Log: d.log, Path: d.app.Env("PATH"),
	})
	return err
}

// timedJournal is the store as the engine's journal, with its writes timed.
type timedJournal struct {
	*store.Store
	timed *telemetry.Timed
}

// Append implements engine.Journal.
func (m timedJournal) Append(ctx context.Context, b engine.Batch) error {
	return m.timed.Append(func() error { return m.Store.Append(ctx, b) })
}

// usedUploads are the uploads of jobs that have not ended. Those of jobs that have started
// are also linked beside these jobs' files.
func (d *daemon) usedUploads(ctx context.Context) (used map[string]bool, err error) {
	used = map[string]bool{}
	err = d.engine.Replica().Read(ctx, 0, func(s *core.State) {
		for _, j := range s.Jobs() {
			if spec, ok := s.Spec(j.ID); ok && spec.Upload != "" {
				used[upload.DepotKey(string(spec.User), spec.Upload)] = true
			}
		}
	})
	return used, err
}

// storage returns a storage that jobs of a virtual cluster may use now.
func (d *daemon) storage(vc cell.VCName, name string) (found model.Storage, ok bool) {
	if d.engine == nil {
		return model.Storage{}, false // nothing starts before the state is known
	}
	err := d.engine.Replica().Read(context.Background(), 0, func(s *core.State) {
		c := s.Config()
		if c == nil {
			return
		}
		found, ok = model.FindStorage(c.Storages, name)
		ok = ok && found.For(model.VCAndParents(c.Cluster.VCs, vc))
	})
	return found, ok && err == nil
}

// checkUnknown refuses a journal that lacks attempts that ran here: it was cut off, or is an
// older copy. At that time nothing was started or ended yet.
func (d *daemon) checkUnknown(ctx context.Context) error {
	var seen executor.FoundWork
	var err error
	if readErr := d.engine.Replica().Read(ctx, 0, func(s *core.State) {
		seen,
			err = admin.UnknownAttempts(d.store, s)
	}); readErr != nil {
		return readErr
	}
	if err != nil || len(seen.Attempts) == 0 {
		return err
	}
	names := make([]string, len(seen.Attempts))
	for i, at := range seen.Attempts {
		names[i] = admin.AttemptName(at)
	}
	return &store.Refused{Dir: d.flags.data, Problem: admin.FoundHere(names), Advice: store.RepairAdvice(d.flags.data)}
}

// configure brings the configuration to what the operator asked for, and says in words what
// is in force.
func (d *daemon) configure(ctx context.Context, file *config.Cluster) (string, error) {
	var present *model.Config
	if err := d.engine.Replica().Read(ctx, 0, func(s *core.State) { present = s.Config() }); err != nil {
		return "", err
	}
	if d.kube != nil && file == nil && present == nil {
		return "", cli.Hint{Err: errors.New("which nodes of Kubernetes are whose is not known"),
			Next: "start with --cluster and a cluster file; comb cluster discover proposes one"}
	}
	file, err := d.rereadFile(file)
	if err != nil {
		return "", err
	}
	if stale, err := d.stale(ctx, file, present); err != nil {
		return "", err
	} else if stale {
		d.source = nil
		return d.keep(ctx, present)
	}
	want, source := d.configToApply(file, present)
	if want == nil {
		return d.keep(ctx, present)
	}
	if err := d.checkConfig(want.Config, file, sameConfig(want.Config, present)); err != nil {
		return "", err
	}
	change := want.Command(model.Meta{Subject: "system"})
	changed := present == nil
	if err := d.engine.Replica().Read(ctx, 0, func(s *core.State) {
		if plan, refusal := s.PlanConfig(change); refusal == nil && plan.Changed {
			changed = true
		}
	}); err != nil {
		return "", err
	}
	in := engine.Input{Command: change}
	if changed {
		in.Audit = &engine.Audit{Subject: "system", Verb: "apply configuration", Object: "the cluster file",
			Outcome: people.Done, Detail: store.ByStart + source}
	}
	reply := d.live.Give(ctx, in)
	switch {
	case reply.Refusal != nil:
		return "", fmt.Errorf("the configuration cannot be applied: %s", reply.Refusal.Message)
	case reply.Err != nil:
		return "", reply.Err
	}
	if file == nil {
		d.source = config.SingleFile(want.Config)
	}
	d.keepFile(ctx, reply.Seq, store.ByStart+source)
	text := source + ": " + config.Brief(want.Config)
	if present != nil && changed {
		text += "\nit replaces that of the data directory: " + config.Brief(present)
	}
	for _, e := range reply.Answer.Effects {
		text += "\n  " + e
	}
	return text, nil
}

// keep leaves the configuration in force, and says in words which one it is.
func (d *daemon) keep(ctx context.Context, present *model.Config) (string, error) {
	if err := d.checkConfig(present, nil, true); err != nil {
		return "", err
	}
	d.keepFile(ctx, 0, "in force when the server started")
	text := "kept in the data directory: "
	if list, err := d.store.Configs(ctx, 0, 1); err == nil && len(list) == 1 {
		text += server.VersionName(&list[0]) + ": "
	}
	return text + config.Brief(present), nil
}

// stale reports whether the file of the start was in force and was replaced since by an
// apply. A service that is restarted still names that file, which must not undo the apply.
func (d *daemon) stale(ctx context.Context, file *config.Cluster, present *model.Config) (bool, error) {
	if file == nil || present == nil || sameConfig(file.Config, present) {
		return false, nil
	}
	tag, err := server.ETag(present) // an apply that was cut off may have put it in force
	if err == nil {
		err = store.FinishBegun(ctx, d.store, tag)
	}
	if err != nil {
		return false, err
	}
	was, latest, yes, err := store.Replaced(ctx, d.store, d.source)
	if yes {
		fmt.Fprintf(d.app.Errs, "warning: %[1]s is not applied: it was %[2]s, and %[3]s, replaced it; that stays in force;\n"+
			"  to apply %[1]s all the same: comb config apply %[1]s\n",
			cli.Clean(d.flags.cluster, false), cli.Clean(server.VersionName(&was),
				false), cli.Clean(server.VersionName(&latest), false))
	}
	return yes, err
}

// keepFile saves the cluster file in force as a version, unless it is the latest version.
func (d *daemon) keepFile(ctx context.Context, seq uint64, reason string) {
	var tag string
	var err error
	if readErr := d.engine.Replica().Read(ctx, seq, func(s *core.State) {
		tag,
			err = server.ETag(s.Config())
	}); readErr != nil {
		err = readErr
	}
	if err == nil {
		err = store.RecordConfig(ctx, d.store, tag, engine.ConfigVersion{Time: cli.WallTime(), Author: "system",
			Reason: reason}, d.source)
	}
	if err != nil {
		d.log.Warn("the version of the cluster file cannot be noted", "error", err)
	}
}

// configToApply is the configuration to apply, and where it comes from. nil keeps the present one.
func (d *daemon) configToApply(file *config.Cluster, present *model.Config) (*config.Cluster, string) {
	gpus := d.flags.virtualGPUs
	switch {
	case file != nil:
		return file, d.flags.cluster
	case present == nil:
		return &config.Cluster{Config: d.machineConfig()}, "this machine"
	case gpus == 0:
		if older := config.PretendedBefore(present); older != nil {
			return &config.Cluster{Config: older}, "this machine with pretended GPUs"
		}
	case config.IsSingle(present):
		return &config.Cluster{Config: d.machineConfig()}, fmt.Sprintf("this machine with --virtual-gpus %d", gpus)
	default:
		fmt.Fprintf(d.app.Errs, "comb: --virtual-gpus %d makes no GPUs: the data directory %s has the configuration of a cluster file, which stays in force;\n"+
			"  change it with comb config apply FILE or with --cluster FILE, or name another directory with --data\n", gpus, d.flags.data)
	}
	return nil, ""
}

// sweep ends what runs here for attempts that are not in the journal, once the executor knows
// the attempts that are.
func (d *daemon) sweep(ctx context.Context) {
	<-d.engine.TakenUp()
	var live []model.AttemptID
	err := d.engine.Replica().Read(ctx, 0, func(s *core.State) {
		for _, j := range s.Jobs() {
			for _, at := range j.Attempts {
				if at.State != model.AttemptOver {
					live = append(live, at.ID)
				}
			}
		}
	})
	if err == nil {
		d.executor.EndStrays(live)
	}
}

// serving is what serve needs beside the daemon.
type serving struct {
	token string       // path of the token's file
	text  string       // the configuration in force, described
	ended <-chan error // receives the end of the engine's loop
}

// serve answers requests until ctx is done or the loop ends.
func (d *daemon) serve(ctx context.Context, l net.Listener, v serving) error {
	var stored executor.Images
	if h, ok := d.executor.(executor.HasImages); ok {
		stored = h.Images()
	}
	proxies, err := server.ParseProxies(d.flags.proxies)
	if err != nil {
		return err
	}
	handler := server.New(server.Options{
		Certified: d.cert.For, Provider: d.provider, ImageStore: stored, Uploads: d.uploads, People: d.people, TrustUsers: d.flags.trustUsers,
		Live: d.live, Replica: d.engine.Replica(), Store: d.store, Logs: d.executor, Entry: d.executor, Meter: d.executor,
		Policies: d.policies(), CheckCluster: d.judgeCluster, Configured: d.configured, Images: d.runtime.Images, Runtime: d.runtime.Text,
		Version: versionText(), Cluster: d.store.ClusterID(), Hosts: d.flags.hosts, Proxies: proxies,
		AnyAddress: d.flags.insecure,
		SameFolder: sameFolder, Checkpoints: d.executor.Checkpoints, Now: cli.WallTime, Log: d.log, Metrics: d.metrics.Handler(), Tags: store.Tags{Store: d.store}, Ends: store.Ends{Store: d.store},
	})
	d.metrics.Observe(ctx, telemetry.Options{Replica: d.engine.Replica(), Version: versionText(),
		Streams: handler.Streams, Kept: d.keeper.Stats,
		Certificate: d.cert.Ends, Room: d.store.Room, Conditions: d.conditions})
	h := handler.HTTP()
	h.Handler = d.metrics.Over(server.OpenPAI(handler))
	go server.EndTemporaryConfigs(ctx, handler)
	e := contexts.Self(v.token)
	e.URL = d.cert.Address(reachable(l.Addr()))
	failed := make(chan error, 2)
	dir := filepath.Dir(v.token)
	if s, err := server.ListenLocal(ctx, dir); err != nil {
		d.log.Warn("job run cannot give jobs its folder and environment", "error", err)
	} else {
		e.Socket = filepath.Join(dir, rest.SocketName)
		go func() { failed <- h.Serve(s) }()
	}
	files := d.app.EndpointFiles(dir, d.store.ClusterID())
	if err := contexts.Announce(e, files); err != nil {
		d.log.Warn("commands on this machine need --server and --token-file", "error", err)
	}
	defer contexts.Withdraw(e, files)
	go func() { failed <- h.Serve(l) }()
	profiles, err := d.serveProfiles(ctx, handler)
	if err != nil {
		return err
	}
	defer profiles.Close()
	fmt.Fprintf(d.app.Out, "comb %s serves at %s\ntoken file: %s\ndata directory: %s\nruntime: %s\nconfiguration: %s\n",
		versionText(), e.URL, v.token, d.flags.data, d.runtime.Text, cli.Clean(v.text, true))
	d.sayPretended(ctx)
	d.sayMissing()
	sayClosed(d)
	if code, until := d.people.SetupCode(); code != "" {
		fmt.Fprintf(d.app.Out, "no administrator account yet: make one with comb login --setup and the code %s, until %s\n", code, until.UTC().Format(time.RFC3339))
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("cannot serve: %w", err)
	case err = <-v.ended:
		if err == nil {
			err = errors.New("the loop ended")
		}
	}
	handler.Close()
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if downErr := h.Shutdown(down); downErr != nil && !errors.Is(downErr, http.ErrServerClosed) {
		_ = h.Close()
	}
	return err
}

// conditions is how many conditions hold now.
func (d *daemon) conditions() int {
	if h, ok := d.executor.(executor.HasConditions); ok {
		return len(h.Conditions())
	}
	return 0
}

// serveProfiles serves Go's profiles where the flags ask for it, and prints where.
func (d *daemon) serveProfiles(ctx context.Context, s *server.Server) (*http.Server, error) {
	h := server.Profiles(s)
	if d.flags.debug == "" {
		return h, nil
	}
	l, err := server.ListenProfiles(ctx, d.flags.debug)
	if err != nil {
		return nil, err
	}
	go func() { _ = h.Serve(l) }() // it ends with the server
	fmt.Fprintf(d.app.Out, "profiles: http://%s%s\n", l.Addr(), server.ProfilesPath)
	return h, nil
}

// sayPretended prints which GPUs of the configuration in force do not exist.
func (d *daemon) sayPretended(ctx context.Context) {
	_ = d.engine.Replica().Read(ctx, 0, func(s *core.State) {
		if list := admin.Pretended(rest.NodesOf(s.Nodes())); len(list) > 0 {
			fmt.Fprintf(d.app.Out, "GPUs: those of %s are pretended: tasks get their numbers, and no device\n",
				cli.Clean(strings.Join(list, ", "), false))
		}
	})
}

// sayMissing prints how to mark missing GPUs as pretended. An older server did not note which
// of its GPUs are pretended.
func (d *daemon) sayMissing() {
	c := d.inForce()
	if d.kube != nil || c == nil {
		return
	}
	if gpus, err := d.gpus(); len(gpus) > 0 || err != nil {
		return // the guard reports GPUs that do not answer
	}
	if real := config.RealGPUs(c, nil); real != "" {
		fmt.Fprintf(d.app.Out, "GPUs: those of %[1]s are real by the configuration in force, and none is found on this machine, "+
			"so they are out of use;\n  to pretend them apply its file with pretended: true at %[1]s in skuTypes, "+
			"or start the server with --virtual-gpus N and --cluster FILE\n", real)
	}
}

// sayClosed prints which folder above the data directory keeps users with numbers of their
// own from the files of their processes. The server opens its own folders for them, and no
// others.
func sayClosed(d *daemon) {
	if os.Geteuid() != 0 || d.kube != nil || d.runtime.Engine != nil && !d.flags.trustUsers {
		return // processes do not run as users
	}
	data, err := filepath.Abs(d.flags.data)
	if err != nil {
		return
	}
	for _, u := range d.people.Users() {
		ids, err := d.people.TaskIDs(u.Name)
		if err != nil || ids.UID == 0 {
			continue
		}
		if dir := local.Closed(filepath.Dir(data), ids.UID, ids.GID); dir != "" {
			fmt.Fprintf(d.app.Out, "users with a uid: the folder %[1]s is closed to them, so their jobs cannot start "+
				"as processes;\n  let others pass it (chmod o+x %[1]s), or keep the data directory elsewhere "+
				"(--data)\n", dir)
		}
		return
	}
}

// sameFolder says why a task on this machine would not be in the folder that a caller means;
// nil when it would.
func sameFolder(f rest.Folder) error {
	have, err := rest.FolderAt(f.Path)
	if err != nil {
		return fmt.Errorf("the server cannot use this folder: %w", err)
	}
	if have != f {
		return fmt.Errorf("the server sees another folder at %s than you do", f.Path)
	}
	return nil
}

// reachable is an address that a client on this machine can use.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// adminToken makes sure that the token file holds a valid token, and returns its path. It
// never prints or logs the token.
func (d *daemon) adminToken(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(d.flags.data)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, tokenFile)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	if _, ok := d.store.CheckToken(ctx, strings.TrimSpace(string(old)), cli.WallTime()); ok {
		return path, os.Chmod(path, 0o600)
	}
	text, _, err := d.store.CreateToken(ctx, "first start", adminUser, cli.WallTime())
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".new", []byte(text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("cannot keep the token: %w", err)
	}
	return path, os.Rename(path+".new", path)
}

// openUploads opens the store of users' uploads.
func (d *daemon) openUploads() (err error) {
	d.uploads, err = upload.OpenDepot(filepath.Join(d.flags.data, "uploads"), upload.DepotOptions{
		Limits: upload.Limits{Bytes: d.flags.uploadLimit.Bytes()}, Quota: d.flags.uploadQuota.Bytes(),
		Room: d.store.Room, Log: d.log})
	return err
}
