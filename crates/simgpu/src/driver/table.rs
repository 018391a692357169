//! Tables of the driver's objects, keyed by the handles programs hold.
//!
//! Promises: a handle is never given again within a process, so that a stale one is always found out,
//! but for those that were [`Table::recycle`]d: the next object gets the one that was freed last, as a
//! driver gives out heap addresses.

use std::collections::HashMap;

use super::error::INVALID_HANDLE;
use crate::sys::driver::{Answer, Handle};

/// Objects of one kind by handle.
#[derive(Debug)]
pub(crate) struct Table<H: Handle, T> {
    entries: HashMap<u64, T>,
    next: u64,
    free: Vec<u64>,
    kind: core::marker::PhantomData<fn() -> H>,
}

impl<H: Handle, T> Default for Table<H, T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), next: 1, free: Vec::new(), kind: core::marker::PhantomData }
    }
}

impl<H: Handle, T> Table<H, T> {
    /// Keeps `object` and makes its handle: a value that looks like a heap address.
    pub(crate) fn insert(&mut self, object: T) -> u64 {
        let key = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            0x5510_0000_0000 + (H::KIND << 36) + ((self.next - 1) << 5)
        });
        self.entries.insert(key, object);
        key
    }

    /// Takes an object out, whose handle is the next one's.
    pub(crate) fn recycle(&mut self, key: u64) -> Answer<T> {
        let object = self.remove(key)?;
        self.free.push(key);
        Ok(object)
    }

    pub(crate) fn get(&self, key: u64) -> Answer<&T> {
        self.entries.get(&key).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Answer<&mut T> {
        self.entries.get_mut(&key).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn of(&self, handle: H) -> Answer<&T> {
        self.get(handle.key())
    }

    pub(crate) fn of_mut(&mut self, handle: H) -> Answer<&mut T> {
        self.get_mut(handle.key())
    }

    pub(crate) fn remove(&mut self, key: u64) -> Answer<T> {
        self.entries.remove(&key).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|(key, object)| (*key, object))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.entries.iter_mut().map(|(key, object)| (*key, object))
    }

    /// Takes out every object for which `drop` says so.
    pub(crate) fn extract(&mut self, mut drop: impl FnMut(u64, &T) -> bool) -> Vec<(u64, T)> {
        let keys: Vec<u64> = self
            .entries
            .iter()
            .filter(|(key, object)| drop(**key, object))
            .map(|(k, _)| *k)
            .collect();
        keys.into_iter().filter_map(|key| Some((key, self.entries.remove(&key)?))).collect()
    }
}
