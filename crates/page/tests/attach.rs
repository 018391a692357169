//! A tenant's life in one process and its forked children.

mod scratch;

use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::{AttachError, ConfigSource, NewDevice, Tenant};
use divvy_policy::ledger::MemoryRefusal;
use scratch::Scratch;

const MIB: u64 = 1 << 20;

fn device() -> NewDevice<'static> {
    NewDevice {
        uuid: [7; 16],
        index: Some(0),
        total_bytes: 1 << 30,
        limit_bytes: Some(100 * MIB),
        name: b"test",
    }
}

/// What no card has is refused without a limit too: granted, it would not fit into the ledger's words, and give
/// back more than was held.
#[test]
fn nobody_is_granted_more_than_the_ledger_can_hold() {
    let scratch = Scratch::new("attach-absurd");
    let config = Config::default();
    let tenant = Tenant::attach(&scratch.c_path(), &ConfigSource::FirstProcess(&config)).unwrap();
    let row = tenant.device_row(&device()).unwrap();
    assert_eq!(tenant.ask(row, 60 * MIB, MemoryKind::Block, None), Ok(()));
    for bytes in [u64::MAX, u64::MAX - 32 * MIB, 1 << 47] {
        let refused = Err(MemoryRefusal::OverLimit { held_bytes: 60 * MIB });
        assert_eq!(tenant.ask(row, bytes, MemoryKind::Pool, None), refused, "{bytes}");
    }
    assert_eq!(tenant.used_bytes(row), 60 * MIB);
    assert_eq!(tenant.ask(row, 1 << 40, MemoryKind::Block, None), Ok(()));
}

/// Whoever comes while the first process writes the limits sees a part of them, until it holds the lock.
#[test]
fn first_processes_that_come_at_once_all_join() {
    let config = Config::default();
    for round in 0..300 {
        let scratch = Scratch::new(&format!("attach-at-once-{round}"));
        let (path, start) = (scratch.c_path(), std::sync::Barrier::new(4));
        let join = || {
            start.wait();
            Tenant::attach(&path, &ConfigSource::FirstProcess(&config)).map(|_| ())
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(join)).collect();
            for one in all {
                assert_eq!(one.join().unwrap(), Ok(()), "round {round}");
            }
        });
    }
}

/// Of processes that come at once and each want the tenant alone one gets it; the next when that one has ended.
#[test]
fn of_those_who_want_a_tenant_alone_one_gets_it() {
    let config = Config::default();
    for round in 0..100 {
        let scratch = Scratch::new(&format!("attach-alone-{round}"));
        let (path, start) = (scratch.c_path(), std::sync::Barrier::new(4));
        let join = || {
            start.wait();
            Tenant::attach(&path, &ConfigSource::OnlyProcess(&config))
        };
        // Whoever joins has it until the others have been refused.
        let mut joined = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(join)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        joined.sort_by_key(Result::is_err);
        let taken = Err(AttachError::Taken);
        let answers: Vec<_> =
            joined.iter().map(|one| one.as_ref().map(|_| ()).map_err(|e| *e)).collect();
        assert_eq!(answers, [Ok(()), taken, taken, taken], "round {round}");
        let third = Tenant::attach(&path, &ConfigSource::FirstProcess(&config)).map(|_| ());
        assert_eq!(third, Ok(()), "who shares a tenant joins");
    }
}

/// What is made in a directory takes its mode, so nobody may find one that has not got all of its own yet: the
/// tenant made then would keep other users out for ever. So would a file whose maker is killed before it has its
/// mode.
#[test]
fn what_a_first_process_makes_has_its_mode_when_it_has_its_name() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("attach-modes");
    let open_to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), open_to_all).unwrap();
    let config = Config::default();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let made = [("", 0o777), ("pod", 0o777), ("pod/usage", 0o666), ("pod/config", 0o666)];
    let (mut looks, mut names) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..400 {
                let path = scratch::c_path(&scratch.path().join(format!("{round}/pod")));
                Tenant::attach(&path, &ConfigSource::FirstProcess(&config)).unwrap();
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut round = 0;
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            looks += 1;
            let (name, mode) = made[names % made.len()];
            let path = scratch.path().join(round.to_string()).join(name);
            if let Ok(found) = std::fs::metadata(&path) {
                assert_eq!(found.permissions().mode() & 0o777, mode, "{path:?}");
                names += 1;
                round = names / made.len();
            }
        }
    });
    assert!(names > 400, "{names} names seen in {looks} looks");
    let left = |path| std::fs::read_dir(path).unwrap().count();
    assert_eq!(left(scratch.path()), 400, "and nothing under another name");
    assert_eq!(left(&scratch.path().join("7/pod")), 2, "the ledger and the limits");
}

/// The head of the limits is written last: a first process that was killed before, or had no room for all
/// of it, has left nothing that the next one must not write over.
#[test]
fn limits_without_a_head_are_written_anew() {
    let config = Config::default();
    for bytes in [1, 16, 4096, divvy_abi::config::CONFIG_BYTES] {
        let scratch = Scratch::new(&format!("attach-headless-{bytes}"));
        let file = scratch.path().join("config");
        let mut left = vec![0x55; bytes];
        left.iter_mut().take(divvy_abi::layout::HEAD_BYTES).for_each(|byte| *byte = 0);
        std::fs::write(&file, left).unwrap();
        let join = |source: &ConfigSource<'_>| Tenant::attach(&scratch.c_path(), source).err();
        assert_eq!(join(&ConfigSource::Owner), Some(AttachError::NoConfig), "{bytes} bytes");
        assert_eq!(join(&ConfigSource::FirstProcess(&config)), None, "{bytes} bytes");
        assert_eq!(join(&ConfigSource::Owner), None, "{bytes} bytes");
        // What has a head of another kind, or ours without the rest, is somebody's.
        for cut in [b"mine".to_vec(), std::fs::read(&file).unwrap()[..4096].to_vec()] {
            std::fs::write(&file, &cut).unwrap();
            let refused = join(&ConfigSource::FirstProcess(&config));
            assert!(matches!(refused, Some(AttachError::ShortFile { .. })), "{refused:?}");
            assert_eq!(std::fs::read(&file).unwrap(), cut);
        }
    }
}

#[test]
fn asks_until_the_limit_and_gives_back() {
    let scratch = Scratch::new("attach-limit");
    let config = Config::default();
    let tenant = Tenant::attach(&scratch.c_path(), &ConfigSource::FirstProcess(&config)).unwrap();
    let row = tenant.device_row(&device()).unwrap();
    let limit = Some(100 * MIB);
    assert_eq!(tenant.ask(row, 60 * MIB, MemoryKind::Block, limit), Ok(()));
    let refused = Err(MemoryRefusal::OverLimit { held_bytes: 60 * MIB });
    assert_eq!(tenant.ask(row, 60 * MIB, MemoryKind::Block, limit), refused);
    assert_eq!(tenant.ask(row, 40 * MIB, MemoryKind::Pool, limit), Ok(()));
    assert_eq!(tenant.used_bytes(row), 100 * MIB);
    tenant.give_back(row, 60 * MIB, MemoryKind::Block);
    assert_eq!(tenant.own_kind_bytes(row, MemoryKind::Block), 0);
    assert_eq!(tenant.own_kind_bytes(row, MemoryKind::Pool), 40 * MIB);
}

#[test]
fn two_attachments_of_one_directory_share_the_limit() {
    let scratch = Scratch::new("attach-two");
    let config = Config::default();
    let source = ConfigSource::FirstProcess(&config);
    let one = Tenant::attach(&scratch.c_path(), &source).unwrap();
    let two = Tenant::attach(&scratch.c_path(), &source).unwrap();
    let row = one.device_row(&device()).unwrap();
    assert_eq!(two.device_row(&device()).unwrap(), row);
    let limit = Some(100 * MIB);
    assert_eq!(one.ask(row, 70 * MIB, MemoryKind::Block, limit), Ok(()));
    let refused = Err(MemoryRefusal::OverLimit { held_bytes: 70 * MIB });
    assert_eq!(two.ask(row, 40 * MIB, MemoryKind::Block, limit), refused);
    assert_eq!(two.ask(row, 30 * MIB, MemoryKind::Block, limit), Ok(()));
    let handle = [9; 64];
    let exported = one.export_shared(&handle, row, 70 * MIB, MemoryKind::Block).unwrap();
    let opened = two.open_shared(&handle).unwrap();
    assert_eq!((one.own_bytes(row), one.shared_bytes(row)), (0, 70 * MIB));
    one.close_shared(exported);
    assert_eq!(one.shared_bytes(row), 70 * MIB);
    two.close_shared(opened);
    assert_eq!(two.used_bytes(row), 30 * MIB);
}
