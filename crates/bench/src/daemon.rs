//! A `divvy daemon` of the benchmark's own, and what it costs.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use divvy_command::machine::install;
use divvy_command::stage::ClientStage;
use divvy_command::tenants::tenant_dir;

/// A daemon that runs; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
}

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Time of all its threads on processors, to the nanosecond.
    pub(super) own: Duration,
    /// That of its children that have ended, in steps of 10 ms.
    pub(super) children: Duration,
    /// Memory that is resident.
    pub(super) resident_bytes: u64,
}

impl Daemon {
    /// Starts one and waits until it answers.
    pub(super) fn start(stage: &ClientStage) -> Result<Self> {
        Self::start_with(stage, &[])
    }

    /// The same for which a card has no more than `capacity_bytes`.
    pub(super) fn start_smaller(stage: &ClientStage, capacity_bytes: u64) -> Result<Self> {
        Self::start_with(stage, &["--capacity", &format!("{}MiB", capacity_bytes >> 20)])
    }

    /// The same, whose tenants may have so much managed memory together, wherever it is.
    pub(super) fn start_for_managed(
        stage: &ClientStage,
        capacity_bytes: Option<u64>,
        managed_bytes: u64,
    ) -> Result<Self> {
        let mib = |bytes: u64| format!("{}MiB", bytes.div_ceil(1 << 20));
        let mut options = vec!["--managed-limit".to_owned(), mib(managed_bytes)];
        if let Some(bytes) = capacity_bytes {
            options.extend(["--capacity".to_owned(), mib(bytes)]);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Self::start_with(stage, &options)
    }

    fn start_with(stage: &ClientStage, options: &[&str]) -> Result<Self> {
        let home = stage.scratch().join("daemon");
        let binary = install::program("divvy")?;
        let command = |more: &[&str]| {
            let mut command: Command = stage.command(&binary);
            command.args(["daemon", "--home"]).arg(&home).args(more);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let mut serve = command(options);
        serve.args(tenants().iter().flat_map(|root| ["--root".as_ref(), root.as_os_str()]));
        let mut child = serve.spawn().context("the daemon cannot be started")?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                bail!("the daemon ended with {status}");
            }
            if command(&["--status"]).stderr(Stdio::null()).status()?.success() {
                return Ok(Self { child });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        bail!("the daemon did not answer within 5 s")
    }

    /// Its usage up to now.
    pub(super) fn usage(&self) -> Result<Usage> {
        Usage::of(self.child.id())
    }
}

impl Usage {
    /// That of a process up to now.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            std::fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))
        };
        let id = Pid::from_raw(i32::try_from(pid).context("a pid of another kind")?);
        // Ticks of 10 ms would be half a percent of a run by themselves.
        let own = clock_getcpuclockid(id).and_then(|clock| clock.now()).context("no clock")?;
        usage(own.into(), &read("stat")?, &read("statm")?)
            .context("/proc says something else than expected")
    }
}

/// Usage of a process while something runs.
#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: Option<[(Duration, Usage); 2]>,
}

impl Watch {
    /// Usage `since` the run began.
    pub(super) fn look(&mut self, usage: Usage, since: Duration) -> Result<()> {
        let now = (since, usage);
        self.seen = Some([self.seen.map_or(now, |[first, _]| first), now]);
        Ok(())
    }

    /// Time on processors between the first look and the last, its children's included, in percent of
    /// one.
    pub(super) fn cpu_percent(&self) -> Result<f64> {
        let [(from, before), (until, after)] = self.seen.context("nothing ran")?;
        let wall = until.saturating_sub(from).as_secs_f64();
        let own = after.own.saturating_sub(before.own);
        let all = own + after.children.saturating_sub(before.children);
        Ok(all.as_secs_f64() / wall.max(0.01) * 100.0)
    }

    /// Processor time of its children at the last look.
    pub(super) fn children(&self) -> Result<Duration> {
        let [_, (_, after)] = self.seen.context("nothing ran")?;
        Ok(after.children)
    }

    /// Memory at the last look.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        let [_, (_, after)] = self.seen.context("nothing ran")?;
        Ok(after.resident_bytes as f64 / 1048576.0)
    }
}

/// Where the benchmark's tenants are, or will be: on a machine that never had one, the first makes the
/// directory. Tenants elsewhere are not the benchmark's.
fn tenants() -> Option<PathBuf> {
    let roots = tenant_dir::roots(tenant_dir::uid());
    roots.into_iter().next().map(|root| root.join("tenants"))
}

/// `own`, and the rest out of `/proc/PID/stat` and `/proc/PID/statm`. Linux counts a hundred ticks a
/// second, whatever its timer, and in pages of 4 KiB on the machines this runs on.
fn usage(own: Duration, stat: &str, statm: &str) -> Option<Usage> {
    // The program's name may hold anything, and ends at the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    // Of user and system.
    let mut ticks = 0_u64;
    for _ in 0..2 {
        ticks += fields.next()?.parse::<u64>().ok()?;
    }
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let children = Duration::from_millis(ticks * 10);
    Some(Usage { own, children, resident_bytes: pages * 4096 })
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It opens all gates before it ends.
        let _ = i32::try_from(self.child.id()).map(|pid| kill(Pid::from_raw(pid), Signal::SIGTERM));
        let deadline = Instant::now() + Duration::from_secs(2);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 25 17 3 1 20 0 3 0 99 1 2";
        let own = Duration::from_nanos(7);
        let usage = usage(own, stat, "5000 300 200 1 0 50 0\n").unwrap();
        assert_eq!((usage.own, usage.children), (own, Duration::from_millis(40)));
        assert_eq!(usage.resident_bytes, 300 * 4096);
        assert!(super::usage(own, "7 (x", "1 2").is_none());
    }
}
