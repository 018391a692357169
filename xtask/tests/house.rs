//! The house rules that a compiler does not check, as tests over the tracked files.
//!
//! They look at what is committed or staged for it (`git ls-files`); outside a checkout they say
//! that they were skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file, in lines.
const LONGEST: usize = 500;

/// Folders and files in which `unsafe` may stand; all else is safe Rust.
const UNSAFE_ROOMS: [&str; 8] = [
    "crates/page/",
    "crates/shim/src/sys/",
    "crates/shim/tests/sys/",
    "crates/searcher/src/fiber.rs", // leaves bodies in the middle
    "crates/shim/build",            // writes the export layer, which is part of sys
    "crates/simgpu/src/sys/",
    "crates/simgpu/cuda/",
    "crates/simgpu/nvml/",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Tracked files with one of these endings; `None` after a skip was said.
fn tracked(test: &str, endings: &[&str]) -> Option<Vec<(String, String)>> {
    let listed = Command::new("git").arg("ls-files").current_dir(root()).output();
    let listed = match listed {
        Ok(output) if output.status.success() => output.stdout,
        _ => {
            println!("SKIPPED {test}: this is no git checkout");
            return None;
        }
    };
    let files: Vec<(String, String)> = String::from_utf8_lossy(&listed)
        .lines()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .filter_map(|name| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?)))
        .collect();
    assert!(!files.is_empty(), "no tracked file ends with {endings:?}");
    Some(files)
}

fn is_generated(text: &str) -> bool {
    text.starts_with("// Made by") || text.starts_with("<!-- Made by")
}

/// Joins what breaks a rule, so that one run shows all of it.
fn none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    let Some(files) = tracked("heads", &[".rs"]) else { return };
    let broken: Vec<_> = files
        .iter()
        .filter(|(_, text)| !text.starts_with("//!") && !is_generated(text))
        .map(|(name, _)| name.clone())
        .collect();
    none("files without a `//!` head", &broken);
}

#[test]
fn no_source_file_is_too_long() {
    let Some(files) = tracked("lengths", &[".rs"]) else { return };
    let broken: Vec<_> = files
        .iter()
        .filter(|(_, text)| !is_generated(text) && text.lines().count() > LONGEST)
        .map(|(name, text)| format!("{name}: {} lines", text.lines().count()))
        .collect();
    none("files of more than 500 lines", &broken);
}

/// Words of which none is a thing: a sentence that begins with one makes its reader find out what it is about.
const NO_SUBJECTS: [&str; 9] =
    ["What", "Who", "Whoever", "Whose", "Whatever", "Nobody", "Somebody", "Anybody", "Everybody"];

/// The word of [`NO_SUBJECTS`] with which a line of a comment begins.
fn begins_without_a_subject(line: &str) -> Option<&'static str> {
    let text = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
    NO_SUBJECTS.into_iter().find(|word| {
        text.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', ',', '.', '\'']))
    })
}

#[test]
fn a_comment_has_a_noun_as_its_subject() {
    assert_eq!(begins_without_a_subject("    /// What it holds."), Some("What"));
    assert_eq!(begins_without_a_subject("//! Nobody's."), Some("Nobody"));
    assert_eq!(begins_without_a_subject("/// Whose-ever"), None);
    assert_eq!(begins_without_a_subject("let a = 1; // What it is"), None);
    let Some(files) = tracked("subjects", &[".rs"]) else { return };
    let is_source = |name: &str| name.contains("/src/") || name.contains("/build");
    let broken: Vec<_> = files
        .iter()
        .filter(|(name, text)| is_source(name) && !is_generated(text))
        .flat_map(|(name, text)| text.lines().zip(1..).map(move |line| (name, line)))
        .filter(|(_, (line, _))| begins_without_a_subject(line).is_some())
        .map(|(name, (line, number))| format!("{name}:{number}: {}", line.trim()))
        .collect();
    none("a comment of a source file is about a thing, which it names", &broken);
}

#[test]
fn unsafe_stays_in_its_rooms() {
    let Some(files) = tracked("unsafe", &[".rs"]) else { return };
    let words = ["unsafe {", "unsafe impl", "#[unsafe("];
    let mut broken = Vec::new();
    for (name, text) in &files {
        let here = name == "xtask/tests/house.rs";
        if here || is_generated(text) || UNSAFE_ROOMS.iter().any(|room| name.starts_with(room)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let allows = code.contains("allow(unsafe_code");
            if allows || words.iter().any(|word| code.contains(word)) {
                broken.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none("unsafe outside page, sys, fibers and the exporting libraries", &broken);
}

/// Whether a line of code begins an `unsafe fn` or an `unsafe trait`.
fn declares_unsafe(line: &str) -> bool {
    let code = line.trim_start();
    let code = code.strip_prefix("pub").map_or(code, |rest| {
        let rest = rest.split_once(") ").filter(|_| rest.starts_with('(')).map_or(rest, |it| it.1);
        rest.trim_start()
    });
    let code = code.strip_prefix("const ").unwrap_or(code);
    let kinds = ["fn ", "trait ", "extern \"C\" fn "];
    code.strip_prefix("unsafe ").is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
}

/// Unsafe declarations of a file, by line, whose documentation numbers no condition. Methods of an `impl` of a trait
/// have the trait's.
fn without_conditions(text: &str) -> Vec<usize> {
    let (mut broken, mut head, mut of_trait) = (Vec::new(), String::new(), None);
    for (line, number) in text.lines().zip(1..) {
        let (code, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        if code.starts_with("//") || code.starts_with('#') || code.starts_with("reason") {
            head.push_str(code);
            head.push('\n');
            continue;
        }
        if code.starts_with("impl") && code.contains(" for ") {
            of_trait = Some(indent);
        } else if code == "}" && of_trait == Some(indent) {
            of_trait = None;
        }
        let conditions = head.split_once("# Safety").map_or("", |(_, conditions)| conditions);
        if declares_unsafe(code) && of_trait.is_none() && !conditions.contains("/// 1. ") {
            broken.push(number);
        }
        head.clear();
    }
    broken
}

#[test]
fn unsafe_functions_number_their_conditions() {
    assert!(declares_unsafe("    pub(crate) const unsafe fn new() {}"));
    assert!(declares_unsafe("pub unsafe extern \"C\" fn dlsym() {}"));
    assert!(!declares_unsafe("type Dlsym = unsafe extern \"C\" fn();"));
    assert_eq!(without_conditions("/// # Safety\n/// 1. None.\nunsafe fn a() {}"), []);
    assert_eq!(without_conditions("/// # Safety\n/// None.\n#[cold]\nunsafe fn a() {}"), [4]);
    assert_eq!(
        without_conditions("impl A for B {\n    unsafe fn a() {}\n}\nunsafe fn b() {}"),
        [4]
    );
    let Some(files) = tracked("conditions", &[".rs"]) else { return };
    let broken: Vec<_> = files
        .iter()
        .filter(|(_, text)| !is_generated(text))
        .flat_map(|(name, text)| without_conditions(text).into_iter().map(move |at| (name, at)))
        .map(|(name, at)| format!("{name}:{at}"))
        .collect();
    none("an `unsafe fn` or trait has a `# Safety` section that numbers its conditions", &broken);
}

/// Types in which a hook gets a pointer of the program's.
const WRAPPERS: [&str; 8] =
    ["In", "Image", "List", "Opaque", "Out", "OutArray", "OutFunction", "OutHandle"];

/// Whether a line names such a type for longer than a call.
fn outlives_its_call(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    WRAPPERS.iter().any(|wrapper| {
        let named = format!("{wrapper}<'static");
        let mut found = code.match_indices(&named);
        found.any(|(at, _)| !code[..at].ends_with(|before: char| before.is_alphanumeric()))
    })
}

/// The export infers how long what it makes lives, and would infer anything.
#[test]
fn pointers_of_the_program_end_with_the_call() {
    assert!(outlives_its_call("    info: &List<'static, nvmlInfo_t>,"));
    assert!(!outlives_its_call("    places: KeyList<'static>, // Out<'static, T>"));
    let Some(files) = tracked("pointers", &[".rs"]) else { return };
    let broken: Vec<_> = files
        .iter()
        .filter(|(name, _)| name.starts_with("crates/shim/src/"))
        .flat_map(|(name, text)| text.lines().zip(1..).map(move |line| (name, line)))
        .filter(|(_, (line, _))| outlives_its_call(line))
        .map(|(name, (_, number))| format!("{name}:{number}"))
        .collect();
    none("a program's pointer is a hook's for the call alone", &broken);
}

#[test]
fn every_crate_inherits_the_lints() {
    let Some(files) = tracked("lints", &["Cargo.toml"]) else { return };
    let broken: Vec<_> = files
        .iter()
        .filter(|(name, text)| {
            // The root defines them; the fuzz targets are a workspace of their own.
            name != "Cargo.toml"
                && !name.starts_with("fuzz/")
                && !text.contains("[lints]\nworkspace = true")
        })
        .map(|(name, _)| name.clone())
        .collect();
    none("crates without `[lints] workspace = true`", &broken);
}

#[test]
fn committed_text_speaks_of_the_project_alone() {
    let endings = [".rs", ".md", ".toml", ".py", ".c", ".h", ".sh", ".json", ".txt", ".ci/run"];
    let Some(files) = tracked("words", &endings) else { return };
    // Of whatever machine this is: where the checkout lies, and its user's home.
    let here = root().canonicalize().expect("the checkout is somewhere");
    let homes = ["HOME", "CARGO_HOME", "RUSTUP_HOME"].map(std::env::var_os);
    let places = homes.into_iter().flatten().map(PathBuf::from).chain([here]);
    // A folder of the root is no place of its own: `/root` stands in many a path.
    let denied: Vec<String> = places
        .filter(|place| place.is_absolute() && place.components().count() > 2)
        .map(|place| place.display().to_string())
        .collect();
    assert!(!denied.is_empty(), "nothing is looked for");
    let mut broken = Vec::new();
    for (name, text) in &files {
        for (number, line) in text.lines().enumerate() {
            if denied.iter().any(|word| line.contains(word.as_str())) {
                broken.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none("lines that name a path of this machine", &broken);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let Some(files) = tracked("links", &[".md"]) else { return };
    let mut broken = Vec::new();
    for (name, text) in &files {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        for rest in text.split("](").skip(1) {
            let Some(link) = rest.split([')', ' ', '\n']).next() else { continue };
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !root().join(folder).join(target).exists() {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    none("links that lead nowhere", &broken);
}

#[test]
fn the_book_lists_every_page() {
    let Some(files) = tracked("book", &[".md"]) else { return };
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap_or_default();
    let broken: Vec<_> = files
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("docs/"))
        .filter(|page| *page != "SUMMARY.md" && !summary.contains(&format!("({page})")))
        .map(str::to_owned)
        .collect();
    none("pages that docs/SUMMARY.md does not list", &broken);
}

#[test]
fn every_decision_says_why() {
    let Some(files) = tracked("decisions", &[".md"]) else { return };
    let mut broken = Vec::new();
    for (name, text) in &files {
        if !name.starts_with("docs/adr/0") {
            continue;
        }
        for heading in ["Context", "Decision", "Consequences"] {
            if !text.lines().any(|line| line.starts_with('#') && line.contains(heading)) {
                broken.push(format!("{name}: no heading {heading}"));
            }
        }
    }
    none("decision records that miss a part", &broken);
}

/// Source files that use the share's rules and that the searcher does not run, with what is in them: the driver and the
/// files below its traits, and what people are told. What decides is `divvy-policy`, all of which it runs.
const NOT_SEARCHED: [(&str, &str); 17] = [
    ("crates/bench/src/processes.rs", "a figure's goal: a turn's length"),
    ("crates/divvy/src/daemon/adopted.rs", "a tenant's files, opened"),
    ("crates/divvy/src/daemon/device.rs", "asks NVML who else is there"),
    ("crates/divvy/src/daemon/resident.rs", "reads who works, for turns with memory on the card"),
    ("crates/divvy/src/daemon/engine.rs", "finds tenants, takes the steps, sleeps in between"),
    ("crates/divvy/src/daemon/seat.rs", "who has which row of the scheduler"),
    ("crates/divvy/src/commands/trace/recorder.rs", "tells"),
    ("crates/divvy/src/daemon/status.rs", "tells"),
    ("crates/page/src/gates.rs", "words in the mapped files, the owner's side"),
    ("crates/page/src/meet.rs", "words in the mapped file of a device"),
    ("crates/page/src/reader.rs", "tells"),
    ("crates/page/src/share.rs", "words in the mapped files, the tenant's side"),
    ("crates/shim/src/gate/host.rs", "calls of the driver"),
    ("crates/shim/src/gate/submit.rs", "around entry points, and the keys of what they launch"),
    ("crates/shim/src/hooks/around.rs", "names the object of a synchronisation"),
    ("crates/shim/src/tenant/device.rs", "a device's place in the files"),
    ("crates/searcher/", "the searcher itself"),
];

#[test]
fn what_of_the_share_the_searcher_does_not_run_is_listed() {
    let Some(files) = tracked("searched", &[".rs"]) else { return };
    let words = ["gate", "turns", "pace", "cost"];
    let uses = |text: &str| {
        text.lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .any(|line| words.iter().any(|word| line.contains(&format!("divvy_policy::{word}"))))
    };
    let is_listed = |name: &str| NOT_SEARCHED.iter().any(|(listed, _)| name.starts_with(listed));
    let mut broken: Vec<_> = files
        .iter()
        .filter(|(name, text)| name.contains("/src/") && !name.contains("tests") && uses(text))
        .map(|(name, _)| name.clone())
        .filter(|name| !is_listed(name))
        .collect();
    let is_there =
        |listed: &str| files.iter().any(|(name, text)| name.starts_with(listed) && uses(text));
    broken.extend(
        NOT_SEARCHED
            .iter()
            .filter(|(name, _)| !is_there(name))
            .map(|(name, _)| format!("{name} is listed and uses none of it")),
    );
    none("files that use the share's rules and are not listed as unsearched", &broken);
}
