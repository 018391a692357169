//! The environment's limits and settings: understood or not, as a program started here would find
//! them.
//!
//! Every variable of `divvy_policy::variables` is judged: limits by the parsers that the library has, in
//! the order in which it asks them, the others by what may stand in them. A name that begins as ours do
//! and is none is a typing error until shown otherwise.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use divvy_policy::limit::{Rules, env_selector};
use divvy_policy::share::Environment;
use divvy_policy::size::{self, Limit};
use divvy_policy::variables::{
    self, COMPUTE, FAIL, MEMORY, PEER_COMPUTE, PEER_MEMORY, PEER_PRIORITY, PEER_TENANT, PRIORITY,
    TENANT, VARIABLES, Variable, VariableKind, VariableReader,
};

use super::finding::Finding;
use crate::output::reason::Reason;
use crate::tenants::tenant_dir;

/// How alike two names are from which on one is taken for the other, 1 being the same.
const ALIKE: f64 = 0.8;
/// Beginnings of names that nobody but Divvy and HAMi-core gives.
const OURS: [&str; 3] = ["DIVVY_", "CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_"];
/// The variables, by name.
pub(super) type Variables = [(String, String)];

/// The variables as texts, in order.
pub(super) fn variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = variables
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .collect();
    variables.sort();
    variables
}

pub(super) fn look(variables: &Variables) -> Vec<Finding> {
    let mut findings = limits(variables);
    findings.extend(settings(variables));
    findings.extend(variables.iter().filter_map(|(name, value)| unknown(name, value)));
    findings.extend(tenant(variables));
    findings.extend(meeting(variables));
    findings
}

/// Variables that ask for a limit here, as they are written: limits of memory and time, and tenants.
pub(super) fn asked(variables: &Variables) -> Vec<String> {
    let is_asked = |name: &str, value: &str| {
        [MEMORY, PEER_MEMORY, COMPUTE, PEER_COMPUTE].iter().any(|base| is_of(name, base))
            || (matches!(name, TENANT | PEER_TENANT) && !value.is_empty())
    };
    let asked = variables.iter().filter(|(name, value)| is_asked(name, value));
    asked.map(|(name, value)| format!("{name}={value}")).collect()
}

/// The limits of memory and of time that hold here, as the library reads them. Empty beside a tenant that has its own limits;
/// a limit that the library does not understand is left out.
pub(super) fn rules(variables: &Variables) -> (Rules, Environment) {
    let (mut rules, mut share) = (Rules::new(), Environment::new());
    if tenant_of(variables, TENANT).is_none() {
        for (name, value) in variables {
            let known = limit(name);
            let is_beaten = known == Some(PEER_MEMORY) && is_set(variables, MEMORY);
            let _ = match known {
                Some(base @ (MEMORY | PEER_MEMORY)) if !is_beaten => {
                    rules.push_env(base, name, value)
                }
                _ => share.push(name, value),
            };
        }
    }
    (rules, share)
}

pub(super) fn value_of<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
    variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The value of a variable that names a tenant; an empty one names none.
pub(super) fn tenant_of<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
    value_of(variables, name).filter(|value| !value.is_empty())
}

/// Whether `name` is `base`, or `base` with the number of a device or what was meant for one.
fn is_of(name: &str, base: &str) -> bool {
    env_selector(name, base).is_some()
}

fn is_set(variables: &Variables, base: &str) -> bool {
    variables.iter().any(|(name, _)| is_of(name, base))
}

/// The fix for a value that the library does not understand: what it does to programs until then.
fn correct(variables: &Variables) -> String {
    let until_then = match value_of(variables, FAIL) {
        Some("open") => "runs without limits",
        _ => "is refused GPU memory",
    };
    format!("correct it: a program started here {until_then} until then")
}

/// Limits of memory and time, as the library reads them.
fn limits(variables: &Variables) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_force = Vec::new();
    let (mut rules, mut share) = (Rules::new(), Environment::new());
    let has_tenant = tenant_of(variables, TENANT).is_some();
    // The library leaves a program alone that has none of these.
    let is_limited = !asked(variables).is_empty();
    for (name, value) in variables {
        let Some(known) = limit(name) else { continue };
        let shown = format!("{name}={value}");
        let mut ignored = |why: &str| {
            let found = format!("{shown} has no effect {why}");
            findings.push(Finding::note(Reason::IgnoredVariable, found));
        };
        if has_tenant {
            ignored("beside DIVVY_TENANT, whose tenant has limits of its own");
            continue;
        }
        if known == PEER_MEMORY && is_set(variables, MEMORY) {
            ignored("beside DIVVY_MEMORY, and is not read");
            continue;
        }
        let read = match known {
            MEMORY | PEER_MEMORY => rules.push_env(known, name, value),
            _ => share.push(name, value),
        };
        if let Err(error) = read {
            let found = format!("{name}: {error}");
            let fix = correct(variables);
            findings.push(Finding::bad(Reason::LimitNotUnderstood, found, fix));
        } else if let Some(own) = beaten_by(variables, known) {
            ignored(&format!("beside {own}"));
        } else if !is_limited {
            ignored("without a limit of memory or time, or a tenant");
        } else {
            in_force.push(shown);
        }
    }
    if in_force.is_empty() {
        let found = "no limit in the environment; only divvy run limits programs here";
        in_force.extend(findings.is_empty().then(|| found.to_owned()));
    }
    if !in_force.is_empty() {
        findings.insert(0, Finding::ok(Reason::LimitVariables, in_force.join(" ")));
    }
    findings
}

/// The name of a variable that holds a limit, without a device's number.
fn limit(name: &str) -> Option<&'static str> {
    let is_limit = |known: &&Variable| {
        matches!(known.value, VariableKind::Memory | VariableKind::Share)
            && match known.per_device {
                true => is_of(name, known.name),
                false => known.name == name,
            }
    };
    VARIABLES.iter().find(is_limit).map(|known| known.name)
}

/// Divvy's variable that comes before HAMi-core's of the same meaning.
fn beaten_by(variables: &Variables, peer: &str) -> Option<&'static str> {
    let own = match peer {
        PEER_COMPUTE => COMPUTE,
        PEER_PRIORITY => PRIORITY,
        _ => return None,
    };
    is_set(variables, own).then_some(own)
}

/// Variables that are no limits: words, amounts, files and directories.
fn settings(variables: &Variables) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_force = Vec::new();
    for (name, value) in variables {
        let Some(known) = VARIABLES.iter().find(|known| known.name == name) else { continue };
        let shown = format!("{name}={value}");
        // An empty value is none.
        let judged = match known.value {
            VariableKind::Ignored(why) => {
                let found = format!("{shown} has no effect: {why}");
                findings.push(Finding::note(Reason::IgnoredVariable, found));
                continue;
            }
            VariableKind::Memory
            | VariableKind::Share
            | VariableKind::Tenant
            | VariableKind::TenantPath => continue,
            _ if value.is_empty() => continue,
            VariableKind::Word(words) if words.contains(&value.as_str()) => Ok(()),
            VariableKind::Word(words) => {
                Err(("is not known".to_owned(), format!("write one of {}", words.join(", "))))
            }
            VariableKind::Amount => amount(value).map_err(|words| (words, correct(variables))),
            VariableKind::File => there(Path::new(value).is_file(), "names no file"),
            VariableKind::Directory => there(Path::new(value).is_dir(), "names no directory"),
            VariableKind::Directories => {
                let absent = std::env::split_paths(value).find(|path| !path.is_dir());
                let words = absent.map(|path| format!("names {}, no directory", path.display()));
                there(words.is_none(), &words.unwrap_or_default())
            }
            VariableKind::Place | VariableKind::Presence => Ok(()),
        };
        match judged {
            // Others set those for programs of their own.
            Ok(()) if !name.starts_with("XDG_") => in_force.push(shown),
            Ok(()) => {}
            Err((words, fix)) if name.starts_with("XDG_") => {
                let found = format!("{shown} {words}; the next place is taken");
                findings.push(Finding::note(Reason::Setting, found).with_fix(fix));
            }
            Err((words, fix)) => {
                findings.push(Finding::bad(Reason::Setting, format!("{shown} {words}"), fix));
            }
        }
    }
    if !in_force.is_empty() {
        findings.insert(0, Finding::ok(Reason::Setting, in_force.join(" ")));
    }
    findings
}

/// Fault of a value, and the fix.
type Judged = Result<(), (String, String)>;

fn there(is_there: bool, words: &str) -> Judged {
    let fix = || "correct or unset it".to_owned();
    if is_there { Ok(()) } else { Err((words.to_owned(), fix())) }
}

fn amount(value: &str) -> Result<(), String> {
    match size::parse_written(value) {
        Ok(Limit::Bytes(_)) => Ok(()),
        Ok(Limit::Unlimited | Limit::Ppm(_)) => Err("is no amount".to_owned()),
        Err(error) => Err(format!("is not understood: {error}")),
    }
}

/// A name that begins as ours do and is none.
fn unknown(name: &str, value: &str) -> Option<Finding> {
    let is_ours = OURS.iter().any(|beginning| name.starts_with(beginning));
    if !is_ours || variables::find(name).is_some() || limit(name).is_some() {
        return None;
    }
    // The number of a device says nothing of what was meant.
    let base = name.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit());
    let likeness = |known: &&Variable| strsim::normalized_damerau_levenshtein(base, known.name);
    let meant = VARIABLES.iter().filter(|known| known.reader != VariableReader::Nobody);
    let meant = meant.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let found = format!("{name}={value} is no variable of Divvy's, and nothing reads it");
    Some(match meant.filter(|known| likeness(known) >= ALIKE) {
        Some(known) => {
            let fix = format!("write {}, if that is meant", known.name);
            Finding::bad(Reason::UnknownVariable, found, fix)
        }
        None => Finding::note(Reason::UnknownVariable, found),
    })
}

/// Where a tenant of this environment, if it is one, would meet others without a daemon.
fn meeting(variables: &Variables) -> Option<Finding> {
    let directory = match (tenant_of(variables, TENANT), tenant_of(variables, PEER_TENANT)) {
        (Some(directory), _) => PathBuf::from(directory),
        (None, Some(file)) => Path::new(file).parent()?.join(".divvy").join("tenant"),
        (None, None) => return None,
    };
    let beside = directory.parent()?.join(tenant_dir::MEETING);
    (directory.parent()?.is_dir() && !beside.is_dir()).then(|| {
        let found = format!("{} is missing", beside.display());
        Finding::note(Reason::NoMeeting, found)
            .with_fix("make it, mode 700, where tenants with caps share a device without a daemon")
    })
}

fn tenant(variables: &Variables) -> Option<Finding> {
    let Some(directory) = tenant_of(variables, TENANT) else {
        return Some(peer_tenant(tenant_of(variables, PEER_TENANT)?));
    };
    Some(match crate::tenants::ledger::read(Path::new(directory)) {
        Ok(tenant) => {
            let found = format!("{TENANT}={directory}: inside the tenant {}", tenant.name);
            Finding::ok(Reason::Tenant, found)
        }
        Err(error) => Finding::bad(
            Reason::Tenant,
            format!("{TENANT}={directory} cannot be used: {error:#}"),
            "start the program by divvy run, or unset DIVVY_TENANT",
        ),
    })
}

/// The tenant of HAMi-core's variable: its files come to lie beside the one that it names.
fn peer_tenant(path: &str) -> Finding {
    use nix::unistd::{AccessFlags, access};
    let directory = match Path::new(path).parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let directory_shown = directory.display();
    let fix = match (directory.is_dir(), access(directory, AccessFlags::W_OK | AccessFlags::X_OK)) {
        (true, Ok(())) => {
            return Finding::ok(Reason::Tenant, format!("{PEER_TENANT}={path} names the tenant"));
        }
        (true, Err(_)) => format!("make {directory_shown} writable for this user"),
        (false, _) => format!("make the directory {directory_shown}"),
    };
    let found = format!("{PEER_TENANT}={path}: the tenant cannot be made there");
    Finding::bad(Reason::Tenant, found, fix)
}

#[cfg(test)]
mod tests;
