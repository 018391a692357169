//! Means of a program that oversubscribes here: a back end on each device, a daemon that gives turns, and memory of the host
//! for what is away.
//!
//! The driver is asked in a process of its own, which makes no context. Looks at nothing where there is no driver. Does
//! not know how much tenants will want: it says what there is.

use anyhow::{Context, Result, ensure};

use super::client;
use super::finding::Finding;
use crate::daemon::client::views;
use crate::machine::host_memory;
use crate::machine::loader::find_library;
use crate::output::reason::Reason;
use crate::output::sizes;
use crate::wire::{MemoryView, View};

/// Attributes that decide about the back end, in the order of [`Device::values`]: virtual memory management, and managed
/// memory that the host may use while kernels run, which the driver fetches by pages.
const ATTRIBUTES: [&str; 2] = ["102", "89"];

/// A device, as the client says it.
#[derive(Debug, serde::Deserialize)]
struct Device {
    uuid: String,
    bytes: u64,
    values: [i32; ATTRIBUTES.len()],
}

/// The way in which memory leaves a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum BackEnd {
    /// By virtual memory management.
    Vmm,
    /// As managed memory.
    Managed,
    /// It stays.
    None,
}

/// The back end of one device.
#[derive(Debug, serde::Serialize)]
struct DeviceBackEnd {
    gpu: String,
    back_end: BackEnd,
    why: &'static str,
}

/// The findings, for programs.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct Oversubscription {
    devices: Vec<DeviceBackEnd>,
    /// Daemons that answer, by their processes.
    daemons: Vec<u32>,
    host: HostFree,
}

/// Memory of the host, in bytes; absent where it cannot be read, or has no limit.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct HostFree {
    machine_bytes: Option<u64>,
    /// Of this process's control group.
    group_bytes: Option<u64>,
    /// The least of them, less what is left to each.
    room_bytes: Option<u64>,
}

/// The findings for people and for programs; none where there is no driver.
pub(super) fn look() -> (Vec<Finding>, Option<Oversubscription>) {
    if find_library("libcuda.so.1").is_none() {
        return (Vec::new(), None);
    }
    let own = std::process::id();
    let host = HostFree {
        machine_bytes: host_memory::available(),
        group_bytes: host_memory::room_of(own),
        room_bytes: host_memory::room(std::iter::once(own)),
    };
    judge(ask(), &views(), host)
}

fn ask() -> Result<Vec<Device>> {
    let output = client::start("attributes", &ATTRIBUTES)?.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", said.lines().next().unwrap_or("the client failed"));
    serde_json::from_slice(&output.stdout).context("the client's answer cannot be read")
}

fn judge(
    devices: Result<Vec<Device>>,
    views: &[View],
    host: HostFree,
) -> (Vec<Finding>, Option<Oversubscription>) {
    let mut findings = Vec::new();
    let devices = devices.unwrap_or_else(|error| {
        let words = format!("the driver was not asked how memory may leave a card: {error:#}");
        findings.push(Finding::note(Reason::BackEnd, words));
        Vec::new()
    });
    let card_bytes = devices.iter().map(|device| device.bytes).max().unwrap_or(0);
    let back_ends: Vec<_> = devices.into_iter().map(back_end).collect();
    findings.extend(back_ends.iter().map(of_device));
    findings.push(of_daemons(views));
    findings.extend(of_host(host, card_bytes, views));
    let daemons = views.iter().map(|view| view.pid).collect();
    (findings, Some(Oversubscription { devices: back_ends, daemons, host }))
}

/// The one rule: the first back end that the device is fit for.
fn back_end(device: Device) -> DeviceBackEnd {
    let (back_end, why) = match device.values {
        [1, 1] => (
            BackEnd::Vmm,
            "the device supports virtual memory management (as managed memory with a limit above the card)",
        ),
        [1, _] => (BackEnd::Vmm, "the device supports virtual memory management"),
        [_, 1] => (
            BackEnd::Managed,
            "the device does not support virtual memory management, but fetches managed memory by pages",
        ),
        _ => (
            BackEnd::None,
            "the device does not support virtual memory management, nor managed memory by pages",
        ),
    };
    DeviceBackEnd { gpu: device.uuid, back_end, why }
}

fn of_device(device: &DeviceBackEnd) -> Finding {
    let DeviceBackEnd { gpu, back_end, why } = device;
    match back_end {
        BackEnd::Vmm => {
            Finding::ok(Reason::BackEnd, format!("{gpu}: memory may leave by vmm, since {why}"))
        }
        BackEnd::Managed => {
            Finding::ok(Reason::BackEnd, format!("{gpu}: memory may leave as managed, since {why}"))
        }
        BackEnd::None => {
            Finding::note(Reason::BackEnd, format!("{gpu}: no memory may leave, since {why}"))
                .with_fix(
                    "with --oversubscribe programs run there as without it, and must fit the card",
                )
        }
    }
}

fn of_daemons(views: &[View]) -> Finding {
    let pids: Vec<String> = views.iter().map(|view| view.pid.to_string()).collect();
    if pids.is_empty() {
        return Finding::note(
            Reason::Daemon,
            "no daemon answers; divvy run starts one, which gives turns",
        )
        .with_fix(
            "for tenants that divvy run does not start: divvy daemon, or divvy daemon --system",
        );
    }
    let words = format!("a daemon answers and gives turns: pid {}", pids.join(", "));
    Finding::ok(Reason::Daemon, words)
}

/// Whether the host has room for what may have to be away.
fn of_host(host: HostFree, card_bytes: u64, views: &[View]) -> Option<Finding> {
    let room_bytes = host.room_bytes?;
    let words = |bytes: u64| sizes::text(bytes);
    let of_group = host.group_bytes.map_or_else(
        || "this control group has no limit".to_owned(),
        |bytes| format!("this control group can take {}", words(bytes)),
    );
    let machine = host.machine_bytes.map_or_else(|| "-".to_owned(), words);
    let there = format!("the machine has {machine} of memory free, {of_group}");
    let memories = views.iter().flat_map(|view| &view.devices).filter_map(|d| d.memory.as_ref());
    let short_bytes = memories.map(to_leave).fold(0, u64::saturating_add);
    let most = words(room_bytes);
    Some(if short_bytes > room_bytes {
        let short = words(short_bytes);
        Finding::note(
            Reason::HostMemory,
            format!(
                "{there}: {most} for device memory that is away, where {short} more are to leave"
            ),
        )
        .with_fix("end a tenant, or give the host more memory")
    } else if room_bytes < card_bytes {
        Finding::note(Reason::HostMemory, format!("{there}: tenants may exceed the card by {most}"))
            .with_fix(
                "where they are to exceed it by more, give the machine, or the container \
                 (memory.max), more memory",
            )
    } else {
        Finding::ok(Reason::HostMemory, format!("{there}: {most} for device memory that is away"))
    })
}

/// Bytes that are on the card and do not fit there.
fn to_leave(memory: &MemoryView) -> u64 {
    memory.resident_bytes.saturating_sub(memory.capacity_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use crate::wire::DeviceView;

    const GIB: u64 = 1 << 30;

    fn device(virtual_memory: i32) -> Device {
        Device { uuid: "GPU-a".to_owned(), bytes: 80 * GIB, values: [virtual_memory, 1] }
    }

    fn host(room_bytes: u64, group_bytes: Option<u64>) -> HostFree {
        HostFree { machine_bytes: Some(100 * GIB), group_bytes, room_bytes: Some(room_bytes) }
    }

    fn found(findings: &[Finding], code: Reason) -> (Level, &str) {
        let finding = findings.iter().find(|finding| finding.code == code).unwrap();
        (finding.level, &finding.found)
    }

    #[test]
    fn each_device_has_a_back_end_and_a_reason() {
        let (findings, report) = judge(Ok(vec![device(1)]), &[], host(90 * GIB, None));
        let (level, words) = found(&findings, Reason::BackEnd);
        assert!(level == Level::Ok && words.contains("GPU-a: memory may leave by vmm"), "{words}");
        let report = serde_json::to_value(report).unwrap();
        assert_eq!(report["devices"][0]["back_end"], "vmm");
        for (values, wanted, back_end) in [
            ([0, 0], Level::Note, "none"),
            ([-1, -1], Level::Note, "none"),
            ([0, 1], Level::Ok, "managed"),
        ] {
            let unfit = Device { values, ..device(1) };
            let (findings, report) = judge(Ok(vec![unfit]), &[], host(GIB, None));
            let (level, words) = found(&findings, Reason::BackEnd);
            assert!(level == wanted && words.contains("does not support"), "{words}");
            assert_eq!(serde_json::to_value(report).unwrap()["devices"][0]["back_end"], back_end);
        }
        let (findings, _) = judge(Err(anyhow::anyhow!("no client")), &[], host(GIB, None));
        assert!(found(&findings, Reason::BackEnd).1.contains("was not asked"), "{findings:?}");
    }

    #[test]
    fn a_daemon_is_named() {
        let view = View { pid: 4711, ..View::default() };
        let (findings, _) = judge(Ok(Vec::new()), &[view], host(GIB, None));
        assert_eq!(
            found(&findings, Reason::Daemon),
            (Level::Ok, "a daemon answers and gives turns: pid 4711")
        );
        let (findings, _) = judge(Ok(Vec::new()), &[], host(GIB, None));
        assert_eq!(found(&findings, Reason::Daemon).0, Level::Note);
    }

    #[test]
    fn little_memory_of_the_host_is_said() {
        let of = |host: HostFree, over_bytes: u64| {
            let memory = MemoryView {
                capacity_bytes: GIB,
                resident_bytes: GIB + over_bytes,
                ..MemoryView::default()
            };
            let device_view = DeviceView { memory: Some(memory), ..DeviceView::default() };
            let view = View { devices: vec![device_view], ..View::default() };
            let (findings, _) = judge(Ok(vec![device(1)]), &[view], host);
            let (level, words) = found(&findings, Reason::HostMemory);
            (level, words.to_owned())
        };
        assert_eq!(
            of(host(90 * GIB, None), 0),
            (
                Level::Ok,
                "the machine has 100 GiB of memory free, this control group has no limit: 90 GiB for device \
                 memory that is away"
                    .to_owned()
            )
        );
        let (level, words) = of(host(15 * GIB, Some(16 * GIB)), 0);
        assert!(level == Level::Note && words.contains("can take 16 GiB"), "{words}");
        assert!(words.ends_with("exceed the card by 15 GiB"), "{words}");
        let (level, words) = of(host(15 * GIB, None), 20 * GIB);
        assert!(
            level == Level::Note && words.ends_with("where 20 GiB more are to leave"),
            "{words}"
        );
        let unread = HostFree::default();
        assert!(judge(Ok(Vec::new()), &[], unread).0.iter().all(|f| f.code != Reason::HostMemory));
    }
}
