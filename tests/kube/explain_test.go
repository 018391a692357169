package kube

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// explained: of a pod that waits people are told what is missing, and of which card; a node's agent, which may not look around, is
// told what it may not read.
func explained(t *testing.T, plane *Plane) {
	command := os.Getenv("DIVVY_KUBE")
	if command == "" {
		t.Skip("DIVVY_KUBE names no divvy-kube")
	}
	namespace := plane.namespace(t, "explained")
	only := map[string]string{"test": namespace}
	plane.node(t, "explained-1", only)
	plane.slice(t, "explained-1", card("gpu-0", "GPU-explained-0", "40Gi", 16))
	plane.template(t, namespace, "gpu-30gi-60c", "30Gi", "60")
	plane.template(t, namespace, "gpu-4000gi-1c", "4000Gi", "1")
	explain := func(pod, config string, words ...string) string {
		t.Helper()
		run := exec.Command(command, append([]string{"explain", "--namespace", namespace, pod}, words...)...)
		run.Env = append(os.Environ(), "KUBECONFIG="+config)
		out, err := run.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() != 1 {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		return string(out)
	}
	admin := kubeconfig(t, plane.Config)
	for _, one := range []struct{ pod, template string }{
		{"first", "gpu-30gi-60c"}, {"second", "gpu-30gi-60c"}, {"huge", "gpu-4000gi-1c"}, {"lost", "gpu-none"},
	} {
		plane.run(t, pod(namespace, one.pod, one.template, only))
		wanted := map[string][]string{
			"first":  {`"started"`, `"starting"`},
			"second": {`"no-room"`},
			"huge":   {`"too-large"`},
			"lost":   {`"no-template"`},
		}[one.pod]
		until(t, one.pod+" is explained", func() (string, error) {
			text := explain(one.pod, admin, "--json")
			var read map[string]any
			if err := json.Unmarshal([]byte(text), &read); err != nil {
				return "", err
			}
			for _, word := range wanted {
				if strings.Contains(text, `"word": `+word) {
					return "", nil
				}
			}
			return text, nil
		})
	}
	page := explain("second", admin)
	for _, part := range []string{"waits", "memory 30 GiB, cores 60 %", "explained-1", "lacks memory 20 GiB, cores 20 %", "the scheduler says: "} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in\n%s", part, page)
		}
	}
	t.Logf("\n%s", page)
	run := exec.Command(command, "explain", "--namespace", namespace, "second")
	run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig(t, plane.agentConfig(t, "explained-1")))
	if out, err := run.CombinedOutput(); err == nil || !strings.Contains(string(out), "forbidden") {
		t.Errorf("an agent may read pods: %v %s", err, out)
	}
}
