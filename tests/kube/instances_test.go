package kube

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	dra "k8s.io/api/resource/v1"
)

// instances: a partitioned card (MIG) is published as its instances, never as itself; shares of them add up to no more than
// an instance, and become tenants that have memory of the instance alone.
func instances(t *testing.T, plane *Plane) {
	namespace := "instances"
	only := map[string]string{"test": namespace}
	node := plane.simulatedWith(t, "instances-1", only, []string{"SIMGPU_DEVICES=2", "SIMGPU_MEMORY=64GiB", "SIMGPU_MIG_0=1g.8gb,3g.32gb"})
	const cards = "513d9a0b-7e42-4c11-9f20-d177e5000"
	small, large, whole := "MIG-"+cards+"100", "MIG-"+cards+"200", "GPU-"+cards+"001"

	published := map[string]string{}
	found, err := plane.slicesOf("instances-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, slice := range found {
		for _, device := range slice.Spec.Devices {
			text := func(name string) string {
				if value := device.Attributes[dra.QualifiedName(name)].StringValue; value != nil {
					return *value
				}
				return ""
			}
			memory, cores := device.Capacity["memory"], device.Capacity["cores"]
			published[text("uuid")] = strings.Join([]string{
				text("type"), text("profile"), text("parentUUID"), memory.Value.String(), cores.Value.String(),
			}, " ")
		}
	}
	parent := "GPU-" + cards + "000"
	expected := map[string]string{
		small: "mig 1g.8gb " + parent + " 8Gi 100",
		large: "mig 3g.32gb " + parent + " 32Gi 100",
		whole: "gpu   64Gi 100",
	}
	if !maps.Equal(published, expected) {
		t.Fatalf("published: %v", published)
	}

	// By memory two fit the small one, by cores three the others.
	const asked, fit = 10, 8
	plane.namespace(t, namespace)
	plane.template(t, namespace, "share", "4Gi", "30")
	run := func(number int) { plane.run(t, pod(namespace, fmt.Sprintf("pod-%d", number), "share", only)) }
	placed := plane.inTurn(t, namespace, fit, run)
	for number := fit; number < asked; number++ {
		run(number)
	}
	tenants := map[string]int{}
	for number := range placed {
		devices := node.prepare(t, &placed[number])
		if len(devices) != 2 || !strings.HasPrefix(devices[0], "nvidia.com/gpu=") {
			t.Errorf("CDI devices: %v", devices)
			continue
		}
		tenants[strings.TrimPrefix(devices[0], "nvidia.com/gpu=")]++
	}
	if !maps.Equal(tenants, map[string]int{small: 2, large: 3, whole: 3}) {
		t.Errorf("tenants: %v", tenants)
	}
	for _, tenant := range node.tenants(t) {
		limits := fmt.Sprint(tenant["devices"])
		if !strings.Contains(limits, fmt.Sprintf("limit_bytes:%v", float64(4<<30))) || !strings.Contains(limits, "share_ppm:300000") {
			t.Errorf("limits: %s", limits)
		}
	}
	if _, waiting := plane.pods(t, namespace); len(waiting) != asked-fit {
		t.Errorf("waiting: %v", waiting)
	}
}
