//! `divvy`: run programs under limits of GPU memory and time, divide devices among them, watch them,
//! check the machine, measure the cost.
//!
//! Promises: every command has `--json` and a long help; an error names the value and the fix and
//! comes before anything has been started; exit codes are those of [`failure`]. Holds no `unsafe`
//! and loads no driver: what must speak to one runs as a client program of its own.

#![forbid(unsafe_code)]

mod audit;
mod bench;
mod cdi;
mod change;
mod child;
mod contexts;
mod daemon;
mod demo;
mod dir;
mod discover;
mod doctor;
mod elf;
mod failure;
mod gpus;
mod install;
mod json;
mod ledger;
mod limits;
mod metrics;
mod plain;
mod ps;
mod run;
mod set;
mod share_args;
mod signals;
mod sizes;
mod snapshot;
mod stage;
mod table;
mod tenant_dir;
mod top;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Share an NVIDIA GPU among unmodified programs, each under limits of memory and time.
#[derive(Debug, Parser)]
#[command(name = "divvy", version, long_about = None, after_long_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0    done, and everything was as it should be
  1    done, and something was not: a check failed, a measurement went wrong
  2    the command line or a limit cannot be understood; nothing was started
  125  Divvy itself failed before the program was started
  126  the program is there but cannot be executed
  127  the program was not found
  else (divvy run) the program's own code, or 128 + n when signal n ended it";

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
    #[command(name = child::START, hide = true)]
    Start(child::StartArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is the only way this fails; there is nobody left to tell.
            let _ = error.print();
            let code = if error.use_stderr() { failure::USAGE } else { 0 };
            return ExitCode::from(code);
        }
    };
    let done = match cli.command {
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
        Command::Start(args) => child::start(&args),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("divvy: {}", plain::lines(&format!("{error:#}")));
            ExitCode::from(failure::code_of(&error))
        }
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
            let inner: Vec<_> = command.get_subcommands().collect();
            if inner.is_empty() {
                let json = command.get_arguments().any(|a| a.get_long() == Some("json"));
                assert!(json, "{path} has no --json");
                assert!(command.get_long_about().is_some(), "{path} has no long help");
            }
            for next in inner.into_iter().filter(|next| !next.is_hide_set()) {
                walk(next, &format!("{path} {}", next.get_name()));
            }
        }
        let command = Cli::command();
        command.clone().debug_assert();
        walk(&command, "divvy");
    }
}
