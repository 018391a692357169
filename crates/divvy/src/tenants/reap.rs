//! Tenants without an owner, limited by variables alone, that have no process any more: they go.
//!
//! No command made them, so no command waits for their last process: the daemon, and commands that list tenants, remove them.
//! Promises: a process that is just joining loses nothing, whatever the instant ([`divvy_page::Vacancy`]); nothing is
//! removed but a tenant's own files, and no link is followed. Tenants of `divvy run` are
//! `tenant_dir`'s.

use std::ffi::OsStr;

use crate::tenants::dir::Dir;

/// Names that are looked at in a place.
const MOST_TENANTS: usize = 512;
/// Files of a tenant. A directory with more in it is left alone.
const MOST_FILES: usize = 4096;
/// The file whose locks say who lives.
const USAGE: &str = "usage";

/// Removes the tenants in a user's place that have no process.
pub(crate) fn without_processes(tenants: &Dir) {
    let (names, _) = tenants.names(MOST_TENANTS).unwrap_or_default();
    for name in &names {
        let Ok(dir) = tenants.below(name) else { continue };
        if dir.uid() == tenants.uid() {
            take(tenants, name, &dir);
        }
    }
}

/// Removes the tenant in `dir`, which is called `name`, unless one of its processes lives or is just joining.
fn take(tenants: &Dir, name: &OsStr, dir: &Dir) {
    let Some(vacancy) = dir.tenant().ok().and_then(|tenant| tenant.hold_vacant()) else { return };
    let Ok((files, true)) = dir.names(MOST_FILES) else { return };
    // The usage file goes last: until then no process can make another, whose files these would be.
    let others = files.iter().filter(|file| *file != USAGE);
    let is_empty = others.into_iter().all(|file| dir.remove_file(file).is_ok());
    if is_empty && dir.remove_file(USAGE.as_ref()).is_ok() {
        drop(vacancy);
        // A process that has come since has made a file there, and it stays.
        let _ = tenants.remove_empty(name);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use divvy_abi::config::Config;
    use divvy_page::{ConfigSource, NewDevice, Tenant};

    use super::*;

    fn attach(path: &Path) -> Tenant {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        Tenant::attach(&path, &ConfigSource::FirstProcess(&Config::default())).unwrap()
    }

    fn place(name: &str) -> (std::path::PathBuf, Dir) {
        // Where tenants lie: on a slow disk a process finds its tenant removed more often than it tries again.
        let shared = Path::new("/dev/shm");
        let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let base = place.join(format!("divvy-reap-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let place = Dir::open_through(&base).unwrap();
        (base, place)
    }

    #[test]
    fn a_tenant_goes_with_its_last_process_and_not_before() {
        let (base, place) = place("last");
        let path = base.join("default");
        // A tenant lives as long as its process, which here is this one.
        let _tenant = attach(&path);
        without_processes(&place);
        assert!(path.join("usage").exists());
        let dead = base.join("dead");
        std::fs::create_dir(&dead).unwrap();
        for file in ["usage", "config"] {
            std::fs::copy(path.join(file), dead.join(file)).unwrap();
        }
        let odd = base.join("odd");
        std::fs::create_dir_all(odd.join("folder")).unwrap();
        std::fs::copy(path.join("usage"), odd.join("usage")).unwrap();
        std::fs::create_dir(base.join("no-tenant")).unwrap();
        without_processes(&place);
        assert!(!dead.exists() && path.exists());
        assert!(
            odd.join("folder").exists() && odd.join("usage").exists(),
            "what is not ours stays"
        );
        assert!(base.join("no-tenant").exists());
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// Ends the thread that removes, also where the test fails.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    /// Each process that joins while others remove finds a whole tenant, and is counted in it.
    #[test]
    fn a_process_that_joins_meanwhile_loses_nothing() {
        let (base, place) = place("join");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    without_processes(&place);
                    // A thread that never rests lets no process join on a busy machine, and real ones do not look so often.
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            let _over = Over(&is_over);
            for round in 0..200 {
                let path = base.join(format!("t{}", round % 2));
                if round >= 2 {
                    // Files without a lock, as a process that has ended leaves them.
                    let from = base.join(format!("t{}-{}", round % 2, round - 2));
                    let _ = std::fs::rename(&path, from);
                }
                let tenant = attach(&path);
                let device = NewDevice {
                    uuid: [3; 16],
                    index: None,
                    total_bytes: 1 << 30,
                    limit_bytes: None,
                    name: b"card",
                };
                tenant.device_row(&device).expect("its files have their names");
                assert!(path.join("config").exists() && path.join("usage").exists());
            }
        });
        std::fs::remove_dir_all(&base).unwrap();
    }
}
