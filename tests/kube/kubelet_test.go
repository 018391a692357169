package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	manager "k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

// Kubelet is what of a kubelet deals with claims: its own watcher of plugins and its own manager of devices. It starts no containers.
type Kubelet struct {
	*Plane
	Node    string
	Root    string
	manager *manager.Manager
	stop    context.CancelFunc
	// Refused counts what was tried again.
	Refused atomic.Int64
}

// kubelet starts one, with a directory of its own, for a node that is there.
func (plane *Plane) kubelet(t *testing.T, node string) *Kubelet {
	t.Helper()
	root := shortDir(t)
	for _, folder := range []string{"plugins", "plugins_registry"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	it := &Kubelet{Plane: plane, Node: node, Root: root}
	// At its start it deletes its node's slices, so that whoever publishes must do it again.
	probe := plane.slice(t, node, card("gpu-9", "GPU-"+node, "1Gi", 1))
	it.start(t)
	until(t, "the kubelet deletes its node's slices", func() (string, error) {
		found, err := plane.slicesOf(node)
		if err == nil && len(found) > 0 {
			return probe.Name + " is there", nil
		}
		return "", err
	})
	return it
}

// shortDir is a directory of the test's own for sockets: their paths have 107 bytes at most, which [testing.T.TempDir] may use up.
func shortDir(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	return root
}

// start begins in the directory as it is: again, where another has been there.
func (kubelet *Kubelet) start(t *testing.T) {
	t.Helper()
	if kubelet.stop != nil {
		kubelet.stop()
	}
	ctx, cancel := context.WithCancel(kubelet.Context)
	t.Cleanup(cancel)
	kubelet.stop = cancel
	var err error
	if kubelet.manager, err = manager.NewManager(klog.Background(), kubelet, kubelet.Root); err != nil {
		t.Fatal(err)
	}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	own := func(ctx context.Context) (*core.Node, error) {
		return kubelet.CoreV1().Nodes().Get(ctx, kubelet.Node, meta.GetOptions{})
	}
	active := func() []*core.Pod {
		of := meta.ListOptions{FieldSelector: "spec.nodeName=" + kubelet.Node}
		list, err := kubelet.CoreV1().Pods("").List(ctx, of)
		if err != nil {
			return nil
		}
		var pods []*core.Pod
		for at := range list.Items {
			pods = append(pods, &list.Items[at])
		}
		return pods
	}
	if err := kubelet.manager.Start(ctx, active, nodeOf(ctx, own), ready); err != nil {
		t.Fatal(err)
	}
	plugins := pluginmanager.NewPluginManager(filepath.Join(kubelet.Root, "plugins_registry"), record.NewFakeRecorder(100))
	plugins.AddHandler(registration.DRAPlugin, kubelet.manager.GetWatcherHandler())
	go plugins.Run(ctx, ready, ctx.Done())
}

// slicesOf are those of a node.
func (plane *Plane) slicesOf(node string) ([]dra.ResourceSlice, error) {
	of := meta.ListOptions{FieldSelector: dra.ResourceSliceSelectorNodeName + "=" + node}
	list, err := plane.ResourceV1().ResourceSlices().List(plane.Context, of)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// prepare has a placed pod's claims prepared, as often as that takes, and says which CDI devices its container gets.
func (kubelet *Kubelet) prepare(t *testing.T, pod *core.Pod) []string {
	t.Helper()
	until(t, "prepared: "+pod.Name, func() (string, error) {
		err := kubelet.manager.PrepareResources(kubelet.Context, pod)
		if err != nil {
			kubelet.Refused.Add(1)
		}
		return "", err
	})
	info, err := kubelet.manager.GetResources(pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	var devices []string
	for _, device := range info.CDIDevices {
		devices = append(devices, device.Name)
	}
	return devices
}

// unprepare gives back what a pod's claims have.
func (kubelet *Kubelet) unprepare(t *testing.T, pod *core.Pod) {
	t.Helper()
	until(t, "unprepared: "+pod.Name, func() (string, error) {
		return "", kubelet.manager.UnprepareResources(kubelet.Context, pod)
	})
}

// placed waits until a node's kubelet would begin with this many pods of the namespace.
func (plane *Plane) placed(t *testing.T, namespace string, count int) []core.Pod {
	t.Helper()
	var pods []core.Pod
	until(t, fmt.Sprintf("%d placed", count), func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		if pods = placed; len(placed) == count {
			return "", nil
		}
		return fmt.Sprintf("%d placed, waiting %v", len(placed), waiting), nil
	})
	return pods
}

// inTurn runs pods, each when those before it are placed. The scheduler counts a claim that it is just allocating twice for an instant; a
// pod that would fill a card and comes in it is tried again after five minutes alone, where nothing else happens.
func (plane *Plane) inTurn(t *testing.T, namespace string, count int, run func(number int)) []core.Pod {
	t.Helper()
	var placed []core.Pod
	for number := range count {
		run(number)
		placed = plane.placed(t, namespace, number+1)
	}
	return placed
}

// onePod runs one with a share of 8 GiB and 30 %, and waits until it is placed.
func (plane *Plane) onePod(t *testing.T, namespace string, only map[string]string) []core.Pod {
	t.Helper()
	plane.template(t, namespace, "gpu-8192mi-30c", "8Gi", "30")
	plane.run(t, pod(namespace, "pod", "gpu-8192mi-30c", only))
	return plane.placed(t, namespace, 1)
}

// reference is a driver by Kubernetes' own helper for them: it shows what the kubelet asks, with nothing of ours in it.
type reference struct {
	prepared, unprepared atomic.Int64
}

func (it *reference) PrepareResourceClaims(_ context.Context, claims []*dra.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		result := kubeletplugin.PrepareResult{}
		for _, share := range claim.Status.Allocation.Devices.Results {
			result.Devices = append(result.Devices, kubeletplugin.Device{
				Requests: []string{share.Request}, PoolName: share.Pool, DeviceName: share.Device, ShareID: share.ShareID,
				CDIDeviceIDs: []string{"divvy.dev/share=" + string(*share.ShareID)},
			})
		}
		results[claim.UID] = result
		it.prepared.Add(1)
	}
	return results, nil
}

func (it *reference) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = nil
		it.unprepared.Add(1)
	}
	return results, nil
}

func (it *reference) HandleError(_ context.Context, err error, words string) {
	klog.Background().Error(err, words)
}

// aReferenceDriver: the kubelet's parts find a plugin's sockets, have a pod's claim prepared once, and give it back.
func aReferenceDriver(t *testing.T, plane *Plane) {
	namespace := plane.namespace(t, "reference")
	only := map[string]string{"test": namespace}
	node := plane.node(t, "reference-1", only)
	kubelet := plane.kubelet(t, node.Name)
	driverOf := &reference{}
	data := filepath.Join(kubelet.Root, "plugins", driver)
	if err := os.MkdirAll(data, 0o750); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(plane.Context)
	defer cancel()
	helper, err := kubeletplugin.Start(ctx, driverOf,
		kubeletplugin.DriverName(driver), kubeletplugin.KubeClient(plane), kubeletplugin.NodeName(node.Name),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(kubelet.Root, "plugins_registry")))
	if err != nil {
		t.Fatal(err)
	}
	defer helper.Stop()
	cards := resourceslice.Slice{Devices: []dra.Device{card("gpu-0", "GPU-reference-0", "80Gi", 16)}}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{cards}}
	resources := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node.Name: pool}}
	if err := helper.PublishResources(ctx, resources); err != nil {
		t.Fatal(err)
	}
	placed := plane.onePod(t, namespace, only)
	devices := kubelet.prepare(t, &placed[0])
	if len(devices) != 1 || !strings.HasPrefix(devices[0], "divvy.dev/share=") {
		t.Errorf("CDI devices: %v", devices)
	}
	kubelet.prepare(t, &placed[0])
	if prepared := driverOf.prepared.Load(); prepared != 1 {
		t.Errorf("prepared %d times, not once", prepared)
	}
	kubelet.unprepare(t, &placed[0])
	if unprepared := driverOf.unprepared.Load(); unprepared != 1 {
		t.Errorf("given back %d times, not once", unprepared)
	}
	if devices := kubelet.prepare(t, &placed[0]); len(devices) != 1 {
		t.Errorf("CDI devices after that: %v", devices)
	}
}
