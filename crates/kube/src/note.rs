//! Notes: sentences about one place of a manifest, each with a code that stays.
//!
//! Promises: a code never gets another meaning; the list of them on the page is made from here.

use serde::Serialize;

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Something became something else of the same meaning.
    Info,
    /// The result differs from what HAMi did.
    Warning,
    /// The document is not written.
    Refused,
}

/// A note's code, with what it is about for the page.
macro_rules! codes {
    ($($name:ident $level:ident $code:literal: $about:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code { $($name),* }

        impl Code {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            pub(crate) fn level(self) -> Level {
                match self { $(Self::$name => Level::$level),* }
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            #[cfg(test)]
            pub(crate) fn about(self) -> &'static str {
                match self { $(Self::$name => $about),* }
            }
        }
    };
}

codes! {
    CountAdded Info "count-added": "memory or cores without `nvidia.com/gpu`: one card, as HAMi adds";
    Removed Info "removed": "nothing needs it any more";
    WholeCards Info "whole-cards": "no memory is asked for: all of each card";
    PercentOfCard Info "percent-of-card": "a percentage became bytes, by `--card-memory`";
    ClusterDefault Info "cluster-default": "memory or cores that a container leaves to its cluster, by `--default-memory` or `--default-cores`";
    InClaim Info "in-claim": "a variable became part of the claim's configuration";
    SharedClaim Info "shared-claim": "an init container has the claim of an equal container that runs after it";
    CoresUnlimited Warning "cores-unlimited": "HAMi leaves such a container's time unlimited: it claims 1 % and may have what is idle";
    BelowContext Warning "below-context": "less memory than one CUDA context costs: 518 to 600 MiB on recent cards";
    CardTaken Warning "card-taken": "`mutex` became all of the cards' time: no other pod joins them";
    PreferenceDropped Warning "preference-dropped": "a wish for placement that the stock scheduler does not know";
    WeakerNuma Warning "numa-attribute": "same NUMA node, by an attribute that drivers give from Kubernetes 1.37 on";
    PriorityBound Warning "priority-bound": "a claim may lower its priority; whether it may raise it, its class says";
    InitClaim Warning "init-claim": "a claim is held for the pod's whole life, an init container's too";
    OtherScheduler Warning "other-scheduler": "the pod names a scheduler of its own, which must know claims";
    RequestsOnly Warning "requests-only": "the resource stands below `requests` alone, which Kubernetes refuses";
    NoGpu Warning "no-gpu": "`nvidia.com/gpu: 0` asks for nothing";
    OutOfPlace Warning "out-of-place": "HAMi reads it on pods alone, and this is none";
    EnvironmentDropped Warning "environment-dropped": "a variable is gone since the claim decides";
    RayGpus Warning "ray-gpus": "Ray counts GPUs by `nvidia.com/gpu`; say `num-gpus` in `rayStartParams`";
    Foreign Warning "foreign": "another system's key: what it asks for is in the claim, in the unit that the message names";
    PartUnread Warning "part-unread": "a container gets a whole card, or its memory, beside a key that reads like a part and is not known";
    InText Warning "in-text": "HAMi's key within a text or where no container has it: nothing there is converted";
    HamiMetric Warning "hami-metric": "a metric of HAMi's, with what replaces it";
    OtherDriver Warning "other-driver": "a claim of another driver, which stays";
    Compose Warning "compose": "a service of a Compose file whose limit is by HAMi's variables";
    SeesGpus Warning "sees-gpus": "a container that asks for no GPU sees some by `NVIDIA_VISIBLE_DEVICES`";
    BadValue Refused "bad-value": "a value that cannot be understood, or cannot be";
    Contradiction Refused "contradiction": "two values that cannot both be";
    UnknownKey Refused "unknown-key": "looks like one of HAMi's and is none: perhaps mistyped";
    NeedsCardMemory Refused "needs-card-memory": "a percentage of memory without `--card-memory`";
    TooMany Refused "too-many": "more devices than a claim holds";
    LimitsOff Refused "limits-off": "`CUDA_DISABLE_CONTROL` on a part of a card";
    LimitInEnvironment Refused "limit-in-environment": "a limit by variable, which HAMi's plugin alone may write";
    Mig Refused "mig": "a MIG instance that HAMi would make; Divvy does not create any";
    Mps Refused "mps": "MPS mode, which HAMi does not start either";
    ByIndex Refused "by-index": "cards by index, which is another card on each node";
    OtherMaker Refused "other-maker": "devices of another maker";
    VolcanoVgpu Refused "volcano-vgpu": "a resource of Volcano's own plugin that is not known";
    ForeignShare Refused "foreign-share": "a share by another system that leaves its amount to the cluster";
    Misplaced Refused "misplaced": "a part of a card, asked for where HAMi does not read it; the container would have the whole card";
    Privileged Refused "privileged": "a privileged container sees every card, without a limit";
    NodeName Refused "node-name": "`nodeName` goes past the scheduler, which allocates claims";
    WebhookIgnored Refused "webhook-ignored": "`hami.io/webhook: ignore`: this pod was not HAMi's";
    WithoutLimit Refused "without-limit": "a container beside would see GPUs without a limit";
    Quota Refused "quota-sum": "a sum or a range of memory or cores, which no quota of Kubernetes has for claims";
    UnknownKind Refused "unknown-kind": "GPUs in a kind whose pod template is at no known place";
    Form Refused "form": "not as Kubernetes' objects are";
}

/// Where a note belongs to, and what it says.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Note {
    pub(crate) level: Level,
    pub(crate) code: &'static str,
    /// 0 where it is of the whole document.
    pub(crate) line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    /// The key it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The way to that within its object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    pub(crate) message: String,
}

/// Notes of one document, and the container they are about meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    pub(crate) container: Option<String>,
}

impl Notes {
    pub(crate) fn add(&mut self, code: Code, line: usize, key: &str, message: impl Into<String>) {
        self.list.push(Note {
            level: code.level(),
            code: code.name(),
            line,
            container: self.container.clone(),
            key: (!key.is_empty()).then(|| key.to_owned()),
            path: None,
            message: message.into(),
        });
    }

    /// Number of notes that refuse the document.
    pub(crate) fn refusals(&self) -> usize {
        self.list.iter().filter(|note| note.level == Level::Refused).count()
    }
}
