//! Defaults of `divvy run` and `divvy daemon`, from the environment and from two files.
//!
//! For each key the first of these that has it counts, as a whole: the command line, the environment, the user's file
//! `$XDG_CONFIG_HOME/divvy/config.toml` (else `~/.config/divvy/config.toml`), the machine's `/etc/divvy/config.toml`.
//!
//! Promises: of files that are not wholly understood nothing is used, and a command that reads one ends before it has
//! started anything; a file cannot say that a program runs without limits when Divvy fails. A daemon of the machine reads the
//! machine's file alone, and one that runs reads none: no file widens what its operator has set.
//!
//! Does not say what a value does: that is the option's, whose words it stands for.

mod file;
mod keys;
pub(crate) mod values;

use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy_policy::limit::{Selector, env_selector};

use crate::output::failure::usage;

pub(crate) use self::file::{DefaultsEntry, DefaultsFile};
pub(crate) use self::keys::Key;

/// The machine's file.
const MACHINES: &str = "/etc/divvy/config.toml";

/// Files that a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// The user's and the machine's.
    User,
    /// The machine's alone, for what serves all users.
    Machine,
}

/// A file of defaults: where it would be, and what it says.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its place.
    pub(crate) path: PathBuf,
    /// Its content; `None` where there is no file.
    pub(crate) read: Result<Option<DefaultsFile>>,
}

/// Every file there may be, the one that counts first at the head.
pub(crate) fn files(readers: Readers) -> Vec<Found> {
    let me = nix::unistd::geteuid().as_raw();
    let machines = PathBuf::from(MACHINES);
    let users = (readers == Readers::User).then(users_file).flatten();
    let users = users.map(|path| Found { read: file::read(&path, &file::Trust::user(me)), path });
    let machines = Found { read: file::read(&machines, &file::Trust::machine()), path: machines };
    users.into_iter().chain([machines]).collect()
}

/// Place of the user's file; `None` where the environment names no home.
fn users_file() -> Option<PathBuf> {
    let absolute = |name: &str| {
        // A relative one is to be ignored, says the XDG specification.
        std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("divvy/config.toml"))
}

/// Values of options where the command line does not say.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    /// Files that were read, the one that counts first at the head.
    files: Vec<DefaultsFile>,
    /// The environment.
    variables: Vec<(String, String)>,
    /// Origins of values that were taken, in words.
    taken: Vec<String>,
}

impl Defaults {
    /// Those that hold here.
    ///
    /// # Errors
    /// A usage error for a file that is not wholly understood, or not to be trusted.
    pub(crate) fn here(readers: Readers) -> Result<Self> {
        let read = files(readers).into_iter().filter_map(|found| found.read.transpose());
        let mut variables: Vec<(String, String)> = std::env::vars_os()
            .map(|(name, value)| {
                (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
            })
            .collect();
        variables.sort();
        Ok(Self { files: read.collect::<Result<_>>()?, variables, taken: Vec::new() })
    }

    /// Values of the key `name`, as its option would be given them; empty where nothing says one.
    ///
    /// # Errors
    /// A usage error for a variable's name that is none.
    pub(crate) fn take(&mut self, name: &str) -> Result<Vec<String>> {
        let key = keys::find(name);
        let (words, origin) = match self.of_environment(key)? {
            Some(found) => found,
            None => match self.files.iter().find_map(|file| file.entry(name)) {
                Some(entry) => (entry.words.clone(), entry.origin()),
                None => return Ok(Vec::new()),
            },
        };
        self.taken.push(format!("{} {} is from {origin}", key.name, words.join(" ")));
        Ok(words)
    }

    /// The same of a key with one value.
    ///
    /// # Errors
    /// As of [`Defaults::take`].
    pub(crate) fn take_one(&mut self, name: &str) -> Result<Option<String>> {
        Ok(self.take(name)?.pop())
    }

    /// Origins of all that was taken, for users who ask and for errors.
    pub(crate) fn taken(&self) -> &[String] {
        &self.taken
    }

    fn of_environment(&self, key: &Key) -> Result<Option<(Vec<String>, String)>> {
        let Some(variable) = key.variable else { return Ok(None) };
        let (mut words, mut names) = (Vec::new(), Vec::new());
        for (name, value) in &self.variables {
            let word = match env_selector(name, variable) {
                None => continue,
                Some(_) if name != variable && !key.per_device => continue,
                Some(Ok(Selector::Index(index))) => format!("{index}={value}"),
                Some(Ok(_)) => value.clone(),
                Some(Err(error)) => return Err(usage(format!("{name}: {error}"))),
            };
            words.push(word);
            names.push(name.clone());
        }
        Ok((!words.is_empty()).then(|| (words, names.join(", "))))
    }
}

/// An error with the origins of what was taken, where there are any.
pub(crate) fn explained(error: anyhow::Error, taken: &[String]) -> anyhow::Error {
    match taken {
        [] => error,
        taken => {
            let code = crate::output::failure::code_of(&error);
            let words = format!("{error:#} ({})", taken.join("; "));
            crate::output::failure::with_code(code, words)
        }
    }
}

/// The file that beats `path` for the key `name`, where one does.
pub(crate) fn beaten_by<'a>(found: &'a [Found], path: &Path, name: &str) -> Option<&'a Path> {
    let before = found.iter().take_while(|file| file.path != path);
    let has = |file: &&Found| matches!(&file.read, Ok(Some(read)) if read.entry(name).is_some());
    before.filter(has).map(|file| file.path.as_path()).next()
}

/// Whether the environment says what the key is.
pub(crate) fn is_in_environment(key: &Key) -> bool {
    let is_of = |name: &str| match key.variable {
        Some(variable) if key.per_device => env_selector(name, variable).is_some(),
        Some(variable) => name == variable,
        None => false,
    };
    std::env::vars_os().any(|(name, _)| name.to_str().is_some_and(is_of))
}

#[cfg(test)]
mod tests;
