package kube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// oddParameters are JSON that Go takes and strict readers do not.
var oddParameters = map[string]string{
	"half": `{"x": "\ud800"}`,
	"byte": "{\"x\": \"\xff\"}",
	"deep": `{"x": ` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `}`,
}

// odd makes an object of a claim's specification with such parameters, of a driver, as they are.
func (plane *Plane) odd(t *testing.T, namespace, resource, name, driver, parameters string) {
	t.Helper()
	spec := `{"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.divvy.dev",
		"capacity": {"requests": {"memory": "1Gi", "cores": "1"}}}}],
		"config": [{"opaque": {"driver": "` + driver + `", "parameters": ` + parameters + `}}]}}`
	kind := "ResourceClaim"
	if resource == "resourceclaimtemplates" {
		kind, spec = "ResourceClaimTemplate", `{"spec": `+spec+`}`
	}
	body := `{"apiVersion": "resource.k8s.io/v1", "kind": "` + kind + `", "metadata": {"name": "` + name + `"}, "spec": ` + spec + `}`
	path := "/apis/resource.k8s.io/v1/namespaces/" + namespace + "/" + resource
	post := plane.ResourceV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body))
	if _, err := post.DoRaw(plane.Context); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// oddObjects: what an editor of one namespace writes into parameters stops neither templates nor explanations of others, and the agent
// names it for what it is.
func oddObjects(t *testing.T, plane *Plane) {
	namespace, others := plane.namespace(t, "odd"), plane.namespace(t, "odd-others")
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "odd-1", only)
	for name, parameters := range oddParameters {
		for _, kind := range []string{"resourceclaims", "resourceclaimtemplates"} {
			plane.odd(t, namespace, kind, name, "any.example", parameters)
		}
		plane.odd(t, namespace, "resourceclaimtemplates", name+"-ours", driver, parameters)
	}
	// Times that no calendar has, where an object's writers are kept.
	plane.odd(t, namespace, "resourceclaims", "times", "any.example", `{"x":1}`)
	fields := `{"metadata": {"managedFields": [{"manager": "x", "operation": "Update", "apiVersion": "resource.k8s.io/v1",
		"time": "9999-12-31T23:59:59-12:00", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]}}`
	check[*dra.ResourceClaim](t)(plane.ResourceV1().ResourceClaims(namespace).Patch(plane.Context, "times", types.MergePatchType, []byte(fields), meta.PatchOptions{}))

	plane.controller(t, "odd-a")
	waits := pod(others, "waits", "gpu-2048mi-2c", map[string]string{"no": "node"})
	waits.Labels = map[string]string{templateLabel: "gpu-2048mi-2c"}
	plane.run(t, waits)
	until(t, "a template of another namespace", func() (string, error) {
		if _, has := plane.templates(t, others)["gpu-2048mi-2c"]; !has {
			return "there is none", nil
		}
		return "", nil
	})
	explain := exec.Command(os.Getenv("DIVVY_KUBE"), "explain", "--namespace", others, "waits")
	explain.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig(t, plane.Config))
	said, err := explain.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Contains(string(said), "cannot be read") {
		t.Errorf("explained: %v %s", err, said)
	}

	for name := range oddParameters {
		plane.run(t, pod(namespace, name, name, only))
		plane.run(t, pod(namespace, name+"-ours", name+"-ours", only))
	}
	for _, placed := range plane.placed(t, namespace, 2*len(oddParameters)) {
		if !strings.HasSuffix(placed.Name, "-ours") {
			node.prepare(t, &placed)
			continue
		}
		until(t, placed.Name+" is refused", func() (string, error) {
			err := node.manager.PrepareResources(node.Context, &placed)
			if err == nil || !strings.Contains(err.Error(), "bad-parameters") {
				return fmt.Sprint(err), nil
			}
			return "", nil
		})
	}
}

// beyondCounting: an amount that the scheduler cannot count leaves the card's book as it is: the card is given away once.
func beyondCounting(t *testing.T, plane *Plane) {
	namespace := "uncounted"
	only := map[string]string{"test": namespace}
	plane.simulated(t, "uncounted-1", only)
	plane.namespace(t, namespace)
	for at, amounts := range [][2]string{
		{"16Ei", "1"}, {"9223372036854775807", "1"}, {"9223372036854775808", "1"}, {"8Ei", "1"}, {"7.99Ei", "1"},
		{"1Gi", "16Ei"}, {"1Gi", "9223372036854775807"}, {"1e30", "1e30"},
	} {
		name := fmt.Sprint("uncounted-", at)
		plane.template(t, namespace, name, amounts[0], amounts[1])
		plane.run(t, pod(namespace, name, name, only))
	}
	// One of alternatives too.
	first := request("gpu", driver, 1, "16Ei", "1")
	sub := dra.DeviceSubRequest{Name: "huge", DeviceClassName: driver, Capacity: first.Exactly.Capacity}
	plane.claimTemplate(t, namespace, "alternative", dra.DeviceClaim{Requests: []dra.DeviceRequest{{Name: "gpu", FirstAvailable: []dra.DeviceSubRequest{sub}}}})
	plane.run(t, pod(namespace, "alternative", "alternative", only))
	until(t, "none of these is placed", func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		for name, words := range waiting {
			if words == "" {
				return name + " was not looked at", nil
			}
		}
		if len(placed) != 0 {
			t.Fatalf("placed: %s", placed[0].Name)
		}
		return "", nil
	})
	for _, name := range []string{"first", "second"} {
		plane.template(t, namespace, name, "1Gi", "60")
		plane.run(t, pod(namespace, name, name, only))
	}
	// A fraction has the whole that is in it.
	plane.template(t, namespace, "fraction", "1.5Gi", "30.5")
	plane.run(t, pod(namespace, "fraction", "fraction", only))
	until(t, "one of two of 60 % is placed, and the fraction", func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		if len(placed) > 2 {
			t.Fatalf("%d are placed on a card", len(placed))
		}
		if len(placed) < 2 || waiting["first"]+waiting["second"] == "" {
			return fmt.Sprintf("%d placed, %v", len(placed), waiting), nil
		}
		return "", nil
	})
}

// quotaOfHAMi: a namespace whose quota counts HAMi's devices is told that it would count no more, and of an amount that is no integer people
// are told in a few words.
func quotaOfHAMi(t *testing.T, plane *Plane) {
	needs136(t, "MutatingAdmissionPolicy that is on")
	held, free := plane.namespace(t, "hami-held"), plane.namespace(t, "hami-free")
	quota := func(namespace, name string) {
		hard := core.ResourceList{core.ResourceName(name): resource.MustParse("10")}
		it := &core.ResourceQuota{ObjectMeta: meta.ObjectMeta{Name: "old"}, Spec: core.ResourceQuotaSpec{Hard: hard}}
		it = check[*core.ResourceQuota](t)(plane.CoreV1().ResourceQuotas(namespace).Create(plane.Context, it, meta.CreateOptions{}))
		it.Status = core.ResourceQuotaStatus{Hard: hard, Used: core.ResourceList{core.ResourceName(name): resource.MustParse("0")}}
		check[*core.ResourceQuota](t)(plane.CoreV1().ResourceQuotas(namespace).UpdateStatus(plane.Context, it, meta.UpdateOptions{}))
	}
	quota(held, "requests.nvidia.com/gpu")
	quota(free, "requests.example.com/gpu")
	try := func(namespace string, amounts map[string]string) error {
		dry := meta.CreateOptions{DryRun: []string{meta.DryRunAll}}
		return second(plane.CoreV1().Pods(namespace).Create(plane.Context, hamiPod(namespace, "pod", amounts), dry))
	}
	two := map[string]string{"gpu": "1", "gpumem": "8192"}
	until(t, "the quota is named", func() (string, error) {
		err := try(held, two)
		if err == nil || !strings.Contains(err.Error(), "quota old counts requests.nvidia.com/gpu") {
			return fmt.Sprint(err), nil
		}
		return "", nil
	})
	if err := try(free, two); err != nil {
		t.Errorf("another quota: %v", err)
	}
	off := []byte(`{"metadata": {"labels": {"divvy.dev/hami": "off"}}}`)
	check[*core.Namespace](t)(plane.CoreV1().Namespaces().Patch(plane.Context, held, types.MergePatchType, off, meta.PatchOptions{}))
	until(t, "a namespace that is left out", func() (string, error) { return "", try(held, two) })
	err := try(free, map[string]string{"gpu": "1", "gpumem": "1.5"})
	if err == nil || !strings.Contains(err.Error(), "must be an integer") || len(err.Error()) > 300 {
		t.Errorf("a fraction: %v", err)
	}
}
