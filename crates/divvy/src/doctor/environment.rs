//! The environment's limits and settings: understood or not, as a program started here would find
//! them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use divvy_policy::limit::Rules;

use super::{Finding, Reason};
use crate::tenant_dir;

/// The two families, the first wins.
const FAMILIES: [&str; 2] = ["DIVVY_MEMORY", "CUDA_DEVICE_MEMORY_LIMIT"];

/// HAMi-core's variables that do nothing under Divvy, and why.
const IGNORED: [(&str, &str); 5] = [
    ("CUDA_DEVICE_SM_LIMIT", "this version does not limit computing time"),
    ("GPU_CORE_UTILIZATION_POLICY", "this version does not limit computing time"),
    ("CUDA_TASK_PRIORITY", "this version has no priorities"),
    ("ACTIVE_OOM_KILLER", "Divvy refuses memory and kills nobody"),
    ("CUDA_REDIRECT", "Divvy does not load itself a second time"),
];

/// Settings and the values they take.
const SETTINGS: [(&str, &[&str]); 3] = [
    ("DIVVY_FAIL", &["closed", "open"]),
    ("DIVVY_LOG", &["off", "error", "warn", "info", "debug"]),
    ("LIBCUDA_LOG_LEVEL", &["0", "1", "2", "3", "4"]),
];

pub(super) fn look(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<Finding> {
    let mut variables: Vec<(String, String)> = variables
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .collect();
    variables.sort();
    let mut findings = limits(&variables);
    let base = |name: &str| {
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
        digits.strip_suffix('_').map_or_else(|| name.to_owned(), str::to_owned)
    };
    for (name, value) in &variables {
        if let Some((_, why)) = IGNORED.iter().find(|(ignored, _)| *ignored == base(name)) {
            findings.push(Finding::note(
                Reason::IgnoredVariable,
                format!("{name}={value} has no effect: {why}"),
            ));
        }
        if let Some((_, known)) = SETTINGS.iter().find(|(setting, _)| setting == name)
            && !known.contains(&value.as_str())
        {
            findings.push(Finding::bad(
                Reason::Setting,
                format!("{name}={value} is not known"),
                format!("write one of {}", known.join(", ")),
            ));
        }
    }
    findings.extend(tenant(&variables));
    findings.extend(meeting(&variables));
    findings
}

/// Where a tenant of this environment, if it is one, would meet others without a daemon.
fn meeting(variables: &[(String, String)]) -> Option<Finding> {
    let of = |wanted: &str| variables.iter().find(|(name, _)| name == wanted);
    let directory = match (of("DIVVY_TENANT"), of("CUDA_DEVICE_MEMORY_SHARED_CACHE")) {
        (Some((_, directory)), _) => PathBuf::from(directory),
        (None, Some((_, file))) => Path::new(file).parent()?.join(".divvy").join("tenant"),
        (None, None) => return None,
    };
    let beside = directory.parent()?.join(tenant_dir::MEETING);
    (directory.parent()?.is_dir() && !beside.is_dir()).then(|| {
        let found = format!("{} is missing", beside.display());
        Finding::note(Reason::NoMeeting, found)
            .with_fix("make it, mode 700, where tenants with caps share a device without a daemon")
    })
}

fn limits(variables: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used: Option<&str> = None;
    for family in FAMILIES {
        let mut rules = Rules::new();
        let mut seen = Vec::new();
        for (name, value) in variables {
            match rules.push_env(family, name, value) {
                Ok(false) => {}
                Ok(true) => seen.push(format!("{name}={value}")),
                Err(error) => findings.push(Finding::bad(
                    Reason::LimitNotUnderstood,
                    format!("{name}={value}: {error}"),
                    "correct it: a program started here is refused GPU memory until then",
                )),
            }
        }
        if seen.is_empty() {
            continue;
        }
        match used {
            None => findings.push(Finding::ok(Reason::LimitVariables, seen.join(" "))),
            Some(first) => findings.push(Finding::note(
                Reason::IgnoredVariable,
                format!("{} has no effect beside {first}", seen.join(" ")),
            )),
        }
        used = used.or(Some(family));
    }
    if findings.is_empty() {
        let found = "no limit in the environment; only divvy run limits programs here";
        findings.push(Finding::ok(Reason::LimitVariables, found));
    }
    findings
}

fn tenant(variables: &[(String, String)]) -> Option<Finding> {
    let (name, directory) = ["DIVVY_TENANT", "CUDA_DEVICE_MEMORY_SHARED_CACHE"]
        .iter()
        .find_map(|wanted| variables.iter().find(|(name, _)| name == wanted))?;
    if name != "DIVVY_TENANT" {
        return Some(Finding::ok(Reason::Tenant, format!("{name}={directory} names the tenant")));
    }
    Some(match crate::ledger::read(std::path::Path::new(directory)) {
        Ok(tenant) => Finding::ok(Reason::Tenant, format!("inside the tenant {}", tenant.name)),
        Err(error) => Finding::bad(
            Reason::Tenant,
            format!("DIVVY_TENANT={directory} cannot be used: {error:#}"),
            "start the program by divvy run, or unset DIVVY_TENANT",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn look_at(pairs: &[(&str, &str)]) -> Vec<(Reason, Level)> {
        let variables = pairs.iter().map(|(name, value)| (name.into(), value.into()));
        look(variables).iter().map(|finding| (finding.code, finding.level)).collect()
    }

    #[test]
    fn limits_are_understood_or_named() {
        use Reason::*;
        assert_eq!(look_at(&[]), [(LimitVariables, Level::Ok)]);
        assert_eq!(look_at(&[("DIVVY_MEMORY_0", "8GiB")]), [(LimitVariables, Level::Ok)]);
        assert_eq!(look_at(&[("DIVVY_MEMORY", "abc")]), [(LimitNotUnderstood, Level::Bad)]);
        assert_eq!(
            look_at(&[("DIVVY_MEMORY", "1g"), ("CUDA_DEVICE_MEMORY_LIMIT", "2g")]),
            [(LimitVariables, Level::Ok), (IgnoredVariable, Level::Note)]
        );
    }

    #[test]
    fn variables_without_effect_and_unknown_values_are_named() {
        use Reason::*;
        assert_eq!(
            look_at(&[("CUDA_DEVICE_SM_LIMIT_0", "30"), ("DIVVY_FAIL", "maybe")]),
            [(LimitVariables, Level::Ok), (IgnoredVariable, Level::Note), (Setting, Level::Bad)]
        );
        assert_eq!(
            look_at(&[("DIVVY_TENANT", "/nonexistent/tenant")]).last(),
            Some(&(Tenant, Level::Bad))
        );
        assert_eq!(
            look_at(&[("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/nonexistent/x")]).last(),
            Some(&(Tenant, Level::Ok))
        );
    }
}
