//! The copy of the workspace in which the switches are: `target/mutants/tree`, and `faults` for those that are planted.
//!
//! Promises: the checkout is not changed; a copy that compiles holds every mutant that does, and says of the others why
//! not. Mutants that do not compile are found by the compiler's own errors: what an error lies in is left out, and
//! the copy is compiled again. cargo-mutants calls these unviable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::edits::{self, Site};
use super::fnv::{FNV_BASIS, fnv};
use super::list::{Genre, Mutant};
use super::scope::{SWITCHES, Scope};
use super::{planted, switch};
use crate::command::lines;
use crate::workspace::{cargo, root, target};

/// The switches' own module. It says no more than a comparison costs: 0 is what it was before the environment was
/// read, and stays so where it is asked which mutants are reached.
const MODULE: &str = r#"//! Which mutant is on: `DIVVY_MUTANT`. Those asked for are written to `DIVVY_MUTANTS_REACHED`, if that is set.
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use mutant_std::{env, ffi::OsString, format, fs, io::Write, sync::OnceLock};

static ON: AtomicU32 = AtomicU32::new(0);
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
static FILE: OnceLock<Option<OsString>> = OnceLock::new();

#[inline(always)]
pub fn is(number: u32) -> bool {
    let on = ON.load(Relaxed);
    on == number || (on == 0 && ask(number))
}

#[cold]
#[inline(never)]
fn ask(number: u32) -> bool {
    if REACHED[number as usize].load(Relaxed) {
        return false;
    }
    if let Some(path) = FILE.get_or_init(|| env::var_os("DIVVY_MUTANTS_REACHED")) {
        if !REACHED[number as usize].swap(true, Relaxed) {
            // A test may have left no descriptor, or no room in a file.
            if let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path) {
                // At once: another thread writes too.
                let _ = file.write_all(format!("{number}\n").as_bytes());
            }
        }
        return false;
    }
    let on = env::var("DIVVY_MUTANT").ok().map_or(u32::MAX, |text| text.parse().unwrap());
    ON.store(on, Relaxed);
    on == number
}
"#;

/// The copy, compiled.
#[derive(Debug)]
pub(super) struct Tree {
    /// Mutants that can be switched on.
    pub(super) switched: BTreeSet<u32>,
    /// Those of constants.
    pub(super) constant: BTreeSet<u32>,
    /// Those that are no Rust, as far as the compiler says.
    pub(super) unviable: BTreeSet<u32>,
    /// The binaries of the tests that judge, by name.
    pub(super) binaries: BTreeMap<String, PathBuf>,
    /// Of what it was made of: results of another are not taken for this one's.
    pub(super) hash: String,
}

impl Tree {
    fn json(&self) -> Value {
        serde_json::json!({
            "hash": self.hash, "switched": self.switched, "constant": self.constant,
            "unviable": self.unviable, "binaries": self.binaries,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let numbers = |name: &str| -> Option<BTreeSet<u32>> {
            let number = |value: &Value| value.as_u64().and_then(|number| number.try_into().ok());
            value[name].as_array()?.iter().map(number).collect()
        };
        let binary = |(name, path): (&String, &Value)| Some((name.clone(), path.as_str()?.into()));
        Some(Self {
            switched: numbers("switched")?,
            constant: numbers("constant")?,
            unviable: numbers("unviable")?,
            binaries: value["binaries"].as_object()?.iter().map(binary).collect::<Option<_>>()?,
            hash: value["hash"].as_str()?.to_owned(),
        })
    }
}

/// Where everything of this chore lies.
pub(super) fn folder() -> PathBuf {
    target().join("mutants")
}

/// Copies to a folder of that name, puts the switches in and compiles until it compiles; or finds that this was done.
pub(super) fn build(name: &str, scope: Scope, mutants: &[Mutant]) -> Result<Tree> {
    let (hash, stored) = (hash(scope, mutants)?, folder().join(format!("{name}.json")));
    let text = fs::read_to_string(&stored).unwrap_or_default();
    let value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if let Some(tree) = Tree::from_json(&value)
        && tree.hash == hash
        && tree.binaries.values().all(|path| path.exists())
    {
        return Ok(tree);
    }
    let tree = make(&folder().join(name), scope, mutants, hash)?;
    fs::write(&stored, tree.json().to_string()).with_context(|| stored.display().to_string())?;
    Ok(tree)
}

fn make(tree: &Path, scope: Scope, mutants: &[Mutant], hash: String) -> Result<Tree> {
    let last = mutants.iter().map(|mutant| mutant.number).max().unwrap_or(0);
    copy(tree, scope, last)?;
    let packages = |word: &str, packages: &[&str]| -> Vec<String> {
        let each = packages.iter().flat_map(|package| ["--package", package]);
        std::iter::once(word).chain(each).map(str::to_owned).collect()
    };
    let changed: Vec<&str> = scope.changed().iter().map(|changed| changed.package).collect();
    let check = packages("check", &changed);
    let test = [packages("test", scope.judges()), vec!["--no-run".to_owned()]].concat();
    let (mut unviable, mut const_fns) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let files = write(tree, mutants, &unviable, &const_fns)?;
        let (errors, _) = compile(tree, &check)?;
        let (before, before_fns) = (unviable.len(), const_fns.len());
        for error in &errors {
            match error.sites(&files) {
                sites if sites.is_empty() => const_fns.extend(error.const_fn()),
                sites => unviable.extend(sites.into_iter().flat_map(|site| &site.numbers)),
            }
        }
        if errors.is_empty() {
            let (errors, binaries) = compile(tree, &test)?;
            if let Some(error) = errors.first() {
                bail!("the copy with the switches does not compile:\n{}", error.rendered);
            }
            let of = |set: fn(&File) -> &BTreeSet<u32>| -> BTreeSet<u32> {
                files.values().flat_map(|file| set(file).iter().copied()).collect()
            };
            let constant = of(|file| &file.constant);
            unviable.extend(of(|file| &file.unplaced));
            let is_switched =
                |number: &u32| !constant.contains(number) && !unviable.contains(number);
            let switched = mutants.iter().map(|mutant| mutant.number).filter(is_switched).collect();
            return Ok(Tree { switched, constant, unviable, binaries, hash });
        }
        if (before, before_fns) == (unviable.len(), const_fns.len()) {
            let error = errors.first().map(|error| error.rendered.as_str()).unwrap_or_default();
            bail!("the copy does not compile, and not for a switch:\n{error}");
        }
        eprintln!("{} errors; {} mutants are left out by now", errors.len(), unviable.len());
    }
}

/// Sites of a file, looked up by an error's place.
struct File {
    sites: Vec<Site>,
    constant: BTreeSet<u32>,
    unplaced: BTreeSet<u32>,
}

fn write(
    tree: &Path,
    mutants: &[Mutant],
    unviable: &BTreeSet<u32>,
    const_fns: &BTreeSet<String>,
) -> Result<BTreeMap<String, File>> {
    let mut of_files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants.iter().filter(|mutant| !unviable.contains(&mutant.number)) {
        of_files.entry(&mutant.file).or_default().push(mutant);
    }
    let mut files = BTreeMap::new();
    for (name, mutants) in of_files {
        let text = fs::read_to_string(root().join(name)).with_context(|| name.to_owned())?;
        let done = match mutants.iter().all(|mutant| mutant.genre == Genre::Planted) {
            true => planted::plant(&text, &mutants),
            false => {
                switch::rewrite(&text, &mutants, const_fns).with_context(|| name.to_owned())?
            }
        };
        put(&tree.join(name), &done.text)?;
        let file = File { sites: done.sites, constant: done.constant, unplaced: done.unplaced };
        files.insert(name.to_owned(), file);
    }
    Ok(files)
}

/// Writes a file if it is another: cargo goes by its time.
fn put(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn copy(tree: &Path, scope: Scope, last: u32) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| tree.display().to_string())?;
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml"))?;
    put(&tree.join("Cargo.toml"), &manifest(&workspace, scope.members()))?;
    fs::copy(root().join("Cargo.lock"), tree.join("Cargo.lock")).context("Cargo.lock")?;
    for member in scope.members() {
        copy_all(&root().join(member), &tree.join(member))?;
    }
    for changed in scope.changed() {
        let lib = tree.join(changed.library);
        let text = fs::read_to_string(&lib)?;
        let line = format!("mod {};", changed.first);
        if text.matches(&line).count() != 1 {
            bail!("{}: `{line}` is to stand there once, for the switches", changed.library);
        }
        put(&lib, &text.replacen(&line, &format!("{}{line}", changed.switches), 1))?;
    }
    // Some tests read stored results.
    std::os::unix::fs::symlink(root().join("bench"), tree.join("bench")).context("bench")?;
    put(&tree.join(SWITCHES), &MODULE.replace("COUNT", &(last + 1).to_string()))
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| to.display().to_string())?;
        }
    }
    Ok(())
}

/// The root's manifest for these members alone: its versions and profiles, and no lints, which are not for switches.
fn manifest(text: &str, members: &[&str]) -> String {
    let mut kept = String::new();
    let (mut is_kept, mut is_member) = (true, false);
    for line in text.lines() {
        if line.starts_with('[') {
            is_kept = !line.starts_with("[workspace.lints");
        }
        if line.starts_with("members") {
            kept += &format!("members = {members:?}\n");
            is_member = true;
        } else if is_kept && !is_member {
            kept = kept + line + "\n";
        }
        is_member &= line != "]";
    }
    let allowed = ["warnings", "arithmetic_overflow", "unconditional_panic"];
    kept += "[workspace.lints.rust]\n";
    kept + &allowed.map(|lint| format!("{lint} = \"allow\"\n")).concat()
}

/// An error of the compiler.
struct Failure {
    message: String,
    rendered: String,
    /// File and bytes of its places, first those that it is about.
    places: Vec<(String, std::ops::Range<usize>)>,
}

impl Failure {
    fn read(message: &Value) -> Self {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let mut spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
        spans.sort_by_key(|span| span["is_primary"] != true);
        let byte = |span: &Value, name: &str| {
            span[name].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
        };
        let place = |span: &&Value| {
            let file = span["file_name"].as_str().unwrap_or_default().to_owned();
            (file, byte(span, "byte_start")..byte(span, "byte_end"))
        };
        let places = spans.iter().map(place).collect();
        Self { message: text("message"), rendered: text("rendered"), places }
    }

    /// The innermost site around the first of its places that lies in one.
    fn sites<'a>(&self, files: &'a BTreeMap<String, File>) -> Vec<&'a Site> {
        let site = |(name, place): &(String, std::ops::Range<usize>)| {
            let sites = &files.get(name)?.sites;
            edits::around(sites, place).map(|at| &sites[at])
        };
        self.places.iter().find_map(site).into_iter().collect()
    }

    /// The function that a constant needs.
    fn const_fn(&self) -> Option<String> {
        let path = self.message.strip_prefix("cannot call non-const")?.split('`').nth(1)?;
        path.rsplit("::").next().map(str::to_owned)
    }
}

/// The errors, and the test binaries that were built.
fn compile(tree: &Path, words: &[String]) -> Result<(Vec<Failure>, BTreeMap<String, PathBuf>)> {
    let mut command: Command = cargo();
    command.args(words).args(["--quiet", "--message-format=json", "--target-dir"]);
    command.arg(folder().join("build")).current_dir(tree).env("CARGO_INCREMENTAL", "0");
    let (mut errors, mut binaries) = (Vec::new(), BTreeMap::new());
    let status = lines(&mut command, |line| {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return };
        let message = &value["message"];
        if message["level"] == "error" && !message["spans"].as_array().is_none_or(Vec::is_empty) {
            errors.push(Failure::read(message));
        }
        let (name, path) = (value.pointer("/target/name"), &value["executable"]);
        if let (Some(Value::String(name)), Value::String(path)) = (name, path) {
            let name = binary(value["package_id"].as_str().unwrap_or_default(), name);
            binaries.insert(name, PathBuf::from(path));
        }
    })?;
    if !status.success() && errors.is_empty() {
        bail!("cargo {} ended with {status} in {}", words.join(" "), tree.display());
    }
    Ok((errors, binaries))
}

/// A test binary as it is reported: the searcher's by its name alone, others' behind their crate.
fn binary(package_id: &str, name: &str) -> String {
    let folder = package_id.split('#').next().and_then(|path| path.rsplit('/').next());
    match folder {
        None | Some("searcher") => name.to_owned(),
        Some(folder) => format!("{folder}/{name}"),
    }
}

/// Of all that the copy is made of.
fn hash(scope: Scope, mutants: &[Mutant]) -> Result<String> {
    let mut files = vec![root().join("Cargo.toml"), root().join("Cargo.lock")];
    let mut folders: Vec<PathBuf> =
        scope.members().iter().map(|member| root().join(member)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hash = fnv(FNV_BASIS, include_bytes!("switch.rs"));
    hash = fnv(hash, include_bytes!("tree.rs"));
    hash = fnv(hash, include_bytes!("faults.txt"));
    for mutant in mutants {
        hash = fnv(hash, mutant.name.as_bytes());
        hash = fnv(hash, mutant.replacement.as_bytes());
    }
    for path in files {
        hash = fnv(hash, &fs::read(&path).with_context(|| path.display().to_string())?);
    }
    Ok(format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_named_with_its_crate_unless_it_is_the_searchers() {
        let of =
            |folder: &str| binary(&format!("path+file:///a/crates/{folder}#b@0.1.0"), "inside");
        assert_eq!((of("searcher"), of("policy")), ("inside".into(), "policy/inside".into()));
    }

    #[test]
    fn the_manifest_keeps_versions_and_profiles() {
        let text = "[workspace]\nmembers = [\n    \"a\",\n]\n\n[workspace.lints.clippy]\ntodo = \
                    \"deny\"\n\n[profile.dev]\npanic = \"abort\"\n";
        let kept = manifest(text, &["crates/policy"]);
        assert!(
            kept.contains("[profile.dev]\npanic = \"abort\"") && kept.contains("crates/policy")
        );
        assert!(!kept.contains("todo") && !kept.contains("\"a\""), "{kept}");
    }
}
