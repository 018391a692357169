package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// program is a process of ours that ends with the test, and whose words are shown where that fails.
func program(t *testing.T, name string, command *exec.Cmd) *exec.Cmd {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if words, err := os.ReadFile(said.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", name, words)
		}
		_ = said.Close()
	})
	return command
}

// simulatedCards is what the UUIDs of a simulated machine's cards, and of their instances, have in common.
const simulatedCards = "-513d9a0b-7e42-4c11-9f20-d177e5000"

// kubeconfig writes a configuration down for a program.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"test": {
			Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName,
			InsecureSkipTLSVerify: config.Insecure,
		}},
		AuthInfos: map[string]*api.AuthInfo{"test": {
			Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		}},
		Contexts:       map[string]*api.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Node is a node as users have it but for containers: a kubelet's parts, our agent and our daemon, on simulated cards.
type Node struct {
	*Kubelet
	// Home is the daemon's.
	Home string
	CDI  string
	// divvy is the command, for the simulated machine.
	divvy  func(arguments ...string) *exec.Cmd
	daemon *exec.Cmd
	// newAgent is a command that is not started.
	newAgent func() *exec.Cmd
	agent    *exec.Cmd
}

// simulated starts one, with all of its parts, or skips the test where they are not built.
func (plane *Plane) simulated(t *testing.T, name string, only map[string]string) *Node {
	t.Helper()
	return plane.simulatedWith(t, name, only, nil)
}

// simulatedWith is the same of cards that variables describe, and with more arguments for the agent.
func (plane *Plane) simulatedWith(t *testing.T, name string, only map[string]string, variables []string, more ...string) *Node {
	t.Helper()
	_, stage := built(t)
	plane.node(t, name, only)
	return plane.withAgent(t, withDaemon(t, plane.kubelet(t, name), stage, variables...), more...)
}

// withAgent starts our agent on a node.
func (plane *Plane) withAgent(t *testing.T, node *Node, more ...string) *Node {
	t.Helper()
	agent, stage := built(t)
	name := node.Node
	arguments := []string{
		"agent", "--node-name", name, "--kubelet-root", node.Root, "--cdi", node.CDI, "--state", filepath.Join(node.Root, "state"),
		"--daemon", filepath.Join(node.Home, "daemon.sock"), "--library", filepath.Join(stage, "lib/libdivvy.so"),
		"--slots", "64",
	}
	config := kubeconfig(t, plane.agentConfig(t, name))
	node.newAgent = func() *exec.Cmd {
		command := exec.Command(agent, append(arguments, more...)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+config)
		return command
	}
	node.startAgent(t)
	until(t, "the agent is ready", func() (string, error) {
		said, err := exec.Command(agent, "agent", "--ready", "--node-name", name, "--kubelet-root", node.Root).Output()
		if !strings.Contains(string(said), "published: yes") {
			return string(said), err
		}
		return "", err
	})
	until(t, "the agent publishes its card", func() (string, error) {
		found, err := plane.slicesOf(name)
		for _, slice := range found {
			for _, device := range slice.Spec.Devices {
				// Cards of tests say less of themselves.
				if device.Attributes["type"].StringValue != nil {
					return "", nil
				}
			}
		}
		return fmt.Sprintf("%d slices", len(found)), err
	})
	return node
}

// built are the program for Kubernetes and the folder of the others; without them the test is skipped.
func built(t *testing.T) (agent, stage string) {
	t.Helper()
	agent, stage = os.Getenv("DIVVY_KUBE"), os.Getenv("DIVVY_STAGE")
	if agent == "" || stage == "" {
		t.Skip("no agent: set DIVVY_KUBE and DIVVY_STAGE, as `cargo xtask test kube` does")
	}
	return agent, stage
}

// withDaemon starts our daemon on a node, with simulated cards, which variables describe.
func withDaemon(t *testing.T, kubelet *Kubelet, stage string, variables ...string) *Node {
	t.Helper()
	machine := []string{
		"SIMGPU_DIR=" + filepath.Join(kubelet.Root, "sim"), "SIMGPU_SEED=0", "SIMGPUD=" + filepath.Join(stage, "sim/simgpud"),
		"LD_LIBRARY_PATH=" + filepath.Join(stage, "sim"),
	}
	return onMachine(t, kubelet, stage, append(machine, variables...)...)
}

// onMachine is the same on the cards that programs find with these variables.
func onMachine(t *testing.T, kubelet *Kubelet, stage string, variables ...string) *Node {
	t.Helper()
	home := filepath.Join(kubelet.Root, "divvy")
	for _, folder := range []string{home, filepath.Join(home, "tenants")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	divvy := func(arguments ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(stage, "bin/divvy"), arguments...)
		command.Env = append(os.Environ(), "TMPDIR="+kubelet.Root, "XDG_CACHE_HOME="+filepath.Join(kubelet.Root, "cache"))
		command.Env = append(command.Env, variables...)
		return command
	}
	node := &Node{Kubelet: kubelet, Home: home, CDI: filepath.Join(kubelet.Root, "cdi"), divvy: divvy}
	node.startDaemon(t)
	return node
}

func (node *Node) startDaemon(t *testing.T) {
	node.daemon = program(t, "daemon", node.divvy("daemon", "--home", node.Home))
}

func (node *Node) startAgent(t *testing.T) {
	node.agent = program(t, "agent", node.newAgent())
}

func (node *Node) killAgent() {
	_ = node.agent.Process.Kill()
	_ = node.agent.Wait()
}

// killDaemon kills it, and starts another a moment later.
func (node *Node) killDaemon(t *testing.T) {
	_ = node.daemon.Process.Kill()
	_ = node.daemon.Wait()
	time.Sleep(4 * look)
	node.startDaemon(t)
}

// tenants are the daemon's, by id.
func (node *Node) tenants(t *testing.T) []map[string]any {
	t.Helper()
	tenants, err := node.listed()
	if err != nil {
		t.Fatal(err)
	}
	return tenants
}

// listed is the same where the daemon may be away.
func (node *Node) listed() ([]map[string]any, error) {
	said, err := node.divvy("tenant", "list", "--json", "--home", node.Home).Output()
	if err != nil {
		return nil, err
	}
	var list struct{ Tenants []map[string]any }
	if err := json.Unmarshal(said, &list); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return list.Tenants, nil
}

// ourAgent: a claim becomes a tenant of the daemon with its limits and a CDI device, and goes with the pod.
func ourAgent(t *testing.T, plane *Plane) {
	namespace := "agent"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "agent-1", only)
	plane.namespace(t, namespace)
	placed := plane.onePod(t, namespace, only)
	devices := node.prepare(t, &placed[0])
	tenants := node.tenants(t)
	if len(tenants) != 1 {
		t.Fatalf("tenants: %v", tenants)
	}
	id := fmt.Sprint(tenants[0]["id"])
	if len(devices) != 2 || !strings.HasPrefix(devices[0], "nvidia.com/gpu=GPU-") || devices[1] != "divvy.dev/share="+id {
		t.Errorf("CDI devices: %v", devices)
	}
	limits := fmt.Sprint(tenants[0]["devices"])
	if !strings.Contains(limits, fmt.Sprintf("limit_bytes:%v", float64(8<<30))) || !strings.Contains(limits, "share_ppm:300000") {
		t.Errorf("limits: %s", limits)
	}
	specs, err := filepath.Glob(filepath.Join(node.CDI, "*"))
	if err != nil || len(specs) != 1 {
		t.Errorf("CDI files: %v %v", specs, err)
	}
	node.unprepare(t, &placed[0])
	if tenants := node.tenants(t); len(tenants) != 0 {
		t.Errorf("tenants afterwards: %v", tenants)
	}
	if specs, _ := filepath.Glob(filepath.Join(node.CDI, "*")); len(specs) != 0 {
		t.Errorf("CDI files afterwards: %v", specs)
	}
}

// kubeletForgets: a kubelet that was restarted asks again for what is prepared, and a reboot has taken the CDI files.
func kubeletForgets(t *testing.T, plane *Plane) {
	namespace := "forgets"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "forgets-1", only)
	plane.namespace(t, namespace)
	placed := plane.onePod(t, namespace, only)
	devices := node.prepare(t, &placed[0])
	if err := os.RemoveAll(node.CDI); err != nil {
		t.Fatal(err)
	}
	node.start(t)
	// The kubelet has kept its list, and appends what it is told again to it: the runtime gets each device twice.
	for _, device := range node.prepare(t, &placed[0]) {
		if !slices.Contains(devices, device) {
			t.Errorf("CDI device %s, which is none of %s", device, devices)
		}
	}
	if specs, err := filepath.Glob(filepath.Join(node.CDI, "*")); err != nil || len(specs) != 1 {
		t.Errorf("CDI files: %v %v", specs, err)
	}
	// Given back by the one that prepared nothing itself.
	node.start(t)
	until(t, "the agent is found again", func() (string, error) {
		return "", node.manager.UnprepareResources(node.Context, &placed[0])
	})
	if tenants := node.tenants(t); len(tenants) != 0 {
		t.Errorf("tenants afterwards: %v", tenants)
	}
}

// daemonDies: pods are prepared and given back, over and over, while the node's daemon is killed again and again.
func daemonDies(t *testing.T, plane *Plane) {
	const count, kills = 12, 8
	namespace := "dies"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "dies-1", only)
	plane.namespace(t, namespace)
	plane.template(t, namespace, "share", "256Mi", "2")
	each(count, func(number int) { plane.run(t, pod(namespace, fmt.Sprintf("pod-%d", number), "share", only)) })
	placed := plane.placed(t, namespace, count)
	over := make(chan struct{})
	var all sync.WaitGroup
	for number := range placed {
		one := &placed[number]
		all.Go(func() {
			for {
				node.prepareBeside(t, one)
				select {
				case <-over:
					return
				default:
				}
				// Where the daemon is away, the agent does its part later.
				_ = node.manager.UnprepareResources(node.Context, one)
			}
		})
	}
	for range kills {
		node.killDaemon(t)
	}
	close(over)
	all.Wait()
	if refused := node.Refused.Load(); refused == 0 {
		t.Error("no claim met a daemon that was away")
	} else {
		t.Logf("%d claims met a daemon that was away", refused)
	}
	node.counted(t, count)
	each(count, func(number int) { _ = node.manager.UnprepareResources(node.Context, &placed[number]) })
	node.counted(t, 0)
}

// counted waits until there are so many tenants and CDI files, and no more.
func (node *Node) counted(t *testing.T, wanted int) {
	t.Helper()
	until(t, fmt.Sprintf("%d tenants and CDI files", wanted), func() (string, error) {
		tenants, err := node.listed()
		specs, _ := filepath.Glob(filepath.Join(node.CDI, "*"))
		if err != nil || len(tenants) != wanted || len(specs) != wanted {
			return fmt.Sprintf("%d and %d", len(tenants), len(specs)), err
		}
		return "", nil
	})
}

// fortyPods: HAMi's issue 1367 tells of 40 pods that took 15 to 30 minutes on a node. Here from the first's creation to the last's
// claim prepared; how long that takes is told, not judged. What it costs is: three calls of the API server for a pod, of any kind, and
// 25 MiB of the agent's memory. What the agent calls before the first pod is told apart.
func fortyPods(t *testing.T, plane *Plane) {
	const count = 40
	namespace := "forty"
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "forty-1", only)
	plane.namespace(t, namespace)
	plane.template(t, namespace, "share", "256Mi", "2")
	before := plane.writes(t, agentAccount)
	startCalls, calledBefore := plane.calls(t, node.Node)
	start := time.Now()
	each(count, func(number int) {
		one := pod(namespace, fmt.Sprintf("pod-%d", number), "share", only)
		if _, err := plane.CoreV1().Pods(namespace).Create(plane.Context, one, meta.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	// As the kubelet does: each pod as soon as it is this node's, beside the others.
	var all sync.WaitGroup
	begun := map[string]bool{}
	until(t, "all placed", func() (string, error) {
		placed, waiting := plane.pods(t, namespace)
		for _, one := range placed {
			if !begun[one.Name] {
				begun[one.Name] = true
				all.Go(func() { node.prepareBeside(t, &one) })
			}
		}
		if len(begun) == count {
			return "", nil
		}
		return fmt.Sprintf("%d placed, waiting %v", len(placed), waiting), nil
	})
	placedAll := time.Since(start)
	all.Wait()
	took := time.Since(start)
	if tenants := node.tenants(t); len(tenants) != count {
		t.Errorf("%d tenants, not %d", len(tenants), count)
	}
	writes := plane.writes(t, agentAccount) - before
	if writes > 3*count {
		t.Errorf("the agent wrote %d times for %d pods", writes, count)
	}
	placed, _ := plane.pods(t, namespace)
	back := time.Now()
	each(len(placed), func(number int) { _ = node.manager.UnprepareResources(node.Context, &placed[number]) })
	gone := time.Since(back)
	if tenants := node.tenants(t); len(tenants) != 0 {
		t.Errorf("%d tenants afterwards", len(tenants))
	}
	allCalls, called := plane.calls(t, node.Node)
	called -= calledBefore
	for call, times := range startCalls {
		if allCalls[call] -= times; allCalls[call] == 0 {
			delete(allCalls, call)
		}
	}
	if called > 3*count {
		t.Errorf("the agent called the API server %d times for %d pods: %v", called, count, allCalls)
	}
	most := node.agentsMemory(t)
	if most > 25<<20 {
		t.Errorf("the agent had %d bytes of memory for %d pods", most, count)
	}
	report(t, map[string]any{
		"figure": "forty-pods", "pods": count, "placed_s": placedAll.Seconds(), "prepared_s": took.Seconds(),
		"unprepared_s": gone.Seconds(), "tried_again": node.Refused.Load(), "agents_writes": writes,
		"agents_calls_at_start": startCalls, "agents_calls": allCalls, "agents_calls_per_pod": float64(called) / count,
		"agents_memory_bytes": most,
	})
}

// agentsMemory is the most that the agent's process has had of memory, in bytes, files that it runs from included.
func (node *Node) agentsMemory(t *testing.T) int64 {
	t.Helper()
	status := check[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/status", node.agent.Process.Pid)))
	for line := range strings.Lines(string(status)) {
		var kib int64
		if read, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); read == 1 {
			return kib << 10
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}

// prepareBeside is [Kubelet.prepare] for a goroutine, which may not end the test.
func (kubelet *Kubelet) prepareBeside(t *testing.T, pod *core.Pod) {
	for looks := 0; ; looks++ {
		err := kubelet.manager.PrepareResources(kubelet.Context, pod)
		if err == nil {
			return
		}
		kubelet.Refused.Add(1)
		if looks == patience/4 {
			t.Errorf("%s: %v", pod.Name, err)
			return
		}
		time.Sleep(4 * look)
	}
}
