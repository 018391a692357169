//! `divvy`: run programs under limits of GPU memory and time, divide devices among them, watch them,
//! check the machine, measure the cost.
//!
//! Promises: every command has `--json` and a long help; an error names the value and the fix and
//! comes before anything has been started; exit codes are those of [`exit_codes`]; standard output is
//! written by [`out`] alone. Holds no `unsafe`. Of the driver's libraries it loads NVML only, in
//! processes of its own ([`daemon`]) or beside a program that uses the GPU ([`commands::audit`],
//! [`machine::contexts`], [`doctor`]); what must make a context runs as a client program.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod daemon;
#[cfg(test)]
mod golden;
mod machine;
mod metrics;
mod output;
mod signals;
mod tenants;
#[allow(unreachable_pub, reason = "fuzzed as a crate of its own")]
mod wire;

use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

use commands::{bench, cdi, child, demo, doctor, ps, run, set, top, trace, upgrade};
use machine::cards;
use output::{exit_codes, failure, out};

/// Share an NVIDIA GPU among unmodified programs, each under limits of memory and time.
#[derive(Debug, Parser)]
#[command(name = "divvy", version, long_about = None, after_long_help = exit_codes::help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// What each does stands at its `Args`.
#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Ps(ps::Args),
    Top(top::Args),
    Set(set::Args),
    Trace(trace::Args),
    Daemon(daemon::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Cdi(cdi::Args),
    Install(upgrade::Args),
    #[command(name = child::START, hide = true)]
    Start(child::StartArgs),
    #[command(name = cards::LIST, hide = true)]
    ListDevices(cards::ListArgs),
}

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) => explain(&suggesting_known(error)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let is_quiet = error.downcast_ref::<out::Lost>().is_some_and(out::Lost::is_quiet);
            if !is_quiet {
                out::warn(&format!("{error:#}"));
            }
            ExitCode::from(failure::code_of(&error))
        }
    }
}

/// Leaves commands that are ours alone out of what is suggested for one that there is not.
fn suggesting_known(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::SuggestedSubcommand;
    let suggested = match error.remove(kind) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => return error,
    };
    let is_known = |name: &String| ![child::START, cards::LIST].contains(&name.as_str());
    let known: Vec<_> = suggested.into_iter().filter(is_known).collect();
    if !known.is_empty() {
        error.insert(kind, ContextValue::Strings(known));
    }
    error
}

/// Prints what clap has to say: help and versions on standard output, errors on standard error.
fn explain(error: &clap::Error) -> Result<u8> {
    let printed = error.print();
    if error.use_stderr() {
        return Ok(exit_codes::USAGE);
    }
    out::checked(printed)?;
    // Some of it may still be in the buffer.
    out::text("")?;
    Ok(0)
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Cdi(args) => cdi::run(&args),
        Command::Install(args) => upgrade::run(&args),
        Command::Start(args) => child::start(&args),
        Command::ListDevices(args) => cards::answer(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every argument of every command explains itself.
    #[test]
    fn every_argument_has_help_and_every_command_json() {
        fn walk(command: &clap::Command, path: &str) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path} {} has no help", argument.get_id());
            }
            let inner: Vec<_> =
                command.get_subcommands().filter(|next| !next.is_hide_set()).collect();
            if inner.is_empty() {
                let json = command.get_arguments().any(|a| a.get_long() == Some("json"));
                assert!(json, "{path} has no --json");
                assert!(command.get_long_about().is_some(), "{path} has no long help");
            }
            for next in inner {
                walk(next, &format!("{path} {}", next.get_name()));
            }
        }
        let command = Cli::command();
        command.clone().debug_assert();
        walk(&command, "divvy");
    }

    #[test]
    fn a_mistyped_command_is_answered_with_those_there_are() {
        let said = |command: &str| {
            let error = Cli::try_parse_from(["divvy", command]).expect_err("there is none");
            suggesting_known(error).render().to_string()
        };
        assert!(said("st").contains("'install'"), "{}", said("st"));
        assert!(said("ru").contains("'run'"), "{}", said("ru"));
        for command in ["st", "lst", "list-device", "start-in-tenan"] {
            let said = said(command);
            assert!(said.contains(&format!("unrecognized subcommand '{command}'")), "{said}");
            assert!(!said.contains("list-devices") && !said.contains("start-in-tenant"), "{said}");
        }
    }

    /// Every command names an option that it does not know, and the one that was meant.
    #[test]
    fn a_mistyped_option_is_named_with_the_one_that_was_meant() {
        fn walk(command: &clap::Command, path: &[&str], asked: &mut usize) {
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                // Its last letter twice. What follows makes the rest of the line right.
                let typed = format!("--{option}{}", &option[option.len() - 1..]);
                let line = path.iter().copied().chain([&*typed, "x", "--", "true"]);
                let error = Cli::try_parse_from(line).unwrap_err();
                let words = error.to_string();
                assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{words}");
                let is_told = [format!("'{typed}'"), format!("'--{option}'")];
                assert!(is_told.iter().all(|name| words.contains(name)), "{path:?}: {words}");
                *asked += 1;
            }
            for next in command.get_subcommands().filter(|next| !next.is_hide_set()) {
                walk(next, &[path, &[next.get_name()]].concat(), asked);
            }
        }
        let mut asked = 0;
        walk(&Cli::command(), &["divvy"], &mut asked);
        assert!(asked > 50, "{asked}");
        let error = Cli::try_parse_from(["divvy", "ruun", "--", "true"]).unwrap_err();
        assert!(error.to_string().contains("'run'"), "{error}");
    }

    #[test]
    fn options_after_the_program_are_its_own() {
        for line in [
            &["run", "--strict", "prog", "--memory", "x", "--", "-n"][..],
            &["run", "--strict", "--", "prog", "--memory", "x", "--", "-n"],
        ] {
            let cli = Cli::try_parse_from([&["divvy"], line].concat()).unwrap();
            let Command::Run(args) = cli.command else { panic!("{line:?}") };
            assert_eq!(args.program(), ["prog", "--memory", "x", "--", "-n"], "{line:?}");
        }
    }
}
