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
use super::{planted, switch};
use crate::command::lines;
use crate::workspace::{cargo, root, target};

/// What the searcher is made of.
const MEMBERS: [&str; 3] = ["crates/abi", "crates/policy", "crates/searcher"];

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
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            // At once: another thread writes too.
            file.write_all(format!("{number}\n").as_bytes()).unwrap();
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
    /// The searcher's test binaries, by name.
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
pub(super) fn build(name: &str, mutants: &[Mutant]) -> Result<Tree> {
    let (hash, stored) = (hash(mutants)?, folder().join(format!("{name}.json")));
    let text = fs::read_to_string(&stored).unwrap_or_default();
    let value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if let Some(tree) = Tree::from_json(&value)
        && tree.hash == hash
        && tree.binaries.values().all(|path| path.exists())
    {
        return Ok(tree);
    }
    let tree = make(&folder().join(name), mutants, hash)?;
    fs::write(&stored, tree.json().to_string()).with_context(|| stored.display().to_string())?;
    Ok(tree)
}

fn make(tree: &Path, mutants: &[Mutant], hash: String) -> Result<Tree> {
    let last = mutants.iter().map(|mutant| mutant.number).max().unwrap_or(0);
    copy(tree, last)?;
    let (mut unviable, mut const_fns) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let files = write(tree, mutants, &unviable, &const_fns)?;
        let (errors, _) = compile(tree, &["check", "--package", "divvy-policy"])?;
        let (before, before_fns) = (unviable.len(), const_fns.len());
        for error in &errors {
            match error.sites(&files) {
                sites if sites.is_empty() => const_fns.extend(error.const_fn()),
                sites => unviable.extend(sites.into_iter().flat_map(|site| &site.numbers)),
            }
        }
        if errors.is_empty() {
            let (errors, binaries) =
                compile(tree, &["test", "--no-run", "--package", "divvy-searcher"])?;
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

/// What is looked up by an error's place.
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

fn copy(tree: &Path, last: u32) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| tree.display().to_string())?;
    }
    put(&tree.join("Cargo.toml"), &manifest(&fs::read_to_string(root().join("Cargo.toml"))?))?;
    fs::copy(root().join("Cargo.lock"), tree.join("Cargo.lock")).context("Cargo.lock")?;
    for member in MEMBERS {
        copy_all(&root().join(member), &tree.join(member))?;
    }
    let policy = tree.join("crates/policy/src");
    let lib = fs::read_to_string(policy.join("lib.rs"))?;
    let module = "extern crate std as mutant_std;\n#[doc(hidden)]\npub mod mutant;\n";
    let lib = lib.replacen("mod atomic;", &format!("{module}mod atomic;"), 1);
    put(&policy.join("lib.rs"), &lib)?;
    put(&policy.join("mutant.rs"), &MODULE.replace("COUNT", &(last + 1).to_string()))
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
fn manifest(text: &str) -> String {
    let mut kept = String::new();
    let (mut is_kept, mut is_member) = (true, false);
    for line in text.lines() {
        if line.starts_with('[') {
            is_kept = !line.starts_with("[workspace.lints");
        }
        if line.starts_with("members") {
            let members = MEMBERS.map(|member| format!("{member:?}")).join(", ");
            kept += &format!("members = [{members}]\n");
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
fn compile(tree: &Path, words: &[&str]) -> Result<(Vec<Failure>, BTreeMap<String, PathBuf>)> {
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
            binaries.insert(name.clone(), PathBuf::from(path));
        }
    })?;
    if !status.success() && errors.is_empty() {
        bail!("cargo {} ended with {status} in {}", words.join(" "), tree.display());
    }
    Ok((errors, binaries))
}

/// Of all that the copy is made of.
fn hash(mutants: &[Mutant]) -> Result<String> {
    let mut files = vec![root().join("Cargo.toml"), root().join("Cargo.lock")];
    let mut folders: Vec<PathBuf> = MEMBERS.iter().map(|member| root().join(member)).collect();
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
    fn the_manifest_keeps_versions_and_profiles() {
        let text = "[workspace]\nmembers = [\n    \"a\",\n]\n\n[workspace.lints.clippy]\ntodo = \
                    \"deny\"\n\n[profile.dev]\npanic = \"abort\"\n";
        let kept = manifest(text);
        assert!(
            kept.contains("[profile.dev]\npanic = \"abort\"") && kept.contains("crates/policy")
        );
        assert!(!kept.contains("todo") && !kept.contains("\"a\""), "{kept}");
    }
}
