//go:build !kubernetes135

package kube

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	manager "k8s.io/kubernetes/pkg/kubelet/cm/dra"
)

// What differs between the versions of Kubernetes that these tests are built with: here the newest, in oldest_test.go the oldest of
// which the scheduler counts shared devices right.
const (
	kubeletVersion = "v1.36.3"
	// base is the folder of what is deployed.
	base = "../../deploy/kubernetes"
)

// gates are flags of the API server, which hold for all parts in this process.
var gates []string

// needsNewest skips what the oldest version has not.
func needsNewest(*testing.T, string) {}

func newClaimController(plane *Plane, informers informers.SharedInformerFactory) (*resourceclaim.Controller, error) {
	features := resourceclaim.Features{AdminAccess: true, PrioritizedList: true}
	return resourceclaim.NewController(klog.FromContext(plane.Context), features, plane,
		informers.Core().V1().Pods(), informers.Scheduling().V1alpha2().PodGroups(),
		informers.Resource().V1().ResourceClaims(), informers.Resource().V1().ResourceClaimTemplates())
}

func nodeOf(_ context.Context, get func(context.Context) (*core.Node, error)) manager.GetNodeFunc {
	return get
}

func healthWords(health core.ResourceHealth) string {
	if health.Message == nil {
		return ""
	}
	return *health.Message
}
