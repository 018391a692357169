//! What the ledger's calls cost here: `cargo run --release -p divvy-page --example price`.
//!
//! Every slot but one belongs to this process too (one attachment each), which costs a caller as
//! much as other processes would.

use std::ffi::CString;
use std::time::Instant;

use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::{ConfigSource, NewDevice, Tenant};

const MIB: u64 = 1 << 20;

fn ns_each(times: u32, mut act: impl FnMut()) -> f64 {
    let best = (0..7).map(|_| {
        let start = Instant::now();
        (0..times).for_each(|_| act());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(times)
    });
    best.fold(f64::INFINITY, f64::min)
}

fn main() {
    let path = std::env::temp_dir().join(format!("divvy-price-{}", std::process::id()));
    let directory = CString::new(path.to_string_lossy().as_bytes()).expect("no NUL");
    let config = Config::default();
    let source = ConfigSource::FirstProcess(&config);
    let device = NewDevice {
        uuid: [1; 16],
        index: None,
        total_bytes: 1 << 36,
        limit_bytes: None,
        name: b"card",
    };
    let mut attached = Vec::new();
    println!("slots  attach_us  ask+give_ns  refused_ns  refused_by_others_us  used_ns");
    for slots in [1, 16, 300] {
        let mut attach_us = 0.0;
        while attached.len() < slots {
            let start = Instant::now();
            attached.push(Tenant::attach(&directory, &source).expect("attached"));
            attach_us = start.elapsed().as_secs_f64() * 1e6;
        }
        let tenant = &attached[0];
        let row = tenant.device_row(&device).expect("a row");
        let pair = ns_each(100_000, || {
            let _ =
                std::hint::black_box(tenant.ask(row, 2 * MIB, MemoryKind::Block, Some(100 * MIB)));
            tenant.give_back(row, 2 * MIB, MemoryKind::Block);
        });
        let refused = ns_each(10_000, || {
            let _ = std::hint::black_box(tenant.ask(
                row,
                200 * MIB,
                MemoryKind::Block,
                Some(100 * MIB),
            ));
        });
        let other = attached.last().filter(|_| slots > 1);
        other.inspect(|other| other.hold(row, 99 * MIB, MemoryKind::Block));
        let by_others = ns_each(1_000, || {
            let _ =
                std::hint::black_box(tenant.ask(row, 2 * MIB, MemoryKind::Block, Some(100 * MIB)));
            if other.is_none() {
                tenant.give_back(row, 2 * MIB, MemoryKind::Block);
            }
        });
        let used = ns_each(1_000, || {
            std::hint::black_box(tenant.used_bytes(row));
        });
        other.inspect(|other| other.give_back(row, 99 * MIB, MemoryKind::Block));
        println!(
            "{slots:5}  {attach_us:9.1}  {pair:11.0}  {refused:10.0}  {:20.2}  {used:7.0}",
            by_others / 1e3
        );
    }
    std::fs::remove_dir_all(path).expect("removed");
}
