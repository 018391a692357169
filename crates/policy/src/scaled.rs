//! Products and quotients of 64 bits, without the wider division that a preloaded library would have to bring along.

/// `value` times `by`, divided by `of` and rounded down; [`u64::MAX`] beyond, and where `of` is 0.
///
/// Exact while `of` times `by` fits into 64 bits; else less by no more than `by`.
#[inline(never)]
pub(crate) fn scaled(value: u64, by: u64, of: u64) -> u64 {
    let (Some(whole), Some(rest)) = (value.checked_div(of), value.checked_rem(of)) else {
        return u64::MAX;
    };
    let rest = rest.saturating_mul(by).checked_div(of).unwrap_or(0);
    whole.saturating_mul(by).saturating_add(rest)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_does_not_fit_is_the_most() {
        assert_eq!(scaled(7, 3, 0), u64::MAX);
        assert_eq!(scaled(u64::MAX, u64::MAX, 1), u64::MAX);
        assert_eq!(scaled(u64::MAX, 2, 1), u64::MAX);
        assert_eq!(scaled(0, u64::MAX, u64::MAX), 0);
    }

    proptest! {
        #[test]
        fn it_is_exact_for_parts_of_seconds(value: u64, by in 0..=2_000_000_000_u64, of in 1..=2_000_000_000_u64) {
            let exact = u128::from(value) * u128::from(by) / u128::from(of);
            prop_assert_eq!(u128::from(scaled(value, by, of)), exact.min(u64::MAX.into()));
        }
    }
}
