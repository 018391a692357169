package kube

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heldToAClass: a ResourceQuota of no devices of a class keeps a namespace from it, whoever makes the claim; those of the other class are
// taken.
func heldToAClass(t *testing.T, plane *Plane) {
	namespace := plane.namespace(t, "held")
	none := core.ResourceList{driver + ".deviceclass.resource.k8s.io/devices": resource.MustParse("0")}
	quotas := plane.CoreV1().ResourceQuotas(namespace)
	quota := check[*core.ResourceQuota](t)(quotas.Create(plane.Context, &core.ResourceQuota{
		ObjectMeta: meta.ObjectMeta{Name: "strict-alone"}, Spec: core.ResourceQuotaSpec{Hard: none},
	}, meta.CreateOptions{}))
	// Nobody counts for quotas here.
	quota.Status = core.ResourceQuotaStatus{Hard: none, Used: none}
	check[*core.ResourceQuota](t)(quotas.UpdateStatus(plane.Context, quota, meta.UpdateOptions{}))
	claim := func(name string, requests ...dra.DeviceRequest) error {
		object := &dra.ResourceClaim{
			ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       dra.ResourceClaimSpec{Devices: dra.DeviceClaim{Requests: requests}},
		}
		return second(plane.ResourceV1().ResourceClaims(namespace).Create(plane.Context, object, meta.CreateOptions{}))
	}
	refused := func(err error) bool {
		return errors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: strict-alone")
	}
	// The API server's admission hears of a quota a moment later.
	number := 0
	until(t, "the quota is in force", func() (string, error) {
		number++
		if err := claim(fmt.Sprintf("probe-%d", number), request("gpu", driver, 1, "1Gi", "10")); !refused(err) {
			return fmt.Sprintf("it lets through, or %v", err), nil
		}
		return "", nil
	})
	if err := claim("mixed", request("a", strict, 1, "1Gi", "10"), request("b", driver, 1, "1Gi", "10")); !refused(err) {
		t.Errorf("one of both classes: %v", err)
	}
	either := dra.DeviceRequest{Name: "gpu"}
	for name, class := range map[string]string{"a": strict, "b": driver} {
		either.FirstAvailable = append(either.FirstAvailable, dra.DeviceSubRequest{Name: name, DeviceClassName: class})
	}
	if err := claim("either", either); !refused(err) {
		t.Errorf("one of either class: %v", err)
	}
	if err := claim("strict", request("gpu", strict, 1, "1Gi", "10")); err != nil {
		t.Errorf("one of the other class: %v", err)
	}
	// A template is no claim, and neither is a pod: they are taken, and the pod waits for a claim that is refused.
	plane.template(t, namespace, "default", "1Gi", "10")
	plane.run(t, pod(namespace, "waits", "default", nil))
	until(t, "the pod says why it waits", func() (string, error) {
		events, err := plane.CoreV1().Events(namespace).List(plane.Context, meta.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == "waits" && strings.Contains(event.Message, "exceeded quota: strict-alone") {
				t.Logf("%s: %s", event.Reason, event.Message)
				return "", nil
			}
		}
		return fmt.Sprintf("%d other events", len(events.Items)), nil
	})
}
