//! Compiles the C programs that play the unmodified user.
//!
//! A source with a `main` is a program; one without belongs to every program of its folder. They are
//! built by gcc, against the vendor's real headers where they include them, and linked, where their
//! first line asks for it (`/* link: cuda nvidia-ml */`), with the simulated driver under its
//! production name. Nothing else is configurable: a client must look like somebody else's program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail};

use crate::command::run;
use crate::headers;
use crate::workspace::root;

/// The programs of demo and bench: they find the driver at run time and need no vendor header.
pub(crate) const BENCH: &[&str] = &["bench/clients"];

/// All programs; those of the tests need the headers, which are fetched where they are missing.
pub(crate) const ALL: &[&str] = &["bench/clients", "tests/clients"];

/// A C compiler, with the arguments that are its own.
type Compiler<'a> = &'a dyn Fn() -> Command;

/// Compiles the programs of `folders` into `<stage>/clients`, for this machine.
pub(crate) fn build(stage: &Path, folders: &[&str]) -> Result<()> {
    let gcc = || {
        let mut gcc = Command::new("gcc");
        gcc.arg("-g");
        gcc
    };
    build_by(&gcc, root(), stage, folders)
}

/// The same by another compiler, of the sources in another checkout.
pub(crate) fn build_by(
    compiler: Compiler<'_>,
    checkout: &Path,
    stage: &Path,
    folders: &[&str],
) -> Result<()> {
    let out = stage.join("clients");
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let mut names: Vec<OsString> = Vec::new();
    for folder in folders {
        let sources = sources(&checkout.join(folder))?;
        let vendor = sources.iter().any(|source| {
            ["<cuda.h>", "<nvml.h>"].iter().any(|header| source.text.contains(header))
        });
        let includes = if vendor { headers::client_includes(checkout)? } else { Vec::new() };
        let (programs, parts): (Vec<&Source>, Vec<&Source>) =
            sources.iter().partition(|source| source.text.contains("int main("));
        for program in programs {
            let name = program.path.file_stem().unwrap_or_default().to_owned();
            if names.contains(&name) {
                bail!("{} has the name of another client; rename it", program.path.display());
            }
            let binary = out.join(&name);
            if !is_newer(&binary, &sources) {
                compile(compiler, program, &parts, &includes, &binary, stage)?;
            }
            names.push(name);
        }
    }
    Ok(())
}

/// One C file.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    text: String,
}

/// The C files and headers of a folder, sorted; none where it does not exist.
fn sources(folder: &Path) -> Result<Vec<Source>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c" || extension == "h") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            found.push(Source { path, text });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn compile(
    compiler: Compiler<'_>,
    program: &Source,
    parts: &[&Source],
    includes: &[PathBuf],
    binary: &Path,
    stage: &Path,
) -> Result<()> {
    let mut gcc = compiler();
    // Warnings stay warnings: another gcc has others, and a newcomer has another gcc.
    gcc.args(["-std=gnu11", "-O2", "-Wall"]);
    for include in includes {
        gcc.arg("-isystem").arg(include);
    }
    gcc.arg(&program.path);
    gcc.args(
        parts.iter().map(|part| &part.path).filter(|path| path.extension() == Some("c".as_ref())),
    );
    gcc.arg("-o").arg(binary);
    if libraries(&program.text).next().is_some() {
        gcc.arg("-L").arg(stage.join("sim"));
    }
    for library in libraries(&program.text) {
        match library {
            "cuda" | "nvidia-ml" => gcc.arg(format!("-l:lib{library}.so.1")),
            other => gcc.arg(format!("-l{other}")),
        };
    }
    // Before glibc 2.34 these are files of their own.
    gcc.args(["-ldl", "-lpthread"]);
    run(&mut gcc)
}

/// Whether `binary` was made after every file of its folder was last changed.
fn is_newer(binary: &Path, sources: &[Source]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let Some(made) = changed(binary) else { return false };
    sources.iter().all(|source| changed(&source.path).is_some_and(|time| time < made))
}

/// The libraries the first line names.
fn libraries(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .next()
        .and_then(|line| line.trim().strip_prefix("/* link:"))
        .and_then(|rest| rest.strip_suffix("*/"))
        .unwrap_or_default()
        .split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_libraries() {
        let named: Vec<_> = libraries("/* link: cuda dl */\nint main(void) {}\n").collect();
        assert_eq!(named, ["cuda", "dl"]);
        assert_eq!(libraries("int main(void) {}\n/* link: cuda */\n").count(), 0);
    }
}
