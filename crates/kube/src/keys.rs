//! Every key of HAMi's that a manifest can hold, and what becomes of it: the one list of them. Those of other systems are in
//! [`crate::foreign`].
//!
//! Promises: a key is treated by its [`Fate`] here, and the table on the page is made from this list, so neither can leave
//! one out. A name that ends in `*` stands for all that begin so; the first that fits counts.
//!
//! Names are those of HAMi 2.10's chart. Does not know resources that an administrator has renamed.

use crate::foreign::{FOREIGN, Foreign};
use crate::key::{Fate, Key, Place};
use crate::note::Code;

const fn resource(name: &'static str, fate: Fate, becomes: &'static str) -> Key {
    Key { place: Place::Resource, name, fate, becomes }
}

const fn annotation(name: &'static str, fate: Fate, becomes: &'static str) -> Key {
    Key { place: Place::Annotation, name, fate, becomes }
}

const fn variable(name: &'static str, fate: Fate, becomes: &'static str) -> Key {
    Key { place: Place::Variable, name, fate, becomes }
}

const OTHER: Fate = Fate::Refused(Code::OtherMaker);
const NO_OTHER: &str = "refused: Divvy shares NVIDIA's cards; leave these pods to HAMi";
const STATE: &str = "taken out: it is what HAMi's scheduler noted when it placed the pod";
const IN_CLAIM: &str = "taken out: the claim decides";

pub(crate) const KEYS: &[Key] = &[
    resource(
        "nvidia.com/gpu",
        Fate::Count,
        "`count` of the claim's request, on different cards where it is more than 1",
    ),
    resource(
        "nvidia.com/gpumem",
        Fate::Memory,
        "`memory` of each card; a number is MiB, as with HAMi, and `8k` is 8000 MiB",
    ),
    resource(
        "nvidia.com/gpumem-percentage",
        Fate::MemoryPercent,
        "`memory`, of a card of `--card-memory`; 100 is all of any card",
    ),
    resource(
        "nvidia.com/gpucores",
        Fate::Cores,
        "`cores` of each card; 0, or none beside a part of the memory, claims 1 % and may have what is idle",
    ),
    resource(
        "nvidia.com/priority",
        Fate::Priority,
        "`priority` of the claim's configuration: 0 is high, 1 and more low",
    ),
    resource(
        "nvidia.com/mig-*",
        Fate::Instances,
        "a selector on `profile`, of so many instances, all of each; they are as they were made, and `.me` is `+me`",
    ),
    resource("cambricon.com/*", OTHER, NO_OTHER),
    resource("hygon.com/*", OTHER, NO_OTHER),
    resource("metax-tech.com/*", OTHER, NO_OTHER),
    resource("enflame.com/*", OTHER, NO_OTHER),
    resource("kunlunxin.com/*", OTHER, NO_OTHER),
    resource("vastaitech.com/*", OTHER, NO_OTHER),
    resource("birentech.com/*", OTHER, NO_OTHER),
    resource("mthreads.com/*", OTHER, NO_OTHER),
    resource("iluvatar.ai/*", OTHER, NO_OTHER),
    resource("huawei.com/Ascend*", OTHER, NO_OTHER),
    resource("amd.com/gpumem", OTHER, NO_OTHER),
    resource("amd.com/gpucores", OTHER, NO_OTHER),
    annotation(
        "nvidia.com/use-gputype",
        Fate::UseType,
        "a selector on `productName`: one of the words is part of it, in either case",
    ),
    annotation("nvidia.com/nouse-gputype", Fate::NoType, "the same, none of them"),
    annotation("nvidia.com/use-gpuuuid", Fate::UseUuid, "a selector on `uuid`"),
    annotation("nvidia.com/nouse-gpuuuid", Fate::NoUuid, "the same, none of them"),
    annotation(
        "nvidia.com/use-gpuindex*",
        Fate::Refused(Code::ByIndex),
        "refused: an index is another card on each node; name the card's UUID",
    ),
    annotation(
        "nvidia.com/nouse-gpuindex*",
        Fate::Refused(Code::ByIndex),
        "refused: an index is another card on each node; name the card's UUID",
    ),
    annotation(
        "nvidia.com/numa-bind",
        Fate::Numa,
        "a constraint: the claim's cards have the same `numaNode`; nothing for one card",
    ),
    annotation(
        "nvidia.com/vgpu-mode",
        Fate::Mode,
        "`hami-core` is taken out; `mig` and `mps` are refused: Divvy does not create MIG instances",
    ),
    annotation(
        "nvidia.com/mig-profile-preference",
        Fate::Refused(Code::Mig),
        "refused: Divvy does not create MIG instances; make them, and ask for one by `nvidia.com/mig-PROFILE`, or for a share by memory and cores",
    ),
    annotation(
        "hami.io/node-scheduler-policy",
        Fate::NodePolicy,
        "taken out with a warning: the stock scheduler has no such wish for claims; use pod affinity to pack, `topologySpreadConstraints` to spread",
    ),
    annotation(
        "hami.io/gpu-scheduler-policy",
        Fate::GpuPolicy,
        "`binpack` is what the scheduler does on a node; `mutex` becomes all of the card's time; `numa` as `numa-bind`; `spread` and `topology-aware` are taken out with a warning",
    ),
    annotation(
        "hami.io/device-scoring-weights",
        Fate::Gone(Code::PreferenceDropped),
        "taken out with a warning: the stock scheduler does not score devices",
    ),
    annotation("hami.io/vgpu-node", Fate::Gone(Code::Removed), STATE),
    annotation("hami.io/vgpu-time", Fate::Gone(Code::Removed), STATE),
    annotation("hami.io/bind-time", Fate::Gone(Code::Removed), STATE),
    annotation("hami.io/bind-phase", Fate::Gone(Code::Removed), STATE),
    annotation("hami.io/vgpu-devices-to-allocate", Fate::Gone(Code::Removed), STATE),
    annotation("hami.io/vgpu-devices-allocated", Fate::Gone(Code::Removed), STATE),
    annotation("hami.io/vgpu-mig-allocations", Fate::Gone(Code::Removed), STATE),
    annotation(
        "hami.io/webhook",
        Fate::Refused(Code::WebhookIgnored),
        "refused: HAMi left this pod alone; decide by hand what it may have",
    ),
    variable(
        "CUDA_OVERSUBSCRIBE",
        Fate::Oversubscribe,
        "`true` is `oversubscribe: true` of the configuration",
    ),
    variable(
        "GPU_CORE_UTILIZATION_POLICY",
        Fate::CorePolicy,
        "`disable` is `burst: {cores: \"100\"}` of the configuration; `default` and `force` keep the cap",
    ),
    variable("CUDA_TASK_PRIORITY", Fate::TaskPriority, "as `nvidia.com/priority`"),
    variable(
        "CUDA_DISABLE_CONTROL",
        Fate::DisableControl,
        "`true` is refused, but for whole cards, where there is nothing to limit",
    ),
    variable(
        "NVIDIA_VISIBLE_DEVICES",
        Fate::VisibleDevices,
        "taken out of containers with a claim; refused in those beside them, but for `none` and `void`",
    ),
    variable("CUDA_DEVICE_MEMORY_SHARED_CACHE", Fate::Gone(Code::EnvironmentDropped), IN_CLAIM),
    variable(
        "CUDA_DEVICE_MEMORY_LIMIT*",
        Fate::Refused(Code::LimitInEnvironment),
        "refused: say it by `nvidia.com/gpumem`",
    ),
    variable(
        "CUDA_DEVICE_SM_LIMIT*",
        Fate::Refused(Code::LimitInEnvironment),
        "refused: say it by `nvidia.com/gpucores`",
    ),
    variable("LIBCUDA_LOG_LEVEL", Fate::Gone(Code::Removed), "taken out: it is HAMi-core's"),
    variable(
        "ACTIVE_OOM_KILLER",
        Fate::Gone(Code::EnvironmentDropped),
        "taken out with a warning: what exceeds its limit is refused, not killed",
    ),
];

/// The entry for a key that stands in `place`: HAMi's own, or another system's.
pub(crate) fn find(place: Place, name: &str) -> Option<&'static Key> {
    let own = KEYS.iter().find(|key| key.fits(place, name));
    own.or_else(|| FOREIGN.iter().map(|foreign| &foreign.key).find(|key| key.fits(place, name)))
}

/// The entry for an annotation or, where `is_label`, a label of a pod: what has no domain is read among annotations alone.
pub(crate) fn find_at_pod(is_label: bool, name: &str) -> Option<&'static Key> {
    let is_read = !is_label || name.contains('/');
    is_read.then(|| find(Place::Annotation, name)).flatten()
}

/// The system whose key it is, where it is not HAMi's.
pub(crate) fn system(key: &Key) -> Option<&'static str> {
    let is_it = |foreign: &&Foreign| std::ptr::eq(&raw const foreign.key, key);
    FOREIGN.iter().find(is_it).map(|foreign| foreign.system)
}

/// Whether a resource is a GPU or a part of one, or one of HAMi's mistyped.
pub(crate) fn is_gpu(name: &str) -> bool {
    find(Place::Resource, name).map_or_else(|| is_alike(name), |key| key.fate != Fate::Kept)
}

/// Domain and rest of a key, without what a slip of the hand adds around it.
fn parts(name: &str) -> (&str, &str) {
    let name = name.trim();
    name.split_once('/').unwrap_or(("", name))
}

/// Whether a resource that is not in [`KEYS`] is one of HAMi's mistyped: of its domain, or of one that reads like it.
pub(crate) fn is_alike(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let (domain, rest) = parts(&name);
    match domain {
        "nvidia.com" | "hami.io" => true,
        "" => ["gpu", "gpus"].contains(&rest) || begins_alike(rest),
        _ => domain.starts_with("nvidia") && begins_alike(rest),
    }
}

/// Whether the last part of a key begins as those of HAMi's resources do.
fn begins_alike(rest: &str) -> bool {
    let rest =
        rest.strip_prefix("nvidia.com").map_or(rest, |it| it.trim_start_matches(['.', '_', '-']));
    ["gpumem", "gpucore", "gpu-mem", "gpu-core", "gpu_mem", "gpu_core", "vgpu"]
        .iter()
        .any(|word| rest.starts_with(word))
}

/// Whether an annotation or label that is not in [`KEYS`] is one of HAMi's mistyped.
pub(crate) fn is_annotation_alike(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let (domain, rest) = parts(&name);
    let words = ["use-gpu", "usegpu", "use_gpu", "gputype", "gpuuuid", "vgpu-mode", "numa-bind"];
    domain == "hami.io" || domain == "nvidia.com" && words.iter().any(|word| rest.contains(word))
}
