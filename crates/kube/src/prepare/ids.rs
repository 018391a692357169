//! Names on the node, each a pure function of a claim's UID, the request and the ids of its shares.
//!
//! Promises: an id is valid for the daemon and for CDI, has at most 87 bytes, and says which claim it belongs to. So what is
//! found on the node can be given to its claim with no other record.

use crate::fnv::{BASIS, fnv_1a};

/// Beginning of an id.
const PREFIX: &str = "claim.";
/// Beginning and end of the name of a CDI file.
const FILE: (&str, &str) = ("divvy-", ".json");
/// The same of one that is being written, which no runtime reads.
const ASIDE: (&str, &str) = (".", ".new");
/// The longest UID. One of Kubernetes has 36.
const MOST_UID_BYTES: usize = 64;
/// Digits of the hash.
const DIGITS: usize = 16;
/// Vendor and class of our CDI devices.
pub(super) const KIND: &str = "divvy.dev/share";

/// Whether a text can be a claim's UID.
pub(super) fn is_uid(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MOST_UID_BYTES).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(plain)
}

/// Id of the tenant of a request's shares, in whichever order those come.
pub(super) fn tenant_id<'a>(
    uid: &str,
    request: &str,
    shares: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut shares: Vec<&str> = shares.into_iter().collect();
    shares.sort_unstable();
    // Each with its length: no two lists of texts run together to one.
    let parts = std::iter::once(request).chain(shares);
    let hash = parts.fold(BASIS, |hash, part| {
        fnv_1a(fnv_1a(hash, &(part.len() as u64).to_le_bytes()), part.as_bytes())
    });
    format!("{PREFIX}{uid}.{hash:0DIGITS$x}")
}

/// UID of the claim that an id belongs to; `None` for what is no id of ours.
pub(super) fn claim_of(id: &str) -> Option<&str> {
    let (uid, hash) = id.strip_prefix(PREFIX)?.split_once('.')?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (is_uid(uid) && hash.len() == DIGITS && hash.bytes().all(is_digit)).then_some(uid)
}

/// CDI device of a tenant.
pub(super) fn cdi_device(id: &str) -> String {
    format!("{KIND}={id}")
}

/// Tenant of a CDI device; `None` for a device that is none of ours.
pub(crate) fn tenant_of_device(device: &str) -> Option<&str> {
    let id = device.strip_prefix(KIND)?.strip_prefix('=')?;
    claim_of(id).map(|_| id)
}

/// Name of the file that describes it.
pub(super) fn cdi_file(id: &str) -> String {
    format!("{}{id}{}", FILE.0, FILE.1)
}

/// Name of a file while it is being written.
pub(super) fn aside(name: &str) -> String {
    format!("{}{name}{}", ASIDE.0, ASIDE.1)
}

/// Id that a file is of, also of one that is being written; `None` for what is no file of ours.
pub(super) fn id_of_file(name: &str) -> Option<&str> {
    let whole = name.strip_prefix(ASIDE.0).and_then(|rest| rest.strip_suffix(ASIDE.1));
    let id = whole.unwrap_or(name).strip_prefix(FILE.0)?.strip_suffix(FILE.1)?;
    claim_of(id).map(|_| id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_that_was_given_stays() {
        let id = tenant_id("3f0c-1", "gpu", ["b", "a"]);
        assert_eq!(id, "claim.3f0c-1.da5547b04fda00fd");
        assert_eq!(cdi_device(&id), format!("divvy.dev/share={id}"));
        assert_eq!(id_of_file(&aside(&cdi_file(&id))), Some(&*id));
    }

    #[test]
    fn what_is_no_id_of_ours_belongs_to_no_claim() {
        for id in ["", "claim.", "claim.u", "claim.u.", "claim.u.0123", "job.u.0123456789abcdef"] {
            assert_eq!(claim_of(id), None, "{id}");
        }
        for id in
            ["claim..0123456789abcdef", "claim.u/v.0123456789abcdef", "claim.u.0123456789abcdeG"]
        {
            assert_eq!(claim_of(id), None, "{id}");
        }
        for name in
            ["divvy-train.json", "nvidia.yaml", ".json", "divvy-.json", "claim.u.0123456789abcdef"]
        {
            assert_eq!(id_of_file(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn an_id_is_valid_short_and_its_claims(
            uid in "[a-zA-Z0-9][a-zA-Z0-9-]{0,63}", request in "\\PC{0,127}",
            mut shares in prop::collection::vec("\\PC{0,40}", 0..5),
        ) {
            let id = tenant_id(&uid, &request, shares.iter().map(String::as_str));
            prop_assert!(id.len() <= 87 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b)));
            prop_assert_eq!(claim_of(&id), Some(&*uid));
            let device = cdi_device(&id);
            prop_assert_eq!(tenant_of_device(&device), Some(&*id));
            let file = cdi_file(&id);
            prop_assert_eq!(id_of_file(&file), Some(&*id));
            shares.reverse();
            prop_assert_eq!(tenant_id(&uid, &request, shares.iter().map(String::as_str)), id.clone());
            prop_assert_ne!(tenant_id(&uid, &format!("{request}x"), shares.iter().map(String::as_str)), id);
        }

        #[test]
        fn texts_do_not_run_together(a in "[ab]{0,4}", b in "[ab]{0,4}", c in "[ab]{0,4}", d in "[ab]{0,4}") {
            prop_assert_eq!(tenant_id("u", &a, [&*b]) == tenant_id("u", &c, [&*d]), (a, b) == (c, d));
        }

        #[test]
        fn no_name_panics(name in "\\PC*") {
            let _ = (claim_of(&name), id_of_file(&name), is_uid(&name), tenant_of_device(&name));
        }
    }
}
