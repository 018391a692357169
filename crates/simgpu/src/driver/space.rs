//! Device addresses: which are free, what lies at each, and how it is reached from this process.
//!
//! Promises: a device address never equals a host address of the bytes behind it, so translation is
//! always exercised; small blocks share 2 MiB granules as measured on the H200 (up to 1 MiB they
//! share, first fit, 512-byte aligned; larger ones take granules of their own).
//! Does not decide which context may free what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use super::error::*;
use super::machine::Block;
use super::objects::managed::{Managed, Part};
use super::objects::runs;
use crate::sys::driver::Answer;
use crate::sys::mapping::{Program, Span};

/// The unit in which physical memory is taken.
pub(crate) const GRANULE_BYTES: u64 = 2 << 20;
/// Blocks up to this size share granules.
const SHARED_BYTES: u64 = 1 << 20;
const ALIGN_BYTES: u64 = 512;
/// Where device addresses lie. Linux places nothing of a program here.
const DEVICE_BASE: u64 = 0x0a00_0000_0000;
const DEVICE_END: u64 = 0x5000_0000_0000;
/// Addresses for the calls of CUDA 3.1 and older, whose pointers have 32 bits.
const LOW_BASE: u64 = 0x2000_0000;
const LOW_END: u64 = 0xe000_0000;

/// Kind of a range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocManaged`: device and host address are the same.
    Managed,
    /// `cuMemHostAlloc`.
    Host,
    /// `cuMemHostRegister`.
    Registered,
    /// A mapped VMM handle.
    Mapped,
    /// Allocated from a pool.
    Pool,
    /// A module's or library's global.
    Global,
    /// Opened from another process's legacy handle.
    Ipc,
    /// Behind an array; no program knows the address.
    Array,
    /// Owned by a graph's allocation node.
    Graph,
}

/// A used range.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) base: u64,
    /// As the program asked.
    pub(crate) bytes: u64,
    /// Address space it takes.
    pub(crate) reserved_bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    /// Index among the visible devices; -1 for host memory.
    pub(crate) device: i32,
    pub(crate) block: Option<Arc<dyn Block>>,
    /// Where in the block it starts.
    pub(crate) offset: u64,
    /// The pool, module or VMM handle it belongs to.
    pub(crate) owner: u64,
    /// The flags it was made with.
    pub(crate) flags: u32,
    /// Whether the device may touch it.
    pub(crate) accessible: bool,
    /// Flags of the other devices that may: of what was mapped, those whose access was set.
    pub(crate) reached_by: BTreeMap<i32, u32>,
    /// Distinguishes successive users of one address.
    pub(crate) id: u64,
    pub(crate) sync_memops: bool,
    /// Whether a small block shares its granule.
    packed: bool,
    /// Whether its address must fit 32 bits.
    pub(crate) is_low: bool,
    /// Pool memory: the chunks it lies in, by the address each starts at.
    pub(crate) chunks: Vec<(u64, Arc<dyn Block>)>,
    /// Managed memory: which of it is on a device, and what was said about it.
    pub(crate) managed: Option<Arc<Managed>>,
}

impl Range {
    pub(crate) fn new(base: u64, bytes: u64, kind: Kind, context: u64, device: i32) -> Self {
        Self {
            base,
            bytes,
            reserved_bytes: 0,
            kind,
            context,
            device,
            block: None,
            offset: 0,
            owner: 0,
            flags: 0,
            accessible: true,
            reached_by: BTreeMap::new(),
            id: 0,
            sync_memops: false,
            packed: false,
            is_low: false,
            chunks: Vec::new(),
            managed: None,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.base.saturating_add(self.bytes)
    }
}

/// A contiguous run of bytes that copies and kernels can reach.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    /// None: nothing lies behind it (null mode).
    pub(crate) span: Option<Span>,
    _alive: Option<Arc<dyn Block>>,
}

struct Granule {
    block: Arc<dyn Block>,
    free: BTreeMap<u64, u64>,
}

impl Granule {
    fn largest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }
}

/// The address space of a process's driver.
pub(crate) struct Space {
    free: BTreeMap<u64, u64>,
    ranges: BTreeMap<u64, Range>,
    granules: BTreeMap<u64, Granule>,
    /// Granules of (context) with room.
    open: BTreeSet<(u64, u64)>,
    next_id: u64,
    managed_ranges: usize,
    /// Memory pools hold, by where it starts: reachable whether or not it is allocated, so that work
    /// queued before a free still finds what it uses.
    backed: BTreeMap<u64, Weak<dyn Block>>,
    /// The program whose memory lies at all other addresses; a driver without one reaches none of it.
    pub(crate) program: Option<Program>,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            free: BTreeMap::from([
                (LOW_BASE, LOW_END - LOW_BASE),
                (DEVICE_BASE, DEVICE_END - DEVICE_BASE),
            ]),
            ranges: BTreeMap::new(),
            granules: BTreeMap::new(),
            open: BTreeSet::new(),
            next_id: 1,
            managed_ranges: 0,
            program: None,
            backed: BTreeMap::new(),
        }
    }
}

/// Small blocks share granules with those of the same context and kind of address.
fn packing_key(range: &Range) -> u64 {
    range.context | u64::from(range.is_low)
}

/// Rounds up to a multiple of a power of two.
pub(crate) fn round_up(value: u64, unit: u64) -> Answer<u64> {
    value.checked_next_multiple_of(unit).ok_or(OUT_OF_MEMORY)
}

impl Space {
    /// Whether an address can only be a device address.
    pub(crate) fn is_device_address(at: u64) -> bool {
        (DEVICE_BASE..DEVICE_END).contains(&at)
    }

    /// Takes free addresses; `hint` is honoured when it is free.
    pub(crate) fn reserve(&mut self, bytes: u64, align: u64, hint: u64) -> Answer<u64> {
        self.reserve_from(DEVICE_BASE, bytes, align, hint)
    }

    fn reserve_from(&mut self, lowest: u64, bytes: u64, align: u64, hint: u64) -> Answer<u64> {
        let align = align.max(GRANULE_BYTES);
        if hint != 0 && hint.is_multiple_of(align) && self.take(hint, bytes).is_ok() {
            return Ok(hint);
        }
        let fits = |(start, length): (&u64, &u64)| {
            let base = start.checked_next_multiple_of(align)?;
            (base.checked_add(bytes)? <= start + length).then_some(base)
        };
        let base = self.free.range(lowest..).find_map(fits).ok_or(OUT_OF_MEMORY)?;
        self.take(base, bytes)?;
        Ok(base)
    }

    fn take(&mut self, base: u64, bytes: u64) -> Answer {
        let end = base.checked_add(bytes).ok_or(INVALID_VALUE)?;
        let (start, length) =
            self.free.range(..=base).next_back().map(|(s, l)| (*s, *l)).ok_or(INVALID_VALUE)?;
        if start + length < end {
            return Err(INVALID_VALUE);
        }
        self.free.remove(&start);
        if base > start {
            self.free.insert(start, base - start);
        }
        if start + length > end {
            self.free.insert(end, start + length - end);
        }
        Ok(())
    }

    /// Gives addresses back.
    pub(crate) fn give_back(&mut self, base: u64, bytes: u64) {
        runs::add(&mut self.free, base, bytes);
    }

    /// Records a range whose addresses its maker owns.
    pub(crate) fn add(&mut self, mut range: Range) -> u64 {
        range.id = self.next_id;
        self.next_id += 1;
        let base = range.base;
        self.managed_ranges += usize::from(range.managed.is_some());
        self.ranges.insert(base, range);
        base
    }

    /// Gives `range` device addresses and physical memory, sharing a granule when it is small.
    /// `take` gets physical memory of the asked size.
    pub(crate) fn place(
        &mut self,
        mut range: Range,
        mut take: impl FnMut(u64) -> Answer<Arc<dyn Block>>,
    ) -> Answer<u64> {
        if range.bytes > SHARED_BYTES {
            let bytes = round_up(range.bytes, GRANULE_BYTES)?;
            let block = take(bytes)?;
            let lowest = if range.is_low { LOW_BASE } else { DEVICE_BASE };
            range.base = self.reserve_from(lowest, bytes, GRANULE_BYTES, 0)?;
            range.reserved_bytes = bytes;
            range.block = Some(block);
            return Ok(self.add(range));
        }
        let bytes = round_up(range.bytes, ALIGN_BYTES)?;
        let context = packing_key(&range);
        let open = self.open.range((context, 0)..=(context, u64::MAX));
        let found = open
            .map(|(_, base)| *base)
            .find(|base| self.granules.get(base).is_some_and(|g| g.largest() >= bytes));
        let granule = match found {
            Some(base) => base,
            None => {
                let block = take(GRANULE_BYTES)?;
                let lowest = if range.is_low { LOW_BASE } else { DEVICE_BASE };
                let base = self.reserve_from(lowest, GRANULE_BYTES, GRANULE_BYTES, 0)?;
                let free = BTreeMap::from([(0, GRANULE_BYTES)]);
                self.granules.insert(base, Granule { block, free });
                self.open.insert((context, base));
                base
            }
        };
        let room = self.granules.get_mut(&granule).ok_or(UNKNOWN)?;
        let (at, length) =
            room.free.iter().find(|(_, l)| **l >= bytes).map(|(a, l)| (*a, *l)).ok_or(UNKNOWN)?;
        room.free.remove(&at);
        if length > bytes {
            room.free.insert(at + bytes, length - bytes);
        }
        if room.free.is_empty() {
            self.open.remove(&(context, granule));
        }
        range.base = granule + at;
        range.reserved_bytes = bytes;
        range.offset = at;
        range.packed = true;
        range.block = Some(Arc::clone(&room.block));
        Ok(self.add(range))
    }

    /// Forgets the range that starts at `base`; its addresses and its share of a granule are free.
    pub(crate) fn remove(&mut self, base: u64) -> Answer<Range> {
        let range = self.ranges.remove(&base).ok_or(INVALID_VALUE)?;
        self.managed_ranges -= usize::from(range.managed.is_some());
        if !range.packed {
            if range.reserved_bytes != 0 {
                self.give_back(base, range.reserved_bytes);
            }
            return Ok(range);
        }
        let granule = base - range.offset;
        let Some(room) = self.granules.get_mut(&granule) else { return Ok(range) };
        let (_, bytes) = runs::add(&mut room.free, range.offset, range.reserved_bytes);
        if bytes == GRANULE_BYTES {
            self.granules.remove(&granule);
            self.open.remove(&(packing_key(&range), granule));
            self.give_back(granule, GRANULE_BYTES);
        } else {
            self.open.insert((packing_key(&range), granule));
        }
        Ok(range)
    }

    /// Ranges of one context are another's from now on, and end with that.
    pub(crate) fn hand_over(&mut self, from: u64, to: u64) {
        let own = self.ranges.values_mut().filter(|range| range.context == from);
        own.for_each(|range| range.context = to);
        for low in [0, 1] {
            let open = self.open.range((from | low, 0)..=(from | low, u64::MAX));
            for (key, granule) in open.copied().collect::<Vec<_>>() {
                self.open.remove(&(key, granule));
                self.open.insert((to | low, granule));
            }
        }
    }

    /// The range that holds `at`.
    pub(crate) fn find(&self, at: u64) -> Option<&Range> {
        let range = self.ranges.range(..=at).next_back()?.1;
        (at < range.end() || at == range.base).then_some(range)
    }

    pub(crate) fn find_mut(&mut self, at: u64) -> Option<&mut Range> {
        let range = self.ranges.range_mut(..=at).next_back()?.1;
        (at < range.end() || at == range.base).then_some(range)
    }

    /// The range that starts at `base`.
    pub(crate) fn at(&self, base: u64) -> Option<&Range> {
        self.ranges.get(&base)
    }

    /// Says that a pool backs its addresses from `start` with `block`.
    pub(crate) fn back(&mut self, start: u64, block: &Arc<dyn Block>) {
        self.backed.retain(|_, block| block.strong_count() > 0);
        self.backed.insert(start, Arc::downgrade(block));
    }

    /// The pool memory at an address, allocated or not.
    fn pooled(&self, at: u64) -> Option<(u64, Arc<dyn Block>)> {
        let (start, block) = self.backed.range(..=at).next_back()?;
        let block = block.upgrade()?;
        (at < start + block.bytes()).then_some((*start, block))
    }

    /// The ranges that share an address with `at..end`.
    pub(crate) fn overlapping(&self, at: u64, end: u64) -> impl Iterator<Item = &Range> {
        let first = self.find(at).map_or(at, |range| range.base);
        self.ranges.range(first..end.max(first)).map(|(_, range)| range)
    }

    /// Whether code on a device may touch these bytes. Of memory that was mapped a device touches what its access was set
    /// for, whatever contexts said of their peers.
    pub(crate) fn is_reached_by(&self, device: i32, at: u64, bytes: u64) -> bool {
        let mut mapped =
            self.overlapping(at, at.saturating_add(bytes)).filter(|r| r.kind == Kind::Mapped);
        mapped.all(|range| range.device == device || range.reached_by.contains_key(&device))
    }

    /// Removes every range that `gone` names.
    pub(crate) fn remove_where(&mut self, gone: impl Fn(&Range) -> bool) -> Vec<Range> {
        let bases: Vec<u64> = self.ranges.values().filter(|r| gone(r)).map(|r| r.base).collect();
        bases.into_iter().filter_map(|base| self.remove(base).ok()).collect()
    }

    /// Whether any of these addresses, each with a length, is managed memory.
    pub(crate) fn is_any_managed(&self, touched: &[(u64, u64)]) -> bool {
        let is_managed = |(at, bytes): &(u64, u64)| !self.managed_parts(*at, *bytes).is_empty();
        self.managed_ranges > 0 && touched.iter().any(is_managed)
    }

    /// The parts of managed ranges among so many bytes from `at`.
    pub(crate) fn managed_parts(&self, at: u64, bytes: u64) -> Vec<Part> {
        let end = at.saturating_add(bytes);
        let managed = self.overlapping(at, end).filter_map(|range| {
            let managed = Arc::clone(range.managed.as_ref()?);
            let from = at.saturating_sub(range.base);
            let to = end.min(range.end()) - range.base;
            Some(Part { managed, from, to }).filter(|part| part.from < part.to)
        });
        managed.collect()
    }

    /// As [`Self::pieces`], for code that runs on the device: program memory is out of its reach.
    pub(crate) fn device_pieces(&self, at: u64, bytes: u64) -> Answer<Vec<Piece>> {
        let end = at.checked_add(bytes).ok_or(ILLEGAL_ADDRESS)?;
        let mut next = at;
        while next < end {
            next = match (self.find(next), self.pooled(next)) {
                (Some(range), _) => range.end().max(next + 1),
                (None, Some((start, block))) => start + block.bytes(),
                (None, None) => return Err(ILLEGAL_ADDRESS),
            };
        }
        self.pieces(at, bytes)
    }

    fn of_program(&self, at: usize, bytes: usize) -> Answer<Span> {
        Ok(Span::of_program(self.program.ok_or(ILLEGAL_ADDRESS)?, at, bytes))
    }

    /// The bytes from `at`: device memory translated, program memory as it is.
    /// An address in the device's region that nothing is mapped to is an illegal address.
    pub(crate) fn pieces(&self, at: u64, bytes: u64) -> Answer<Vec<Piece>> {
        let end = at.checked_add(bytes).ok_or(ILLEGAL_ADDRESS)?;
        let (mut pieces, mut next) = (Vec::new(), at);
        while next < end {
            let Some(range) = self.find(next) else {
                if let Some((start, block)) = self.pooled(next) {
                    let stop = end.min(start + block.bytes());
                    pieces.push(piece(next, stop, start, &block)?);
                    next = stop;
                    continue;
                }
                if Self::is_device_address(next) {
                    return Err(ILLEGAL_ADDRESS);
                }
                let host = usize::try_from(next).map_err(|_| ILLEGAL_ADDRESS)?;
                let length = usize::try_from(end - next).map_err(|_| ILLEGAL_ADDRESS)?;
                let span = Some(self.of_program(host, length)?);
                pieces.push(Piece { base: next, bytes: end - next, span, _alive: None });
                break;
            };
            if !range.accessible {
                return Err(ILLEGAL_ADDRESS);
            }
            let mut stop = end.min(range.end());
            let chunk = range.chunks.iter().rev().find(|(start, _)| *start <= next);
            if let Some((start, block)) = chunk {
                stop = stop.min(start + block.bytes());
                pieces.push(piece(next, stop, *start, block)?);
                next = stop;
                continue;
            }
            let (inside, length) = (next - range.base, stop - next);
            let span = match &range.block {
                None => Some(self.of_program(next as usize, length as usize)?),
                Some(block) => inside_of(block, range.offset + inside, length)?,
            };
            pieces.push(Piece { base: next, bytes: length, span, _alive: range.block.clone() });
            next = stop;
        }
        Ok(pieces)
    }
}

/// So many bytes of a block from `offset` on, if any lie behind it.
fn inside_of(block: &Arc<dyn Block>, offset: u64, bytes: u64) -> Answer<Option<Span>> {
    let Some(span) = block.span()? else { return Ok(None) };
    span.part(offset as usize, bytes as usize).map(Some).ok_or(ILLEGAL_ADDRESS)
}

/// The bytes from `next` to `stop`, in a block that lies from `start`.
fn piece(next: u64, stop: u64, start: u64, block: &Arc<dyn Block>) -> Answer<Piece> {
    let span = inside_of(block, next.wrapping_sub(start), stop - next)?;
    Ok(Piece { base: next, bytes: stop - next, span, _alive: Some(Arc::clone(block)) })
}

/// The part of `pieces` at `at`, at most `bytes` long: the span, if bytes lie behind it, and its
/// length.
pub(crate) fn part(pieces: &[Piece], at: u64, bytes: u64) -> Option<(Option<Span>, u64)> {
    let piece = pieces.iter().find(|p| p.base <= at && at < p.base + p.bytes)?;
    let skipped = at - piece.base;
    let length = bytes.min(piece.bytes - skipped);
    match &piece.span {
        None => Some((None, length)),
        Some(span) => Some((Some(span.part(skipped as usize, length as usize)?), length)),
    }
}
