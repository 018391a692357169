//! The compute share's words between an owner and a process: limits changed while a process runs,
//! gates, waits, and what is left of those that ended.

mod scratch;

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use divvy_abi::config::{CONFIG_FILE_BYTES, Config, GateLine, Rule, gate, quantity, selector};
use divvy_abi::meet::BoardPlace;
use divvy_abi::usage::{MemoryKind, SHARED_SLOT, gate_tenant};
use divvy_page::owner::Owner;
use divvy_page::reader::{CapEntry, UsageFile, read_config, write_config};
use divvy_page::{AttachError, ConfigSource, DeviceRow, NewDevice, ProcessUse, Tenant, now_ns};
use divvy_policy::gate::{Board, Words as _};
use divvy_policy::pace::Clock as _;
use scratch::Scratch;
use zerocopy::IntoBytes;

const MS: u64 = 1_000_000;

fn row(tenant: &Tenant) -> DeviceRow {
    let device = NewDevice {
        uuid: [7; 16],
        index: Some(0),
        total_bytes: 1 << 30,
        limit_bytes: None,
        name: b"card",
    };
    tenant.device_row(&device).expect("a row")
}

#[test]
fn a_limit_changed_while_a_process_runs_is_seen_by_it() {
    let scratch = Scratch::new("share-live");
    let at = scratch.c_path();
    assert_eq!(Owner::open(&at).err(), Some(AttachError::NoConfig));
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    let before = tenant.config_epoch();
    assert_eq!(tenant.any_gate().load(), 0);

    let owner = Owner::open(&at).expect("open");
    let cap = Rule {
        selector: selector::ALL,
        index: 0,
        uuid: [0; 16],
        quantity: quantity::PPM,
        reserved: 0,
        value: 300_000,
    };
    owner
        .update(|config| {
            config.compute_rules[0] = cap;
            config.compute_rule_count = 1;
            config.weight = 3;
            config.gates[0].gate = 77;
        })
        .expect("updated");

    assert_eq!(tenant.config_epoch(), before + 2);
    assert_eq!(tenant.any_gate().load(), 1);
    let seen = tenant.live_config().expect("whole");
    assert_eq!((seen.compute_rules(), seen.weight), (&[cap][..], 3));
    assert_eq!(seen.gates[0], GateLine::default(), "gates are not written by an update");
    assert_eq!(tenant.config().compute_rules().len(), 0, "as it was at the start");
    assert_eq!(read_config(&scratch.directory()).expect("readable").expect("there").weight, 3);
}

#[test]
fn writers_of_limits_exclude_each_other_and_readers_see_whole_ones() {
    let scratch = Scratch::new("share-writers");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    let owner = Owner::open(&at).expect("open");
    let other = Owner::open(&at).expect("open");
    std::thread::scope(|scope| {
        for owner in [&owner, &other] {
            scope.spawn(move || {
                for _ in 0..200 {
                    let both = |config: &mut Config| {
                        config.weight += 1;
                        config.paused = config.weight;
                    };
                    owner.update(both).expect("updated");
                }
            });
        }
        for _ in 0..200 {
            if let Some(config) = tenant.live_config() {
                assert_eq!(config.weight, config.paused);
            }
        }
    });
    assert_eq!(owner.read().expect("readable").weight, 400);
}

/// Whether a thread has given its processor away, and waits.
fn sleeps(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

#[test]
fn a_process_waits_at_a_closed_gate_until_it_opens_or_its_time_is_up() {
    let scratch = Scratch::new("share-gate");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    let share = tenant.share(row(&tenant)).expect("a slot");
    let owner = Owner::open(&at).expect("open");
    let closed = GateLine { gate: gate::CLOSED, epoch: 4, lease_ns: 9, ..GateLine::default() };
    owner.set_gate(0, &closed).expect("written");
    assert_eq!(share.gate_line(), closed);

    let before_ns = now_ns();
    share.wait(gate::CLOSED, before_ns + 5 * MS);
    assert!(now_ns() >= before_ns + 5 * MS, "nobody woke it");
    share.wait(gate::FREE, u64::MAX);

    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let deadline_ns = now_ns() + 60_000 * MS;
        let waiter = scope.spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").expect("a link")).expect("heard");
            while share.gate_line().gate == gate::CLOSED && now_ns() < deadline_ns {
                share.wait(gate::CLOSED, deadline_ns);
            }
            assert!(now_ns() < deadline_ns, "nobody woke it");
        });
        let waiter_at = Path::new("/proc").join(told.recv().expect("said"));
        owner.renew(0, 11).expect("written");
        assert_eq!(share.gate_line().lease_ns, 11);
        let other = GateLine { epoch: 5, lease_ns: 12, t_open_ns: 13, ..closed };
        owner.describe_gate(0, &GateLine { gate: gate::FREE, ..other }).expect("written");
        assert_eq!(share.gate_line(), other, "the state stays");
        // Were it awake, it would see that the gate is open, woken or not.
        while !sleeps(&waiter_at) && now_ns() < deadline_ns {
            std::thread::yield_now();
        }
        owner.set_gate(0, &GateLine { gate: gate::TIMED, ..closed }).expect("written");
        waiter.join().expect("woken");
    });
}

/// A daemon sets the word without a lock, while a command changes limits: the command must not write
/// back what it read before.
#[test]
fn a_change_of_limits_never_takes_back_that_gates_are_looked_at() {
    let scratch = Scratch::new("share-any");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    let (daemon, command) = (Owner::open(&at).expect("open"), Owner::open(&at).expect("open"));
    let clear = || while daemon.lower_any_gate().expect("written").is_none() {};
    // In the middle of a change, between what it reads and what it writes.
    for weight in 1..=100 {
        let raise = || daemon.raise_any_gate().expect("written");
        let changed = command.update(|config| {
            std::thread::scope(|scope| scope.spawn(raise).join().expect("raised"));
            config.weight = weight;
        });
        assert_eq!(changed.expect("changed").weight, weight);
        assert_eq!(tenant.any_gate().load(), 1);
        clear();
        assert_eq!(tenant.any_gate().load(), 0);
    }
    // And at any instant.
    command.update(|config| config.weight = 0).expect("changed");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (mut taken_back, mut changes) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..1_000 {
                let begin_ns = now_ns();
                while now_ns() < begin_ns + 97 * (round % 1_031) {}
                daemon.raise_any_gate().expect("written");
                let raised_ns = now_ns();
                while now_ns() < raised_ns + 50_000 {
                    taken_back += u32::from(tenant.any_gate().load() == 0);
                }
                // Waits for nobody; so it may have to come back.
                clear();
                assert_eq!(tenant.any_gate().load(), 0);
            }
            is_done.store(true, SeqCst);
        });
        while !is_done.load(SeqCst) {
            command.update(|config| config.weight += 1).expect("changed");
            changes += 1;
            // The daemon's next clearing finds the lock free now and then.
            std::thread::yield_now();
        }
    });
    assert_eq!((taken_back, command.read().expect("a config").weight), (0, changes));
}

#[test]
fn what_needs_a_gate_keeps_launches_looking() {
    let scratch = Scratch::new("share-lower");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let owner = Owner::open(&at).expect("open");
    let any = |config: Option<Config>| config.expect("nobody else writes").any_gate;
    let paused = owner.update(|config| config.paused = 1).expect("written");
    assert_eq!((paused.any_gate, any(owner.lower_any_gate().expect("written"))), (1, 1));
    let resumed = owner.update(|config| config.paused = 0).expect("written");
    assert_eq!((resumed.any_gate, any(owner.lower_any_gate().expect("written"))), (1, 0));
    owner.set_gate(2, &GateLine { gate: gate::TIMED, ..GateLine::default() }).expect("written");
    assert_eq!(any(owner.lower_any_gate().expect("written")), 1);
    // A tenant that keeps the lock of its own file makes nobody wait.
    let other = Owner::open(&at).expect("open");
    let mut inner = None;
    owner.update(|_| inner = Some(other.lower_any_gate())).expect("written");
    assert!(matches!(inner, Some(Ok(None))), "{inner:?}");
}

#[test]
fn limits_are_read_again_only_when_they_are_others() {
    let scratch = Scratch::new("share-changed");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let (owner, other) = (Owner::open(&at).expect("open"), Owner::open(&at).expect("open"));
    let known = owner.read().expect("a config");
    let changed = |known: &Config| owner.read_changed(known).expect("a config");
    assert!(changed(&known).is_none());
    other.set_gate(3, &GateLine { gate: gate::CLOSED, ..GateLine::default() }).expect("written");
    assert!(changed(&known).is_none(), "gates are no limits");
    other.set_gate(3, &GateLine::default()).expect("written");
    let new = other.update(|config| config.weight = 9).expect("written");
    assert_eq!(changed(&known).map(|config| config.weight), Some(9));
    assert!(changed(&new).is_none());
    // As the first process of a tenant without an owner leaves it.
    other.raise_any_gate().expect("written");
    assert_eq!(changed(&new).map(|config| config.any_gate), Some(1));
    // A writer that died half-way.
    let odd = Config { epoch: new.epoch | 1, ..new };
    let path = scratch.path().join("config");
    std::fs::write(&path, zerocopy::IntoBytes::as_bytes(&odd)).expect("written");
    let file = std::fs::File::options().write(true).open(&path).expect("there");
    file.set_len(CONFIG_FILE_BYTES as u64).expect("long");
    assert!(changed(&odd).is_some());
    std::fs::write(scratch.path().join("config"), "DIVVYCFG").expect("written");
    assert!(owner.read_changed(&odd).is_err());
}

#[test]
fn the_lines_of_many_processes_are_read_in_blocks() {
    let scratch = Scratch::new("share-blocks");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenants: Vec<Tenant> =
        (0..21).map(|_| Tenant::attach(&at, &ConfigSource::Owner).expect("attached")).collect();
    for (tenant, slot) in tenants.iter().zip(1..) {
        let share = tenant.share(row(tenant)).expect("a slot");
        share.add_used(slot);
        share.set_closed_until_ns(77);
    }
    let last = tenants.last().expect("some");
    last.hold(row(last), 1 << 20, MemoryKind::Block);
    let file = UsageFile::open(&at).expect("readable").expect("there");
    assert_eq!((file.slots_high(), file.gate_sum(0).used_ns), (22, (1..=21).sum()));
    let head = file.head();
    assert_eq!(head.slots_high, 22);
    let named = |row: usize| file.device(row).map(|device| (device.uuid, device.index));
    let in_head = head.devices.map(|device| device.map(|device| (device.uuid, device.index)));
    assert_eq!(in_head, std::array::from_fn(named));
    assert_eq!(in_head[0], Some(([7; 16], Some(0))));
    for slots in
        [vec![], vec![1], vec![3, 7, 8, 9, 20], vec![21], vec![15, 16, 4], vec![1023, 5000]]
    {
        let mut seen = Vec::new();
        let cap =
            file.gates(0, slots.iter().copied(), |slot, gate| seen.push((slot, gate.used_ns)));
        assert_eq!(cap.closed_until_ns, 77);
        let there = slots.iter().copied().filter(|slot| *slot < 1024);
        let expected: Vec<_> = std::iter::once(0)
            .chain(there)
            .map(|slot| (slot, file.gate(0, slot).used_ns))
            .collect();
        assert_eq!(seen, expected);
        // The last of them holds something.
        assert_eq!(file.holds_any(0, slots.iter().copied()), slots.contains(&21));
    }
}

#[test]
fn an_owner_survives_a_config_that_was_cut() {
    let scratch = Scratch::new("share-cut");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let owner = Owner::open(&at).expect("open");
    std::fs::File::options()
        .write(true)
        .open(scratch.path().join("config"))
        .and_then(|file| file.set_len(0))
        .expect("cut");
    owner.wake(0);
    assert_eq!(owner.update(|_| {}).err(), Some(AttachError::NoConfig));
    assert!(owner.read().is_err());
}

#[test]
fn what_a_process_used_is_read_and_outlives_it() {
    let scratch = Scratch::new("share-used");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let first = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    let share = first.share(row(&first)).expect("a slot");
    share.add_used(5_000);
    share.add_used(-1_000);
    share.count_launches(3);
    share.note_length(900);
    share.note_want(17);
    share.note_launch(18);
    share.add_waited(40);
    share.add_throttled(50);
    share.count_drain_given_up();
    share.busy_until_ns().store(19, SeqCst);
    assert_eq!(share.replace_paid_at_ns(5, 23), Err(0));
    assert_eq!(share.replace_paid_at_ns(0, 23), Ok(()));
    assert_eq!(share.replace_share_ppm(0, 25), Ok(()));
    share.set_closed_until_ns(24);

    let file = UsageFile::open(&at).expect("readable").expect("there");
    let sum = file.gate_sum(0);
    assert_eq!((sum.used_ns, sum.launches, sum.longest_ns), (4_000, 3, 900));
    assert_eq!((sum.want_ns, sum.last_launch_ns, sum.busy_until_ns), (17, 18, 19));
    assert_eq!((sum.waited_ns, sum.throttled_ns, sum.drains_given_up), (40, 50, 1));
    assert_eq!(sum, file.gate(0, 1));
    assert_eq!(file.cap(0), CapEntry { paid_at_ns: 23, closed_until_ns: 24, share_ppm: 25 });
}

#[test]
fn a_process_finds_its_words_on_the_tenants_other_devices_and_they_are_no_work_of_its() {
    let scratch = Scratch::new("share-beside");
    let at = scratch.c_path();
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    let one = tenant.share(row(&tenant)).expect("a slot");
    assert!(one.beside(0).is_some() && one.beside(1).is_none(), "there is no other device");

    let (uuid, name) = ([8; 16], b"another".as_slice());
    let device = NewDevice { uuid, index: Some(1), total_bytes: 1 << 30, limit_bytes: None, name };
    let row = tenant.device_row(&device).expect("a row");
    let other = tenant.share(row).expect("a slot");
    let found = one.beside(1).expect("there");
    assert_eq!(found.slot(), one.slot());
    other.busy_until_ns().store(19, SeqCst);
    assert_eq!((found.busy_until_ns().load(SeqCst), one.busy_until_ns().load(SeqCst)), (19, 0));
    assert!(one.beside(2).is_none() && one.beside(usize::MAX).is_none());

    // The tenant's own words stand where a process says when it wants, launches and works.
    for word in [gate_tenant::AHEAD_NS, gate_tenant::LATE_NS, gate_tenant::LINKED_NS] {
        one.word(SHARED_SLOT, word).store(77, SeqCst);
    }
    let file = UsageFile::open(&at).expect("readable").expect("there");
    let sum = file.gate_sum(0);
    assert_eq!((sum.want_ns, sum.last_launch_ns, sum.busy_until_ns), (0, 0, 0));
}

/// Tenants meet where somebody has made the directory beside theirs; what one writes the other reads.
#[test]
fn tenants_meet_in_a_file_beside_their_directories() {
    let all = Scratch::new("share-meet");
    let directories = ["one", "two"].map(|name| all.path().join(name));
    let join = |directory: &std::path::PathBuf| {
        std::fs::create_dir(directory).expect("made");
        let path = CString::new(directory.as_os_str().as_encoded_bytes()).expect("no NUL");
        Tenant::attach(&path, &ConfigSource::FirstProcess(&Config::default())).expect("attached")
    };
    let [one, two] = directories.each_ref().map(join);
    assert!(one.meet_file(&[7; 16]).is_none(), "nobody has made the place");
    std::fs::create_dir(all.path().join(".meet")).expect("made");
    let [first, second] = [&one, &two].map(|tenant| tenant.meet_file(&[7; 16]).expect("a board"));
    assert_ne!(Board::tenant(&first), Board::tenant(&second));
    assert_eq!([first.process(), second.process()], [std::process::id(); 2]);
    let mut places = divvy_abi::meet::Board::default();
    let place = BoardPlace { until_ns: 5, ..BoardPlace::default() };
    assert!(first.write(1, &place) && second.read(&mut places));
    assert_eq!(
        places.as_bytes()[size_of::<BoardPlace>()..][..size_of::<BoardPlace>()],
        *place.as_bytes()
    );
}

/// A process is listed for the device on which it holds memory, and for no other.
#[test]
fn processes_are_listed_by_what_they_hold() {
    let scratch = Scratch::new("share-processes");
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&scratch.c_path(), &ConfigSource::Owner).expect("attached");
    let row = row(&tenant);
    let mut uses = [ProcessUse::default(); 2];
    assert_eq!(tenant.processes(row, &mut uses), 0, "nothing is held");
    assert_eq!(tenant.ask(row, 4096, MemoryKind::Block, None), Ok(()));
    assert_eq!(tenant.processes(row, &mut uses), 1);
    assert_eq!((uses[0].pid, uses[0].bytes), (std::process::id(), 4096));
}

/// Memory that a living process shares by a handle without a mark counts as shared.
#[test]
fn what_the_living_share_is_read_as_shared() {
    let scratch = Scratch::new("share-living");
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let tenant = Tenant::attach(&scratch.c_path(), &ConfigSource::Owner).expect("attached");
    let row = row(&tenant);
    assert_eq!(tenant.ask(row, 60 << 20, MemoryKind::Block, None), Ok(()));
    let entry = tenant.export_shared(&[9; 64], row, 60 << 20, MemoryKind::Block).expect("room");
    assert_eq!(divvy_page::SharedEntry::of(entry.number()), entry);
    let file = UsageFile::open(&scratch.c_path()).expect("readable").expect("there");
    let totals = file.totals(row.index());
    assert_eq!((totals.used_bytes, totals.shared_bytes), (60 << 20, 60 << 20));
}
