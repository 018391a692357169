//! Pages of the documentation, followed: their commands are typed on a simulated machine and print what the page shows.
//!
//! Promises: every command of a `console` block of every page is run by a test here, or stands in [`left`] with the reason
//! why it is not. Examples of `docs/json.md` are compared in `json.rs`, tables by tests of the command.
//!
//! How outputs are compared says [`compare`]. Beyond that: a command below which a page shows nothing is run, and what it
//! prints is not compared; it must end with 0, unless the next one is `echo $?`; one that looks or changes limits is asked
//! again while others still begin; and `# in another` behind one leaves it running.

mod compare;
mod left;
mod page;
mod podman;
mod session;
mod slurm;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use compare::Numbers;
use left::LEFT;
use page::{Step, file_of, steps_of};
use session::{Done, Session};

use crate::harness::{PATIENCE, root, until};

/// A page whose commands are run, and what must be there before.
struct Page {
    path: &'static str,
    numbers: Numbers,
    devices: u32,
    /// Whether the simulated driver lies where the machine's own would.
    has_driver: bool,
    /// Typed before the page's own commands.
    before: &'static [&'static str],
}

/// A page that is complete in itself.
const fn alone(path: &'static str) -> Page {
    Page { path, numbers: Numbers::Volatile, devices: 1, has_driver: false, before: &[] }
}

/// A page that shows the figures of a card, on which programs run already.
const fn beside(path: &'static str, before: &'static [&'static str]) -> Page {
    Page { path, numbers: Numbers::Any, devices: 1, has_driver: true, before }
}

const PAGES: &[Page] = &[
    beside("README.md", &[]),
    beside("docs/guide/README.md", &[]),
    beside("docs/guide/check.md", &[]),
    beside(
        "docs/guide/daemon.md",
        &["divvy run -- python long.py &", "divvy run -- python long.py &"],
    ),
    beside("docs/guide/freeze.md", &[]),
    alone("docs/guide/kubernetes-convert.md"),
    beside(
        "docs/guide/tenants.md",
        &["divvy daemon &", "until divvy daemon --status; do sleep 0.1; done"],
    ),
    Page {
        devices: 2,
        ..beside("docs/guide/set.md", &["divvy run --name train -- python long.py &"])
    },
    Page {
        numbers: Numbers::Volatile,
        ..beside(
            "docs/guide/recipes.md",
            &["sed -i 's/10 90/6 10/' train.py", "sed 's/6 10/2 10/' train.py > tune.py"],
        )
    },
    beside(
        "docs/guide/trace.md",
        &[
            "divvy run --name train -- python long.py &",
            "divvy run --name other -- python long.py &",
        ],
    ),
    alone("docs/guide/tutorial.md"),
    beside("docs/guide/watch.md", &["divvy run --memory 8GiB --name train -- python train.py &"]),
];

/// Programs that pages speak of: all are the tutorial's, with these arguments.
const PROGRAMS: [(&str, &str); 3] =
    [("infer.py", "2 30"), ("train.py", "10 90"), ("long.py", "2 90")];

fn typed(command: &str) -> &str {
    command.split(" #").next().unwrap_or(command).trim()
}

fn is_left(path: &str, command: &str) -> bool {
    let begins = |begin: &&str| command.starts_with(*begin);
    LEFT.iter().any(|left| left.page == path && left.commands.iter().any(begins))
}

/// Whether it only looks, or changes what may be changed twice: what it is about may still be at its beginning.
fn may_be_repeated(command: &str) -> bool {
    let commands = [
        "ps",
        "top",
        "set",
        "daemon --st",
        "daemon --sch",
        "trace",
        "freeze",
        "thaw",
        "tenant s",
        "tenant list",
    ];
    commands.iter().any(|name| command.starts_with(&format!("divvy {name}")))
}

/// Runs the page's commands, and compares.
fn follow(path: &str) {
    let page = PAGES.iter().find(|page| page.path == path).expect("it is a page that is run");
    follow_as(page, str::to_owned);
}

/// Follows the tutorial with the command in the folder `bin`, and then has it show the demonstration.
pub(crate) fn follow_the_tutorial_by(bin: &Path) {
    let page = alone("docs/guide/tutorial.md");
    let mut session = Session::by(bin, page.devices, page.has_driver);
    let which = session.run("command -v divvy").printed.join("");
    assert_eq!(which.trim(), bin.join("divvy").display().to_string());
    go_through(&mut session, &page, str::to_owned);
    let demo = session.run("divvy demo --sim --seconds 8");
    // Shares are another test's.
    let is_shown = demo.printed.iter().any(|line| line.contains("greedy was refused"));
    assert!(is_shown && [0, 1].contains(&demo.code), "{}: {:#?}", demo.code, demo.printed);
}

/// The same with each command as `typed` has it.
fn follow_as(page: &Page, typed: impl Fn(&str) -> String) {
    go_through(&mut Session::new(page.devices, page.has_driver), page, typed);
}

fn go_through(session: &mut Session, page: &Page, typed: impl Fn(&str) -> String) {
    session.save("work.py", &file_of("docs/guide/tutorial.md", "work.py"));
    for (name, arguments) in PROGRAMS {
        let text = format!(
            "import runpy, sys\nsys.argv = 'work.py {arguments}'.split()\nrunpy.run_path('work.py')\n"
        );
        session.save(name, &text);
    }
    session.save("my_cuda_program", "#!/bin/sh\nexec python work.py 1 1\n");
    // It has done its work and rests.
    session.save(
        "serve",
        "#!/usr/bin/env python3\nimport runpy, sys, time\nsys.argv = 'work.py 1 0.1'.split()\n\
         sys.stdout = open('serve.log', 'w')\nrunpy.run_path('work.py')\ntime.sleep(90)\n",
    );
    for command in page.before {
        let background = command.replace(" &", " > /dev/null 2>&1 &");
        session.run(&background);
    }
    let steps = steps_of(page.path);
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::File(name, text) => session.save(name, text),
            Step::Command(command, _) if is_left(page.path, command) => {}
            Step::Command(command, shown) => {
                let next = steps.get(at + 1);
                let may_fail = matches!(next, Some(Step::Command(next, _)) if next == "echo $?");
                one(session, page, &typed(command), shown, may_fail);
            }
        }
    }
}

fn one(session: &mut Session, page: &Page, command: &str, shown: &[String], may_fail: bool) {
    if command.ends_with("# in one terminal") || command.ends_with("# in another") {
        session.run(&format!("{} > /dev/null 2>&1 &", typed(command)));
        let program = typed(command).rsplit(" -- ").next().unwrap_or_default();
        until(command, || session.run(&format!("divvy ps | grep -F '{program}'")).code == 0);
        return;
    }
    let is_shown = |done: &Done| {
        (done.code == 0 || may_fail)
            && (shown.iter().all(|line| line.trim().is_empty())
                || compare::is_shown(shown, &done.printed, page.numbers))
    };
    let give_up = Instant::now() + PATIENCE / 3;
    let mut seen = Vec::new();
    loop {
        let done = session.run(command);
        if is_shown(&done) {
            break;
        }
        // What is printed when all is over says little.
        if done.printed.len() >= seen.len() {
            seen = done.printed;
        }
        assert!(
            may_be_repeated(command) && Instant::now() < give_up,
            "{}: {command}\nended with {}, and printed\n{}\nwhere the page shows\n{}",
            page.path,
            done.code,
            seen.join("\n"),
            shown.join("\n")
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    if let Some(tenant) = started(command) {
        let holds = format!("divvy ps | grep -qE '^{tenant} +[0-9]+ .*blocks'");
        until(command, || session.run(&holds).code == 0);
    }
}

/// Name of the tenant that a command starts and leaves running: what comes next supposes that it is at work.
fn started(command: &str) -> Option<&str> {
    let (_, rest) =
        command.strip_suffix(" &")?.split_once("divvy run ")?.1.split_once("--name ")?;
    rest.split_whitespace().next()
}

/// Paths of all pages below the repository.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("documentation").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let below = path.strip_prefix(root()).unwrap_or(&path);
                found.push(below.display().to_string());
            }
        }
    }
    found
}

#[test]
fn every_command_is_run_or_is_on_the_list() {
    let mut unknown = Vec::new();
    let mut used = BTreeSet::new();
    for path in pages() {
        for step in steps_of(&path) {
            let Step::Command(command, _) = step else { continue };
            let mut is_known = PAGES.iter().any(|page| page.path == path);
            for (at, left) in LEFT.iter().enumerate() {
                for begin in left.commands {
                    if left.page == path && command.starts_with(begin) {
                        used.insert((at, *begin));
                        is_known = true;
                    }
                }
            }
            if !is_known {
                unknown.push(format!("{path}: {command}"));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "neither run (tests/e2e/documents.rs) nor left with a reason (left.rs): {unknown:#?}"
    );
    for (at, left) in LEFT.iter().enumerate() {
        for begin in left.commands {
            assert!(
                used.contains(&(at, *begin)),
                "{} has no command {begin}: {}",
                left.page,
                left.why
            );
        }
    }
    for page in PAGES {
        assert!(Path::new(root()).join(page.path).exists(), "{}", page.path);
    }
}

/// Tests that follow a page.
macro_rules! followed {
    ($($name:ident: $path:literal;)*) => {
        $(
            #[test]
            fn $name() {
                follow($path);
            }
        )*

        #[test]
        fn every_page_of_the_table_has_a_test() {
            let paths: Vec<&str> = PAGES.iter().map(|page| page.path).collect();
            assert_eq!(paths, [$($path),*]);
        }
    };
}

followed! {
    the_readme: "README.md";
    the_guide: "docs/guide/README.md";
    checking: "docs/guide/check.md";
    the_daemon: "docs/guide/daemon.md";
    taking_memory_off_the_card: "docs/guide/freeze.md";
    manifests_of_hamis: "docs/guide/kubernetes-convert.md";
    tenants_by_id: "docs/guide/tenants.md";
    changing_limits: "docs/guide/set.md";
    recipes: "docs/guide/recipes.md";
    following_turns: "docs/guide/trace.md";
    the_tutorial: "docs/guide/tutorial.md";
    watching: "docs/guide/watch.md";
}

#[test]
fn the_tutorial_holds_where_there_is_a_driver() {
    let page = beside("docs/guide/tutorial.md", &[]);
    follow_as(&page, |command| command.replace(" --sim", ""));
}
