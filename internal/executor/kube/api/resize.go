package api

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Resize changes the requests of a pod's container while it runs. It is no error when there is no
// such pod, or another one of that name.
func (c *Client) Resize(ctx context.Context, pod *corev1.Pod, container string, requests corev1.ResourceList) error {
	type resources struct {
		Requests corev1.ResourceList `json:"requests"`
	}
	type one struct {
		Name      string    `json:"name"`
		Resources resources `json:"resources"`
	}
	patch := struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Containers []one `json:"containers"`
		} `json:"spec"`
	}{}
	patch.Metadata.UID, patch.Spec.Containers = pod.UID, []one{{container, resources{requests}}}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.unlessGone(ctx, pod.Name, pod.UID, c.rest.Patch(types.StrategicMergePatchType).Namespace(c.namespace).Resource("pods").Name(pod.Name).SubResource("resize").Body(body).Do(ctx).Error())
}
