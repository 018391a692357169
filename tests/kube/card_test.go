package kube

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// worker multiplies matrices and says after each few how many there were, and at the start how much memory there is. It holds as many
// GiB as it is told, and ends where a word of them is not what it was.
const worker = `
import sys, torch
one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
print("total", torch.cuda.mem_get_info()[1], flush=True)
held = [torch.full((1 << 28,), number + 7, dtype=torch.int32, device="cuda") for number in range(int(sys.argv[1]))]
many = 0
while True:
    if held:
        number = many // 4 % len(held)
        assert bool((held[number] == number + 7).all()), "a word is wrong"
    for _ in range(4):
        one @ one
    torch.cuda.synchronize()
    many += 4
    print("many", many, flush=True)
`

// Worker is a program that runs, with what it has said and when.
type Worker struct {
	*exec.Cmd
	mutex sync.Mutex
	total int64
	// ended is whether it says nothing any more.
	ended bool
	said  []struct {
		at   time.Time
		many int64
	}
}

// work starts one, in the tenant's directory, or natively where there is none.
func work(t *testing.T, python, stage, directory string, gib int) *Worker {
	t.Helper()
	it := &Worker{Cmd: exec.Command(python, "-c", worker, fmt.Sprint(gib))}
	it.Env = os.Environ()
	if directory != "" {
		it.Env = append(it.Env, "LD_PRELOAD="+filepath.Join(stage, "lib/libdivvy.so"), "DIVVY_TENANT="+directory)
	}
	it.Stderr = os.Stderr
	from := check[interface{ Read([]byte) (int, error) }](t)(it.StdoutPipe())
	if err := it.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(it.end)
	go func() {
		for lines := bufio.NewScanner(from); lines.Scan(); {
			var word string
			var number int64
			if _, err := fmt.Sscan(lines.Text(), &word, &number); err != nil {
				continue
			}
			it.mutex.Lock()
			if word == "total" {
				it.total = number
			} else {
				it.said = append(it.said, struct {
					at   time.Time
					many int64
				}{time.Now(), number})
			}
			it.mutex.Unlock()
		}
		it.mutex.Lock()
		it.ended = true
		it.mutex.Unlock()
	}()
	until(t, "a program works", func() (string, error) {
		it.mutex.Lock()
		defer it.mutex.Unlock()
		if len(it.said) < 8 {
			return fmt.Sprintf("%d lines", len(it.said)), nil
		}
		return "", nil
	})
	return it
}

func (worker *Worker) end() {
	_ = worker.Process.Kill()
	_ = worker.Wait()
}

// rate is what it did in each second between two instants.
func (worker *Worker) rate(from, to time.Time) float64 {
	worker.mutex.Lock()
	defer worker.mutex.Unlock()
	first, last := -1, -1
	for at, said := range worker.said {
		if !said.at.Before(from) && first < 0 {
			first = at
		}
		if !said.at.After(to) {
			last = at
		}
	}
	if first < 0 || last <= first {
		return 0
	}
	one, other := worker.said[first], worker.said[last]
	return float64(other.many-one.many) / other.at.Sub(one.at).Seconds()
}

// TestCard: the whole road on a real card, from the pod to the measured share. A pod is placed by the scheduler, prepared by the kubelet's
// own manager and our agent, and its program is PyTorch, unmodified, as its container would start it. DIVVY_CARD is a Python that
// has PyTorch.
func TestCard(t *testing.T) {
	python := os.Getenv("DIVVY_CARD")
	if python == "" {
		t.Skip("no card: set DIVVY_CARD to a Python that has PyTorch, on a machine with a GPU")
	}
	_, stage := built(t)
	figures := map[string]any{"figure": "card"}
	percent := func(part, whole float64) float64 { return float64(int(1000*part/whole+0.5)) / 10 }
	measure := func(workers ...*Worker) (rates []float64) {
		from := time.Now()
		time.Sleep(10 * time.Second)
		for _, worker := range workers {
			rates = append(rates, worker.rate(from, time.Now()))
		}
		return rates
	}
	native := work(t, python, stage, "", 0)
	whole := measure(native)[0]
	native.end()
	figures["native_per_s"] = whole

	plane := startPlane(t)
	plane.apply(t, rendered(t, base))
	only, namespace := map[string]string{"test": "card"}, "card"
	plane.node(t, "card-1", only)
	node := plane.withAgent(t, onMachine(t, plane.kubelet(t, "card-1"), stage))
	plane.namespace(t, namespace)
	plane.template(t, namespace, "share", "40Gi", "30")
	begun := time.Now()
	workers, ids := []*Worker{}, []string{}
	directory := func(known []string) (id, directory string) {
		for _, tenant := range node.tenants(t) {
			if id := fmt.Sprint(tenant["id"]); !strings.Contains(strings.Join(known, " "), id) {
				return id, fmt.Sprint(tenant["directory"])
			}
		}
		return "", ""
	}
	placed := map[string]core.Pod{}
	for _, name := range []string{"a", "b", "c"} {
		plane.run(t, pod(namespace, name, "share", only))
	}
	for _, one := range plane.placed(t, namespace, 3) {
		placed[one.Name] = one
	}
	figures["three_placed_s"] = time.Since(begun).Seconds()
	prepared := []float64{}
	for _, name := range []string{"a", "b", "c"} {
		one := placed[name]
		begun := time.Now()
		node.prepare(t, &one)
		prepared = append(prepared, time.Since(begun).Seconds())
		id, at := directory(ids)
		ids, workers = append(ids, id), append(workers, work(t, python, stage, at, 0))
	}
	figures["prepared_s"] = prepared
	figures["memory_total_gib"] = float64(workers[0].total) / (1 << 30)
	shares := func(rates []float64) (shares []float64) {
		for _, rate := range rates {
			shares = append(shares, percent(rate, whole))
		}
		return shares
	}
	time.Sleep(3 * time.Second)
	figures["three_of_30"] = shares(measure(workers...))

	// Less, and back, while it runs.
	var claim string
	for _, one := range plane.claims(t, namespace) {
		if strings.HasPrefix(one.Name, "a-") {
			claim = one.Name
		}
	}
	sizes := plane.Dynamic.Resource(sharesizes).Namespace(namespace)
	for _, cores := range []int64{10, 30} {
		object := size(namespace, claim, map[string]any{"cores": cores})
		begun := time.Now()
		if cores == 10 {
			_, err := sizes.Create(plane.Context, object, meta.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		} else if err := sizes.Delete(plane.Context, claim, meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		node.waitLimits(t, ids[0], 40, float64(cores))
		figures[fmt.Sprintf("resized_to_%d_s", cores)] = time.Since(begun).Seconds()
		from := time.Now()
		time.Sleep(11 * time.Second)
		figures[fmt.Sprintf("first_second_of_%d", cores)] = percent(workers[0].rate(from, from.Add(time.Second)), whole)
		figures[fmt.Sprintf("share_of_%d", cores)] = percent(workers[0].rate(from.Add(time.Second), time.Now()), whole)
	}

	// A daemon that is killed and an agent that is killed.
	node.killDaemon(t)
	node.killAgent()
	node.startAgent(t)
	figures["three_of_30_after_kills"] = shares(measure(workers...))

	// A pod that is deleted by force, and runs on.
	plane.deleteByForce(t, namespace, "c")
	plane.run(t, pod(namespace, "d", "share", only))
	var next core.Pod
	until(t, "the next is placed", func() (string, error) {
		all, waiting := plane.pods(t, namespace)
		for _, one := range all {
			if one.Name == "d" {
				next = one
				return "", nil
			}
		}
		return fmt.Sprint(waiting), nil
	})
	until(t, "the next is refused", func() (string, error) {
		err := node.manager.PrepareResources(node.Context, &next)
		if err == nil {
			t.Fatal("a fourth was prepared on the card")
		}
		if !strings.Contains(err.Error(), "card-full") {
			return err.Error(), nil
		}
		figures["fourth"] = err.Error()
		return "", nil
	})
	workers[2].end()
	begun = time.Now()
	node.prepare(t, &next)
	figures["fourth_prepared_s_after_the_end"] = time.Since(begun).Seconds()
	for _, worker := range workers {
		worker.end()
	}
	report(t, figures)
}

// TestCardBeyond: a card of which half as much memory again is sold. Pods that would not fit together are placed by the scheduler, and
// have the card by turns with all of their memory; no word of it is lost.
func TestCardBeyond(t *testing.T) {
	python := os.Getenv("DIVVY_CARD")
	if python == "" {
		t.Skip("no card: set DIVVY_CARD to a Python that has PyTorch, on a machine with a GPU")
	}
	_, stage := built(t)
	const gib, lasts = 55, 90 * time.Second
	native := work(t, python, stage, "", gib)
	from := time.Now()
	time.Sleep(8 * time.Second)
	whole := native.rate(from, time.Now())
	native.end()
	plane := startPlane(t)
	plane.apply(t, rendered(t, base))
	only, namespace := map[string]string{"test": "beyond"}, "card-beyond"
	plane.node(t, "beyond-1", only)
	node := plane.withAgent(t, onMachine(t, plane.kubelet(t, "beyond-1"), stage), "--memory-percent", "150")
	plane.namespace(t, namespace)
	plane.template(t, namespace, "share", "60Gi", "33")
	for _, name := range []string{"a", "b", "c"} {
		plane.run(t, pod(namespace, name, "share", only))
	}
	placed := plane.placed(t, namespace, 3)
	var all sync.WaitGroup
	workers := make([]*Worker, 3)
	for number := range placed {
		node.prepare(t, &placed[number])
	}
	begun := time.Now()
	for number, tenant := range node.tenants(t) {
		all.Go(func() { workers[number] = work(t, python, stage, fmt.Sprint(tenant["directory"]), gib) })
	}
	all.Wait()
	from = time.Now()
	time.Sleep(lasts)
	sum, rates := 0.0, []float64{}
	for _, worker := range workers {
		rate := worker.rate(from, time.Now())
		worker.mutex.Lock()
		if worker.ended {
			t.Error("a program has ended, as where a word was wrong")
		}
		worker.mutex.Unlock()
		sum, rates = sum+rate, append(rates, rate/whole)
	}
	status, err := node.divvy("daemon", "--status", "--json", "--home", node.Home).Output()
	if err != nil {
		t.Error(err)
	}
	report(t, map[string]any{
		"figure": "card_beyond", "pods": 3, "gib_each": gib, "sold_percent": 150, "native_per_s": whole, "shares": rates, "sum": sum / whole,
		"all_began_s": from.Sub(begun).Seconds(), "status": string(status),
	})
}
