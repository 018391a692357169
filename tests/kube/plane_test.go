// Package kube tests what Divvy has for Kubernetes against Kubernetes itself, in one process: its API server with etcd,
// its scheduler, its controller of claims and the kubelet's manager of devices. GPUs are simulated.
//
// Promises: nothing is fetched or built beside the module's pinned dependencies; everything it starts ends with it.
package kube

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/uuid"
	audit "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// Kubernetes' own words are many, and none of them is a test's.
func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// Plane is a control plane that runs.
type Plane struct {
	kubernetes.Interface
	Config  *rest.Config
	Dynamic dynamic.Interface
	Context context.Context
	// audit is the API server's own record of what accounts of ours wrote, and of what agents read.
	audit string
}

// auditPolicy has the API server write down what accounts of ours change, and what agents read, and nothing else.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:divvy-system:divvy-agent"]
- level: Metadata
  users: ["system:serviceaccount:divvy-system:divvy-controller"]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// writes is how often an account of ours has written so far, as the API server counts: requests without effect too, leases not.
func (plane *Plane) writes(t *testing.T, account string) int {
	t.Helper()
	return len(plane.audited(t, account, "leases", false))
}

// audited are the lines about what an account of ours wrote, of a resource or of all but that.
func (plane *Plane) audited(t *testing.T, account, resource string, only bool) []string {
	t.Helper()
	var found []string
	for _, line := range plane.record(t, account) {
		is := strings.Contains(line, `"resource":"`+resource+`"`)
		isRead := strings.Contains(line, `"verb":"get"`) || strings.Contains(line, `"verb":"list"`) || strings.Contains(line, `"verb":"watch"`)
		if is == only && !isRead {
			found = append(found, line)
		}
	}
	return found
}

// record are all lines about an account of ours.
func (plane *Plane) record(t *testing.T, account string) []string {
	t.Helper()
	record, err := os.ReadFile(plane.audit)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(record)) {
		if strings.Contains(line, `"username":"system:serviceaccount:`+system+":"+account+`"`) {
			found = append(found, line)
		}
	}
	return found
}

// calls are how often a node's agent has called the API server so far, by verb and resource; a watch is one call, however long it is.
func (plane *Plane) calls(t *testing.T, node string) (by map[string]int, all int) {
	t.Helper()
	by = map[string]int{}
	for _, line := range plane.record(t, agentAccount) {
		var event audit.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		names := event.User.Extra["authentication.kubernetes.io/node-name"]
		isEnd := event.Verb == "watch" && event.Stage == audit.StageResponseComplete
		if len(names) != 1 || names[0] != node || isEnd {
			continue
		}
		resource := ""
		if event.ObjectRef != nil {
			resource = " " + event.ObjectRef.Resource
		}
		by[event.Verb+resource]++
		all++
	}
	return by, all
}

// startPlane starts a control plane that ends with the test.
func startPlane(t *testing.T) *Plane {
	t.Helper()
	storage, audit := stored(t), filepath.Join(t.TempDir(), "audit.log")
	server := served(t, storage, audit)
	t.Cleanup(server.TearDownFn)
	plane := planeOf(t, server.ClientConfig, audit)
	plane.startScheduler(t, plane.Context)
	plane.startClaims(t)
	return plane
}

// stored is an etcd of the test's own.
func stored(t *testing.T) *storagebackend.Config {
	t.Helper()
	etcd := testserver.RunEtcd(t, nil)
	storage := storagebackend.NewDefaultConfig(path.Join(string(uuid.NewUUID()), "registry"), nil)
	storage.Transport.ServerList = etcd.Endpoints()
	return storage
}

// served starts an API server on it.
func served(t *testing.T, storage *storagebackend.Config, audit string, flags ...string) *apiserver.TestServer {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return apiserver.StartTestServerOrDie(t, apiserver.NewDefaultTestServerOptions(), append([]string{
		// Nobody answers for the service `kubernetes` here.
		"--endpoint-reconciler-type=none",
		// Nobody makes each namespace's own service account here, or takes a new node's taint away when it is ready.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + audit,
	}, append(gates, flags...)...), storage)
}

// planeOf is a control plane without its controllers.
func planeOf(t *testing.T, config *rest.Config, audit string) *Plane {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &Plane{
		Interface: kubernetes.NewForConfigOrDie(config),
		Config:    config,
		Dynamic:   dynamic.NewForConfigOrDie(config),
		Context:   ctx,
		audit:     audit,
	}
}

// startScheduler starts one that ends with ctx.
func (plane *Plane) startScheduler(t *testing.T, ctx context.Context) {
	t.Helper()
	informers := schedulersInformers(plane)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: plane.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	broadcaster.StartRecordingToSink(ctx.Done())
	it, err := scheduler.New(ctx, plane, informers, nil,
		profile.NewRecorderFactory(broadcaster), scheduler.WithKubeConfig(plane.Config),
		scheduler.WithPodMaxBackoffSeconds(1))
	if err != nil {
		t.Fatalf("scheduler: %v", err)
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := it.WaitForHandlersSync(ctx); err != nil {
		t.Fatalf("scheduler: %v", err)
	}
	go it.Run(ctx)
}

// startClaims starts the controller that makes claims of templates.
func (plane *Plane) startClaims(t *testing.T) {
	t.Helper()
	informers := informers.NewSharedInformerFactory(plane, 0)
	it, err := newClaimController(plane, informers)
	if err != nil {
		t.Fatalf("controller of claims: %v", err)
	}
	informers.Start(plane.Context.Done())
	go it.Run(plane.Context, 5)
}

// TestCluster holds what shares a control plane: one takes seconds to start.
func TestCluster(t *testing.T) {
	plane := startPlane(t)
	plane.apply(t, rendered(t, base))
	plane.apply(t, rendered(t, pluginBase))
	for _, one := range []struct {
		name string
		test func(*testing.T, *Plane)
	}{
		{"three_shares_fit_a_card_and_the_fourth_waits", sharesOfACard},
		{"a_pod_that_waits_is_explained", explained},
		{"an_agent_writes_slices_of_its_own_node_alone", ownNodeOnly},
		{"an_agent_may_not_look_around", agentsRights},
		{"nothing_of_others_is_changed_or_denied", attacked},
		{"odd_objects_of_one_namespace_stop_nothing", oddObjects},
		{"a_claim_beyond_counting_leaves_the_cards_book_true", beyondCounting},
		{"a_quota_of_hamis_is_not_passed_silently", quotaOfHAMi},
		{"a_device_plugin_may_not_look_around", pluginsRights},
		{"agent_and_plugin_are_unprivileged", unprivileged},
		{"the_kubelet_prepares_by_a_reference_driver", aReferenceDriver},
		{"a_claim_is_a_tenant_of_the_daemon_until_its_pod_ends", ourAgent},
		{"claims_of_all_shapes_are_prepared", shapesOfClaims},
		{"a_quota_holds_a_namespace_to_a_class", heldToAClass},
		{"a_partitioned_card_is_its_instances_and_each_is_shared", instances},
		{"a_kubelet_that_was_restarted_asks_again", kubeletForgets},
		{"a_daemon_that_is_killed_loses_no_claim", daemonDies},
		{"a_card_that_is_given_twice_is_not_prepared_twice", givenTwice},
		{"an_agent_that_was_stopped_in_a_call_undoes_nothing", stoppedAgent},
		{"more_memory_is_sold_than_a_card_has", soldBeyond},
		{"forty_pods_of_a_node_are_prepared", fortyPods},
		{"forty_pods_of_a_node_have_shares_by_sizes", sharesBySizes},
		{"a_running_pods_share_is_resized", resizedPod},
		{"above_a_claim_needs_a_right", aboveNeedsARight},
		{"an_agent_tells_of_sizes_of_its_own_node_alone", ownSizesOnly},
		{"metrics_name_the_pods_and_their_status_says_how_the_card_is", metricsOfPods},
		{"pods_written_for_hami_get_claims", podsOfHAMi},
		{"the_api_server_takes_all_that_convert_writes", convertedCorpus},
		{"a_controller_writes_templates_of_its_own_alone", ownTemplatesOnly},
		{"two_lines_become_a_tenant_by_the_controller", controllerMakesTemplates},
		{"a_namespace_has_sixty_four_templates_while_they_are_named", templatesAreFew},
		{"of_two_controllers_one_writes", controllersTakeTurns},
		{"a_pod_of_higher_priority_gets_a_share", podsArePreempted},
		{"many_nodes_are_filled_and_no_card_beyond", atScale},
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, plane) })
	}
}
