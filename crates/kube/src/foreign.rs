//! Keys by which other systems share GPUs, and what becomes of each: the one list of them, from
//! which the page's table is made.
//!
//! Promises: a key whose value has one meaning is converted, with a warning that names it; one that
//! leaves its amount to a cluster's settings is refused in words. No key is passed over in
//! silence.
//!
//! Does not know the systems' schedulers: a pod that names one keeps it, with a warning.

use crate::key::{Fate, Key, Place};
use crate::note::Code;

/// A key of another system than HAMi.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) system: &'static str,
    pub(crate) key: Key,
}

const fn key(
    system: &'static str,
    place: Place,
    name: &'static str,
    fate: Fate,
    becomes: &'static str,
) -> Foreign {
    Foreign { system, key: Key { place, name, fate, becomes } }
}

const fn resource(
    system: &'static str,
    name: &'static str,
    fate: Fate,
    becomes: &'static str,
) -> Foreign {
    key(system, Place::Resource, name, fate, becomes)
}

const fn annotation(
    system: &'static str,
    name: &'static str,
    fate: Fate,
    becomes: &'static str,
) -> Foreign {
    key(system, Place::Annotation, name, fate, becomes)
}

const SHARE: Fate = Fate::Refused(Code::ForeignShare);
const KAI: &str = "KAI, Run:ai";
const VOLCANO: &str = "Volcano";
const KOORDINATOR: &str = "Koordinator";
const ALIYUN: &str = "Aliyun";
const NVIDIA: &str = "NVIDIA's plugin";
const SAY_PART: &str = "refused: its amount is in that system's settings; write `nvidia.com/gpumem` and `nvidia.com/gpucores`";
const AS_COUNT: &str = "as `nvidia.com/gpu`";
const AS_MEMORY: &str = "`memory` of each card; a number is MiB";
const AS_PERCENT: &str = "as `nvidia.com/gpumem-percentage`";
const AS_CORES: &str = "as `nvidia.com/gpucores`";
const FRACTION: &str =
    "`memory`, that part of a card of `--card-memory`, of the container that asks, or of the first";
const POD_MEMORY: &str = "`memory` in MiB, of the container that asks, or of the first";
const CARD_PERCENTS: &str = "`cores`, up to 100; 200 is two whole cards";
const KEPT: &str = "stays: it is no GPU";

/// A static: which system a key is of is known by its place in this list.
pub(crate) static FOREIGN: &[Foreign] = &[
    resource(VOLCANO, "volcano.sh/vgpu-number", Fate::Count, AS_COUNT),
    resource(VOLCANO, "volcano.sh/vgpu-memory", Fate::Memory, AS_MEMORY),
    resource(VOLCANO, "volcano.sh/vgpu-memory-percentage", Fate::MemoryPercent, AS_PERCENT),
    resource(VOLCANO, "volcano.sh/vgpu-cores", Fate::Cores, AS_CORES),
    resource(VOLCANO, "volcano.sh/gpu-number", Fate::Count, AS_COUNT),
    resource(VOLCANO, "volcano.sh/gpu-memory", Fate::Memory, AS_MEMORY),
    resource(VOLCANO, "volcano.sh/vgpu-*", Fate::Refused(Code::VolcanoVgpu), SAY_PART),
    resource("tkestack", "tencent.com/vcuda-core", Fate::CardPercents, CARD_PERCENTS),
    resource(
        "tkestack",
        "tencent.com/vcuda-memory",
        Fate::MemoryUnits(256),
        "`memory`, in units of 256 MiB",
    ),
    resource("TKE", "tke.cloud.tencent.com/qgpu-core", Fate::CardPercents, CARD_PERCENTS),
    resource(
        "TKE",
        "tke.cloud.tencent.com/qgpu-memory",
        Fate::MemoryUnits(1024),
        "`memory` in GiB",
    ),
    resource(
        ALIYUN,
        "aliyun.com/gpu-mem",
        Fate::MemoryUnits(1024),
        "`memory` in GiB, the plugin's own unit unless it has `--memory-unit=MiB`",
    ),
    resource(ALIYUN, "aliyun.com/gpu-core.percentage", Fate::Cores, AS_CORES),
    resource(ALIYUN, "aliyun.com/gpu-*", SHARE, SAY_PART),
    resource(
        KOORDINATOR,
        "koordinator.sh/gpu",
        Fate::CardParts,
        "`memory` and `cores`, as a percentage of both; 200 is two whole cards",
    ),
    resource(KOORDINATOR, "koordinator.sh/gpu-core", Fate::CardPercents, CARD_PERCENTS),
    resource(
        KOORDINATOR,
        "koordinator.sh/gpu-memory-ratio",
        Fate::CardMemoryPercents,
        "as `nvidia.com/gpumem-percentage`; 200 is two whole cards",
    ),
    resource(KOORDINATOR, "koordinator.sh/gpu-memory", Fate::MemoryBytes, "`memory`, in bytes"),
    resource(
        KOORDINATOR,
        "koordinator.sh/gpu.shared",
        SHARE,
        "refused: the other amounts are then those of all its cards together; write those of each by `nvidia.com/gpumem`",
    ),
    resource(
        "nvshare",
        "nvshare.com/*",
        SHARE,
        "refused: it is all of a card's memory by turns; write `nvidia.com/gpumem`, and `CUDA_OVERSUBSCRIBE` where more is wanted than the card has",
    ),
    resource(
        NVIDIA,
        "nvidia.com/gpu.shared",
        SHARE,
        "refused: it is a turn on a card without a limit of memory; write `nvidia.com/gpumem` and `nvidia.com/gpucores`",
    ),
    resource(NVIDIA, "nvidia.com/hostdev*", Fate::Kept, KEPT),
    resource(NVIDIA, "nvidia.com/rdma_*", Fate::Kept, KEPT),
    resource(NVIDIA, "nvidia.com/sriov*", Fate::Kept, KEPT),
    resource(NVIDIA, "nvidia.com/ib_*", Fate::Kept, KEPT),
    resource(NVIDIA, "nvidia.com/mlnx*", Fate::Kept, KEPT),
    resource(NVIDIA, "nvidia.com/mlx*", Fate::Kept, KEPT),
    resource(
        "nos",
        "nvidia.com/gpu-*",
        SHARE,
        "refused: it is a slice by its size; write `nvidia.com/gpumem` in MiB",
    ),
    resource("AWS", "k8s.amazonaws.com/vgpu", SHARE, SAY_PART),
    resource("Elastic GPU", "elasticgpu.io/*", SHARE, SAY_PART),
    resource("nano-gpu", "nano-gpu/*", SHARE, SAY_PART),
    annotation(KAI, "gpu-memory", Fate::PodMemory, POD_MEMORY),
    annotation(KAI, "kai.scheduler/gpu-memory", Fate::PodMemory, POD_MEMORY),
    annotation(KAI, "run.ai/gpu-memory", Fate::PodMemory, POD_MEMORY),
    annotation(KAI, "gpu-fraction", Fate::PodFraction, FRACTION),
    annotation(KAI, "kai.scheduler/gpu-fraction", Fate::PodFraction, FRACTION),
    annotation(KAI, "run.ai/gpu-fraction", Fate::PodFraction, FRACTION),
    annotation(KAI, "gpu-fraction-num-devices", Fate::PodCount, "`count` of the claim's request"),
    annotation(
        KAI,
        "gpu-fraction-container-name",
        Fate::PodContainer,
        "the container that has the claim",
    ),
    annotation(KAI, "gpu-fraction.limit", SHARE, SAY_PART),
    annotation(KAI, "gpu-fraction-limit", SHARE, SAY_PART),
    annotation(KAI, "gpu-fraction.request", SHARE, SAY_PART),
    annotation(KAI, "gpu-memory.limit", SHARE, SAY_PART),
    annotation(KAI, "gpu-memory-limit", SHARE, SAY_PART),
    annotation(KAI, "gpu-memory.request", SHARE, SAY_PART),
    annotation(KAI, "gpu-sm-cores", SHARE, SAY_PART),
    annotation(KAI, "kai.scheduler/gpu-*", SHARE, SAY_PART),
    annotation(KAI, "run.ai/gpu-*", SHARE, SAY_PART),
    annotation(KAI, "runai/gpu-*", SHARE, SAY_PART),
    annotation("TensorFusion", "tensor-fusion.ai/*", SHARE, SAY_PART),
];
