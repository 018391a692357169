package kube

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hamiPod has a container with these resources of HAMi's, in limits and, as the API server would add them, in requests.
func hamiPod(namespace, name string, amounts map[string]string) *core.Pod {
	list := core.ResourceList{core.ResourceCPU: resource.MustParse("1")}
	for name, amount := range amounts {
		list[core.ResourceName("nvidia.com/"+name)] = resource.MustParse(amount)
	}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec: core.PodSpec{Containers: []core.Container{
			{Name: "beside", Image: "none"},
			{Name: "main", Image: "none", Resources: core.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}},
		}},
	}
}

// podsOfHAMi: the API server turns HAMi's two lines into a claim, by the names that `divvy kube convert` gives.
func podsOfHAMi(t *testing.T, plane *Plane) {
	needs136(t, "MutatingAdmissionPolicy that is on")
	namespace := plane.namespace(t, "hami")
	only := map[string]string{"test": namespace}
	plane.node(t, "hami-1", only)
	plane.slice(t, "hami-1", card("gpu-0", "GPU-hami-0", "80Gi", 16))
	template := func(pod *core.Pod) string {
		if len(pod.Spec.ResourceClaims) == 0 || pod.Spec.ResourceClaims[0].ResourceClaimTemplateName == nil {
			return ""
		}
		return *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName
	}
	try := func(pod *core.Pod) *core.Pod {
		t.Helper()
		pods, dry := plane.CoreV1().Pods(namespace), meta.CreateOptions{DryRun: []string{meta.DryRunAll}}
		return check[*core.Pod](t)(pods.Create(plane.Context, pod, dry))
	}
	until(t, "the policy is in force", func() (string, error) {
		if template(try(hamiPod(namespace, "probe", map[string]string{"gpumem": "1"}))) == "" {
			return "pods are left as they are", nil
		}
		return "", nil
	})
	for want, amounts := range map[string]map[string]string{
		"gpu-8192mi-30c":       {"gpu": "1", "gpumem": "8192", "gpucores": "30"},
		"gpu-8000mi-100c":      {"gpumem": "8k", "gpucores": "100"},
		"gpu-1mi-1c":           {"gpumem": "1", "gpucores": "1"},
		"gpu-257mi-33c":        {"gpumem": "257", "gpucores": "33"},
		"gpu-24564mi-96c":      {"gpumem": "24564", "gpucores": "96"},
		"gpu-2x-8192mi-30c":    {"gpu": "2", "gpumem": "8192", "gpucores": "30"},
		"gpu-512mi-1c-burst":   {"gpu": "1", "gpumem": "512"},
		"gpu-256mi-1c-burst":   {"gpu": "1", "gpumem": "256", "gpucores": "0"},
		"gpu-whole-30c":        {"gpu": "1", "gpucores": "30"},
		"gpu-whole-1c-burst":   {"gpu": "1", "gpucores": "0"},
		"gpu-32x-65536mi-100c": {"gpu": "32", "gpumem": "65536", "gpucores": "100"},
	} {
		pod := try(hamiPod(namespace, "pod", amounts))
		main := pod.Spec.Containers[1].Resources
		if pod.Labels[templateLabel] != want || pod.Labels["mine"] != "" {
			t.Errorf("%v: labels %v, not %s", amounts, pod.Labels, want)
		}
		if template(pod) != want || pod.Spec.ResourceClaims[0].Name != "gpu" || len(pod.Spec.ResourceClaims) != 1 {
			t.Errorf("%v: claims %v, not %s", amounts, pod.Spec.ResourceClaims, want)
		}
		if len(main.Limits) != 1 || len(main.Requests) != 1 || fmt.Sprint(main.Claims) != "[{gpu }]" {
			t.Errorf("%v: resources %+v", amounts, main)
		}
		if beside := pod.Spec.Containers[0].Resources; len(beside.Claims) != 0 {
			t.Errorf("%v: the container beside has %+v", amounts, beside)
		}
	}
	labelled := hamiPod(namespace, "pod", map[string]string{"gpumem": "8192"})
	labelled.Labels = map[string]string{"mine": "kept", templateLabel: "gpu-1mi"}
	if labels := try(labelled).Labels; len(labels) != 2 || labels["mine"] != "kept" || labels[templateLabel] != "gpu-8192mi-1c-burst" {
		t.Errorf("labels of one that has some: %v", labels)
	}
	same := func(what string, change func(*core.Pod)) {
		t.Helper()
		pod := hamiPod(namespace, "pod", map[string]string{"gpu": "1", "gpumem": "8192"})
		change(pod)
		if made := try(pod); template(made) != "" || made.Labels[templateLabel] != "" {
			t.Errorf("%s: it was given %s", what, template(made))
		}
	}
	main := func(pod *core.Pod) *core.Container { return &pod.Spec.Containers[1] }
	add := func(pod *core.Pod, name, amount string) {
		main(pod).Resources.Limits[core.ResourceName(name)] = resource.MustParse(amount)
		main(pod).Resources.Requests[core.ResourceName(name)] = resource.MustParse(amount)
	}
	same("a priority", func(pod *core.Pod) { add(pod, "nvidia.com/priority", "0") })
	same("a percentage", func(pod *core.Pod) { add(pod, "nvidia.com/gpumem-percentage", "50") })
	same("two containers", func(pod *core.Pod) { pod.Spec.Containers[0].Resources = *main(pod).Resources.DeepCopy() })
	same("an annotation", func(pod *core.Pod) { pod.Annotations = map[string]string{"nvidia.com/use-gputype": "A100"} })
	same("a privileged container", func(pod *core.Pod) {
		all := true
		main(pod).SecurityContext = &core.SecurityContext{Privileged: &all}
	})
	same("a node's name", func(pod *core.Pod) { pod.Spec.NodeName = "n1" })
	same("HAMi's scheduler", func(pod *core.Pod) { pod.Spec.SchedulerName = "hami-scheduler" })
	same("a variable", func(pod *core.Pod) { main(pod).Env = []core.EnvVar{{Name: "CUDA_OVERSUBSCRIBE", Value: "true"}} })
	same("a whole device alone", func(pod *core.Pod) {
		delete(main(pod).Resources.Limits, "nvidia.com/gpumem")
		delete(main(pod).Resources.Requests, "nvidia.com/gpumem")
	})

	plane.template(t, namespace, "gpu-8192mi-30c", "8Gi", "30")
	real := hamiPod(namespace, "real", map[string]string{"gpu": "1", "gpumem": "8192", "gpucores": "30"})
	real.Spec.NodeSelector = only
	plane.run(t, real)
	until(t, "the pod is placed", func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		if len(placed) == 1 {
			return "", nil
		}
		return strings.TrimSpace(fmt.Sprint(waiting)), nil
	})
}
