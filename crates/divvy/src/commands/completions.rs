//! `divvy completions`: the script by which a shell completes this command's lines; and the man pages.
//!
//! Both are made from the parser, so neither can say anything else than it does. Commands that are not for people
//! have no page and are not completed. Promises: the same build prints the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueHint;
use clap_complete::Shell;

use crate::output::{json, out};
use crate::tenants::tenant_dir::check_name;
use crate::tenants::{discover, ledger};

/// The command by which packages get the pages.
pub(crate) const MAN_PAGES: &str = "man-pages";

/// The command by which scripts get tenants' names.
pub(crate) const TENANTS: &str = "list-tenants";

/// Print the names of tenants, for the scripts of shells.
///
/// Not for people: `divvy ps` is.
#[derive(Debug, clap::Args)]
pub(crate) struct TenantsArgs {}

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

/// All man pages by their names, made in `folder`.
pub(crate) fn pages(parser: clap::Command, folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    clap_mangen::generate_to(parser, folder).context("man pages cannot be made")?;
    let entries = fs::read_dir(folder).context("man pages cannot be read")?;
    let mut pages = Vec::new();
    for entry in entries {
        let entry = entry?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    Ok(pages)
}

/// The script for each shell, with the place below a prefix from which the shell takes it.
pub(crate) fn scripts(parser: &clap::Command) -> Result<Vec<(&'static str, String)>> {
    let places = [
        (KnownShell::Bash, "share/bash-completion/completions/divvy"),
        (KnownShell::Zsh, "share/zsh/site-functions/_divvy"),
        (KnownShell::Fish, "share/fish/vendor_completions.d/divvy.fish"),
    ];
    let script = |(shell, place)| Ok((place, script(shell, parser.clone())?));
    places.into_iter().map(script).collect()
}

pub(crate) fn man_pages(args: &ManArgs, parser: clap::Command) -> Result<u8> {
    let cannot = || format!("man pages cannot be written to {}", args.directory.display());
    fs::metadata(&args.directory).with_context(cannot)?;
    clap_mangen::generate_to(parser, &args.directory).with_context(cannot)?;
    Ok(0)
}

/// Prints the names of tenants for scripts, one a line. A name that a shell would take for more than a name is left out.
pub(crate) fn tenants(_args: &TenantsArgs) -> Result<u8> {
    let (directories, _) = discover::tenants(&[]);
    let names = directories.iter().filter_map(|dir| Some(ledger::read_foreign(dir).ok()?.name));
    let names: BTreeSet<String> = names.filter(|name| check_name(name).is_ok()).collect();
    out::text(&names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    Ok(0)
}

fn script(shell: KnownShell, parser: clap::Command) -> Result<String> {
    let mut script = Vec::new();
    let mut parser = hinting(for_people(&parser));
    clap_complete::generate(Shell::from(shell), &mut parser, "divvy", &mut script);
    let script = String::from_utf8(script).context("a script of another encoding was made")?;
    Ok(match shell {
        KnownShell::Bash => script + BASH,
        KnownShell::Fish => script + FISH,
        KnownShell::Zsh => {
            let named = script.lines().map(|line| match line.contains(":tenant -- ") {
                true => line.replace(":_default'", ":_divvy_tenants'"),
                false => line.to_owned(),
            });
            let named: Vec<String> = named.collect();
            (named.join("\n") + "\n").replacen(ZSH_END, &format!("{ZSH}{ZSH_END}"), 1)
        }
    })
}

/// The parser without the commands that are hidden: generators leave out some places of theirs alone.
fn for_people(parser: &clap::Command) -> clap::Command {
    let shown = parser.get_subcommands().filter(|command| !command.is_hide_set());
    // A command cannot lose one of its own, so this is another.
    let people = clap::Command::new("divvy")
        .version(env!("CARGO_PKG_VERSION"))
        .args(parser.get_arguments().cloned())
        .disable_help_subcommand(parser.is_disable_help_subcommand_set())
        .subcommands(shown.cloned());
    match parser.get_about() {
        Some(about) => people.about(about.clone()),
        None => people,
    }
}

/// The parser with the words that its options take. Options that take no file are not completed with files.
fn hinting(parser: clap::Command) -> clap::Command {
    let hinted = |argument: clap::Arg| {
        let words: &[&str] = match argument.get_long() {
            Some("priority") => &["low", "normal", "high"],
            Some("class") => &["normal", "latency"],
            _ => &[],
        };
        let is_program = argument.is_trailing_var_arg_set();
        if !words.is_empty() {
            argument.value_parser(clap::builder::PossibleValuesParser::new(words))
        } else if argument.get_long().is_some()
            && argument.get_value_hint() == ValueHint::Unknown
            && argument.get_action().takes_values()
            && !is_program
        {
            argument.value_hint(ValueHint::Other)
        } else {
            argument
        }
    };
    parser.mut_args(hinted).mut_subcommands(hinting)
}

/// Offers tenants where a command takes one; the generated function does the rest.
const BASH: &str = r#"
_divvy_or_tenant() {
    local cur="${COMP_WORDS[COMP_CWORD]}"
    case "${COMP_WORDS[1]}" in
        set|freeze|thaw|trace)
            if [[ "${COMP_CWORD}" -eq 2 && "${cur}" != -* ]]; then
                compopt +o default +o bashdefault 2>/dev/null
                COMPREPLY=($(compgen -W "$(divvy list-tenants 2>/dev/null)" -- "${cur}"))
                return 0
            fi
            ;;
    esac
    _divvy "$@"
}
complete -F _divvy_or_tenant -o bashdefault -o default divvy
"#;
const FISH: &str = r#"complete -c divvy -n "__fish_seen_subcommand_from set freeze thaw trace" -f -a "(divvy list-tenants 2>/dev/null)"
"#;
const ZSH: &str = r#"(( $+functions[_divvy_tenants] )) ||
_divvy_tenants() {
    local -a names
    names=(${(f)"$(divvy list-tenants 2>/dev/null)"})
    compadd -a names
}

"#;
/// End of a generated script for zsh.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_divvy\" ]";

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
            assert!(!made.contains("inner"), "{shell:?} shows a hidden command: {made}");
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
