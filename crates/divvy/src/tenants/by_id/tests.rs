//! Tenants by id on disk: each step of making and removing, and what a killed daemon leaves between two.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown, symlink};

use divvy_page::{ConfigSource, Tenant};

use super::*;
use crate::tenants::asked_limits::config;
use crate::wire::by_id::{DeviceLimits, TenantLimits};

const UUID: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";
const OTHER: u32 = 65534;

struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-by-id-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn tenants(&self) -> TenantsById {
        TenantsById::make(&self.0).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn limits(memory_bytes: u64) -> Config {
    let device = DeviceLimits { uuid: UUID.to_owned(), memory_bytes, share_ppm: Some(300_000) };
    config("job", &TenantLimits { devices: vec![device], ..TenantLimits::default() }, &[]).unwrap()
}

fn me() -> u32 {
    tenant_dir::uid()
}

/// Users whose tenants can be made here.
fn users() -> Vec<u32> {
    if me() == 0 { vec![0, OTHER] } else { vec![me()] }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_tenant_is_its_users_and_lets_everybody_join_who_reaches_it() {
    let home = Home::new("made");
    assert!(TenantsById::open(&home.0).unwrap().is_none());
    for uid in users() {
        let tenants = home.tenants();
        let tenant = tenants.create(uid, "job", &limits(5)).unwrap();
        assert_eq!(tenant.path, home.0.join(format!("by-id/{uid}/job")));
        assert_eq!((mode(tenant.path.parent().unwrap()), mode(&tenant.path)), (0o700, 0o777));
        assert_eq!((mode(&home.0.join(FOLDER)), mode(&tenant.path.join("config"))), (0o711, 0o644));
        for path in ["", "config", "../.meet", ".."] {
            assert_eq!(std::fs::metadata(tenant.path.join(path)).unwrap().uid(), uid, "{path}");
        }
        assert_eq!(tenants.each(uid).map(|it| it.id).collect::<Vec<_>>(), ["job"]);
        assert_eq!(tenants.count_of(uid), 1);
        assert!(tenants.create(uid, "job", &limits(5)).is_err(), "there is one");
    }
    assert_eq!(home.tenants().users(), users());
}

#[test]
fn who_asks_again_gets_what_is_there_if_it_is_that() {
    let home = Home::new("again");
    let tenants = home.tenants();
    let tenant = tenants.create(me(), "job", &limits(5)).unwrap();
    assert_eq!((tenant.is_as(&limits(5)), tenant.is_as(&limits(6))), (Ok(true), Ok(false)));
    tenant.set(&limits(6)).unwrap();
    tenant.set(&limits(7)).unwrap();
    // It is what it was made as, and what it is now; and it is found so by another daemon.
    let found = home.tenants().find(me(), "job").unwrap().unwrap();
    assert_eq!(found.dir.identity(), tenant.dir.identity());
    for (bytes, is_so) in [(5, true), (6, false), (7, true)] {
        assert_eq!(found.is_as(&limits(bytes)), Ok(is_so), "{bytes}");
    }
    let leaves = Config { flags: divvy_abi::config::FLAG_OVERSUBSCRIBE, ..limits(7) };
    assert_eq!(found.is_as(&leaves), Ok(false));
    assert_eq!(found.set(&leaves).unwrap_err().code, RefusalCode::Differs);
    std::fs::write(found.path.join("config"), "garbage").unwrap();
    assert!(found.is_as(&limits(7)).is_err());
    assert_eq!(found.set(&limits(7)).unwrap_err().code, RefusalCode::Failed);
    assert!(tenants.remove(me(), "job").unwrap().existed && !tenants.sweep());
    assert!(tenants.create(me(), "job", &limits(8)).is_ok());
}

#[test]
fn a_removed_tenant_goes_when_nobody_lives_in_it() {
    let home = Home::new("removed");
    let tenants = home.tenants();
    assert_eq!(tenants.remove(me(), "job"), Ok(Removal::default()), "no folder");
    let tenant = tenants.create(me(), "job", &limits(5)).unwrap();
    let path = CString::new(tenant.path.as_os_str().as_bytes()).unwrap();
    let _process = Tenant::attach(&path, &ConfigSource::Owner).unwrap();
    let removal = Removal { existed: true, processes: 1 };
    assert_eq!(tenants.remove(me(), "job"), Ok(removal));
    assert_eq!(tenants.remove(me(), "job"), Ok(Removal::default()), "again");
    assert!(tenants.find(me(), "job").unwrap().is_none() && tenants.each(me()).next().is_none());
    assert!(tenants.sweep() && tenant.dir.file("usage").unwrap().is_some(), "somebody lives there");
    assert_eq!(tenants.count_of(me()), 1, "it takes a place");
    // Another of its id is another tenant.
    assert_ne!(
        tenants.create(me(), "job", &limits(6)).unwrap().dir.identity(),
        tenant.dir.identity()
    );
    // The process is this one, and lives: what it is known by goes in its place.
    std::fs::remove_file(home.0.join(removed(&tenants)).join("usage")).unwrap();
    assert!(!tenants.sweep());
    assert_eq!(tenants.count_of(me()), 1, "the other one");
}

fn removed(tenants: &TenantsById) -> PathBuf {
    let name = tenants.names_of(me()).into_iter().find(|name| name.starts_with(REMOVED)).unwrap();
    Path::new(FOLDER).join(me().to_string()).join(name)
}

#[test]
fn what_a_killed_daemon_leaves_is_completed_or_swept() {
    let home = Home::new("killed");
    // Killed after the folder of all.
    std::fs::create_dir(home.0.join(FOLDER)).unwrap();
    let tenants = home.tenants();
    for uid in users() {
        // After a user's folder was made, and after each step in it.
        let folder = home.0.join(format!("by-id/{uid}"));
        std::fs::create_dir(&folder).unwrap();
        assert!(tenants.find(uid, "job").unwrap().is_none());
        assert_eq!(tenants.remove(uid, "job"), Ok(Removal::default()));
        std::fs::create_dir(folder.join(MEETING)).unwrap();
        if me() == 0 {
            chown(folder.join(MEETING), Some(uid), None).unwrap();
        }
        // After a tenant's directory, or its limits, were made aside.
        let new = home.0.join(format!("by-id/{NEW}{uid}"));
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join(".config.00000001"), "half").unwrap();
        assert!(tenants.create(uid, "job", &limits(5)).is_ok(), "{uid}");
        tenants.sweep_unfinished();
        assert!(!new.exists());
        // After a removal, whose answer nobody got.
        assert!(tenants.remove(uid, "job").unwrap().existed);
        let later = home.tenants();
        assert_eq!(later.remove(uid, "job"), Ok(Removal::default()));
        assert!(!later.sweep() && later.count_of(uid) == 0);
        // In the middle of taking files.
        let half = folder.join(format!("{REMOVED}1"));
        std::fs::create_dir_all(half.join("deep")).unwrap();
        assert!(!later.sweep() && !half.exists());
    }
}

#[test]
fn what_else_lies_in_a_users_folder_is_neither_followed_nor_taken_for_a_tenant() {
    let home = Home::new("else");
    let tenants = home.tenants();
    let kept = home.0.join("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("config"), "kept").unwrap();
    for uid in users() {
        let folder =
            tenants.create(uid, "job", &limits(5)).unwrap().path.parent().unwrap().to_owned();
        symlink(&kept, folder.join("link")).unwrap();
        symlink(&kept, folder.join(format!("{REMOVED}link"))).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        assert_eq!(tenants.find(uid, "link").unwrap_err().code, RefusalCode::Failed);
        assert_eq!(tenants.find(uid, "file").unwrap_err().code, RefusalCode::Failed);
        assert_eq!(tenants.each(uid).count(), 1);
        for name in ["link", "file"] {
            assert!(tenants.remove(uid, name).unwrap().existed, "{name}");
        }
        assert!(!tenants.sweep());
        assert_eq!(std::fs::read_to_string(kept.join("config")).unwrap(), "kept");
        if me() == 0 {
            chown(folder.join("job"), Some(OTHER + 1), None).unwrap();
            assert_eq!(tenants.find(uid, "job").unwrap_err().code, RefusalCode::Failed);
            chown(&folder, Some(OTHER + 1), None).unwrap();
            assert_eq!(tenants.find(uid, "job").unwrap_err().code, RefusalCode::Failed);
        }
    }
    if me() == 0 {
        chown(home.0.join(FOLDER), Some(OTHER), None).unwrap();
        assert!(TenantsById::open(&home.0).is_err() && TenantsById::make(&home.0).is_err());
    }
}
