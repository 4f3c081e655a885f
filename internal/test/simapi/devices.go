package simapi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddDevices lets a driver publish so many devices of a node, gpu-0 and on, each with its own
// attribute uuid.
func (s *Server) AddDevices(node, driver string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	for i := range count {
		id := fmt.Sprintf("GPU-%s-%d", node, i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &id}}})
	}
	s.make("resourceslices", slice)
}

// Occupied is the name of the claim that Occupy makes.
const Occupied = "of-another"

// Occupy gives a device to another's claim, for good.
func (s *Server) Occupy(node, device string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: Occupied}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Pool: node, Device: device}}}}
	s.make("resourceclaims", claim)
}

// GiveOthers lets claims be given the device behind the one that they ask for.
func (s *Server) GiveOthers(others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = others
}

// DevicesOf are the devices that a container of a pod was given; none where there was no container.
func (s *Server) DevicesOf(pod string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		for _, c := range m.containers {
			if c.pod == pod {
				return slices.Clone(c.devices)
			}
		}
	}
	return nil
}

// claimsOf are the claims of a pod that have devices. s.mu is held.
func (s kubelets) claimsOf(pod *corev1.Pod) (list []*resourcev1.ResourceClaim) {
	for i := range pod.Spec.ResourceClaims {
		claim, ok := s.objects["resourceclaims"][key(pod.Namespace, *pod.Spec.ResourceClaims[i].ResourceClaimName)].(*resourcev1.ResourceClaim)
		if ok && claim.Status.Allocation != nil {
			list = append(list, claim)
		}
	}
	return list
}

// named is how an expression names the values of an attribute that it selects.
var named = regexp.MustCompile(`"GPU-[^"]*"`)

// allocate gives the claims of a pod that is to be bound what they ask for, and reports whether all
// of them have it. It reads of an expression which values it names. s.mu is held.
func (s kubelets) allocate(pod *corev1.Pod, node string) bool {
	slice, _ := s.objects["resourceslices"][node].(*resourcev1.ResourceSlice)
	for i := range pod.Spec.ResourceClaims {
		had, ok := s.objects["resourceclaims"][key(pod.Namespace, *pod.Spec.ResourceClaims[i].ResourceClaimName)].(*resourcev1.ResourceClaim)
		if !ok || slice == nil {
			return false
		}
		claim := had.DeepCopy()
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		switch {
		case slices.ContainsFunc(had.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID }):
			continue
		case had.DeletionTimestamp != nil:
			return false
		case had.Status.Allocation != nil:
			s.put("resourceclaims", claim)
			continue
		}
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		for _, r := range claim.Spec.Devices.Requests {
			for _, value := range named.FindAllString(r.Exactly.Selectors[0].CEL.Expression, -1) {
				device := s.free(slice, value)
				if device == "" {
					return false
				}
				claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
					resourcev1.DeviceRequestAllocationResult{Request: r.Name, Driver: slice.Spec.Driver, Pool: node, Device: device})
			}
		}
		s.put("resourceclaims", claim)
	}
	return true
}

// free is the device of a slice whose attribute has a quoted value, "" where there is none or a
// claim has it. s.mu is held.
func (s kubelets) free(slice *resourcev1.ResourceSlice, quoted string) string {
	value, _ := strconv.Unquote(quoted)
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		if *d.Attributes["uuid"].StringValue != value {
			continue
		}
		if s.others {
			d = &slice.Spec.Devices[(i+1)%len(slice.Spec.Devices)]
		}
		for _, o := range s.objects["resourceclaims"] {
			claim := o.(*resourcev1.ResourceClaim)
			if claim.Status.Allocation == nil {
				continue
			}
			for _, given := range claim.Status.Allocation.Devices.Results {
				if given.Pool == slice.Spec.Pool.Name && given.Device == d.Name {
					return ""
				}
			}
		}
		return d.Name
	}
	return ""
}

// collect takes devices from claims whose pods have ended, some time later, and claims away whose
// owners are gone. s.mu is held.
func (s kubelets) collect() {
	if s.tick%10 != 0 || len(s.objects["resourceclaims"]) == 0 {
		return
	}
	live := map[types.UID]bool{}
	for _, o := range s.objects["pods"] {
		live[o.GetUID()] = !ended(o.(*corev1.Pod))
	}
	for _, o := range s.objects["resourceclaims"] {
		claim := o.(*resourcev1.ResourceClaim).DeepCopy()
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return !live[r.UID] })
		owned := slices.ContainsFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool { _, ok := live[r.UID]; return ok })
		reserved := len(claim.Status.ReservedFor) > 0
		switch {
		case claim.Name == Occupied:
		case !reserved && (claim.DeletionTimestamp != nil || !owned):
			s.remove("resourceclaims", claim)
		case !owned && claim.DeletionTimestamp == nil:
			now := metav1.Now()
			claim.DeletionTimestamp = &now
			s.put("resourceclaims", claim)
		case !reserved && claim.Status.Allocation != nil:
			claim.Status = resourcev1.ResourceClaimStatus{}
			s.put("resourceclaims", claim)
		}
	}
}
