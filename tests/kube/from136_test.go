//go:build !kubernetes135

package kube

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	manager "k8s.io/kubernetes/pkg/kubelet/cm/dra"
)

// What Kubernetes has from 1.36 on; kubernetes135_test.go says what it was before.

// base is the folder of what is deployed.
const base = "../../deploy/kubernetes"

// gates are flags of the API server, which hold for all parts in this process.
var gates []string

// needs136 skips what Kubernetes has from 1.36 on alone.
func needs136(*testing.T, string) {}

func nodeOf(_ context.Context, get func(context.Context) (*core.Node, error)) manager.GetNodeFunc {
	return get
}

func healthWords(health core.ResourceHealth) string {
	if health.Message == nil {
		return ""
	}
	return *health.Message
}
