//! Any bytes as a manifest: the converter neither panics nor leaves a GPU without its limit.

use divvy_kube::Outcome;
use divvy_kube::convert::{self, Options};

/// One input; panics where it must not.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(result) =
        convert::file(bytes, Options { card_bytes: Some(80 << 30), ..Options::default() })
    else {
        return;
    };
    let again = convert::file(result.text.as_bytes(), Options::default());
    let again = again.unwrap_or_else(|error| panic!("what is written cannot be read: {error:?}"));
    // What was converted has nothing left to convert, and what was refused is not there.
    assert!(again.documents.iter().all(|it| it.outcome == Outcome::Passed), "{}", result.text);
    let refused = result.documents.iter().filter(|it| it.outcome == Outcome::Refused).count();
    assert!(again.documents.len() + refused >= result.documents.len());
}
