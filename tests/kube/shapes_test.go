package kube

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// strict is the class of deploy/kubernetes that allows nothing beyond what is claimed.
const strict = "strict." + driver

// shapesOfClaims: claims of other shapes than one share for one container, by the real scheduler and a kubelet's own manager, on a node
// with two cards.
func shapesOfClaims(t *testing.T, plane *Plane) {
	namespace := "shapes"
	only := map[string]string{"test": namespace}
	node := plane.simulatedWith(t, "shapes-1", only, []string{"SIMGPU_DEVICES=2", "SIMGPU_MEMORY=64GiB"})
	plane.namespace(t, namespace)
	for _, one := range []struct {
		name string
		test func(*testing.T, *Node, string, map[string]string)
	}{
		{"a_request_of_two_cards_is_one_tenant_on_both", twoCards},
		{"two_requests_of_a_claim_are_for_a_container_each", twoRequests},
		{"a_claim_of_two_pods_is_one_tenant_until_both_end", twoPods},
		{"a_claim_above_its_class_is_refused_in_words", aboveItsClass},
		{"what_convert_says_to_the_driver_is_understood", convertedSettings},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.test(t, node, namespace, only)
			node.counted(t, 0)
		})
	}
}

// devices are the CDI devices that the kubelet gives a container: cards, and shares, which it names with each card of their request.
func (node *Node) devices(t *testing.T, pod *core.Pod, container int) (cards, shares []string) {
	t.Helper()
	info, err := node.manager.GetResources(pod, &pod.Spec.Containers[container])
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range info.CDIDevices {
		if share, is := strings.CutPrefix(device.Name, "divvy.dev/share="); is {
			shares = append(shares, share)
		} else {
			cards = append(cards, device.Name)
		}
	}
	slices.Sort(cards)
	slices.Sort(shares)
	return slices.Compact(cards), slices.Compact(shares)
}

// ended takes back what a pod has, and the pod away.
func (node *Node) ended(t *testing.T, pod *core.Pod) {
	t.Helper()
	node.unprepare(t, pod)
	node.deleteByForce(t, pod.Namespace, pod.Name)
}

func twoCards(t *testing.T, node *Node, namespace string, only map[string]string) {
	uuid := dra.FullyQualifiedName(driver + "/uuid")
	node.claimTemplate(t, namespace, "pair", dra.DeviceClaim{
		Requests:    []dra.DeviceRequest{request("gpu", driver, 2, "4Gi", "60")},
		Constraints: []dra.DeviceConstraint{{Requests: []string{"gpu"}, DistinctAttribute: &uuid}},
	})
	placed := node.inTurn(t, namespace, 1, func(int) { node.run(t, pod(namespace, "pair", "pair", only)) })
	// Each card has 40 % left, so that a second one waits.
	node.run(t, pod(namespace, "other", "pair", only))
	node.prepare(t, &placed[0])
	cards, shares := node.devices(t, &placed[0], 0)
	if len(cards) != 2 || len(shares) != 1 {
		t.Fatalf("CDI devices: %v and %v", cards, shares)
	}
	tenants := node.tenants(t)
	if len(tenants) != 1 || fmt.Sprint(tenants[0]["id"]) != shares[0] {
		t.Fatalf("tenants: %v, not %v", tenants, shares)
	}
	limits := fmt.Sprint(tenants[0]["devices"])
	if strings.Count(limits, fmt.Sprintf("limit_bytes:%v", float64(4<<30))) != 2 || strings.Count(limits, "share_ppm:600000") != 2 {
		t.Errorf("limits: %s", limits)
	}
	until(t, "the second waits", func() (string, error) {
		if _, waiting := node.pods(t, namespace); waiting["other"] == "" {
			return fmt.Sprint(waiting), nil
		}
		return "", nil
	})
	node.deleteByForce(t, namespace, "other")
	node.ended(t, &placed[0])
}

func twoRequests(t *testing.T, node *Node, namespace string, only map[string]string) {
	node.claimTemplate(t, namespace, "both", dra.DeviceClaim{Requests: []dra.DeviceRequest{
		request("large", driver, 1, "8Gi", "40"), request("small", driver, 1, "1Gi", "10"),
	}})
	both := pod(namespace, "both", "both", only)
	both.Spec.Containers[0].Resources.Claims[0].Request = "large"
	both.Spec.Containers = append(both.Spec.Containers, core.Container{
		Name: "beside", Image: "none",
		Resources: core.ResourceRequirements{Claims: []core.ResourceClaim{{Name: "gpu", Request: "small"}}},
	})
	node.run(t, both)
	placed := node.placed(t, namespace, 1)
	node.prepare(t, &placed[0])
	node.counted(t, 2)
	for container, want := range []struct{ gib, percent float64 }{{8, 40}, {1, 10}} {
		cards, shares := node.devices(t, &placed[0], container)
		if len(cards) != 1 || len(shares) != 1 {
			t.Fatalf("CDI devices of container %d: %v and %v", container, cards, shares)
		}
		bytes, ppm, err := node.limits(shares[0])
		if err != nil || bytes != want.gib*(1<<30) || ppm != want.percent*10_000 {
			t.Errorf("limits of container %d: %v bytes, %v ppm, %v", container, bytes, ppm, err)
		}
	}
	node.ended(t, &placed[0])
}

func twoPods(t *testing.T, node *Node, namespace string, only map[string]string) {
	shared := &dra.ResourceClaim{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "shared"},
		Spec: dra.ResourceClaimSpec{Devices: dra.DeviceClaim{
			Requests: []dra.DeviceRequest{request("gpu", driver, 1, "8Gi", "60")},
		}},
	}
	check[*dra.ResourceClaim](t)(node.ResourceV1().ResourceClaims(namespace).Create(node.Context, shared, meta.CreateOptions{}))
	placed := node.inTurn(t, namespace, 2, func(number int) {
		one := pod(namespace, fmt.Sprintf("of-%d", number), "", only)
		one.Spec.ResourceClaims[0] = core.PodResourceClaim{Name: "gpu", ResourceClaimName: &shared.Name}
		node.run(t, one)
	})
	first, second := node.prepare(t, &placed[0]), node.prepare(t, &placed[1])
	if len(first) != 2 || !slices.Equal(first, second) {
		t.Errorf("CDI devices: %v and %v", first, second)
	}
	node.counted(t, 1)
	id := node.tenants(t)[0]["id"]
	node.ended(t, &placed[0])
	node.counted(t, 1)
	if left := node.tenants(t)[0]; left["id"] != id || !slices.Equal(node.prepare(t, &placed[1]), second) {
		t.Errorf("of the second is left: %v, not %v", left, id)
	}
	node.ended(t, &placed[1])
}

func aboveItsClass(t *testing.T, node *Node, namespace string, only map[string]string) {
	const words = `above-class: priority high of request "gpu": its class allows normal at most`
	for name, class := range map[string]string{"lenient": driver, "strict": strict} {
		node.claimTemplate(t, namespace, name, dra.DeviceClaim{
			Requests: []dra.DeviceRequest{request("gpu", class, 1, "1Gi", "10")},
			Config: []dra.DeviceClaimConfiguration{{DeviceConfiguration: dra.DeviceConfiguration{Opaque: &dra.OpaqueDeviceConfiguration{
				Driver:     driver,
				Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion": "divvy.dev/v1", "kind": "Share", "priority": "high"}`)},
			}}}},
		})
		node.run(t, pod(namespace, name, name, only))
	}
	for _, one := range node.placed(t, namespace, 2) {
		if one.Name == "lenient" {
			node.prepare(t, &one)
			if tenants := node.tenants(t); len(tenants) != 1 || tenants[0]["priority"] != "high" {
				t.Errorf("of a class that allows it: %v", tenants)
			}
			node.ended(t, &one)
			continue
		}
		// The kubelet shows this error on the pod.
		if err := node.manager.PrepareResources(node.Context, &one); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("prepared above its class: %v", err)
		}
		claim := *one.Status.ResourceClaimStatuses[0].ResourceClaimName
		until(t, "an event of the node about the claim", func() (string, error) {
			events, err := node.CoreV1().Events("default").List(node.Context, meta.ListOptions{})
			if err != nil {
				return "", err
			}
			for _, event := range events.Items {
				isAbout := event.InvolvedObject.Kind == "Node" && strings.Contains(event.Message, claim)
				if isAbout && event.Reason == "DivvyCannotPrepare" && strings.Contains(event.Message, words) {
					return "", nil
				}
			}
			return fmt.Sprintf("%d others", len(events.Items)), nil
		})
		node.ended(t, &one)
	}
}

// convertedSettings: each configuration that `divvy kube convert` makes of the corpus is within its class and becomes the tenant's.
func convertedSettings(t *testing.T, node *Node, namespace string, only map[string]string) {
	seen := map[string]string{}
	for _, path := range check[[]string](t)(filepath.Glob(filepath.Join(corpus, "*.golden"))) {
		for _, object := range written(t, path) {
			var template dra.ResourceClaimTemplate
			if object.GetKind() != "ResourceClaimTemplate" {
				continue
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &template); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			devices := template.Spec.Spec.Devices
			if len(devices.Config) == 0 || seen[fmt.Sprint(devices.Config)] != "" {
				continue
			}
			name := strings.TrimSuffix(filepath.Base(path), ".golden")
			seen[fmt.Sprint(devices.Config)] = name
			// The card of this node, and little of it.
			one := request("gpu", devices.Requests[0].Exactly.DeviceClassName, 1, "1Gi", "10")
			node.claimTemplate(t, namespace, name, dra.DeviceClaim{Requests: []dra.DeviceRequest{one}, Config: devices.Config})
			node.run(t, pod(namespace, name, name, only))
			placed := node.placed(t, namespace, 1)
			node.prepare(t, &placed[0])
			said := struct {
				Priority      string
				Oversubscribe bool
				Burst         map[string]string
			}{Priority: "normal"}
			if err := json.Unmarshal(devices.Config[0].Opaque.Parameters.Raw, &said); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tenant := node.tenants(t)[0]
			// A burst to all of the card is no cap.
			isCapped := strings.Contains(fmt.Sprint(tenant["devices"]), "share_ppm:100000 ")
			if tenant["priority"] != said.Priority || tenant["oversubscribe"] != said.Oversubscribe || isCapped == (said.Burst["cores"] == "100") {
				t.Errorf("%s: %+v became %v", name, said, tenant)
			}
			node.ended(t, &placed[0])
		}
	}
	if len(seen) < 4 {
		t.Errorf("configurations: %v", seen)
	}
}
