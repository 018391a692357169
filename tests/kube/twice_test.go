package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
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

	plane.deleteByForce(t, namespace, "first")
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

// stoppedAgent: an agent that is stopped in a call, with another in its place meanwhile, undoes nothing of what that has done when it goes
// on. Its claim was given back since, allocated again and prepared for another pod, whose program holds memory.
func stoppedAgent(t *testing.T, plane *Plane) {
	namespace := "stopped"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "stopped-1", only)
	plane.namespace(t, namespace)
	plane.template(t, namespace, "share", "1Gi", "30")
	template := check[*dra.ResourceClaimTemplate](t)(plane.ResourceV1().ResourceClaimTemplates(namespace).Get(plane.Context, "share", meta.GetOptions{}))
	claims := plane.ResourceV1().ResourceClaims(namespace)
	solo := &dra.ResourceClaim{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "solo"}, Spec: template.Spec.Spec}
	check[*dra.ResourceClaim](t)(claims.Create(plane.Context, solo, meta.CreateOptions{}))
	run := func(name string) core.Pod {
		one := pod(namespace, name, "", only)
		one.Spec.ResourceClaims[0] = core.PodResourceClaim{Name: "gpu", ResourceClaimName: &solo.Name}
		plane.run(t, one)
		return plane.placed(t, namespace, 1)[0]
	}
	first := run("first")

	// The first agent waits for the checkpoint in its call, and is stopped there.
	lock := check[*os.File](t)(os.OpenFile(filepath.Join(node.Root, "state", "checkpoint.lock"), os.O_RDWR|os.O_CREATE, 0o600))
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	patience, cancel := context.WithTimeout(node.Context, 3*time.Second)
	defer cancel()
	if err := node.manager.PrepareResources(patience, &first); err == nil {
		t.Fatal("prepared under a lock of another's")
	}
	stopped := node.agent
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}

	agent, _ := built(t)
	before := node.newAgent
	node.newAgent = func() *exec.Cmd {
		command := before()
		command.Args = append(command.Args, "--pod-uid", "second")
		return command
	}
	node.startAgent(t)
	until(t, "the second agent is registered", func() (string, error) {
		said, _ := exec.Command(agent, "agent", "--ready", "--node-name", node.Node, "--kubelet-root", node.Root, "--pod-uid", "second").Output()
		if !strings.Contains(string(said), "registered: yes") {
			return string(said), nil
		}
		return "", nil
	})
	node.prepare(t, &first)
	node.unprepare(t, &first)
	plane.deleteByForce(t, namespace, "first")
	until(t, "the claim is not allocated", func() (string, error) {
		found, err := claims.Get(plane.Context, solo.Name, meta.GetOptions{})
		if err != nil || found.Status.Allocation != nil {
			return "it is", err
		}
		return "", nil
	})
	second := run("second")
	devices := node.prepare(t, &second)
	tenant := node.tenants(t)[0]
	node.joined(t, tenant)

	// It goes on. What it must not do it would do at once: it asks for the lock every other millisecond.
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if tenants := node.tenants(t); len(tenants) != 1 || tenants[0]["id"] != tenant["id"] {
			t.Fatalf("%v, not %v alone", tenants, tenant["id"])
		}
		time.Sleep(look)
	}
	node.counted(t, 1)
	for _, device := range node.prepare(t, &second) {
		if !slices.Contains(devices, device) {
			t.Errorf("%s, which is none of %s", device, devices)
		}
	}
	node.unprepare(t, &second)
	node.counted(t, 0)
}
