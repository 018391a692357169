//! Parts of cards however they are asked for: other systems' keys, keys out of place, and what only reads like one.

use proptest::prelude::*;

use super::{codes, converted, made, pod, pod_with};
use crate::convert::{self, Options};
use crate::document::Outcome;
use crate::note::Level;

const SHARE: &str = "nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192\nnvidia.com/gpucores: 30";
const WHOLE: &str = "nvidia.com/gpu: 1";

pub(super) fn is_refused(text: &str, code: &str) {
    let (outcome, codes) = codes(text);
    assert!(outcome == Outcome::Refused && codes.contains(&code), "{codes:?} for {code}: {text}");
}

pub(super) fn is_warned(text: &str, code: &str) {
    let (outcome, codes) = codes(text);
    assert!(outcome != Outcome::Refused && codes.contains(&code), "{codes:?} for {code}: {text}");
}

/// The expression of the only selector.
fn selector(annotation: &str) -> String {
    let text = made(&pod_with(annotation, SHARE, ""));
    let line =
        text.lines().find(|line| line.contains("expression: ")).unwrap_or_else(|| panic!("{text}"));
    line.trim().to_owned()
}

#[test]
fn a_prefix_of_hamis_comes_off_a_type_once() {
    for (word, part) in [
        ("NVIDIA-Tesla T4", "tesla t4"),
        ("nvidia-tesla t4", "tesla t4"),
        ("Tesla T4", "tesla t4"),
        ("NVIDIA-NVIDIA A100-PCIE-40GB", "nvidia a100-pcie-40gb"),
        ("NVIDIA A100-PCIE-40GB", "nvidia a100-pcie-40gb"),
        ("NVIDIA-A10", "a10"),
        ("PCIE-NVIDIA-", "pcie-nvidia-"),
    ] {
        let wanted = format!("productName.lowerAscii().contains(\"{part}\")");
        for (key, begin) in [("use", "expression: 'device"), ("nouse", "expression: '!(device")] {
            let line = selector(&format!("nvidia.com/{key}-gputype: {word}"));
            assert!(line.contains(&wanted) && line.starts_with(begin), "{word}: {line}");
        }
    }
    let two = selector("nvidia.com/nouse-gputype: \"NVIDIA-Tesla T4, NVIDIA-L4\"");
    assert!(
        two.contains("contains(\"tesla t4\") || ") && two.contains("contains(\"l4\"))"),
        "{two}"
    );
    // Every card of NVIDIA's has these words.
    for word in ["NVIDIA", "nvidia-", "VIDIA"] {
        let text = made(&pod_with(&format!("nvidia.com/use-gputype: {word}"), SHARE, ""));
        assert!(!text.contains("selectors"), "{text}");
        is_refused(&pod_with(&format!("nvidia.com/nouse-gputype: {word}"), SHARE, ""), "bad-value");
    }
}

#[test]
fn cards_and_instances_are_chosen_by_uuid() {
    let card = "GPU-6F1C2A90-11aa-4be2-9d7e-0c55d1e0a7b3";
    let line = selector(&format!("nvidia.com/nouse-gpuuuid: {card}"));
    let low = card.replace("6F1C2A90", "6f1c2a90");
    for part in [format!(".uuid in [\"{low}\"]"), format!(".parentUUID in [\"{low}\"]")] {
        assert!(line.contains(&part), "{line}");
    }
    let line = selector(&format!("nvidia.com/use-gpuuuid: {}", card.replace("GPU", "MIG")));
    assert!(line.contains("uuid in [\"MIG-6f1c") && !line.contains("parent"), "{line}");
    is_refused(
        &pod_with("nvidia.com/use-gpuuuid: 6f1c2a90-11aa-4be2-9d7e-0c55d1e0a7b3", SHARE, ""),
        "bad-value",
    );
}

#[test]
fn a_part_at_the_pod_is_refused_where_the_container_would_have_more() {
    for line in [
        "nvidia.com/gpumem: \"4096\"",
        "nvidia.com/gpucores: \"30\"",
        "nvidia.com/gpumem-percentage: \"50\"",
        "volcano.sh/vgpu-memory: \"4096\"",
        "tencent.com/vcuda-memory: \"16\"",
    ] {
        is_refused(&pod_with(line, WHOLE, ""), "misplaced");
        is_refused(
            &pod(WHOLE).replace("  name: p\n", &format!("  name: p\n  labels:\n    {line}\n")),
            "misplaced",
        );
        is_warned(&pod_with(line, SHARE, ""), "out-of-place");
        is_warned(&pod_with(line, "cpu: 1", ""), "out-of-place");
    }
    is_warned(&pod_with("nvidia.com/priority: \"1\"", WHOLE, ""), "out-of-place");
    // At the object around it nothing reads it either.
    let note = converted(&pod_with("nvidia.com/gpumem: \"4096\"", WHOLE, ""))
        .documents
        .remove(0)
        .notes
        .remove(0);
    assert_eq!(
        note.path.as_deref(),
        Some("metadata.annotations[\"nvidia.com/gpumem\"]"),
        "{note:?}"
    );
    assert!(note.message.starts_with("nvidia.com/gpumem: 4096 stands in"), "{note:?}");
    let job: String = pod(WHOLE).lines().skip(4).map(|line| format!("      {line}\n")).collect();
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n  annotations: {{nvidia.com/gpumem: \"4096\"}}\nspec:\n  template:\n    {}",
        job.trim_start()
    );
    is_warned(&job, "part-unread");
}

#[test]
fn what_reads_like_a_part_beside_a_whole_card_is_told_of() {
    for annotation in [
        "example.com/gpu-memory: \"4096\"",
        "example.com/vgpu-memory: 4Gi",
        "nvidia.com/gpu-memory: 4Gi",
        "gpumem: \"4096\"",
        "team.example/vram-limit: 4Gi",
        "gpu.share: \"0.5\"",
    ] {
        is_warned(&pod_with(annotation, WHOLE, ""), "part-unread");
        let (_, told) = codes(&pod_with(annotation, SHARE, ""));
        assert!(!told.contains(&"part-unread"), "{told:?}");
    }
    for env in [
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "GPU_MEMORY_LIMIT",
        "DIVVY_MEMORY",
        "DIVVY_COMPUTE_0",
    ] {
        let env = format!("env:\n- {{name: {env}, value: \"0=4G\"}}");
        is_warned(&pod_with("", WHOLE, &env), "part-unread");
    }
    is_warned(&pod(&format!("{WHOLE}\nexample.com/vgpu-memory: 4096")), "part-unread");
    // On one line with the container, as JSON has it.
    let flow = |pod: &str, container: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{pod}containers: [{{name: c, resources: {{{container}limits: {{nvidia.com/gpu: 1}}}}}}]}}}}\n"
        )
    };
    is_warned(&flow("", "nvidia.com/gpumem: 4096, "), "part-unread");
    is_warned(&flow("overhead: {nvidia.com/gpumem: 4096}, ", ""), "part-unread");
    is_warned(&flow("nodeSelector: {nvidia.com/gpumem: x}, ", ""), "in-text");
    assert_eq!(
        codes(&flow("nodeSelector: {nvidia.com/gpu.memory: x}, ", "")).1,
        Vec::<&str>::new()
    );
    is_warned(&pod_with("hami: '{\"gpumem\": 4096}'", WHOLE, ""), "in-text");
    is_warned(
        &pod_with("", WHOLE, "command: [sh, -c, \"CUDA_DEVICE_MEMORY_LIMIT=4g exec train\"]"),
        "in-text",
    );
    for text in [
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  pod.yaml: |\n    limits: {nvidia.com/gpumem: 4096}\n",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  CUDA_DEVICE_MEMORY_LIMIT: 4g\n",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\npatches:\n- patch: |-\n    - op: add\n      path: /spec/limits/nvidia.com~1gpumem\n      value: 4096\n",
        "apiVersion: example.com/v1\nkind: Train\nspec: {worker: {nvidia.com/gpucores: 30}}\n",
    ] {
        is_warned(text, "in-text");
        assert_eq!(made(text), text, "it is written as it was");
    }
    is_refused(
        "resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096}}\n",
        "unknown-kind",
    );
    is_refused(
        "kind: ResourceQuota\napiVersion: v1\nspec: {hard: {nvidia.com/gpumem: 4096}}\n",
        "unknown-key",
    );
    is_refused("- {op: add, path: /spec/nvidia.com~1gpumem, value: 1}\n", "form");
}

#[test]
fn keys_of_others_stay() {
    let labels = "  labels:\n    team.example/vgpu-tier: gold\n    example.com/hami.io-migrated: \"no\"\n    docs.hami.io.example/x: y\n    example.com/use-gputype: A100\n    numa-bind: \"1\"\n";
    let text = pod(&format!(
        "{SHARE}\nexample.com/vgpu-license: 1\nhami.example/x: 1\nnvidia.com/hostdev: 1\nvgpu.example/nvidia: 1"
    ));
    let env = "    env:\n    - {name: VGPU_LICENSE, value: x}\n    resources:";
    let text =
        text.replace("  name: p\n", &format!("  name: p\n{labels}")).replace("    resources:", env);
    let (outcome, told) = codes(&text);
    assert_eq!((outcome, told), (Outcome::Converted, vec![]), "{text}");
    let text = made(&text);
    for kept in [
        "vgpu-tier: gold",
        "hami.io-migrated: \"no\"",
        "docs.hami.io.example/x: y",
        "example.com/use-gputype: A100",
        "numa-bind: \"1\"",
        "example.com/vgpu-license: 1",
        "hami.example/x: 1",
        "nvidia.com/hostdev: 1",
        "vgpu.example/nvidia: 1",
        "name: VGPU_LICENSE",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    let alone = pod("example.com/vgpu-license: 1\nnvidia.com/hostdev: 1");
    assert_eq!((codes(&alone), made(&alone)), ((Outcome::Passed, vec![]), alone));
}

#[test]
fn amounts_of_other_systems_are_converted_in_their_units() {
    for (limits, name) in [
        (
            "volcano.sh/vgpu-number: 2\nvolcano.sh/vgpu-memory: 4096\nvolcano.sh/vgpu-cores: 30",
            "gpu-2x-4096mi-30c",
        ),
        ("tencent.com/vcuda-core: 30\ntencent.com/vcuda-memory: 16", "gpu-4096mi-30c"),
        ("tencent.com/vcuda-core: 200", "gpu-2x-whole-100c"),
        (
            "tke.cloud.tencent.com/qgpu-core: 30\ntke.cloud.tencent.com/qgpu-memory: 4",
            "gpu-4096mi-30c",
        ),
        ("aliyun.com/gpu-mem: 3\naliyun.com/gpu-core.percentage: 30", "gpu-3072mi-30c"),
        ("koordinator.sh/gpu-core: 50\nkoordinator.sh/gpu-memory: 16Gi", "gpu-16384mi-50c"),
        ("koordinator.sh/gpu: 100", "gpu-whole-100c"),
    ] {
        let text = pod(limits);
        is_warned(&text, "foreign");
        assert!(made(&text).contains(&format!("name: {name}\n")), "{}", made(&text));
    }
    for limits in [
        "nvshare.com/gpu: 1",
        "nvidia.com/gpu.shared: 1",
        "nvidia.com/gpu-10gb: 1",
        "aliyun.com/gpu-count: 2",
        "k8s.amazonaws.com/vgpu: 1",
        "koordinator.sh/gpu.shared: 2\nkoordinator.sh/gpu-core: 100",
    ] {
        is_refused(&pod(limits), "foreign-share");
    }
    for limits in [
        "tencent.com/vcuda-core: 150",
        "koordinator.sh/gpu-memory: 1",
        "tencent.com/vcuda-memory: 0",
        "aliyun.com/gpu-mem: 1.5",
        "nvidia.com/mig-1g.10gb.shared: 1",
        "aliyun.com/gpu-mem: 4096",
    ] {
        is_refused(&pod(limits), "bad-value");
    }
    is_refused(
        &pod("nvidia.com/gpu: 1\nnvidia.com/gpumem: 8192\nvolcano.sh/vgpu-memory: 4096"),
        "contradiction",
    );
    for limits in [
        "tencent.com/vcuda-core: 200\ntencent.com/vcuda-memory: 16",
        "koordinator.sh/gpu-core: 200\nkoordinator.sh/gpu-memory: 32Gi",
    ] {
        is_refused(&pod(limits), "contradiction");
    }
}

#[test]
fn a_part_that_stands_at_the_pod_goes_to_its_container() {
    let two = |annotations: &str| {
        pod_with(annotations, "cpu: 1", "") + "  - name: second\n    image: x\n"
    };
    let text = two("gpu-memory: \"4096\"");
    is_warned(&text, "foreign");
    let result = converted(&text);
    let share = &result.documents[0];
    assert!(result.text.contains("name: gpu-4096mi-1c-burst"), "{share:?}");
    let text = made(&two(
        "gpu-memory: \"4096\"\ngpu-fraction-container-name: second\ngpu-fraction-num-devices: \"2\"",
    ));
    assert!(
        text.contains("gpu-2x-4096mi") && text.find("name: second") < text.find("claims:"),
        "{text}"
    );
    // It is the memory of the one that has a card by its limits.
    assert!(made(&pod_with("gpu-memory: \"4096\"", WHOLE, "")).contains("gpu-4096mi"));
    let half = pod_with("gpu-fraction: \"0.3333\"", "cpu: 1", "");
    is_refused(&half, "needs-card-memory");
    let card = Options { card_bytes: Some(80 << 30), ..Options::default() };
    let text = convert::file(half.as_bytes(), card).unwrap().text;
    assert!(text.contains("memory: 27303Mi"), "{text}");
    for (annotations, code) in [
        ("gpu-memory: 4Gi", "bad-value"),
        ("gpu-fraction: \"1.5\"", "bad-value"),
        ("gpu-fraction: half", "bad-value"),
        ("gpu-fraction: \"0.5\"\ngpu-memory: \"4096\"", "bad-value"),
        ("gpu-fraction-num-devices: \"2\"", "contradiction"),
        ("gpu-memory: \"1\"\ngpu-fraction-container-name: none", "contradiction"),
        ("gpu-memory.limit: \"4096\"", "foreign-share"),
        ("run.ai/gpu-portion: \"0.5\"", "foreign-share"),
        ("tensor-fusion.ai/vram-limit: 4Gi", "foreign-share"),
    ] {
        is_refused(&pod_with(annotations, "cpu: 1", ""), code);
    }
    is_refused(&pod_with("gpu-memory: \"4096\"", SHARE, ""), "contradiction");
    // No system reads a label without a domain, nor what only begins so.
    for part in ["labels", "annotations"] {
        let key = if part == "labels" { "gpu-memory" } else { "gpu-memory-alert" };
        let text = pod("cpu: 1")
            .replace("  name: p\n", &format!("  name: p\n  {part}: {{{key}: high}}\n"));
        assert_eq!(codes(&text), (Outcome::Passed, vec![]), "{text}");
    }
}

/// Ways to ask for a part of a card beside `nvidia.com/gpu: 1`, each as lines of annotations, limits, and of the container.
fn part() -> impl Strategy<Value = (String, String, String)> {
    let key = prop_oneof![
        Just("nvidia.com/gpumem"),
        Just("nvidia.com/gpucores"),
        Just("nvidia.com/gpumem-percentage"),
        Just("volcano.sh/vgpu-memory"),
        Just("tencent.com/vcuda-memory"),
        Just("aliyun.com/gpu-mem"),
        Just("koordinator.sh/gpu-core"),
        Just("example.com/vgpu-memory"),
        Just("gpu-memory"),
        Just("gpu-fraction"),
        Just("gpumem"),
        Just("nvidia.com/gpumemory"),
        Just("hami.io/gpumem"),
        Just("example.com/gpu-slice"),
        Just("CUDA_DEVICE_MEMORY_LIMIT"),
        Just("CUDA_DEVICE_SM_LIMIT_0"),
        Just("NVIDIA_GPU_MEMORY_LIMIT"),
    ];
    let value = prop_oneof![
        Just("4096"),
        Just("\"4096\""),
        Just("4096Mi"),
        Just("4Gi"),
        Just("1e3"),
        Just("1.5"),
        Just("8k"),
        Just("30"),
        Just("\"0.5\""),
        Just("50m"),
    ];
    (key, value, 0..4_usize).prop_map(|(key, value, place)| {
        let (empty, line) = (String::new, format!("{key}: {value}"));
        match place {
            0 => (line, empty(), empty()),
            1 => (empty(), line, empty()),
            2 => (empty(), empty(), format!("env:\n- name: {key}\n  value: {value}")),
            _ => (
                empty(),
                empty(),
                format!(
                    "args:\n- \"export CUDA_DEVICE_SM_LIMIT={}; exec run\"",
                    value.trim_matches('"')
                ),
            ),
        }
    })
}

/// The pod in an object of another kind.
fn within(kind: usize, pod: &str) -> String {
    let lines = |pad: &str, skipped: usize| {
        pod.lines().skip(skipped).map(|line| format!("{pad}{line}\n")).collect::<String>()
    };
    match kind {
        0 => pod.to_owned(),
        1 => format!("apiVersion: v1\nkind: List\nitems:\n-{}", &lines("  ", 0)[1..]),
        2 => format!(
            "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n{}",
            lines("    ", 2)
        ),
        _ => format!(
            "apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n{}",
            lines("        ", 2)
        ),
    }
}

proptest! {
    #[test]
    fn no_part_becomes_a_whole_card_in_silence((annotation, limit, container) in part(), is_requests: bool, is_init: bool, kind in 0..4_usize) {
        let mut text = pod_with(&annotation, &format!("{WHOLE}\n{limit}"), &container);
        if is_requests {
            text = text.replace("      limits:", "      requests:");
        }
        if is_init {
            text = text.replace("  containers:", "  initContainers:");
        }
        let text = within(kind, &text);
        let result = converted(&text);
        let document = &result.documents[0];
        let has_whole = result.text.lines().any(|line| ["name: gpu-whole", "name: gpu-whole-100c"].contains(&line.trim()));
        let is_told = document.notes.iter().any(|note| note.level != Level::Info && !["requests-only", "init-claim", "cores-unlimited"].contains(&note.code));
        prop_assert!(!has_whole || is_told, "{}\n{:?}", text, document);
    }
}
