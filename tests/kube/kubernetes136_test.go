//go:build !kubernetes135 && !kubernetes137

package kube

import (
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
)

// What differs between the versions of Kubernetes that these tests are built with. Here is the one that they are built with where no
// tag says another; kubernetes135_test.go has the oldest, of which the scheduler counts shared devices right, and kubernetes137_test.go
// the newest.
const kubeletVersion = "v1.36.3"

func newClaimController(plane *Plane, informers informers.SharedInformerFactory) (*resourceclaim.Controller, error) {
	features := resourceclaim.Features{AdminAccess: true, PrioritizedList: true}
	return resourceclaim.NewController(klog.FromContext(plane.Context), features, plane,
		informers.Core().V1().Pods(), informers.Scheduling().V1alpha2().PodGroups(),
		informers.Resource().V1().ResourceClaims(), informers.Resource().V1().ResourceClaimTemplates())
}
