//! Claims: what a container asks for, as a ResourceClaimTemplate, and the templates' names.
//!
//! Promises: equal claims of a namespace have one template; a name says what is in it, is a DNS label of at most 63 bytes,
//! and never stands for two templates of one run. The same input makes the same names. A name without a hash is read back as
//! the claim that it was made of ([`Ask::of_name`]):
//!
//! ```text
//! name = "gpu" [ "-" devices "x" ] "-" ( MiB "mi" | "whole" ) [ "-" percent "c" ] [ "-burst" ]
//! ```

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::driver::DRIVER;
use crate::fnv::{BASIS, fnv_1a};
use crate::yaml::Node;

/// The name of a claim's one request.
const REQUEST: &str = "gpu";
/// Most devices of a claim.
pub(crate) const MOST_DEVICES: u64 = 32;
/// More memory than any card has, in MiB.
pub(crate) const MOST_MIB: u64 = divvy_policy::size::MAX_BYTES >> 20;
/// The longest name, of whatever.
const LONGEST_NAME: usize = 63;

/// When a share's work goes, beside others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SharePriority {
    High,
    Low,
}

/// A container's wish, of each of its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ask {
    pub(crate) devices: u64,
    /// All of the card where it is `None`.
    #[serde(rename = "memory_bytes", serialize_with = "as_bytes")]
    pub(crate) memory_mib: Option<u64>,
    /// The device's time in percent, all of it where it is `None`.
    pub(crate) cores_percent: Option<u64>,
    /// Whether it may have what is idle, above `cores_percent`.
    pub(crate) bursts: bool,
    pub(crate) priority: Option<SharePriority>,
    pub(crate) oversubscribes: bool,
    /// Whether its devices are on one NUMA node.
    pub(crate) one_numa_node: bool,
    /// CEL expressions, all of which must hold for a device.
    pub(crate) selectors: Vec<String>,
}

/// Memory in the report's unit.
fn as_bytes<S: Serializer>(mib: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    mib.map(|mib| mib << 20).serialize(serializer)
}

impl Ask {
    /// Whether it asks for whole cards.
    pub(crate) fn is_whole(&self) -> bool {
        self.memory_mib.is_none() && self.cores_percent.is_none_or(|cores| cores == 100)
    }

    /// Whether it asks for whole instances of MIG.
    pub(crate) fn is_instance(&self) -> bool {
        let begin = format!("has({})", profile_attribute());
        self.selectors.iter().any(|selector| selector.starts_with(&begin))
    }

    /// The claim's `spec`.
    fn spec(&self) -> Node {
        let mut exactly = vec![("deviceClassName", Node::plain(DRIVER))];
        if !self.selectors.is_empty() {
            let selector = |expression: &String| {
                let expression = ("expression", Node::single(expression));
                Node::mapping([("cel", Node::mapping([expression]))])
            };
            exactly.push(("selectors", Node::sequence(self.selectors.iter().map(selector))));
        }
        exactly.push(("allocationMode", Node::plain("ExactCount")));
        exactly.push(("count", Node::plain(self.devices.to_string())));
        let memory = self.memory_mib.map(|mib| ("memory", Node::plain(format!("{mib}Mi"))));
        let cores = self.cores_percent.map(|cores| ("cores", Node::quoted(cores.to_string())));
        if memory.is_some() || cores.is_some() {
            let requests = Node::mapping(memory.into_iter().chain(cores));
            exactly.push(("capacity", Node::mapping([("requests", requests)])));
        }
        let request = [("name", Node::plain(REQUEST)), ("exactly", Node::mapping(exactly))];
        let mut devices = vec![("requests", Node::sequence([Node::mapping(request)]))];
        let constraints = self.constraints();
        if !constraints.is_empty() {
            devices.push(("constraints", Node::sequence(constraints)));
        }
        devices.extend(self.config().map(|config| ("config", Node::sequence([config]))));
        Node::mapping([("devices", Node::mapping(devices))])
    }

    fn constraints(&self) -> Vec<Node> {
        if self.devices < 2 {
            return Vec::new();
        }
        let requests = || Node::sequence([Node::plain(REQUEST)]);
        let distinct = ("distinctAttribute", Node::plain(format!("{DRIVER}/uuid")));
        let same = ("matchAttribute", Node::plain("resource.kubernetes.io/numaNode"));
        let mut constraints = vec![Node::mapping([("requests", requests()), distinct])];
        if self.one_numa_node {
            constraints.push(Node::mapping([("requests", requests()), same]));
        }
        constraints
    }

    /// The share's configuration, where anything in it is not as the class has it.
    fn config(&self) -> Option<Node> {
        let mut share = Vec::new();
        let priority = match self.priority {
            Some(SharePriority::High) => Some("high"),
            Some(SharePriority::Low) => Some("low"),
            None => None,
        };
        share.extend(priority.map(|priority| ("priority", Node::plain(priority))));
        if self.bursts {
            share.push(("burst", Node::mapping([("cores", Node::quoted("100"))])));
        }
        if self.oversubscribes {
            share.push(("oversubscribe", Node::plain("true")));
        }
        if share.is_empty() {
            return None;
        }
        let head = [("apiVersion", Node::plain("divvy.dev/v1")), ("kind", Node::plain("Share"))];
        let parameters = Node::mapping(head.into_iter().chain(share));
        let opaque = Node::mapping([("driver", Node::plain(DRIVER)), ("parameters", parameters)]);
        let requests = Node::sequence([Node::plain(REQUEST)]);
        Some(Node::mapping([("requests", requests), ("opaque", opaque)]))
    }

    /// The template for this claim, by the name that says what is in it.
    pub(crate) fn template(&self, namespace: &str) -> Node {
        object(Some(namespace), &self.name(), self)
    }

    /// The claim that `name` stands for, where the name says all of it.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("gpu-")?.split('-').peekable();
        let number = |part: &str, unit: char| part.strip_suffix(unit)?.parse::<u64>().ok();
        let devices = parts.peek().and_then(|part| number(part, 'x'));
        if devices.is_some() {
            parts.next();
        }
        let memory_mib = match parts.next()? {
            "whole" => None,
            part => Some(part.strip_suffix("mi")?.parse().ok()?),
        };
        let cores_percent = parts.peek().and_then(|part| number(part, 'c'));
        if cores_percent.is_some() {
            parts.next();
        }
        let ask = Self {
            devices: devices.unwrap_or(1),
            memory_mib,
            cores_percent,
            bursts: parts.next() == Some("burst"),
            priority: None,
            oversubscribes: false,
            one_numa_node: false,
            selectors: Vec::new(),
        };
        let is_claim = (1..=MOST_DEVICES).contains(&ask.devices)
            && memory_mib.is_none_or(|mib| (1..=MOST_MIB).contains(&mib))
            && cores_percent.is_none_or(|cores| (1..=100).contains(&cores));
        // One claim has one name: without this `gpu-1x-08mi` would be read too.
        (is_claim && ask.name() == name).then_some(ask)
    }

    /// A name that says what is asked for.
    fn name(&self) -> String {
        let mut name = String::from("gpu");
        if self.devices != 1 {
            name.push_str(&format!("-{}x", self.devices));
        }
        match self.memory_mib {
            Some(mib) => name.push_str(&format!("-{mib}mi")),
            None => name.push_str("-whole"),
        }
        if let Some(cores) = self.cores_percent {
            name.push_str(&format!("-{cores}c"));
        }
        if self.bursts {
            name.push_str("-burst");
        }
        let is_plain = self.priority.is_none() && !self.oversubscribes && !self.one_numa_node;
        if !(is_plain && self.selectors.is_empty()) {
            // Words and not the type's own form: a name must not change because a field is called otherwise.
            let flags = [
                ("high", self.priority == Some(SharePriority::High)),
                ("low", self.priority == Some(SharePriority::Low)),
                ("oversubscribe", self.oversubscribes),
                ("numa", self.one_numa_node),
            ];
            let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag);
            let selectors = self.selectors.iter().map(String::as_str);
            let all: String = flags.chain(selectors).flat_map(|part| [part, "\n"]).collect();
            name.push_str(&format!("-{:010x}", fnv_1a(BASIS, all.as_bytes()) & 0xff_ffff_ffff));
        }
        name
    }
}

/// Templates of a run, each by its namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    /// `None` for one that the input brings itself.
    known: BTreeMap<Place, Option<Ask>>,
    /// Those that were made, in their order.
    made: Vec<Place>,
}

/// Namespace and name.
type Place = (Option<String>, String);

impl Templates {
    /// Keeps a name from being given: the input has a template of its own by it.
    pub(crate) fn reserve(&mut self, namespace: Option<&str>, name: &str) {
        self.known.insert((namespace.map(str::to_owned), name.to_owned()), None);
    }

    /// Number of templates made so far, for [`Self::forget`].
    pub(crate) fn count(&self) -> usize {
        self.made.len()
    }

    /// Forgets all templates but the first `count`: what came then is not written.
    pub(crate) fn forget(&mut self, count: usize) {
        for place in self.made.drain(count.min(self.made.len())..) {
            self.known.remove(&place);
        }
    }

    /// The name of the template for `ask`, and the template where this namespace has it for the first time.
    pub(crate) fn template(
        &mut self,
        namespace: Option<&str>,
        ask: &Ask,
    ) -> (String, Option<Node>) {
        let stem = ask.name();
        for attempt in 1_u32.. {
            let name = if attempt == 1 { stem.clone() } else { format!("{stem}-{attempt}") };
            let key = (namespace.map(str::to_owned), name.clone());
            match self.known.get(&key) {
                Some(Some(known)) if known == ask => return (name, None),
                Some(_) => {}
                None => {
                    self.made.push(key.clone());
                    self.known.insert(key, Some(ask.clone()));
                    let object = object(namespace, &name, ask);
                    return (name, Some(object));
                }
            }
        }
        (stem, None)
    }
}

fn object(namespace: Option<&str>, name: &str, ask: &Ask) -> Node {
    let namespace = namespace.map(|namespace| ("namespace", Node::word(namespace)));
    let metadata = [("name", Node::plain(name))].into_iter().chain(namespace);
    Node::mapping([
        ("apiVersion", Node::plain("resource.k8s.io/v1")),
        ("kind", Node::plain("ResourceClaimTemplate")),
        ("metadata", Node::mapping(metadata)),
        ("spec", Node::mapping([("spec", ask.spec())])),
    ])
}

/// A pod's name for a claim: `stem`, cut and with a number where another claim of the pod has that.
pub(crate) fn pod_claim_name(stem: &str, taken: &[String]) -> String {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let cut = |text: &str, room: usize| {
        let part = |c: char| if is_part(c) { c } else { '-' };
        let text: String = text.chars().take(room).map(part).collect();
        text.trim_matches('-').to_owned()
    };
    let first = cut(stem, LONGEST_NAME);
    if !taken.contains(&first) {
        return first;
    }
    let numbered = |number: u32| {
        let number = format!("-{number}");
        cut(stem, LONGEST_NAME - number.len()) + &number
    };
    (2_u32..).map(numbered).find(|name| !taken.contains(name)).unwrap_or(first)
}

/// Start of a card's type as HAMi's plugin registers it, where the card's name does not begin with NVIDIA.
const TYPE_PREFIX: &str = "nvidia-";

/// Part of a card's name that a word of HAMi's asks for, in lower case; `None` where every card of NVIDIA's has it.
///
/// HAMi looks for the word in the type, which is the name for `NVIDIA H200`, and `NVIDIA-Tesla T4` for `Tesla T4`.
pub(crate) fn type_part(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let part = word.strip_prefix(TYPE_PREFIX).unwrap_or(&word);
    let is_of_all = part.is_empty() || TYPE_PREFIX.trim_end_matches('-').contains(part);
    (!is_of_all).then(|| part.to_owned())
}

/// A CEL expression for devices whose name has one of these parts, which are in lower case.
pub(crate) fn type_selector(parts: &[String], is_wanted: bool) -> String {
    let part = |part: &String| {
        format!(r#"device.attributes["{DRIVER}"].productName.lowerAscii().contains("{part}")"#)
    };
    either(parts.iter().map(part).collect(), is_wanted)
}

/// A CEL expression for devices with one of these UUIDs, and for instances of MIG on a card that has one.
pub(crate) fn uuid_selector(uuids: &[String], is_wanted: bool) -> String {
    let list: Vec<String> = uuids.iter().map(|uuid| format!("\"{uuid}\"")).collect();
    let list = list.join(", ");
    let attributes = format!(r#"device.attributes["{DRIVER}"]"#);
    let mut parts = vec![format!("{attributes}.uuid in [{list}]")];
    if uuids.iter().any(|uuid| uuid.starts_with("GPU-")) {
        let parent = format!("{attributes}.parentUUID");
        parts.push(format!("has({parent}) && {parent} in [{list}]"));
    }
    either(parts, is_wanted)
}

fn profile_attribute() -> String {
    format!(r#"device.attributes["{DRIVER}"].profile"#)
}

/// A CEL expression for instances of MIG of this profile: a card has none.
pub(crate) fn profile_selector(profile: &str) -> String {
    let attribute = profile_attribute();
    format!(r#"has({attribute}) && {attribute} == "{profile}""#)
}

fn either(parts: Vec<String>, is_wanted: bool) -> String {
    let all = parts.join(" || ");
    if is_wanted { all } else { format!("!({all})") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask() -> Ask {
        Ask {
            devices: 1,
            memory_mib: Some(8192),
            cores_percent: Some(30),
            bursts: false,
            priority: None,
            oversubscribes: false,
            one_numa_node: false,
            selectors: Vec::new(),
        }
    }

    fn is_label(name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=LONGEST_NAME).contains(&name.len())
            && name.chars().all(is_part)
            && !name.starts_with('-')
            && !name.ends_with('-')
    }

    #[test]
    fn equal_claims_have_one_template_for_each_namespace() {
        let mut templates = Templates::default();
        let (name, first) = templates.template(None, &ask());
        assert_eq!((name.as_str(), first.is_some()), ("gpu-8192mi-30c", true));
        assert!(templates.template(None, &ask()).1.is_none());
        let (name, other) = templates.template(Some("team"), &ask());
        assert!(name == "gpu-8192mi-30c" && other.is_some());
    }

    #[test]
    fn a_name_that_the_input_has_is_not_given_again() {
        let mut templates = Templates::default();
        templates.reserve(None, "gpu-8192mi-30c");
        assert_eq!(templates.template(None, &ask()).0, "gpu-8192mi-30c-2");
        assert_eq!(templates.template(None, &ask()).0, "gpu-8192mi-30c-2");
    }

    #[test]
    fn names_that_are_no_claims_are_not_read() {
        assert_eq!(Ask::of_name("gpu-8192mi-30c"), Some(ask()));
        let whole = Ask { devices: 32, memory_mib: None, cores_percent: Some(1), ..ask() };
        assert_eq!(Ask::of_name("gpu-32x-whole-1c-burst"), Some(Ask { bursts: true, ..whole }));
        for name in [
            "",
            "gpu",
            "gpu-",
            "gpu-8192",
            "gpu-8192mi-",
            "gpu-8192Mi",
            "gpu-0mi",
            "gpu-08mi",
            "gpu-+8mi",
            "gpu-1x-8mi",
            "gpu-0x-8mi",
            "gpu-33x-8mi",
            "gpu-8mi-0c",
            "gpu-8mi-101c",
            "gpu-8mi-30c-burst-burst",
            "gpu-8mi-burst-30c",
            "gpu-8mi-30c-0123456789",
            "gpu-8mi-30c-2",
            "gpu-99999999999999999999mi",
            "gpu-18446744073709551615mi",
            "gpu--8mi",
            "GPU-8mi",
            "gpu-８mi",
        ] {
            assert_eq!(Ask::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn claims_of_a_pod_have_names_of_their_own() {
        let long = "a".repeat(80);
        let first = pod_claim_name(&long, &[]);
        let second = pod_claim_name(&long, std::slice::from_ref(&first));
        assert!(is_label(&first) && is_label(&second) && first != second);
        assert_eq!(pod_claim_name(&format!("{}-b", "a".repeat(62)), &[]), "a".repeat(62));
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_its_claim(
            devices in 1..=MOST_DEVICES,
            memory in proptest::option::of(1..=MOST_MIB),
            cores in proptest::option::of(1..=100_u64),
            bursts: bool,
        ) {
            let plain = Ask { devices, memory_mib: memory, cores_percent: cores, bursts, ..ask() };
            prop_assert_eq!(Ask::of_name(&plain.name()), Some(plain));
        }

        #[test]
        fn whatever_is_read_has_that_name(name in "gpu(-[0-9]{0,3}(x|mi|c|whole|burst)?){0,5}|\\PC*") {
            if let Some(ask) = Ask::of_name(&name) {
                prop_assert_eq!(ask.name(), name);
            }
        }

        #[test]
        fn names_are_labels_and_differ_where_claims_do(
            devices in 1..=MOST_DEVICES,
            memory in proptest::option::of(1..67_108_864_u64),
            cores in proptest::option::of(1..=100_u64),
            bursts: bool,
            is_low: bool,
            oversubscribes: bool,
            word in "[a-z0-9]{1,8}",
        ) {
            let one = Ask {
                devices,
                memory_mib: memory,
                cores_percent: cores,
                bursts,
                priority: is_low.then_some(SharePriority::Low),
                oversubscribes,
                one_numa_node: false,
                selectors: vec![type_selector(&[word], true)],
            };
            let two = Ask { selectors: Vec::new(), ..one.clone() };
            prop_assert!(is_label(&one.name()) && is_label(&two.name()));
            prop_assert_ne!(one.name(), two.name());
            let written = crate::yaml::write(&object(Some("n"), &one.name(), &one));
            prop_assert!(written.is_ok(), "{:?}", written);
        }
    }
}
