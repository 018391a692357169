package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	scheduling "k8s.io/api/scheduling/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

func (plane *Plane) evict(by kubernetes.Interface, namespace, name string) error {
	eviction := &policy.Eviction{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name}}
	return by.PolicyV1().Evictions(namespace).Evict(plane.Context, eviction)
}

// overlay is the base with the component that is beside it.
func overlay(t *testing.T, component string) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs("../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(folder, from)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%s]\ncomponents: [%s/%s]\n", relative, relative, component)
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// podsArePreempted: pods of low priority fill a card; one of higher priority gets the share of one of them, whom no budget protects, and
// nobody else goes: not for one of the same priority, nor for one that may not preempt.
func podsArePreempted(t *testing.T, plane *Plane) {
	needs136(t, "kinds of the overlay")
	namespace := plane.namespace(t, "preempt")
	only := map[string]string{"test": namespace}
	plane.node(t, "preempt-1", only)
	plane.slice(t, "preempt-1", card("gpu-0", "GPU-preempt-0", "80Gi", 16))
	never := core.PreemptNever
	for name, class := range map[string]scheduling.PriorityClass{
		"low": {Value: 10}, "high": {Value: 1000}, "polite": {Value: 2000, PreemptionPolicy: &never},
	} {
		class.Name = namespace + "-" + name
		check[*scheduling.PriorityClass](t)(plane.SchedulingV1().PriorityClasses().Create(plane.Context, &class, meta.CreateOptions{}))
	}
	plane.template(t, namespace, "quarter", "20Gi", "25")
	pods := plane.CoreV1().Pods(namespace)
	run := func(name, class string, guarded bool) {
		one := pod(namespace, name, "quarter", only)
		one.Spec.PriorityClassName = namespace + "-" + class
		one.Labels = map[string]string{"guarded": fmt.Sprint(guarded)}
		// The API server's admission hears of classes a moment later.
		until(t, name+" is made", func() (string, error) {
			_, err := pods.Create(plane.Context, one, meta.CreateOptions{})
			return "", err
		})
	}
	running := plane.inTurn(t, namespace, 4, func(number int) {
		// The youngest go first, and these may not.
		run(fmt.Sprintf("low-%d", number), "low", number > 0)
	})
	for _, one := range running {
		one.Status.Phase = core.PodRunning
		one.Status.Conditions = append(one.Status.Conditions, core.PodCondition{Type: core.PodReady, Status: core.ConditionTrue})
		check[*core.Pod](t)(pods.UpdateStatus(plane.Context, &one, meta.UpdateOptions{}))
	}
	all := intstr.FromString("100%")
	budgets := plane.PolicyV1().PodDisruptionBudgets(namespace)
	budget := check[*policy.PodDisruptionBudget](t)(budgets.Create(plane.Context, &policy.PodDisruptionBudget{
		ObjectMeta: meta.ObjectMeta{Name: "guarded"},
		Spec: policy.PodDisruptionBudgetSpec{
			MinAvailable: &all, Selector: &meta.LabelSelector{MatchLabels: map[string]string{"guarded": "true"}},
		},
	}, meta.CreateOptions{}))
	// Nobody counts for budgets here.
	budget.Status = policy.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 3}
	check[*policy.PodDisruptionBudget](t)(budgets.UpdateStatus(plane.Context, budget, meta.UpdateOptions{}))

	objects := rendered(t, overlay(t, "preempt"))
	plane.apply(t, objects)
	set := check[*core.PodTemplateSpec](t)(plane.controllersPod())
	command := set.Spec.Containers[0].Command
	if !slices.Contains(command, "--preempt") {
		t.Errorf("the component's command: %v", command)
	}
	before := plane.writes(t, controllerAccount)
	plane.controller(t, "preempt-a", command[2:]...)

	run("equal", "low", false)
	plane.said(t, namespace, "equal", "DivvyDoesNotPreempt")
	run("polite", "polite", false)
	until(t, "the polite one waits", func() (string, error) {
		_, waiting := plane.pods(t, namespace)
		if waiting["polite"] == "" {
			return fmt.Sprint(waiting), nil
		}
		return "", nil
	})
	going := func() (found []string) {
		list := check[*core.PodList](t)(pods.List(plane.Context, meta.ListOptions{}))
		for _, one := range list.Items {
			if one.DeletionTimestamp != nil {
				found = append(found, one.Name)
			}
		}
		return found
	}
	if found := going(); len(found) != 0 {
		t.Fatalf("%v go for one of the same priority", found)
	}
	// Out of the way of the one that may: it has the higher priority of the two, and would be placed first.
	if err := pods.Delete(plane.Context, "polite", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run("high", "high", false)
	plane.said(t, namespace, "high", "DivvyPreempts")
	if found := going(); len(found) != 1 || found[0] != "low-0" {
		t.Fatalf("%v go, not low-0", found)
	}
	plane.said(t, namespace, "low-0", "DivvyPreempted")
	// A container takes its time to end, in which nobody else goes; and the one that waits is tried by the scheduler meanwhile.
	time.Sleep(3 * time.Second)
	if found := going(); len(found) != 1 {
		t.Fatalf("%v go for one pod", found)
	}
	plane.deleteByForce(t, namespace, "low-0")
	placed := plane.placed(t, namespace, 4)
	var names []string
	for _, one := range placed {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[high low-1 low-2 low-3]" {
		t.Errorf("on the card: %v", names)
	}
	// Two that went or came, and one that was told no.
	if writes := plane.writes(t, controllerAccount) - before; writes > 3*3 {
		t.Errorf("the controller wrote %d times:\n%s", writes,
			strings.Join(plane.audited(t, controllerAccount, "leases", false)[before:], ""))
	}
}
