package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
)

// Labels by which pods name templates, and templates their maker.
const (
	templateLabel = "divvy.dev/template"
	ownerLabel    = "app.kubernetes.io/managed-by"
)

// leaseSeconds is the length of the controllers' lease in tests.
const leaseSeconds = 5

// controller starts one, by the name that its lease shows, with a token of its own.
func (plane *Plane) controller(t *testing.T, name string, arguments ...string) *exec.Cmd {
	t.Helper()
	divvy := os.Getenv("DIVVY_KUBE")
	if divvy == "" {
		t.Skip("no controller: set DIVVY_KUBE, as `cargo xtask test kube` does")
	}
	arguments = append([]string{"controller", "--json", "--pod-name", name, "--lease", fmt.Sprint(leaseSeconds)}, arguments...)
	command := exec.Command(divvy, arguments...)
	command.Env = append(os.Environ(), "POD_NAMESPACE="+system, "KUBECONFIG="+kubeconfig(t, plane.accountConfig(t, controllerAccount, nil)))
	return program(t, name, command)
}

// templates are those of a namespace, by name.
func (plane *Plane) templates(t *testing.T, namespace string) map[string]dra.ResourceClaimTemplate {
	t.Helper()
	all := check[*dra.ResourceClaimTemplateList](t)(plane.ResourceV1().ResourceClaimTemplates(namespace).List(plane.Context, meta.ListOptions{}))
	found := map[string]dra.ResourceClaimTemplate{}
	for _, one := range all.Items {
		found[one.Name] = one
	}
	return found
}

// notes are the reasons and words of events about a pod.
func (plane *Plane) notes(t *testing.T, namespace, pod string) []string {
	t.Helper()
	all := check[*core.EventList](t)(plane.CoreV1().Events(namespace).List(plane.Context, meta.ListOptions{}))
	var found []string
	for _, event := range all.Items {
		if event.InvolvedObject.Name == pod && strings.HasPrefix(event.Reason, "Divvy") {
			found = append(found, event.Reason+": "+event.Message)
		}
	}
	return found
}

// said waits for an event about a pod.
func (plane *Plane) said(t *testing.T, namespace, pod, reason string) {
	t.Helper()
	until(t, reason+" on "+pod, func() (string, error) {
		notes := plane.notes(t, namespace, pod)
		if strings.Contains(strings.Join(notes, "\n"), reason+": ") {
			return "", nil
		}
		return fmt.Sprint(notes), nil
	})
}

// ownTemplatesOnly: what the controller's account may do, and what not.
func ownTemplatesOnly(t *testing.T, plane *Plane) {
	namespace := plane.namespace(t, "own-templates")
	controller := kubernetes.NewForConfigOrDie(plane.accountConfig(t, controllerAccount, nil))
	ctx, templates := plane.Context, controller.ResourceV1().ResourceClaimTemplates(namespace)
	plane.template(t, namespace, "users", "8Gi", "30")
	users := plane.templates(t, namespace)["users"]
	template := func(name, owner, class string) *dra.ResourceClaimTemplate {
		made := &dra.ResourceClaimTemplate{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: *users.Spec.DeepCopy()}
		made.Labels = map[string]string{ownerLabel: owner}
		made.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = class
		return made
	}
	create := func(made *dra.ResourceClaimTemplate) error {
		return second(templates.Create(ctx, made, meta.CreateOptions{}))
	}
	until(t, "the policy is in force", func() (string, error) {
		if create(template("probe", "", driver)) == nil {
			return "it lets through", plane.ResourceV1().ResourceClaimTemplates(namespace).Delete(ctx, "probe", meta.DeleteOptions{})
		}
		return "", nil
	})
	refused := func(what, words string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, not %q", what, err, words)
		}
	}
	if err := create(template("own", controllerAccount, driver)); err != nil {
		t.Errorf("its own: %v", err)
	}
	refused("without its label", "its own label alone", create(template("other", "me", driver)))
	refused("another class", "gpu.divvy.dev alone", create(template("other", controllerAccount, "nic.example.com")))
	admin := template("other", controllerAccount, driver)
	yes := true
	admin.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
	refused("an administrator's", "", create(admin))
	refused("a user's", "its own label alone", templates.Delete(ctx, "users", meta.DeleteOptions{}))
	if err := templates.Delete(ctx, "own", meta.DeleteOptions{}); err != nil {
		t.Errorf("its own deletion: %v", err)
	}
	allowed, forbidden := judges(t)
	allowed("its lease", second(controller.CoordinationV1().Leases(system).Get(ctx, "divvy-controller", meta.GetOptions{})))
	allowed("pods", second(controller.CoreV1().Pods("").List(ctx, meta.ListOptions{})))
	forbidden("another lease", second(controller.CoordinationV1().Leases(system).Get(ctx, "other", meta.GetOptions{})))
	forbidden("claims", second(controller.ResourceV1().ResourceClaims("").List(ctx, meta.ListOptions{})))
	forbidden("nodes", second(controller.CoreV1().Nodes().List(ctx, meta.ListOptions{})))
	forbidden("secrets", second(controller.CoreV1().Secrets(namespace).List(ctx, meta.ListOptions{})))
	forbidden("a pod's deletion", controller.CoreV1().Pods(namespace).Delete(ctx, "none", meta.DeleteOptions{}))
	forbidden("an eviction", plane.evict(controller, namespace, "none"))
	_, err := templates.Update(ctx, &users, meta.UpdateOptions{})
	forbidden("a change", err)

	set := check[*core.PodTemplateSpec](t)(plane.controllersPod())
	spec := set.Spec
	if spec.HostPID || spec.HostNetwork || spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot {
		t.Errorf("the pod: %+v", spec.SecurityContext)
	}
	for _, volume := range spec.Volumes {
		if volume.HostPath != nil {
			t.Errorf("a path of the host: %s", volume.HostPath.Path)
		}
	}
}

func (plane *Plane) controllersPod() (*core.PodTemplateSpec, error) {
	set, err := plane.AppsV1().Deployments(system).Get(plane.Context, "divvy-controller", meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &set.Spec.Template, nil
}

// controllerMakesTemplates: HAMi's two lines, and nothing else, become a tenant with their limits; what the controller makes is what
// `divvy kube convert` writes.
func controllerMakesTemplates(t *testing.T, plane *Plane) {
	needs136(t, "MutatingAdmissionPolicy that is on")
	namespace := plane.namespace(t, "templates")
	only := map[string]string{"test": namespace}
	node := plane.simulated(t, "templates-1", only)
	two := hamiPod(namespace, "pod", map[string]string{"gpu": "1", "gpumem": "8192", "gpucores": "30"})
	two.Spec.NodeSelector = only
	before := plane.writes(t, controllerAccount)
	plane.run(t, two)
	// The scheduler does not look at it before its claim is there.
	if placed, waiting := plane.pods(t, namespace); len(placed) != 0 || len(waiting) != 1 {
		t.Errorf("without a controller: placed %v, waiting %v", placed, waiting)
	}
	plane.controller(t, "templates-a")
	placed := plane.placed(t, namespace, 1)
	node.prepare(t, &placed[0])
	limits := fmt.Sprint(node.tenants(t))
	if !strings.Contains(limits, fmt.Sprintf("limit_bytes:%v", float64(8<<30))) || !strings.Contains(limits, "share_ppm:300000") {
		t.Errorf("limits %s", limits)
	}
	node.unprepare(t, &placed[0])
	if writes := plane.writes(t, controllerAccount) - before; writes < 1 || writes > 3 {
		t.Errorf("the controller wrote %d times for a pod", writes)
	}

	made := plane.templates(t, namespace)["gpu-8192mi-30c"]
	if made.Labels[ownerLabel] != controllerAccount {
		t.Errorf("labels %v", made.Labels)
	}
	same := hamiPod(namespace, "pod", map[string]string{"gpu": "1", "gpumem": "8192", "gpucores": "30"})
	same.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	written := plane.converted(t, same)
	if written.Name != made.Name || !reflect.DeepEqual(written.Spec, made.Spec) {
		t.Errorf("made %+v, but convert writes %+v", made, written)
	}

	// What a user made is used where it says the same, and left where it does not.
	plane.template(t, namespace, "gpu-512mi-10c", "512Mi", "10")
	plane.template(t, namespace, "gpu-768mi-10c", "1Gi", "10")
	for name, memory := range map[string]string{"same": "512", "other": "768"} {
		plane.run(t, hamiPod(namespace, name, map[string]string{"gpumem": memory, "gpucores": "10"}))
	}
	plane.said(t, namespace, "other", "DivvyTemplateInTheWay")
	if notes := plane.notes(t, namespace, "same"); len(notes) != 0 {
		t.Errorf("on the one with its own template: %v", notes)
	}
	bad := pod(namespace, "bad", "gpu-0mi", nil)
	bad.Labels = map[string]string{templateLabel: "gpu-0mi"}
	plane.run(t, bad)
	plane.said(t, namespace, "bad", "DivvyTemplateUnknown")
	if found := plane.templates(t, namespace); len(found) != 3 || found["gpu-768mi-10c"].Labels[ownerLabel] != "" {
		t.Errorf("templates: %v", found)
	}
}

// converted is the template that `divvy kube convert` writes for a pod, as the API server keeps it.
func (plane *Plane) converted(t *testing.T, pod *core.Pod) *dra.ResourceClaimTemplate {
	t.Helper()
	manifest, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Getenv("DIVVY_KUBE"), "convert")
	command.Stdin = bytes.NewReader(manifest)
	text, err := command.Output()
	if err != nil {
		t.Fatalf("convert: %v", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var found dra.ResourceClaimTemplate
		if err := decoder.Decode(&found); err == io.EOF {
			t.Fatalf("no template in\n%s", text)
		} else if err != nil {
			t.Fatal(err)
		}
		if found.Kind == "ResourceClaimTemplate" {
			name := found.Name
			found.Name = "converted"
			kept := check[*dra.ResourceClaimTemplate](t)(plane.ResourceV1().ResourceClaimTemplates(pod.Namespace).Create(
				plane.Context, &found, meta.CreateOptions{DryRun: []string{meta.DryRunAll}}))
			kept.Name = name
			return kept
		}
	}
}

// templatesAreFew: of sixty-five sizes one is refused in words; all that are ours go when no pod names them, and nothing else does.
func templatesAreFew(t *testing.T, plane *Plane) {
	needs136(t, "MutatingAdmissionPolicy that is on")
	const most = 64
	namespace := plane.namespace(t, "few")
	before := plane.writes(t, controllerAccount)
	controller := plane.controller(t, "few-a", "--keep-templates", "2")
	name := func(number int) string { return fmt.Sprintf("pod-%02d", number) }
	each(most+1, func(number int) {
		size := fmt.Sprint(256 * (number + 1))
		if _, err := plane.CoreV1().Pods(namespace).Create(plane.Context,
			hamiPod(namespace, name(number), map[string]string{"gpumem": size, "gpucores": "5"}), meta.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	refused := func() (found []string) {
		for number := range most + 1 {
			if len(plane.notes(t, namespace, name(number))) > 0 {
				found = append(found, name(number))
			}
		}
		return found
	}
	until(t, "one is refused", func() (string, error) {
		found, told := plane.templates(t, namespace), refused()
		if len(found) == most && len(told) == 1 {
			return "", nil
		}
		return fmt.Sprintf("%d templates, refused %v", len(found), told), nil
	})
	plane.said(t, namespace, refused()[0], "DivvyTooManyTemplates")
	// A template for each of 64 pods and events for one: a namespace that is full is no reason to go on trying.
	if writes := plane.writes(t, controllerAccount) - before; writes > 3*(most+1) {
		t.Errorf("the controller wrote %d times for %d pods", writes, most+1)
	}

	// One that a user has changed is the user's.
	var changed string
	for changed = range plane.templates(t, namespace) {
		break
	}
	object := plane.templates(t, namespace)[changed]
	object.Annotations = map[string]string{"mine": "now"}
	check[*dra.ResourceClaimTemplate](t)(plane.ResourceV1().ResourceClaimTemplates(namespace).Update(plane.Context, &object, meta.UpdateOptions{}))
	plane.template(t, namespace, "gpu-123mi", "123Mi", "100")
	if err := plane.CoreV1().Pods(namespace).DeleteCollection(plane.Context, meta.DeleteOptions{}, meta.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "what is ours goes", func() (string, error) {
		if found := plane.templates(t, namespace); len(found) != 2 {
			return fmt.Sprintf("%d templates", len(found)), nil
		}
		return "", nil
	})
	found := plane.templates(t, namespace)
	if _, is := found[changed]; !is || found["gpu-123mi"].Name == "" {
		t.Errorf("left: %v", found)
	}
	if err := controller.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := controller.Wait(); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	lease := check[string](t)(plane.holder())
	if lease != "" {
		t.Errorf("the lease is still %s's", lease)
	}
}

// holder is the name of the controller that has the lease.
func (plane *Plane) holder() (string, error) {
	lease, err := plane.CoordinationV1().Leases(system).Get(plane.Context, "divvy-controller", meta.GetOptions{})
	if errors.IsNotFound(err) {
		return "", nil
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name, nil
}

// controllersTakeTurns: the one that holds the lease writes, and is killed or stopped; another takes over, and no two write in the
// same time. One that comes back writes nothing before it has the lease again.
func controllersTakeTurns(t *testing.T, plane *Plane) {
	needs136(t, "MutatingAdmissionPolicy that is on")
	namespace := plane.namespace(t, "turns")
	begun := len(plane.audited(t, controllerAccount, "resourceclaimtemplates", true))
	running := map[string]*exec.Cmd{}
	for _, name := range []string{"turns-a", "turns-b"} {
		running[name] = plane.controller(t, name)
	}
	held := func(but string) (found string) {
		until(t, "a lease", func() (string, error) {
			holder, err := plane.holder()
			if found = holder; running[holder] == nil || holder == but {
				return fmt.Sprintf("held by %q", holder), err
			}
			return "", err
		})
		return found
	}
	size := 0
	made := func() {
		t.Helper()
		size++
		memory := fmt.Sprint(256 * size)
		plane.run(t, hamiPod(namespace, fmt.Sprintf("pod-%d", size), map[string]string{"gpumem": memory, "gpucores": "5"}))
		until(t, "template of "+memory, func() (string, error) {
			if _, is := plane.templates(t, namespace)["gpu-"+memory+"mi-5c"]; !is {
				return "none", nil
			}
			return "", nil
		})
	}
	first := held("")
	made()
	_ = running[first].Process.Kill()
	_ = running[first].Wait()
	start := time.Now()
	next := held(first)
	t.Logf("%s has the lease %v after %s was killed", next, time.Since(start), first)
	made()

	// The one that was killed starts again, and the holder is stopped, as by a machine that hangs.
	running[first] = plane.controller(t, first)
	stopped := running[next].Process
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	last := held(next)
	made()
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	made()
	made()
	if holder, err := plane.holder(); err != nil || holder != last {
		t.Errorf("held by %s %v, not %s", holder, err, last)
	}
	// By the credential of each process: the writes of one are not among those of another.
	var turns []string
	for _, line := range plane.audited(t, controllerAccount, "resourceclaimtemplates", true)[begun:] {
		var event struct {
			User struct{ Extra map[string][]string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		credential := fmt.Sprint(event.User.Extra["authentication.kubernetes.io/credential-id"])
		if len(turns) == 0 || turns[len(turns)-1] != credential {
			turns = append(turns, credential)
		}
	}
	if len(turns) != 3 {
		t.Errorf("turns of writers: %v", turns)
	}
}
