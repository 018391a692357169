//! Compose files: services that HAMi's variables limit get a device of Divvy's instead.
//!
//! Promises: a service whose limits were taken out names a CDI device, without which no engine
//! starts it; so no service loses its limit without a word. A limit that Divvy does not read
//! refuses the file.
//!
//! Does not write the devices: the warning has the command that does.

use divvy_policy::size::{self, Limit};

use crate::note::{Code, Notes};
use crate::yaml::{MapEntry, Node, Value};

const MEMORY: &str = "CUDA_DEVICE_MEMORY_LIMIT";
const CORES: &str = "CUDA_DEVICE_SM_LIMIT";
/// The variable that lifts limits of cores where it says so.
const POLICY: &str = "GPU_CORE_UTILIZATION_POLICY";
/// Variables of HAMi-core that go with the limits.
const GONE: [&str; 4] =
    ["CUDA_DEVICE_MEMORY_SHARED_CACHE", "LIBCUDA_LOG_LEVEL", "ACTIVE_OOM_KILLER", POLICY];
/// Parts of what mounts or preloads HAMi's library, which would stand before ours.
const LIBRARY: [&str; 2] = ["libvgpu.so", "ld.so.preload"];

/// Whether a document is a Compose file.
pub(crate) fn is_compose(root: &Node) -> bool {
    let services = root.get("services").map(Node::entries).unwrap_or_default();
    root.get("kind").is_none()
        && !services.is_empty()
        && services.iter().all(|service| !service.value.entries().is_empty())
}

/// A variable of a service's environment.
#[derive(Debug)]
struct ComposeVariable {
    name: String,
    value: String,
    line: usize,
}

fn variables(service: &Node) -> Vec<ComposeVariable> {
    let Some(environment) = service.get("environment") else { return Vec::new() };
    let text = |node: &Node| node.text().unwrap_or_default().to_owned();
    let of_entry = |entry: &MapEntry| ComposeVariable {
        name: entry.key.text.clone(),
        value: text(&entry.value),
        line: entry.line,
    };
    let of_item = |item: &Node| {
        let (name, value) = item.text()?.split_once('=')?;
        Some(ComposeVariable { name: name.to_owned(), value: value.to_owned(), line: item.line })
    };
    let entries = environment.entries().iter().map(of_entry);
    entries.chain(environment.items().iter().filter_map(of_item)).collect()
}

/// Takes variables out of a service's environment.
fn take(service: &mut Node, is_gone: impl Fn(&str) -> bool) {
    let Some(environment) = service.get_mut("environment") else { return };
    match &mut environment.value {
        Value::Mapping(entries) => entries.retain(|entry| !is_gone(&entry.key.text)),
        Value::Sequence(items) => items.retain(|item| {
            let name = item.text().and_then(|text| text.split_once('=')).map(|(name, _)| name);
            !name.is_some_and(&is_gone)
        }),
        Value::Scalar(_) => {}
    }
    if environment.is_empty() {
        service.remove("environment");
    }
}

/// The kind by which reports call such a document.
pub(crate) const KIND: &str = "Compose";

/// Converts the services of a Compose file; whether any was changed.
pub(crate) fn convert(root: &mut Node, notes: &mut Notes) -> bool {
    let Some(services) = root.get_mut("services") else { return false };
    let Value::Mapping(services) = &mut services.value else { return false };
    let (mut is_changed, mut taken) = (false, Vec::new());
    for entry in services {
        notes.container = Some(entry.key.text.clone());
        is_changed |= service(&entry.key.text, &mut entry.value, &mut taken, notes);
    }
    notes.container = None;
    is_changed
}

fn service(name: &str, service: &mut Node, taken: &mut Vec<String>, notes: &mut Notes) -> bool {
    let found = variables(service);
    let is_limit = |name: &str| [MEMORY, CORES].iter().any(|limit| rule_of(name, limit).is_some());
    let limits: Vec<&ComposeVariable> = found.iter().filter(|it| is_limit(&it.name)).collect();
    let Some(first) = limits.first() else { return false };
    let (mut memory, mut cores, mut options) = (Vec::new(), Vec::new(), Vec::new());
    for it in &limits {
        match limit(it) {
            Ok(Some((true, rule))) => memory.push(rule),
            Ok(Some((false, rule))) => cores.push(rule),
            Ok(None) => {}
            Err(reason) => {
                let words = format!("{}: {:?} {reason}", it.name, it.value);
                notes.add(Code::BadValue, it.line, &it.name, words);
            }
        }
    }
    if found.iter().any(|it| it.name == POLICY && it.value.eq_ignore_ascii_case("disable")) {
        cores.clear();
    }
    if !memory.is_empty() {
        options.push(format!("--memory {}", memory.join(",")));
    }
    if !cores.is_empty() {
        options.push(format!("--compute {}", cores.join(",")));
    }
    let shown: Vec<String> = limits.iter().map(|it| format!("{}={}", it.name, it.value)).collect();
    let (shown, line) = (shown.join(", "), first.line);
    let is_library =
        |it: &&ComposeVariable| it.name == "LD_PRELOAD" && it.value.contains(LIBRARY[0]);
    let preloads: Vec<&str> = found.iter().filter(is_library).map(|it| &*it.name).collect();
    take(service, |name| is_limit(name) || GONE.contains(&name) || preloads.contains(&name));
    unmount(service);
    if options.is_empty() {
        let words = format!("{shown}: no limit to HAMi; taken out");
        notes.add(Code::Removed, line, &first.name, words);
        return true;
    }
    let device = device_name(name, taken);
    taken.push(device.clone());
    let command = format!(
        "divvy cdi --name {device} {} --out /etc/cdi/divvy-{device}.json",
        options.join(" ")
    );
    service.push_within("devices", Node::plain(format!("divvy/tenant={device}")));
    let words =
        format!("{shown} became the device divvy/tenant={device}; make it on the host: {command}");
    notes.add(Code::Compose, line, &first.name, words);
    true
}

/// Takes out the mounts of HAMi's library.
fn unmount(service: &mut Node) {
    let Some(volumes) = service.get_mut("volumes") else { return };
    if let Value::Sequence(items) = &mut volumes.value {
        let has = |text: &str| LIBRARY.iter().any(|part| text.contains(part));
        let is_library = |item: &Node| {
            item.text().is_some_and(has)
                || item.entries().iter().any(|entry| entry.value.text().is_some_and(has))
        };
        items.retain(|item| !is_library(item));
    }
    if volumes.is_empty() {
        service.remove("volumes");
    }
}

/// The index that a variable's name ends in, empty for all devices; `None` where it is not this
/// limit.
fn rule_of<'n>(name: &'n str, limit: &str) -> Option<&'n str> {
    let rest = name.strip_prefix(limit)?;
    match rest.strip_prefix('_') {
        None => rest.is_empty().then_some(""),
        Some(index) => index.parse::<u8>().is_ok().then_some(index),
    }
}

/// A limit as a rule of Divvy's, and whether it is of memory; `None` where HAMi takes it for no limit.
fn limit(variable: &ComposeVariable) -> Result<Option<(bool, String)>, String> {
    let (name, value) = (&*variable.name, &*variable.value);
    let rule = |index: &str, value: String| match index {
        "" => value,
        index => format!("{index}={value}"),
    };
    if value.contains('$') {
        return Err("is filled in by Compose; write the limit itself, and convert again".to_owned());
    }
    if let Some(index) = rule_of(name, MEMORY) {
        return match size::parse_written(value) {
            Ok(Limit::Bytes(bytes)) if bytes.is_multiple_of(1 << 20) => {
                Ok(Some((true, rule(index, format!("{}MiB", bytes >> 20)))))
            }
            Ok(Limit::Bytes(bytes)) => Ok(Some((true, rule(index, format!("{bytes}B"))))),
            Ok(Limit::Unlimited) => Ok(None),
            Ok(Limit::Ppm(_)) => {
                Err("is a percentage, which HAMi does not read; write a size".into())
            }
            Err(error) => Err(format!("is no limit of memory: {error}")),
        };
    }
    let index = rule_of(name, CORES).unwrap_or_default();
    match value.parse::<u64>() {
        Ok(cores @ 1..=99) => Ok(Some((false, rule(index, format!("{cores}%"))))),
        Ok(_) => Ok(None),
        Err(_) => Err("is no percentage; write 1 to 100".to_owned()),
    }
}

/// The service's name as a device may be called, with a number where another service has it.
fn device_name(service: &str, taken: &[String]) -> String {
    const LONGEST: usize = 36;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String =
        service.chars().take(LONGEST).map(|c| if is_part(c) { c } else { '-' }).collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = if name.is_empty() { "service" } else { name };
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(|at| format!("{name}-{at}")));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}
