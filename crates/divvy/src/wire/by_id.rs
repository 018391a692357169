//! Requests about tenants that a daemon makes and keeps by an id, its answers, and the codes of its refusals.
//!
//! Promises: a field that is not known here is an error, never ignored: it may be a limit. A code is never given another
//! meaning; the words beside it are for people and may change. Values out of range are read and left to the daemon to refuse.

use serde::{Deserialize, Serialize};

/// A request about tenants by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TenantCall {
    /// Make a tenant, or find that it is there with these limits.
    Create {
        /// Its id, of 1 to 128 characters.
        id: String,
        /// Its user, whom only root may name; by default who asks.
        #[serde(default)]
        uid: Option<u32>,
        /// All its limits.
        limits: TenantLimits,
    },
    /// Give a tenant these limits in the place of those that it has.
    Set {
        /// As above.
        id: String,
        /// As above.
        #[serde(default)]
        uid: Option<u32>,
        /// All its limits.
        limits: TenantLimits,
    },
    /// Look at a tenant.
    Stat {
        /// As above.
        id: String,
        /// As above.
        #[serde(default)]
        uid: Option<u32>,
    },
    /// Look at all of a user's tenants, or at everybody's where root names no user.
    List {
        /// As above.
        #[serde(default)]
        uid: Option<u32>,
    },
    /// Remove a tenant; one that is not there is removed.
    Remove {
        /// As above.
        id: String,
        /// As above.
        #[serde(default)]
        uid: Option<u32>,
    },
}

/// All limits of a tenant; what may be left out has a default, which is never "whatever it was".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Devices of which it may have memory, at least one; it gets none of any other.
    pub devices: Vec<DeviceLimits>,
    /// 1 to 10000, against others that want a device too.
    #[serde(default)]
    pub weight: Option<u32>,
    /// `high`, `normal` or `low`.
    #[serde(default)]
    pub priority: Option<String>,
    /// `latency` or `normal`.
    #[serde(default)]
    pub class: Option<String>,
    /// Whether its memory may leave the card; settled when it is made.
    #[serde(default)]
    pub oversubscribe: bool,
}

/// Limits on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLimits {
    /// The device, as the driver's tools print it.
    pub uuid: String,
    /// Bytes of its memory, at least one.
    pub memory_bytes: u64,
    /// Millionths of its time; by default, and at 1000000, no cap.
    #[serde(default)]
    pub share_ppm: Option<u32>,
}

/// A tenant by id, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantReport {
    /// Its id.
    pub id: String,
    /// Its user.
    pub uid: u32,
    /// Its directory: that of a container is mounted into it.
    pub directory: String,
    /// Whether this daemon gives it turns.
    pub served: bool,
    /// Why not, as a reason code; absent where it does, or has not looked yet.
    #[serde(default)]
    pub reason: Option<String>,
    /// The reason in words.
    #[serde(default)]
    pub detail: Option<String>,
    /// Whether any process has ever joined it.
    pub joined: bool,
    /// Living processes in it.
    pub processes: u32,
    /// Limits of memory as a command line has them. The one without a device, of a byte, is that of all others.
    pub memory: Vec<String>,
    /// The same of device time.
    pub compute: Vec<String>,
    /// 0 is the default.
    pub weight: u32,
    /// Its priority.
    pub priority: String,
    /// Its class.
    pub class: String,
    /// Whether its memory may leave the card.
    pub oversubscribe: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// Devices with limits, and those that its processes have met.
    pub devices: Vec<TenantDeviceReport>,
}

/// A device of a tenant by id, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantDeviceReport {
    /// The device.
    pub uuid: String,
    /// The limit that holds; absent for none.
    pub limit_bytes: Option<u64>,
    /// The cap that holds; absent for none.
    pub share_ppm: Option<u32>,
    /// Bytes held.
    pub held_bytes: u64,
    /// The most that was ever held.
    pub peak_bytes: u64,
    /// Requests for memory that were refused.
    pub refusals: u64,
}

/// Codes of refusals, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// A frame or a field that is not understood.
    BadRequest,
    /// Another version of the requests.
    BadVersion,
    /// No id.
    BadId,
    /// A limit out of range, twice, or missing.
    BadLimit,
    /// A device that the machine has not.
    UnknownDevice,
    /// No such tenant.
    UnknownTenant,
    /// It is there with other limits, or cannot become so.
    Differs,
    /// Another user's.
    NotYours,
    /// No place for one more.
    TooMany,
    /// A directory that programs could not join.
    LongPath,
    /// Too many connections.
    Busy,
    /// The daemon failed.
    Failed,
}

impl RefusalCode {
    /// Every code, its word, and its meaning with what a client does about it.
    pub const ALL: &[(Self, &str, &str)] = &[
        (
            Self::BadRequest,
            "bad-request",
            "a frame, a request or a field is not understood; nothing was done. A newer client may ask an older daemon so",
        ),
        (Self::BadVersion, "bad-version", "requests of another version; the words name both"),
        (
            Self::BadId,
            "bad-id",
            "an id is not 1 to 128 of `A-Z`, `a-z`, `0-9`, `.`, `_`, `-`, or begins with a dot",
        ),
        (
            Self::BadLimit,
            "bad-limit",
            "a limit is missing, out of range, or given twice for a device; nothing was done",
        ),
        (Self::UnknownDevice, "unknown-device", "the machine has no GPU of that UUID"),
        (
            Self::UnknownTenant,
            "unknown-tenant",
            "`set` or `stat` of an id that is not there: create it",
        ),
        (
            Self::Differs,
            "differs",
            "`create` of an id that is there with other limits: `set` them. `set` of what is settled when a tenant is \
             made: remove it and create it",
        ),
        (Self::NotYours, "not-yours", "`uid` is another user's, and who asks is not root"),
        (
            Self::TooMany,
            "too-many",
            "the user, or the daemon, has all tenants that it may have: remove some",
        ),
        (
            Self::LongPath,
            "long-path",
            "the tenant's directory would have more than 200 bytes, and no program could join: a shorter id",
        ),
        (Self::Busy, "busy", "all connections are taken: ask again in a second"),
        (
            Self::Failed,
            "failed",
            "the system refused something, as the words say: ask again when that is mended; what was begun is finished or \
             swept",
        ),
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(code, ..)| *code == self).map_or("failed", |(_, word, _)| word)
    }
}

impl std::fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TenantCall, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_wherever_it_stands() {
        let good = r#"{"create":{"id":"a","limits":{"devices":[{"uuid":"u","memory_bytes":1}]}}}"#;
        let TenantCall::Create { limits, uid: None, .. } = read(good).unwrap() else { panic!() };
        assert_eq!((limits.devices[0].memory_bytes, limits.oversubscribe), (1, false));
        for (from, to) in [
            (r#""id":"a","#, r#""id":"a","memory":1,"#),
            (r#""devices""#, r#""memory_limit":1,"devices""#),
            (r#""uuid":"u""#, r#""uuid":"u","cores":30"#),
            (r#""memory_bytes":1"#, r#""memory_bytes":"8GiB""#),
            (r#""memory_bytes":1"#, r#""memory_bytes":-1"#),
            (r#""memory_bytes":1"#, r#""memory_bytes":1.5"#),
            (r#""memory_bytes":1"#, r#""memory_bytes":null"#),
            (r#","memory_bytes":1"#, ""),
            (r#""memory_bytes":1"#, r#""memory_bytes":1,"memory_bytes":2"#),
            (r#""memory_bytes":1"#, r#""memory_bytes":99999999999999999999"#),
            (r#""devices""#, r#""weight":4294967296,"devices""#),
            ("create", "make"),
        ] {
            assert!(read(&good.replace(from, to)).is_err(), "{to}");
        }
        assert!(read(r#"{"list":{}}"#).is_ok() && read(r#"{"remove":{}}"#).is_err());
    }

    #[test]
    fn every_code_has_one_word_of_its_own() {
        let mut words: Vec<_> = RefusalCode::ALL.iter().map(|(_, word, _)| *word).collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
        // The last is declared last: none is left out of the table.
        assert_eq!(RefusalCode::Failed as usize + 1, count);
        for (code, word, meaning) in RefusalCode::ALL {
            assert_eq!(&code.to_string(), word);
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{word}");
            assert!(!meaning.is_empty());
        }
    }
}
