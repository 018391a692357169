//! Rules for the command line of every program of ours, for tests.
//!
//! A file of its own since the benchmarks' program, another crate, is asked the same.

use clap::error::ErrorKind;
use clap::{Arg, Command, Parser};

fn shown(command: &Command) -> Vec<&Command> {
    command.get_subcommands().filter(|next| !next.is_hide_set()).collect()
}

/// Every argument of every command explains itself, and every command has `--json`; but for those called by
/// one of `elsewhere`, which another program answers.
pub(crate) fn explain_themselves<C: Parser>(elsewhere: &[&str]) {
    fn walk(command: &Command, path: &str, elsewhere: &[&str]) {
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{path} {} has no help", argument.get_id());
        }
        let inner = shown(command);
        if inner.is_empty() {
            let json = command.get_arguments().any(|a| a.get_long() == Some("json"));
            assert!(json || elsewhere.contains(&command.get_name()), "{path} has no --json");
            assert!(command.get_long_about().is_some(), "{path} has no long help");
        }
        for next in inner {
            walk(next, &format!("{path} {}", next.get_name()), elsewhere);
        }
    }
    let command = C::command();
    command.clone().debug_assert();
    walk(&command, command.get_name(), elsewhere);
}

/// Every command names an option that it does not know, and the one that was meant; how many options there are.
pub(crate) fn name_mistyped_options<C: Parser>() -> usize {
    fn walk<C: Parser>(command: &Command, path: &[&str], asked: &mut usize) {
        for option in command.get_arguments().filter_map(Arg::get_long) {
            // Its last letter twice. What follows makes the rest of the line right.
            let typed = format!("--{option}{}", &option[option.len() - 1..]);
            let line = path.iter().copied().chain([&*typed, "x", "--", "true"]);
            let error = match C::try_parse_from(line) {
                Err(error) => error,
                Ok(_) => panic!("{path:?} takes {typed}"),
            };
            let words = error.to_string();
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{words}");
            let is_told = [format!("'{typed}'"), format!("'--{option}'")];
            assert!(is_told.iter().all(|name| words.contains(name)), "{path:?}: {words}");
            *asked += 1;
        }
        for next in shown(command) {
            walk::<C>(next, &[path, &[next.get_name()]].concat(), asked);
        }
    }
    let mut asked = 0;
    let command = C::command();
    walk::<C>(&command, &[command.get_name()], &mut asked);
    asked
}
