//! A list of rules in a file, which somebody else changes while the process runs.
//!
//! Promises: a call that begins after the file was replaced goes by the new list, with calls counted from 1; no file is an
//! empty list. The file is to be replaced as a whole, by renaming another to its name: one that is written in place may
//! be read half. Does not notice a file that has the same inode, size and time of change as before.

use super::rule::{BadRule, FaultRule, parse};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The list that was read last.
type List = Arc<Result<Vec<FaultRule>, BadRule>>;

/// Inode, bytes, and seconds and nanoseconds of a file's last change, which tell it from another one of its name.
type Stamp = Option<[u64; 4]>;

/// A file that may change.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    read: Mutex<(Stamp, List)>,
}

impl Watched {
    /// The file `path`, which need not be there yet.
    pub(super) fn new(path: OsString) -> Self {
        Self { path: path.into(), read: Mutex::new((None, Arc::new(Ok(Vec::new())))) }
    }

    fn stamp(&self) -> Stamp {
        let data = fs::metadata(&self.path).ok()?;
        let [seconds, nanoseconds] = [data.ctime(), data.ctime_nsec()].map(i64::cast_unsigned);
        Some([data.ino(), data.size(), seconds, nanoseconds])
    }

    /// The rules that hold now.
    pub(super) fn rules(&self) -> List {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        if stamp != read.0 {
            let rules = parse(&fs::read_to_string(&self.path).unwrap_or_default());
            let _ = rules.as_ref().inspect_err(|bad| bad.tell());
            *read = (stamp, Arc::new(rules));
        }
        // The lock is not held while a rule is carried out: that may last.
        Arc::clone(&read.1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Action;
    use super::*;

    #[test]
    fn a_file_that_is_replaced_counts_anew() {
        let folder = std::env::temp_dir().join(format!("simgpu-faults-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("faults");
        let put = |text: &str| {
            fs::write(folder.join("new"), text).unwrap();
            fs::rename(folder.join("new"), &path).unwrap();
        };
        let watched = Watched::new(path.clone().into());
        let call = || {
            let rules = watched.rules();
            let rules = rules.as_ref().as_ref().map_err(|bad| bad.rule.clone())?;
            Ok::<_, String>(rules.iter().find_map(|rule| rule.due("cuInit")))
        };
        assert_eq!(call(), Ok(None));
        put("cuInit@2=fail:7");
        assert_eq!([call(), call(), call()], [Ok(None), Ok(Some((2, Action::Fail(7)))), Ok(None)]);
        put("cuInit@2=fail:8");
        assert_eq!([call(), call()], [Ok(None), Ok(Some((2, Action::Fail(8))))]);
        put("cuInit@2=fail:now");
        assert_eq!(call(), Err("cuInit@2=fail:now".to_owned()));
        fs::remove_file(&path).unwrap();
        assert_eq!(call(), Ok(None));
        fs::remove_dir_all(&folder).unwrap();
    }
}
