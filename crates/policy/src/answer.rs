//! Answers to a limited tenant's queries of a card's memory: the same figures for every query.

/// Memory of one device as the tenant sees it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// The smaller of limit and card.
    pub total_bytes: u64,
    /// Bytes held by the tenant, never more than `total_bytes`.
    pub used_bytes: u64,
    /// Bytes it can still get.
    pub free_bytes: u64,
}

/// Total = min(limit, card), used = the tenant's, free = min(limit − used, what the card has free).
///
/// `limit_bytes` is `None` without a limit; the answer is then the driver's own.
pub const fn memory(
    limit_bytes: Option<u64>,
    tenant_bytes: u64,
    card_total_bytes: u64,
    card_free_bytes: u64,
) -> Memory {
    let Some(limit) = limit_bytes else {
        return Memory {
            total_bytes: card_total_bytes,
            used_bytes: card_total_bytes.saturating_sub(card_free_bytes),
            free_bytes: card_free_bytes,
        };
    };
    let total_bytes = if limit < card_total_bytes { limit } else { card_total_bytes };
    let used_bytes = if tenant_bytes < total_bytes { tenant_bytes } else { total_bytes };
    let left = total_bytes - used_bytes;
    Memory {
        total_bytes,
        used_bytes,
        free_bytes: if left < card_free_bytes { left } else { card_free_bytes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_never_underflows_and_never_exceeds_the_card() {
        let over = memory(Some(100), 130, 1000, 500);
        assert_eq!(over, Memory { total_bytes: 100, used_bytes: 100, free_bytes: 0 });
        let tight = memory(Some(100), 10, 1000, 20);
        assert_eq!(tight.free_bytes, 20);
        let wide = memory(Some(5000), 10, 1000, 900);
        assert_eq!(wide.total_bytes, 1000);
        assert_eq!(memory(None, 10, 1000, 900).used_bytes, 100);
    }
}
