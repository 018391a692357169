package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
)

// churnOf is how many pods come and go, by DIVVY_KUBE_CHURN.
func churnOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DIVVY_KUBE_CHURN")
	if text == "" {
		return 150
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		t.Fatalf("DIVVY_KUBE_CHURN=%s: write how many pods, such as 10000", text)
	}
	return count
}

// Churn is a cluster in which each part that places or prepares is restarted while pods come and go.
type Churn struct {
	*Plane
	namespace string
	only      map[string]string
	nodes     map[string]*Node
	front     *Front
	server    *apiserver.TestServer
	// serve starts an API server on what is stored.
	serve         func() *apiserver.TestServer
	stopScheduler context.CancelFunc
	restarts      map[string]int
	// slower is how many times longer the time between two restarts is than in a short run.
	slower     time.Duration
	lost, over atomic.Int64
	// given is the percent of each node's card that pods have which are prepared.
	given map[string]*atomic.Int64
	// booked is how often more of a card was allocated than there is, of so many looks.
	booked, samples int
}

// What each pod has of a card: percent of its time, and memory in GiB, of which five pods leave too little for a sixth, too.
const (
	churnShare  = 20
	churnMemory = 12
	churnCard   = 64
)

// TestChurn: whatever part is killed or restarted while pods come and go, each pod is placed and prepared in the end, the pods that
// are prepared have no more of a card than there is, and nothing is left on a node. Claims stay, as nobody collects the garbage
// here. DIVVY_KUBE_CHURN=10000 is the long run.
//
// The scheduler's own books are told, not judged: where an API server dies behind a write, the scheduler takes it for failed and
// gives the same part to another, until it hears that it was not. The agent refuses the second then.
func TestChurn(t *testing.T) {
	const workers, nodes = 24, 3
	pods := churnOf(t)
	churn := startChurn(t)
	churn.slower = time.Duration(1 + pods/2000)
	for number := range nodes {
		name := fmt.Sprintf("churn-%d", number)
		churn.nodes[name] = churn.simulatedWith(t, name, churn.only, []string{fmt.Sprintf("SIMGPU_MEMORY=%dGiB", churnCard)})
		churn.given[name] = &atomic.Int64{}
	}
	churn.Plane.namespace(t, churn.namespace)
	churn.template(t, churn.namespace, "share", fmt.Sprintf("%dGi", churnMemory), strconv.Itoa(churnShare))
	start := time.Now()
	done, ended := make(chan struct{}), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { churn.sample(t, done) })
	watching.Go(func() { churn.disrupt(t, done) })
	next := make(chan int)
	var lives sync.WaitGroup
	for range workers {
		lives.Go(func() {
			for number := range next {
				churn.life(t, number)
			}
		})
	}
	go func() {
		for number := range pods {
			next <- number
		}
		close(next)
		lives.Wait()
		close(ended)
	}()
	<-ended
	took := time.Since(start)
	close(done)
	watching.Wait()
	for _, node := range churn.nodes {
		node.counted(t, 0)
	}
	refused := int64(0)
	for _, node := range churn.nodes {
		refused += node.Refused.Load()
	}
	report(t, map[string]any{
		"figure": "churn", "pods": pods, "nodes": nodes, "took_s": took.Seconds(), "lost": churn.lost.Load(),
		"over_given": churn.over.Load(), "over_booked_looks": churn.booked, "looks": churn.samples, "restarts": churn.restarts,
		"tried_again": refused,
	})
}

// startChurn starts a control plane whose API server can be restarted.
func startChurn(t *testing.T) *Churn {
	t.Helper()
	const token = "churn"
	folder := t.TempDir()
	tokens, audit := filepath.Join(folder, "tokens.csv"), filepath.Join(folder, "audit.log")
	if err := os.WriteFile(tokens, []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	storage := stored(t)
	churn := &Churn{
		namespace: "churn", only: map[string]string{"test": "churn"}, nodes: map[string]*Node{}, front: front(t), restarts: map[string]int{},
		given: map[string]*atomic.Int64{},
		serve: func() *apiserver.TestServer { return served(t, storage, audit, "--token-auth-file="+tokens) },
	}
	t.Cleanup(func() { churn.server.TearDownFn() })
	churn.startServer(t)
	// A restarted server has other certificates for the loopback.
	config := &rest.Config{
		Host: "https://" + churn.front.listener.Addr().String(), BearerToken: token, QPS: 1000, Burst: 2000,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	churn.Plane = planeOf(t, config, audit)
	churn.restartScheduler(t)
	churn.startClaims(t)
	churn.apply(t, rendered(t, base))
	return churn
}

func (churn *Churn) startServer(t *testing.T) {
	churn.server = churn.serve()
	at, err := url.Parse(churn.server.ClientConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	churn.front.lead(at.Host)
}

// A scheduler's successor waits for its lease: two that write at once would give away a card twice. That is a second here, which is
// longer than what the first has under way takes.
func (churn *Churn) restartScheduler(t *testing.T) {
	if churn.stopScheduler != nil {
		churn.stopScheduler()
		time.Sleep(time.Second)
	}
	ctx, cancel := context.WithCancel(churn.Context)
	churn.stopScheduler = cancel
	churn.startScheduler(t, ctx)
}

// disrupt restarts one part after the other.
func (churn *Churn) disrupt(t *testing.T, done chan struct{}) {
	some := func() *Node { return churn.nodes[fmt.Sprintf("churn-%d", rand.IntN(len(churn.nodes)))] }
	restartAgent := func() {
		node := some()
		node.killAgent()
		node.startAgent(t)
	}
	parts := []struct {
		name    string
		restart func()
	}{
		{"agent", restartAgent},
		{"api_server", func() {
			churn.front.lead("")
			churn.server.TearDownFn()
			churn.startServer(t)
		}},
		{"daemon", func() { some().killDaemon(t) }},
		{"scheduler", func() { churn.restartScheduler(t) }},
		{"agent", restartAgent},
		{"daemon", func() { some().killDaemon(t) }},
	}
	for at := 0; ; at++ {
		select {
		case <-done:
			return
		case <-time.After(churn.slower * time.Duration(300+rand.IntN(1000)) * time.Millisecond):
			part := parts[at%len(parts)]
			part.restart()
			churn.restarts[part.name]++
		}
	}
}

// sample looks at all claims, again and again, at one instant each, and counts where more of a card was allocated than there is.
func (churn *Churn) sample(t *testing.T, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(300 * time.Millisecond):
		}
		list, err := churn.ResourceV1().ResourceClaims(churn.namespace).List(churn.Context, meta.ListOptions{})
		if err != nil {
			continue
		}
		churn.samples++
		used := map[string]map[dra.QualifiedName]int64{}
		for _, claim := range list.Items {
			if claim.Status.Allocation == nil {
				continue
			}
			for _, result := range claim.Status.Allocation.Devices.Results {
				if used[result.Pool] == nil {
					used[result.Pool] = map[dra.QualifiedName]int64{}
				}
				for name, amount := range result.ConsumedCapacity {
					used[result.Pool][name] += amount.Value()
				}
			}
		}
		for pool, amounts := range used {
			if amounts["cores"] > 100 || amounts["slots"] > 64 || amounts["memory"] > churnCard<<30 {
				churn.booked++
				t.Logf("of %s more is allocated than there is: %v", pool, amounts)
			}
		}
	}
}

// life is a pod's, from its creation to the last of its claim.
func (churn *Churn) life(t *testing.T, number int) {
	pods := churn.CoreV1().Pods(churn.namespace)
	name := fmt.Sprintf("pod-%d", number)
	insist := func(what string, done func() error) bool {
		var err error
		for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(look * 2) {
			if err = done(); err == nil {
				return true
			}
		}
		churn.lost.Add(1)
		t.Errorf("%s is never %s: %v", name, what, err)
		return false
	}
	created := func() error {
		_, err := pods.Create(churn.Context, pod(churn.namespace, name, "share", churn.only), meta.CreateOptions{})
		if errors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	var placed *core.Pod
	isPlaced := func() (err error) {
		placed, err = pods.Get(churn.Context, name, meta.GetOptions{})
		if err == nil && placed.Spec.NodeName == "" {
			err = fmt.Errorf("waits")
		}
		return err
	}
	if !insist("created", created) || !insist("placed", isPlaced) {
		return
	}
	node := churn.nodes[placed.Spec.NodeName]
	prepared := func() error {
		err := node.manager.PrepareResources(node.Context, placed)
		if err != nil {
			node.Refused.Add(1)
		}
		return err
	}
	// Its programs may run from here until the kubelet asks for the claim to be taken back.
	isPrepared := insist("prepared", prepared)
	if isPrepared {
		if given := churn.given[placed.Spec.NodeName].Add(churnShare); given > 100 {
			churn.over.Add(1)
			t.Errorf("pods of %s have %d %% of its card", placed.Spec.NodeName, given)
		}
		info, err := node.manager.GetResources(placed, &placed.Spec.Containers[0])
		if err != nil || len(info.CDIDevices) != 2 || !strings.Contains(info.CDIDevices[1].Name, "=") {
			t.Errorf("%s: devices of the container: %v %v", name, info, err)
		}
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	if isPrepared {
		churn.given[placed.Spec.NodeName].Add(-churnShare)
	}
	insist("taken back", func() error { return node.manager.UnprepareResources(node.Context, placed) })
	now := int64(0)
	insist("deleted", func() error {
		err := pods.Delete(churn.Context, name, meta.DeleteOptions{GracePeriodSeconds: &now})
		if errors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
