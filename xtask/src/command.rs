//! Runs other programs and says so.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end; anything but success is an error that names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| words(command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", words(command));
    }
    Ok(())
}

/// Runs `command` and hands each line of its output over as it comes; stderr stays where it is.
pub(crate) fn lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| words(command))?;
    let output = child.stdout.take().context("the child's output was piped")?;
    for line in BufReader::new(output).split(b'\n') {
        each(&String::from_utf8_lossy(&line?));
    }
    child.wait().with_context(|| words(command))
}

/// The output of `command`, which must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let mut text = String::new();
    let status = lines(command, |line| {
        text.push_str(line);
        text.push('\n');
    })?;
    if !status.success() {
        bail!("`{}` ended with {status}\n{text}", words(command));
    }
    Ok(text)
}

/// The command as one would type it.
pub(crate) fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    std::iter::once(program.file_name().unwrap_or(program.as_os_str()))
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
