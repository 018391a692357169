//! Options of every command: colour, and how much is told beside the result.
//!
//! Promises: without a terminal, with `NO_COLOR` set or on a terminal that is "dumb", nothing is coloured unless
//! `--color always` says so; results and errors are printed whatever the options are. Colour never carries what the text
//! beside it does not.
//!
//! Holds the one setting of the process, which [`OutputOptions::settle`] makes before a command begins. Before that, as in
//! tests, there is no colour.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;

/// Options that every command has.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OutputOptions {
    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true
    )]
    color: ColorWhen,

    /// Print results and errors only: no notes, no progress
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Tell on standard error what is done
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    verbose: bool,
}

/// When there is colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

/// Stream that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Meaning of a coloured word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// As it should be.
    Good,
    /// Worth a look.
    Noted,
    /// Not as it should be.
    Bad,
    /// A name, or a head.
    Head,
}

static SETTLED: OnceLock<OutputOptions> = OnceLock::new();

impl OutputOptions {
    /// Makes these the options of the process; the first call counts.
    pub fn settle(self) {
        let _ = SETTLED.set(self);
    }

    /// The same as words of a command line.
    pub(crate) fn words(self) -> Vec<OsString> {
        let color = match self.color {
            ColorWhen::Auto => None,
            ColorWhen::Always => Some("--color=always"),
            ColorWhen::Never => Some("--color=never"),
        };
        let quiet = self.quiet.then_some("--quiet");
        let verbose = self.verbose.then_some("--verbose");
        [color, quiet, verbose].into_iter().flatten().map(OsString::from).collect()
    }

    /// Options of a line that could not be read as a whole: its mistake is told as it says.
    pub fn of_line(line: &[OsString]) -> Self {
        let mut found = Self::default();
        let mut is_next = false;
        let words = line.iter().map(OsString::as_os_str).take_while(|word| *word != "--");
        for word in words.filter_map(OsStr::to_str) {
            let value = if is_next { Some(word) } else { word.strip_prefix("--color=") };
            match value {
                Some("always") => found.color = ColorWhen::Always,
                Some("never") => found.color = ColorWhen::Never,
                _ => {}
            }
            is_next = word == "--color";
        }
        found
    }
}

fn settled() -> OutputOptions {
    let before = OutputOptions { color: ColorWhen::Never, ..OutputOptions::default() };
    SETTLED.get().copied().unwrap_or(before)
}

/// Whether a stream is coloured.
pub fn has_color(stream: Stream) -> bool {
    let is_for_people = || match stream {
        Stream::Out => is_terminal(),
        Stream::Err => stderr().is_terminal(),
    };
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    is_colored(settled().color, is_for_people, variable)
}

/// Whether standard output is a terminal.
#[allow(clippy::disallowed_methods, reason = "it is asked about, not written")]
fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

fn is_colored(
    when: ColorWhen,
    is_terminal: impl Fn() -> bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => {
            variable("NO_COLOR").is_none()
                && variable("TERM").is_none_or(|name| name != "dumb")
                && is_terminal()
        }
    }
}

/// Whether notes and progress are left out.
pub fn is_quiet() -> bool {
    settled().quiet
}

/// Whether it is told what is done.
pub(crate) fn is_verbose() -> bool {
    settled().verbose
}

/// `text` in the colour of its meaning, where the stream has any.
pub fn paint(stream: Stream, meaning: Meaning, text: &str) -> String {
    if !has_color(stream) {
        return text.to_owned();
    }
    let code = match meaning {
        Meaning::Good => "32",
        Meaning::Noted => "33",
        Meaning::Bad => "31",
        Meaning::Head => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_whose_user_wants_it() {
        let none = |_: &str| None;
        let set = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| OsString::from(value))
        };
        let (on, off) = (|| true, || false);
        assert!(is_colored(ColorWhen::Auto, on, none));
        assert!(!is_colored(ColorWhen::Auto, off, none));
        assert!(!is_colored(ColorWhen::Auto, on, set("NO_COLOR", "1")));
        assert!(!is_colored(ColorWhen::Auto, on, set("TERM", "dumb")));
        assert!(is_colored(ColorWhen::Auto, on, set("TERM", "xterm")));
        assert!(is_colored(ColorWhen::Always, off, set("NO_COLOR", "1")));
        assert!(!is_colored(ColorWhen::Never, on, none));
        assert_eq!(paint(Stream::Out, Meaning::Bad, "x"), "x", "before it is settled");
    }

    #[test]
    fn a_line_with_a_mistake_still_says_what_colour_it_wants() {
        let color = |line: &[&str]| {
            OutputOptions::of_line(&line.iter().map(OsString::from).collect::<Vec<_>>()).color
        };
        assert_eq!(color(&["ruun", "--color", "never"]), ColorWhen::Never);
        assert_eq!(color(&["--color=always", "ruun"]), ColorWhen::Always);
        assert_eq!(color(&["run", "--", "--color=always"]), ColorWhen::Auto);
        assert_eq!(color(&["run", "--color"]), ColorWhen::Auto);
    }

    #[test]
    fn another_program_gets_the_same_options() {
        let options = OutputOptions { color: ColorWhen::Never, quiet: true, verbose: false };
        assert_eq!(options.words(), ["--color=never", "--quiet"]);
        assert!(OutputOptions::default().words().is_empty());
    }
}
