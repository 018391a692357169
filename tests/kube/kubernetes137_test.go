//go:build kubernetes137

package kube

import (
	"context"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	lister "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler"
)

const kubeletVersion = "v1.37.2"

func newClaimController(plane *Plane, informers informers.SharedInformerFactory) (*resourceclaim.Controller, error) {
	return resourceclaim.NewController(klog.FromContext(plane.Context), plane,
		informers.Core().V1().Pods(), informers.Scheduling().V1beta1().PodGroups(),
		informers.Resource().V1().ResourceClaims(), informers.Resource().V1().ResourceClaimTemplates())
}

func (none) UpdateAllocatedDevices(klog.Logger)                                          {}
func (none) GetAllocatableDevices(klog.Logger) []*lister.ContainerDevices                { return nil }
func (none) GetCPUs(*core.Pod, *core.Container) []int64                                  { return nil }
func (none) GetPodCPUs(string) []int64                                                   { return nil }
func (none) GetMemory(klog.Logger, *core.Pod, *core.Container) []*lister.ContainerMemory { return nil }
func (none) GetPodMemory(klog.Logger, string) []*lister.ContainerMemory                  { return nil }
func (none) GetAllocatableMemory(klog.Logger) []*lister.ContainerMemory                  { return nil }
func (none) GetDynamicResources(klog.Logger, *core.Pod, *core.Container) []*lister.DynamicResource {
	return nil
}

func schedulersInformers(plane *Plane) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(plane, 0, nil)
}

func fakeTopology() topologymanager.Store { return topologymanager.NewFakeManager(klog.Background()) }

// UpdateAllocatedDevices frees those of pods that have ended.
func (devices *Devices) UpdateAllocatedDevices(logger klog.Logger) {
	devices.lists.Add(1)
	devices.current().UpdateAllocatedDevices(logger)
}

func (devices *Devices) allocate(pod *core.Pod) error {
	return devices.current().Allocate(devices.Context, pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
}

func (devices *Devices) allocatable() core.ResourceList {
	_, allocatable, _ := devices.current().GetCapacity(klog.Background())
	return allocatable
}

func (of podsOf) GetDynamicResources(_ klog.Logger, pod *core.Pod, container *core.Container) []*lister.DynamicResource {
	return of.given(pod, container)
}

// tellHealth writes into a pod's status how its devices are.
func (kubelet *Kubelet) tellHealth(pod *core.Pod, status *core.PodStatus) {
	kubelet.manager.UpdateAllocatedResourcesStatus(klog.Background(), pod, status)
}

// WatchHealthStatus says that it tells of none.
func (*reference) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
