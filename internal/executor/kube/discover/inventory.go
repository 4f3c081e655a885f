package discover

import (
	"fmt"
	"strings"
)

// Inventory writes the hosts for Ansible, in the groups of Kubespray and of k3s-ansible.
func Inventory(l *HostLists) string {
	var b strings.Builder
	b.WriteString("# Written by comb cluster check. Groups of Kubespray, and server and agent for k3s-ansible.\nall:\n")
	if l.User != "" {
		fmt.Fprintf(&b, "  vars: {ansible_user: %q}\n", l.User)
	}
	b.WriteString("  hosts:\n")
	for _, h := range l.Hosts {
		fmt.Fprintf(&b, "    %q: {ansible_host: %q, ip: %q}\n", h.Name, h.IP, h.IP)
	}
	b.WriteString("  children:\n")
	group := func(name string, in func(*Host) bool) {
		fmt.Fprintf(&b, "    %s:\n      hosts:\n", name)
		for i := range l.Hosts {
			if in(&l.Hosts[i]) {
				fmt.Fprintf(&b, "        %q:\n", l.Hosts[i].Name)
			}
		}
	}
	master := func(h *Host) bool { return h.Master }
	worker := func(h *Host) bool { return h.Worker }
	group("kube_control_plane", master)
	group("etcd", master)
	group("kube_node", worker)
	b.WriteString("    k8s_cluster:\n      children:\n        kube_control_plane:\n        kube_node:\n")
	group("server", master)
	group("agent", func(h *Host) bool { return h.Worker && !h.Master })
	b.WriteString("    k3s_cluster:\n      children:\n        server:\n        agent:\n")
	return b.String()
}
