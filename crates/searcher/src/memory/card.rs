//! A card, its link and the host: bytes that are there.
//!
//! Promises: the driver gives no more than the card has; what was released is clean after a while, and a create that needs
//! it waits so long.

use std::collections::VecDeque;

/// Rate of the link one way, in bytes a second.
pub const LINK_BYTES_PER_S: u64 = 50_000_000_000;
/// Time for which the driver clears what was released.
const CLEAR_NS: u64 = 7_700_000;

/// Bytes of a card and of the host.
#[derive(Debug)]
pub struct MemoryCard {
    /// Its size.
    pub card_bytes: u64,
    /// Bytes that exist there, of the memory that can leave.
    pub there_bytes: u64,
    /// Bytes there that cannot: of tenants, and of others.
    pub fixed_bytes: [u64; 2],
    /// Room of the host.
    pub host_bytes: u64,
    /// Bytes that are on the host.
    pub away_bytes: u64,
    /// The most that were ever away beyond what did not fit the card.
    pub most_away_bytes: u64,
    clearing: VecDeque<(u64, u64)>,
}

impl MemoryCard {
    /// An empty one.
    pub fn new(card_bytes: u64, host_bytes: u64) -> Self {
        let clearing = VecDeque::new();
        Self {
            card_bytes,
            there_bytes: 0,
            fixed_bytes: [0; 2],
            host_bytes,
            away_bytes: 0,
            most_away_bytes: 0,
            clearing,
        }
    }

    /// Bytes that memory which can leave could have, were there none.
    pub fn room_bytes(&self) -> u64 {
        self.card_bytes - self.fixed_bytes[0] - self.fixed_bytes[1]
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.room_bytes() - self.there_bytes
    }

    /// Memory that cannot leave, of tenants or of others, is to be so much, and is as much as finds room.
    pub fn fix(&mut self, of: usize, bytes: u64, now_ns: u64) {
        let most_bytes = self.fixed_bytes[of] + self.free_bytes();
        let before_bytes = std::mem::replace(&mut self.fixed_bytes[of], bytes.min(most_bytes));
        let less_bytes = before_bytes.saturating_sub(bytes);
        self.clearing.push_back((now_ns + CLEAR_NS, less_bytes));
    }

    /// Makes memory: when it is there, or `None` where the card is full.
    pub fn create(&mut self, bytes: u64, now_ns: u64) -> Option<u64> {
        while self.clearing.front().is_some_and(|(until_ns, _)| *until_ns <= now_ns) {
            self.clearing.pop_front();
        }
        let free_bytes = self.free_bytes();
        if bytes > free_bytes {
            return None;
        }
        self.there_bytes += bytes;
        let dirty_bytes: u64 = self.clearing.iter().map(|(_, bytes)| *bytes).sum();
        let mut short_bytes = bytes.saturating_sub(free_bytes.saturating_sub(dirty_bytes));
        let mut when_ns = now_ns;
        while short_bytes > 0
            && let Some((until_ns, cleared_bytes)) = self.clearing.front_mut()
        {
            when_ns = *until_ns;
            let taken_bytes = short_bytes.min(*cleared_bytes);
            short_bytes -= taken_bytes;
            *cleared_bytes -= taken_bytes;
            if *cleared_bytes == 0 {
                self.clearing.pop_front();
            }
        }
        Some(when_ns)
    }

    /// Gives memory back to the driver.
    pub fn release(&mut self, bytes: u64, now_ns: u64) {
        self.there_bytes -= bytes;
        self.clearing.push_back((now_ns + CLEAR_NS, bytes));
    }

    /// Takes room on the host for a copy; false where there is none.
    pub fn take_host(&mut self, bytes: u64) -> bool {
        let fits = self.away_bytes + bytes <= self.host_bytes;
        self.away_bytes += if fits { bytes } else { 0 };
        fits
    }
}
