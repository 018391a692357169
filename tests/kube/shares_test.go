package kube

import (
	"fmt"
	"testing"

	dra "k8s.io/api/resource/v1"
)

// sharesOfACard: three pods of 8 GiB and 30 % fit on a card, a fourth waits for cores though there is memory for it.
func sharesOfACard(t *testing.T, plane *Plane) {
	namespace := plane.namespace(t, "shares")
	only := map[string]string{"test": namespace}
	plane.node(t, "shares-1", only)
	plane.slice(t, "shares-1", card("gpu-0", "GPU-shares-0", "80Gi", 16))
	plane.template(t, namespace, "gpu-8192mi-30c", "8Gi", "30")
	run := func(number int) { plane.run(t, pod(namespace, fmt.Sprintf("pod-%d", number), "gpu-8192mi-30c", only)) }
	plane.inTurn(t, namespace, 3, run)
	run(3)
	until(t, "three placed, one refused", func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		for _, words := range waiting {
			if len(placed) == 3 && len(waiting) == 1 && words != "" {
				t.Logf("the fourth waits: %s", words)
				return "", nil
			}
		}
		return fmt.Sprintf("%d placed, waiting %v", len(placed), waiting), nil
	})
	ids := map[string]bool{}
	for _, claim := range plane.claims(t, namespace) {
		if claim.Status.Allocation == nil {
			continue
		}
		results := claim.Status.Allocation.Devices.Results
		if len(results) != 1 || results[0].Pool != "shares-1" || results[0].Device != "gpu-0" || results[0].Driver != driver {
			t.Fatalf("%s: %v", claim.Name, results)
		}
		if results[0].ShareID == nil || ids[string(*results[0].ShareID)] {
			t.Errorf("%s: share %v is none, or another's", claim.Name, results[0].ShareID)
		} else {
			ids[string(*results[0].ShareID)] = true
		}
		for name, want := range map[string]int64{"memory": 8 << 30, "cores": 30, "slots": 1} {
			consumed := results[0].ConsumedCapacity[dra.QualifiedName(name)]
			if consumed.Value() != want {
				t.Errorf("%s: %s is %v, not %d", claim.Name, name, consumed, want)
			}
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d shares, not 3", len(ids))
	}
}
