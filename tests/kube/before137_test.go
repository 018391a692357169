//go:build !kubernetes137

package kube

import (
	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	lister "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/scheduler"
)

// What takes neither a logger nor a context before Kubernetes 1.37; kubernetes137_test.go has it as it is since.

func (none) UpdateAllocatedDevices()                                                  {}
func (none) GetAllocatableDevices() []*lister.ContainerDevices                        { return nil }
func (none) GetCPUs(string, string) []int64                                           { return nil }
func (none) GetMemory(string, string) []*lister.ContainerMemory                       { return nil }
func (none) GetAllocatableMemory() []*lister.ContainerMemory                          { return nil }
func (none) GetDynamicResources(*core.Pod, *core.Container) []*lister.DynamicResource { return nil }

func schedulersInformers(plane *Plane) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(plane, 0)
}

func fakeTopology() topologymanager.Store { return topologymanager.NewFakeManager() }

// UpdateAllocatedDevices frees those of pods that have ended.
func (devices *Devices) UpdateAllocatedDevices() {
	devices.lists.Add(1)
	devices.current().UpdateAllocatedDevices()
}

func (devices *Devices) allocate(pod *core.Pod) error {
	return devices.current().Allocate(pod, &pod.Spec.Containers[0])
}

func (devices *Devices) allocatable() core.ResourceList {
	_, allocatable, _ := devices.current().GetCapacity()
	return allocatable
}

func (of podsOf) GetDynamicResources(pod *core.Pod, container *core.Container) []*lister.DynamicResource {
	return of.given(pod, container)
}

// tellHealth writes into a pod's status how its devices are.
func (kubelet *Kubelet) tellHealth(pod *core.Pod, status *core.PodStatus) {
	kubelet.manager.UpdateAllocatedResourcesStatus(pod, status)
}
