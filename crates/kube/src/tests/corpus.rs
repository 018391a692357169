//! The corpus: manifests written after HAMi's documentation, each beside what it becomes.
//!
//! `DIVVY_GOLDEN=write` writes the results again. Every object that is written is parsed by the API's own types.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::{apps, batch, core, resource};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::convert::{self, Converted, Options};
use crate::document::Outcome;
use crate::note::Level;
use crate::yaml::{self, Node, Style, Value};

/// The first line of a manifest that needs the option.
const CARD: &str = "# --card-memory 80GiB";
const CARD_BYTES: u64 = 80 << 30;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn is_written() -> bool {
    std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write")
}

pub(super) fn manifests() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|it| it == "yaml" || it == "json"))
        .collect();
    found.sort();
    found
}

pub(super) fn converted(path: &Path) -> Converted {
    let bytes = fs::read(path).unwrap();
    let card_bytes = bytes.starts_with(CARD.as_bytes()).then_some(CARD_BYTES);
    convert::file(&bytes, Options { card_bytes, ..Options::default() })
        .unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
}

/// Result of a file as a whole: the worst of its documents.
pub(super) fn outcome(result: &Converted) -> Outcome {
    let has = |outcome| result.documents.iter().any(|document| document.outcome == outcome);
    [Outcome::Refused, Outcome::Converted, Outcome::Unchanged]
        .into_iter()
        .find(|outcome| has(*outcome))
        .unwrap_or(Outcome::Passed)
}

fn told(result: &Converted) -> String {
    let mut text = format!("# {:?}\n", outcome(result)).to_lowercase();
    for document in &result.documents {
        for note in document.notes.iter().filter(|note| note.level != Level::Info) {
            let place = document.place();
            let level = if note.level == Level::Refused { "refused" } else { "warning" };
            writeln!(
                text,
                "# line {}, {place}: {level}: {} [{}]",
                note.line, note.message, note.code
            )
            .unwrap();
        }
    }
    text + &result.text
}

#[test]
fn every_manifest_becomes_what_stands_beside_it() {
    let mut wrong = Vec::new();
    for path in manifests() {
        let told = told(&converted(&path));
        let golden = path.with_extension("golden");
        if is_written() {
            fs::write(&golden, &told).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != told {
            wrong.push(golden.file_name().unwrap().to_owned());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}: DIVVY_GOLDEN=write writes them again; look at the diff");
}

/// Numbers of files by what they became: unchanged, converted, refused.
pub(super) fn counts() -> [usize; 3] {
    let outcomes: Vec<Outcome> = manifests().iter().map(|path| outcome(&converted(path))).collect();
    let of = |wanted: Outcome| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    assert_eq!(of(Outcome::Passed), 0, "one has nothing of HAMi's");
    [Outcome::Unchanged, Outcome::Converted, Outcome::Refused].map(of)
}

#[test]
fn nine_in_ten_manifests_run_as_they_are_or_converted() {
    let [unchanged, converted, refused] = counts();
    let all = unchanged + converted + refused;
    println!("{all} manifests: {unchanged} unchanged, {converted} converted, {refused} refused");
    assert!(all >= 40 && (unchanged + converted) * 10 >= all * 9, "{refused} of {all} refused");
}

/// A tree as JSON, as Kubernetes' own reader would make it.
pub(super) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Mapping(entries) => {
            entries.iter().map(|entry| (entry.key.text.clone(), json(&entry.value))).collect()
        }
        Value::Sequence(items) => items.iter().map(json).collect(),
        Value::Scalar(scalar) if scalar.style != Style::Plain => Json::String(scalar.text.clone()),
        Value::Scalar(scalar) if scalar.is_null() => Json::Null,
        Value::Scalar(scalar) => {
            let octal =
                scalar.text.strip_prefix('0').and_then(|it| i64::from_str_radix(it, 8).ok());
            octal
                .map(Json::from)
                .or_else(|| serde_json::from_str(&scalar.text).ok())
                .unwrap_or_else(|| Json::String(scalar.text.clone()))
        }
    }
}

/// The same with numbers as texts: a quantity is both.
fn texts(all: &Json) -> Json {
    match all {
        Json::Number(number) => Json::String(number.to_string()),
        Json::Array(items) => items.iter().map(texts).collect(),
        Json::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), texts(value))).collect()
        }
        other => other.clone(),
    }
}

/// Parses an object by the API's type, and sees that nothing of it was left unread below `within`.
fn parse<T: DeserializeOwned + serde::Serialize>(object: &Json, within: &[&str], whose: &str) {
    let parsed: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|error| panic!("{whose}: {error}\n{object:#}"));
    let back = serde_json::to_value(parsed).unwrap();
    let part = |all: &Json| within.iter().fold(texts(all), |at, key| at[*key].clone());
    assert_eq!(part(&back), part(object), "{whose}: the API knows no such field");
}

fn parsed(object: &Json, whose: &str) -> bool {
    let group = object["apiVersion"].as_str().unwrap_or_default();
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("resource.k8s.io/v1", "ResourceClaimTemplate") => {
            parse::<resource::v1::ResourceClaimTemplate>(object, &["spec"], whose);
        }
        ("v1", "Pod") => parse::<core::v1::Pod>(object, &["spec", "resourceClaims"], whose),
        ("v1", "ResourceQuota") => parse::<core::v1::ResourceQuota>(object, &["spec"], whose),
        ("apps/v1", "Deployment") => {
            parse::<apps::v1::Deployment>(
                object,
                &["spec", "template", "spec", "containers"],
                whose,
            );
        }
        ("apps/v1", "StatefulSet") => {
            parse::<apps::v1::StatefulSet>(
                object,
                &["spec", "template", "spec", "containers"],
                whose,
            );
        }
        ("apps/v1", "DaemonSet") => {
            parse::<apps::v1::DaemonSet>(
                object,
                &["spec", "template", "spec", "containers"],
                whose,
            );
        }
        ("apps/v1", "ReplicaSet") => {
            parse::<apps::v1::ReplicaSet>(
                object,
                &["spec", "template", "spec", "containers"],
                whose,
            );
        }
        ("batch/v1", "Job") => {
            parse::<batch::v1::Job>(object, &["spec", "template", "spec", "containers"], whose);
        }
        ("batch/v1", "CronJob") => {
            parse::<batch::v1::CronJob>(object, &["spec", "schedule"], whose)
        }
        _ => return false,
    }
    true
}

#[test]
fn what_is_written_is_what_the_api_knows() {
    let mut count = 0;
    for path in manifests() {
        let whose = path.file_name().unwrap().to_string_lossy().into_owned();
        for document in yaml::read(converted(&path).text.as_bytes()).unwrap() {
            let object = json(&document.root);
            let items = object["items"].as_array().cloned();
            for object in items.unwrap_or_else(|| vec![object.clone()]) {
                count += usize::from(parsed(&object, &whose));
            }
        }
    }
    assert!(count > 80, "{count}");
}

/// Each claim of a container is one of its pod, each of a pod has a template in the file, and no resource is left.
#[test]
fn claims_lead_to_templates() {
    for path in manifests() {
        let whose = path.display();
        let text = converted(&path).text;
        let documents = yaml::read(text.as_bytes()).unwrap();
        let templates: Vec<Json> = documents
            .iter()
            .map(|document| json(&document.root))
            .filter(|object| object["kind"] == "ResourceClaimTemplate")
            .map(|object| object["metadata"]["name"].clone())
            .collect();
        for line in text.lines().filter(|line| line.contains("resourceClaimTemplateName: ")) {
            let name = line.rsplit(' ').next().unwrap();
            assert!(templates.contains(&Json::from(name)), "{whose}: {name}");
        }
        let resources = ["nvidia.com/gpu:", "nvidia.com/gpumem", "nvidia.com/gpucores"];
        let is_left = |line: &str| resources.iter().any(|it| line.trim_start().starts_with(it));
        assert!(!text.lines().any(is_left), "{whose}: {text}");
    }
}

#[test]
fn a_result_has_nothing_left_to_convert() {
    for path in manifests() {
        let first = converted(&path).text;
        let again = convert::file(first.as_bytes(), Options::default()).unwrap();
        let whose = path.display();
        assert!(
            again.documents.iter().all(|it| it.outcome == Outcome::Passed),
            "{whose}: {again:?}"
        );
        assert_eq!(again.text, first, "{whose}");
        assert_eq!(converted(&path).text, first, "{whose}");
    }
}
