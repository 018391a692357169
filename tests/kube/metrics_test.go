package kube

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	core "k8s.io/api/core/v1"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

// podsOf are the pods that a kubelet knows, and what its manager of devices has given them.
type podsOf struct {
	*Kubelet
	pods []*core.Pod
}

func (of podsOf) GetActivePods() []*core.Pod                 { return of.pods }
func (of podsOf) GetPods() []*core.Pod                       { return of.pods }
func (of podsOf) GetPodByName(_, _ string) (*core.Pod, bool) { return nil, false }

// given is what the kubelet's manager of containers makes of its manager of devices.
func (of podsOf) given(pod *core.Pod, container *core.Container) []*resources.DynamicResource {
	claims, err := of.manager.GetContainerClaimInfos(pod, container)
	if err != nil {
		return nil
	}
	var all []*resources.DynamicResource
	for _, claim := range claims {
		one := &resources.DynamicResource{ClaimName: claim.ClaimName, ClaimNamespace: claim.Namespace}
		for driverName, state := range claim.DriverState {
			for _, device := range state.Devices {
				of := &resources.ClaimResource{DriverName: driverName, PoolName: device.PoolName, DeviceName: device.DeviceName}
				for _, name := range device.CDIDeviceIDs {
					of.CdiDevices = append(of.CdiDevices, &resources.CDIDevice{Name: name})
				}
				one.ClaimResources = append(one.ClaimResources, of)
			}
		}
		all = append(all, one)
	}
	return all
}

// servePods serves the kubelet's list of pods and what they have, by its own server.
func (kubelet *Kubelet) servePods(t *testing.T, socket string, pods ...*core.Pod) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	of := podsOf{kubelet, pods}
	server := grpc.NewServer()
	resources.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(kubelet.Context, podresources.PodResourcesProviders{
		Pods: of, Devices: none{}, Cpus: none{}, Memory: none{}, DynamicResources: of,
	}))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
}

// metricsOfPods: the agent's page names the pod of each tenant, without a word to the API server; the pod's status says how its card is,
// and why that is not known.
func metricsOfPods(t *testing.T, plane *Plane) {
	needs136(t, "words about health in a pod's status")
	namespace := "metrics"
	only := map[string]string{"test": namespace}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	socket := filepath.Join(t.TempDir(), "pods.sock")
	node := plane.simulatedWith(t, "metrics-1", only, nil, "--metrics", address, "--pod-resources", socket)
	plane.namespace(t, namespace)
	placed := plane.onePod(t, namespace, only)
	node.prepare(t, &placed[0])
	id, claim := fmt.Sprint(node.tenants(t)[0]["id"]), plane.claims(t, namespace)[0].Name
	said := func(part string) func() (string, error) {
		return func() (string, error) {
			answer, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				return "", err
			}
			defer answer.Body.Close()
			page, err := io.ReadAll(answer.Body)
			if err != nil || strings.Contains(string(page), part) {
				return "", err
			}
			return string(page), nil
		}
	}
	line := func(pod, container string) string {
		return fmt.Sprintf("divvy_claim_info{tenant=%q,namespace=%q,claim=%q,request=\"gpu\",pod=%q,container=%q,node=\"metrics-1\"} 1\n",
			id, namespace, claim, pod, container)
	}
	until(t, "without the kubelet's list", said(line("", "")))
	until(t, "it says so", said("\ndivvy_agent_pods_known 0\n"))
	node.servePods(t, socket, &placed[0])
	until(t, "the pod's name", said(line("pod", "main")))
	until(t, "the list is known", said("\ndivvy_agent_pods_known 1\n"))
	// The request is known to an agent that did not prepare it.
	node.killAgent()
	node.startAgent(t)
	until(t, "the same from another agent", said(line("pod", "main")))

	health := func(wanted, part string) func() (string, error) {
		return func() (string, error) {
			status := core.PodStatus{ContainerStatuses: []core.ContainerStatus{{Name: "main"}}}
			node.tellHealth(&placed[0], &status)
			for _, resource := range status.ContainerStatuses[0].AllocatedResourcesStatus {
				for _, one := range resource.Resources {
					if resource.Name == "claim:gpu" && string(one.Health) == wanted && strings.Contains(healthWords(one), part) {
						return "", nil
					}
				}
			}
			return fmt.Sprintf("%+v", status.ContainerStatuses[0].AllocatedResourcesStatus), nil
		}
	}
	until(t, "the pod's status", health("Healthy", ""))
	_ = node.daemon.Process.Kill()
	until(t, "the pod's status without a daemon", health("Unknown", "no daemon answers"))
}
