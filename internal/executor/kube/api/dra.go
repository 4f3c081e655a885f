package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
)

// Group is the API group of claims, and Version its version that is used.
const (
	Group   = "resource.k8s.io"
	Version = Group + "/v1"
)

// mostOfAClaim is how many devices Kubernetes allows in one claim.
const mostOfAClaim = 32

// Slice is what a driver publishes of a node's devices: a ResourceSlice.
type Slice struct {
	Spec SliceSpec `json:"spec"`
}

// SliceSpec is a part of a pool. Slices of an older generation than the newest of their pool are
// obsolete.
type SliceSpec struct {
	Driver   string   `json:"driver"`
	Pool     Pool     `json:"pool"`
	NodeName string   `json:"nodeName"`
	Devices  []Device `json:"devices"`
}

// Pool is a pool of a driver's devices.
type Pool struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}

// Device is a device that can be given to claims.
type Device struct {
	Name       string           `json:"name"`
	Attributes map[string]Value `json:"attributes"`
	Taints     []Taint          `json:"taints"`
}

// Taint keeps claims from a device that do not tolerate it. Comb's claims tolerate none.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// Excluded says why a device is not given to claims; "": it is.
func (d *Device) Excluded() string {
	for _, t := range d.Taints {
		if t.Effect != "NoSchedule" && t.Effect != "NoExecute" {
			continue
		}
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		return fmt.Sprintf("its device %s has the taint %s:%s in Kubernetes", d.Name, text, t.Effect)
	}
	return ""
}

// Value is the value of an attribute. Kinds other than these identify no device.
type Value struct {
	String *string `json:"string"`
	Int    *int64  `json:"int"`
}

// literal is a value as it is written in an expression; "": it cannot be in one.
func (v Value) literal() string {
	switch {
	case v.String != nil:
		return strconv.QuoteToASCII(*v.String)
	case v.Int != nil:
		return strconv.FormatInt(*v.Int, 10)
	}
	return ""
}

// Claim is a ResourceClaim.
type Claim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ClaimSpec   `json:"spec"`
	Status            ClaimStatus `json:"status,omitzero"`
}

// ClaimSpec is what is asked for.
type ClaimSpec struct {
	Devices struct {
		Requests []Request `json:"requests"`
	} `json:"devices"`
}

// Request asks for devices of a class that an expression selects.
type Request struct {
	Name    string  `json:"name"`
	Exactly Exactly `json:"exactly"`
}

// Exactly asks for a number of devices.
type Exactly struct {
	Class     string     `json:"deviceClassName"`
	Selectors []Selector `json:"selectors"`
	Mode      string     `json:"allocationMode"`
	Count     int64      `json:"count"`
}

// Selector is an expression over a device.
type Selector struct {
	CEL struct {
		Expression string `json:"expression"`
	} `json:"cel"`
}

// ClaimStatus is what the claim was given.
type ClaimStatus struct {
	Allocation struct {
		Devices struct {
			Results []Given `json:"results,omitempty"`
		} `json:"devices,omitzero"`
	} `json:"allocation,omitzero"`
}

// Given is a device that a claim has.
type Given struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

// DRADevices returns the devices of a driver on a node, by name, from its slices.
func DRADevices(list []Slice, node, driver string) map[string]Device {
	newest := map[string]int64{}
	of := func(s *Slice) bool { return s.Spec.Driver == driver && s.Spec.NodeName == node }
	for i := range list {
		if p := &list[i].Spec.Pool; of(&list[i]) {
			newest[p.Name] = max(newest[p.Name], p.Generation)
		}
	}
	out := map[string]Device{}
	for i := range list {
		if s := &list[i]; of(s) && s.Spec.Pool.Generation == newest[s.Spec.Pool.Name] {
			for _, d := range s.Spec.Devices {
				out[d.Name] = d
			}
		}
	}
	return out
}

// DRANames are the names of a SKU's devices with some indices.
func DRANames(d cell.DRA, indices []int32) []string {
	out := make([]string, len(indices))
	for i, n := range indices {
		out[i] = strings.Replace(d.Device, "%d", strconv.Itoa(int(n)), 1)
	}
	return out
}

// Claims returns claims that ask for exactly the named devices of a node. have are all devices of
// the node. The error says which of them cannot be asked for.
func Claims(d cell.DRA, name string, have map[string]Device, names []string) (list []*Claim, err error) {
	domain, attribute, found := strings.Cut(d.Attribute, "/")
	if !found {
		domain, attribute = d.Driver, d.Attribute
	}
	value := func(one Device) string {
		full := one.Attributes[domain+"/"+attribute].literal()
		if domain != d.Driver {
			return full
		}
		return cmp.Or(one.Attributes[attribute].literal(), full) // a driver may leave out its own domain
	}
	count := map[string]int{}
	for one := range maps.Values(have) {
		count[value(one)]++
	}
	for part := range slices.Chunk(names, mostOfAClaim) {
		values := make([]string, len(part))
		for i, n := range part {
			one, ok := have[n]
			switch values[i] = value(one); {
			case !ok:
				return nil, fmt.Errorf("its driver %s publishes no device %s there", d.Driver, n)
			case values[i] == "":
				return nil, fmt.Errorf("its device %s of driver %s has no attribute %s: name another one in the cluster file, by the key attribute of dra", n, d.Driver, d.Attribute)
			case count[values[i]] > 1:
				return nil, fmt.Errorf("several of its devices of driver %s have %s in the attribute %s: name another one in the cluster file, by the key attribute of dra", d.Driver, values[i], d.Attribute)
			}
		}
		c := &Claim{TypeMeta: metav1.TypeMeta{APIVersion: Version, Kind: "ResourceClaim"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, len(list))}}
		r := Request{Name: "gpus", Exactly: Exactly{Class: d.Class, Mode: "ExactCount", Count: int64(len(part)), Selectors: make([]Selector, 1)}}
		r.Exactly.Selectors[0].CEL.Expression = fmt.Sprintf("device.driver == %q && %q in device.attributes[%q] && device.attributes[%q][%q] in [%s]",
			d.Driver, attribute, domain, domain, attribute, strings.Join(values, ", "))
		c.Spec.Devices.Requests = []Request{r}
		list = append(list, c)
	}
	return list, nil
}

// DRANamed says how claims can name devices of a driver, if their names count from 0 and some
// attribute differs on each. The class is assumed to have the driver's name.
func DRANamed(driver string, devices map[string]Device) (d cell.DRA, ok bool) {
	if len(devices) == 0 {
		return d, false
	}
	indices := make([]int32, len(devices))
	for i := range indices {
		indices[i] = int32(i)
	}
	first := slices.Min(slices.Collect(maps.Keys(devices)))
	attributes := append([]string{"uuid"}, slices.Sorted(maps.Keys(devices[first].Attributes))...)
	for i := range first {
		if first[i] != '0' {
			continue
		}
		for _, attribute := range attributes {
			d = cell.DRA{Class: driver, Driver: driver, Device: first[:i] + "%d" + first[i+1:], Attribute: attribute}
			if _, err := Claims(d, "", devices, DRANames(d, indices)); err == nil {
				return d, true
			}
		}
	}
	return d, false
}

// ForeignDevice names a device that a claim was given besides some devices of a driver. It is ""
// where there is none, also where the claim has no devices at all: it has none yet, or needs none
// any more. Kubernetes itself makes sure that their number is right.
func (c *Claim) ForeignDevice(driver string, names []string) string {
	left := slices.Clone(names)
	for _, g := range c.Status.Allocation.Devices.Results {
		i := slices.Index(left, g.Device)
		if g.Driver != driver || i < 0 {
			return fmt.Sprintf("device %s of driver %s", g.Device, g.Driver)
		}
		left = slices.Delete(left, i, i+1)
	}
	return ""
}

// Has reports whether a claim was given devices.
func (c *Claim) Has() bool { return len(c.Status.Allocation.Devices.Results) > 0 }
