package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Requests about dynamic resource allocation are plain JSON: the types of that group and their
// protobuf are not in this program.
const groupPath = "/apis/" + Version

func (c *Client) claims(r *rest.Request, name ...string) *rest.Request {
	return r.AbsPath(append([]string{groupPath, "namespaces", c.namespace, "resourceclaims"}, name...)...).SetHeader("Content-Type", "application/json")
}

// slicesAtOnce is how many slices one answer brings. A driver makes at least one for each node,
// of up to 128 devices.
const slicesAtOnce = 500

// Slices asks for the devices that drivers publish: of one node, of one driver, or of all where
// these are "".
func (c *Client) Slices(ctx context.Context, node, driver string) (all []Slice, err error) {
	var of []string
	if node != "" {
		of = append(of, "spec.nodeName="+node)
	}
	if driver != "" {
		of = append(of, "spec.driver="+driver)
	}
	only := map[string]string{}
	if len(of) > 0 {
		only["fieldSelector"] = strings.Join(of, ",")
	}
	err = c.pages(ctx, groupPath+"/resourceslices", only, func(raw []byte) (metav1.ListMeta, error) {
		var list pageOf[Slice]
		err := json.Unmarshal(raw, &list)
		all = append(all, list.Items...)
		return list.Metadata, err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// pages reads a list a page at a time. only are parameters that select what is in it.
func (c *Client) pages(ctx context.Context, path string, only map[string]string,
	read func(raw []byte) (metav1.ListMeta, error)) error {
	for next := ""; ; {
		r := c.plain.Get().AbsPath(path).Param("limit", strconv.Itoa(slicesAtOnce))
		for name, value := range only { // in any order
			r = r.Param(name, value)
		}
		if next != "" {
			r = r.Param("continue", next)
		}
		raw, err := r.Do(ctx).Raw()
		if err != nil {
			return err
		}
		meta, err := read(raw)
		if err != nil {
			return fmt.Errorf("%s does not show %s: %w", c.host, path, err)
		}
		if next = meta.Continue; next == "" {
			return nil
		}
	}
}

// HeldClaim is a claim that has devices.
type HeldClaim struct {
	Namespace, Name string
	Pod             string // the first for which it is reserved; "": none
	Given           []Given
}

// ClaimsOfOthers asks for the claims of all namespaces that have devices of some drivers, and that
// do not have a label with a value.
func (c *Client) ClaimsOfOthers(ctx context.Context, label, value string,
	drivers map[string]bool) (all []HeldClaim, err error) {
	only := map[string]string{"labelSelector": label + "!=" + value}
	err = c.pages(ctx, groupPath+"/resourceclaims", only, func(raw []byte) (metav1.ListMeta, error) {
		var list struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []struct {
				Metadata struct{ Namespace, Name string } `json:"metadata"`
				Status   struct {
					ClaimStatus
					ReservedFor []struct{ Resource, Name string } `json:"reservedFor"`
				} `json:"status"`
			} `json:"items"`
		}
		err := json.Unmarshal(raw, &list)
		for i := range list.Items {
			one := &list.Items[i]
			held := HeldClaim{Namespace: one.Metadata.Namespace, Name: one.Metadata.Name}
			for _, g := range one.Status.Allocation.Devices.Results {
				if drivers[g.Driver] {
					held.Given = append(held.Given, g)
				}
			}
			for _, r := range one.Status.ReservedFor {
				if r.Resource == "pods" && held.Pod == "" {
					held.Pod = r.Name
				}
			}
			if len(held.Given) > 0 {
				all = append(all, held)
			}
		}
		return list.Metadata, err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Claim asks for a claim; nil where there is none.
func (c *Client) Claim(ctx context.Context, name string) (*Claim, error) {
	raw, err := c.claims(c.plain.Get(), name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &Claim{}
	return out, json.Unmarshal(raw, out)
}

// MakeClaim makes a claim that belongs to a pod, unless that exists. Another claim of that name
// is deleted first.
func (c *Client) MakeClaim(ctx context.Context, claim *Claim) error {
	body, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	post := func() error { return c.claims(c.plain.Post()).Body(body).Do(ctx).Error() }
	if err = post(); !apierrors.IsAlreadyExists(err) {
		return err
	}
	had, failed := c.Claim(ctx, claim.Name)
	switch {
	case failed != nil:
		return failed
	case had == nil:
		return post()
	case slices.ContainsFunc(had.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == claim.OwnerReferences[0].UID }):
		return nil
	}
	if err := c.deleteClaim(ctx, had); err != nil {
		return err
	}
	return post()
}

// NotYet says that a request must wait until something else is gone, and for what.
type NotYet struct{ Why string }

// Error implements error.
func (s *NotYet) Error() string { return s.Why }

// ShareClaim makes a claim that belongs to a pod, or adds the pod to the owners of an existing
// one. It adds it only if each owner is beside (shares the devices with the pod) or gone. A claim
// without a living owner is deleted, and made anew by the next call. *NotYet says that the claim
// cannot be had yet.
func (c *Client) ShareClaim(ctx context.Context, claim *Claim, beside, gone func(metav1.OwnerReference) bool) error {
	body, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	if err = c.claims(c.plain.Post()).Body(body).Do(ctx).Error(); !apierrors.IsAlreadyExists(err) {
		return err
	}
	own := claim.OwnerReferences[0]
	had, err := c.Claim(ctx, claim.Name)
	switch {
	case err != nil:
		return err
	case had == nil:
		return &NotYet{"the claim " + claim.Name + " of its GPUs was there a moment ago"}
	case had.DeletionTimestamp != nil:
		return &NotYet{"the claim " + claim.Name + " of its GPUs, of a task before, is not gone yet"}
	case slices.ContainsFunc(had.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == own.UID }):
		return nil
	}
	for _, r := range had.OwnerReferences {
		if !beside(r) && !gone(r) {
			return &NotYet{fmt.Sprintf("the claim %s of its GPUs is still that of pod %s", claim.Name, r.Name)}
		}
	}
	if slices.ContainsFunc(had.OwnerReferences, beside) {
		return c.ownToo(ctx, had, own)
	}
	if err := c.deleteClaim(ctx, had); err != nil {
		return err
	}
	return &NotYet{"the claim " + claim.Name + " of its GPUs, of a task before, is being deleted"}
}

// ownToo adds an owner to a claim, if the claim has not changed.
func (c *Client) ownToo(ctx context.Context, had *Claim, own metav1.OwnerReference) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": had.UID, "resourceVersion": had.ResourceVersion, "ownerReferences": append(had.OwnerReferences, own)}})
	if err != nil {
		return err
	}
	err = c.claims(c.plain.Patch(types.MergePatchType), had.Name).SetHeader("Content-Type", string(types.MergePatchType)).Body(patch).Do(ctx).Error()
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return &NotYet{"the claim " + had.Name + " of its GPUs has changed meanwhile"}
	}
	return err
}

// deleteClaim deletes a claim if it has not changed.
func (c *Client) deleteClaim(ctx context.Context, had *Claim) error {
	o, err := json.Marshal(&metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &had.UID, ResourceVersion: &had.ResourceVersion}})
	if err != nil {
		return err
	}
	if err := c.claims(c.plain.Delete(), had.Name).Body(o).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
