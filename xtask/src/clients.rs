//! Compiles the C programs that play the unmodified user.
//!
//! They are built by gcc against the vendor's real headers, and linked, where their first line asks
//! for it (`/* link: cuda nvidia-ml dl */`), with the simulated driver under its production name.
//! Nothing else about a client is configurable: it must look like a program of somebody else's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{fs, io};

use anyhow::{Context, Result, bail};

use crate::command::run;
use crate::headers;
use crate::workspace::root;

/// Where C clients are kept, from the root.
pub(crate) const SOURCES: [&str; 2] = ["tests/clients", "bench/clients"];

/// Compiles every client into `<stage>/clients`.
pub(crate) fn build(stage: &Path) -> Result<()> {
    let sources = sources()?;
    if sources.is_empty() {
        return Ok(());
    }
    let include = headers::client_includes(root())?;
    let out = stage.join("clients");
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    for source in sources {
        compile(&source, &out, &include, stage)?;
    }
    Ok(())
}

/// Every client's source, sorted; an error when two would have one name.
pub(crate) fn sources() -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in SOURCES {
        let entries = match fs::read_dir(root().join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).context(folder),
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "c") {
                if let Some(twin) = found.iter().find(|known| known.file_stem() == path.file_stem())
                {
                    bail!("{} and {} have one name", twin.display(), path.display());
                }
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn compile(source: &Path, out: &Path, include: &[PathBuf], stage: &Path) -> Result<()> {
    let name = source.file_stem().with_context(|| source.display().to_string())?;
    let binary = out.join(name);
    if is_newer(&binary, source) {
        return Ok(());
    }
    let text = fs::read_to_string(source).with_context(|| source.display().to_string())?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Werror"]);
    for dir in include {
        gcc.arg("-isystem").arg(dir);
    }
    gcc.arg(source).arg("-o").arg(&binary);
    gcc.arg("-L").arg(stage.join("sim"));
    for library in libraries(&text) {
        match library {
            "cuda" | "nvidia-ml" => gcc.arg(format!("-l:lib{library}.so.1")),
            other => gcc.arg(format!("-l{other}")),
        };
    }
    // Before glibc 2.34 these are files of their own.
    gcc.args(["-ldl", "-lpthread"]);
    run(&mut gcc)
}

fn is_newer(binary: &Path, source: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    let folder = source.parent().map_or(Ok(SystemTime::UNIX_EPOCH), changed);
    match (changed(binary), changed(source), folder) {
        // The folder's time moves when a file that the client includes comes or goes.
        (Ok(binary), Ok(source), Ok(folder)) => binary > source && binary > folder,
        _ => false,
    }
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
