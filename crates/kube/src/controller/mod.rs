//! Controller of a cluster: `divvy-kube controller`, which is optional. Without it pods that name a template which is not there
//! wait, and a pod of higher priority waits for a share as it does for anything else.
//!
//! [`templates`] makes templates for the two-line syntax, [`preempt`] makes room for pods of higher priority, [`lease`] says which
//! of several instances writes. Each part is for itself: one that cannot read what it needs leaves the other alone.
//!
//! Promises: one instance writes at a time; it begins with no API server there; SIGTERM ends it after the write that runs, and
//! gives the lease back.
//!
//! Does not watch claims. Does not place pods: the stock scheduler does.

mod args;
mod lease;
mod preempt;
mod templates;

use std::future::Future;

use tokio::sync::watch;

pub(crate) use self::args::ControllerArgs;
use self::lease::{Candidate, Leadership};
use self::preempt::PreemptTask;
use self::templates::TemplateTask;
use crate::cluster::{ClusterTimes, EventQueue, EventSender, connect, send_events};
use crate::ending::told_to_end;
use crate::event::EventLog;
use crate::failure::{ServeFailure, failed};

/// Runs the controller until it is told to end.
///
/// # Errors
/// [`ServeFailure`].
pub(crate) fn run(args: &ControllerArgs) -> Result<(), ServeFailure> {
    if args.no_templates && !args.preempt {
        let words = "--no-templates leaves nothing to do; give --preempt, or run no controller";
        return Err(ServeFailure::Usage(words.to_owned()));
    }
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    let runtime = runtime.map_err(failed("the runtime cannot be made"))?;
    let ended = runtime.block_on(serve(args));
    runtime.shutdown_background();
    ended
}

async fn serve(args: &ControllerArgs) -> Result<(), ServeFailure> {
    let client = connect().await.map_err(ServeFailure::Failed)?;
    let log = EventLog::stderr().as_json(args.json);
    let (candidate, leadership) =
        Candidate::new(client.clone(), &args.namespace, &args.pod_name, args.lease(), log.clone());
    let ending = told_to_end(&log, "ends after the write that runs")?;
    log.tell("started", &format!("controller {}, pid {}", args.pod_name, std::process::id()));
    work(args, client, candidate, leadership, &log, ending).await;
    log.tell("ended", "ended");
    Ok(())
}

async fn work(
    args: &ControllerArgs,
    client: kube::Client,
    mut candidate: Candidate,
    leadership: Leadership,
    log: &EventLog,
    ending: watch::Receiver<bool>,
) {
    let (events, queue) = EventQueue::new();
    let (problem, problems) = watch::channel(None);
    let (instance, times) = (args.pod_name.clone(), ClusterTimes::default());
    let sender = EventSender { instance, node: None, times };
    tokio::spawn(send_events(client.clone(), sender, queue, problem));
    tokio::spawn(tell_problems(problems, log.clone()));
    let templates = args.templates().map(|times| {
        let task = TemplateTask {
            client: client.clone(),
            leadership: leadership.clone(),
            events: events.clone(),
            log: log.clone(),
            times,
        };
        task.run(ending.clone())
    });
    let preempts = args.preempts().map(|options| {
        let task = PreemptTask::new(client, leadership, events, log.clone(), options);
        task.run(ending)
    });
    let parts = async { tokio::join!(optional(templates), optional(preempts)) };
    tokio::select! {
        () = candidate.run() => {}
        _ = parts => {}
    }
    candidate.release().await;
}

async fn optional(part: Option<impl Future<Output = ()>>) {
    if let Some(part) = part {
        part.await;
    }
}

/// Tells of events that could not be sent.
async fn tell_problems(mut problems: watch::Receiver<Option<String>>, log: EventLog) {
    let mut told = None;
    while problems.changed().await.is_ok() {
        let words = problems.borrow_and_update().clone();
        if words != told {
            if let Some(words) = &words {
                log.tell("event-refused", words);
            }
            told = words;
        }
    }
}
