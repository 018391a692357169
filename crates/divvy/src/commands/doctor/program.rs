//! The program after `divvy doctor --`: whether the library would be loaded into what is run.
//!
//! Judges a program's file, the interpreter of a script, and what launchers do to the environment: `env`, shells, and those that
//! run a program as another user. Of a shell's script each line is read by itself, as words: what it sets by variables is not
//! followed. Runs nothing.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::finding::Finding;
use super::preload::Preloaded;
use super::script::{self, Loss};
use crate::commands::run;
use crate::machine::elf::{self, Elf};
use crate::output::reason::Reason;

/// Most bytes of a script that are read.
const MOST_BYTES: u64 = 1 << 20;
/// Launchers that start a later word and leave the environment alone.
const TRANSPARENT: [&str; 13] = [
    "nohup",
    "nice",
    "timeout",
    "time",
    "setsid",
    "stdbuf",
    "ionice",
    "chrt",
    "taskset",
    "numactl",
    "catchsegv",
    "strace",
    "tini",
];

/// Findings of the program that these words start; `preloaded` says by which way the library comes.
pub(super) fn look(words: &[OsString], preloaded: Preloaded) -> Vec<Finding> {
    let Some(program) = words.first() else { return Vec::new() };
    let name = program.to_string_lossy().into_owned();
    let last = name.rsplit('/').next().unwrap_or_default().to_owned();
    let rest = words.get(1..).unwrap_or_default();
    if script::CHANGES_USER.contains(&last.as_str()) {
        let loss = Loss::OtherUser(last);
        return loss.finding("the command line", preloaded).into_iter().collect();
    }
    let Some(path) = run::find(program).filter(|path| path.is_file()) else {
        let fix = "write its path, or put its directory into PATH";
        return vec![Finding::bad(Reason::Program, format!("{name} was not found"), fix)];
    };
    if access(&path, AccessFlags::X_OK).is_err() {
        let shown = path.display();
        let found = format!("{shown} is not executable, so it cannot be started");
        return vec![Finding::bad(Reason::Program, found, format!("chmod +x {shown}"))];
    }
    let mut findings = file(&path, preloaded);
    findings.extend(match last.as_str() {
        "env" => env(rest, preloaded),
        _ if script::is_shell(&last) => shell(rest, preloaded),
        _ if TRANSPARENT.contains(&last.as_str()) => {
            let is_program =
                |word: &&OsString| run::find(word).is_some_and(|path| is_executable(&path));
            let at = rest.iter().position(|word| is_program(&word));
            at.map(|at| look(&rest[at..], preloaded)).unwrap_or_default()
        }
        _ => script_of(&path, preloaded),
    });
    findings
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

/// The file itself, or the interpreter of a script.
fn file(path: &Path, preloaded: Preloaded) -> Vec<Finding> {
    let (path, through) = match interpreter_of_script(path) {
        Some(interpreter) => (interpreter, format!(" (a script of {})", path.display())),
        None => (path.to_owned(), String::new()),
    };
    let shown = format!("{}{through}", path.display());
    let elf = match elf::read(&path) {
        Ok(elf) => elf,
        Err(error) => {
            let found = format!("{shown} cannot be judged: {error:#}");
            let fix = "name a program or a script that begins with #!";
            return vec![Finding::bad(Reason::Program, found, fix)];
        }
    };
    match elf.why_not_preloaded(&path) {
        None => {
            let mut findings =
                vec![Finding::ok(Reason::Program, format!("{shown} can be limited"))];
            findings.extend(sanitizer(&shown, &elf, preloaded));
            findings
        }
        Some(reason) => vec![Finding::bad(
            reason,
            format!("{shown} would not be limited: {}", reason.meaning()),
            "run a dynamically linked glibc program of this machine without set-user-id",
        )],
    }
}

/// A program whose runtime ends it where another library comes first.
fn sanitizer(shown: &str, elf: &Elf, preloaded: Preloaded) -> Option<Finding> {
    let runtime = elf.wants_first()?;
    let options = std::env::var(elf::ORDER_VARIABLE).unwrap_or_default();
    if options.contains(elf::ORDER_OPTION) {
        return None;
    }
    let found = format!(
        "{shown} is built with AddressSanitizer: it ends at once where a library is preloaded before {runtime}; \
         `divvy run` sets {}={}",
        elf::ORDER_VARIABLE,
        elf::ORDER_OPTION
    );
    let fix = format!(
        "for LD_PRELOAD without divvy run: export {}={}",
        elf::ORDER_VARIABLE,
        elf::with_order_option(&options)
    );
    // Without the library here the program is to be started by divvy run.
    Some(match preloaded == Preloaded::default() {
        true => Finding::note(Reason::Sanitizer, found).with_fix(fix),
        false => Finding::bad(Reason::Sanitizer, found, fix),
    })
}

/// Losses by `env` with these words, and the program it starts.
fn env(words: &[OsString], preloaded: Preloaded) -> Vec<Finding> {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (losses, program) = script::of_env(&texts);
    let lost = losses.iter().filter_map(|loss| loss.finding("the command line", preloaded));
    lost.chain(look(words.get(program..).unwrap_or_default(), preloaded)).collect()
}

/// Lines that a shell with these words runs: a text behind `-c`, or a file.
fn shell(words: &[OsString], preloaded: Preloaded) -> Vec<Finding> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_text =
        |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    let Some(at) = words.iter().position(|word| is_text(word) || !word.starts_with('-')) else {
        return Vec::new();
    };
    if is_text(&words[at]) {
        let text = words.get(at + 1).map(String::as_str).unwrap_or_default();
        return script::look(text, "the shell's -c", preloaded);
    }
    let path = Path::new(&words[at]);
    let text = read(path).unwrap_or_default();
    script::look(&String::from_utf8_lossy(&text), &words[at], preloaded)
}

/// A script's own lines, where a shell reads them.
fn script_of(path: &Path, preloaded: Preloaded) -> Vec<Finding> {
    let Some(interpreter) = interpreter_of_script(path) else { return Vec::new() };
    let name = interpreter.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    if !script::is_shell(&name) {
        return Vec::new();
    }
    let text = read(path).unwrap_or_default();
    script::look(&String::from_utf8_lossy(&text), &path.display().to_string(), preloaded)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The interpreter a script's first line names; `env` is followed to the program it would start.
fn interpreter_of_script(path: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if first.ends_with("/env") {
        let program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        return run::find(OsStr::new(program));
    }
    Some(first.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::finding::Level;
    use super::*;

    const BY_VARIABLE: Preloaded = Preloaded { by_variable: true, by_file: false };

    fn levels(words: &[&str]) -> Vec<(Reason, Level)> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        look(&words, BY_VARIABLE).iter().map(|finding| (finding.code, finding.level)).collect()
    }

    fn is_good(words: &[&str]) -> bool {
        levels(words).iter().all(|(_, level)| *level != Level::Bad)
    }

    /// A file of the test's own, executable or not.
    struct Script(PathBuf);

    impl Script {
        fn new(name: &str, text: &str, mode: u32) -> Self {
            let path = std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Self(path)
        }

        fn path(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn programs_are_judged_by_what_would_run() {
        assert!(is_good(&["sh"]), "{:?}", levels(&["sh"]));
        assert!(!is_good(&["/nonexistent"]));
        let script = Script::new("script", "#!/usr/bin/env -S sh -e\n", 0o755);
        let words = [OsString::from(script.path())];
        let found = look(&words, BY_VARIABLE);
        assert!(found.len() == 1 && found[0].level == Level::Ok, "{found:?}");
        assert!(found[0].found.contains("a script of"), "{found:?}");
        let closed = Script::new("closed", "#!/bin/sh\n", 0o644);
        assert!(!is_good(&[closed.path()]));
    }

    #[test]
    fn launchers_that_lose_the_library_are_named() {
        for good in [
            &["env", "A=1", "sh"][..],
            &["env", "-u", "HOME", "sh"],
            &["sh", "-c", "exec true"],
            &["nohup", "sh"],
        ] {
            assert!(is_good(good), "{good:?}: {:?}", levels(good));
        }
        for bad in [
            &["env", "-i", "sh"][..],
            &["env", "-", "sh"],
            &["env", "-iv", "sh"],
            &["env", "-u", "LD_PRELOAD", "sh"],
            &["env", "-uLD_PRELOAD", "sh"],
            &["env", "--unset=LD_PRELOAD", "sh"],
            &["env", "LD_PRELOAD=/nonexistent/x.so", "sh"],
            &["env", "-u", "DIVVY_TENANT", "sh"],
            &["sudo", "sh"],
            &["su", "-c", "true"],
            &["nohup", "env", "-i", "sh"],
            &["timeout", "5", "env", "-i", "sh"],
            &["sh", "-c", "env -i true"],
            &["bash", "-lc", "unset LD_PRELOAD; exec true"],
        ] {
            assert!(!is_good(bad), "{bad:?}: {:?}", levels(bad));
        }
        let entry = "#!/bin/bash\nexport LD_PRELOAD=/usr/lib/other.so\nexec \"$@\"\n";
        let entry = Script::new("entry", entry, 0o755);
        assert!(!is_good(&[entry.path(), "sh"]));
        assert!(!is_good(&["sh", entry.path()]));
    }
}
