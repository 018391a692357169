//! Two containers, made with `unshare`, that share one tenant's directory by bind mount: the library
//! named by `/etc/ld.so.preload` inside, equal pids, different users, a read-only root, no NVML.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Finished, GIB, MIB, Machine, Running, client, finish, stage, until};
use crate::hostile::{can_unshare, is_root};
use crate::life::wait_for;

/// What a container does before its program starts, as root of its own mounts.
const ENTER: &str = r#"
set -e
mount --make-rprivate /
mkdir -p "$BOX/etc"
cp -a /etc/passwd /etc/group /etc/ld.so.cache "$BOX/etc/" 2>/dev/null || true
echo "$BOX/libdivvy.so" > "$BOX/etc/ld.so.preload"
mount --bind "$BOX/etc" /etc
mount --bind "$SHARED" "$SHARED"
mount -o remount,bind,ro /
exec setpriv --reuid "$AS" --regid "$AS" --clear-groups "$@"
"#;

/// Whether containers can be made here; says so when not.
fn possible(what: &str) -> bool {
    let options = ["--mount", "--pid", "--fork", "--mount-proc"];
    let can = is_root() && can_unshare(&options);
    if !can {
        println!("SKIPPED {what}: this machine does not let us make namespaces");
    }
    can
}

/// A machine whose tenant anybody may join through one shared directory, as HAMi mounts it.
fn shared_machine(limit_bytes: u64) -> Machine {
    let machine = Machine::new();
    let shared = machine.home().to_owned();
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("modes can be set");
    };
    open(&shared);
    open(&shared.join("sim"));
    fs::create_dir(shared.join("vgpu")).expect("a directory can be made");
    open(&shared.join("vgpu"));
    for (folder, file) in [("sim", "libcuda.so.1"), ("lib", "libdivvy.so")] {
        fs::create_dir_all(shared.join("driver")).expect("a directory can be made");
        let to = if folder == "sim" { shared.join("driver").join(file) } else { shared.join(file) };
        fs::copy(stage().join(folder).join(file), to).expect("libraries can be copied");
    }
    fs::copy(stage().join("sim/simgpud"), shared.join("simgpud")).expect("it can be copied");
    for name in ["life", "blocks", "pool", "vmm", "under"] {
        fs::copy(client(name), shared.join(name)).expect("clients can be copied");
    }
    let cache = shared.join("vgpu/pod.cache");
    machine
        .with("CUDA_DEVICE_MEMORY_LIMIT", format!("{}m", limit_bytes / MIB))
        .with("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display())
        .with("EXPECT_LIMIT", limit_bytes)
        .native()
}

/// What the process that starts the machine takes itself.
const KEEPER_BYTES: u64 = 520 * MIB;

/// Starts the machine as root, for everybody: the containers' users could not start one each.
fn keeper(machine: &Machine) -> Running {
    let mut command = machine.command("sh");
    command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(client("under")).arg("stay");
    let running = Running::start(command.env("STAY_BYTES", (2 * MIB).to_string()));
    wait_for(machine, KEEPER_BYTES);
    running
}

fn end(mut running: Running) {
    running.kill_with_children();
    let _ = running.finish();
}

/// The command that plays a scenario in a container of its own, as user `uid`.
fn inside(machine: &Machine, number: u32, uid: u32, program: &str, scenario: &str) -> Command {
    let home = machine.home();
    let own = home.join(format!("box{number}"));
    fs::create_dir_all(&own).expect("a directory can be made");
    let library = own.join("libdivvy.so");
    if !library.exists() {
        fs::copy(home.join("libdivvy.so"), &library).expect("the library can be copied");
    }
    let mut command = machine.command("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", ENTER])
        .arg("enter")
        .arg(home.join(program))
        .arg(scenario)
        .env("BOX", own)
        .env("SHARED", home)
        .env("AS", uid.to_string())
        // No NVML in here: only the driver's library.
        .env("LD_LIBRARY_PATH", home.join("driver"))
        .env("SIMGPUD", home.join("simgpud"));
    command
}

fn passed(finished: &Finished, what: &str) {
    assert_eq!(finished.code(), Some(0), "{what}\n{finished}");
}

#[test]
fn two_containers_share_one_limit() {
    if !possible("two_containers_share_one_limit") {
        return;
    }
    let machine = shared_machine(4 * GIB);
    let keeper = keeper(&machine);
    let mut first = inside(&machine, 1, 1001, "under", "stay");
    let first = Running::start(first.env("STAY_BYTES", GIB.to_string()));
    wait_for(&machine, KEEPER_BYTES + GIB + 518 * MIB);
    let second = finish(&mut inside(&machine, 2, 1002, "under", "beside_a_gibibyte"));
    passed(&second, "the second container sees what the first holds");
    end(first);
    let third = finish(&mut inside(&machine, 2, 1002, "life", "nothing_but_a_context"));
    passed(&third, "and has it all when the first is gone");
    end(keeper);
}

#[test]
fn the_same_suite_passes_inside() {
    if !possible("the_same_suite_passes_inside") {
        return;
    }
    let machine = shared_machine(4 * GIB);
    let keeper = keeper(&machine);
    let suite = [
        ("blocks", "limit_is_exact"),
        ("blocks", "alloc_is_charged"),
        ("blocks", "free_gives_back"),
        ("pool", "free_async_gives_back"),
        ("vmm", "unmap_gives_back"),
        ("life", "forked_after_start"),
    ];
    for (program, scenario) in suite {
        for (number, uid) in [(1, 1001), (2, 1002), (3, 0)] {
            let finished = finish(&mut inside(&machine, number, uid, program, scenario));
            passed(&finished, &format!("{program} {scenario} as {uid}"));
        }
    }
    end(keeper);
}

/// The first processes of two users make one tenant: what one of them makes lets the other in only when its
/// mode is set, a moment later.
#[test]
fn first_processes_of_two_users_make_one_tenant() {
    if !possible("first_processes_of_two_users_make_one_tenant") {
        return;
    }
    let machine = shared_machine(4 * GIB);
    let keeper = keeper(&machine);
    for round in 0..20 {
        let folder = machine.home().join(format!("vgpu/{round}"));
        fs::create_dir(&folder).expect("a directory can be made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("modes can be set");
        let both = [(1, 1001), (2, 1002)].map(|(number, uid)| {
            let mut command = inside(&machine, number, uid, "life", "joins_the_tenant");
            Running::start(command.env("CUDA_DEVICE_MEMORY_SHARED_CACHE", folder.join("pod.cache")))
        });
        for one in both {
            passed(&one.finish(), "both users' first");
        }
    }
    end(keeper);
}

#[test]
fn kills_in_containers_leave_nothing() {
    if !possible("kills_in_containers_leave_nothing") {
        return;
    }
    let machine = shared_machine(4 * GIB);
    let keeper = keeper(&machine);
    for _ in 0..5 {
        let mut both: Vec<Running> = [(1, 1001), (2, 1002)]
            .into_iter()
            .map(|(number, uid)| {
                let mut command = inside(&machine, number, uid, "under", "stay");
                Running::start(command.env("STAY_BYTES", GIB.to_string()))
            })
            .collect();
        let bytes = KEEPER_BYTES + 2 * (GIB + 518 * MIB);
        let is_there = || machine.card_used_bytes() >= bytes;
        let mut has_ended = || both.iter_mut().any(Running::ended);
        until("both hold a block, or one has ended", || is_there() || has_ended());
        if !is_there() {
            both.iter_mut().for_each(Running::kill_with_children);
            panic!(
                "one has ended: {}",
                both.into_iter().map(|one| one.finish().to_string()).collect::<String>()
            );
        }
        both.into_iter().for_each(end);
        let after = finish(&mut inside(&machine, 2, 1002, "life", "nothing_but_a_context"));
        passed(&after, "after both were killed");
    }
    end(keeper);
}

/// Each writes a whole spec and whole limits; none is in another's way.
#[test]
fn many_that_write_one_device_at_once_all_write_it() {
    let machine = Machine::new();
    let (host, file) = (machine.home().join("host"), machine.home().join("cdi/divvy-one.json"));
    let library = stage().join("lib/libdivvy.so");
    for _ in 0..3 {
        let writes = |gib: u64| {
            let mut command = machine.divvy(&["cdi", "--name", "one", "--memory"]);
            command.arg(format!("{gib}GiB")).arg("--library").arg(&library);
            Running::start(command.arg("--host-dir").arg(&host).arg("--out").arg(&file))
        };
        let all: Vec<_> = (1..=12).map(writes).collect();
        for one in all {
            passed(&one.finish(), "divvy cdi");
        }
        let text = fs::read_to_string(&file).expect("a spec");
        serde_json::from_str::<serde_json::Value>(&text).expect("a whole one");
        let left = fs::read_dir(file.parent().expect("a directory")).expect("it can be read");
        assert_eq!(left.count(), 1, "nothing half-written stays");
        fs::remove_dir_all(host.join("one")).expect("the tenant's directory");
    }
}
