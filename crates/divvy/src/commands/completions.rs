//! `divvy completions`: the script by which a shell completes this command's lines; and the man pages.
//!
//! Both are made from the parser, so neither can say anything else than it does. Commands that are not for people
//! have no page and are not completed. Promises: the same build prints the same bytes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap_complete::Shell;

use crate::output::{json, out};

/// The command by which packages get the pages.
pub(crate) const MAN_PAGES: &str = "man-pages";

/// Print the script by which a shell completes this command's lines.
///
/// Packages install it. By hand, print it into the file that the examples name.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: KnownShell,

    /// Print shell and script as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy completions bash > ~/.local/share/bash-completion/completions/divvy
  divvy completions zsh > /usr/local/share/zsh/site-functions/_divvy
  divvy completions fish > ~/.config/fish/completions/divvy.fish";

/// Shells for which there is a script.
#[derive(Clone, Copy, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

impl From<KnownShell> for Shell {
    fn from(shell: KnownShell) -> Self {
        match shell {
            KnownShell::Bash => Self::Bash,
            KnownShell::Zsh => Self::Zsh,
            KnownShell::Fish => Self::Fish,
        }
    }
}

/// Write the man pages into a directory.
///
/// Not for people: packages have them.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The directory, which must be there
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, parser: clap::Command) -> Result<u8> {
    let script = script(args.shell, parser)?;
    if args.json {
        json::print(&serde_json::json!({ "shell": args.shell, "script": script }))?;
    } else {
        out::text(&script)?;
    }
    Ok(0)
}

pub(crate) fn man_pages(args: &ManArgs, parser: clap::Command) -> Result<u8> {
    let cannot = || format!("man pages cannot be written to {}", args.directory.display());
    fs::metadata(&args.directory).with_context(cannot)?;
    clap_mangen::generate_to(parser, &args.directory).with_context(cannot)?;
    Ok(0)
}

fn script(shell: KnownShell, mut parser: clap::Command) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(Shell::from(shell), &mut parser, "divvy", &mut script);
    String::from_utf8(script).context("a script of another encoding was made")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parser() -> clap::Command {
        clap::Command::new("divvy")
            .subcommand(clap::Command::new("run").arg(clap::Arg::new("memory").long("memory")))
            .subcommand(clap::Command::new("inner").hide(true))
    }

    #[test]
    fn each_shell_completes_commands_and_options() {
        for shell in [KnownShell::Bash, KnownShell::Zsh, KnownShell::Fish] {
            let made = script(shell, parser()).unwrap();
            assert!(made.contains("run") && made.contains("memory"), "{shell:?}: {made}");
            assert_eq!(made, script(shell, parser()).unwrap());
        }
    }

    #[test]
    fn commands_for_people_have_a_page() {
        let directory = std::env::temp_dir().join(format!("divvy-pages-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let args = ManArgs { directory: directory.clone() };
        man_pages(&args, parser()).unwrap();
        let page = |name: &str| fs::read_to_string(directory.join(name));
        assert!(page("divvy-run.1").unwrap().contains("\\-\\-memory"));
        assert!(page("divvy.1").unwrap().contains("divvy\\-run(1)"));
        assert!(page("divvy-inner.1").is_err());
        fs::remove_dir_all(&directory).unwrap();
        assert!(man_pages(&args, parser()).unwrap_err().to_string().contains("cannot be written"));
    }
}
