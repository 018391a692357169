// Package helm tests the chart by Helm's own code, against what the kustomization makes.
package helm

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Folders of the chart and of the kustomization.
const (
	chart  = "../../deploy/helm/divvy"
	base   = "../../deploy/kubernetes"
	plugin = "../../deploy/kubernetes-plugin"
	// withMetrics is the base with metrics beside it.
	withMetrics = "../../deploy/kubernetes-metrics"
	// withGates is the base without the policy for HAMi's pods.
	withGates = "../../deploy/kubernetes-1.35"
	// newest is the version of the cluster, where nothing else is said.
	newest = "v1.37.2"
)

// whole are the versions that have all that the base needs: the one that the tests of Kubernetes run with, and the newest they know.
var whole = []string{"v1.36.3", newest}

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

// charted are the objects that Helm would send to a cluster of today, by kind and name.
func charted(t *testing.T, values map[string]any) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	return chartedFor(t, newest, values)
}

// chartedFor is the same for a cluster of another version.
func chartedFor(t *testing.T, version string, values map[string]any) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	kube, err := common.ParseKubeVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	cluster := *common.DefaultCapabilities
	cluster.KubeVersion = *kube
	loaded, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "divvy", Namespace: "divvy-system", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, release, &cluster)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]*unstructured.Unstructured{}
	for name, text := range texts {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if len(object.Object) > 0 {
				objects[object.GetKind()+" "+object.GetName()] = object
			}
		}
	}
	return objects, nil
}

// written is an object as JSON, its keys in their order.
func written(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestChartIsSound: Helm's own linter has nothing to say.
func TestChartIsSound(t *testing.T) {
	for _, of := range whole {
		version, err := common.ParseKubeVersion(of)
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range lint.RunAll(chart, nil, "divvy-system", lint.WithKubeVersion(version)).Messages {
			if !strings.Contains(message.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %s: %v", of, message.Path, message.Err)
			}
		}
	}
}

// TestChartIsTheBase: with its default values the chart makes the objects of the kustomization, and those of the ones with metrics, without
// the policy for HAMi's pods or with the plugin where they are asked for. The namespace alone it leaves to who installs it.
func TestChartIsTheBase(t *testing.T) {
	for _, version := range whole {
		same(t, base, version, nil)
		same(t, withMetrics, version, map[string]any{"metrics": true})
		same(t, withGates, version, map[string]any{"hami": false})
	}
	for _, version := range []string{"v1.35.0", "v1.35.4+k3s1"} {
		same(t, withGates, version, map[string]any{"allowGates": true, "hami": false})
	}
	same(t, plugin, "v1.28.4", map[string]any{"plugin": map[string]any{"enabled": true}})
}

// same compares the chart's objects with those of a kustomization.
func same(t *testing.T, folder, version string, values map[string]any) {
	t.Helper()
	made, err := chartedFor(t, version, values)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range rendered(t, folder) {
		name := want.GetKind() + " " + want.GetName()
		if want.GetKind() == "Namespace" {
			// Helm makes it by --create-namespace.
			continue
		}
		object, found := made[name]
		if !found {
			t.Errorf("%s is not in the chart", name)
			continue
		}
		delete(made, name)
		// As text: numbers of the two readers are of different types.
		if of, in := written(t, object), written(t, want); of != in {
			t.Errorf("%s:\n%s\nin the chart, and in the base\n%s", name, of, in)
		}
	}
	for name := range made {
		t.Errorf("%s is not in the base", name)
	}
}

// TestPluginTakesTheAgentsPlace: sizes reach it, a bad one is refused, and a cluster that has no shared devices needs it.
func TestPluginTakesTheAgentsPlace(t *testing.T) {
	of := func(sizes ...any) map[string]any {
		return map[string]any{"plugin": map[string]any{"enabled": true, "sizes": sizes}, "runtimeClassName": "nvidia"}
	}
	made, err := charted(t, of("8g-30c", "40g-50c"))
	if err != nil {
		t.Fatal(err)
	}
	set := fmt.Sprint(made["DaemonSet divvy-plugin"].Object)
	for _, part := range []string{"--size=8g-30c --size=40g-50c", "runtimeClassName:nvidia"} {
		if !strings.Contains(set, part) {
			t.Errorf("no %s in %s", part, set)
		}
	}
	if made["DaemonSet divvy-agent"] != nil {
		t.Error("the agent is there beside the plugin")
	}
	for _, size := range []any{"8g", "0g-30c", "8g-30c ", 8} {
		if _, err := charted(t, of(size)); err == nil {
			t.Errorf("the size %v was taken", size)
		}
	}
	with := of()
	with["metrics"] = true
	if _, err := charted(t, with); err == nil || !strings.Contains(err.Error(), "serves none") {
		t.Errorf("metrics of the plugin: %v", err)
	}
}

// TestOldClustersAreToldTheWay: what a version lacks is refused, and each way out is named.
func TestOldClustersAreToldTheWay(t *testing.T) {
	gates := map[string]any{"allowGates": true}
	for _, one := range []struct {
		version string
		values  map[string]any
		words   []string
	}{
		{"v1.33.5", nil, []string{"plugin.enabled=true"}},
		{"v1.33.5", gates, []string{"plugin.enabled=true"}},
		{"v1.34.2", gates, []string{"plugin.enabled=true"}},
		{"v1.35.2", nil, []string{"plugin.enabled=true", "allowGates=true", "hami=false", "DRAConsumableCapacity"}},
		{"v1.35.0-gke.100", nil, []string{"allowGates=true"}},
		{"v1.35.0", gates, []string{"hami=false"}},
	} {
		_, err := chartedFor(t, one.version, one.values)
		for _, word := range one.words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s, %v: %v, and no %s", one.version, one.values, err, word)
			}
		}
	}
}

// TestPodsAreSetUp: arguments are appended, the kubelet's directory is moved everywhere, and pods have the secrets and tolerations that
// are named.
func TestPodsAreSetUp(t *testing.T) {
	secrets, taints := []any{map[string]any{"name": "registry"}}, []any{map[string]any{"key": "team", "operator": "Exists"}}
	for _, one := range []struct {
		name   string
		values map[string]any
		parts  []string
	}{
		{
			"DaemonSet divvy-agent", map[string]any{"agent": map[string]any{"args": []any{"--memory-percent=150"}}, "metrics": true},
			[]string{
				"args:[--kubelet-root=/data/kubelet --pod-resources=/data/kubelet/pod-resources/kubelet.sock --memory-percent=150]",
				"agent --ready --kubelet-root=/data/kubelet --memory-percent=150]", "agent --alive --kubelet-root=/data/kubelet --memory-percent=150]",
				"path:/data/kubelet/plugins_registry", "mountPath:/data/kubelet/plugins/gpu.divvy.dev ",
				"path:/data/kubelet/pod-resources", "tolerations:[map[key:team operator:Exists]]",
			},
		},
		{
			"DaemonSet divvy-plugin",
			map[string]any{"plugin": map[string]any{"enabled": true, "sizes": []any{"8g-30c"}, "args": []any{"--give-by=mounts"}}},
			[]string{
				"args:[--kubelet-root=/data/kubelet --size=8g-30c --give-by=mounts]", "plugin --ready --give-by=mounts]",
				"plugin --alive --give-by=mounts]", "path:/data/kubelet/device-plugins",
				"mountPath:/data/kubelet/pod-resources", "tolerations:[map[key:team operator:Exists]]",
			},
		},
		{
			"Deployment divvy-controller", map[string]any{"controller": map[string]any{"args": []any{"--json"}}},
			[]string{"args:[--json]"},
		},
	} {
		one.values["kubeletRoot"], one.values["imagePullSecrets"], one.values["tolerations"] = "/data/kubelet", secrets, taints
		made, err := charted(t, one.values)
		if err != nil {
			t.Fatal(err)
		}
		set := fmt.Sprint(made[one.name].Object)
		for _, part := range append(one.parts, "imagePullSecrets:[map[name:registry]]") {
			if !strings.Contains(set, part) {
				t.Errorf("no %s in %s", part, set)
			}
		}
		if strings.Contains(set, "/var/lib/kubelet") {
			t.Errorf("the usual directory is in %s", set)
		}
	}
	for _, bad := range []map[string]any{
		{"kubeletRoot": "var/lib/kubelet"}, {"kubeletRoot": "/data/kubelet/"},
		{"agent": map[string]any{"args": []any{"slots=8"}}}, {"imagePullSecrets": []any{"registry"}},
	} {
		if _, err := charted(t, bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	// Helm merges maps: a label goes by null.
	made, err := charted(t, map[string]any{"nodeSelector": map[string]any{"nvidia.com/gpu.present": nil, "gpu": "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	if set := fmt.Sprint(made["DaemonSet divvy-agent"].Object); !strings.Contains(set, "nodeSelector:map[gpu:yes]") {
		t.Errorf("the selector's label stays: %s", set)
	}
}

// TestValuesAreHeard: each value does what it says, and one that there is not is refused.
func TestValuesAreHeard(t *testing.T) {
	made, err := charted(t, map[string]any{
		"hami": false, "strictClass": false, "runtimeClassName": "nvidia", "seLinuxType": "spc_t",
		"image":        map[string]any{"divvy": "mirror/divvy:1", "base": "mirror/base:1", "pullPolicy": "Always"},
		"nodeSelector": map[string]any{"gpu": "yes"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"MutatingAdmissionPolicy divvy-hami", "DeviceClass strict.gpu.divvy.dev"} {
		if made[name] != nil {
			t.Errorf("%s is there", name)
		}
	}
	set := fmt.Sprint(made["DaemonSet divvy-agent"].Object)
	for _, part := range []string{"runtimeClassName:nvidia", "seLinuxOptions:map[type:spc_t]", "image:mirror/divvy:1", "image:mirror/base:1", "imagePullPolicy:Always", "gpu:yes"} {
		if !strings.Contains(set, part) {
			t.Errorf("no %s in %s", part, set)
		}
	}
	name := "ClusterRole divvy-controller-preempt"
	for _, one := range []struct {
		controller map[string]any
		has, may   bool
	}{
		{map[string]any{}, true, false},
		{map[string]any{"preempt": true}, true, true},
		{map[string]any{"enabled": false, "preempt": true}, false, false},
	} {
		made, err := charted(t, map[string]any{"controller": one.controller})
		if err != nil {
			t.Fatal(err)
		}
		set := made["Deployment divvy-controller"]
		if (set != nil) != one.has || (made[name] != nil) != one.may {
			t.Errorf("%v: a controller %v, its right to evict %v", one.controller, set != nil, made[name] != nil)
		}
		if set != nil && strings.Contains(fmt.Sprint(set.Object), "--preempt") != one.may {
			t.Errorf("%v: %v", one.controller, set.Object)
		}
	}
	if _, err := charted(t, map[string]any{"hamy": true}); err == nil {
		t.Error("a value that there is not was taken")
	}
}
