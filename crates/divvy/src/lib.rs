//! `divvy`: run programs under limits of GPU memory and time, divide devices among them, watch them,
//! check the machine.
//!
//! The program is [`main`]; the rest that is public is what the benchmarks' program, `divvy-bench`, makes its
//! tenants with and tells its user by.
//!
//! Promises: every command has `--json` and a long help; an error names the value and the fix and
//! comes before anything has been started; exit codes are those of [`output::exit_codes`]; standard output is
//! written by [`output::out`] alone. Holds no `unsafe`. Of the driver's libraries it loads NVML only, in
//! processes of its own ([`daemon`]) or beside a program that uses the GPU ([`commands::audit`],
//! [`machine::contexts`], [`doctor`]); what must make a context runs as a client program.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![allow(rustdoc::private_intra_doc_links, reason = "read with its source: little of it is public")]

#[cfg(test)]
mod command_lines;
mod commands;
mod daemon;
mod defaults;
#[cfg(test)]
mod golden;
pub mod log;
pub mod machine;
mod metrics;
pub mod output;
mod pause;
mod signals;
pub mod stage;
pub mod tenants;
pub mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};

use commands::{
    bench, cdi, child, completions, demo, doctor, freeze, kube, log as show_log, ps, run, set,
    tenant, top, trace, uninstall, upgrade,
};
use machine::{card_facts, cards};
use output::options::OutputOptions;
use output::{ending, exit_codes};

/// Share an NVIDIA GPU among unmodified programs, each under limits of memory and time.
#[derive(Debug, Parser)]
#[command(name = "divvy", version, long_about = None, after_long_help = exit_codes::help())]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    output: OutputOptions,
}

// Each command is described at its `Args`.
#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Ps(ps::Args),
    Top(top::Args),
    Set(set::Args),
    Tenant(tenant::TenantArgs),
    Freeze(freeze::FreezeArgs),
    Thaw(freeze::ThawArgs),
    Log(show_log::Args),
    Trace(trace::Args),
    Daemon(daemon::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Cdi(cdi::Args),
    Kube(kube::Args),
    Install(upgrade::Args),
    Uninstall(uninstall::Args),
    Completions(completions::Args),
    #[command(name = completions::MAN_PAGES, hide = true)]
    ManPages(completions::ManArgs),
    #[command(name = completions::TENANTS, hide = true)]
    ListTenants(completions::TenantsArgs),
    #[command(name = child::START, hide = true)]
    Start(child::StartArgs),
    #[command(name = cards::LIST, hide = true)]
    ListDevices(cards::ListArgs),
}

/// The program: reads its command line, does what that says, and tells of what went wrong.
pub fn main() -> ExitCode {
    signals::with_room(command)
}

fn command() -> ExitCode {
    let line = asking_in_place(std::env::args_os().collect());
    let read = Cli::try_parse_from(&line);
    let output = match &read {
        Ok(cli) => cli.output,
        Err(_) => OutputOptions::of_line(&line),
    };
    output.settle();
    ending::exit_code(match read {
        Ok(cli) => dispatch(cli.command, output),
        Err(error) => ending::explain(&suggesting_known(error)),
    })
}

/// Makes `divvy help bench share` the same as `divvy bench share --help`: clap knows no command below `bench` and `kube`,
/// their programs do.
fn asking_in_place(mut line: Vec<OsString>) -> Vec<OsString> {
    if matches!(&*line, [_, help, of, _, ..] if help == "help" && (of == "bench" || of == "kube")) {
        line.remove(1);
        line.push("--help".into());
    }
    line
}

/// Commands that only Divvy itself uses.
const HIDDEN: [&str; 4] = [child::START, cards::LIST, completions::MAN_PAGES, completions::TENANTS];

/// Leaves commands that are ours alone out of what is suggested for one that there is not.
fn suggesting_known(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::SuggestedSubcommand;
    let suggested = match error.remove(kind) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => return error,
    };
    let is_known = |name: &String| !HIDDEN.contains(&name.as_str());
    let known: Vec<_> = suggested.into_iter().filter(is_known).collect();
    if !known.is_empty() {
        error.insert(kind, ContextValue::Strings(known));
    }
    error
}

fn dispatch(command: Command, output: OutputOptions) -> Result<u8> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Tenant(args) => tenant::run(&args),
        Command::Freeze(args) => freeze::freeze(&args),
        Command::Thaw(args) => freeze::thaw(&args),
        Command::Log(args) => show_log::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args, output),
        Command::Cdi(args) => cdi::run(&args),
        Command::Kube(args) => kube::run(&args),
        Command::Install(args) => upgrade::run(&args, Cli::command()),
        Command::Uninstall(args) => uninstall::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::ManPages(args) => completions::man_pages(&args, Cli::command()),
        Command::ListTenants(args) => completions::tenants(&args),
        Command::Start(args) => child::start(&args),
        Command::ListDevices(args) if args.facts => card_facts::answer(&args),
        Command::ListDevices(args) => cards::answer(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn every_argument_has_help_and_every_command_json() {
        command_lines::explain_themselves::<Cli>(&["bench", "kube"]);
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

    #[test]
    fn a_mistyped_option_is_named_with_the_one_that_was_meant() {
        let asked = command_lines::name_mistyped_options::<Cli>();
        assert!(asked > 50, "{asked}");
        let error = Cli::try_parse_from(["divvy", "ruun", "--", "true"]).unwrap_err();
        assert!(error.to_string().contains("'run'"), "{error}");
    }

    #[test]
    fn what_follows_bench_is_its_programs() {
        for line in
            [&["share", "--cells", "x", "--help"][..], &["--help"], &["-h", "--", "-x"], &[]]
        {
            let cli = Cli::try_parse_from([&["divvy", "bench"], line].concat()).unwrap();
            let Command::Bench(args) = cli.command else { panic!("{line:?}") };
            assert_eq!(args.arguments, line, "{line:?}");
        }
    }

    #[test]
    fn help_for_a_benchmark_is_that_benchmarks() {
        let parsed = |line: &[&str]| {
            Cli::try_parse_from(asking_in_place(line.iter().map(OsString::from).collect()))
        };
        for line in [&["divvy", "help", "bench", "share"], &["divvy", "bench", "share", "--help"]] {
            let Command::Bench(args) = parsed(line).unwrap().command else { panic!("{line:?}") };
            assert_eq!(args.arguments, ["share", "--help"], "{line:?}");
        }
        let Command::Kube(args) = parsed(&["divvy", "help", "kube", "convert"]).unwrap().command
        else {
            panic!("not kube")
        };
        assert_eq!(args.arguments, ["convert", "--help"]);
        // Of itself the command knows what it is for, and others have nothing below them.
        let kind = |line| parsed(line).unwrap_err().kind();
        assert_eq!(kind(&["divvy", "help", "bench"]), ErrorKind::DisplayHelp);
        assert_eq!(kind(&["divvy", "help", "set", "share"]), ErrorKind::InvalidSubcommand);
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
