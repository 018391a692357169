//! Any text: the size grammar neither panics nor guesses.

use divvy_policy::size::{self, Limit};

/// One input; panics where it must not.
pub(crate) fn run(text: &str) {
    match size::parse(text) {
        Ok(Limit::Unlimited) => {
            let rest = text.strip_prefix('0').expect("only a written zero is unlimited");
            assert!(
                rest.len() <= 3 && rest.bytes().all(|b| b"bBkKmMgGtTiI".contains(&b)),
                "{text:?}"
            );
        }
        Ok(Limit::Bytes(bytes)) => assert!((1..=size::MAX_BYTES).contains(&bytes), "{text:?}"),
        Ok(limit @ Limit::Ppm(ppm)) => {
            assert!((1..=1_000_000).contains(&ppm) && text.ends_with('%'), "{text:?}");
            assert!(limit.resolve(1 << 40).is_some_and(|bytes| bytes <= 1 << 40));
        }
        Err(error) => assert!(error.to_string().contains(text)),
    }
}
