//! Doctor's judgement beside the parsers', and the table of variables beside the sources and the page.

use std::collections::BTreeSet;

use super::super::finding::Level;
use super::*;
use crate::golden;

fn findings(pairs: &[(&str, &str)]) -> Vec<Finding> {
    look(&variables(pairs.iter().map(|(name, value)| (name.into(), value.into()))))
}

fn look_at(pairs: &[(&str, &str)]) -> Vec<(Reason, Level)> {
    findings(pairs).iter().map(|finding| (finding.code, finding.level)).collect()
}

/// A value that a variable may have, and one that it may not, where there are such.
fn values(known: &Variable) -> (&'static str, Option<&'static str>) {
    match (known.name, known.value) {
        (_, VariableKind::Memory) => ("8GiB", Some("abc")),
        (COMPUTE, _) => ("30%", Some("30")),
        (PEER_COMPUTE, _) => ("30", Some("x")),
        (variables::PEER_POLICY, _) => ("force", Some("maybe")),
        (variables::WEIGHT, _) => ("3", Some("0")),
        (PRIORITY, _) => ("high", Some("urgent")),
        (PEER_PRIORITY, _) => ("0", Some("high")),
        (variables::CLASS, _) => ("latency", Some("quick")),
        (_, VariableKind::Word(words)) => (words[0], Some("maybe")),
        (_, VariableKind::Amount) => ("500MiB", Some("500")),
        (_, VariableKind::Tenant) => ("/nonexistent/tenant", None),
        (_, VariableKind::TenantPath) => ("/tmp/x.cache", None),
        (_, VariableKind::File) => ("/proc/self/exe", Some("/nonexistent")),
        (_, VariableKind::Directory | VariableKind::Directories) => ("/proc", Some("/nonexistent")),
        (_, VariableKind::Place | VariableKind::Presence) => ("/nonexistent", None),
        (_, VariableKind::Ignored(_)) => ("1", None),
        (name, value) => panic!("{name} has no example: {value:?}"),
    }
}

/// Doctor says something of every variable there is, and what the parser would.
#[test]
fn every_variable_is_judged() {
    for known in VARIABLES {
        let (good, bad) = values(known);
        let numbered = format!("{}_1", known.name);
        let names = [known.name, &numbered];
        for name in names.into_iter().take(if known.per_device { 2 } else { 1 }) {
            // A limit of memory, so that weights and the like have an effect.
            let beside = if known.value == VariableKind::Memory { COMPUTE } else { MEMORY };
            let with = |value| findings(&[(beside, "50%"), (name, value)]);
            let named = |findings: &[Finding]| -> Vec<Level> {
                let is_named = |finding: &&Finding| {
                    let shown = format!("{name}=");
                    finding.found.contains(&shown) || finding.found.starts_with(&format!("{name}:"))
                };
                findings.iter().filter(is_named).map(|finding| finding.level).collect()
            };
            let is_quiet = name.starts_with("XDG_");
            let found = with(good);
            assert_eq!(named(&found).is_empty(), is_quiet, "{name}={good}: {found:?}");
            let is_good =
                |level: &Level| *level != Level::Bad || known.value == VariableKind::Tenant;
            assert!(named(&found).iter().all(is_good), "{name}={good}: {found:?}");
            let Some(bad) = bad else { continue };
            let found = with(bad);
            let worst = if is_quiet { Level::Note } else { Level::Bad };
            assert!(named(&found).contains(&worst), "{name}={bad}: {found:?}");
        }
    }
}

/// The parsers accept what the table says they read, and refuse what doctor calls bad.
#[test]
fn the_parsers_read_what_the_table_says() {
    for known in VARIABLES {
        let (good, bad) = values(known);
        let push = |value: &str| -> Result<bool, String> {
            match known.value {
                VariableKind::Memory => {
                    let mut rules = Rules::new();
                    rules.push_env(known.name, known.name, value).map_err(|error| error.to_string())
                }
                VariableKind::Share => {
                    let mut share = Environment::new();
                    share.push(known.name, value).map_err(|error| error.to_string())
                }
                _ => Ok(true),
            }
        };
        assert_eq!(push(good), Ok(true), "{}", known.name);
        if matches!(known.value, VariableKind::Memory | VariableKind::Share) {
            assert!(bad.is_some_and(|bad| push(bad).is_err()), "{}", known.name);
        }
    }
}

#[test]
fn limits_are_understood_or_named() {
    use Reason::*;
    assert_eq!(look_at(&[]), [(LimitVariables, Level::Ok)]);
    assert_eq!(look_at(&[("DIVVY_MEMORY_0", "8GiB")]), [(LimitVariables, Level::Ok)]);
    assert_eq!(look_at(&[("DIVVY_MEMORY", "abc")]), [(LimitNotUnderstood, Level::Bad)]);
    assert_eq!(look_at(&[("DIVVY_MEMORY_x", "8GiB")]), [(LimitNotUnderstood, Level::Bad)]);
    let share = [("CUDA_DEVICE_SM_LIMIT_0", "30"), ("CUDA_TASK_PRIORITY", "1")];
    let found = findings(&share);
    assert_eq!(found[0].found, "CUDA_DEVICE_SM_LIMIT_0=30 CUDA_TASK_PRIORITY=1");
    assert_eq!(look_at(&share), [(LimitVariables, Level::Ok)]);
}

#[test]
fn what_comes_after_another_has_no_effect() {
    use Reason::*;
    let ignored = [(LimitVariables, Level::Ok), (IgnoredVariable, Level::Note)];
    for (own, peer) in [
        // The library does not even read the second; its value may be anything.
        (("DIVVY_MEMORY", "1g"), ("CUDA_DEVICE_MEMORY_LIMIT", "x")),
        (("DIVVY_COMPUTE_1", "30%"), ("CUDA_DEVICE_SM_LIMIT", "40")),
    ] {
        assert_eq!(look_at(&[own, peer]), ignored, "{peer:?}");
    }
    let both = [("DIVVY_COMPUTE", "30%"), ("DIVVY_PRIORITY", "low"), ("CUDA_TASK_PRIORITY", "0")];
    assert_eq!(look_at(&both), ignored);
    assert_eq!(look_at(&[("DIVVY_WEIGHT", "3")]), [(IgnoredVariable, Level::Note)]);
    let open = findings(&[("DIVVY_FAIL", "open"), ("DIVVY_MEMORY", "abc")]);
    let bad = open.iter().find(|finding| finding.code == LimitNotUnderstood).unwrap();
    assert!(bad.fix.as_ref().unwrap().contains("without limits"), "{bad:?}");
    let of_tenant = findings(&[("DIVVY_TENANT", "/nonexistent/x"), ("DIVVY_MEMORY", "abc")]);
    assert_eq!(of_tenant[0].code, IgnoredVariable);
    assert!(of_tenant[0].found.contains("beside DIVVY_TENANT"), "{of_tenant:?}");
}

#[test]
fn a_name_that_was_mistyped_is_named_with_the_one_that_was_meant() {
    for (name, meant) in [
        ("DIVVY_MEMROY", "DIVVY_MEMORY"),
        ("DIVVY_MEMORYS", "DIVVY_MEMORY"),
        ("DIVVY_COMPUT_0", "DIVVY_COMPUTE"),
        ("CUDA_DEVICE_MEMORY_LIMITS", "CUDA_DEVICE_MEMORY_LIMIT"),
        ("CUDA_DEVICE_SM_LIMT_1", "CUDA_DEVICE_SM_LIMIT"),
    ] {
        let found = findings(&[(name, "8GiB")]);
        let bad = found.iter().find(|finding| finding.code == Reason::UnknownVariable).unwrap();
        assert_eq!(bad.level, Level::Bad, "{name}");
        assert_eq!(bad.fix.as_deref(), Some(&*format!("write {meant}, if that is meant")));
    }
    let note = (Reason::UnknownVariable, Level::Note);
    assert!(look_at(&[("DIVVY_OF_SOMEBODY_ELSE", "1")]).contains(&note));
    assert_eq!(look_at(&[("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]).len(), 1);
}

#[test]
fn a_tenant_that_cannot_be_used_is_bad() {
    assert_eq!(
        look_at(&[("DIVVY_TENANT", "/nonexistent/tenant")]).last(),
        Some(&(Reason::Tenant, Level::Bad))
    );
    assert_eq!(
        look_at(&[("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/nonexistent/x")]).last(),
        Some(&(Reason::Tenant, Level::Bad))
    );
    assert_eq!(
        look_at(&[("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/x.cache")]).last(),
        Some(&(Reason::Tenant, Level::Ok))
    );
    for empty in ["DIVVY_TENANT", "CUDA_DEVICE_MEMORY_SHARED_CACHE"] {
        assert_eq!(look_at(&[(empty, "")]), look_at(&[]), "{empty} names no tenant");
    }
}

/// The tables of docs/guide/environment.md. `DIVVY_GOLDEN=write` writes them again.
#[test]
fn the_page_lists_every_variable() {
    for (reader, head) in
        [(VariableReader::Library, "for programs"), (VariableReader::Command, "for `divvy` itself")]
    {
        let mut table = format!("| variable {head} | meaning |\n|---|---|\n");
        for known in VARIABLES.iter().filter(|known| known.reader == reader) {
            let numbered =
                if known.per_device { format!(", `{}_<i>`", known.name) } else { String::new() };
            table.push_str(&format!("| `{}`{numbered} | {} |\n", known.name, known.meaning));
        }
        golden::table("docs/guide/environment.md", &table);
    }
}

/// Names that are written in the sources and are read by nobody of ours.
const OTHERS: [&str; 4] = [
    // Of tests.
    "DIVVY_GOLDEN",
    // Of builds.
    "DIVVY_COMMIT",
    // The drivers' own.
    "CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_OUT_OF_MEMORY",
];

/// A variable that some source reads is in the table; the library and the grammars name theirs by its
/// constants alone.
#[test]
fn no_source_reads_another_variable() {
    let mut found = BTreeSet::new();
    for room in ["shim", "policy", "page", "divvy"] {
        let folder = golden::repository().join("crates").join(room).join("src");
        for (path, text) in sources(&folder) {
            let is_test = path.ends_with("tests.rs") || path.ends_with("variables.rs");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for name in names(code).filter(|_| !is_test) {
                let is_known = variables::find(&name).is_some();
                assert!(is_known || OTHERS.contains(&&*name), "{}: {name}", path.display());
                let by_constant = room == "shim" || room == "policy";
                assert!(!by_constant || !is_known, "{}: {name} has a constant", path.display());
                found.insert(name);
            }
        }
    }
    assert!(found.len() > 5, "{found:?}");
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// The texts of a source that are names of variables and nothing else.
fn names(code: &str) -> impl Iterator<Item = String> {
    let beginnings = ["DIVVY_", "CUDA_", "LIBCUDA_", "GPU_CORE_", "XDG_"];
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let texts = lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned);
    texts.filter(move |text| {
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let begins = beginnings.iter().any(|one| text.starts_with(one));
        begins && !text.ends_with('_') && text.chars().all(is_name)
    })
}
