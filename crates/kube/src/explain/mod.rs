//! Why a pod waits: `divvy-kube explain`, which reads what the scheduler reads, and says what is in the way.
//!
//! [`look`] reads, [`judge`] finds, [`page`] writes it down. Promises: nothing is written to the cluster; what could not be read
//! is said, and nothing is concluded from it.
//!
//! Does not evaluate selectors, taints or affinity: where cards have room and the pod waits, the scheduler's own words are
//! shown.

mod args;
mod books;
mod finding;
mod judge;
mod look;
mod page;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use serde::Serialize;

pub(crate) use self::args::ExplainArgs;
use self::finding::Explanation;
#[cfg(test)]
pub(crate) use self::finding::FindingKind;
use self::look::PodScene;

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// Text for standard output, and the exit code.
#[derive(Debug)]
pub(crate) struct ExplainAnswer {
    pub(crate) text: String,
    pub(crate) code: u8,
}

#[derive(Serialize)]
struct Printed<'a> {
    schema: u32,
    #[serde(flatten)]
    found: &'a Explanation,
}

/// Reads and judges.
///
/// # Errors
/// An API server that does not answer, and a pod that is not there.
pub(crate) fn run(args: &ExplainArgs) -> Result<ExplainAnswer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the runtime cannot be made")?;
    let scene = runtime.block_on(look::look(args))?;
    answer(&scene, args.json)
}

fn answer(scene: &PodScene, json: bool) -> Result<ExplainAnswer> {
    let found = judge::judge(scene);
    let text = if json {
        let printed = Printed { schema: SCHEMA, found: &found };
        serde_json::to_string_pretty(&printed).context("the answer cannot be written as JSON")?
            + "\n"
    } else {
        page::page(&found)
    };
    Ok(ExplainAnswer { text, code: found.waits.into() })
}
