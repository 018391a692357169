//! Objects that the API server has told of, by a watch. Pure.
//!
//! One that was written is entered at once, before the watch tells of it; the watch's older word does not undo that. Promises: a
//! list that begins anew counts when it is complete, so that a dropped watch is not taken for an empty one.

use std::collections::{BTreeMap, BTreeSet};

use kube::runtime::watcher::Event;

/// An object that can be kept.
pub(super) trait KeptObject {
    /// Name of its place among the others of its kind.
    fn key(&self) -> String;

    /// Its UID.
    fn uid(&self) -> Option<&str>;

    /// Number of its version; the API server compares them so.
    fn version(&self) -> Option<u64>;
}

/// Objects of one kind.
#[derive(Clone, Debug)]
pub(super) struct ObjectStore<T> {
    objects: BTreeMap<String, T>,
    /// Those of a list that is not complete.
    listing: BTreeMap<String, T>,
    /// UIDs of objects that were removed, of which the watch may still tell older things.
    gone: BTreeSet<String>,
    /// Whether a list was ever complete.
    pub(super) is_synced: bool,
}

impl<T> Default for ObjectStore<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listing: BTreeMap::new(),
            gone: BTreeSet::new(),
            is_synced: false,
        }
    }
}

/// Whether `one` is known to be older than `other`.
fn is_older<T: KeptObject>(one: &T, other: &T) -> bool {
    matches!((one.version(), other.version()), (Some(one), Some(other)) if one < other)
}

impl<T: KeptObject> ObjectStore<T> {
    /// Enters the watch's word.
    pub(super) fn hear(&mut self, event: Event<T>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => drop(self.listing.insert(object.key(), object)),
            Event::InitDone => {
                self.objects = std::mem::take(&mut self.listing);
                self.gone.clear();
                self.is_synced = true;
            }
            Event::Apply(object) => {
                if !object.uid().is_some_and(|uid| self.gone.contains(uid)) {
                    self.enter(object);
                }
            }
            Event::Delete(object) => {
                if let Some(uid) = object.uid() {
                    self.gone.remove(uid);
                }
                let is_it = |known: &T| !is_older(&object, known);
                if self.objects.get(&object.key()).is_some_and(is_it) {
                    self.objects.remove(&object.key());
                }
            }
        }
    }

    /// Enters an object as it was written or read.
    pub(super) fn enter(&mut self, object: T) {
        let is_news = |known: &T| !is_older(&object, known);
        if self.objects.get(&object.key()).is_none_or(is_news) {
            self.objects.insert(object.key(), object);
        }
    }

    /// Takes out an object that is gone.
    pub(super) fn forget(&mut self, key: &str) {
        let gone = self.objects.remove(key);
        self.gone.extend(gone.and_then(|object| object.uid().map(str::to_owned)));
    }

    /// All of them, by key.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &T)> {
        self.objects.iter()
    }

    /// The one of this key.
    pub(super) fn get(&self, key: &str) -> Option<&T> {
        self.objects.get(key)
    }

    /// How many there are, or are listed at the moment.
    pub(super) fn count(&self) -> usize {
        self.objects.len().max(self.listing.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Kept(&'static str, u64);

    impl KeptObject for Kept {
        fn key(&self) -> String {
            self.0.to_owned()
        }

        fn uid(&self) -> Option<&str> {
            Some(self.0)
        }

        fn version(&self) -> Option<u64> {
            Some(self.1)
        }
    }

    fn versions(store: &ObjectStore<Kept>) -> Vec<u64> {
        store.all().map(|(_, kept)| kept.1).collect()
    }

    #[test]
    fn an_older_word_does_not_undo_what_was_written() {
        let mut store = ObjectStore::default();
        store.enter(Kept("a", 9));
        for event in [Event::Apply, Event::Delete] {
            store.hear(event(Kept("a", 8)));
            assert_eq!(versions(&store), [9]);
        }
        store.hear(Event::Apply(Kept("a", 10)));
        assert_eq!(versions(&store), [10]);
        store.forget("a");
        store.hear(Event::Apply(Kept("a", 10)));
        assert_eq!(store.count(), 0, "it was removed");
        store.hear(Event::Delete(Kept("a", 11)));
        assert_eq!((store.count(), store.gone.len()), (0, 0));
    }

    #[test]
    fn a_list_counts_when_it_is_complete() {
        let mut store = ObjectStore::default();
        store.enter(Kept("a", 9));
        store.hear(Event::Init);
        store.hear(Event::InitApply(Kept("b", 7)));
        assert!(!store.is_synced && versions(&store) == [9]);
        // The watch drops, and the list begins anew.
        store.hear(Event::Init);
        store.hear(Event::InitApply(Kept("c", 8)));
        store.hear(Event::InitDone);
        assert!(store.is_synced && versions(&store) == [8] && store.get("b").is_none());
    }
}
