//! The fuzz targets' bodies, for a fixed number of inputs, on any toolchain.
//!
//! Each body is the one that libFuzzer runs (`fuzz/bodies`). It gets every stored seed, seeds with
//! bytes changed, and words of the grammar put together at random; a failure prints the smallest
//! input found. Searching long and by coverage is cargo-fuzz's business (`fuzz/README.md`).

#[path = "../../fuzz/bodies/cluster.rs"]
mod cluster;
#[path = "../../fuzz/bodies/files.rs"]
mod files;
#[path = "../../fuzz/bodies/frame.rs"]
mod frame;
#[path = "../../fuzz/bodies/manifests.rs"]
mod manifests;
#[path = "../../fuzz/bodies/rules.rs"]
mod rules;
#[path = "../../fuzz/bodies/share.rs"]
mod share;
#[path = "../../fuzz/bodies/size.rs"]
mod size;

use std::fmt::Debug;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

/// Inputs of each kind for a grammar, and for files, which are written each time.
const TEXTS: u32 = 5_000;
const FILES: u32 = 100;

const SIZE_WORDS: &[&str] = &[
    "0",
    "1",
    "8",
    "010",
    "3000",
    "33.3333",
    "65536",
    "18446744073709551616",
    ".",
    "%",
    "100",
    "k",
    "m",
    "G",
    "T",
    "i",
    "B",
    "KiB",
    "GB",
    "-",
    "+",
    "e3",
    ",",
    " ",
    "é",
    "\0",
];
const RULE_WORDS: &[&str] = &[
    "DIVVY_MEMORY",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "_",
    "_0",
    "_15",
    "_16",
    "_01",
    "=",
    "\n",
    ",",
    "0",
    "1",
    "8GiB",
    "50%",
    "3000m",
    "GPU-",
    "GPU-00112233-4455-6677-8899-aabbccddeeff",
    "MIG-",
    ":",
    " ",
    "é",
];

const SHARE_WORDS: &[&str] = &[
    "DIVVY_COMPUTE",
    "DIVVY_WEIGHT",
    "DIVVY_PRIORITY",
    "DIVVY_CLASS",
    "CUDA_DEVICE_SM_LIMIT",
    "_",
    "_0",
    "_16",
    "=",
    "\n",
    ",",
    "0",
    "30",
    "100",
    ".5",
    "%",
    "high",
    "latency",
    "GPU-00112233-4455-6677-8899-aabbccddeeff",
    " ",
    "é",
];
const FRAME_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"version\":",
    "\"call\":",
    "\"hello\"",
    "\"list\"",
    "\"metrics\"",
    "{\"version\":1,\"call\":{\"set\":{\"tenant\":\"t\",\"change\":{",
    "\"memory\":[\"8GiB\"]",
    "\"weight\":\"2\"",
    "\"paused\":true",
    "null",
    "\"",
    "\\u0000",
    ",",
    "1",
    "-1e999",
];

const MANIFEST_WORDS: &[&str] = &[
    "apiVersion: v1\n",
    "kind: Pod\n",
    "kind: List\nitems:\n",
    "spec:\n  containers:\n",
    "  - name: c\n",
    "    resources:\n      limits:\n",
    "        nvidia.com/gpu: 1\n",
    "        nvidia.com/gpumem: 8192\n",
    "        nvidia.com/gpucores: 30\n",
    "metadata:\n  annotations:\n",
    "    nvidia.com/use-gputype: A100\n",
    "    gpu-memory: \"4096\"\n",
    "    gpu-fraction: \"0.5\"\n",
    "    nvidia.com/gpumem: \"4096\"\n",
    "        volcano.sh/vgpu-memory: 4096\n",
    "        tencent.com/vcuda-core: 30\n",
    "        koordinator.sh/gpu-memory: 4Gi\n",
    "services:\n  web:\n    environment:\n",
    "      CUDA_DEVICE_MEMORY_LIMIT: 4g\n",
    "    - CUDA_DEVICE_SM_LIMIT_0=30\n",
    "---\n",
    "...\n",
    "&a ",
    "*a\n",
    "<<: *a\n",
    "{",
    "}",
    "[",
    "]",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "\t",
    "\r\n",
    "# ",
    ": ",
    "- ",
    "? ",
    "!!str ",
];

/// Runs `body` on `cases` values of `inputs`.
fn drive<T: Debug>(cases: u32, inputs: impl Strategy<Value = T>, body: impl Fn(&T)) {
    // What fails is printed; a file beside the sources would be left by whoever runs the tests.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        body(&input);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The stored inputs of a target; there must be some.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(&folder).expect("the seeds are in the tree").flatten();
    let seeds: Vec<Vec<u8>> =
        entries.map(|entry| std::fs::read(entry.path()).expect("a seed is a file")).collect();
    assert!(!seeds.is_empty(), "{} has no seed", folder.display());
    seeds
}

/// A seed with a few bytes changed, put in or taken out.
fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<Index>(), any::<u8>(), 0..3_u8), 0..8);
    (select(seeds), edits).prop_map(|(mut bytes, edits)| {
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len() + 1);
            match (kind, bytes.get_mut(at)) {
                (0, Some(old)) => *old = byte,
                (1, Some(_)) => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

/// Words put together, with numbers and characters of any kind between them.
fn sentence(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => select(words).prop_map(str::to_owned),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => any::<char>().prop_map(String::from),
    ];
    vec(word, 0..12).prop_map(|words| words.concat())
}

fn texts(target: &str, words: &'static [&'static str], body: fn(&str)) {
    let lossy = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    seeds(target).iter().for_each(|seed| body(&lossy(seed)));
    drive(TEXTS, changed(seeds(target)), |bytes| body(&lossy(bytes)));
    drive(TEXTS, sentence(words), |text| body(text));
    drive(TEXTS, any::<String>(), |text| body(text));
}

#[test]
fn size_neither_panics_nor_guesses() {
    texts("size", SIZE_WORDS, size::run);
}

#[test]
fn rules_drop_nothing_silently() {
    texts("rules", RULE_WORDS, rules::run);
}

#[test]
fn shares_drop_nothing_silently() {
    texts("share", SHARE_WORDS, share::run);
}

#[test]
fn frames_of_any_bytes_are_answered_or_refused() {
    let run = |bytes: &Vec<u8>| frame::run(bytes);
    seeds("frame").iter().for_each(run);
    drive(TEXTS, changed(seeds("frame")), run);
    drive(TEXTS, vec(any::<u8>(), 0..256), run);
    // Several frames, whose lengths are right or not.
    let one =
        (sentence(FRAME_WORDS), prop_oneof![8 => Just(None), 1 => any::<u32>().prop_map(Some)]);
    let frames = vec(one, 0..4).prop_map(|frames| {
        let bytes = frames.into_iter().flat_map(|(text, length)| {
            let right = u32::try_from(text.len()).unwrap_or(u32::MAX);
            [length.unwrap_or(right).to_le_bytes().to_vec(), text.into_bytes()].concat()
        });
        bytes.collect::<Vec<u8>>()
    });
    drive(TEXTS, frames, run);
}

#[test]
fn objects_of_a_cluster_stop_nothing() {
    let run = |bytes: &Vec<u8>| cluster::run(bytes);
    seeds("cluster").iter().for_each(run);
    drive(TEXTS / 5, changed(seeds("cluster")), run);
    drive(FILES, vec(any::<u8>(), 0..256), run);
}

#[test]
fn files_of_any_bytes_are_read_or_refused() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-files");
    std::fs::create_dir_all(&directory).expect("the target directory is writable");
    let run = |bytes: &Vec<u8>| files::run(&directory, bytes);
    seeds("files").iter().for_each(run);
    drive(FILES, changed(seeds("files")), run);
    drive(FILES, vec(any::<u8>(), 0..8192), run);
    // Behind a good head: the right size, then words that are small or all ones, as real ones are.
    let word = prop_oneof![4 => 0..40_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let size = select(Vec::from([divvy_abi::usage::USAGE_BYTES, divvy_abi::config::CONFIG_BYTES]));
    let body = (0..3_u8, size, vec(word, 0..2048)).prop_map(|(choice, size, words)| {
        let mut bytes = Vec::from([choice]);
        bytes.extend(u32::try_from(size).unwrap_or(0).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    });
    drive(FILES, body, run);
}

#[test]
fn manifests_of_any_bytes_are_converted_or_refused() {
    let run = |bytes: &Vec<u8>| manifests::run(bytes);
    seeds("manifests").iter().for_each(run);
    drive(TEXTS, changed(seeds("manifests")), run);
    drive(TEXTS, sentence(MANIFEST_WORDS), |text| manifests::run(text.as_bytes()));
}
