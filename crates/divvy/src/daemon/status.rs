//! `divvy daemon --status`: the view of a daemon that runs, printed as text or as JSON.
//!
//! Promises: the exit code is 0 only where a daemon answers and gives turns as it should. Does not start a daemon, or
//! judge its health: that is [`super::health`]'s.

use anyhow::Result;
use divvy_policy::turns::tuning;

use super::client;
use super::health::Health;
use super::place::DaemonHome;
use crate::output::exit_codes::NOT_AS_EXPECTED;
use crate::output::failure::with_code;
use crate::output::{json, out, plain, sizes};
use crate::tenants::tenant_dir;
use crate::wire::{MemoryView, Schedule};

/// Prints what the daemon of `home` sees; the exit code of `--status`.
pub(super) fn print(home: &DaemonHome, as_json: bool) -> Result<u8> {
    let Some(view) = client::view(home) else {
        let words = home.silence();
        if as_json {
            json::print(&serde_json::json!({ "pid": null, "error": words }))?;
        }
        return Err(with_code(NOT_AS_EXPECTED, words));
    };
    // A tenant that has just come has shown nothing yet.
    let health = (view.seen_ns > 0).then(|| Health::of_other(view.pid, view.seen_ns));
    let answer = || match health.as_ref().and_then(Health::reason) {
        Some(reason) => Err(with_code(NOT_AS_EXPECTED, format!("pid {}: {reason}", view.pid))),
        None => Ok(0),
    };
    if as_json {
        json::print(&view)?;
        return answer();
    }
    let off = match view.schedule {
        Schedule::On => "",
        Schedule::Off => "; no turns, until `divvy daemon --schedule on`",
    };
    let (tenants, uid) = (view.tenants.len(), tenant_dir::uid());
    let floor = floor_words(view.floor_ppm);
    let mut text = format!("pid {}, {tenants} tenants, uid {uid}{floor}{off}\n", view.pid);
    for device in &view.devices {
        let reason = device
            .reason
            .as_deref()
            .map(|reason| format!("; {reason}: {}", device.detail.as_deref().unwrap_or_default()));
        let words = format!(
            "{}: {}, {} turns{}",
            device.uuid,
            device.mode,
            device.turns,
            reason.unwrap_or_default()
        );
        text.push_str(&format!("{}\n", plain::line(&words)));
        if let Some(memory) = &device.memory {
            text.push_str(&format!("  {}\n", memory_words(memory)));
        }
    }
    if view.devices.iter().any(|device| device.memory.is_some()) {
        let [promised, free] = [view.host.promised_bytes, view.host.free_bytes].map(sizes::text);
        text.push_str(&format!(
            "host memory: {promised} promised to what may have to leave, {free} to be had\n"
        ));
    }
    for tenant in &view.tenants {
        if let Some(status) = &tenant.memory {
            text.push_str(&format!(
                "{}\n",
                plain::line(&format!("{}: {status}", tenant.directory))
            ));
        }
        if let Some(reason) = &tenant.reason {
            let detail = tenant.detail.as_deref().unwrap_or_default();
            let words = format!("{}: {reason}: {detail}", tenant.directory);
            text.push_str(&format!("{}\n", plain::line(&words)));
        }
    }
    out::text(&text)?;
    answer()
}

/// The floor of low priority in words, where it is another than by default.
fn floor_words(ppm: u64) -> String {
    match ppm {
        0 => "; no floor".to_owned(),
        ppm if ppm == tuning::FLOOR_PPM => String::new(),
        ppm => format!("; floor {} %", ppm as f64 / 1e4),
    }
}

/// Where the memory of a device's tenants is, in words.
fn memory_words(memory: &MemoryView) -> String {
    let size = |bytes| sizes::text(bytes);
    let managed = match memory.managed_bytes {
        0 => String::new(),
        bytes => format!("; {} managed of {}", size(bytes), size(memory.managed_limit_bytes)),
    };
    format!(
        "memory that may leave: {} on the card, where {} may be; {} away; {} hand-overs, longest wait {:.1} s{managed}",
        size(memory.resident_bytes),
        size(memory.capacity_bytes),
        size(memory.away_bytes),
        memory.hand_overs,
        memory.longest_wait_ns as f64 / 1e9
    )
}
