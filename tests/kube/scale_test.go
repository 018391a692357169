package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	dra "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaleOf is how many nodes and pods there are, by DIVVY_KUBE_SCALE such as 1000x5000.
func scaleOf(t *testing.T) (nodes, pods int) {
	t.Helper()
	text := os.Getenv("DIVVY_KUBE_SCALE")
	if text == "" {
		return 100, 1000
	}
	if read, err := fmt.Sscanf(text, "%dx%d", &nodes, &pods); err != nil || read != 2 || nodes < 1 || pods < 1 {
		t.Fatalf("DIVVY_KUBE_SCALE=%s: write nodes and pods, such as 1000x5000", text)
	}
	return nodes, pods
}

// report prints figures as a line of JSON, for whoever stores them.
func report(t *testing.T, figures map[string]any) {
	t.Helper()
	line, err := json.Marshal(figures)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("figures: %s\n", line)
}

// each does it for 0 to count-1, a few at a time.
func each(count int, it func(int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for number := range next {
				it(number)
			}
		})
	}
	for number := range count {
		next <- number
	}
	close(next)
	all.Wait()
}

// atScale: cards of many nodes are filled to the last share, none beyond, by agents that write once for a node.
func atScale(t *testing.T, plane *Plane) {
	nodes, pods := scaleOf(t)
	if testing.Short() {
		t.Skip("-short")
	}
	namespace := plane.namespace(t, "scale")
	only := map[string]string{"test": namespace}
	// All shares together fill all cards, where the numbers divide: each card's cores are its bound.
	of := (pods + nodes - 1) / nodes
	if of > 100 {
		t.Fatalf("%d pods on %d nodes of a card each: at most 100 fit a card", pods, nodes)
	}
	before := plane.writes(t, agentAccount)
	each(nodes, func(number int) {
		name := fmt.Sprintf("scale-%d", number)
		plane.node(t, name, only)
		slice := &dra.ResourceSlice{
			ObjectMeta: meta.ObjectMeta{Name: name + "-" + driver + "-0"},
			Spec: dra.ResourceSliceSpec{
				Driver: driver, NodeName: &name,
				Pool:    dra.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
				Devices: []dra.Device{card("gpu-0", "GPU-"+name, "80Gi", 128)},
			},
		}
		slices := plane.agentOf(t, name).ResourceV1().ResourceSlices()
		if _, err := slices.Create(plane.Context, slice, meta.CreateOptions{}); err != nil {
			t.Error(err)
		}
		t.Cleanup(func() {
			_ = plane.ResourceV1().ResourceSlices().Delete(plane.Context, slice.Name, meta.DeleteOptions{})
		})
	})
	if t.Failed() {
		return
	}
	cores := fmt.Sprint(100 / of)
	plane.template(t, namespace, "share", "256Mi", cores)
	start := time.Now()
	each(pods, func(number int) {
		one := pod(namespace, fmt.Sprintf("pod-%d", number), "share", only)
		if _, err := plane.CoreV1().Pods(namespace).Create(plane.Context, one, meta.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	created := time.Since(start)
	placed := 0
	for deadline := time.Now().Add(30 * time.Minute); placed < pods && time.Now().Before(deadline); {
		time.Sleep(500 * time.Millisecond)
		found, _ := plane.pods(t, namespace)
		placed = len(found)
	}
	took := time.Since(start)
	if placed < pods {
		t.Errorf("%d of %d placed", placed, pods)
	}
	used := map[string]map[dra.QualifiedName]int64{}
	shares := 0
	for _, claim := range plane.claims(t, namespace) {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			shares++
			if used[result.Pool] == nil {
				used[result.Pool] = map[dra.QualifiedName]int64{}
			}
			for name, amount := range result.ConsumedCapacity {
				used[result.Pool][name] += amount.Value()
			}
		}
	}
	over := 0
	for pool, amounts := range used {
		if amounts["cores"] > 100 || amounts["memory"] > 80<<30 || amounts["slots"] > 128 {
			over++
			t.Errorf("%s: more than there is: %v", pool, amounts)
		}
	}
	writes := plane.writes(t, agentAccount) - before
	if writes > 3*pods {
		t.Errorf("the agents wrote %d times for %d pods", writes, pods)
	}
	report(t, map[string]any{
		"figure": "scale", "nodes": nodes, "pods": pods, "placed": placed, "shares": shares, "over_allocated_cards": over,
		"created_s": created.Seconds(), "placed_s": took.Seconds(), "agents_writes": writes,
		"agents_writes_per_pod": float64(writes) / float64(pods),
	})
}
