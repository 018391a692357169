//! Attempts to get at tenants by id of another user's, through the machine's daemon and in the folders that they lie in.

use std::ffi::CString;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use divvy_page::owner::Owner;
use serde_json::json;

use crate::world::{self, ATTACKER, VICTIM, run, until, verdict, word};

const UUID: &str = "GPU-01010101-0101-0101-0101-010101010101";

/// `divvy tenant` of this user, to its end.
fn tenant(uid: u32, words: &[&str]) -> (Option<i32>, String) {
    run(uid, &[&["tenant"], words, &["--system"]].concat())
}

fn directory(uid: u32, id: &str) -> PathBuf {
    PathBuf::from(format!("/run/divvy/by-id/{uid}/{id}"))
}

fn made(uid: u32, id: &str, size: &str) -> PathBuf {
    let (code, told) = tenant(uid, &["create", id, "-m", &format!("{UUID}={size}")]);
    assert_eq!(code, Some(0), "{told}");
    directory(uid, id)
}

/// Runs a line of a shell as this user; whether it went through.
fn shell(uid: u32, line: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", line]).uid(uid).gid(uid).current_dir("/");
    command.output().unwrap().status.success()
}

/// Bytes that the tenant in `path` may have, by the first rule with a device.
fn bytes(path: &Path) -> u64 {
    world::limits(path).rules().iter().map(|rule| rule.value).max().unwrap()
}

pub(crate) fn by_id() {
    let _daemon = world::daemon(&[]);
    let victims = made(VICTIM, "job", "7GiB");
    let roots = made(0, "job", "6GiB");
    assert_eq!(std::fs::metadata(&victims).unwrap().uid(), VICTIM);
    let memory = format!("{UUID}=99GiB");
    let victim = VICTIM.to_string();

    let mut through = 0;
    for uid in [victim.as_str(), "0"] {
        for call in [
            &["create", "job", "-m", &memory][..],
            &["create", "new", "-m", &memory],
            &["set", "job", "-m", &memory],
            &["stat", "job"],
            &["list"],
            &["remove", "job"],
        ] {
            let (code, told) = tenant(ATTACKER, &[call, &["--uid", uid]].concat());
            let is_told = told.contains("not-yours: ") && !told.contains("7 GiB");
            through += usize::from(!(code == Some(2) && is_told));
        }
    }
    verdict("another's by its uid", through, 12);
    let (_, list) = tenant(ATTACKER, &["list"]);
    verdict("another's in one's own list", usize::from(list.contains("job")), 1);

    // Where they lie: nobody else gets into a user's folder, or makes one.
    let ways = [
        format!("ls {}", word(victims.parent().unwrap())),
        format!("ls {}", word(roots.parent().unwrap())),
        "ls /run/divvy/by-id".to_owned(),
        format!("cat {}", word(&victims.join("config"))),
        format!("echo > {}", word(&victims.join("config"))),
        format!("mkdir /run/divvy/by-id/{}", ATTACKER + 1),
        "mkdir /run/divvy/by-id/.new.1".to_owned(),
    ];
    let got = ways.iter().filter(|way| shell(ATTACKER, way)).count();
    verdict("another's folder", got, ways.len());

    exchanged(&victims);
    assert_eq!([bytes(&victims), bytes(&roots)], [7 << 30, 6 << 30]);

    // What holds for its user, and for root.
    let (code, told) = tenant(VICTIM, &["set", "job", "-m", &format!("{UUID}=8GiB")]);
    assert!(code == Some(0) && bytes(&victims) == 8 << 30, "{told}");
    let (code, told) = tenant(0, &["set", "job", "--uid", &victim, "-m", &format!("{UUID}=9GiB")]);
    assert!(code == Some(0) && bytes(&victims) == 9 << 30, "{told}");
    until("they are served", || {
        let view = world::view();
        [(VICTIM, &victims), (0, &roots)].into_iter().all(|(uid, path)| {
            world::served_in(&view, uid).iter().any(|served| Path::new(served) == path)
        })
    });
    let (_, list) = tenant(0, &["list"]);
    assert!(
        list.contains(&format!("job of uid {VICTIM}")) && list.contains("job of uid 0"),
        "{list}"
    );
    joined_by_anybody(&victims);
    too_many();
}

/// A user's own folder leads to a victim's tenant: the daemon, which is root, changes and removes nothing there.
fn exchanged(victims: &Path) {
    let own = made(ATTACKER, "own", "1GiB");
    let folder = own.parent().unwrap();
    assert!(shell(ATTACKER, &format!("mv {0} {0}.aside", word(&own))), "it is the user's own");
    symlink(victims, &own).unwrap();
    symlink("/run/divvy/by-id", folder.join(".removed.1")).unwrap();
    // As on a machine whose kernel lets users link what is not theirs, or with what root has put there.
    let hard = folder.join("hard");
    std::fs::create_dir(&hard).unwrap();
    std::fs::hard_link(victims.join("config"), hard.join("config")).unwrap();
    chown(&hard, Some(ATTACKER), None).unwrap();
    let roots = folder.join("roots");
    std::fs::create_dir(&roots).unwrap();
    let memory = format!("{UUID}=99GiB");
    let mut done = 0;
    for (asker, more) in [(ATTACKER, [].as_slice()), (0, &["--uid", "2001"])] {
        for id in ["own", "hard", "roots"] {
            for call in [&["create", id, "-m", &memory][..], &["set", id, "-m", &memory]] {
                done += usize::from(tenant(asker, &[call, more].concat()).0 == Some(0));
            }
        }
    }
    verdict("a tenant of one's own that is another's", done, 12);
    for id in ["own", "hard", "own.aside"] {
        let (code, told) = tenant(ATTACKER, &["remove", id]);
        assert_eq!(code, Some(0), "{told}");
    }
    until("they are gone", || {
        let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".removed")).count() == 0
    });
    assert!(victims.join("config").exists() && Path::new("/run/divvy/by-id").is_dir());
    std::fs::remove_dir(&roots).unwrap();
}

/// A container's user that is neither root nor the tenant's joins where the tenant is mounted, and the daemon serves it.
fn joined_by_anybody(victims: &Path) {
    let there = Path::new("/run/container/tenant");
    std::fs::create_dir_all(there).unwrap();
    std::fs::set_permissions("/run/container", PermissionsExt::from_mode(0o755)).unwrap();
    let mounted = Command::new("mount").arg("--bind").args([victims, there]).status().unwrap();
    assert!(mounted.success());
    let joined = world::attack_begun(ATTACKER + 5, &["join", word(there)]);
    let stat = || {
        let call = json!({ "tenant": { "stat": { "id": "job", "uid": VICTIM } } });
        world::ask(&call).map(|answer| answer["tenant"].clone()).unwrap_or_default()
    };
    until("its process is seen", || stat()["processes"] == 1);
    assert!(stat()["served"] == true, "{}", stat());
    let path = CString::new(word(victims)).unwrap();
    assert!(Owner::open(&path).is_ok(), "its limits are its owner's still");
    drop(joined);
}

/// A user has 64; others are not kept from theirs.
fn too_many() {
    let uid = ATTACKER + 6;
    let call = |at: usize| {
        let devices = json!([{ "uuid": UUID, "memory_bytes": 1 }]);
        let id = format!("job-{at}");
        json!({ "tenant": { "create": { "id": id, "uid": uid, "limits": { "devices": devices } } } })
    };
    let code = |at: usize| world::ask(&call(at)).unwrap()["error"]["code"].clone();
    let made = (0..64).filter(|at| code(*at).is_null()).count();
    verdict("places beyond a user's", usize::from(code(64) != "too-many"), 1);
    assert_eq!(made, 64);
    made_by_another();
}

fn made_by_another() {
    made(ATTACKER + 7, "job", "1GiB");
}
