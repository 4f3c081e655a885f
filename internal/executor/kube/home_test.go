package kube

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// What all tasks of a gang have is held until the pod of the last one is made.
func TestTheVariablesOfAGangAreForgotten(t *testing.T) {
	h, task := &home{}, &podTask{start: &model.Start{Tasks: make([]model.TaskStart, 2)}}
	h.shares, h.vars = true, &pods.Shared{}
	if h.podMade(task); h.vars == nil {
		t.Error("they are forgotten before the last pod is made")
	}
	if h.podMade(task); h.vars != nil || h.shares {
		t.Error("they are held when all pods are made")
	}
}
