package kube

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joined starts a program in a tenant's directory, which holds a context of a card until it is killed.
func (node *Node) joined(t *testing.T, tenant map[string]any) *exec.Cmd {
	t.Helper()
	_, stage := built(t)
	command := node.divvy()
	command.Path, command.Args = filepath.Join(stage, "clients/hold"), []string{"hold"}
	command.Env = append(command.Env, "LD_PRELOAD="+filepath.Join(stage, "lib/libdivvy.so"), fmt.Sprintf("DIVVY_TENANT=%v", tenant["directory"]))
	// It ends when nobody writes to it any more.
	if _, err := command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	it := program(t, "hold", command)
	until(t, "the program holds memory", func() (string, error) {
		for _, one := range node.tenants(t) {
			if one["id"] == tenant["id"] && !strings.Contains(fmt.Sprint(one["devices"]), "held_bytes:0 ") {
				return "", nil
			}
		}
		return fmt.Sprint(node.tenants(t)), nil
	})
	return it
}

// givenTwice: a pod that is deleted by force runs on, while the scheduler gives its part of the card to another. That one is prepared
// when the first has ended, and not before, though the kubelet never takes the first one's claim back.
func givenTwice(t *testing.T, plane *Plane) {
	namespace := "twice"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "twice-1", only)
	plane.namespace(t, namespace)
	plane.template(t, namespace, "most", "1Gi", "60")
	plane.run(t, pod(namespace, "first", "most", only))
	first := plane.placed(t, namespace, 1)[0]
	node.prepare(t, &first)
	running := node.joined(t, node.tenants(t)[0])

	now := int64(0)
	if err := plane.CoreV1().Pods(namespace).Delete(plane.Context, "first", meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	plane.run(t, pod(namespace, "second", "most", only))
	second := plane.placed(t, namespace, 1)[0]
	for range 3 {
		err := node.manager.PrepareResources(node.Context, &second)
		if err == nil || !strings.Contains(err.Error(), "card-full") || !strings.Contains(err.Error(), "cores 40") {
			t.Fatalf("while the first runs: %v", err)
		}
	}
	if tenants := node.tenants(t); len(tenants) != 1 {
		t.Errorf("tenants: %v", tenants)
	}
	_ = running.Process.Kill()
	_ = running.Wait()
	node.prepare(t, &second)
	node.counted(t, 1)
	node.unprepare(t, &second)
	node.counted(t, 0)
}

// soldBeyond: a node that sells more memory than its card has fills it further, by shares that may all leave it; none is larger.
func soldBeyond(t *testing.T, plane *Plane) {
	namespace := "beyond"
	only := map[string]string{"test": namespace}
	node := plane.simulatedWith(t, "beyond-1", only, []string{"SIMGPU_MEMORY=64GiB"}, "--memory-percent", "150")
	plane.namespace(t, namespace)
	found := check[[]dra.ResourceSlice](t)(plane.slicesOf("beyond-1"))
	memory := found[0].Spec.Devices[0].Capacity["memory"]
	if want := resource.MustParse("96Gi"); memory.Value.Cmp(want) != 0 {
		t.Errorf("published: %v", memory.Value)
	}
	plane.template(t, namespace, "half", "32Gi", "20")
	plane.template(t, namespace, "larger", "65Gi", "20")
	plane.run(t, pod(namespace, "larger", "larger", only))
	run := func(number int) { plane.run(t, pod(namespace, fmt.Sprintf("pod-%d", number), "half", only)) }
	plane.inTurn(t, namespace, 3, run)
	run(3)
	until(t, "three placed, two refused", func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		if len(placed) != 3 || len(waiting) != 2 || waiting["larger"] == "" {
			return fmt.Sprintf("%d placed, waiting %v", len(placed), waiting), nil
		}
		return "", nil
	})
	placed, _ := plane.pods(t, namespace)
	each(3, func(number int) { node.prepareBeside(t, &placed[number]) })
	for _, tenant := range node.tenants(t) {
		if tenant["oversubscribe"] != true {
			t.Errorf("stays on its card: %v", tenant)
		}
	}
	node.counted(t, 3)
	// An agent that sells what there is has no more to sell, and takes nothing from pods that run.
	node.killAgent()
	command := node.newAgent
	node.newAgent = func() *exec.Cmd {
		agent := command()
		agent.Args = append(agent.Args[:len(agent.Args)-2], "--memory-percent", "100")
		return agent
	}
	node.startAgent(t)
	until(t, "64 GiB are published", func() (string, error) {
		found, err := plane.slicesOf("beyond-1")
		if err != nil || len(found) != 1 {
			return fmt.Sprintf("%d slices", len(found)), err
		}
		memory := found[0].Spec.Devices[0].Capacity["memory"]
		if want := resource.MustParse("64Gi"); memory.Value.Cmp(want) != 0 {
			return memory.Value.String(), nil
		}
		return "", nil
	})
	// A kubelet that starts asks again for what is there, which stays as it was made.
	node.start(t)
	node.prepare(t, &placed[2])
	node.counted(t, 3)
	for _, tenant := range node.tenants(t) {
		if tenant["oversubscribe"] != true {
			t.Errorf("was changed while it runs: %v", tenant)
		}
	}
	each(3, func(number int) { node.unprepare(t, &placed[number]) })
	node.counted(t, 0)
}
