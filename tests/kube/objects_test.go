package kube

import (
	"fmt"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// driver is the name of the driver, and of its class.
const driver = "gpu.divvy.dev"

// patience is how often a test looks for what must come, and look the time between. No test says how fast it comes; and time in which
// all of this is stopped, as other suites do with it, does not count.
const (
	patience = 2400
	look     = 50 * time.Millisecond
)

// until waits for done, which says what is missing.
func until(t *testing.T, what string, done func() (string, error)) {
	t.Helper()
	for looks := 0; ; looks++ {
		missing, err := done()
		if err == nil && missing == "" {
			return
		}
		if looks == patience {
			t.Fatalf("%s: after %v: %s %v", what, patience*look, missing, err)
		}
		time.Sleep(look)
	}
}

// check ends the test at an error.
func check[T any](t *testing.T) func(it T, err error) T {
	return func(it T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return it
	}
}

// namespace makes a namespace that is the test's alone. Its pods go with the test: the scheduler tries those that wait again with each
// claim of others.
func (plane *Plane) namespace(t *testing.T, name string) string {
	t.Helper()
	object := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
	check[*core.Namespace](t)(plane.CoreV1().Namespaces().Create(plane.Context, object, meta.CreateOptions{}))
	t.Cleanup(func() {
		now := int64(0)
		atOnce := meta.DeleteOptions{GracePeriodSeconds: &now}
		_ = plane.CoreV1().Pods(name).DeleteCollection(plane.Context, atOnce, meta.ListOptions{})
	})
	return name
}

// deleteByForce takes a pod away at once, whatever runs of it.
func (plane *Plane) deleteByForce(t *testing.T, namespace, name string) {
	t.Helper()
	now := int64(0)
	if err := plane.CoreV1().Pods(namespace).Delete(plane.Context, name, meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}

// node makes a node on which pods may be placed, and takes it away with the test.
func (plane *Plane) node(t *testing.T, name string, labels map[string]string) *core.Node {
	t.Helper()
	nodes := plane.CoreV1().Nodes()
	object := &core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}
	node := check[*core.Node](t)(nodes.Create(plane.Context, object, meta.CreateOptions{}))
	t.Cleanup(func() { _ = nodes.Delete(plane.Context, name, meta.DeleteOptions{}) })
	node.Status = core.NodeStatus{
		Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, Reason: "Test"}},
		Allocatable: core.ResourceList{
			core.ResourceCPU:    resource.MustParse("64"),
			core.ResourceMemory: resource.MustParse("512Gi"),
			core.ResourcePods:   resource.MustParse("1000"),
		},
		NodeInfo: core.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: kubeletVersion},
	}
	node.Status.Capacity = node.Status.Allocatable
	return check[*core.Node](t)(nodes.UpdateStatus(plane.Context, node, meta.UpdateOptions{}))
}

// card is a shared GPU as the agent publishes one.
func card(name, uuid, memory string, slots int) dra.Device {
	whole := resource.MustParse(memory)
	quantity := func(text string) *resource.Quantity {
		it := resource.MustParse(text)
		return &it
	}
	many, shared := resource.MustParse(fmt.Sprint(slots)), true
	return dra.Device{
		Name:                     name,
		AllowMultipleAllocations: &shared,
		Attributes: map[dra.QualifiedName]dra.DeviceAttribute{
			"uuid":        {StringValue: &uuid},
			"productName": {StringValue: text("Simulated GPU")},
		},
		Capacity: map[dra.QualifiedName]dra.DeviceCapacity{
			"memory": {Value: whole, RequestPolicy: &dra.CapacityRequestPolicy{
				Default:    &whole,
				ValidRange: &dra.CapacityRequestPolicyRange{Min: quantity("64Mi"), Max: &whole},
			}},
			"cores": {Value: resource.MustParse("100"), RequestPolicy: &dra.CapacityRequestPolicy{
				Default:    quantity("100"),
				ValidRange: &dra.CapacityRequestPolicyRange{Min: quantity("1"), Max: quantity("100")},
			}},
			"slots": {Value: many, RequestPolicy: &dra.CapacityRequestPolicy{
				Default:     quantity("1"),
				ValidValues: []resource.Quantity{resource.MustParse("1")},
			}},
		},
	}
}

func text(it string) *string { return &it }

// slice publishes cards of a node, in the place of its agent.
func (plane *Plane) slice(t *testing.T, node string, cards ...dra.Device) *dra.ResourceSlice {
	t.Helper()
	slices := plane.ResourceV1().ResourceSlices()
	object := &dra.ResourceSlice{
		ObjectMeta: meta.ObjectMeta{Name: node + "-" + driver},
		Spec: dra.ResourceSliceSpec{
			Driver:   driver,
			NodeName: &node,
			Pool:     dra.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices:  cards,
		},
	}
	it := check[*dra.ResourceSlice](t)(slices.Create(plane.Context, object, meta.CreateOptions{}))
	t.Cleanup(func() { _ = slices.Delete(plane.Context, it.Name, meta.DeleteOptions{}) })
	return it
}

// template makes a template of claims for a share of one card.
func (plane *Plane) template(t *testing.T, namespace, name, memory, cores string) {
	t.Helper()
	plane.claimTemplate(t, namespace, name, dra.DeviceClaim{Requests: []dra.DeviceRequest{request("gpu", driver, 1, memory, cores)}})
}

// claimTemplate makes one of claims of any shape.
func (plane *Plane) claimTemplate(t *testing.T, namespace, name string, claim dra.DeviceClaim) {
	t.Helper()
	object := &dra.ResourceClaimTemplate{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       dra.ResourceClaimTemplateSpec{Spec: dra.ResourceClaimSpec{Devices: claim}},
	}
	templates := plane.ResourceV1().ResourceClaimTemplates(namespace)
	check[*dra.ResourceClaimTemplate](t)(templates.Create(plane.Context, object, meta.CreateOptions{}))
}

// request is one of a claim, for as much of each of so many cards.
func request(name, class string, count int64, memory, cores string) dra.DeviceRequest {
	return dra.DeviceRequest{Name: name, Exactly: &dra.ExactDeviceRequest{
		DeviceClassName: class,
		AllocationMode:  dra.DeviceAllocationModeExactCount,
		Count:           count,
		Capacity: &dra.CapacityRequirements{Requests: map[dra.QualifiedName]resource.Quantity{
			"memory": resource.MustParse(memory),
			"cores":  resource.MustParse(cores),
		}},
	}}
}

// pod is one whose container has a claim of the template, on nodes with the labels.
func pod(namespace, name, template string, labels map[string]string) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec: core.PodSpec{
			NodeSelector:   labels,
			ResourceClaims: []core.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
			Containers: []core.Container{{
				Name:      "main",
				Image:     "none",
				Resources: core.ResourceRequirements{Claims: []core.ResourceClaim{{Name: "gpu"}}},
			}},
		},
	}
}

// run creates a pod.
func (plane *Plane) run(t *testing.T, pod *core.Pod) *core.Pod {
	t.Helper()
	return check[*core.Pod](t)(plane.CoreV1().Pods(pod.Namespace).Create(plane.Context, pod, meta.CreateOptions{}))
}

// pods are those of a namespace, the placed ones and the others with the scheduler's words.
func (plane *Plane) pods(t *testing.T, namespace string) (placed []core.Pod, waiting map[string]string) {
	t.Helper()
	all := check[*core.PodList](t)(plane.CoreV1().Pods(namespace).List(plane.Context, meta.ListOptions{}))
	waiting = map[string]string{}
	for _, pod := range all.Items {
		if pod.Spec.NodeName != "" {
			placed = append(placed, pod)
			continue
		}
		waiting[pod.Name] = ""
		for _, condition := range pod.Status.Conditions {
			if condition.Type == core.PodScheduled && condition.Reason == core.PodReasonUnschedulable {
				waiting[pod.Name] = condition.Message
			}
		}
	}
	return placed, waiting
}

// claims are those of a namespace.
func (plane *Plane) claims(t *testing.T, namespace string) []dra.ResourceClaim {
	t.Helper()
	all, err := plane.ResourceV1().ResourceClaims(namespace).List(plane.Context, meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}
