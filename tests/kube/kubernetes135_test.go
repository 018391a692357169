//go:build kubernetes135

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

const (
	kubeletVersion = "v1.35.4"
	base           = "../../deploy/kubernetes-1.35"
)

var gates = []string{"--feature-gates=DRAConsumableCapacity=true,ResourceHealthStatus=true"}

func needs136(t *testing.T, what string) {
	t.Helper()
	t.Skipf("Kubernetes 1.35 has no %s", what)
}

func newClaimController(plane *Plane, informers informers.SharedInformerFactory) (*resourceclaim.Controller, error) {
	features := resourceclaim.Features{AdminAccess: true, PrioritizedList: true}
	return resourceclaim.NewController(klog.FromContext(plane.Context), features, plane,
		informers.Core().V1().Pods(), informers.Resource().V1().ResourceClaims(), informers.Resource().V1().ResourceClaimTemplates())
}

func nodeOf(ctx context.Context, get func(context.Context) (*core.Node, error)) manager.GetNodeFunc {
	return func() (*core.Node, error) { return get(ctx) }
}

// healthWords are none: a pod's status has no place for them.
func healthWords(core.ResourceHealth) string { return "" }
