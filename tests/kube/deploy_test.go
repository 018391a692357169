package kube

import (
	"context"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	resources "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// pluginBase is that of the device plugin, in its place.
const pluginBase = "../../deploy/kubernetes-plugin"

// rendered are the objects that `kubectl apply -k` would send.
func rendered(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, one := range made.Resources() {
		bytes, err := one.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(bytes); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// apply sends objects to the API server, which must know each of their fields.
func (plane *Plane) apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	mapper := plane.mapper()
	for _, object := range objects {
		client, err := plane.clientOf(mapper, object)
		if err != nil {
			t.Fatalf("%s %s: %v", object.GroupVersionKind(), object.GetName(), err)
		}
		bytes, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		options := meta.PatchOptions{FieldManager: "tests", FieldValidation: meta.FieldValidationStrict}
		if _, err := client.Patch(plane.Context, object.GetName(), types.ApplyPatchType, bytes, options); err != nil {
			t.Fatalf("%s %s: %v", object.GroupVersionKind(), object.GetName(), err)
		}
	}
}

// mapper finds the resources of kinds.
func (plane *Plane) mapper() resources.RESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(plane.Discovery()))
}

// clientOf is the one for an object, where the API server knows its kind.
func (plane *Plane) clientOf(mapper resources.RESTMapper, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == resources.RESTScopeNameRoot || object.GetNamespace() == "" {
		return plane.Dynamic.Resource(mapping.Resource), nil
	}
	return plane.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// agentOf is a client with the agent's account, as a pod of the DaemonSet on the node has it.
func (plane *Plane) agentOf(t *testing.T, node string) *kubernetes.Clientset {
	t.Helper()
	return kubernetes.NewForConfigOrDie(plane.agentConfig(t, node))
}

func (plane *Plane) agentConfig(t *testing.T, node string) *rest.Config {
	t.Helper()
	return plane.configOf(t, agentAccount, node)
}

// configOf is a configuration with an account of ours, as a pod on the node has it.
func (plane *Plane) configOf(t *testing.T, account, node string) *rest.Config {
	t.Helper()
	var bound *authentication.BoundObjectReference
	if node != "" {
		object := plane.run(t, &core.Pod{
			ObjectMeta: meta.ObjectMeta{Namespace: system, GenerateName: account + "-"},
			Spec: core.PodSpec{
				NodeName:           node,
				ServiceAccountName: account,
				Containers:         []core.Container{{Name: "agent", Image: "none"}},
			},
		})
		bound = &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: object.Name, UID: object.UID}
	}
	return plane.accountConfig(t, account, bound)
}

// Accounts of ours, and their namespace.
const (
	system            = "divvy-system"
	agentAccount      = "divvy-agent"
	pluginAccount     = "divvy-plugin"
	controllerAccount = "divvy-controller"
)

// accountConfig is a configuration with a token of an account of ours.
func (plane *Plane) accountConfig(t *testing.T, account string, bound *authentication.BoundObjectReference) *rest.Config {
	t.Helper()
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{BoundObjectRef: bound}}
	token, err := plane.CoreV1().ServiceAccounts(system).CreateToken(plane.Context, account, request, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(plane.Config)
	config.BearerToken = token.Status.Token
	return config
}

// ownNodeOnly: an agent writes slices of its node and driver, and no others.
func ownNodeOnly(t *testing.T, plane *Plane) {
	for _, name := range []string{"own-1", "own-2"} {
		plane.node(t, name, nil)
	}
	agent := plane.agentOf(t, "own-1")
	slices := agent.ResourceV1().ResourceSlices()
	slice := func(name, node, of string) *dra.ResourceSlice {
		return &dra.ResourceSlice{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Spec: dra.ResourceSliceSpec{
				Driver: of, NodeName: &node, Pool: dra.ResourcePool{Name: node, ResourceSliceCount: 1},
				Devices: []dra.Device{card("gpu-0", "GPU-own-0", "80Gi", 16)},
			},
		}
	}
	create := func(slice *dra.ResourceSlice) error {
		_, err := slices.Create(plane.Context, slice, meta.CreateOptions{})
		return err
	}
	refused := func(what, words string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, not %q", what, err, words)
		}
	}
	// A policy is in force some time after it was written.
	until(t, "the policy is in force", func() (string, error) {
		if create(slice("own-probe", "own-2", driver)) == nil {
			return "it lets through", slices.Delete(plane.Context, "own-probe", meta.DeleteOptions{})
		}
		return "", nil
	})
	name := "own-1-" + driver + "-0"
	if err := create(slice(name, "own-1", driver)); err != nil {
		t.Errorf("its own slice: %v", err)
	}
	hijack := slice("own-1-"+driver+"-1", "own-1", driver)
	hijack.Spec.Pool.Name = "own-2"
	refused("another's pool", "may not write slices of the pool own-2", create(hijack))
	refused("another name", "0 to 7 alone", create(slice("own-a", "own-1", driver)))
	refused("a ninth", "0 to 7 alone", create(slice("own-1-"+driver+"-8", "own-1", driver)))
	// One that an older policy let through is taken away.
	check[*dra.ResourceSlice](t)(plane.ResourceV1().ResourceSlices().Create(plane.Context, hijack, meta.CreateOptions{}))
	if err := slices.Delete(plane.Context, hijack.Name, meta.DeleteOptions{}); err != nil {
		t.Errorf("to mend: %v", err)
	}
	refused("another's node", "may not write slices of others", create(slice("own-b", "own-2", driver)))
	refused("another's driver", "gpu.divvy.dev alone", create(slice("own-c", "own-1", "gpu.example.com")))
	plane.slice(t, "own-2", card("gpu-0", "GPU-own-2", "80Gi", 16))
	refused("another's deletion", "may not write slices of others",
		slices.Delete(plane.Context, "own-2-"+driver, meta.DeleteOptions{}))
	patch := []byte(`{"metadata": {"labels": {"mine": "now"}}}`)
	_, err := slices.Patch(plane.Context, "own-2-"+driver, types.MergePatchType, patch, meta.PatchOptions{})
	refused("another's change", "may not write slices of others", err)
	if err := slices.Delete(plane.Context, name, meta.DeleteOptions{}); err != nil {
		t.Errorf("its own deletion: %v", err)
	}
	nowhere := plane.agentOf(t, "").ResourceV1().ResourceSlices()
	_, err = nowhere.Create(plane.Context, slice("own-d", "own-1", driver), meta.CreateOptions{})
	refused("a token without a node", "names no node", err)
}

// agentsRights: what the agent's account may do, and what not.
func agentsRights(t *testing.T, plane *Plane) {
	plane.node(t, "rights-1", nil)
	agent, ctx := plane.agentOf(t, "rights-1"), plane.Context
	allowed, forbidden := judges(t)
	allowed("a claim", second(agent.ResourceV1().ResourceClaims("default").Get(ctx, "none", meta.GetOptions{})))
	allowed("slices", second(agent.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{})))
	allowed("a node", second(agent.CoreV1().Nodes().Get(ctx, "rights-1", meta.GetOptions{})))
	allowed("sizes", second(agent.RESTClient().Get().AbsPath("/apis/divvy.dev/v1/sharesizes").DoRaw(ctx)))
	forbidden("to make sizes", second(agent.RESTClient().Post().AbsPath("/apis/divvy.dev/v1/namespaces/default/sharesizes").
		Body([]byte(`{"apiVersion": "divvy.dev/v1", "kind": "ShareSize", "metadata": {"name": "none"}, "spec": {"cores": 1}}`)).DoRaw(ctx)))
	forbidden("all claims", second(agent.ResourceV1().ResourceClaims("").List(ctx, meta.ListOptions{})))
	forbidden("pods", second(agent.CoreV1().Pods("").List(ctx, meta.ListOptions{})))
	forbidden("secrets", second(agent.CoreV1().Secrets("default").Get(ctx, "none", meta.GetOptions{})))
	forbidden("all nodes", second(agent.CoreV1().Nodes().List(ctx, meta.ListOptions{})))
}

// judges say whether an account has a right. What is not there may be asked for.
func judges(t *testing.T) (allowed, forbidden func(what string, err error)) {
	allowed = func(what string, err error) {
		t.Helper()
		if err != nil && !errors.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	forbidden = func(what string, err error) {
		t.Helper()
		if !errors.IsForbidden(err) {
			t.Errorf("%s: %v, not forbidden", what, err)
		}
	}
	return allowed, forbidden
}

func second[T any](_ T, err error) error { return err }

// pluginsRights: the device plugin's account reads nodes one by one, and nothing else.
func pluginsRights(t *testing.T, plane *Plane) {
	plane.node(t, "rights-2", nil)
	plugin, ctx := kubernetes.NewForConfigOrDie(plane.configOf(t, pluginAccount, "rights-2")), plane.Context
	node, err := plugin.CoreV1().Nodes().Get(ctx, "rights-2", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"all nodes":      second(plugin.CoreV1().Nodes().List(ctx, meta.ListOptions{})),
		"pods":           second(plugin.CoreV1().Pods("").List(ctx, meta.ListOptions{})),
		"a claim":        second(plugin.ResourceV1().ResourceClaims("default").Get(ctx, "none", meta.GetOptions{})),
		"slices":         second(plugin.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{})),
		"a node's state": second(plugin.CoreV1().Nodes().UpdateStatus(ctx, node, meta.UpdateOptions{})),
	} {
		if !errors.IsForbidden(err) {
			t.Errorf("%s: %v, not forbidden", what, err)
		}
	}
}

// unprivileged: the DaemonSets as the API server has them, with all defaults.
func unprivileged(t *testing.T, plane *Plane) {
	agent, plugin := plane.unprivileged(t, "divvy-agent"), plane.unprivileged(t, "divvy-plugin")
	if surge := agent.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntValue(); surge != 1 {
		t.Errorf("the agent's update: %+v", agent.Spec.UpdateStrategy)
	}
	if surge := plugin.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntValue(); surge != 0 {
		t.Errorf("the plugin's update: %+v", plugin.Spec.UpdateStrategy)
	}
}

func (plane *Plane) unprivileged(t *testing.T, name string) *apps.DaemonSet {
	t.Helper()
	set, err := plane.AppsV1().DaemonSets("divvy-system").Get(context.Background(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := set.Spec.Template.Spec
	if spec.HostPID || spec.HostNetwork || spec.HostIPC || spec.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod: %+v", spec.SecurityContext)
	}
	added := map[string]string{}
	for _, container := range append(spec.InitContainers, spec.Containers...) {
		has := container.SecurityContext
		if has == nil || has.Privileged != nil && *has.Privileged || has.AllowPrivilegeEscalation == nil ||
			*has.AllowPrivilegeEscalation || has.ReadOnlyRootFilesystem == nil || !*has.ReadOnlyRootFilesystem ||
			has.Capabilities == nil || len(has.Capabilities.Drop) != 1 || has.Capabilities.Drop[0] != "ALL" {
			t.Errorf("%s: %+v", container.Name, has)
			continue
		}
		for _, capability := range has.Capabilities.Add {
			added[container.Name] += " " + string(capability)
		}
	}
	if len(added) != 1 || added["daemon"] != " DAC_OVERRIDE FOWNER" {
		t.Errorf("capabilities beyond none: %v", added)
	}
	oneToken(t, spec)
	return set
}

// oneToken: of a pod's containers the first that runs has the account's token, and no other.
func oneToken(t *testing.T, spec core.PodSpec) {
	t.Helper()
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("the token is in each container")
	}
	tokens := map[string]bool{}
	for _, volume := range spec.Volumes {
		if volume.Projected != nil {
			tokens[volume.Name] = true
		}
		if host := volume.HostPath; host != nil && slices.Contains([]string{"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"}, host.Path) {
			t.Errorf("all of %s is mounted", host.Path)
		}
	}
	for at, container := range append(spec.Containers, spec.InitContainers...) {
		has := false
		for _, mount := range container.VolumeMounts {
			has = has || tokens[mount.Name]
		}
		if has != (at == 0) {
			t.Errorf("%s has a token: %v", container.Name, has)
		}
	}
}
