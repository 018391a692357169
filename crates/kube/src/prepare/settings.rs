//! Settings of a share, merged of what its class and its claim say.
//!
//! The class is the bound: what it says is what a claim gets that says nothing, and a claim may only lower it; under `atMost` it
//! may allow more to claims that ask for it. What neither says is the least: normal priority and class, no burst, no memory that
//! leaves the card. Of one source the later word counts.
//!
//! Promises: nothing is lowered silently, nor a field passed over that is not known: it may be a limit. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::allocated::{DriverConfig, ParametersOf};
use super::reason::{PrepareError, PrepareReason};
use crate::quantity;

/// Priority, from the lowest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PriorityLevel {
    Low,
    #[default]
    Normal,
    High,
}

impl PriorityLevel {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// Class of turns, from the lower on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TurnClass {
    #[default]
    Normal,
    Latency,
}

impl TurnClass {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Latency => "latency",
        }
    }
}

/// Way in which programs of a container come to load the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PreloadBy {
    /// `LD_PRELOAD`, which leaves an image's own `/etc/ld.so.preload` alone.
    #[default]
    Variable,
    /// `/etc/ld.so.preload`, which a program cannot unset.
    File,
}

/// Settings that hold for a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShareSettings {
    pub(super) priority: PriorityLevel,
    pub(super) class: TurnClass,
    /// Percent of the card's time up to which it may go beyond its own while others leave it.
    pub(super) burst_cores: Option<u32>,
    pub(super) oversubscribe: bool,
    pub(super) preload: PreloadBy,
}

/// Parameters as they are written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    api_version: String,
    kind: String,
    priority: Option<PriorityLevel>,
    class: Option<TurnClass>,
    burst: Option<Map<String, Value>>,
    oversubscribe: Option<bool>,
    preload: Option<PreloadBy>,
    at_most: Option<WrittenBound>,
}

/// Bound of what claims of a class may ask for, as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenBound {
    priority: Option<PriorityLevel>,
    class: Option<TurnClass>,
    burst: Option<Map<String, Value>>,
    oversubscribe: Option<bool>,
}

/// The same, understood; what is left out is not said.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    priority: Option<PriorityLevel>,
    class: Option<TurnClass>,
    burst_cores: Option<u32>,
    oversubscribe: Option<bool>,
    preload: Option<PreloadBy>,
    at_most: Option<SaidBound>,
}

/// A bound, understood; what is left out allows nothing beyond what the class says.
#[derive(Clone, Copy, Debug, Default)]
struct SaidBound {
    priority: Option<PriorityLevel>,
    class: Option<TurnClass>,
    burst_cores: Option<u32>,
    oversubscribe: bool,
}

impl Said {
    fn then(self, later: Self) -> Self {
        Self {
            priority: later.priority.or(self.priority),
            class: later.class.or(self.class),
            burst_cores: later.burst_cores.or(self.burst_cores),
            oversubscribe: later.oversubscribe.or(self.oversubscribe),
            preload: later.preload.or(self.preload),
            at_most: later.at_most.or(self.at_most),
        }
    }
}

/// Settings of the shares of `request`.
///
/// # Errors
/// [`PrepareReason::BadParameters`] or [`PrepareReason::AboveClass`].
pub(super) fn merge(config: &[DriverConfig], request: &str) -> Result<ShareSettings, PrepareError> {
    let (mut class, mut claim) = (Said::default(), Said::default());
    for config in config.iter().filter(|config| config.is_for(request)) {
        let (of, whose) = match config.of {
            ParametersOf::Class => (&mut class, "class"),
            ParametersOf::Claim => (&mut claim, "claim"),
        };
        let said = understand(&config.parameters).map_err(|why| {
            let words = format!("parameters of the {whose} for request {request:?}: {why}");
            PrepareError::new(PrepareReason::BadParameters, words)
        })?;
        *of = of.then(said);
    }
    if claim.preload.is_some() {
        let words =
            format!("preload of request {request:?}: the class alone says it; leave it out");
        return Err(PrepareError::new(PrepareReason::AboveClass, words));
    }
    if claim.at_most.is_some() {
        let words = format!("atMost of request {request:?}: the class alone says it; leave it out");
        return Err(PrepareError::new(PrepareReason::AboveClass, words));
    }
    let own = ShareSettings {
        priority: class.priority.unwrap_or_default(),
        class: class.class.unwrap_or_default(),
        burst_cores: class.burst_cores,
        oversubscribe: class.oversubscribe.unwrap_or_default(),
        preload: class.preload.unwrap_or_default(),
    };
    // It only allows: what a class gives to everybody is not taken back by it.
    let more = class.at_most.unwrap_or_default();
    let bound = ShareSettings {
        priority: own.priority.max(more.priority.unwrap_or(own.priority)),
        class: own.class.max(more.class.unwrap_or(own.class)),
        burst_cores: own.burst_cores.max(more.burst_cores),
        oversubscribe: own.oversubscribe || more.oversubscribe,
        preload: own.preload,
    };
    let asked = ShareSettings {
        priority: claim.priority.unwrap_or(own.priority),
        class: claim.class.unwrap_or(own.class),
        burst_cores: claim.burst_cores.or(own.burst_cores),
        oversubscribe: claim.oversubscribe.unwrap_or(own.oversubscribe),
        preload: own.preload,
    };
    let above = |field: &str, value: &str, allowed: &str| {
        let words =
            format!("{field} {value} of request {request:?}: its class allows {allowed} at most");
        Err(PrepareError::new(PrepareReason::AboveClass, words))
    };
    if asked.priority > bound.priority {
        return above("priority", asked.priority.word(), bound.priority.word());
    }
    if asked.class > bound.class {
        return above("class", asked.class.word(), bound.class.word());
    }
    if asked.burst_cores > bound.burst_cores {
        let percent = |cores: Option<u32>| cores.map_or("none".to_owned(), |it| it.to_string());
        return above("burst.cores", &percent(asked.burst_cores), &percent(bound.burst_cores));
    }
    if asked.oversubscribe && !bound.oversubscribe {
        return above("oversubscribe", "true", "false");
    }
    Ok(asked)
}

fn understand(parameters: &Value) -> Result<Said, String> {
    if !parameters.is_object() {
        return Err("they are no object; write apiVersion, kind and the fields".to_owned());
    }
    let written = Written::deserialize(parameters).map_err(|error| error.to_string())?;
    let Written { api_version, kind, priority, class, burst, oversubscribe, preload, at_most } =
        written;
    if (&*api_version, &*kind) != ("divvy.dev/v1", "Share") {
        return Err(format!(
            "apiVersion {api_version:?}, kind {kind:?}; write \"divvy.dev/v1\" and \"Share\""
        ));
    }
    let burst_cores = burst.map(|burst| burst_cores(&burst)).transpose()?;
    let at_most = at_most.map(bound).transpose().map_err(|why| format!("atMost: {why}"))?;
    Ok(Said { priority, class, burst_cores, oversubscribe, preload, at_most })
}

fn bound(written: WrittenBound) -> Result<SaidBound, String> {
    let WrittenBound { priority, class, burst, oversubscribe } = written;
    let burst_cores = burst.map(|burst| burst_cores(&burst)).transpose()?;
    let oversubscribe = oversubscribe.unwrap_or_default();
    Ok(SaidBound { priority, class, burst_cores, oversubscribe })
}

fn burst_cores(burst: &Map<String, Value>) -> Result<u32, String> {
    if let Some(other) = burst.keys().find(|key| *key != "cores") {
        return Err(format!("unknown field `burst.{other}`; only cores can burst"));
    }
    let value = burst.get("cores").ok_or("burst without cores; give a percentage")?;
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match quantity::whole_text(&text) {
        Ok(percent @ 1..=100) => Ok(u32::try_from(percent).unwrap_or(100)),
        Ok(_) => Err(format!("burst.cores {text}: give 1 to 100")),
        Err(why) => Err(format!("burst.cores {text} {why}; give 1 to 100")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn config(of: ParametersOf, fields: &Value) -> DriverConfig {
        let mut parameters = json!({ "apiVersion": "divvy.dev/v1", "kind": "Share" });
        let all = parameters.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        DriverConfig { of, requests: Vec::new(), parameters }
    }

    fn merged(class: &Value, claim: &Value) -> Result<ShareSettings, PrepareError> {
        let both = [config(ParametersOf::Claim, claim), config(ParametersOf::Class, class)];
        merge(&both, "gpu")
    }

    #[test]
    fn a_claim_gets_what_its_class_says_and_may_lower_it() {
        assert_eq!(merge(&[], "gpu"), Ok(ShareSettings::default()));
        let class = json!({ "priority": "high", "class": "latency", "burst": { "cores": "80" },
            "oversubscribe": true, "preload": "file" });
        let all = merged(&class, &json!({})).unwrap();
        assert_eq!((all.priority, all.class), (PriorityLevel::High, TurnClass::Latency));
        assert_eq!(
            (all.burst_cores, all.oversubscribe, all.preload),
            (Some(80), true, PreloadBy::File)
        );
        let claim = json!({ "priority": "low", "class": "normal", "burst": { "cores": 50 },
            "oversubscribe": false });
        let less = merged(&class, &claim).unwrap();
        assert_eq!((less.priority, less.class), (PriorityLevel::Low, TurnClass::Normal));
        assert_eq!(
            (less.burst_cores, less.oversubscribe, less.preload),
            (Some(50), false, PreloadBy::File)
        );
    }

    #[test]
    fn what_a_class_allows_is_given_to_those_who_ask() {
        let class = json!({ "preload": "file", "atMost": { "priority": "high", "class": "latency",
            "burst": { "cores": "100" }, "oversubscribe": true } });
        let silent = merged(&class, &json!({})).unwrap();
        assert_eq!(silent, ShareSettings { preload: PreloadBy::File, ..ShareSettings::default() });
        let all = json!({ "priority": "high", "class": "latency", "burst": { "cores": 100 },
            "oversubscribe": true });
        let given = merged(&class, &all).unwrap();
        assert_eq!((given.priority, given.class), (PriorityLevel::High, TurnClass::Latency));
        assert_eq!((given.burst_cores, given.oversubscribe), (Some(100), true));
        // It takes nothing back that the class gives to everybody.
        let class = json!({ "burst": { "cores": 80 }, "atMost": { "burst": { "cores": 50 } } });
        assert_eq!(merged(&class, &json!({})).unwrap().burst_cores, Some(80));
        let asked = json!({ "burst": { "cores": 81 } });
        assert!(merged(&class, &asked).unwrap_err().words.contains("allows 80"));
    }

    #[test]
    fn more_than_the_class_allows_is_refused_and_never_lowered_silently() {
        for (class, claim, part) in [
            (
                json!({}),
                json!({ "priority": "high" }),
                "priority high of request \"gpu\": its class allows normal",
            ),
            (json!({ "priority": "low" }), json!({ "priority": "normal" }), "allows low"),
            (json!({}), json!({ "class": "latency" }), "class latency"),
            (json!({}), json!({ "burst": { "cores": "100" } }), "allows none"),
            (
                json!({ "burst": { "cores": 50 } }),
                json!({ "burst": { "cores": "51" } }),
                "allows 50",
            ),
            (json!({}), json!({ "oversubscribe": true }), "oversubscribe true"),
            (json!({ "preload": "file" }), json!({ "preload": "variable" }), "the class alone"),
            (json!({}), json!({ "atMost": { "oversubscribe": true } }), "the class alone"),
            (
                json!({ "atMost": { "burst": { "cores": 50 } } }),
                json!({ "burst": { "cores": 51 } }),
                "allows 50",
            ),
            (json!({ "atMost": {} }), json!({ "priority": "high" }), "allows normal"),
        ] {
            let error = merged(&class, &claim).unwrap_err();
            assert_eq!(error.reason, PrepareReason::AboveClass, "{error}");
            assert!(error.words.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_and_names_the_field() {
        let whole = |parameters: Value| {
            let requests = Vec::new();
            merge(&[DriverConfig { of: ParametersOf::Claim, requests, parameters }], "gpu")
        };
        for (parameters, part) in [
            (json!(null), "no object"),
            (json!(["divvy.dev/v1", "Share"]), "no object"),
            (json!({ "kind": "Share" }), "apiVersion"),
            (json!({ "apiVersion": "divvy.dev/v2", "kind": "Share" }), "divvy.dev/v2"),
            (json!({ "apiVersion": "divvy.dev/v1", "kind": "Shares" }), "Shares"),
        ] {
            let error = whole(parameters).unwrap_err();
            assert_eq!(error.reason, PrepareReason::BadParameters, "{error}");
            assert!(error.words.contains(part), "{error}");
        }
        for (fields, part) in [
            (json!({ "memory": "8Gi" }), "memory"),
            (json!({ "Priority": "low" }), "Priority"),
            (json!({ "priority": "urgent" }), "urgent"),
            (json!({ "oversubscribe": "true" }), "boolean"),
            (json!({ "burst": {} }), "without cores"),
            (json!({ "burst": { "memory": "8Gi", "cores": 1 } }), "burst.memory"),
            (json!({ "burst": { "cores": 0 } }), "1 to 100"),
            (json!({ "burst": { "cores": "101" } }), "1 to 100"),
            (json!({ "burst": { "cores": "5.5" } }), "5.5"),
            (json!({ "burst": ["100"] }), "expected a map"),
            (json!({ "atMost": { "preload": "file" } }), "preload"),
            (json!({ "atMost": { "burst": { "cores": 0 } } }), "atMost: burst.cores 0"),
        ] {
            for of in [ParametersOf::Class, ParametersOf::Claim] {
                let error = merge(&[config(of, &fields)], "gpu").unwrap_err();
                assert_eq!(error.reason, PrepareReason::BadParameters, "{error}");
                assert!(error.words.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn parameters_are_for_the_requests_that_they_name() {
        let mut class = config(ParametersOf::Class, &json!({ "priority": "high" }));
        class.requests = vec!["a".to_owned(), "b/large".to_owned()];
        for (request, level) in [
            ("a", PriorityLevel::High),
            ("a/small", PriorityLevel::High),
            ("b/large", PriorityLevel::High),
            ("b", PriorityLevel::Normal),
            ("b/small", PriorityLevel::Normal),
            ("c", PriorityLevel::Normal),
        ] {
            let settings = merge(std::slice::from_ref(&class), request).unwrap();
            assert_eq!(settings.priority, level, "{request}");
        }
    }

    /// Some of the fields, each with a word.
    fn fields() -> impl Strategy<Value = Value> {
        let priority = prop::option::of(prop::sample::select(vec!["low", "normal", "high"]));
        let class = prop::option::of(prop::sample::select(vec!["normal", "latency"]));
        let burst = prop::option::of(1_u32..=100);
        (priority, class, burst, any::<Option<bool>>()).prop_map(
            |(priority, class, burst, over)| {
                let mut all = Map::new();
                all.extend(priority.map(|it| ("priority".to_owned(), json!(it))));
                all.extend(class.map(|it| ("class".to_owned(), json!(it))));
                all.extend(burst.map(|it| ("burst".to_owned(), json!({ "cores": it }))));
                all.extend(over.map(|it| ("oversubscribe".to_owned(), json!(it))));
                Value::Object(all)
            },
        )
    }

    proptest! {
        #[test]
        fn nothing_goes_beyond_the_class(class in fields(), claim in fields()) {
            let bound = merged(&class, &json!({})).unwrap();
            match merged(&class, &claim) {
                Ok(it) => {
                    prop_assert!(it.priority <= bound.priority && it.class <= bound.class);
                    prop_assert!(it.burst_cores <= bound.burst_cores);
                    prop_assert!(it.oversubscribe <= bound.oversubscribe && it.preload == bound.preload);
                }
                Err(error) => prop_assert_eq!(error.reason, PrepareReason::AboveClass),
            }
        }
    }
}
