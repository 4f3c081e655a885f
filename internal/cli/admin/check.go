package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/discover"
	"github.com/combsched/comb/internal/spec/config"
)

func (k *clusterCommands) check() *cobra.Command {
	write, sshConfig, flags, as, cluster := "", "", api.Flags{}, "", ""
	c := &cobra.Command{Use: "check [DIR]",
		Short: "Look whether a Kubernetes cluster, or bare machines, have what Comb needs",
		Long: `Look whether a Kubernetes cluster has what the server needs there: its version, the
namespace, the rights, each by its name, the PriorityClass of Comb's pods, and the policies that
keep others from taking GPUs with kubectl (deploy/kubernetes/admission.yaml). The rights are those
of the kubeconfig's user, or of --as, such as the server's account. It also names what others have
that the policies would refuse, or do not see: an administrator of the cluster may list that. With
--cluster it looks whether the policies name what the GPUs of a cluster file are called, and
whether its nodes are there with that much room.

With DIR, look at bare machines over ssh before Kubernetes is installed on them: system, CPUs, memory, room on disk, swap, clock, GPUs
with their driver, container runtime, and whether two are copies of one. DIR has the lists that OpenPAI's installation takes: master.csv
and worker.csv with a line NAME,IP for each machine, and config.yaml with the user. Nothing is changed there, and passwords are not
used: your ssh must get in by a key, and know the keys of the machines. --write makes an Ansible inventory for Kubespray and k3s-ansible.`,
		Example: "  comb cluster check --cluster cluster.yaml\n" +
			"  comb cluster check --as system:serviceaccount:comb:comb\n" +
			"  comb cluster check machines --write inventory.yaml", Args: cobra.MaximumNArgs(1)}
	flags.AddFile(c.Flags())
	flags.AddSpace(c.Flags())
	c.Flags().StringVar(&as, "as", "", "ask as this user of Kubernetes, by the right to impersonate it, as kubectl does")
	c.Flags().StringVar(&cluster, "cluster", "",
		"cluster file whose GPUs, namespaces and nodes are looked at, too; without DIR")
	c.Flags().StringVar(&write, "write", "", "write the inventory to this file, once nothing is wrong; with DIR")
	c.Flags().StringVar(&sshConfig, "ssh-config", "",
		"a configuration file of ssh instead of your own, with keys, ports and known hosts; with DIR")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			if write != "" || sshConfig != "" {
				return cli.Usage(c, "--write and --ssh-config are for bare machines: name the folder with their lists")
			}
			return k.checkCluster(c.Context(), flags, as, cluster)
		}
		if cluster != "" {
			return cli.Usage(c, "--cluster is for a Kubernetes cluster: leave out the folder")
		}
		list, err := discover.ReadHosts(args[0])
		if err != nil {
			return err
		}
		if _, err := os.Lstat(write); write != "" && err == nil {
			return fmt.Errorf("%s is there already: give another name", write)
		}
		verdicts := discover.JudgeHosts(list, discover.AskHosts(c.Context(), list, sshConfig))
		if err := k.Show(verdicts, func(t *cli.Table) { k.drawHosts(t, verdicts) }); err != nil {
			return err
		}
		wrong := 0
		for i := range verdicts {
			if len(verdicts[i].Wrong) > 0 {
				wrong++
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%d of %d machines are not ready: mend what is wrong, and check again", wrong,
				len(verdicts))
		}
		if write == "" {
			return nil
		}
		f, err := os.OpenFile(write, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(discover.Inventory(list))
		return errors.Join(err, f.Close())
	}
	return c
}

// checkCluster says what a Kubernetes cluster has of what the server needs.
func (k *clusterCommands) checkCluster(ctx context.Context, flags api.Flags, as, cluster string) error {
	file, err := k.readCluster(cluster)
	if err != nil {
		return err
	}
	client, err := api.Open(api.Options{Kubeconfig: flags.File, Namespace: flags.Space, As: as,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	list, err := client.CheckCluster(ctx, file)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) { // it names the same address
			err = of.Err
		}
		return fmt.Errorf("cannot ask %s: %s; look whether it runs, and whether the kubeconfig names the right one "+
			"(--kubeconfig)", client.Host(), cli.Clean(api.ErrorText(err), false))
	}
	if err := k.Show(list, func(t *cli.Table) { k.drawChecks(t, list) }); err != nil {
		return err
	}
	if failed := list.Failed(); len(failed) > 0 {
		return fmt.Errorf("%d of %d things that Comb needs are missing or wrong in the Kubernetes cluster at %s",
			len(failed), len(list), client.Host())
	}
	if unsure := list.Unsure(); len(unsure) > 0 {
		return fmt.Errorf("of %d of %d things that Comb needs in the Kubernetes cluster at %s "+
			"it could not be found out whether they are right", len(unsure), len(list), client.Host())
	}
	return nil
}

// readCluster reads a cluster file; "" is none.
func (k *clusterCommands) readCluster(name string) (file api.ClusterFile, err error) {
	if name == "" {
		return file, nil
	}
	src, err := k.ReadFile(name, rest.MaxConfigBody)
	if errors.Is(err, fs.ErrNotExist) {
		return file, fmt.Errorf("%w: name the cluster file that the server has, or write one with "+
			"comb cluster discover > %s", err, name)
	}
	if err != nil {
		return file, err
	}
	policies := config.Policies{Names: policy.Names(), New: policy.New, Named: true}
	c, _, problems := config.Parse(name, src, policies)
	if len(problems) > 0 {
		return file, problems
	}
	spaces := slices.Collect(maps.Keys(model.Namespaces(c.Config)))
	file = api.ClusterFile{SKUs: c.Config.Cluster.SKUs, Namespaces: spaces}
	for _, n := range config.NodeSums(c.Config) {
		file.Rooms = append(file.Rooms, api.Room{Node: n.Node, MilliCPU: n.MilliCPU, MemoryMB: n.MemoryMB})
	}
	return file, nil
}

// drawChecks prints what was looked at, and below it what is to be done.
func (k *clusterCommands) drawChecks(t *cli.Table, list api.Checks) {
	t.Head("WHAT", "NAME", "NAMESPACE", "STATE")
	for _, c := range list {
		state := "ok"
		switch {
		case c.Unknown:
			state = "not known"
		case !c.OK && c.Optional:
			state = "see below"
		case !c.OK:
			state = "not ok"
		}
		t.Row(c.Kind, cli.Clean(c.Name, false), c.Namespace, state)
	}
	wrong := slices.DeleteFunc(slices.Clone(list), func(c api.Check) bool { return c.OK })
	for _, line := range wrong.Lines() {
		t.Line("%s", cli.Clean(line, false))
	}
}

// drawHosts prints what hosts reported, which is not trusted.
func (k *clusterCommands) drawHosts(t *cli.Table, list []discover.HostVerdict) {
	t.Head("NAME", "IP", "IS", "SYSTEM", "CPUS", "MEMORY", "FREE", "GPUS", "DRIVER", "RUNTIME", "CLOCK", "STATE")
	for i := range list {
		v := &list[i]
		is := strings.TrimPrefix(map[bool]string{true: ",master"}[v.Master]+map[bool]string{true: ",worker"}[v.Worker], ",")
		if v.OS == "" && v.CPUs == 0 { // it reported nothing
			t.Row(v.Name, v.IP, is, "", "", "", "", "", "", "", "", "not reached")
			continue
		}
		state := "ready"
		if len(v.Wrong) > 0 {
			state = "not ready"
		}
		gpus := ""
		if v.GPUs > 0 {
			gpus = strings.TrimSpace(strconv.Itoa(v.GPUs) + " " + v.GPU)
		}
		t.Row(v.Name, v.IP, is, cli.Clean(v.OS, false), strconv.FormatInt(v.CPUs, 10), fmt.Sprint(v.MemoryGB, " GiB"),
			fmt.Sprint(v.DiskGB, " GiB"), cli.Clean(gpus, false),
			cli.Clean(v.Driver, false), cli.Clean(cmp.Or(v.Runtime, "none"), false), cli.Clean(v.Clock, false), state)
	}
	for i := range list {
		for _, text := range list[i].Wrong {
			t.Line("%s: %s", list[i].Name, cli.Clean(text, false))
		}
		for _, text := range list[i].Notes {
			t.Line("%s: note: %s", list[i].Name, cli.Clean(text, false))
		}
	}
}
