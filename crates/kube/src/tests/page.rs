//! Tables of the pages on Kubernetes in `docs/guide`, which are made from the lists in the code.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::explain::FindingKind;
use crate::foreign::{FOREIGN, Foreign};
use crate::key::{Key, Place};
use crate::keys::KEYS;
use crate::metric::METRICS;
use crate::note::Code;
use crate::prepare::PrepareReason;

/// Compares `table` with the one on the page that has the same first line; writes it with `DIVVY_GOLDEN=write`.
fn compare_on(page: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let head = table.lines().next().unwrap();
    let at = text.find(head).unwrap_or_else(|| panic!("the page has no table that begins {head}"));
    let end = text[at..].find("\n\n").map_or(text.len(), |end| at + end + 1);
    if std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&path, format!("{}{table}{}", &text[..at], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[at..end], table, "DIVVY_GOLDEN=write writes it again");
}

fn compare(table: &str) {
    compare_on("kubernetes-convert.md", table);
}

#[test]
fn the_agents_page_has_every_reason() {
    let mut table = String::from("| word | what to do |\n|---|---|\n");
    for (_, word, about) in PrepareReason::ALL {
        writeln!(table, "| `{word}` | {about} |").unwrap();
    }
    compare_on("kubernetes-agent.md", &table);
}

#[test]
fn the_page_on_waiting_pods_has_every_word() {
    let mut table = String::from("| word | the pod |\n|---|---|\n");
    for (kind, about) in FindingKind::ALL {
        let word = serde_json::to_value(kind).unwrap();
        writeln!(table, "| `{}` | {about} |", word.as_str().unwrap()).unwrap();
    }
    // The last is declared last: none is left out.
    assert_eq!(FindingKind::NotRead as usize + 1, FindingKind::ALL.len());
    compare_on("kubernetes-explain.md", &table);
}

#[test]
fn the_page_has_every_key_and_code_and_the_count() {
    for (place, head) in [
        (Place::Resource, "| resource | what becomes of it |"),
        (Place::Annotation, "| annotation or label of a pod | what becomes of it |"),
        (Place::Variable, "| variable of a container | what becomes of it |"),
    ] {
        let mut table = format!("{head}\n|---|---|\n");
        for key in KEYS.iter().filter(|key| key.place == place) {
            writeln!(table, "| `{}` | {} |", key.name, key.becomes).unwrap();
        }
        compare(&table);
    }
    let mut table = String::from("| system | key | what becomes of it |\n|---|---|---|\n");
    for Foreign { system, key } in FOREIGN {
        writeln!(table, "| {system} | `{}` | {} |", key.name, key.becomes).unwrap();
    }
    compare(&table);
    let mut table = String::from("| metric of HAMi's | use instead |\n|---|---|\n");
    for (name, instead) in METRICS {
        writeln!(table, "| `{name}` | {instead} |").unwrap();
    }
    compare_on("../hami-migration.md", &table);
    let mut table = String::from("| code | level | about |\n|---|---|---|\n");
    for code in Code::ALL {
        let level = serde_json::to_value(code.level()).unwrap();
        let level = level.as_str().unwrap();
        writeln!(table, "| `{}` | {level} | {} |", code.name(), code.about()).unwrap();
    }
    compare(&table);
    let [unchanged, converted, refused] = super::corpus::counts();
    let (all, run) = (unchanged + converted + refused, unchanged + converted);
    let permille = run * 1000 / all;
    compare(&format!(
        "| manifests | would run unchanged | converted | refused | run in all |\n|---|---|---|---|---|\n\
         | {all} | {unchanged} | {converted} | {refused} | {}.{} % |\n",
        permille / 10,
        permille % 10
    ));
}

#[test]
fn names_and_codes_are_there_once() {
    let mut codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    codes.sort_unstable();
    assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "{codes:?}");
    for (at, key) in KEYS.iter().enumerate() {
        let is_same = |other: &&Key| other.place == key.place && other.name == key.name;
        assert!(!KEYS[..at].iter().any(|other| is_same(&other)), "{}", key.name);
    }
}
