//! Probes of readiness and of life: the agent that runs is asked, on the socket that the kubelet calls; or the device plugin, on
//! one of its own.
//!
//! No file says so, for one outlives an agent that was killed; nor a port, which others could reach.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use tonic::transport::Endpoint;

use crate::kubelet::wire::agent::agent_client::AgentClient;
use crate::kubelet::wire::agent::{StateRequest, StateResponse};

/// Time for the answer. A probe has a second or more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Questions to the program that runs; with one, this process asks and ends.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// Ask the one that runs whether it is ready, and end: a readiness probe. The code is 1 where it is not
    #[arg(long, group = "probe")]
    ready: bool,

    /// Ask the one that runs whether it answers at all, and end: a liveness probe. The code is 1 where none does
    #[arg(long, group = "probe", conflicts_with = "ready")]
    alive: bool,

    /// Print the answer of --ready or --alive as JSON; else print events as JSON, one object a line (`divvy log --file -`)
    // Manifests have it, so that arguments added to theirs may have it again.
    #[arg(long, overrides_with = "json")]
    pub(crate) json: bool,
}

/// Text to print, and the exit code.
#[derive(Debug, Default)]
pub(crate) struct AgentAnswer {
    pub(crate) text: String,
    pub(crate) code: u8,
}

#[derive(Debug, Serialize)]
struct ReadyReport {
    schema: u32,
    ready: bool,
    /// Why there is no answer.
    error: Option<String>,
    pid: Option<u32>,
    conditions: Vec<ReadyCondition>,
}

#[derive(Debug, Serialize)]
struct ReadyCondition {
    name: String,
    met: bool,
    message: String,
}

/// Asks who is called so, on the socket `service`; nothing where no probe was named.
pub(crate) async fn ask(who: &str, service: &Path, args: &ProbeArgs) -> Option<AgentAnswer> {
    if !args.ready && !args.alive {
        return None;
    }
    let answer = match timeout(PATIENCE, state(service)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    };
    let report = match answer {
        Ok(StateResponse { pid, conditions }) => ReadyReport {
            schema: 1,
            ready: !conditions.is_empty() && conditions.iter().all(|condition| condition.met),
            error: None,
            pid: Some(pid),
            conditions: conditions
                .into_iter()
                .map(|it| ReadyCondition { name: it.name, met: it.met, message: it.message })
                .collect(),
        },
        Err(why) => ReadyReport {
            schema: 1,
            ready: false,
            error: Some(format!("no {who} answers on {}: {why}", service.display())),
            pid: None,
            conditions: Vec::new(),
        },
    };
    let text = if args.json {
        serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
    } else {
        text(&report)
    };
    // A start anew gains nothing for one that waits for an API server or a daemon.
    let holds = if args.alive { report.error.is_none() } else { report.ready };
    Some(AgentAnswer { text, code: u8::from(!holds) })
}

fn text(report: &ReadyReport) -> String {
    let mut text = format!("{}\n", if report.ready { "ready" } else { "not ready" });
    if let Some(error) = &report.error {
        text += &format!("  {error}\n");
    }
    for ReadyCondition { name, met, message } in &report.conditions {
        text += &format!("  {name}: {}, {message}\n", if *met { "yes" } else { "no" });
    }
    text
}

async fn state(service: &Path) -> Result<StateResponse, String> {
    // The reason is at the end of the chain.
    let words = |error: &dyn std::error::Error| {
        let mut error = error;
        while let Some(source) = error.source() {
            error = source;
        }
        error.to_string()
    };
    let endpoint = Endpoint::from_shared(format!("unix:{}", service.display()));
    let channel = endpoint.map_err(|error| words(&error))?.connect().await;
    let mut client = AgentClient::new(channel.map_err(|error| words(&error))?);
    let response = client.state(StateRequest {}).await;
    response.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
}
