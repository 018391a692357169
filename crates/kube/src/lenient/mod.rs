//! Reading what others have written into the API server, so that one odd object stops nothing but itself.
//!
//! Go takes JSON that `serde_json` does not: half of a surrogate pair, bytes that are no UTF-8, any depth. The API server keeps such
//! bytes in the opaque parts of a claim, and every editor of a namespace may write those. [`client`] makes a client whose answers are
//! mended before they are read, lists and watches alike ([`mend`]); [`Item`] reads each object by itself, so that one of a type
//! that is not understood is one item with words, and its list goes on.
//!
//! Promises: what is valid and no deeper than [`mend::MOST_LEVELS`] comes through byte for byte. Does not judge what is read.

mod body;
mod item;
mod mend;

use kube::client::ClientBuilder;
use kube::config::Config;
use kube::core::ObjectList;
use serde::de::DeserializeOwned;
use tower::util::MapResponseLayer;

use self::body::MendedBody;
pub(crate) use self::item::{Item, mapped};

/// A client whose answers are mended.
pub(crate) fn client(config: Config) -> kube::Result<kube::Client> {
    let mended = MapResponseLayer::new(|answer: http::Response<_>| answer.map(MendedBody::new));
    Ok(ClientBuilder::try_from(config)?.with_layer(&mended).build())
}

/// Objects of a list's bytes that are understood.
pub(crate) fn list<K: DeserializeOwned + Clone>(bytes: &[u8]) -> Result<Vec<K>, String> {
    let list: ObjectList<Item<K>> =
        serde_json::from_slice(&mended(bytes)).map_err(|error| error.to_string())?;
    Ok(list.items.into_iter().filter_map(|item| item.read().ok()).collect())
}

/// An object of these bytes, as an answer is read.
///
/// # Errors
/// In words.
pub fn object<K: DeserializeOwned>(bytes: &[u8]) -> Result<K, String> {
    let item: Item<K> =
        serde_json::from_slice(&mended(bytes)).map_err(|error| error.to_string())?;
    item.read()
}

/// Mends all bytes at once, as the fuzzer and tests do.
pub fn mended(bytes: &[u8]) -> Vec<u8> {
    let (mut mender, mut out) = (mend::Mender::default(), Vec::new());
    mender.feed(bytes, &mut out);
    mender.end(&mut out);
    out
}
