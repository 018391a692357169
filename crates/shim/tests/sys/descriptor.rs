//! The mark of a descriptor: read back wherever the descriptor went, and not seen where there is none.
//!
//! The files under test are compiled into this test as they stand; the library they belong to has no
//! standard library to test with.

#![allow(dead_code, reason = "the shim's files are taken whole")]
#![allow(unsafe_code, reason = "the shim's files, and one lock")]

#[path = "../../src/sys"]
mod sys {
    pub(crate) mod descriptor;
    pub(crate) mod kernel;
}

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use sys::descriptor::{Mark, draw_key, mark, mark_of};

const MARK: Mark = Mark { key: 12_345_678_901_234_567, granules: 70_000 };

proptest! {
    #[test]
    fn what_is_marked_is_read(key in 0_u64..1 << 61, granules in 1_u64..=1 << 20) {
        let (_, writer) = std::io::pipe().unwrap();
        let wanted = Mark { key, granules };
        prop_assert!(mark(writer.as_raw_fd(), wanted));
        prop_assert_eq!(mark_of(writer.as_raw_fd()), Some(wanted));
    }
}

#[test]
fn a_mark_goes_with_the_description_and_no_further() {
    let file = File::options().read(true).write(true).open("/dev/null").unwrap();
    assert!(mark(file.as_raw_fd(), MARK));
    let twin = file.try_clone().unwrap();
    drop(file);
    assert_eq!(mark_of(twin.as_raw_fd()), Some(MARK));
    // Another description of the same file, as all of the driver's are of one device.
    let other = File::options().read(true).write(true).open("/dev/null").unwrap();
    assert_eq!(mark_of(other.as_raw_fd()), None);
    let second = Mark { key: MARK.key + 1_000_000, granules: 1 };
    assert!(mark(other.as_raw_fd(), second));
    assert_eq!(mark_of(other.as_raw_fd()), Some(second));
    assert_eq!(mark_of(twin.as_raw_fd()), Some(MARK));
}

#[test]
fn a_child_that_executes_another_program_finds_it() {
    let (_, writer) = std::io::pipe().unwrap();
    assert!(mark(writer.as_raw_fd(), MARK));
    let mut cat = Command::new("cat");
    let output = cat.arg("/proc/self/fdinfo/0").stdin(Stdio::from(writer)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("OFDLCK"), "{text}");
}

#[test]
fn other_locks_are_no_marks() {
    let (_, writer) = std::io::pipe().unwrap();
    assert_eq!(mark_of(writer.as_raw_fd()), None);
    assert!(sys::kernel::lock_range(writer.as_raw_fd(), 4096, 4096));
    assert_eq!(mark_of(writer.as_raw_fd()), None, "it begins too early");
    assert!(sys::kernel::lock_range(writer.as_raw_fd(), 1 << 61, (1 << 20) + 1));
    assert_eq!(mark_of(writer.as_raw_fd()), None, "it is too long");
    let key = draw_key().unwrap();
    assert!(mark(writer.as_raw_fd(), Mark { key, granules: 3 }));
    assert_eq!(mark_of(writer.as_raw_fd()), Some(Mark { key, granules: 3 }), "it is one of three");
}

#[test]
fn what_cannot_be_marked_is_left_alone() {
    assert!(!mark(-1, MARK));
    assert_eq!(mark_of(-1), None);
    let (reader, writer) = std::io::pipe().unwrap();
    assert!(!mark(reader.as_raw_fd(), MARK), "such a lock is for who may write");
    assert!(!mark(writer.as_raw_fd(), Mark { granules: 0, ..MARK }));
    assert!(!mark(writer.as_raw_fd(), Mark { granules: (1 << 20) + 1, ..MARK }));
}
