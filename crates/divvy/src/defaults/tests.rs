//! Tests of files of defaults: what is understood, what is refused and in which words, and what comes first.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::file::{self, DefaultsFile, Trust};
use super::keys::KEYS;
use super::*;
use crate::output::failure::code_of;

fn parse(text: &str) -> Result<DefaultsFile> {
    DefaultsFile::parse(text, Path::new("/x/config.toml"))
}

fn refused(text: &str) -> String {
    let error = parse(text).expect_err(text);
    assert_eq!(code_of(&error), 2, "{error}");
    error.to_string()
}

/// A file of this test's.
struct Own(PathBuf);

impl Own {
    fn new(name: &str, text: &str, mode: u32) -> Self {
        let path =
            std::env::temp_dir().join(format!("divvy-defaults-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn every_key_has_an_example_that_is_understood() {
    for key in KEYS {
        let (section, name) = key.name.split_once('.').unwrap();
        let file = parse(&format!("[{section}]\n\n{name} = {}\n", key.example)).unwrap();
        let entry = file.entry(key.name).unwrap();
        assert_eq!((entry.line, entry.words.len()), (3, 1), "{}", key.name);
        assert_eq!(entry.origin(), "/x/config.toml, line 3");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_the_fix() {
    for (text, words) in [
        ("[run]\nmemroy = \"8GiB\"", &["line 2", "run.memroy", "did you mean memory"][..]),
        ("memory = \"8GiB\"", &["line 1", "memory is no key", "section [run]"]),
        ("[rnu]\nmemory = \"8GiB\"", &["line 1", "rnu is no key"]),
        ("[run]\nmemory = 8", &["line 2", "run.memory = 8:", "text in quotes", "\"8GiB\""]),
        ("[run]\nmemory = []", &["line 2", "run.memory = []", "or a list"]),
        ("[run]\nmemory = [\"8GiB\", 8]", &["line 2", "or a list"]),
        ("[run]\nmemory = \"8\"", &["line 2", "run.memory = \"8\"", "8GiB"]),
        ("[run]\nmemory = \"\"", &["line 2", "run.memory = \"\""]),
        ("[run]\ncompute = \"0%\"", &["line 2", "run.compute = \"0%\""]),
        ("[run]\nweight = \"2\"", &["line 2", "whole number"]),
        ("[run]\nweight = 0", &["line 2", "run.weight = 0"]),
        ("[run]\nweight = -1", &["line 2", "run.weight = -1"]),
        ("[run]\npriority = \"urgent\"", &["line 2", "urgent", "high"]),
        ("[run]\noversubscribe = \"yes\"", &["line 2", "true or false"]),
        ("[run]\nbackend = \"x\"", &["line 2", "auto, vmm, managed"]),
        ("[run]\nfail = \"open\"", &["line 2", "run.fail is no key"]),
        ("[daemon]\ncapacity = \"0\"", &["line 2", "no size", "24GiB"]),
        ("[daemon]\nmetrics = \"localhost\"", &["line 2", "IP address"]),
        ("[daemon]\nroot = \"tenants\"", &["line 2", "whole path"]),
        ("[run]\nmemory = \"8GiB\n", &["line 2", "TOML"]),
        ("[run]\nmemory = \"1GiB\"\nmemory = \"2GiB\"", &["line 3", "duplicate"]),
    ] {
        let said = refused(text);
        let expected = words.iter().chain(&["/x/config.toml"]);
        assert!(expected.clone().all(|word| said.contains(word)), "{text:?}: {said}");
    }
}

#[test]
fn a_file_that_another_could_have_written_is_not_believed() {
    let me = nix::unistd::geteuid().as_raw();
    let own = Own::new("mode", "[run]\nweight = 2\n", 0o644);
    let trust = Trust::user(me);
    assert!(file::read(&own.0, &trust).unwrap().is_some());
    std::fs::set_permissions(&own.0, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = file::read(&own.0, &trust).unwrap_err().to_string();
    assert!(said.contains("mode 666") && said.contains("chmod"), "{said}");
    std::fs::set_permissions(&own.0, std::fs::Permissions::from_mode(0o664)).unwrap();
    assert!(file::read(&own.0, &trust).is_ok(), "a group is often a user's own");
    if nix::unistd::geteuid().is_root() {
        assert!(file::read(&own.0, &Trust::machine()).is_err(), "of the machine it is not");
        chown(&own.0, Some(65534), None).unwrap();
        let said = file::read(&own.0, &trust).unwrap_err().to_string();
        assert!(said.contains("uid 65534") && said.contains("sudo -H"), "{said}");
    }
}

#[test]
fn what_is_no_file_is_refused_and_what_is_not_there_is_none() {
    let trust = Trust::user(nix::unistd::geteuid().as_raw());
    let place = std::env::temp_dir().join(format!("divvy-defaults-pipe-{}", std::process::id()));
    assert!(file::read(&place, &trust).unwrap().is_none());
    nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(file::read(&place, &trust).unwrap_err().to_string().contains("regular file"));
    std::fs::remove_file(&place).unwrap();
    let large = Own::new("large", &"#".repeat(70_000), 0o600);
    assert!(file::read(&large.0, &trust).unwrap_err().to_string().contains("70000 bytes"));
}

fn defaults(files: &[&str], variables: &[(&str, &str)]) -> Defaults {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Defaults {
        files: files.iter().map(|text| parse(text).unwrap()).collect(),
        variables: variables.collect(),
        taken: Vec::new(),
    }
}

#[test]
fn the_environment_comes_before_files_and_the_users_before_the_machines() {
    let (users, machines) =
        ("[run]\nmemory = [\"4GiB\", \"1=2GiB\"]\n", "[run]\nmemory = \"1GiB\"\nweight = 3\n");
    let mut both = defaults(&[users, machines], &[]);
    assert_eq!(both.take("run.memory").unwrap(), ["4GiB", "1=2GiB"], "as a whole");
    assert_eq!(both.take_one("run.weight").unwrap().as_deref(), Some("3"));
    assert_eq!(both.take("run.compute").unwrap(), [""; 0]);
    assert_eq!(both.taken().len(), 2, "{:?}", both.taken());
    let named = [("DIVVY_MEMORY", "8GiB"), ("DIVVY_MEMORY_1", "6GiB"), ("DIVVY_WEIGHTS", "7")];
    let mut set = defaults(&[users, machines], &named);
    assert_eq!(set.take("run.memory").unwrap(), ["8GiB", "1=6GiB"]);
    assert_eq!(set.take_one("run.weight").unwrap().as_deref(), Some("3"));
    assert!(set.taken()[0].ends_with("is from DIVVY_MEMORY, DIVVY_MEMORY_1"), "{:?}", set.taken());
    assert!(defaults(&[], &[("DIVVY_MEMORY_x", "1GiB")]).take("run.memory").is_err());
    let empty = defaults(&[machines], &[("DIVVY_MEMORY", "")]).take("run.memory").unwrap();
    assert_eq!(empty, [""], "an empty limit is refused by its parser, and is not none");
}

#[test]
fn an_error_of_what_was_taken_says_from_where() {
    let error =
        explained(usage("--memory 9=1GiB: no"), &["run.memory 9=1GiB is from F".to_owned()]);
    assert_eq!(code_of(&error), 2);
    assert_eq!(error.to_string(), "--memory 9=1GiB: no (run.memory 9=1GiB is from F)");
}

/// The table of the page. `DIVVY_GOLDEN=write` writes it again.
#[test]
fn the_page_has_every_key() {
    let mut table =
        String::from("| key | such as | stands for | variable before it |\n|---|---|---|---|\n");
    for key in KEYS {
        let variable = key.variable.map_or("-".to_owned(), |name| format!("`{name}`"));
        let (name, example, meaning) = (key.name, key.example, key.meaning);
        table.push_str(&format!("| `{name}` | `{example}` | {meaning} | {variable} |\n"));
    }
    crate::golden::table("docs/guide/config.md", &table);
}
