//! `divvy doctor`: what is found here, and what would not be limited.
//!
//! Reads files, asks NVML and daemons, and starts three clients: one asks the driver for addresses and touches no
//! GPU; one asks what devices are capable of; one makes a context on each idle card, whose cost is kept for `divvy run`. Nothing else is
//! changed. Each finding has a reason code, a level and, where something is wrong, a fix.

mod client;
mod context;
mod defaults;
mod driver;
mod environment;
mod finding;
mod hami;
mod limits;
mod oversubscribe;
mod preload;
mod probe;
mod program;
mod script;
mod system;

use std::ffi::OsString;

use anyhow::Result;

use defaults::Setting;
use driver::DriverParts;
use finding::{Finding, Level};
use oversubscribe::Oversubscription;

use crate::output::options::Meaning;
#[cfg(test)]
use crate::output::reason::Reason;
use crate::output::table::TextTable;
use crate::output::{exit_codes, json, out};

/// Say what Divvy finds on this machine, and what would not be limited.
///
/// Looks at the driver, the library that is preloaded, the entry points it hooks and those it would
/// not limit, the C library, the kernel, the container and the environment; how memory of programs that oversubscribe may leave
/// each device, and what the host has for it; and what files of defaults say. On a card that no other
/// process uses it makes a context for a moment, to find what one takes, and keeps the figure in
/// ~/.cache/divvy/contexts.json for `divvy run`. With a program after
/// `--` it also says whether that program would be limited. Each finding has a code that
/// docs/reason-codes.md explains. The exit code is 1 when something would not be limited or would not
/// work, else 0.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Say of each process that uses a GPU whether it runs under Divvy, HAMi-core, nvshare or nothing
    ///
    /// Nothing else is looked at then. The exit code is 1 where one does not run under Divvy, or may not be looked into.
    #[arg(long, conflicts_with = "program")]
    hami: bool,

    /// Programs to check, as they would be given to `divvy run`
    #[arg(last = true)]
    program: Vec<OsString>,
}

/// Output of `--json`.
#[derive(Debug, serde::Serialize)]
struct Report {
    version: &'static str,
    driver: DriverParts,
    findings: Vec<Finding>,
    /// Keys of files of defaults.
    defaults: Vec<Setting>,
    /// For programs that oversubscribe; absent where there is no driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    oversubscription: Option<Oversubscription>,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    if args.hami {
        return hami::run(args.json);
    }
    let mut findings = driver::look();
    findings.extend(probe::look());
    findings.extend(context::look());
    let (found, oversubscription) = oversubscribe::look();
    findings.extend(found);
    findings.extend(system::look());
    let variables = environment::variables(std::env::vars_os());
    let (preloaded, found) = preload::look(&variables);
    findings.extend(found);
    findings.extend(environment::look(&variables));
    findings.extend(limits::look(&variables));
    let (found, defaults) = defaults::look();
    findings.extend(found);
    findings.extend(program::look(&args.program, preloaded));
    let worst = findings.iter().map(|finding| finding.level).max();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        driver: driver::driver(),
        findings,
        defaults,
        oversubscription,
    };
    if args.json {
        json::print(&report)?;
    } else {
        out::text(&render(&report))?;
    }
    Ok(if worst == Some(Level::Bad) { exit_codes::NOT_AS_EXPECTED } else { 0 })
}

/// Verdict on a machine without a GPU.
const NOTHING: &str = "programs find nothing to use, and there is nothing to limit.\nThe simulated GPU is: divvy run --sim.";

fn render(report: &Report) -> String {
    let mut table = TextTable::new(&["CODE", "", "FOUND"]);
    for finding in &report.findings {
        let (level, meaning) = match finding.level {
            Level::Ok => ("ok", Meaning::Good),
            Level::Note => ("note", Meaning::Noted),
            Level::Bad => ("BAD", Meaning::Bad),
        };
        table.row([finding.code.to_string(), level.to_owned(), finding.found.clone()]);
        table.mark(1, meaning);
        if let Some(fix) = &finding.fix {
            table.row([String::new(), String::new(), format!("-> {fix}")]);
        }
    }
    let bad = report.findings.iter().filter(|finding| finding.level == Level::Bad).count();
    let way = match bad {
        0 if report.driver == DriverParts::Ready => {
            "Nothing stands in the way of the limits.\n".to_owned()
        }
        0 => String::new(),
        1 => "One thing stands in the way; docs/reason-codes.md explains its code.\n".to_owned(),
        _ => format!("{bad} things stand in the way; docs/reason-codes.md explains their codes.\n"),
    };
    let here = match report.driver {
        DriverParts::Ready => String::new(),
        DriverParts::NoGpu => format!("The driver's library is here and no GPU: {NOTHING}\n"),
        DriverParts::None => format!("There is no NVIDIA driver here: {NOTHING}\n"),
    };
    format!("{table}\n{way}{here}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_a_table() {
        let findings = vec![
            Finding::ok(Reason::Kernel, "Linux 6.1"),
            Finding::bad(Reason::DriverLibrary, "no libcuda.so.1", "install the driver"),
        ];
        let driver = DriverParts::Ready;
        let text = render(&Report {
            version: "0",
            driver,
            findings,
            defaults: Vec::new(),
            oversubscription: None,
        });
        assert_eq!(
            text,
            "\
CODE        FOUND
DV040  ok   Linux 6.1
DV002  BAD  no libcuda.so.1
            -> install the driver

One thing stands in the way; docs/reason-codes.md explains its code.
"
        );
    }

    #[test]
    fn without_a_driver_it_says_so() {
        let end = |driver| {
            let findings = vec![Finding::ok(Reason::Kernel, "Linux 6.1")];
            render(&Report {
                version: "0",
                driver,
                findings,
                defaults: Vec::new(),
                oversubscription: None,
            })
        };
        assert!(end(DriverParts::Ready).ends_with("\nNothing stands in the way of the limits.\n"));
        for (driver, words) in
            [(DriverParts::None, "There is no NVIDIA driver"), (DriverParts::NoGpu, "no GPU:")]
        {
            let text = end(driver);
            assert!(text.contains(words) && !text.contains("Nothing stands"), "{text}");
            assert!(text.contains("divvy run --sim"), "{text}");
        }
    }
}
