//! A concurrent map from a number to two numbers: pointer to bytes, granule to count.
//!
//! Sixteen shards, each an open-addressing table in a mapping of its own that doubles when it is
//! three quarters full; so an operation costs the same with 20 and with 200,000 entries. A shard's
//! lock is held for tens of nanoseconds, lies in a page that a forked child gets clean, and is never
//! held while anything of the program or the driver runs. Nothing is allocated but mappings; where
//! the kernel gives none, the caller is told.
//!
//! Closures must not use the same map. Never shrinks.

use core::cell::UnsafeCell;

use super::{fork, kernel};

/// Shards of a map; so many locks it needs.
const SHARDS: usize = 16;
/// Entries of a shard's first table: with its head, it fits a page.
const FIRST_ENTRIES: usize = 128;

/// The value of a key.
pub(crate) type Pair = [u64; 2];

/// The kernel gave no memory for a larger table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

/// One entry of a table. An empty one is all zero: keys are stored inverted.
#[derive(Clone, Copy)]
#[repr(C)]
struct MapEntry {
    inverted_key: u64,
    value: Pair,
}

const EMPTY: MapEntry = MapEntry { inverted_key: 0, value: [0, 0] };

/// A table: a head that counts, then the entries. Null before the first insertion.
struct Shard(UnsafeCell<*mut MapEntry>);

// SAFETY: the pointer and what it points to are used only under the shard's lock.
unsafe impl Sync for Shard {}

/// The shards of all maps, each at its lock's position. One array of zeroes in place of words beside
/// each map's number: the library has no initialised data, so the loader copies no page for it.
static TABLES: [Shard; fork::LOCKS] =
    [const { Shard(UnsafeCell::new(core::ptr::null_mut())) }; fork::LOCKS];

/// The map.
pub(crate) struct Map {
    number: usize,
}

impl core::fmt::Debug for Map {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Map").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Map {
    /// The map of this number, below 63, empty at first. Two of one number are the same map.
    pub(crate) const fn new(number: usize) -> Self {
        assert!((number + 1) * SHARDS <= fork::LOCKS);
        Self { number }
    }

    /// Sets the value of `key` and returns the one before. `u64::MAX` is no key.
    pub(crate) fn insert(&self, key: u64, value: Pair) -> Result<Option<Pair>, NoMemory> {
        let mut old = None;
        self.update_inline(key, |before| {
            old = before;
            Some(value)
        })?;
        Ok(old)
    }

    /// Removes `key`.
    pub(crate) fn take(&self, key: u64) -> Option<Pair> {
        self.with(key, |mut table, hash| table.remove(hash, key))
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u64) -> Option<Pair> {
        self.with(key, |table, hash| Some(table.entry(table.find(hash, key)?)?.value))
    }

    /// Replaces the value of `key` by what `change` makes of it; none removes it. On
    /// [`NoMemory`], which only a new key can meet, nothing is changed.
    #[inline]
    pub(crate) fn update<F: FnMut(Option<Pair>) -> Option<Pair>>(
        &self,
        key: u64,
        mut change: F,
    ) -> Result<(), NoMemory> {
        /// # Safety
        /// 1. `change` is an `F`, which nothing else uses meanwhile.
        unsafe fn call<F: FnMut(Option<Pair>) -> Option<Pair>>(
            change: *mut (),
            old: Option<Pair>,
        ) -> Option<Pair> {
            // SAFETY: by the first condition.
            unsafe { (*change.cast::<F>())(old) }
        }
        // SAFETY: 1. the closure, which lives through the call, and the function for its type.
        unsafe { self.update_by(key, (&raw mut change).cast(), call::<F>) }
    }

    /// One copy for all callers, which are many; it costs them two nanoseconds. Not by `dyn`: its tables
    /// are pointers that the loader would have to move at each start.
    ///
    /// # Safety
    /// 1. `call` may be called with `change`, until this returns.
    #[inline(never)]
    unsafe fn update_by(
        &self,
        key: u64,
        change: *mut (),
        call: unsafe fn(*mut (), Option<Pair>) -> Option<Pair>,
    ) -> Result<(), NoMemory> {
        // SAFETY: by the first condition.
        self.update_inline(key, |old| unsafe { call(change, old) })
    }

    /// As [`Map::update`], in a copy of the caller's own: for the calls that programs make most.
    #[inline]
    pub(crate) fn update_inline(
        &self,
        key: u64,
        change: impl FnOnce(Option<Pair>) -> Option<Pair>,
    ) -> Result<(), NoMemory> {
        self.with(key, |mut table, hash| {
            let at = table.find(hash, key);
            let before = at.and_then(|at| table.entry(at)).map(|entry| entry.value);
            if before.is_none() {
                table.make_room()?;
            }
            match (at, change(before)) {
                (Some(at), Some(value)) => table.write(at, MapEntry { inverted_key: !key, value }),
                (Some(_), None) => {
                    table.remove(hash, key);
                }
                (None, Some(value)) => table.add(hash, MapEntry { inverted_key: !key, value }),
                (None, None) => {}
            }
            Ok(())
        })
    }

    /// Calls `visit` for each entry.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, Pair)) {
        self.take_if(|key, value| {
            visit(key, value);
            false
        });
    }

    /// Removes the entries for which `choose` is true, and counts them. An entry may be shown twice.
    #[inline]
    pub(crate) fn take_if<F: FnMut(u64, Pair) -> bool>(&self, mut choose: F) -> usize {
        /// # Safety
        /// 1. `choose` is an `F`, which nothing else uses meanwhile.
        unsafe fn call<F: FnMut(u64, Pair) -> bool>(choose: *mut (), key: u64, pair: Pair) -> bool {
            // SAFETY: by the first condition.
            unsafe { (*choose.cast::<F>())(key, pair) }
        }
        // SAFETY: 1. the closure, which lives through the call, and the function for its type.
        unsafe { self.take_by((&raw mut choose).cast(), call::<F>) }
    }

    /// As [`Map::update_by`].
    ///
    /// # Safety
    /// 1. `call` may be called with `choose`, until this returns.
    #[inline(never)]
    unsafe fn take_by(
        &self,
        choose: *mut (),
        call: unsafe fn(*mut (), u64, Pair) -> bool,
    ) -> usize {
        let mut taken = 0;
        for shard in 0..SHARDS {
            self.locked(shard, |mut table| {
                let mut at = 0;
                while let Some(entry) = table.entry(at) {
                    let key = !entry.inverted_key;
                    // SAFETY: by the first condition.
                    let is_chosen = || unsafe { call(choose, key, entry.value) };
                    if entry.inverted_key != 0 && is_chosen() {
                        // Later entries move into the gap, so this place is looked at again.
                        table.remove(hash_of(key), key);
                        taken += 1;
                    } else {
                        at += 1;
                    }
                }
            });
        }
        taken
    }

    #[inline]
    fn with<R>(&self, key: u64, act: impl FnOnce(Table<'_>, u64) -> R) -> R {
        let hash = hash_of(key);
        self.locked((hash >> 60) as usize, |table| act(table, hash))
    }

    #[inline]
    fn locked<R>(&self, shard: usize, act: impl FnOnce(Table<'_>) -> R) -> R {
        let at = (self.number * SHARDS + shard % SHARDS) % fork::LOCKS;
        // SAFETY: the lock of this number is ours meanwhile, and with it the shard, which is used only here.
        fork::locked(at, || act(Table { base: unsafe { &mut *TABLES[at].0.get() } }))
    }
}

/// Spreads addresses, which come in steps of a power of two, over all bits; the highest are used.
fn hash_of(key: u64) -> u64 {
    let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A shard's table, under its lock.
struct Table<'a> {
    base: &'a mut *mut MapEntry,
}

impl Table<'_> {
    /// Entries there is room for, a power of two; 0 without a table.
    fn size(&self) -> usize {
        if self.base.is_null() {
            return 0;
        }
        // SAFETY: the head of a table of ours.
        unsafe { (**self.base).inverted_key as usize }
    }

    fn count(&self) -> usize {
        if self.base.is_null() {
            return 0;
        }
        // SAFETY: the head of a table of ours.
        unsafe { (**self.base).value[0] as usize }
    }

    fn set_count(&mut self, count: usize) {
        if !self.base.is_null() {
            // SAFETY: the head of a table of ours.
            unsafe { (**self.base).value[0] = count as u64 };
        }
    }

    fn entry(&self, at: usize) -> Option<MapEntry> {
        if at >= self.size() {
            return None;
        }
        // SAFETY: below the size of the table behind the head.
        Some(unsafe { self.base.wrapping_add(1 + at).read() })
    }

    fn write(&mut self, at: usize, entry: MapEntry) {
        if at < self.size() {
            // SAFETY: below the size of the table behind the head.
            unsafe { self.base.wrapping_add(1 + at).write(entry) };
        }
    }

    fn home(&self, hash: u64) -> usize {
        // The four highest bits chose the shard.
        let bits = self.size().trailing_zeros();
        ((hash << 4) >> (64_u32.wrapping_sub(bits) & 63)) as usize & self.size().wrapping_sub(1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & self.size().wrapping_sub(1)
    }

    // Not inlined, as the three below: a map is used in many places, and a call costs a nanosecond.
    #[inline(never)]
    fn find(&self, hash: u64, key: u64) -> Option<usize> {
        let mut at = self.home(hash);
        // A table is never full, but a child may have been forked amid a change.
        for _ in 0..self.size() {
            let found = self.entry(at)?.inverted_key;
            if found == !key {
                return (found != 0).then_some(at);
            }
            if found == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Adds an entry whose key is not there, where there is room.
    #[inline(never)]
    fn add(&mut self, hash: u64, entry: MapEntry) {
        let mut at = self.home(hash);
        for _ in 0..self.size() {
            if self.entry(at).is_some_and(|entry| entry.inverted_key == 0) {
                self.write(at, entry);
                self.set_count(self.count() + 1);
                return;
            }
            at = self.after(at);
        }
    }

    /// Removes an entry and moves those behind it up, so that no search meets a gap.
    #[inline(never)]
    fn remove(&mut self, hash: u64, key: u64) -> Option<Pair> {
        let mut gap = self.find(hash, key)?;
        let removed = self.entry(gap)?.value;
        let mut at = self.after(gap);
        for _ in 0..self.size() {
            let entry = self.entry(at)?;
            if entry.inverted_key == 0 {
                break;
            }
            let home = self.home(hash_of(!entry.inverted_key));
            // Distances run forward from the gap, around the table's end.
            let mask = self.size().wrapping_sub(1);
            let to_home = home.wrapping_sub(gap).wrapping_sub(1) & mask;
            let to_entry = at.wrapping_sub(gap).wrapping_sub(1) & mask;
            if to_home > to_entry || to_home == mask {
                self.write(gap, entry);
                gap = at;
            }
            at = self.after(at);
        }
        self.write(gap, EMPTY);
        self.set_count(self.count().saturating_sub(1));
        Some(removed)
    }

    /// Sees to it that one more entry fits.
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), NoMemory> {
        let (size, count) = (self.size(), self.count());
        if size != 0 && (count + 1) * 4 <= size * 3 {
            return Ok(());
        }
        let larger = if size == 0 { FIRST_ENTRIES } else { size * 2 };
        let mut new = kernel::map_private(bytes(larger)).map_err(|_| NoMemory)?.cast::<MapEntry>();
        // SAFETY: the head of the new mapping, which nobody else has.
        unsafe { new.write(MapEntry { inverted_key: larger as u64, value: [0, 0] }) };
        let mut table = Table { base: &mut new };
        for at in 0..size {
            if let Some(entry) = self.entry(at).filter(|entry| entry.inverted_key != 0) {
                table.add(hash_of(!entry.inverted_key), entry);
            }
        }
        let old = core::mem::replace(self.base, new);
        if !old.is_null() {
            // SAFETY: 1. the old table's own mapping, whole. 2. Only this shard referred to it.
            unsafe { kernel::unmap(old.cast(), bytes(size)) };
        }
        Ok(())
    }
}

fn bytes(entries: usize) -> usize {
    (entries + 1) * size_of::<MapEntry>()
}
