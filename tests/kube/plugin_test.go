package kube

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for the manager's constructor, which has a folder of its own alone where it is not exported

	"google.golang.org/grpc"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	lister "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

// noNode stands for cAdvisor's node, whose module has another name from Kubernetes 1.37 on: nil is all that is passed.
type noNode struct{}

// newDeviceManager is the kubelet's own, whose exported form has /var/lib/kubelet alone.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(klog.Logger, string, []noNode, topologymanager.Store) (*devicemanager.ManagerImpl, error)

// Devices is what of a kubelet deals with device plugins: its own manager of devices, and its list of what pods have.
type Devices struct {
	*Node
	none
	manager *devicemanager.ManagerImpl
	mutex   sync.Mutex
	pods    map[types.UID]*core.Pod
	plugin  *exec.Cmd
	// lists is how often the plugin has asked what pods have.
	lists atomic.Int64
	// begin is the command of a plugin.
	begin func() *exec.Cmd
}

// sold starts a node whose card our plugin sells by sizes, or skips the test where the programs are not built.
func (plane *Plane) sold(t *testing.T, name string, sizes ...string) *Devices {
	t.Helper()
	program, stage := built(t)
	plane.node(t, name, nil)
	kubelet := &Kubelet{Plane: plane, Node: name, Root: shortDir(t)}
	// The plugin's own pod: a list without any is one of a kubelet that has not been told of its pods.
	own := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "divvy-system", Name: "divvy-plugin", UID: "uid-divvy-plugin"}}
	devices := &Devices{Node: withDaemon(t, kubelet, stage), pods: map[types.UID]*core.Pod{own.UID: own}}
	devices.startManager(t)
	devices.serveList(t)
	arguments := []string{
		"plugin", "--node-name", name, "--kubelet-root", devices.Root, "--cdi", devices.CDI, "--state", filepath.Join(devices.Root, "state"),
		"--daemon", filepath.Join(devices.Home, "daemon.sock"), "--library", filepath.Join(stage, "lib/libdivvy.so"), "--slots", "64",
	}
	for _, size := range sizes {
		arguments = append(arguments, "--size", size)
	}
	config := kubeconfig(t, plane.configOf(t, pluginAccount, name))
	devices.begin = func() *exec.Cmd {
		command := exec.Command(program, arguments...)
		command.Env = append(os.Environ(), "KUBECONFIG="+config)
		return command
	}
	devices.startPlugin(t)
	return devices
}

// startManager begins with the kubelet's checkpoint as it is: again, where another has been there.
func (devices *Devices) startManager(t *testing.T) {
	t.Helper()
	if devices.manager != nil {
		if err := devices.manager.Stop(klog.Background()); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(devices.Root, "device-plugins")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	manager, err := newDeviceManager(klog.Background(), filepath.Join(folder, "kubelet.sock"), nil, fakeTopology())
	if err != nil {
		t.Fatal(err)
	}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	if err := manager.Start(klog.Background(), devices.GetActivePods, ready, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		t.Fatal(err)
	}
	devices.mutex.Lock()
	devices.manager = manager
	devices.mutex.Unlock()
	t.Cleanup(func() { _ = manager.Stop(klog.Background()) })
}

// startPlugin begins, again where another has been there.
func (devices *Devices) startPlugin(t *testing.T) {
	t.Helper()
	devices.plugin = program(t, "plugin", devices.begin())
}

// killPlugin ends it in the middle of whatever it does.
func (devices *Devices) killPlugin() {
	_ = devices.plugin.Process.Kill()
	_ = devices.plugin.Wait()
}

// serveList has the kubelet's own list of what pods have.
func (devices *Devices) serveList(t *testing.T) {
	t.Helper()
	path := filepath.Join(devices.Root, "pod-resources/kubelet.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	// A kubelet that has been there for long: one that begins is not believed that pods are gone.
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	providers := podresources.PodResourcesProviders{
		Pods: devices, Devices: devices, Cpus: none{}, Memory: none{}, DynamicResources: none{},
	}
	lister.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(devices.Context, providers))
	go func() { _ = server.Serve(socket) }()
	t.Cleanup(server.Stop)
}

// GetActivePods are those that were admitted and have not ended.
func (devices *Devices) GetActivePods() []*core.Pod {
	devices.mutex.Lock()
	defer devices.mutex.Unlock()
	var pods []*core.Pod
	for _, pod := range devices.pods {
		pods = append(pods, pod)
	}
	return pods
}

// GetPods is the same for older lists.
func (devices *Devices) GetPods() []*core.Pod { return devices.GetActivePods() }

// GetPodByName finds one.
func (devices *Devices) GetPodByName(namespace, name string) (*core.Pod, bool) {
	for _, pod := range devices.GetActivePods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

// listed waits until the plugin has asked for what pods have at this moment.
func (devices *Devices) listed(t *testing.T) {
	t.Helper()
	before := devices.lists.Load()
	until(t, "the plugin asks what pods have", func() (string, error) {
		if devices.lists.Load() < before+2 {
			return "not yet", nil
		}
		return "", nil
	})
}

func (devices *Devices) current() *devicemanager.ManagerImpl {
	devices.mutex.Lock()
	defer devices.mutex.Unlock()
	return devices.manager
}

// GetDevices are a container's, as the kubelet's container manager lists them.
func (devices *Devices) GetDevices(pod, container string) []*lister.ContainerDevices {
	var all []*lister.ContainerDevices
	for name, instances := range devices.current().GetDevices(pod, container) {
		for id := range instances {
			all = append(all, &lister.ContainerDevices{ResourceName: name, DeviceIds: []string{id}})
		}
	}
	return all
}

// none has no devices of plugins, no processors, no memory and no claims. Those of its methods that Kubernetes 1.37 changed stand with
// what else it changed.
type none struct{}

func (none) GetDevices(string, string) []*lister.ContainerDevices { return nil }
func (none) GetAllocatableCPUs() []int64                          { return nil }

// admit has a pod's only container given so many devices of a size, as the kubelet does when it admits a pod.
func (devices *Devices) admit(name, size string, count int64) error {
	amount := core.ResourceList{core.ResourceName("divvy.dev/gpu-" + size): *resource.NewQuantity(count, resource.DecimalSI)}
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: "sizes", Name: name, UID: types.UID("uid-" + name)},
		Spec: core.PodSpec{Containers: []core.Container{{
			Name: "main", Resources: core.ResourceRequirements{Limits: amount, Requests: amount},
		}}},
	}
	devices.mutex.Lock()
	devices.pods[pod.UID] = pod
	devices.mutex.Unlock()
	err := devices.allocate(pod)
	if err != nil {
		devices.end(name)
	}
	return err
}

// end has a pod end.
func (devices *Devices) end(name string) {
	devices.mutex.Lock()
	defer devices.mutex.Unlock()
	delete(devices.pods, types.UID("uid-"+name))
}

// offered waits until the kubelet would tell the scheduler of so many devices of a size.
func (devices *Devices) offered(t *testing.T, size string, count int64) {
	t.Helper()
	until(t, fmt.Sprintf("%d of %s are offered", count, size), func() (string, error) {
		amount, found := devices.allocatable()[core.ResourceName("divvy.dev/gpu-"+size)]
		if !found || amount.Value() != count {
			return fmt.Sprintf("%v: %d", found, amount.Value()), nil
		}
		return "", nil
	})
}

// within asserts that tenants have no more of the card than there is, and how many they are.
func (devices *Devices) within(t *testing.T, count int) {
	t.Helper()
	tenants := devices.tenants(t)
	var bytes, share float64
	for _, tenant := range tenants {
		for _, one := range tenant["devices"].([]any) {
			card := one.(map[string]any)
			bytes += card["limit_bytes"].(float64)
			if ppm, capped := card["share_ppm"].(float64); capped {
				share += ppm
			} else {
				share += 1e6
			}
		}
	}
	if len(tenants) != count || share > 1e6 || bytes > 140*(1<<30) {
		t.Errorf("%d tenants, not %d, with %v of the time and %v GiB", len(tenants), count, share/1e6, bytes/(1<<30))
	}
}

// sharesBySizes: pods are admitted by the kubelet's own manager of devices until a card is full and no further, whoever restarts
// meanwhile; what they had comes back when they end.
func sharesBySizes(t *testing.T, plane *Plane) {
	const small, large, count = "1g-2c", "20g-50c", 40
	devices := plane.sold(t, "sizes-1", small, large)
	// Cores are what is short: 50 of 2 %, 2 of 50 %.
	devices.offered(t, small, 50)
	devices.offered(t, large, 2)
	start := time.Now()
	for number := range count {
		if err := devices.admit(fmt.Sprintf("pod-%d", number), small, 1); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(start)
	devices.within(t, count)
	devices.offered(t, large, 0)
	devices.offered(t, small, 50)
	for _, pod := range devices.GetActivePods() {
		if len(pod.Spec.Containers) == 0 {
			continue
		}
		given, err := devices.current().GetDeviceRunContainerOptions(plane.Context, pod, &pod.Spec.Containers[0])
		if err != nil || len(given.CDIDevices) != 2 || !strings.HasPrefix(given.CDIDevices[0].Name, "nvidia.com/gpu=GPU"+simulatedCards) ||
			!strings.HasPrefix(given.CDIDevices[1].Name, "divvy.dev/share=claim.dp-513d9a0b-1g-2c-") {
			t.Errorf("%s: %v %v", pod.Name, given, err)
		}
	}
	if err := devices.admit("large", large, 1); err == nil {
		t.Error("a large share beside forty small ones")
	}

	// A plugin that is killed, and a kubelet that restarts, know what pods have.
	devices.killPlugin()
	devices.offered(t, small, 0)
	if err := devices.admit("none", small, 1); err == nil {
		t.Error("a share without a plugin")
	}
	devices.startPlugin(t)
	devices.offered(t, small, 50)
	devices.offered(t, large, 0)
	devices.startManager(t)
	devices.offered(t, small, 50)
	devices.offered(t, large, 0)
	devices.within(t, count)

	// The rest of the card, and no more.
	admitted := 0
	for number := count; number < 60; number++ {
		if devices.admit(fmt.Sprintf("pod-%d", number), small, 1) == nil {
			admitted++
		}
	}
	if admitted != 10 {
		t.Errorf("%d more small shares, not 10", admitted)
	}
	devices.within(t, 50)

	for number := range 25 {
		devices.end(fmt.Sprintf("pod-%d", number))
	}
	devices.counted(t, 25)
	devices.offered(t, large, 1)
	if err := devices.admit("large", large, 1); err != nil {
		t.Errorf("a large share beside half of the small ones: %v", err)
	}
	devices.within(t, 26)
	devices.offered(t, small, 25)

	// One that ends while no plugin is there.
	devices.killPlugin()
	devices.end("large")
	devices.startPlugin(t)
	devices.offered(t, large, 1)
	// Two devices of a container are one tenant.
	for number := 25; number < 50; number++ {
		devices.end(fmt.Sprintf("pod-%d", number))
	}
	devices.counted(t, 0)
	devices.offered(t, large, 2)
	if err := devices.admit("both", large, 2); err != nil {
		t.Error(err)
	}
	devices.within(t, 1)
	devices.offered(t, small, 0)
	devices.listed(t)
	devices.end("both")
	devices.counted(t, 0)
	devices.offered(t, small, 50)
	report(t, map[string]any{"figure": "forty-pods-by-sizes", "pods": count, "admitted_s": took.Seconds()})
}
