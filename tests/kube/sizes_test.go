package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var sharesizes = schema.GroupVersionResource{Group: "divvy.dev", Version: "v1", Resource: "sharesizes"}

// size is a ShareSize.
func size(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "divvy.dev/v1", "kind": "ShareSize",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     spec,
	}}
}

// limits are what holds for a tenant on its only device: bytes of memory and millionths of time.
func (node *Node) limits(id string) (bytes, ppm float64, err error) {
	said, err := node.divvy("tenant", "stat", id, "--json", "--home", node.Home).Output()
	if err != nil {
		return 0, 0, err
	}
	var stat struct {
		Tenant struct {
			Devices []struct {
				Limit float64 `json:"limit_bytes"`
				Share float64 `json:"share_ppm"`
			}
		}
	}
	if err := json.Unmarshal(said, &stat); err != nil || len(stat.Tenant.Devices) != 1 {
		return 0, 0, fmt.Errorf("%w: %s", err, said)
	}
	return stat.Tenant.Devices[0].Limit, stat.Tenant.Devices[0].Share, nil
}

// waitLimits waits until these hold, and says how long that took from the call on.
func (node *Node) waitLimits(t *testing.T, id string, gib, percent float64) time.Duration {
	t.Helper()
	begun := time.Now()
	until(t, fmt.Sprintf("%v GiB and %v %%", gib, percent), func() (string, error) {
		bytes, ppm, err := node.limits(id)
		if bytes != gib*(1<<30) || ppm != percent*10_000 {
			return fmt.Sprintf("%v bytes, %v ppm", bytes, ppm), err
		}
		return "", err
	})
	return time.Since(begun)
}

// told waits until the status has the reason, and is the condition's message then.
func told(t *testing.T, plane *Plane, sizes dynamic.ResourceInterface, name, reason, part string) string {
	t.Helper()
	message := ""
	until(t, reason+": "+part, func() (string, error) {
		object, err := sizes.Get(plane.Context, name, meta.GetOptions{})
		if err != nil {
			return "", err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		if len(conditions) != 1 {
			return fmt.Sprint(object.Object["status"]), nil
		}
		condition := conditions[0].(map[string]any)
		message = fmt.Sprint(condition["message"])
		if condition["reason"] != reason || !strings.Contains(message, part) {
			return fmt.Sprint(condition), nil
		}
		return "", nil
	})
	return message
}

// resizedPod: a pod's share has the size that is asked for, while it runs, and through all that is restarted; and what it claims where
// nobody asks any more. How long it takes is told, not judged.
func resizedPod(t *testing.T, plane *Plane) {
	namespace := "resized"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "resized-1", only)
	plane.namespace(t, namespace)
	placed := plane.onePod(t, namespace, only)
	node.prepare(t, &placed[0])
	id := fmt.Sprint(node.tenants(t)[0]["id"])
	claim := plane.claims(t, namespace)[0].Name
	sizes := plane.Dynamic.Resource(sharesizes).Namespace(namespace)
	patch := func(spec string) {
		t.Helper()
		body := []byte(`{"spec": ` + spec + `}`)
		check[*unstructured.Unstructured](t)(sizes.Patch(plane.Context, claim, types.MergePatchType, body, meta.PatchOptions{}))
	}
	check[*unstructured.Unstructured](t)(sizes.Create(plane.Context,
		size(namespace, claim, map[string]any{"memory": "4Gi", "cores": int64(20)}), meta.CreateOptions{}))
	first := node.waitLimits(t, id, 4, 20)
	told(t, plane, sizes, claim, "Resized", "memory 4Gi, cores 20")
	var took []float64
	before := plane.writes(t, agentAccount)
	for round := range 10 {
		gib := float64(1 + round%4)
		patch(fmt.Sprintf(`{"memory": "%vGi"}`, gib))
		took = append(took, node.waitLimits(t, id, gib, 20).Seconds())
		told(t, plane, sizes, claim, "Resized", fmt.Sprintf("memory %vGi", gib))
	}
	if writes := plane.writes(t, agentAccount) - before; writes > 10 {
		t.Errorf("%d writes for 10 changes", writes)
	}
	report(t, map[string]any{"figure": "live-resize", "first_s": first.Seconds(), "changes_s": took})

	// Refused, each in words, with what held before.
	patch(`{"memory": "9Gi"}`)
	told(t, plane, sizes, claim, "Refused", "is above the claim's 8Gi")
	patch(`{"memory": "3Gi", "cores": "31"}`)
	told(t, plane, sizes, claim, "Refused", "set `above: true`")
	patch(`{"cores": 10, "request": "none"}`)
	told(t, plane, sizes, claim, "Refused", "none of the claim's: gpu")
	for _, spec := range []string{`{"memory": "-1"}`, `{"memory": "1Mi"}`, `{"memory": "4GiB"}`, `{"cores": 0}`, `{"cores": "101"}`,
		`{"cores": 1.5}`, `{"memory": null, "cores": null}`} {
		_, err := sizes.Patch(plane.Context, claim, types.MergePatchType, []byte(`{"spec": `+spec+`}`), meta.PatchOptions{})
		if !errors.IsInvalid(err) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	node.waitLimits(t, id, 2, 20)

	// An agent that is killed, and a wish that changes meanwhile.
	node.killAgent()
	patch(`{"memory": "3Gi", "cores": 5, "request": null}`)
	node.startAgent(t)
	node.waitLimits(t, id, 3, 5)
	told(t, plane, sizes, claim, "Resized", "memory 3Gi, cores 5")
	// A kubelet that has forgotten what it prepared.
	node.start(t)
	node.prepare(t, &placed[0])
	node.waitLimits(t, id, 3, 5)
	// A daemon that is killed and comes back.
	node.killDaemon(t)
	node.waitLimits(t, id, 3, 5)
	// An object that goes while the agent is away, and one that goes before its eyes.
	node.killAgent()
	if err := sizes.Delete(plane.Context, claim, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	node.startAgent(t)
	node.waitLimits(t, id, 8, 30)
	check[*unstructured.Unstructured](t)(sizes.Create(plane.Context,
		size(namespace, claim, map[string]any{"cores": "10"}), meta.CreateOptions{}))
	node.waitLimits(t, id, 8, 10)
	told(t, plane, sizes, claim, "Resized", "memory 8Gi, cores 10")
	if err := sizes.Delete(plane.Context, claim, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	node.waitLimits(t, id, 8, 30)
	// What is left when the pod has gone is nobody's.
	check[*unstructured.Unstructured](t)(sizes.Create(plane.Context,
		size(namespace, claim, map[string]any{"cores": "10"}), meta.CreateOptions{}))
	node.waitLimits(t, id, 8, 10)
	node.unprepare(t, &placed[0])
	told(t, plane, sizes, claim, "NotPrepared", "no pod has the claim")
	if tenants := node.tenants(t); len(tenants) != 0 {
		t.Errorf("tenants afterwards: %v", tenants)
	}
}

// user is somebody with these roles in the namespace.
func (plane *Plane) user(t *testing.T, namespace, name string, roles ...string) dynamic.ResourceInterface {
	t.Helper()
	for _, role := range roles {
		binding := &rbac.RoleBinding{
			ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name + "-" + role},
			Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: name}},
			RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
		}
		check[*rbac.RoleBinding](t)(plane.RbacV1().RoleBindings(namespace).Create(plane.Context, binding, meta.CreateOptions{}))
	}
	config := rest.CopyConfig(plane.Config)
	config.Impersonate.UserName = name
	return dynamic.NewForConfigOrDie(config).Resource(sharesizes).Namespace(namespace)
}

// aboveNeedsARight: cores above the claim are for those who have a right to that, and memory for nobody.
func aboveNeedsARight(t *testing.T, plane *Plane) {
	namespace := "above"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "above-1", only)
	plane.namespace(t, namespace)
	placed := plane.onePod(t, namespace, only)
	node.prepare(t, &placed[0])
	id := fmt.Sprint(node.tenants(t)[0]["id"])
	claim := plane.claims(t, namespace)[0].Name

	editor := plane.user(t, namespace, "editor", "divvy-sizes-edit")
	admin := plane.user(t, namespace, "admin", "divvy-sizes-edit", "divvy-sizes-above")
	wide := map[string]any{"cores": int64(90), "above": true}
	until(t, "the policy is in force, and so are the rights", func() (string, error) {
		_, err := editor.Create(plane.Context, size(namespace, claim, wide), meta.CreateOptions{})
		if err == nil {
			return "it lets through", editor.Delete(plane.Context, claim, meta.DeleteOptions{})
		}
		if !strings.Contains(err.Error(), "editor may not set above") {
			return err.Error(), nil
		}
		return "", nil
	})
	check[*unstructured.Unstructured](t)(editor.Create(plane.Context, size(namespace, claim, map[string]any{"cores": int64(20)}), meta.CreateOptions{}))
	node.waitLimits(t, id, 8, 20)
	patch := func(sizes dynamic.ResourceInterface, body string) error {
		_, err := sizes.Patch(plane.Context, claim, types.MergePatchType, []byte(body), meta.PatchOptions{})
		return err
	}
	if err := patch(editor, `{"spec": {"cores": 90, "above": true}}`); !errors.IsForbidden(err) {
		t.Errorf("without the right: %v", err)
	}
	if err := patch(admin, `{"spec": {"cores": 90, "above": true}}`); err != nil {
		t.Fatalf("with the right: %v", err)
	}
	node.waitLimits(t, id, 8, 90)
	told(t, plane, editor, claim, "Resized", "cores 90")
	// What is due stays as claimed: it is at nobody's cost.
	if weight := fmt.Sprint(node.tenants(t)[0]["weight"]); weight != "30" {
		t.Errorf("weight %s", weight)
	}
	// The right of the one is not lent to the other, who may still label the object, and lower it.
	if err := patch(editor, `{"spec": {"cores": 95}}`); !errors.IsForbidden(err) {
		t.Errorf("without the right, on an object that has it: %v", err)
	}
	if err := patch(editor, `{"metadata": {"labels": {"a": "b"}}}`); err != nil {
		t.Errorf("a label: %v", err)
	}
	if err := patch(admin, `{"spec": {"memory": "9Gi"}}`); err != nil {
		t.Fatal(err)
	}
	told(t, plane, editor, claim, "Refused", "could not be taken back for the next claim")
	node.waitLimits(t, id, 8, 90)
	if err := patch(editor, `{"spec": {"cores": 30, "memory": null, "above": null}}`); err != nil {
		t.Errorf("down to the claim: %v", err)
	}
	node.waitLimits(t, id, 8, 30)
}

// ownSizesOnly: an agent tells what has come of sizes of its node's claims; whose a claim is says its allocation, not who comes first.
func ownSizesOnly(t *testing.T, plane *Plane) {
	namespace := plane.namespace(t, "own-sizes")
	sizes := plane.Dynamic.Resource(sharesizes).Namespace(namespace)
	for _, name := range []string{"own-sizes-1", "own-sizes-2"} {
		plane.node(t, name, nil)
	}
	check[*unstructured.Unstructured](t)(sizes.Create(plane.Context, size(namespace, "train", map[string]any{"cores": int64(1)}), meta.CreateOptions{}))
	of := func(node string) func(node string) error {
		own := dynamic.NewForConfigOrDie(plane.agentConfig(t, node)).Resource(sharesizes).Namespace(namespace)
		return func(node string) error {
			body := []byte(fmt.Sprintf(`{"status": {"node": %q}}`, node))
			_, err := own.Patch(plane.Context, "train", types.MergePatchType, body, meta.PatchOptions{}, "status")
			return err
		}
	}
	first, second, nowhere := of("own-sizes-1"), of("own-sizes-2"), of("")
	const others = "may not tell of sizes of other nodes"
	refused := func(what, words string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, not %q", what, err, words)
		}
	}
	// Before there is a claim it is whose is first, which is worth nothing afterwards.
	until(t, "the policy is in force", func() (string, error) {
		if first("own-sizes-2") == nil {
			return "it lets through", nil
		}
		return "", first("own-sizes-1")
	})
	refused("another's name", others, first("own-sizes-2"))
	refused("a token without a node", "names no node", nowhere("own-sizes-1"))
	plane.claimOn(t, namespace, "other", "own-sizes-1")
	plane.claimOn(t, namespace, "train", "own-sizes-2")
	until(t, "the claim's node takes it over", func() (string, error) { return "", second("own-sizes-2") })
	until(t, "the claim is asked about", func() (string, error) {
		if first("own-sizes-1") == nil {
			// What it was let through for is the claim's node's again.
			return "it lets through", second("own-sizes-2")
		}
		return "", nil
	})
	refused("another's claim", "claim train was not allocated there", first("own-sizes-1"))
	refused("another's status, away", others, first(""))
	if err := second(""); err != nil {
		t.Errorf("to let go: %v", err)
	}
	refused("what was let go", "claim train was not allocated there", first("own-sizes-1"))
}
