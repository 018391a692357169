package kube

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resources "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// corpus is the folder of manifests, each beside what `divvy kube convert` makes of it.
const corpus = "../../crates/kube/corpus"

// operators have kinds that no API server has by itself. The pods in their objects are tried instead.
var operators = []string{
	"batch.volcano.sh/v1alpha1 Job", "kubeflow.org/v1 PyTorchJob", "kubeflow.org/v2beta1 MPIJob",
	"leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", "ray.io/v1 RayCluster",
}

// written are the objects of a file, those of a List each for itself.
func written(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var objects []*unstructured.Unstructured
	for reader := yaml.NewYAMLReader(bufio.NewReader(file)); ; {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.UnmarshalStrict(text, &object.Object)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if object.IsList() {
			err = object.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		} else if len(object.Object) != 0 {
			objects = append(objects, object)
		}
	}
}

// podsIn are the specifications of pods within an object, wherever they are.
func podsIn(value any) (found []map[string]any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			found = append(found, podsIn(one)...)
		}
	case map[string]any:
		if _, is := value["containers"].([]any); is {
			return []map[string]any{value}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, podsIn(value[key])...)
		}
	}
	return found
}

// convertedCorpus: each object that `divvy kube convert` makes of the corpus is one that the API server would create: no field of it is
// unknown, its expressions compile, its constraints and configurations hold.
func convertedCorpus(t *testing.T, plane *Plane) {
	namespace := plane.namespace(t, "corpus")
	mapper := plane.mapper()
	taken, others := map[string]int{}, map[string]int{}
	try := func(file string, object *unstructured.Unstructured) {
		object.SetNamespace(namespace)
		kind := object.GetAPIVersion() + " " + object.GetKind()
		client, err := plane.clientOf(mapper, object)
		if resources.IsNoMatchError(err) && slices.Contains(operators, kind) {
			others[kind]++
			return
		}
		if err == nil {
			options := meta.CreateOptions{DryRun: []string{meta.DryRunAll}, FieldValidation: meta.FieldValidationStrict}
			_, err = client.Create(plane.Context, object, options)
		}
		if err != nil {
			t.Errorf("%s: %s %s is refused: %v", file, kind, object.GetName(), err)
			return
		}
		taken[kind]++
	}
	files := check[[]string](t)(filepath.Glob(filepath.Join(corpus, "*.golden")))
	for _, path := range files {
		file := filepath.Base(path)
		for _, object := range written(t, path) {
			try(file, object)
			if !slices.Contains(operators, object.GetAPIVersion()+" "+object.GetKind()) {
				continue
			}
			pods := podsIn(object.Object)
			if len(pods) == 0 {
				t.Errorf("%s: no pods in the %s", file, object.GetKind())
			}
			for _, spec := range pods {
				name := strings.ToLower(object.GetKind())
				try(file, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": spec,
				}})
			}
		}
	}
	if len(others) != len(operators) || taken["resource.k8s.io/v1 ResourceClaimTemplate"] < 50 || taken["v1 Pod"] < 40 {
		t.Errorf("of %d files too few were tried", len(files))
	}
	t.Logf("%d files; taken: %v; of operators, whose pods were tried: %v", len(files), taken, others)
}
