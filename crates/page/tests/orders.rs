//! Orders about memory that may leave a device, between an owner and a process: written, read, run out.

mod scratch;

use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, OrderLine, order};
use divvy_abi::usage::{self, residence};
use divvy_page::owner::Owner;
use divvy_page::reader::{UsageFile, write_config};
use divvy_page::{ConfigSource, NewDevice, Tenant, now_ns};
use scratch::Scratch;

const MS: u64 = 1_000_000;

/// A tenant that oversubscribes one device, and its owner.
fn tenant(scratch: &Scratch) -> (Tenant, Owner) {
    let at = scratch.c_path();
    let config = Config { flags: FLAG_OVERSUBSCRIBE, ..Config::default() };
    write_config(&scratch.directory(), &config).expect("written");
    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    (tenant, Owner::open(&at).expect("open"))
}

fn card() -> NewDevice<'static> {
    NewDevice {
        uuid: [7; 16],
        index: Some(0),
        total_bytes: 1 << 30,
        limit_bytes: None,
        name: b"card",
    }
}

#[test]
fn an_order_is_read_while_its_lease_lasts() {
    let scratch = Scratch::new("orders");
    let (tenant, owner) = tenant(&scratch);
    let row = tenant.device_row(&card()).expect("a row");
    assert_eq!(tenant.order(row), None, "without an owner there are none");
    let lease_ns = now_ns() + 10_000 * MS;
    let flags = order::RUN;
    let line = OrderLine { lease_ns, keep_bytes: 5, flags, ..OrderLine::default() };
    owner.set_allowed(0, 1, 77).expect("written");
    owner.set_order(0, &line).expect("written");
    let seen = tenant.order(row).expect("an order");
    assert_eq!((seen.allowed_bytes, seen.keep_bytes), (77, 5));
    assert!(seen.runs() && !seen.refuses(0));
    // Another process's ceiling, and another device's, are not this one's.
    owner.set_allowed(0, 2, 1).expect("written");
    owner.set_allowed(1, 1, 2).expect("written");
    owner.set_order(1, &OrderLine { flags: order::REFUSE, ..line }).expect("written");
    assert_eq!(tenant.order(row), Some(seen));
    owner.set_order(0, &OrderLine { flags: order::REFUSE, ..line }).expect("written");
    assert!(tenant.order(row).is_some_and(|order| order.refuses(u64::MAX) && !order.runs()));
    // A refusal of what was asked for before is none of what is asked for now.
    let refused = OrderLine {
        flags: order::REFUSE,
        refused_ns: 100,
        host_needed_bytes: 9,
        host_room_bytes: 8,
        ..line
    };
    owner.set_order(0, &refused).expect("written");
    let seen = tenant.order(row).expect("an order");
    assert!(seen.refuses(100) && !seen.refuses(101));
    let host = seen.host_refusal().map(|host| (host.needed_bytes, host.room_bytes));
    assert_eq!(host, Some((9, 8)));
    owner.set_order(0, &OrderLine { lease_ns: now_ns(), ..line }).expect("written");
    assert_eq!(tenant.order(row), None, "an owner that is gone orders nothing");
}

#[test]
fn who_waits_for_orders_is_woken_by_orders_and_by_wishes() {
    let scratch = Scratch::new("orders-wake");
    let (tenant, owner) = tenant(&scratch);
    let from = Instant::now();
    let number = tenant.orders();
    tenant.wait_orders(number.wrapping_add(1), now_ns() + 60_000 * MS);
    owner.tell_orders().expect("written");
    tenant.wait_orders(number, now_ns() + 60_000 * MS);
    let number = tenant.orders();
    owner.update(|config| config.frozen = 3).expect("written");
    assert_eq!(tenant.frozen(), 3);
    tenant.wait_orders(number, now_ns() + 60_000 * MS);
    let number = tenant.orders();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| tenant.wait_orders(number, now_ns() + 60_000 * MS));
        std::thread::sleep(Duration::from_millis(5));
        owner.tell_orders().expect("written");
        waiter.join().expect("joined");
    });
    assert!(from.elapsed() < Duration::from_secs(50), "nobody slept until the end");
}

#[test]
fn what_a_process_says_of_its_memory_is_read() {
    let scratch = Scratch::new("orders-words");
    let (tenant, _owner) = tenant(&scratch);
    let row = tenant.device_row(&card()).expect("a row");
    let words = tenant.residence(row).expect("words");
    words.set_places(100, 30, 10);
    words.set_resident(60);
    words.ask(9);
    words.ask(5);
    words.ask(9_u64.wrapping_neg());
    words.set_free(1000, 17);
    words.set_copies(40);
    let file = UsageFile::open(&scratch.c_path()).expect("readable").expect("there");
    let seen = file.residence(0, 1);
    assert_eq!((seen.movable_bytes, seen.away_bytes, seen.pinned_bytes), (100, 30, 10));
    assert_eq!((seen.resident_bytes, seen.asked_bytes, seen.copies_bytes), (60, 5, 40));
    assert_eq!((seen.free_bytes, seen.free_ns), (1000, 17));
    let both = seen.with(divvy_page::ResidenceEntry { free_bytes: 1, free_ns: 18, ..seen });
    assert_eq!((both.resident_bytes, both.asked_bytes, both.free_bytes), (120, 10, 1));
    words.add_out(70, 7, true);
    words.add_in(40, 4);
    let sum = file.residence_sum(0);
    assert_eq!((sum.away_bytes, sum.out_bytes, sum.in_ns), (30, 70, 4));
    // A process that has died, and those that had ended before.
    let usage = std::fs::File::options().write(true).open(scratch.path().join("usage"));
    let usage = usage.expect("writable");
    let put = |at: usize, bytes: &[u8]| usage.write_all_at(bytes, at as u64).expect("written");
    put(usage::SLOTS_HIGH_AT, &4_u32.to_ne_bytes());
    for (slot, word) in [
        (3, residence::AWAY_BYTES),
        (3, residence::OUT_BYTES),
        (0, residence::OUT_BYTES),
        (0, residence::PINNED_BYTES),
    ] {
        put(usage::residence_at(0, slot) + word, &1000_u64.to_ne_bytes());
    }
    let sum = file.residence_sum(0);
    assert_eq!((sum.away_bytes, sum.pinned_bytes, sum.out_bytes), (30, 10, 2070));
}
