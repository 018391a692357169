//! A page of the documentation, as far as a test can follow it: its commands, what they print, and files to save.
//!
//! A block fenced as `console` holds commands behind `$ ` (or `# `, as root) and what each prints below it; a command that
//! ends in a backslash goes on in the next line. A fenced block below a sentence that ends in ``Save it as `NAME`:`` is a file.

use std::fs;

use crate::harness::root;

/// A step of a page, in the order of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command and the lines it prints.
    Command(String, Vec<String>),
    /// A file and its text.
    File(String, String),
}

/// The steps of a page of this path below the repository.
pub(crate) fn steps_of(path: &str) -> Vec<Step> {
    let text =
        fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    steps(&text)
}

/// The file of this name that a page has one save.
pub(crate) fn file_of(path: &str, name: &str) -> String {
    let file = steps_of(path).into_iter().find_map(|step| match step {
        Step::File(its, text) if its == name => Some(text),
        _ => None,
    });
    file.unwrap_or_else(|| panic!("{path} has no {name}"))
}

/// The only command of a page that begins so, and what it prints.
pub(crate) fn command_of(path: &str, begin: &str) -> (String, Vec<String>) {
    let mut found = steps_of(path).into_iter().filter_map(|step| match step {
        Step::Command(command, printed) if command.starts_with(begin) => Some((command, printed)),
        _ => None,
    });
    let first = found.next().unwrap_or_else(|| panic!("{path} has no command {begin}"));
    assert!(found.next().is_none(), "{path} has two commands {begin}");
    first
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    let mut before = "";
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if !line.trim().is_empty() {
                before = line;
            }
            continue;
        };
        let block: Vec<&str> =
            lines.by_ref().take_while(|line| line.trim_start() != "```").collect();
        if let Some(name) = file(before) {
            steps.push(Step::File(name.to_owned(), block.join("\n") + "\n"));
        } else if language == "console" {
            steps.extend(commands(&block));
        }
        before = "";
    }
    steps
}

/// Name of the file that the block below this line is.
fn file(line: &str) -> Option<&str> {
    let (_, name) = line.rsplit_once("ave it as `")?;
    name.strip_suffix("`:")
}

fn commands(block: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block {
        let typed = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
        match (typed, steps.last_mut()) {
            (Some(typed), _) => steps.push(Step::Command(typed.to_owned(), Vec::new())),
            (None, Some(Step::Command(command, printed))) => {
                if command.ends_with('\\') {
                    command.push('\n');
                    command.push_str(line);
                } else {
                    printed.push((*line).to_owned());
                }
            }
            (None, _) => steps.push(Step::Command(String::new(), vec![(*line).to_owned()])),
        }
    }
    steps
}

#[test]
fn commands_outputs_and_files_are_told_apart() {
    let text = "Save it as `a.sh`:\n\n```sh\nls\n```\n\n```console\n$ one \\\n  two\nout\n\n# three\n```\n```c\nx\n```\n";
    let command = |typed: &str, printed: &[&str]| {
        Step::Command(typed.to_owned(), printed.iter().map(|line| (*line).to_owned()).collect())
    };
    let wanted = vec![
        Step::File("a.sh".to_owned(), "ls\n".to_owned()),
        command("one \\\n  two", &["out", ""]),
        command("three", &[]),
    ];
    assert_eq!(steps(text), wanted);
}
