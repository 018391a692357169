//! Input beyond pods: claims for other drivers, Compose files, rules that name metrics, and clusters whose resources have other names.

use super::foreign::{is_refused, is_warned};
use super::{codes, converted, made, pod};
use crate::convert::{self, Options, ResourceName};
use crate::document::Outcome;

#[test]
fn claims_of_other_drivers_are_converted_or_told_of() {
    let claim = |class: &str, more: &str| {
        format!(
            "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: c}}\nspec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        deviceClassName: {class}\n        capacity: {{requests: {{cores: 50, memory: 10Gi}}}}\n{more}"
        )
    };
    let hami = claim("hami-core-gpu.project-hami.io", "");
    is_warned(&hami, "foreign");
    assert!(made(&hami).contains("deviceClassName: gpu.divvy.dev\n"), "{}", made(&hami));
    let more = "        selectors: [{cel: {expression: \"true\"}}]\n";
    is_warned(&claim("hami-core-gpu.project-hami.io", more), "other-driver");
    is_warned(&claim("gpu.nvidia.com", ""), "other-driver");
    for class in ["gpu.divvy.dev", "compute-domain-daemon.nvidia.com", "nic.example"] {
        assert_eq!(codes(&claim(class, "")), (Outcome::Passed, vec![]), "{class}");
    }
}

#[test]
fn services_of_compose_have_a_device_for_their_limits() {
    let text = "services:\n  web:\n    image: x\n    runtime: nvidia\n    environment:\n      CUDA_DEVICE_MEMORY_LIMIT: 4g\n      CUDA_DEVICE_SM_LIMIT_0: \"30\"\n      KEPT: x\n  db:\n    image: y\n    environment: [\"A=b\"]\n";
    is_warned(text, "compose");
    let note = converted(text).documents.remove(0).notes.remove(0);
    assert!(
        note.message.contains(
            "divvy cdi --name web --memory 4096MiB --compute 0=30% --out /etc/cdi/divvy-web.json"
        ),
        "{note:?}"
    );
    let written = made(text);
    assert!(
        written.contains("devices:\n    - divvy/tenant=web")
            && written.contains("KEPT: x")
            && !written.contains("CUDA_"),
        "{written}"
    );
    let list = "services:\n  a b:\n    environment:\n    - CUDA_DEVICE_MEMORY_LIMIT_1=512m\n";
    assert!(
        made(list).contains("divvy/tenant=a-b") && !made(list).contains("environment"),
        "{}",
        made(list)
    );
    let more = "services:\n  w:\n    volumes:\n    - /usr/local/vgpu/libvgpu.so:/usr/local/vgpu/libvgpu.so\n    - {type: bind, source: /x, target: /etc/ld.so.preload}\n    - data:/data\n    environment:\n    - LD_PRELOAD=/usr/local/vgpu/libvgpu.so\n    - CUDA_DEVICE_SM_LIMIT=30\n    - CUDA_DEVICE_MEMORY_LIMIT=2g\n    - GPU_CORE_UTILIZATION_POLICY=disable\n";
    let written = made(more);
    assert!(
        written.contains("data:/data") && !written.contains("vgpu") && !written.contains("preload"),
        "{written}"
    );
    assert!(
        !converted(more).documents[0].notes[0].message.contains("--compute"),
        "the policy lifts it"
    );
    for value in ["many", "1,5g", "${LIMIT}", "50%"] {
        is_refused(&text.replace("4g", value), "bad-value");
    }
    let none = "services:\n  web:\n    image: x\n";
    assert_eq!(codes(none), (Outcome::Passed, vec![]));
    let alike = "services:\n  a b: {environment: {CUDA_DEVICE_MEMORY_LIMIT: 1g}}\n  a-b: {environment: {CUDA_DEVICE_MEMORY_LIMIT: 2g}}\n";
    assert!(
        made(alike).contains("tenant=a-b\n") && made(alike).contains("tenant=a-b-2"),
        "{}",
        made(alike)
    );
}

#[test]
fn metrics_of_hamis_are_told_of_by_name() {
    let rule = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec:\n  groups:\n  - rules:\n    - expr: max(Device_utilization_desc_of_container{podname=~\"a.*\"}) / HostGPUMemoryUsage > 0\n";
    let notes = converted(rule).documents.remove(0).notes;
    let told: Vec<_> = notes.iter().map(|note| (note.code, note.key.as_deref().unwrap())).collect();
    assert_eq!(
        told,
        [
            ("hami-metric", "Device_utilization_desc_of_container"),
            ("hami-metric", "HostGPUMemoryUsage")
        ]
    );
    assert!(
        notes[0].message.contains("divvy_tenant_used_seconds_total") && notes[0].line == 6,
        "{notes:?}"
    );
    assert_eq!(made(rule), rule);
    let monitor = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec:\n  selector:\n    matchLabels: {app.kubernetes.io/component: hami-device-plugin}\n";
    is_warned(monitor, "hami-metric");
    assert_eq!(codes(&monitor.replace("hami-", "")).1, Vec::<&str>::new());
    // A dashboard has no kind.
    is_warned(
        "{\"panels\": [{\"expr\": \"sum(vGPU_device_memory_usage_in_bytes)\"}]}\n",
        "hami-metric",
    );
    assert_eq!(
        codes(&rule.replace("Device_util", "My_Device_util").replace("HostGPUMemoryUsage", "1")).1,
        Vec::<&str>::new()
    );
}

#[test]
fn renamed_resources_are_known_by_the_option() {
    let of = |words: &[&str]| {
        words.iter().map(|word| word.parse::<ResourceName>()).collect::<Result<Vec<_>, _>>()
    };
    let names = of(&[
        "gpumem=example.com/vgpu-memory",
        "gpu=example.com/vgpu",
        "gpucores=example.com/cores",
    ])
    .unwrap();
    let text = pod("example.com/vgpu: 1\nexample.com/vgpu-memory: 8192\nexample.com/cores: 30");
    let convert =
        |text: &str| convert::renamed(text.as_bytes(), Options::default(), &names).unwrap();
    assert!(convert(&text).text.contains("name: gpu-8192mi-30c"), "{}", convert(&text).text);
    assert_eq!(codes(&text), (Outcome::Passed, vec![]), "without the option it is another's");
    let quota =
        "apiVersion: v1\nkind: ResourceQuota\nspec: {hard: {limits.example.com/vgpu-memory: 1}}\n";
    assert_eq!(convert(quota).documents[0].outcome, Outcome::Refused);
    let both = pod("example.com/vgpu: 1\nexample.com/vgpu-memory: 8192\nnvidia.com/gpumem: 4096");
    assert_eq!(convert(&both).documents[0].notes[0].code, "contradiction");
    let other = "apiVersion: v1\nkind: ConfigMap\ndata: {a: example.com/vgpu}\n";
    assert_eq!(convert(other).text, other);
    for (word, words) in [
        ("gpumem", "KEY=NAME"),
        ("memory=example.com/x", "gpumem"),
        ("gpumem=", "no name of a resource"),
        ("gpumem=vgpu memory", "no name of a resource"),
        ("gpumem=cpu", "no name of a resource"),
    ] {
        let error = of(&[word]).unwrap_err();
        assert!(error.contains(words), "{word}: {error}");
    }
}
