//! The command line: which command, and how it ends; and `convert`, which reads files, writes what they became, and tells of it.
//!
//! Promises: all files are read and converted before anything is written; a file that is no YAML, or cannot be read, ends
//! it before that. What is told goes to standard error, one line each with file and line; `--json` prints the report alone.
//!
//! Does not convert.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, value_parser};
use divvy_policy::size::{self, Limit};
use serde::Serialize;

use crate::agent::{self, AgentAnswer, AgentArgs};
use crate::chart::{self, Chart};
use crate::claim::MOST_MIB;
use crate::controller::{self, ControllerArgs};
use crate::convert::{self, Converted, DocumentReport, Options, ResourceName};
use crate::document::Outcome;
use crate::event::escaped;
use crate::explain::{self, ExplainArgs};
use crate::failure::ServeFailure;
use crate::note::Level;
use crate::plugin::{self, PluginArgs};
use crate::yaml;

/// Exit codes, as `divvy` has them.
const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const FAILED: u8 = 125;
const CLOSED_PIPE: u8 = 141;

/// Divvy in Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "divvy-kube", version, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<AgentArgs>),
    Controller(ControllerArgs),
    Convert(ConvertArgs),
    Explain(ExplainArgs),
    Plugin(PluginArgs),
}

/// Convert HAMi's manifests to resource claims.
///
/// Reads Kubernetes objects in YAML or JSON, and writes them with ResourceClaimTemplates in the place of HAMi's resources and
/// annotations. A document that cannot be converted, or an item of a List, is left out and told of; the code is 1 then.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
struct ConvertArgs {
    /// Manifests, or a directory of them (.yaml, .yml, .json); `-`, or none, is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Memory of each card, which percentages are of, such as 80GiB
    #[arg(long, value_name = "SIZE")]
    card_memory: Option<String>,

    /// Memory in MiB of a container that says none: defaultMem of HAMi's scheduler; 0 is all of the card
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = value_parser!(u64).range(..=MOST_MIB))]
    default_memory: u64,

    /// Cores of a container that says none: defaultCores of HAMi's scheduler; 0 is none
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = value_parser!(u64).range(..=100))]
    default_cores: u64,

    /// A resource that HAMi's chart was given another name for, such as gpumem=example.com/vgpu-memory; repeatable
    #[arg(long, value_name = "KEY=NAME")]
    resource_name: Vec<ResourceName>,

    /// Values of HAMi's chart, or its scheduler's ConfigMap: names of resources, and defaults for what is left open
    #[arg(long, value_name = "FILE")]
    hami_config: Option<PathBuf>,

    /// End with 1 where there is any warning, too; all is written as without it
    #[arg(long)]
    strict: bool,

    /// Directory to write to, a file for each, by its name; it is made
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print what was found and what it became as JSON; manifests are written with --out alone
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy-kube convert pod.yaml > claims.yaml
  divvy-kube convert --card-memory 80GiB --out claims/ manifests/
  helm template chart/ | divvy-kube convert > claims.yaml
  kubectl get deployment web -o yaml | divvy-kube convert > web.yaml

Exit codes:
  0    every document is written
  1    some document, or item of a List, was refused; the others are written. With --strict also: there is a warning
  2    the command line, or a file, cannot be understood; nothing is written
  125  a file cannot be read or written
  141  whoever read standard output closed it";

/// An end of the command with words and a code.
#[derive(Debug)]
struct Ended {
    code: u8,
    words: String,
}

fn usage(words: impl Into<String>) -> Ended {
    Ended { code: USAGE, words: words.into() }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        let source = error.downcast_ref::<io::Error>();
        if source.is_some_and(|source| source.kind() == ErrorKind::BrokenPipe) {
            return Self { code: CLOSED_PIPE, words: String::new() };
        }
        Self { code: FAILED, words: format!("{error:#}") }
    }
}

/// The program.
pub fn main() -> ExitCode {
    let ended = match Cli::try_parse() {
        Ok(Cli { command: Command::Agent(args) }) => answered(agent::run(&args)),
        Ok(Cli { command: Command::Controller(args) }) => {
            answered(controller::run(&args).map(|()| AgentAnswer::default()))
        }
        Ok(Cli { command: Command::Plugin(args) }) => answered(plugin::run(&args)),
        Ok(Cli { command: Command::Convert(args) }) => run(&args),
        Ok(Cli { command: Command::Explain(args) }) => explain(&args),
        Err(error) if error.use_stderr() => {
            Err(Ended { code: USAGE, words: error.render().to_string() })
        }
        Err(help) => print(&help.render().to_string()).map(|()| 0).map_err(Ended::from),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(Ended { code, words }) => {
            if !words.is_empty() {
                let words = words.trim_end();
                tell(&if words.starts_with("error:") {
                    words.to_owned()
                } else {
                    format!("divvy-kube: {words}")
                });
            }
            ExitCode::from(code)
        }
    }
}

fn answered(answer: Result<AgentAnswer, ServeFailure>) -> Result<u8, Ended> {
    let answer = answer.map_err(|failure| match failure {
        ServeFailure::Usage(words) => usage(words),
        ServeFailure::Failed(words) => Ended { code: FAILED, words },
    })?;
    print(&answer.text)?;
    Ok(answer.code)
}

fn explain(args: &ExplainArgs) -> Result<u8, Ended> {
    let answer = explain::run(args)?;
    print(&answer.text)?;
    Ok(answer.code)
}

/// Writes to standard output.
#[expect(clippy::disallowed_methods, reason = "the one place that writes there")]
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(written?)
}

/// Writes a line to standard error, where that is possible.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A file that was read.
#[derive(Debug)]
struct Source {
    shown: String,
    path: Option<PathBuf>,
    bytes: Vec<u8>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    files: Vec<FileReport<'a>>,
    totals: OutcomeCounts,
}

#[derive(Debug, Serialize)]
struct FileReport<'a> {
    file: &'a str,
    written: Option<String>,
    documents: &'a [DocumentReport],
}

/// Numbers of documents.
#[derive(Debug, Default, Serialize)]
struct OutcomeCounts {
    passed: usize,
    unchanged: usize,
    converted: usize,
    refused: usize,
}

fn run(args: &ConvertArgs) -> Result<u8, Ended> {
    let said = |value: u64| (value > 0).then_some(value);
    let chart = args.hami_config.as_deref().map(chart).transpose()?.unwrap_or_default();
    let options = Options {
        card_bytes: card(args.card_memory.as_deref())?,
        default_memory_mib: said(args.default_memory).or(chart.default_memory_mib),
        default_cores: said(args.default_cores).or(chart.default_cores),
    };
    let names = [&args.resource_name[..], &chart.names[..]].concat();
    let sources = sources(&args.files)?;
    let places = args.out.as_deref().map(|folder| places(folder, &sources)).transpose()?;
    let mut results: Vec<Converted> = Vec::new();
    let mut faults = Vec::new();
    for source in &sources {
        match convert::renamed(&source.bytes, options, &names) {
            Ok(converted) => results.push(converted),
            Err(fault) => {
                faults.push(format!(
                    "{}: {}",
                    place(&source.shown, fault.line),
                    escaped(&fault.words)
                ));
            }
        }
    }
    if !faults.is_empty() {
        return Err(usage(faults.join("\ndivvy-kube: ")));
    }
    let mut totals = OutcomeCounts::default();
    for (source, result) in sources.iter().zip(&results) {
        result.documents.iter().for_each(|document| count(&mut totals, document.outcome));
        told(source, result);
    }
    match (&places, &args.out) {
        (Some(places), Some(folder)) => save(folder, places, &results)?,
        _ if args.json => {}
        _ => print(&joined(&results))?,
    }
    if args.json {
        report(&sources, &results, places.as_deref(), totals)?;
    }
    Ok(if is_as_wanted(&results, args.strict) { 0 } else { REFUSED })
}

/// Whether no document was refused and, where it `is_strict`, none has a warning.
fn is_as_wanted(results: &[Converted], is_strict: bool) -> bool {
    let mut documents = results.iter().flat_map(|result| &result.documents);
    documents.all(|document| {
        let is_warned = || document.notes.iter().any(|note| note.level == Level::Warning);
        document.outcome != Outcome::Refused && !(is_strict && is_warned())
    })
}

fn report(
    sources: &[Source],
    results: &[Converted],
    places: Option<&[PathBuf]>,
    totals: OutcomeCounts,
) -> Result<()> {
    let files = sources.iter().zip(results).enumerate().map(|(at, (source, result))| FileReport {
        file: &source.shown,
        written: places.and_then(|all| all.get(at)).map(|path| path.display().to_string()),
        documents: &result.documents,
    });
    let report = Report { schema: 1, files: files.collect(), totals };
    let text = serde_json::to_string_pretty(&report).context("the report cannot be made")?;
    print(&format!("{text}\n"))
}

fn card(size: Option<&str>) -> Result<Option<u64>, Ended> {
    let Some(size) = size else { return Ok(None) };
    match size::parse_written(size) {
        Ok(Limit::Bytes(bytes)) if bytes >> 20 > 0 => Ok(Some(bytes)),
        Ok(_) => Err(usage(format!("--card-memory {size}: write a card's memory, such as 80GiB"))),
        Err(error) => Err(usage(format!("--card-memory: {error}"))),
    }
}

fn chart(path: &Path) -> Result<Chart, Ended> {
    let shown = escaped(&path.display().to_string());
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(yaml::MOST_BYTES as u64 + 1).read_to_end(&mut bytes));
    read.with_context(|| format!("{shown} cannot be read"))?;
    chart::read(&bytes).map_err(|fault| {
        usage(format!("--hami-config: {}: {}", place(&shown, fault.line), escaped(&fault.words)))
    })
}

fn sources(files: &[PathBuf]) -> Result<Vec<Source>, Ended> {
    let standard = [PathBuf::from("-")];
    let files = if files.is_empty() { &standard[..] } else { files };
    let files: Vec<PathBuf> =
        files.iter().map(|path| within(path)).collect::<Result<Vec<_>, _>>()?.concat();
    if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(usage("standard input (-) can be read once; name it once"));
    }
    let read = |path: &PathBuf| -> Result<Source> {
        // A byte beyond what is taken, by which that is told.
        let most = yaml::MOST_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        if path.as_os_str() == "-" {
            let read = io::stdin().lock().take(most).read_to_end(&mut bytes);
            read.context("standard input cannot be read")?;
            return Ok(Source { shown: "-".to_owned(), path: None, bytes });
        }
        let shown = escaped(&path.display().to_string());
        let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.with_context(|| format!("{shown} cannot be read"))?;
        Ok(Source { shown, path: Some(path.clone()), bytes })
    };
    Ok(files.iter().map(read).collect::<Result<_>>()?)
}

/// The manifests of a directory in the order of their names, without those of directories in it; any other path is itself.
fn within(path: &Path) -> Result<Vec<PathBuf>, Ended> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let shown = escaped(&path.display().to_string());
    let cannot = || format!("{shown} cannot be read");
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(cannot)? {
        let file = entry.with_context(cannot)?.path();
        let ending = file.extension().and_then(OsStr::to_str);
        if ending.is_some_and(|it| ["yaml", "yml", "json"].contains(&it)) && file.is_file() {
            found.push(file);
        }
    }
    if found.is_empty() {
        return Err(usage(format!("{shown} has no .yaml, .yml or .json; name the manifests")));
    }
    found.sort();
    Ok(found)
}

/// Names of what is written, each of which must be another, and none an input.
fn places(folder: &Path, sources: &[Source]) -> Result<Vec<PathBuf>, Ended> {
    let mut places: Vec<PathBuf> = Vec::new();
    for source in sources {
        let name = source.path.as_deref().and_then(Path::file_name);
        let place = folder.join(name.unwrap_or("stdin.yaml".as_ref()));
        if places.contains(&place) {
            let words =
                format!("two files would be {}; convert them by themselves", place.display());
            return Err(usage(words));
        }
        let same = |path: &PathBuf| {
            place.canonicalize().is_ok_and(|it| path.canonicalize().is_ok_and(|other| it == other))
        };
        if sources.iter().filter_map(|it| it.path.as_ref()).any(same) {
            let words = format!("{} is one of the inputs; name another directory", place.display());
            return Err(usage(words));
        }
        places.push(place);
    }
    Ok(places)
}

fn save(folder: &Path, places: &[PathBuf], results: &[Converted]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for (place, result) in places.iter().zip(results) {
        // No name that somebody else may have.
        let mut name = OsString::from(format!(".{}.", std::process::id()));
        name.push(place.file_name().unwrap_or_default());
        let aside = place.with_file_name(name);
        let cannot = || format!("{} cannot be written", place.display());
        fs::write(&aside, &result.text).with_context(cannot)?;
        fs::rename(&aside, place).with_context(cannot)?;
    }
    Ok(())
}

/// All texts as one stream; an equal template of two files is applied twice, which changes nothing.
fn joined(results: &[Converted]) -> String {
    let texts = results.iter().map(|result| &*result.text).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("---\n")
}

fn count(totals: &mut OutcomeCounts, outcome: Outcome) {
    *match outcome {
        Outcome::Passed => &mut totals.passed,
        Outcome::Unchanged => &mut totals.unchanged,
        Outcome::Converted => &mut totals.converted,
        Outcome::Refused => &mut totals.refused,
    } += 1;
}

fn place(file: &str, line: usize) -> String {
    if line == 0 { file.to_owned() } else { format!("{file}:{line}") }
}

/// Tells of warnings and refusals.
fn told(source: &Source, result: &Converted) {
    for document in &result.documents {
        for note in document.notes.iter().filter(|note| note.level != Level::Info) {
            let level = if note.level == Level::Refused { "refused" } else { "warning" };
            let container =
                note.container.as_ref().map_or(String::new(), |it| format!(", container {it}"));
            tell(&format!(
                "divvy-kube: {}: {}{}: {level}: {} [{}]",
                place(&source.shown, note.line),
                escaped(&document.place()),
                escaped(&container),
                escaped(&note.message),
                note.code
            ));
        }
    }
}
