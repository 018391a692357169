//! Values and combinations that no manifest of the corpus has.

use super::{codes, converted, made, pod, pod_with};
use crate::convert::{self, Options};
use crate::document::Outcome;
use crate::note::Level;

fn refused(text: &str, code: &str) {
    let (outcome, codes) = codes(text);
    assert!(outcome == Outcome::Refused && codes.contains(&code), "{codes:?} for {code}: {text}");
    assert_eq!(converted(text).text, "", "{text}");
}

const SHARE: &str = "nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192\nnvidia.com/gpucores: 30";

#[test]
fn quantities_that_cannot_be_are_refused() {
    for line in [
        "nvidia.com/gpumem: 0",
        "nvidia.com/gpumem: -8192",
        "nvidia.com/gpumem: 8Gi",
        "nvidia.com/gpumem: 8GiB",
        "nvidia.com/gpumem: 1.5",
        "nvidia.com/gpumem: 500m",
        "nvidia.com/gpumem: 99999999999",
        "nvidia.com/gpumem: 9999999999999999999999",
        "nvidia.com/gpumem: 010",
        "nvidia.com/gpumem: 0x2000",
        "nvidia.com/gpumem: 8_192",
        "nvidia.com/gpumem:",
        "nvidia.com/gpumem: ~",
        "nvidia.com/gpumem: true",
        "nvidia.com/gpumem: [8192]",
        "nvidia.com/gpumem: \"\"",
        "nvidia.com/gpumem: \" 8192\"",
        "nvidia.com/gpucores: 101",
        "nvidia.com/gpucores: 30%",
        "nvidia.com/gpumem-percentage: 0",
        "nvidia.com/gpumem-percentage: 101",
    ] {
        refused(&pod(&format!("nvidia.com/gpu: 1\n{line}")), "bad-value");
    }
    refused(&pod("nvidia.com/gpu: -1"), "bad-value");
    refused(&pod("nvidia.com/gpu: 33"), "too-many");
    refused(&pod("nvidia.com/gpu: 1\nnvidia.com/gpumem-percentage: 50"), "needs-card-memory");
}

#[test]
fn a_refusal_names_the_value_and_its_line() {
    let result = converted(&pod("nvidia.com/gpu: 1\nnvidia.com/gpumem: 8Gi"));
    let note = &result.documents[0].notes[0];
    assert_eq!(note.line, 11, "{note:?}");
    assert_eq!(note.container.as_deref(), Some("c"));
    assert!(note.message.contains("8589934592 MiB") && note.message.contains("8192"), "{note:?}");
}

#[test]
fn what_is_perhaps_mistyped_is_refused() {
    for line in [
        "nvidia.com/gpumemory: 8192",
        "nvidia.com/gpumems: 8192",
        "nvidia.com/GPUmem: 8192",
        "nvidia.com.gpumem: 8192",
        "nvidia.io/gpumem: 8192",
        "nvidia/gpumem: 8192",
        "gpumem: 8192",
        "nvidia.com/cores: 30",
        "hami.io/gpu: 1",
        "\" nvidia.com/gpumem\": 8192",
    ] {
        refused(&pod(&format!("nvidia.com/gpu: 1\n{line}")), "unknown-key");
        refused(&pod(line), "unknown-key");
    }
    for line in
        ["nvidia.com/use-gputypes: A100", "nvidia.com/nouse_gpuuuid: x", "hami.io/policy: x"]
    {
        let line = line.replace("nouse_gpuuuid", "nouse-gpuuuids");
        refused(&pod_with(&line, SHARE, ""), "unknown-key");
    }
    // Others' resources stay.
    let text = made(&pod(&format!("{SHARE}\nrdma/hca: 1\nexample.com/fpga: 2")));
    assert!(text.contains("rdma/hca: 1") && text.contains("example.com/fpga: 2"), "{text}");
}

#[test]
fn contradictions_are_refused() {
    let requests = "resources:\n  requests: {nvidia.com/gpumem: 4096}\n  limits:";
    let differing =
        pod(SHARE).replace("resources:\n      limits:", &requests.replace('\n', "\n    "));
    refused(&differing, "contradiction");
    for limits in [
        "nvidia.com/gpu: 0\nnvidia.com/gpumem: 8192",
        "nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192\nnvidia.com/gpumem-percentage: 50",
        "nvidia.com/priority: 1",
    ] {
        refused(&pod(limits), "contradiction");
    }
    let env = "env:\n- {name: CUDA_TASK_PRIORITY, value: \"0\"}";
    refused(&pod_with("", &format!("{SHARE}\nnvidia.com/priority: 1"), env), "contradiction");
}

#[test]
fn nobody_is_left_without_a_limit() {
    let privileged = "securityContext: {privileged: true}";
    refused(&pod_with("", SHARE, privileged), "privileged");
    refused(&pod(SHARE).replace("spec:\n", "spec:\n  nodeName: n1\n"), "node-name");
    let beside = "  - name: other\n    env:\n    - {name: NVIDIA_VISIBLE_DEVICES, value: all}\n";
    refused(&(pod(SHARE) + beside), "without-limit");
    assert!(made(&(pod(SHARE) + &beside.replace("all", "none"))).contains("value: none"));
    let whole = "env:\n- {name: CUDA_DISABLE_CONTROL, value: \"true\"}";
    refused(&pod_with("", SHARE, whole), "limits-off");
    refused(
        &pod_with("", SHARE, "env:\n- {name: CUDA_DEVICE_SM_LIMIT, value: \"90\"}"),
        "limit-in-environment",
    );
    let from =
        "env:\n- name: CUDA_OVERSUBSCRIBE\n  valueFrom: {fieldRef: {fieldPath: metadata.name}}";
    refused(&pod_with("", SHARE, from), "bad-value");
    let at_pod = pod(SHARE) + "  resources: {limits: {nvidia.com/gpu: 1}}\n";
    refused(&at_pod, "unknown-key");
    refused(
        &pod(SHARE).replace("metadata:\n", "metadata:\n  labels: {hami.io/webhook: ignore}\n"),
        "webhook-ignored",
    );
}

#[test]
fn gpus_where_no_pod_is_known_are_refused() {
    for text in [
        "apiVersion: example.com/v1\nkind: Train\nspec: {worker: {resources: {limits: {nvidia.com/gpu: 1}}}}\n",
        "apiVersion: serving.knative.dev/v1\nkind: Service\nspec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpumem: 1}}}]}}}\n",
        "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: {name: c, resources: {limits: {nvidia.com/gpu: 1}}}}}}\n",
        "apiVersion: v1\nkind: Pod\nspec: {ephemeralContainers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n",
    ] {
        refused(text, "unknown-kind");
    }
    for (group, kind, spec, field) in [
        (
            "serving.knative.dev/v1",
            "Service",
            "template: {spec: {containers: [",
            "Knative takes no resourceClaims",
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            "predictor: {model: {containers: [",
            "spec.predictor.resourceClaims",
        ),
    ] {
        let text = format!(
            "apiVersion: {group}\nkind: {kind}\nspec: {{{spec}{{resources: {{limits: {{nvidia.com/gpumem: 8192}}}}}}]}}}}}}\n"
        );
        refused(&text, "unknown-kind");
        let note = converted(&text).documents.remove(0).notes.remove(0);
        assert!(note.message.contains(field) && !note.message.contains(" a Inf"), "{note:?}");
    }
    let range = "apiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Container, default: {nvidia.com/gpumem: 1}}]}\n";
    refused(range, "quota-sum");
    assert_eq!(codes(&range.replace("nvidia.com/gpumem", "cpu")).0, Outcome::Passed);
    refused("just: [a, list]\nof: {limits: {huawei.com/Ascend910B: 1}}\n", "other-maker");
    refused("- a\n- b\n", "form");
}

#[test]
fn others_of_a_file_are_written_beside_a_refused_document() {
    let result = converted(&format!("{}---\n{}", pod("nvidia.com/gpumem: 0"), pod(SHARE)));
    let outcomes: Vec<Outcome> = result.documents.iter().map(|document| document.outcome).collect();
    assert_eq!(outcomes, [Outcome::Refused, Outcome::Unchanged]);
    assert_eq!(result.text.matches("kind: Pod").count(), 1);
}

#[test]
fn a_container_that_asks_for_nothing_has_no_claim() {
    let (outcome, codes) = codes(&pod("nvidia.com/gpu: 0\ncpu: 1"));
    assert_eq!((outcome, &codes[..]), (Outcome::Converted, &["no-gpu"][..]));
    assert!(!made(&pod("nvidia.com/gpu: 0\ncpu: 1")).contains("claims"));
}

#[test]
fn what_a_claim_says_beyond_capacity_is_in_its_configuration() {
    let env = "env:\n- {name: CUDA_OVERSUBSCRIBE, value: \"true\"}\n- {name: KEPT, value: x}";
    let text = made(&pod_with("", &format!("{SHARE}\nnvidia.com/priority: 1"), env));
    for line in ["kind: Share", "priority: low", "oversubscribe: true", "name: KEPT"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("CUDA_OVERSUBSCRIBE"), "{text}");
}

#[test]
fn annotations_are_read_as_hami_reads_them() {
    let bad = [
        "nvidia.com/use-gpuuuid: GPU-123456",
        "nvidia.com/use-gputype: \"A100\\\") || true\"",
        "nvidia.com/use-gputype: \"\"",
        "nvidia.com/numa-bind: \"maybe\"",
        "nvidia.com/vgpu-mode: soft",
        "hami.io/node-scheduler-policy: random",
        "hami.io/gpu-scheduler-policy: \"binpack,random\"",
    ];
    for line in bad {
        refused(&pod_with(line, SHARE, ""), "bad-value");
    }
    refused(&pod_with("nvidia.com/vgpu-mode: mps", SHARE, ""), "mps");
    let upper = made(&pod_with("nvidia.com/use-gputype: \"H100, a10\"", SHARE, ""));
    assert!(
        upper.contains(r#"contains("h100") ||"#) && upper.contains(r#"contains("a10")"#),
        "{upper}"
    );
}

/// Codes of the infos of the only document, each with its message.
fn infos(text: &str) -> Vec<(&'static str, String)> {
    let notes = converted(text).documents.remove(0).notes;
    notes
        .into_iter()
        .filter(|note| note.level == Level::Info)
        .map(|it| (it.code, it.message))
        .collect()
}

#[test]
fn a_variable_that_is_gone_is_told_of() {
    for (name, value, code) in [
        ("CUDA_OVERSUBSCRIBE", "true", "in-claim"),
        ("CUDA_OVERSUBSCRIBE", "false", "removed"),
        ("GPU_CORE_UTILIZATION_POLICY", "disable", "in-claim"),
        ("GPU_CORE_UTILIZATION_POLICY", "force", "removed"),
        ("CUDA_TASK_PRIORITY", "1", "in-claim"),
        ("CUDA_DISABLE_CONTROL", "false", "removed"),
    ] {
        let env = format!("env:\n- {{name: {name}, value: \"{value}\"}}");
        let told = infos(&pod_with("", SHARE, &env));
        let is_told = |(of, message): &(&str, String)| {
            *of == code && message.starts_with(&format!("{name}={value} is gone"))
        };
        assert!(told.iter().any(is_told), "{name}: {told:?}");
        let idle = infos(&pod_with("", "cpu: 1", &env));
        assert!(
            idle.iter()
                .any(|(of, message)| *of == "removed" && message.ends_with("asks for no GPU")),
            "{idle:?}"
        );
    }
    let whole = "env:\n- {name: CUDA_DISABLE_CONTROL, value: \"true\"}";
    let told = infos(&pod_with("", "nvidia.com/gpu: 1", whole));
    assert!(
        told.iter().any(|(_, message)| message.starts_with("CUDA_DISABLE_CONTROL=true is gone")),
        "{told:?}"
    );
}

#[test]
fn what_is_told_is_told_once_and_of_what_is_written() {
    let text = pod(SHARE).replace("limits:", "requests:");
    let notes = converted(&text).documents.remove(0).notes;
    let of: Vec<_> = notes.iter().filter(|note| note.code == "requests-only").collect();
    let [one] = &of[..] else { panic!("{notes:?}") };
    assert!(
        one.message.starts_with("nvidia.com/gpu, nvidia.com/gpumem, nvidia.com/gpucores: "),
        "{one:?}"
    );
    let mutex = "hami.io/gpu-scheduler-policy: mutex\nnvidia.com/vgpu-mode: mps";
    assert_eq!(codes(&pod_with(mutex, "nvidia.com/gpumem: 8192", "")).1, ["mps"]);
}

#[test]
fn a_job_of_volcanos_names_its_scheduler() {
    let job = |job: &str, task: &str| {
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec:\n{job}  tasks:\n  - template:\n      spec:\n{task}        containers:\n        - name: c\n          resources: {{limits: {{nvidia.com/gpumem: 8192, nvidia.com/gpucores: 30}}}}\n"
        )
    };
    let (none, hami, other) = ("", "schedulerName: hami-scheduler\n", "schedulerName: volcano\n");
    let stock = "schedulerName: default-scheduler\n";
    let at = |pad: &str, line: &str| {
        if line.is_empty() { String::new() } else { format!("{pad}{line}") }
    };
    let job = |of_job: &str, of_task: &str| job(&at("  ", of_job), &at("        ", of_task));
    let warned = (Outcome::Unchanged, vec!["other-scheduler"]);
    for text in [job(none, none), job(other, none), job(stock, other)] {
        assert_eq!(codes(&text), warned, "{text}");
    }
    for text in [job(stock, none), job(other, stock)] {
        assert_eq!(codes(&text), (Outcome::Unchanged, vec![]), "{text}");
    }
    let text = job(hami, none);
    assert_eq!(codes(&text), (Outcome::Converted, vec![]));
    assert!(made(&text).contains("schedulerName: default-scheduler"), "{}", made(&text));
    assert_eq!(codes(&job(other, hami)), (Outcome::Converted, vec!["other-scheduler"]));
}

#[test]
fn an_instance_is_asked_for_by_its_profile() {
    let text = made(&pod("nvidia.com/mig-1g.10gb.me: 2"));
    let attribute = "device.attributes[\"gpu.divvy.dev\"].profile";
    assert!(
        text.contains(&format!("'has({attribute}) && {attribute} == \"1g.10gb+me\"'")),
        "{text}"
    );
    assert!(text.contains("count: 2") && !text.contains("capacity:"), "{text}");
    let typed = made(&pod_with("nvidia.com/use-gputype: H100", "nvidia.com/mig-1g.10gb: 1", ""));
    assert_eq!(typed.matches("- cel:").count(), 2, "{typed}");
    let bad = |lines: &str, code: &str| refused(&pod(lines), code);
    bad("nvidia.com/mig-1g.10gb: 1\nnvidia.com/gpu: 1", "contradiction");
    bad("nvidia.com/mig-1g.10gb: 1\nnvidia.com/gpumem: 8192", "contradiction");
    bad("nvidia.com/mig-1g.10gb: 1\nnvidia.com/mig-2g.20gb: 1", "contradiction");
    bad("nvidia.com/mig-1g.10gb: 33", "too-many");
    bad("nvidia.com/mig-1g.10gb: 1.5", "bad-value");
    bad("nvidia.com/mig-small: 1", "bad-value");
    assert_eq!(codes(&pod("nvidia.com/mig-1g.10gb: 0")).1, ["no-gpu"]);
}

#[test]
fn memory_in_which_no_context_fits_is_told_of() {
    for (mib, is_told) in [(1, true), (500, true), (599, true), (600, false)] {
        let told = codes(&pod(&format!("nvidia.com/gpumem: {mib}\nnvidia.com/gpucores: 10"))).1;
        assert_eq!(told.contains(&"below-context"), is_told, "{mib}: {told:?}");
    }
}

#[test]
fn a_cluster_may_say_what_a_container_leaves_open() {
    let options =
        Options { default_memory_mib: Some(4096), default_cores: Some(20), ..Options::default() };
    let named = |limits: &str, options: Options| {
        let result = convert::file(pod(limits).as_bytes(), options).unwrap();
        let line = result.text.lines().find(|line| line.starts_with("  name: gpu")).unwrap();
        (line.trim().to_owned(), result.documents[0].outcome)
    };
    let (converted, unchanged) = (Outcome::Converted, Outcome::Unchanged);
    for (limits, name, outcome) in [
        ("nvidia.com/gpu: 1", "gpu-4096mi-20c", converted),
        ("nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192", "gpu-8192mi-20c", converted),
        ("nvidia.com/gpu: 1\nnvidia.com/gpucores: 30", "gpu-4096mi-30c", converted),
        ("nvidia.com/gpu: 1\nnvidia.com/gpumem-percentage: 100", "gpu-whole-20c", converted),
        (SHARE, "gpu-8192mi-30c", unchanged),
    ] {
        assert_eq!(named(limits, options), (format!("name: {name}"), outcome), "{limits}");
    }
    assert!(named("nvidia.com/mig-1g.10gb: 1", options).0.starts_with("name: gpu-whole-"));
    let memory = Options { default_cores: None, ..options };
    assert_eq!(named("nvidia.com/gpu: 1", memory).0, "name: gpu-4096mi-1c-burst");
    assert_eq!(named("nvidia.com/gpu: 1", Options::default()).0, "name: gpu-whole");
}
