//! Which layouts of a tenant's files are served, and where the parts of an earlier one lie.
//!
//! The daemon and the commands speak of today's offsets; a [`Layout`] says for each part where it lies
//! in a file of its version. Processes of a tenant know today's alone, at compile time.
//!
//! These are the same in every version, past and to come: the magic, the version and the size in the
//! first 16 bytes of both files, and the places of the locks ([`ADMISSION_LOCK_AT`], [`SLOT_LOCKS_AT`]
//! and the [`SLOT_LOCKS`] bytes from there on). By them a version is told and the living are found
//! whatever lies between.
//!
//! To change a layout: raise [`ABI_VERSION`], and describe the one before in [`USAGE`] and [`CONFIG`] by
//! a [`Part`] for each run of fields, moved or not. A part keeps its meaning when it moves; what means
//! something else is another part. What the older one lacks reads as zero.
//!
//! [`ADMISSION_LOCK_AT`]: crate::usage::ADMISSION_LOCK_AT
//! [`SLOT_LOCKS_AT`]: crate::usage::SLOT_LOCKS_AT

use crate::config::{CONFIG_BYTES, CONFIG_FILE_BYTES, ORDERS_WORD_AT};
use crate::usage::{RESIDENCE_AT, RESIDENCE_BYTES, USAGE_BYTES};
use crate::{ABI_VERSION, MAX_DEVICES, MAX_SLOTS};

/// Bytes of the head that both files have in every version.
pub const HEAD_BYTES: usize = 16;

/// Bytes from the liveness lock of slot 0 on that are liveness locks, in any version.
pub const SLOT_LOCKS: u64 = 1 << 20;

/// Equal fields at equal distances: those of a table, or one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Bytes of each.
    pub bytes: usize,
    /// How many there are.
    pub count: usize,
    /// Where they lie in today's layout.
    pub now: FieldPlace,
    /// Where they lie in the layout that is described.
    pub then: FieldPlace,
}

/// Where equal fields lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldPlace {
    /// Offset of the first.
    pub at: usize,
    /// Bytes from one to the next.
    pub stride: usize,
}

/// One version of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Its version.
    pub version: u32,
    /// Bytes of the file.
    pub bytes: usize,
    /// Parts of today's layout that it has.
    pub parts: &'static [Part],
}

/// Bytes that follow each other in today's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where they lie in the file, one behind the other; `None` where the file does not have them.
    pub at: Option<usize>,
    /// How many.
    pub bytes: usize,
}

/// Bytes of a line of memory that may leave in version 5, and how many lines there are.
const LINE_5_BYTES: usize = 128;
const LINES: usize = MAX_SLOTS * MAX_DEVICES;

/// Usage files that are served: today's, and the version before, whose processes follow no orders.
pub const USAGE: [Layout; 2] = [
    whole(ABI_VERSION, USAGE_BYTES),
    Layout {
        version: 5,
        bytes: RESIDENCE_AT + LINE_5_BYTES * LINES,
        parts: &[
            Part::one(RESIDENCE_AT, 0, 0),
            Part::table(
                LINE_5_BYTES,
                LINES,
                (RESIDENCE_AT, RESIDENCE_BYTES),
                (RESIDENCE_AT, LINE_5_BYTES),
            ),
        ],
    },
];

/// Config files that are served: today's, and the version before, which has no orders.
pub const CONFIG: [Layout; 2] = [
    whole(ABI_VERSION, CONFIG_FILE_BYTES),
    Layout {
        version: 5,
        bytes: CONFIG_BYTES,
        parts: &[
            Part::one(ORDERS_WORD_AT, 0, 0),
            Part::one(CONFIG_BYTES - ORDERS_WORD_AT - 8, ORDERS_WORD_AT + 8, ORDERS_WORD_AT + 8),
        ],
    },
];

/// A layout that is today's in all its parts.
const fn whole(version: u32, bytes: usize) -> Layout {
    // One of each length, so that the array is a constant of its own.
    const USAGE_PARTS: &[Part] = &[Part::one(USAGE_BYTES, 0, 0)];
    const CONFIG_PARTS: &[Part] = &[Part::one(CONFIG_FILE_BYTES, 0, 0)];
    let parts = if bytes == USAGE_BYTES { USAGE_PARTS } else { CONFIG_PARTS };
    Layout { version, bytes, parts }
}

impl Part {
    /// One field or run of fields.
    pub const fn one(bytes: usize, now: usize, then: usize) -> Self {
        Self::table(bytes, 1, (now, bytes), (then, bytes))
    }

    /// `count` fields of `bytes` each, by offset and stride now and then.
    pub const fn table(
        bytes: usize,
        count: usize,
        now: (usize, usize),
        then: (usize, usize),
    ) -> Self {
        let (now, then) =
            (FieldPlace { at: now.0, stride: now.1 }, FieldPlace { at: then.0, stride: then.1 });
        Self { bytes, count, now, then }
    }

    /// Finds the field that lies at `offset` now: its offset then, and the bytes of it that are left; `None` and the
    /// distance of the next field, without end behind the last.
    fn find(&self, offset: usize) -> Run {
        let Some(inside) = offset.checked_sub(self.now.at) else {
            return Run { at: None, bytes: self.now.at - offset };
        };
        let number = inside.checked_div(self.now.stride).unwrap_or(0);
        let inside = inside - number * self.now.stride;
        if number < self.count && inside < self.bytes {
            let at = self.then.at + self.then.stride * number + inside;
            Run { at: Some(at), bytes: self.bytes - inside }
        } else if number + 1 < self.count {
            Run { at: None, bytes: self.now.stride - inside }
        } else {
            Run { at: None, bytes: usize::MAX }
        }
    }
}

impl Layout {
    /// Finds the field that lies at `offset` today, up to `bytes` of it.
    ///
    /// Cost: a few divisions for each part.
    pub fn run(&self, offset: usize, bytes: usize) -> Run {
        let mut gap = bytes;
        for part in self.parts {
            let run = part.find(offset);
            if run.at.is_some() {
                return Run { bytes: run.bytes.min(bytes), ..run };
            }
            gap = gap.min(run.bytes);
        }
        Run { at: None, bytes: gap }
    }

    /// Where one word lies; `None` where the file does not have it.
    pub fn place(&self, offset: usize) -> Option<usize> {
        self.run(offset, 1).at
    }
}

/// The layout of `version` among those that are served.
pub fn of(version: u32, served: &'static [Layout]) -> Option<&'static Layout> {
    served.iter().find(|layout| layout.version == version)
}

const _: () = assert!(USAGE[0].version == ABI_VERSION && CONFIG[0].version == ABI_VERSION);
const _: () = assert!(USAGE[1].version + 1 == ABI_VERSION, "the version before is served");
const _: () = assert!(CONFIG[1].version + 1 == ABI_VERSION, "the version before is served");
const _: () = assert!(MAX_SLOTS as u64 <= SLOT_LOCKS);

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[Part] = &[
        Part::one(16, 0, 0),
        Part::table(8, 3, (32, 16), (100, 24)),
        Part::table(4, 2, (96, 8), (200, 10)),
    ];
    const MOVED: Layout = Layout { version: 9, bytes: 400, parts: PARTS };

    #[test]
    fn each_byte_lies_where_its_part_says() {
        let at = |offset| MOVED.run(offset, 1).at;
        assert_eq!([0, 15, 16, 31].map(at), [Some(0), Some(15), None, None]);
        assert_eq!(
            [32, 39, 40, 48, 71].map(at),
            [Some(100), Some(107), None, Some(124), Some(155)]
        );
        assert_eq!([96, 104, 107, 108].map(at), [Some(200), Some(210), Some(213), None]);
        assert_eq!([72, 112, 1000].map(at), [None; 3]);
    }

    #[test]
    fn runs_follow_each_other_and_gaps_end_where_a_part_begins() {
        let run = |at, bytes| Run { at, bytes };
        let expected = [
            (0, run(Some(0), 16)),
            (16, run(None, 16)),
            (32, run(Some(100), 8)),
            (40, run(None, 8)),
            (48, run(Some(124), 8)),
        ];
        for (offset, expected) in expected {
            assert_eq!(MOVED.run(offset, 1000), expected, "at {offset}");
        }
        assert_eq!(MOVED.run(100, 3), run(None, 3));
        assert_eq!(MOVED.run(500, 7), run(None, 7));
        assert_eq!(MOVED.run(0, 5), run(Some(0), 5));
    }

    #[test]
    fn the_version_before_lacks_what_this_one_has_added() {
        for (layouts, bytes) in [(USAGE, USAGE_BYTES), (CONFIG, CONFIG_FILE_BYTES)] {
            assert_eq!(layouts[0].run(0, bytes), Run { at: Some(0), bytes });
            assert_eq!(layouts[0].place(bytes), None);
        }
        let [_, usage] = USAGE;
        let line = RESIDENCE_AT + RESIDENCE_BYTES;
        assert_eq!(usage.place(RESIDENCE_AT + 127), Some(RESIDENCE_AT + 127));
        assert_eq!([line - 1, line].map(|at| usage.place(at)), [None, Some(RESIDENCE_AT + 128)]);
        assert_eq!(usage.place(USAGE_BYTES - 256), Some(usage.bytes - 128));
        let [_, config] = CONFIG;
        let word = ORDERS_WORD_AT;
        let places = [word - 1, word, word + 7, word + 8, CONFIG_BYTES - 1, CONFIG_BYTES];
        let now = places.map(|at| config.place(at));
        let then = [Some(word - 1), None, None, Some(word + 8), Some(CONFIG_BYTES - 1), None];
        assert_eq!(now, then);
    }
}
