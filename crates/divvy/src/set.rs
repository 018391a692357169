//! `divvy set`: changes a tenant's limits while it runs.
//!
//! Works on the tenant's directory, with a daemon and without. Where this user may not write it, the
//! machine's daemon is asked, which changes only what belongs to whoever asks.

use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy_abi::config::Config;
use divvy_page::AttachError;
use divvy_policy::share;

use crate::daemon::client;
use crate::daemon::wire::Change;
use crate::failure::usage;
use crate::share_args::ShareArgs;
use crate::{change, discover, json, ledger, limits, plain};

/// Change a running tenant's limits.
///
/// The tenant's processes go by the new limits at their next request for memory and their next launch;
/// those that wait are woken. A limit replaces the one for the same devices; the others stay. Memory
/// that is held beyond a lowered limit stays held, and more is refused until it is below.
///
/// TENANT is a name as `divvy ps` shows it, or the tenant's directory where several have one name.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tenant: its name, or its directory
    tenant: String,

    /// Memory limit, as for `divvy run`; may be repeated
    #[arg(long, short, value_name = "SPEC", allow_hyphen_values = true)]
    memory: Vec<String>,

    #[command(flatten)]
    share: ShareArgs,

    /// Stop the tenant's submissions to the GPU until it is resumed; its memory stays
    #[arg(long, conflicts_with = "resume")]
    pause: bool,

    /// Let it go on
    #[arg(long)]
    resume: bool,

    /// Another directory of tenants, as for `divvy ps`; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Print the limits that hold now as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy set train --compute 50% --memory 12GiB
  divvy set train --priority high --class latency
  divvy set train --pause
  divvy set /dev/shm/divvy-1000/tenants/train-4711 --weight 2";

/// What `--json` prints.
#[derive(Debug, serde::Serialize)]
struct Report {
    tenant: String,
    directory: PathBuf,
    memory: Vec<String>,
    compute: Vec<String>,
    /// 0 is the default.
    weight: u32,
    priority: &'static str,
    class: &'static str,
    paused: bool,
    notes: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    let paused = (args.pause || args.resume).then_some(args.pause);
    let change = Change { memory: args.memory.clone(), paused, ..args.share.change() };
    let (tenant, directory) = find(&args.tenant, &args.root)?;
    let (config, notes) = apply(&directory, &change)?;
    let report = report(tenant, directory, &config, notes);
    if args.json {
        json::print(&report)?;
    } else {
        print!("{}", words(&report));
    }
    Ok(0)
}

/// Changes the tenant in `directory`, by the machine's daemon where it is not this user's to write: the
/// limits that hold now, and notes.
pub(crate) fn apply(directory: &Path, change: &Change) -> Result<(Config, Vec<String>)> {
    match change::make(directory, change) {
        Ok(made) => Ok((made.config, made.notes)),
        Err(error) if is_denied(&error) => {
            // Not ours to write; the machine's daemon may.
            let notes = client::set(directory, change).unwrap_or(Err(error))?;
            Ok((read(directory)?, notes))
        }
        Err(error) => Err(error),
    }
}

fn is_denied(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(AttachError::Open(_, errno) | AttachError::Directory(errno))
            if errno.0 == nix::errno::Errno::EACCES as i32
    )
}

fn read(directory: &Path) -> Result<Config> {
    let dir = crate::dir::Dir::open(directory)?.tenant()?;
    Ok(divvy_page::reader::read_config(&dir)?.unwrap_or_default())
}

/// The tenant that `name` names, and its directory.
///
/// # Errors
/// A usage error that names the choice, where it is none or several.
pub(crate) fn find(name: &str, roots: &[PathBuf]) -> Result<(String, PathBuf)> {
    let (mut known, _) = discover::tenants(roots);
    known.extend(client::of_others(&client::views(), &known));
    if name.contains('/') {
        let directory = PathBuf::from(name);
        if !directory.join("config").exists() {
            return Err(usage(format!(
                "{name:?} is no tenant's directory: it has no config; see `divvy ps --json`"
            )));
        }
        let tenant = ledger::read_foreign(&directory)?.name;
        return Ok((tenant, directory));
    }
    let named = known.into_iter().map(|directory| {
        let base = directory.file_name().is_some_and(|base| base == name);
        (
            ledger::read_foreign(&directory).map(|tenant| tenant.name).unwrap_or_default(),
            directory,
            base,
        )
    });
    let (mut found, others): (Vec<_>, Vec<_>) =
        named.partition(|(tenant, _, base)| *base || tenant == name);
    match (found.pop(), found.as_slice()) {
        (Some((tenant, directory, _)), []) => Ok((tenant, directory)),
        (None, _) => {
            let mut names: Vec<_> = others.into_iter().map(|(tenant, ..)| tenant).collect();
            names.retain(|tenant| !tenant.is_empty());
            names.dedup();
            let there = match names.as_slice() {
                [] => "there is none".to_owned(),
                names => format!("there is {}", names.join(", ")),
            };
            Err(usage(format!("no tenant is called {name:?}; {there}")))
        }
        (Some(last), rest) => {
            let all = rest.iter().chain([&last]).map(|(_, directory, _)| directory);
            let list: Vec<_> =
                all.map(|dir| format!("\n  {}", plain::line(&dir.display().to_string()))).collect();
            Err(usage(format!(
                "{} tenants are called {name:?}; name one by its directory:{}",
                list.len(),
                list.concat()
            )))
        }
    }
}

fn report(tenant: String, directory: PathBuf, config: &Config, notes: Vec<String>) -> Report {
    Report {
        tenant,
        directory,
        memory: config.rules().iter().map(limits::text).collect(),
        compute: config.compute_rules().iter().map(limits::text).collect(),
        weight: config.weight,
        priority: share::priority_word(config.priority),
        class: share::class_word(config.class),
        paused: config.paused != 0,
        notes,
    }
}

fn words(report: &Report) -> String {
    let list = |specs: &[String]| match specs {
        [] => "no limit".to_owned(),
        [all] if all == "0" => "no limit".to_owned(),
        specs => specs.join(", "),
    };
    let weight = match report.weight {
        0 => "default".to_owned(),
        weight => weight.to_string(),
    };
    let mut text = format!(
        "{}: memory {}; compute {}; weight {weight}; priority {}; class {}{}\n",
        plain::line(&report.tenant),
        list(&report.memory),
        list(&report.compute),
        report.priority,
        report.class,
        if report.paused { "; paused" } else { "" },
    );
    for note in &report.notes {
        text.push_str(&format!("note: {}\n", plain::line(note)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Base(PathBuf);

    impl Base {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("divvy-set-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn tenant(&self, directory: &str, name: &str, memory: &str) -> PathBuf {
            let path = self.0.join(directory);
            std::fs::create_dir_all(&path).unwrap();
            let rules = limits::rules(&[memory.to_owned()], &[]).unwrap();
            let config = limits::config(name, &rules, false, false);
            ledger::write_config(&path, &config).unwrap();
            path
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_name_names_one_tenant_or_the_choice() {
        let base = Base::new("find");
        let roots = [base.0.clone()];
        let one = base.tenant("one-1", "set-one", "8GiB");
        let two = base.tenant("two-2", "set-two", "8GiB");
        assert_eq!(find("set-one", &roots).unwrap().1, one);
        assert_eq!(find("two-2", &roots).unwrap().1, two);
        assert_eq!(find(one.to_str().unwrap(), &[]).unwrap().0, "set-one");
        let none = find("set-three", &roots).unwrap_err();
        assert_eq!(crate::failure::code_of(&none), 2);
        assert!(none.to_string().contains("set-one, set-two"), "{none}");
        let again = base.tenant("one-3", "set-one", "8GiB");
        let both = find("set-one", &roots).unwrap_err().to_string();
        assert!([&one, &again].iter().all(|d| both.contains(d.to_str().unwrap())), "{both}");
        assert!(find("/nonexistent", &roots).is_err());
    }

    #[test]
    fn a_change_stands_in_the_config_and_in_words() {
        let base = Base::new("change");
        let one = base.tenant("one-1", "train", "8GiB,1=50%");
        let change = Change {
            memory: vec!["12GiB".to_owned()],
            compute: vec!["50%".to_owned()],
            weight: Some("2".to_owned()),
            priority: Some("high".to_owned()),
            class: Some("latency".to_owned()),
            paused: Some(true),
        };
        let made = change::make(&one, &change).unwrap();
        assert_eq!((made.config.any_gate, read(&one).unwrap().paused), (1, 1));
        assert_eq!(
            words(&report("train".to_owned(), one.clone(), &made.config, made.notes)),
            "train: memory 1=50%, 12GiB; compute 50%; weight 2; priority high; class latency; paused\n"
        );
        let other = Change { weight: Some("3".to_owned()), ..Change::default() };
        let made = change::make(&one, &other).unwrap();
        assert!(made.notes[0].contains("--resume"), "{:?}", made.notes);
        assert_eq!((made.config.weight, made.config.compute_rules().len()), (3, 1));
        // 100 % and more is no cap, and is called that.
        let all = Change { compute: vec!["500%".to_owned()], ..Change::default() };
        let made = change::make(&one, &all).unwrap();
        let said = words(&report("train".to_owned(), one.clone(), &made.config, made.notes));
        assert!(said.contains("; compute no limit;"), "{said}");
        let bad = Change { memory: vec!["abc".to_owned()], ..other };
        assert_eq!(crate::failure::code_of(&change::make(&one, &bad).unwrap_err()), 2);
        assert_eq!(
            crate::failure::code_of(&change::make(&one, &Change::default()).unwrap_err()),
            2
        );
        assert_eq!(read(&one).unwrap().weight, 3);
    }
}
