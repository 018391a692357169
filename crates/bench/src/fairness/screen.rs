//! Cost of `divvy top` while it shows ten busy tenants once a second.
//!
//! Promises: it runs on a terminal of its own, of 120 by 40, whose output is read; its time on processors is to the
//! nanosecond. Looks at what the screen shows no further than that it shows something.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::pty::{Winsize, openpty};

use divvy_command::machine::install;

use super::hall::{Hall, Job, MS};
use crate::busy::{self, RunLength, Work};
use crate::daemon::{Usage, Watch};
use crate::report::{Figure, Goal};
use crate::running::Bench;

const TENANTS: usize = 10;
const NAME: &str = "top beside 10 busy tenants";
const KERNEL_NS: u64 = MS;
/// Percent of a processor, and MiB.
const MOST_CPU: f64 = 0.5;
const MOST_MEMORY: f64 = 12.0;
/// Its first frames find everything out.
const COME: Duration = Duration::from_secs(3);
/// Frames are few: fewer seconds would count those at the edges.
const LEAST_SECONDS: f64 = 20.0;

pub(super) fn job() -> Job {
    Job::new(NAME, 1, measure)
}

/// `divvy top` on a terminal; it ends when this is dropped.
struct Screen {
    child: Child,
    shown_bytes: Arc<AtomicUsize>,
}

impl Screen {
    fn start(bench: &Bench) -> Result<Self> {
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).context("no terminal can be made")?;
        let mut command = bench.stage.command(&install::program("divvy")?);
        command.args(["top", "--interval", "1", "--color", "always"]).env("TERM", "xterm-256color");
        command.stdin(Stdio::from(pty.slave.try_clone()?)).stderr(Stdio::null());
        let child =
            command.stdout(Stdio::from(pty.slave)).spawn().context("top cannot be started")?;
        let shown_bytes = Arc::new(AtomicUsize::new(0));
        let (mut output, shown) = (File::from(pty.master), Arc::clone(&shown_bytes));
        // It ends with top, the last that has the other side.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.fetch_add(count, Ordering::Relaxed);
            }
        });
        Ok(Self { child, shown_bytes })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(hall: &mut Hall<'_>) -> Result<()> {
    // Paced programs leave processors to the screen, where the card is simulated.
    let work = Work::new("paced", hall.kernel(KERNEL_NS)?);
    let mut cpu = Figure::new(format!("{NAME}, of a processor"), "%", Goal::AtMost(MOST_CPU));
    let mut memory = Figure::new(format!("{NAME}, resident"), "MiB", Goal::AtMost(MOST_MEMORY));
    for side in hall.ours() {
        hall.step(NAME, &side)?;
        let tenancies = hall.tenancies(&side, &vec![(hall.terms(), work.clone()); TENANTS])?;
        let programs: Vec<_> = tenancies.iter().map(|tenancy| (tenancy, work.clone())).collect();
        let screen = Screen::start(hall.bench)?;
        let mut watch = Watch::default();
        let seconds = hall.timing.seconds.max(LEAST_SECONDS);
        let length = RunLength { warm_up: COME, ..RunLength::seconds(seconds) };
        let look = |since| watch.look(Usage::of(screen.child.id())?, since);
        let ran = busy::run_with(hall.bench, &programs, length, look);
        let shown_bytes = screen.shown_bytes.load(Ordering::Relaxed);
        match ran.and_then(|_| {
            ensure!(shown_bytes > 1000, "top showed {shown_bytes} bytes");
            Ok(())
        }) {
            Ok(()) => {
                cpu.take(&side.name, watch.cpu_percent());
                memory.take(&side.name, watch.resident_mib());
            }
            Err(error) => cpu.take(&side.name, Err(error)),
        }
    }
    hall.keep(&[KERNEL_NS], [cpu, memory]);
    Ok(())
}
