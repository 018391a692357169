//! Pictures of known samples, and what two of them say; keys and screens of them in the modules below.

mod keys;
mod recording;
mod screens;

use super::*;
use crate::tenants::ledger::{DeviceUse, LedgerTenant, Process, ResidenceUse, Use};
use crate::wire::{DeviceView, MemoryView, View};

const SECOND_NS: u64 = 1_000_000_000;

fn tenant(name: &str, gpu: u32, used_ns: u64) -> LedgerTenant {
    let device = DeviceUse {
        uuid: format!("GPU-{gpu}"),
        index: Some(gpu),
        name: "H200".to_owned(),
        card_bytes: 141 << 30,
        limit_bytes: Some(8 << 30),
        held_bytes: (name.len() as u64) << 30,
        share_ppm: Some(300_000),
        used_ns,
        throttled_ns: used_ns / 2,
        launches: used_ns / 1000,
        queued_ns: 1_500_000,
        gate: "timed",
        ..DeviceUse::default()
    };
    LedgerTenant {
        name: name.to_owned(),
        directory: format!("/d/{name}"),
        priority: "normal",
        class: "normal",
        devices: vec![device],
        ..LedgerTenant::default()
    }
}

fn sampled(at_ns: u64, turns: u64, tenants: Vec<LedgerTenant>) -> Moment {
    let device = DeviceView {
        uuid: "GPU-0".to_owned(),
        mode: "held".to_owned(),
        turns,
        ..DeviceView::default()
    };
    let views = vec![View { pid: 1, devices: vec![device], ..View::default() }];
    Moment { at_ns, tenants, unreadable: 0, views }
}

fn picture() -> Picture {
    let before = sampled(
        SECOND_NS,
        100,
        vec![tenant("small", 0, 0), tenant("train", 0, SECOND_NS), tenant("far", 1, 5)],
    );
    let mut idle = tenant("idle-one", 0, 0);
    idle.devices[0].share_ppm = None;
    idle.devices[0].gate = "free";
    idle.weight = 3;
    let now = sampled(
        3 * SECOND_NS,
        300,
        vec![
            tenant("small", 0, SECOND_NS / 2),
            tenant("train", 0, 2 * SECOND_NS),
            // Runs backwards.
            tenant("far", 1, 1),
            idle,
        ],
    );
    Picture::of(Some(&before), &now)
}

#[test]
fn two_samples_give_shares_and_rates() {
    let picture = picture();
    let row = |name: &str| picture.rows.iter().find(|row| row.tenant == name).unwrap();
    assert_eq!(row("train").reached_ratio, Some(0.5));
    assert_eq!(
        (row("small").reached_ratio, row("small").throttled_ratio),
        (Some(0.25), Some(0.125))
    );
    assert_eq!(row("small").launches_per_second, Some(250_000.0));
    assert_eq!(row("far").reached_ratio, Some(0.0));
    assert_eq!(row("idle-one").reached_ratio, None, "it was not there before");
    assert_eq!(picture.over_ns, 2 * SECOND_NS);
    let gpu = &picture.gpus[0];
    assert_eq!((gpu.used_ratio, gpu.turns_per_second), (Some(0.75), Some(100.0)));
    assert_eq!((gpu.mode.as_deref(), picture.gpus[1].mode.as_deref()), (Some("held"), None));
    let first = Picture::of(None, &sampled(1, 1, vec![tenant("a", 0, 1)]));
    assert_eq!((first.rows[0].reached_ratio, first.gpus[0].turns_per_second), (None, None));
}

#[test]
fn a_daemon_that_divides_a_device_is_believed_before_one_that_does_not() {
    let mut now = sampled(SECOND_NS, 5, vec![tenant("a", 0, 1)]);
    let other = DeviceView {
        uuid: "GPU-0".to_owned(),
        mode: "counted".to_owned(),
        reason: Some("DV061".to_owned()),
        ..DeviceView::default()
    };
    now.views.push(View { pid: 2, devices: vec![other], ..View::default() });
    assert_eq!(Picture::of(None, &now).gpus[0].mode.as_deref(), Some("held"));
    now.views.reverse();
    let gpu = Picture::of(None, &now).gpus.remove(0);
    assert_eq!((gpu.mode.as_deref(), gpu.reason), (Some("held"), None));
}

#[test]
fn a_row_has_the_processes_that_use_its_device_or_none_yet() {
    let process = |pid: u32, uses: &[&str]| Process {
        pid,
        pid_namespace: 1,
        comm: format!("p{pid}"),
        starting: false,
        last_reason: 0,
        uses: uses
            .iter()
            .map(|uuid| Use {
                uuid: (*uuid).to_owned(),
                held_bytes: 7,
                refusals: 2,
                by_kind: [("blocks", 7)].into(),
            })
            .collect(),
    };
    let mut train = tenant("train", 0, 0);
    train.processes =
        vec![process(1, &["GPU-0", "GPU-1"]), process(2, &[]), process(3, &["GPU-1"])];
    let before = sampled(1, 0, vec![train.clone()]);
    train.devices[0].refusals = 4;
    let picture = Picture::of(Some(&before), &sampled(SECOND_NS + 1, 0, vec![train]));
    let row = &picture.rows[0];
    let members: Vec<_> = row.members.iter().map(|one| (one.pid, one.held_bytes)).collect();
    assert_eq!((members, row.processes), (vec![(1, 7), (2, 0)], 3));
    assert_eq!((row.refusals, row.refused_per_second), (4, Some(4.0)));
}
