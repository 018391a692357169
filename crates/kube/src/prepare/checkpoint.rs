//! Checkpoint: which names a claim may have on this node, and which claims are to be removed.
//!
//! Promises: it is read whole or not at all, and each name in it is its claim's own. Pure; the file is [`super::core`]'s.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids;
use super::size::ClaimSize;
use super::taken::TakenPart;

/// Version of the file.
pub(super) const VERSION: u64 = 2;
/// The one before, without sizes and without what is known of tenants.
const FIRST: u64 = 1;

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClaimCheckpoint {
    version: u64,
    boot_id: String,
    /// Whether it names all there is: not yet, where it was made again and the daemon could not be asked.
    pub(super) is_whole: bool,
    /// Changes so far.
    #[serde(default)]
    pub(super) writes: u64,
    /// Instance that made the last of them.
    #[serde(default)]
    pub(super) writer: String,
    /// Claims by their UIDs.
    pub(super) claims: BTreeMap<String, ClaimLine>,
}

/// One claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClaimLine {
    /// Its namespace and name, for people; empty where they are not known.
    pub(super) namespace: String,
    pub(super) name: String,
    /// Whether all of it is to go.
    pub(super) removing: bool,
    /// Ids of tenants that may be there, with their files.
    pub(super) ids: BTreeSet<String>,
    /// Ids of its shares, by which a device plugin knows its devices again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) shares: BTreeSet<String>,
    /// Size of its shares, where another than claimed was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<ClaimSize>,
    /// Parts that it has of cards, by their UUIDs; those of one that was found are what the daemon has for its tenants.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) taken: BTreeMap<String, TakenPart>,
    /// Request and cards of its tenants, by their ids; nothing of those that were found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tenants: BTreeMap<String, TenantLine>,
}

/// One tenant of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TenantLine {
    pub(super) request: String,
    /// UUIDs of the cards that it has a share of.
    pub(super) cards: BTreeSet<String>,
}

/// A file, as it turns out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundCheckpoint {
    /// Of this boot.
    Ours(ClaimCheckpoint),
    /// Of another one, of which nothing runs any more.
    OtherBoot(ClaimCheckpoint),
    /// Of a version that is not known.
    Newer(u64),
    /// None.
    Garbled,
}

impl ClaimCheckpoint {
    pub(super) fn new(boot_id: &str) -> Self {
        let (version, boot_id) = (VERSION, boot_id.to_owned());
        let (writes, writer, claims) = Default::default();
        Self { version, boot_id, is_whole: false, writes, writer, claims }
    }

    pub(super) fn read(bytes: &[u8], boot_id: &str) -> FoundCheckpoint {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return FoundCheckpoint::Garbled;
        };
        match value.get("version").and_then(Value::as_u64) {
            Some(FIRST..=VERSION) => {}
            Some(version) if version > VERSION => return FoundCheckpoint::Newer(version),
            _ => return FoundCheckpoint::Garbled,
        }
        let Ok(mut found) = serde_json::from_value::<Self>(value) else {
            return FoundCheckpoint::Garbled;
        };
        let is_own = |(uid, line): (&String, &ClaimLine)| {
            ids::is_uid(uid) && line.ids.iter().all(|id| ids::claim_of(id) == Some(uid))
        };
        found.version = VERSION;
        match found.claims.iter().all(is_own) {
            false => FoundCheckpoint::Garbled,
            true if found.boot_id == boot_id => FoundCheckpoint::Ours(found),
            true => FoundCheckpoint::OtherBoot(found),
        }
    }

    /// Text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Gives an id that was found to the claim that it names.
    pub(super) fn adopt(&mut self, id: &str) {
        if let Some(uid) = ids::claim_of(id) {
            let line = self.claims.entry(uid.to_owned()).or_default();
            line.ids.insert(id.to_owned());
        }
    }

    /// Claims whose parts of cards are not known.
    pub(super) fn without_parts(&mut self) -> impl Iterator<Item = &mut ClaimLine> {
        let lines = self.claims.values_mut();
        lines.filter(|line| !line.removing && line.taken.is_empty() && !line.ids.is_empty())
    }

    /// The same claims, all of them to be removed, in the checkpoint of another boot.
    pub(super) fn ended(self, boot_id: &str) -> Self {
        let mut new = Self::new(boot_id);
        new.claims = self.claims;
        new.claims.values_mut().for_each(|line| line.removing = true);
        new
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some() -> ClaimCheckpoint {
        let mut some = ClaimCheckpoint::new("boot");
        some.adopt(&ids::tenant_id("a-1", "gpu", ["s"]));
        some.adopt(&ids::tenant_id("a-1", "gpu", ["t"]));
        some.adopt(&ids::tenant_id("b-2", "gpu", ["s"]));
        some.adopt("train");
        some
    }

    #[test]
    fn it_is_read_as_it_was_written_and_of_another_boot_is_said_so() {
        let some = some();
        assert_eq!(some.claims.len(), 2);
        let read = |boot| ClaimCheckpoint::read(some.text().as_bytes(), boot);
        assert_eq!(read("boot"), FoundCheckpoint::Ours(some.clone()));
        assert_eq!(read("other"), FoundCheckpoint::OtherBoot(some.clone()));
        let newer = some.text().replace("\"version\": 2", "\"version\": 3");
        assert_eq!(ClaimCheckpoint::read(newer.as_bytes(), "boot"), FoundCheckpoint::Newer(3));
    }

    #[test]
    fn one_of_the_first_version_is_read_and_sizes_are_kept() {
        let first = some().text().replace("\"version\": 2", "\"version\": 1");
        let read = |text: &str| ClaimCheckpoint::read(text.as_bytes(), "boot");
        assert_eq!(read(&first), FoundCheckpoint::Ours(some()));
        let mut sized = some();
        let line = sized.claims.get_mut("a-1").unwrap();
        line.size = Some(ClaimSize { memory_bytes: Some(1 << 30), ..ClaimSize::default() });
        let (id, request) = (line.ids.first().unwrap().clone(), "gpu".to_owned());
        line.tenants.insert(id, TenantLine { request, cards: BTreeSet::new() });
        assert_eq!(read(&sized.text()), FoundCheckpoint::Ours(sized.clone()));
        let unknown = sized.text().replace("\"above\"", "\"below\"");
        assert_eq!(read(&unknown), FoundCheckpoint::Garbled);
    }

    #[test]
    fn one_that_was_cut_is_garbled_wherever_it_was() {
        let text = some().text();
        for end in 0..text.trim_end().len() {
            let found = ClaimCheckpoint::read(&text.as_bytes()[..end], "boot");
            assert_eq!(found, FoundCheckpoint::Garbled, "{end}");
        }
        for (from, to) in [
            ("\"version\": 2", "\"version\": 0"),
            ("\"version\": 2", "\"version\": \"2\""),
            ("\"isWhole\"", "\"whole\""),
            ("claim.a-1.", "claim.a-2."),
            ("\"a-1\"", "\"../a\""),
            ("claim.b-2.", "claim.b-2/"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            let found = ClaimCheckpoint::read(changed.as_bytes(), "boot");
            assert_eq!(found, FoundCheckpoint::Garbled, "{to}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(ClaimCheckpoint::read(&bytes, "boot"), FoundCheckpoint::Garbled);
        }
    }
}
