//! Device memory: finite for all clients together, in granules of 2 MiB, freed with its last holder.
//!
//! A block is held by clients (with a count each) and by exported descriptors. Its bytes lie at an
//! offset of the machine's one memory file; offsets are never used twice, so new memory reads as zeros
//! and a mapping that outlives its block aliases nobody else's. A process pays for the blocks it made
//! and, once their maker is gone, for those it is the first remaining holder of.
//!
//! Room that blocks and contexts leave of a card is managed memory's ([`super::managed`]), which gives way to
//! them. So memory is used up only when nothing of that is left to evict.
//!
//! Does not punch holes or pass descriptors: freed ranges are handed to the caller.

use crate::calibration::GRANULE_BYTES;
use crate::machine::description::Device;
use crate::machine::managed::{Managed, Moved, Run};
use crate::wire::{Charge, Refusal};
use std::collections::BTreeMap;

/// Offsets end here; at 1 GiB each that is four billion allocations.
const FILE_BYTES: u64 = 1 << 62;

/// A range of the memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A block of device memory.
#[derive(Clone, Debug)]
pub struct Block {
    /// The device it lies on.
    pub device: u32,
    /// Its purpose.
    pub charge: Charge,
    /// Where its bytes are.
    pub range: FileRange,
    /// The client it is charged to.
    pub payer: u64,
    holders: BTreeMap<u64, u32>,
    exports: u32,
}

#[derive(Debug)]
struct Card {
    total_bytes: u64,
    reserved_bytes: u64,
    /// Bytes of blocks and contexts.
    used_bytes: u64,
}

/// The memory of all devices.
#[derive(Debug)]
pub struct Memory {
    cards: Vec<Card>,
    blocks: BTreeMap<u64, Block>,
    managed: Managed,
    next_block: u64,
    next_offset: u64,
}

/// Figures of a device: total, reserved and used bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that can be allocated.
    pub total_bytes: u64,
    /// Bytes that the driver keeps.
    pub reserved_bytes: u64,
    /// Bytes held.
    pub used_bytes: u64,
}

impl Memory {
    /// The memory of these devices, all free.
    pub fn new(devices: &[Device]) -> Self {
        let cards = devices
            .iter()
            .map(|device| Card {
                total_bytes: device.total_bytes,
                reserved_bytes: device.nvml_total_bytes - device.total_bytes,
                used_bytes: 0,
            })
            .collect();
        let (blocks, managed) = (BTreeMap::new(), Managed::default());
        Self { cards, blocks, managed, next_block: 1, next_offset: 0 }
    }

    /// Size of the memory file.
    pub fn file_bytes() -> u64 {
        FILE_BYTES
    }

    /// Takes bytes that are no block, such as a context's; answers how many of managed memory went to the
    /// host for them.
    pub fn charge(&mut self, device: u32, bytes: u64) -> Result<u64, Refusal> {
        let card = self.cards.get_mut(device as usize).ok_or(Refusal::Unknown)?;
        let used = card.used_bytes.checked_add(bytes).ok_or(Refusal::OutOfMemory)?;
        let room_bytes = card.total_bytes.checked_sub(used).ok_or(Refusal::OutOfMemory)?;
        card.used_bytes = used;
        Ok(self.managed.make_room(device, room_bytes))
    }

    /// Gives such bytes back.
    pub fn discharge(&mut self, device: u32, bytes: u64) {
        if let Some(card) = self.cards.get_mut(device as usize) {
            card.used_bytes = card.used_bytes.saturating_sub(bytes);
        }
    }

    /// All managed memory, to be asked, made and ended.
    pub fn managed(&mut self) -> &mut Managed {
        &mut self.managed
    }

    /// Brings managed memory of a client to a device, in the room that is there.
    pub fn bring(
        &mut self,
        client: u64,
        object: u64,
        device: u32,
        run: Run,
    ) -> Result<Moved, Refusal> {
        let card = self.cards.get(device as usize).ok_or(Refusal::Unknown)?;
        let room_bytes = card.total_bytes - card.used_bytes;
        self.managed.bring(client, object, device, run, room_bytes)
    }

    /// Makes a block for a client; answers its number, and how many bytes of managed memory went to the host
    /// for it.
    pub fn allocate(
        &mut self,
        client: u64,
        device: u32,
        bytes: u64,
        charge: Charge,
    ) -> Result<(u64, u64), Refusal> {
        if bytes == 0 {
            return Err(Refusal::Invalid);
        }
        let bytes = bytes.checked_next_multiple_of(GRANULE_BYTES).ok_or(Refusal::OutOfMemory)?;
        let end = self.next_offset.checked_add(bytes).filter(|end| *end <= FILE_BYTES);
        let fits = self.cards.get(device as usize).is_some_and(|card| bytes <= card.total_bytes);
        let end = match (end, fits) {
            (None, true) => return Err(Refusal::Exhausted),
            (None, false) => return Err(Refusal::OutOfMemory),
            (Some(end), _) => end,
        };
        let evicted_bytes = self.charge(device, bytes)?;
        let id = self.next_block;
        self.next_block += 1;
        let range = FileRange { offset: self.next_offset, bytes };
        self.next_offset = end;
        let holders = BTreeMap::from([(client, 1)]);
        let block = Block { device, charge, range, payer: client, holders, exports: 0 };
        self.blocks.insert(id, block);
        Ok((id, evicted_bytes))
    }

    /// A block, whoever holds it.
    pub fn block(&self, id: u64) -> Option<&Block> {
        self.blocks.get(&id)
    }

    /// A block this client holds.
    pub fn held(&self, client: u64, id: u64) -> Result<&Block, Refusal> {
        let block = self.blocks.get(&id).ok_or(Refusal::Unknown)?;
        if block.holders.contains_key(&client) { Ok(block) } else { Err(Refusal::Unknown) }
    }

    /// One more hold of a client on a block.
    pub fn hold(&mut self, client: u64, id: u64) -> Result<&Block, Refusal> {
        let block = self.blocks.get_mut(&id).ok_or(Refusal::Unknown)?;
        *block.holders.entry(client).or_insert(0) += 1;
        if !block.holders.contains_key(&block.payer) {
            block.payer = client;
        }
        Ok(block)
    }

    /// One hold of a client less; the range is free if it was the last of all.
    pub fn release(&mut self, client: u64, id: u64) -> Result<Option<FileRange>, Refusal> {
        let block = self.blocks.get_mut(&id).ok_or(Refusal::Unknown)?;
        let count = block.holders.get_mut(&client).ok_or(Refusal::Unknown)?;
        *count -= 1;
        if *count == 0 {
            block.holders.remove(&client);
        }
        Ok(self.settle(id))
    }

    /// An exported descriptor holds the block from now on.
    pub fn export(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.exports += 1;
        }
    }

    /// An exported descriptor is closed everywhere.
    pub fn unexport(&mut self, id: u64) -> Option<FileRange> {
        let block = self.blocks.get_mut(&id)?;
        block.exports = block.exports.saturating_sub(1);
        self.settle(id)
    }

    /// A client is gone with all its holds; answers what is free by that.
    pub fn forget(&mut self, client: u64) -> Vec<FileRange> {
        self.managed.forget(client);
        let held: Vec<u64> = self
            .blocks
            .iter_mut()
            .filter_map(|(id, block)| block.holders.remove(&client).map(|_| *id))
            .collect();
        held.into_iter().filter_map(|id| self.settle(id)).collect()
    }

    /// Frees a block nobody holds; finds another payer for one whose payer let go.
    fn settle(&mut self, id: u64) -> Option<FileRange> {
        let block = self.blocks.get_mut(&id)?;
        if block.holders.contains_key(&block.payer) {
            return None;
        }
        if let Some(holder) = block.holders.keys().next() {
            block.payer = *holder;
            return None;
        }
        if block.exports > 0 {
            return None;
        }
        let (device, range) = (block.device, block.range);
        self.blocks.remove(&id);
        self.discharge(device, range.bytes);
        Some(range)
    }

    /// Figures of a device.
    pub fn figures(&self, device: u32) -> Result<Figures, Refusal> {
        let card = self.cards.get(device as usize).ok_or(Refusal::Unknown)?;
        Ok(Figures {
            total_bytes: card.total_bytes,
            reserved_bytes: card.reserved_bytes,
            used_bytes: card.used_bytes + self.managed.resident_bytes(device),
        })
    }

    /// Bytes of a device by paying client, as NVML lists them: managed memory is on nobody's account
    /// there, although the card is fuller by it.
    pub fn listed(&self, device: u32) -> BTreeMap<u64, u64> {
        let mut listed = BTreeMap::new();
        for block in self.blocks.values().filter(|block| block.device == device) {
            *listed.entry(block.payer).or_insert(0) += block.range.bytes;
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;
    use proptest::prelude::*;

    fn memory(total_bytes: u64) -> Memory {
        Memory::new(&[Device {
            name: "test".into(),
            uuid: [0; 16],
            nvml_total_bytes: total_bytes,
            speed_percent: 100,
            total_bytes,
            partition: Partition::Whole,
        }])
    }

    #[test]
    fn a_shared_block_lives_and_is_paid_for_until_its_last_holder_is_gone() {
        let mut memory = memory(64 << 20);
        let (id, _) = memory.allocate(1, 0, 5 << 20, Charge::Handle).unwrap();
        let range = memory.block(id).unwrap().range;
        assert_eq!(range.bytes, 6 << 20);
        memory.export(id);
        assert_eq!(memory.forget(1), []);
        assert_eq!(memory.figures(0).unwrap().used_bytes, 6 << 20);
        memory.hold(2, id).unwrap();
        assert_eq!(memory.listed(0).get(&2), Some(&(6 << 20)));
        assert_eq!(memory.unexport(id), None);
        memory.hold(3, id).unwrap();
        assert_eq!(memory.release(3, id), Ok(None));
        assert_eq!(memory.listed(0).get(&2), Some(&(6 << 20)));
        assert_eq!(memory.release(2, id), Ok(Some(range)));
        assert_eq!(memory.figures(0).unwrap().used_bytes, 0);
    }

    #[test]
    fn nobody_touches_what_is_not_his() {
        let mut memory = memory(64 << 20);
        let (id, _) = memory.allocate(1, 0, 1, Charge::Blocks).unwrap();
        assert_eq!(memory.release(2, id), Err(Refusal::Unknown));
        assert_eq!(memory.held(2, id).unwrap_err(), Refusal::Unknown);
        assert_eq!(memory.allocate(1, 1, 1, Charge::Blocks).unwrap_err(), Refusal::Unknown);
        assert_eq!(memory.allocate(1, 0, 0, Charge::Blocks).unwrap_err(), Refusal::Invalid);
        assert_eq!(
            memory.allocate(1, 0, u64::MAX, Charge::Blocks).unwrap_err(),
            Refusal::OutOfMemory
        );
    }

    #[test]
    fn what_does_not_fit_has_managed_memory_make_room_and_only_then_is_refused() {
        let mut memory = memory(32 << 20);
        let object = memory.managed().make(1, 64 << 20).unwrap();
        let moved = memory.bring(1, object, 0, (0, 32)).unwrap();
        assert_eq!((moved.evicted_bytes, moved.stayed_bytes), (32 << 20, 0));
        assert_eq!(memory.figures(0).unwrap().used_bytes, 32 << 20);
        let too_much = memory.allocate(2, 0, 33 << 20, Charge::Blocks);
        assert_eq!(too_much, Err(Refusal::OutOfMemory));
        let kept = memory.managed().resident_of(1, object, (0, 32));
        assert_eq!(kept, Ok(32 << 20), "a refusal evicts nothing");
        let (block, evicted_bytes) = memory.allocate(2, 0, 30 << 20, Charge::Blocks).unwrap();
        assert_eq!(evicted_bytes, 30 << 20);
        assert_eq!(memory.charge(0, 2 << 20), Ok(2 << 20));
        assert_eq!(memory.charge(0, 1), Err(Refusal::OutOfMemory));
        let moved = memory.bring(1, object, 0, (0, 32)).unwrap();
        assert_eq!((moved.came, moved.stayed_bytes), (vec![], 64 << 20));
        assert!(memory.release(2, block).unwrap().is_some());
        assert_eq!(memory.bring(1, object, 0, (0, 2)).unwrap().came, [(0, 2)]);
        assert_eq!(memory.listed(0), BTreeMap::new(), "on nobody's account");
    }

    proptest! {
        #[test]
        fn used_is_the_sum_of_the_living_and_never_more_than_the_card(
            steps in prop::collection::vec((0u8..10, 0u64..4, 0u64..9, 1u64..12), 1..160)
        ) {
            let mut memory = memory(32 << 20);
            let mut contexts = 0;
            for (step, client, number, mib) in steps {
                match step {
                    0 | 1 => {
                        let _ = memory.allocate(client, 0, mib << 20, Charge::Blocks);
                    }
                    2 => {
                        let _ = memory.hold(client, number);
                    }
                    3 | 4 => {
                        let _ = memory.release(client, number);
                    }
                    5 => {
                        let _ = memory.managed().make(client, mib << 20);
                    }
                    6 | 7 => {
                        let _ = memory.bring(client, number, 0, (0, mib / 2));
                    }
                    8 => {
                        contexts += if memory.charge(0, mib << 20).is_ok() { mib << 20 } else { 0 };
                    }
                    _ => {
                        let _ = memory.forget(client);
                        memory.discharge(0, contexts);
                        contexts = 0;
                    }
                }
                let figures = memory.figures(0).unwrap();
                let blocks: u64 = memory.blocks.values().map(|block| block.range.bytes).sum();
                let living = blocks + contexts + memory.managed.resident_bytes(0);
                prop_assert_eq!(figures.used_bytes, living);
                prop_assert!(figures.used_bytes <= figures.total_bytes);
                prop_assert_eq!(memory.listed(0).values().sum::<u64>(), blocks);
            }
            memory.discharge(0, contexts);
            (0..4).for_each(|client| drop(memory.forget(client)));
            prop_assert_eq!(memory.figures(0).unwrap().used_bytes, 0);
        }
    }
}
