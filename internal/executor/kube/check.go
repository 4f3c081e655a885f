package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/executor/kube/api"
)

// asking is how many namespaces are asked about at a time.
const asking = 16

// CheckNamespaces refuses a configuration that names namespaces which the Kubernetes cluster
// lacks, or in which Comb lacks rights. away are those among them that were configured before:
// they may be made again, so they are not refused. unasked are those about which the API server
// did not answer in time. want holds a virtual cluster for each namespace.
func CheckNamespaces(e *Executor, want, had map[string]cell.VCName, claims bool) (away, unasked []string, err error) {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	names := slices.Sorted(maps.Keys(want))
	lack, failed := make([]string, len(names)), make([]error, len(names))
	turns, all := make(chan struct{}, asking), sync.WaitGroup{}
	for i, name := range names {
		all.Add(1)
		go func() {
			defer all.Done()
			turns <- struct{}{}
			defer func() { <-turns }()
			lack[i], failed[i] = lacks(ctx, e.o.API.In(name), claims)
		}()
	}
	all.Wait()
	var wrong []error
	for i, name := range names {
		_, before := had[name]
		switch why := lack[i]; {
		case failed[i] != nil:
			unasked = append(unasked, name)
		case why == "":
		case before:
			away = append(away, name+": "+why)
		default:
			wrong = append(wrong, fmt.Errorf("virtual cluster %s: namespace %s: %s", want[name], name, why))
		}
	}
	return away, unasked, errors.Join(wrong...)
}

// lacks says what keeps pods from being made in a namespace, "" that nothing does.
func lacks(ctx context.Context, c *api.Client, claims bool) (string, error) {
	there, err := c.HasNamespace(ctx)
	switch {
	case err != nil:
		return "", err
	case !there:
		return "the Kubernetes cluster has none of that name: make it with kubectl create namespace " + c.Namespace(), nil
	}
	missing, err := c.MissingHere(ctx, claims)
	if err != nil || len(missing) == 0 {
		return "", err
	}
	return fmt.Sprintf("Comb lacks rights there, or there is none of that name: %s; deploy/kubernetes/team.yaml has them", strings.Join(missing, ", ")), nil
}

// Unkept says which GPUs of a configuration the admission policies do not keep from others, and
// what to do. It says nothing where there are no policies, or the API server does not answer.
func Unkept(e *Executor, skus []cell.SKU) (list []string) {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	kept, known, err := e.o.API.Kept(ctx)
	if err != nil || !known {
		return nil
	}
	for i := range skus {
		if why := kept.Lets(&skus[i]); why != "" {
			list = append(list, fmt.Sprintf("skuTypes.%s: %s", skus[i].Name, why))
		}
	}
	if classes, err := e.o.API.OpenClasses(ctx, kept, skus); err == nil {
		list = append(list, classes...)
	}
	return list
}

// Room is what the leaves of a node have together by the cluster file.
type Room = api.Room

// LessRoom says which nodes have less for jobs than that, because of the pods that each node runs,
// in one sentence; "" when none has, or it is not known.
func LessRoom(e *Executor, rooms []Room) string {
	if !e.synced() {
		return ""
	}
	var short []string
	for _, r := range rooms {
		n, taken := e.node(string(r.Node)), e.others.eachNode(string(r.Node))
		if n == nil || taken == (amount{}) {
			continue
		}
		if why := r.Lacks(n, taken.milliCPU, taken.memoryMB); why != "" {
			short = append(short, why)
		}
	}
	if len(short) == 0 {
		return ""
	}
	return api.LessRoom(short)
}
