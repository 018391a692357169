//! Exit codes.
//!
//! [`CODES`] is the one table of them: the long help is made from it, and a test compares
//! `docs/guide/exit-codes.md` with it.

/// Something checked or measured was not as it should be.
pub const NOT_AS_EXPECTED: u8 = 1;
/// The command line or a limit cannot be understood.
pub(crate) const USAGE: u8 = 2;
/// Divvy failed before the program was started.
pub(crate) const DIVVY: u8 = 125;
/// The program cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// The terminal went away: what a shell reports of a program that SIGHUP ended.
pub(crate) const HANGUP: u8 = 129;
/// The reader of standard output went away: what a shell reports of a program that SIGPIPE ended.
pub(crate) const CLOSED_PIPE: u8 = 141;

/// Every exit code and what it means.
pub(crate) const CODES: &[(&str, &str)] = &[
    ("0", "done, and everything was as it should be"),
    (
        "1",
        "done, and something was not: a check failed, a goal was missed, no daemon answers, the \
         report of a program that ended with 0 could not be written",
    ),
    (
        "2",
        "the command line or a limit cannot be understood, or cannot be on this machine; nothing was \
         started or changed",
    ),
    (
        "125",
        "Divvy itself failed: something it needs is missing, or a file or standard output cannot be \
         written. With `divvy run`, before the program was started",
    ),
    ("126", "`divvy run`: the program is there but cannot be executed"),
    ("127", "`divvy run`: the program was not found"),
    ("129", "`divvy top`: its terminal went away"),
    (
        "141",
        "whoever read standard output closed it; a change made before that is named on standard error",
    ),
    ("other", "`divvy run`: the program's own code, or 128 + n when signal n ended it"),
];

/// [`CODES`] for the end of the long help.
pub(crate) fn help() -> String {
    const WIDTH: usize = 90;
    let mut text = "Exit codes:".to_owned();
    for (code, meaning) in CODES {
        let mut line = format!("\n  {code:<5}");
        for word in meaning.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                text.push_str(&line);
                line = format!("\n{:7}", "");
            }
            line.push(' ');
            line.push_str(word);
        }
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the page. `DIVVY_GOLDEN=write` writes it again.
    #[test]
    fn the_page_has_every_code_and_the_help_too() {
        let mut table = String::from("| code | meaning |\n|---|---|\n");
        let help = help();
        for (code, meaning) in CODES {
            table.push_str(&format!("| {code} | {meaning} |\n"));
            assert!(help.contains(&format!("\n  {code:<5} ")), "{help}");
        }
        crate::golden::table("docs/guide/exit-codes.md", &table);
        assert!(help.lines().all(|line| line.chars().count() <= 90), "{help}");
        let named = [0, NOT_AS_EXPECTED, USAGE, DIVVY, NOT_EXECUTABLE, NOT_FOUND, HANGUP];
        for code in named.into_iter().chain([CLOSED_PIPE]) {
            assert!(CODES.iter().any(|(known, _)| *known == code.to_string()), "{code}");
        }
    }
}
