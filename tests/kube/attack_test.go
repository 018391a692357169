package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// attacksPage has the table of what each identity can do, which these tests write.
const attacksPage = "../../docs/guide/kubernetes-rights.md"

// attacksHead begins that table.
const attacksHead = "| who | tries to | answer |\n|---|---|---|\n"

// reach is how far an attempt goes that succeeds.
type reach string

const (
	// own is what the identity is there for, and what it has of itself.
	own reach = "own"
	// reads is something of others' that is read.
	reads reach = "reads"
	// beyond is a change or a denial of what is others'. None may succeed.
	beyond reach = "beyond"
)

// attempt is something that an identity tries.
type attempt struct {
	what  string
	reach reach
	try   func() error
}

// attackers are the identities, each with its attempts.
type attacker struct {
	who      string
	attempts []attempt
}

// answer is what the API server said, in the words of the table.
func (one attempt) answer(err error) string {
	refusal := "ValidatingAdmissionPolicy '"
	switch {
	case err == nil || errors.IsNotFound(err):
		return map[reach]string{own: "may, its own", reads: "may read", beyond: "**reaches beyond its own**"}[one.reach]
	case strings.Contains(err.Error(), refusal):
		name, _, _ := strings.Cut(strings.SplitN(err.Error(), refusal, 2)[1], "'")
		return "refused by the policy `" + name + "`"
	case errors.IsForbidden(err):
		return "no right"
	case errors.IsInvalid(err):
		return "refused as invalid"
	}
	return "failed: " + err.Error()
}

// attacked: what each of three identities can read, change and deny is the table of the page, and nothing of others is changed or denied.
func attacked(t *testing.T, plane *Plane) {
	needs136(t, "all of these policies")
	for _, name := range []string{"attack-1", "attack-2"} {
		plane.node(t, name, nil)
	}
	namespace := plane.namespace(t, "attacked")
	plane.slice(t, "attack-2", card("gpu-0", "GPU-attack-2", "80Gi", 16))
	plane.claimOn(t, namespace, "theirs", "attack-2")
	plane.claimOn(t, namespace, "mine", "attack-1")
	admins := plane.Dynamic.Resource(sharesizes).Namespace(namespace)
	for _, name := range []string{"theirs", "mine"} {
		check[*unstructured.Unstructured](t)(admins.Create(plane.Context, size(namespace, name, map[string]any{"cores": int64(1)}), meta.CreateOptions{}))
	}
	victim := plane.run(t, &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "victim"},
		Spec:       core.PodSpec{NodeName: "attack-2", Containers: []core.Container{{Name: "main", Image: "none"}}},
	})
	all := []attacker{
		{"the token of a node's agent", plane.agentsAttempts(t, namespace, victim)},
		{"an editor of a namespace", plane.editorsAttempts(t, namespace)},
		{"a pod's own account", plane.podsAttempts(t, namespace)},
	}
	all = append(all, attacker{"another user's program on the node", plane.filesAttempts(t)})
	expected := answersOfPage(t)
	var table strings.Builder
	table.WriteString(attacksHead)
	for _, attacker := range all {
		for _, one := range attacker.attempts {
			row := fmt.Sprintf("| %s | %s | ", attacker.who, one.what)
			answer := one.settled(t, row, expected)
			if strings.HasPrefix(answer, "**") || strings.HasPrefix(answer, "failed") {
				t.Errorf("%s, to %s: %s", attacker.who, one.what, answer)
			}
			table.WriteString(row + answer + " |\n")
		}
	}
	sameTable(t, table.String())
}

// settled is the answer once the API server has read what was written before: rights and policies are in force some time after. It waits
// for the page's answer, and takes any where the page is written.
func (one attempt) settled(t *testing.T, row string, expected map[string]string) string {
	t.Helper()
	wanted, has := expected[row]
	if !has {
		return one.answer(one.try())
	}
	var answer string
	until(t, row+"as "+attacksPage+" has it", func() (string, error) {
		if answer = one.answer(one.try()); answer != wanted {
			return fmt.Sprintf("%q where the page has %q; DIVVY_WRITE=1 writes it", answer, wanted), nil
		}
		return "", nil
	})
	return answer
}

// answersOfPage has the page's answers by the rest of their rows; it has no entry where the page is to be written.
func answersOfPage(t *testing.T) map[string]string {
	t.Helper()
	answers := map[string]string{}
	if os.Getenv("DIVVY_WRITE") != "" {
		return answers
	}
	_, page, _ := strings.Cut(string(check[[]byte](t)(os.ReadFile(attacksPage))), attacksHead)
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			break
		}
		answers[fmt.Sprintf("| %s | %s | ", cells[0], cells[1])] = cells[2]
	}
	return answers
}

// filesAttempts are those of a program that has the host's files, as a user who is none of ours: a pod has none of them.
func (plane *Plane) filesAttempts(t *testing.T) []attempt {
	only := map[string]string{"test": "attack-files"}
	node := plane.simulated(t, "attack-3", only)
	// To use a socket is to write to it. Folders above those that the agent makes are the kubelet's and the runtime's.
	may := func(wanted os.FileMode, path ...string) func() error {
		return func() error {
			file := filepath.Join(append([]string{node.Root}, path...)...)
			found, err := filepath.Glob(file)
			if err != nil || len(found) == 0 {
				return fmt.Errorf("%s: there is none %w", file, err)
			}
			of := check[os.FileInfo](t)(os.Stat(found[0]))
			above := check[os.FileInfo](t)(os.Stat(filepath.Dir(found[0])))
			if of.Mode().Perm()&wanted == wanted && above.Mode().Perm()&0o001 != 0 {
				return nil
			}
			return errors.NewForbidden(dra.Resource("files"), file, nil)
		}
	}
	const write = os.FileMode(0o002)
	return []attempt{
		{"call the agent as the kubelet does", beyond, may(write, "plugins", driver, "*.sock")},
		{"register in the agent's name", beyond, may(write, "plugins_registry", driver)},
		{"change the list of what is preloaded", beyond, may(write, "state")},
		{"change the checkpoint", beyond, may(write, "state", "checkpoint.json")},
	}
}

// sameTable compares the page's table with that of this run, or writes it where DIVVY_WRITE is set.
func sameTable(t *testing.T, table string) {
	t.Helper()
	page := string(check[[]byte](t)(os.ReadFile(attacksPage)))
	begin := strings.Index(page, attacksHead)
	if begin < 0 {
		t.Fatalf("%s has no table", attacksPage)
	}
	end := begin + strings.Index(page[begin:]+"\n\n", "\n\n") + 1
	if page[begin:min(end, len(page))] == table {
		return
	}
	if os.Getenv("DIVVY_WRITE") == "" {
		t.Fatalf("the table of %s is another; write it by DIVVY_WRITE=1:\n%s", attacksPage, table)
	}
	page = page[:begin] + table + page[min(end, len(page)):]
	if err := os.WriteFile(attacksPage, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// claimOn makes a claim that was allocated on a node, as the scheduler would.
func (plane *Plane) claimOn(t *testing.T, namespace, name, node string) {
	t.Helper()
	claims := plane.ResourceV1().ResourceClaims(namespace)
	claim := check[*dra.ResourceClaim](t)(claims.Create(plane.Context, &dra.ResourceClaim{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       dra.ResourceClaimSpec{Devices: dra.DeviceClaim{Requests: []dra.DeviceRequest{request("gpu", driver, 1, "8Gi", "10")}}},
	}, meta.CreateOptions{}))
	share := types.UID("5d6ad2a4-4c9c-4c36-8a4e-2a2c4f1f2f00")
	claim.Status.Allocation = &dra.AllocationResult{Devices: dra.DeviceAllocationResult{Results: []dra.DeviceRequestAllocationResult{{
		Request: "gpu", Driver: driver, Pool: node, Device: "gpu-0", ShareID: &share,
		ConsumedCapacity: map[dra.QualifiedName]resource.Quantity{"memory": resource.MustParse("8Gi"), "cores": resource.MustParse("10")},
	}}}}
	check[*dra.ResourceClaim](t)(claims.UpdateStatus(plane.Context, claim, meta.UpdateOptions{}))
}

// agentsAttempts are those with the token of the agent of attack-1, whose own is that node.
func (plane *Plane) agentsAttempts(t *testing.T, namespace string, victim *core.Pod) []attempt {
	config := plane.agentConfig(t, "attack-1")
	agent, ctx := kubernetes.NewForConfigOrDie(config), plane.Context
	sizes := dynamic.NewForConfigOrDie(config).Resource(sharesizes).Namespace(namespace)
	slices := agent.ResourceV1().ResourceSlices()
	publish := func(name string, change func(*dra.ResourceSlice)) func() error {
		return func() error {
			node := "attack-1"
			slice := &dra.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: dra.ResourceSliceSpec{
				Driver: driver, NodeName: &node, Pool: dra.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
				Devices: []dra.Device{card("gpu-0", "GPU-attack-1", "80Gi", 16)},
			}}
			change(slice)
			_, err := slices.Create(ctx, slice, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
			return err
		}
	}
	first := "attack-1-" + driver + "-0"
	hijack := func(change func(*dra.ResourceSlice)) func() error {
		return publish(first, func(slice *dra.ResourceSlice) {
			slice.Spec.Pool = dra.ResourcePool{Name: "attack-2", Generation: 1 << 60, ResourceSliceCount: 1}
			change(slice)
		})
	}
	taint := []dra.DeviceTaint{{Key: "x.example/x", Effect: dra.DeviceTaintEffectNoExecute}}
	event := func(namespace string, change func(*events.Event)) func() error {
		return func() error {
			it := &events.Event{
				ObjectMeta: meta.ObjectMeta{Namespace: namespace, GenerateName: "attack-"},
				EventTime:  meta.NowMicro(), Type: "Warning", Reason: "DivvyAttack", Note: "x", Action: "Divvy",
				ReportingController: driver, ReportingInstance: "agent-1",
				Regarding: core.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "attack-1"},
			}
			change(it)
			_, err := agent.EventsV1().Events(namespace).Create(ctx, it, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
			return err
		}
	}
	status := func(name, body string) func() error {
		return func() error {
			dry := meta.PatchOptions{DryRun: []string{meta.DryRunAll}}
			_, err := sizes.Patch(ctx, name, types.MergePatchType, []byte(`{"status": `+body+`}`), dry, "status")
			return err
		}
	}
	// A policy is in force some time after it was written, and with what it asks about.
	for what, try := range map[string]func() error{
		"slices": hijack(func(*dra.ResourceSlice) {}),
		"events": event("kube-system", func(*events.Event) {}),
		"sizes":  status("theirs", `{"node": "attack-1"}`),
	} {
		until(t, "the policy of "+what, func() (string, error) {
			if try() == nil {
				return "it lets through", nil
			}
			return "", nil
		})
	}
	until(t, "its own size is told of", func() (string, error) { return "", status("mine", `{"node": "attack-1"}`)() })
	others := "attack-2-" + driver
	return []attempt{
		{"publish cards of its node", own, publish(first, func(*dra.ResourceSlice) {})},
		{"taint a card of its node", own, publish(first, func(slice *dra.ResourceSlice) { slice.Spec.Devices[0].Taints = taint })},
		{"publish a ninth slice", beyond, publish("attack-1-"+driver+"-8", func(*dra.ResourceSlice) {})},
		{"publish a slice by any name", beyond, publish("x", func(*dra.ResourceSlice) {})},
		{"taint a card of another node's pool, which evicts its pods", beyond,
			hijack(func(slice *dra.ResourceSlice) { slice.Spec.Devices[0].Taints = taint })},
		{"put counters into another node's pool, which hides its cards", beyond, hijack(func(slice *dra.ResourceSlice) {
			slice.Spec.Devices = nil
			slice.Spec.SharedCounters = []dra.CounterSet{{Name: "c", Counters: map[string]dra.Counter{"x": {Value: resource.MustParse("1")}}}}
		})},
		{"publish a card of another node's pool, which books it", beyond, hijack(func(*dra.ResourceSlice) {})},
		{"publish a slice of another node", beyond, publish(first, func(slice *dra.ResourceSlice) {
			node := "attack-2"
			slice.Spec.NodeName, slice.Spec.Pool.Name = &node, node
		})},
		{"publish a slice of all nodes", beyond, publish(first, func(slice *dra.ResourceSlice) {
			yes := true
			slice.Spec.NodeName, slice.Spec.AllNodes = nil, &yes
		})},
		{"publish a slice whose devices choose nodes", beyond, publish(first, func(slice *dra.ResourceSlice) {
			yes := true
			slice.Spec.NodeName, slice.Spec.PerDeviceNodeSelection = nil, &yes
			slice.Spec.Devices[0].AllNodes = &yes
		})},
		{"publish a slice of another driver", beyond, publish(first, func(slice *dra.ResourceSlice) { slice.Spec.Driver = "gpu.example.com" })},
		{"change another node's slice", beyond, func() error {
			patch := []byte(`{"metadata": {"labels": {"mine": "now"}}}`)
			return second(slices.Patch(ctx, others, types.MergePatchType, patch, meta.PatchOptions{}))
		}},
		{"delete another node's slice", beyond, func() error { return slices.Delete(ctx, others, meta.DeleteOptions{}) }},
		{"delete all slices", beyond, func() error {
			return slices.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{})
		}},
		{"make an event of its node", own, event("default", func(*events.Event) {})},
		{"make an event of another node", beyond, event("default", func(it *events.Event) { it.Regarding.Name = "attack-2" })},
		{"make an event in kube-system", beyond, event("kube-system", func(it *events.Event) { it.Regarding.Namespace = "kube-system" })},
		{"make an event of a pod", beyond, event(namespace, func(it *events.Event) {
			it.Regarding = core.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: victim.Name, UID: victim.UID}
		})},
		{"make an event by another controller", beyond, event("default", func(it *events.Event) { it.ReportingController = "kubelet" })},
		{"change an event", beyond, func() error {
			return second(agent.EventsV1().Events("default").Patch(ctx, "x", types.MergePatchType, []byte(`{}`), meta.PatchOptions{}))
		}},
		{"tell of a size of its node's claim", own, status("mine", `{"node": "attack-1", "memory": "1Gi"}`)},
		{"tell of a size of another node's claim first", beyond, status("theirs", `{"node": "attack-1"}`)},
		{"bind another node's size to a claim", beyond, status("theirs", `{"node": "attack-1", "claimUID": "x"}`)},
		{"speak for another node", beyond, status("mine", `{"node": "attack-2"}`)},
		{"change a size", beyond, func() error {
			return second(sizes.Patch(ctx, "theirs", types.MergePatchType, []byte(`{"spec": {"cores": 2}}`), meta.PatchOptions{}))
		}},
		{"read a claim of any namespace by its name", reads, func() error {
			return second(agent.ResourceV1().ResourceClaims(namespace).Get(ctx, "theirs", meta.GetOptions{}))
		}},
		{"list all cards", reads, func() error { return second(slices.List(ctx, meta.ListOptions{})) }},
		{"list the sizes of all namespaces", reads, func() error { return second(sizes.List(ctx, meta.ListOptions{})) }},
		{"read another node", reads, func() error { return second(agent.CoreV1().Nodes().Get(ctx, "attack-2", meta.GetOptions{})) }},
		{"list claims", beyond, func() error {
			return second(agent.ResourceV1().ResourceClaims("").List(ctx, meta.ListOptions{}))
		}},
		{"list pods", beyond, func() error { return second(agent.CoreV1().Pods("").List(ctx, meta.ListOptions{})) }},
		{"list secrets", beyond, func() error { return second(agent.CoreV1().Secrets("").List(ctx, meta.ListOptions{})) }},
		{"change a claim's status", beyond, func() error {
			return second(agent.ResourceV1().ResourceClaims(namespace).Patch(ctx, "theirs", types.MergePatchType,
				[]byte(`{"status": null}`), meta.PatchOptions{}, "status"))
		}},
		{"evict a pod", beyond, func() error { return plane.evict(agent, namespace, victim.Name) }},
		{"delete a pod", beyond, func() error { return agent.CoreV1().Pods(namespace).Delete(ctx, victim.Name, meta.DeleteOptions{}) }},
		{"change its node", beyond, func() error {
			return second(agent.CoreV1().Nodes().Patch(ctx, "attack-1", types.MergePatchType, []byte(`{"spec": {"unschedulable": true}}`), meta.PatchOptions{}))
		}},
		{"make a token of the controller", beyond, func() error {
			return second(agent.CoreV1().ServiceAccounts(system).CreateToken(ctx, controllerAccount, &authentication.TokenRequest{}, meta.CreateOptions{}))
		}},
		{"take the controller's lease", beyond, func() error {
			return second(agent.CoordinationV1().Leases(system).Get(ctx, "divvy-controller", meta.GetOptions{}))
		}},
		{"make a template of claims", beyond, func() error {
			return second(agent.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, &dra.ResourceClaimTemplate{
				ObjectMeta: meta.ObjectMeta{Name: "x"}}, meta.CreateOptions{}))
		}},
	}
}

// editorsAttempts are those of somebody with the role `edit` in a namespace.
func (plane *Plane) editorsAttempts(t *testing.T, others string) []attempt {
	namespace := plane.namespace(t, "attackers")
	// The role `edit` is put together by a controller that does not run here: these are its parts.
	plane.user(t, namespace, "attacker", "system:aggregate-to-edit", "system:aggregate-to-view", "divvy-sizes-edit")
	config := rest.CopyConfig(plane.Config)
	config.Impersonate.UserName = "attacker"
	editor, ctx := kubernetes.NewForConfigOrDie(config), plane.Context
	claims := editor.ResourceV1().ResourceClaims(namespace)
	dry := meta.CreateOptions{DryRun: []string{meta.DryRunAll}}
	claim := func(change func(*dra.ResourceClaim)) func() error {
		return func() error {
			it := &dra.ResourceClaim{
				ObjectMeta: meta.ObjectMeta{Name: "mine"},
				Spec:       dra.ResourceClaimSpec{Devices: dra.DeviceClaim{Requests: []dra.DeviceRequest{request("gpu", driver, 1, "8Gi", "10")}}},
			}
			change(it)
			return second(claims.Create(ctx, it, dry))
		}
	}
	sizes := dynamic.NewForConfigOrDie(config).Resource(sharesizes)
	return []attempt{
		{"make a claim", own, claim(func(*dra.ResourceClaim) {})},
		{"make a claim with an administrator's access", beyond, claim(func(it *dra.ResourceClaim) {
			yes := true
			it.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
		})},
		{"resize a claim of its namespace", own, func() error {
			return second(sizes.Namespace(namespace).Create(ctx, size(namespace, "mine", map[string]any{"cores": int64(1)}), dry))
		}},
		{"resize it above what it claims", beyond, func() error {
			return second(sizes.Namespace(namespace).Create(ctx, size(namespace, "mine", map[string]any{"cores": int64(90), "above": true}), dry))
		}},
		{"resize a claim of another namespace", beyond, func() error {
			return second(sizes.Namespace(others).Create(ctx, size(others, "x", map[string]any{"cores": int64(1)}), dry))
		}},
		{"say what has come of a size", beyond, func() error {
			return second(sizes.Namespace(namespace).Patch(ctx, "mine", types.MergePatchType, []byte(`{"status": {}}`), meta.PatchOptions{}, "status"))
		}},
		{"allocate a claim", beyond, func() error {
			return second(claims.Patch(ctx, "mine", types.MergePatchType, []byte(`{"status": {}}`), meta.PatchOptions{}, "status"))
		}},
		{"read a claim of another namespace", beyond, func() error {
			return second(editor.ResourceV1().ResourceClaims(others).Get(ctx, "theirs", meta.GetOptions{}))
		}},
		{"list the cards", beyond, func() error { return second(editor.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{})) }},
		{"publish cards", beyond, func() error {
			return second(editor.ResourceV1().ResourceSlices().Create(ctx, &dra.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: "x"}}, dry))
		}},
		{"make a class", beyond, func() error {
			return second(editor.ResourceV1().DeviceClasses().Create(ctx, &dra.DeviceClass{ObjectMeta: meta.ObjectMeta{Name: "x"}}, dry))
		}},
		{"take its namespace out of the policy for HAMi's pods", beyond, func() error {
			return second(editor.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType,
				[]byte(`{"metadata": {"labels": {"divvy.dev/hami": "off"}}}`), meta.PatchOptions{}))
		}},
		{"delete a policy", beyond, func() error {
			return editor.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "divvy-own-node", meta.DeleteOptions{})
		}},
		{"evict a pod of another namespace", beyond, func() error { return plane.evict(editor, others, "victim") }},
	}
}

// podsAttempts are those of the account that a pod has of itself.
func (plane *Plane) podsAttempts(t *testing.T, others string) []attempt {
	namespace := plane.namespace(t, "attackers-pods")
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "default"}}
	check[*core.ServiceAccount](t)(plane.CoreV1().ServiceAccounts(namespace).Create(plane.Context, account, meta.CreateOptions{}))
	request := &authentication.TokenRequest{}
	token := check[*authentication.TokenRequest](t)(plane.CoreV1().ServiceAccounts(namespace).CreateToken(plane.Context, "default", request, meta.CreateOptions{}))
	config := rest.AnonymousClientConfig(plane.Config)
	config.BearerToken = token.Status.Token
	pod, ctx := kubernetes.NewForConfigOrDie(config), plane.Context
	sizes := dynamic.NewForConfigOrDie(config).Resource(sharesizes)
	return []attempt{
		{"read its own claim", beyond, func() error {
			return second(pod.ResourceV1().ResourceClaims(namespace).Get(ctx, "x", meta.GetOptions{}))
		}},
		{"read another's claim", beyond, func() error {
			return second(pod.ResourceV1().ResourceClaims(others).Get(ctx, "theirs", meta.GetOptions{}))
		}},
		{"list the cards", beyond, func() error { return second(pod.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{})) }},
		{"publish cards", beyond, func() error {
			return second(pod.ResourceV1().ResourceSlices().Create(ctx, &dra.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: "x"}}, meta.CreateOptions{}))
		}},
		{"resize a claim", beyond, func() error {
			return second(sizes.Namespace(namespace).Create(ctx, size(namespace, "x", map[string]any{"cores": int64(1)}), meta.CreateOptions{}))
		}},
		{"list sizes", beyond, func() error { return second(sizes.List(ctx, meta.ListOptions{})) }},
		{"make an event", beyond, func() error {
			return second(pod.EventsV1().Events(namespace).Create(ctx, &events.Event{ObjectMeta: meta.ObjectMeta{Name: "x"}}, meta.CreateOptions{}))
		}},
		{"make a token of a node's agent", beyond, func() error {
			return second(pod.CoreV1().ServiceAccounts(system).CreateToken(ctx, agentAccount, request, meta.CreateOptions{}))
		}},
	}
}
