//! What a stream runs: copies, fills, kernels, host functions, marks and waits.
//!
//! Promises: a task can be run any number of times (graphs do), reads the address space only when it
//! runs, and moves real bytes. Copies and fills of the null machine do nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divvy_driver_api::types::*;

use super::call::in_host_function;
use super::conditional::{self, Branches, Condition};
use super::error::*;
use super::kernels::Launch;
use super::machine::{Block, Lane, Load, Purpose};
use super::space::{Piece, part};
use super::state::{Driver, State, is_null};
use super::track::Track;
use crate::client::now_ns;
use crate::sys::driver::{Address, Answer, Handle, call_host, call_stream};
use crate::sys::driver_bytes as bytes;

/// Where and with what a task runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The driver's context.
    pub context: u64,
    /// The machine's name of that context.
    pub machine_context: u64,
    /// Multiprocessors it may use.
    pub width: u32,
}

/// One end of a copy: rows of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) at: u64,
    pub(crate) pitch: u64,
    pub(crate) slice: u64,
}

/// A copy of `depth` × `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyShape {
    pub(crate) to: Rows,
    pub(crate) from: Rows,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
}

/// Rows filled with a value of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillShape {
    pub(crate) at: u64,
    pub(crate) pitch: u64,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl FillShape {
    fn bytes(&self) -> u64 {
        self.width.saturating_mul(u64::from(self.element_bytes)).saturating_mul(self.height)
    }
}

/// When an event happened, in nanoseconds of the machine's clock; 0: not yet.
#[derive(Debug, Default)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    pub(crate) fn at(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    pub(crate) fn mark_at(&self, at_ns: u64) {
        self.0.store(at_ns.max(1), Ordering::Release);
    }
}

/// A value compared with or written to memory by a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryValue {
    pub(crate) at: u64,
    pub(crate) value: u64,
    pub(crate) bytes: u64,
    /// 0: ≥ (cyclic), 1: equal, 2: and, 3: nor.
    pub(crate) comparison: u32,
}

/// A unit of work.
#[derive(Clone)]
pub(crate) enum Task {
    Empty,
    Copy(CopyShape),
    Fill(FillShape),
    Kernel(Arc<Launch>),
    Host(CUhostFn, Address),
    Callback(CUstreamCallback, u64, Address),
    Mark(Arc<Stamp>),
    /// A mark that nothing stands before.
    LoneMark(Arc<Stamp>),
    WaitValue(MemoryValue),
    WriteValue(MemoryValue),
    /// Marks an event from inside a graph.
    MarkEvent(u64),
    /// Waits for the mark an event has when a graph reaches it.
    AwaitEvent(u64),
    /// Gives graph allocations back, by address.
    Release(Arc<Vec<u64>>),
    /// Nothing, but memory is there until it has run.
    #[expect(dead_code, reason = "it is held, not read")]
    Hold(Arc<Vec<Arc<dyn Block>>>),
    Series(Arc<Vec<Task>>),
    /// A launch of a graph begins: conditions have their defaults.
    Assign(Arc<Vec<Arc<Condition>>>),
    Branches(Arc<Branches>),
}

impl Task {
    /// A copy of `bytes` bytes.
    pub(crate) fn copy(to: u64, from: u64, bytes: u64) -> Self {
        let rows = |at| Rows { at, pitch: bytes, slice: bytes };
        Self::Copy(CopyShape { to: rows(to), from: rows(from), width: bytes, height: 1, depth: 1 })
    }

    /// Whether it calls a function of the program's.
    pub(crate) fn is_host_function(&self) -> bool {
        matches!(self, Self::Host(..) | Self::Callback(..))
    }

    /// Whether the null machine completes it at submission.
    pub(crate) fn is_instant(&self) -> bool {
        match self {
            Self::Host(..) | Self::Callback(..) => false,
            Self::Series(tasks) => tasks.iter().all(Self::is_instant),
            _ => true,
        }
    }

    /// What a task the null machine completed leaves behind.
    pub(crate) fn finish_instantly(&self, state: &mut State) {
        match self {
            Self::Mark(stamp) => stamp.mark_at(now_ns()),
            Self::MarkEvent(event) => mark_event(state, *event, now_ns()),
            Self::Release(addresses) => release(state, addresses),
            Self::Series(tasks) => tasks.iter().for_each(|task| task.finish_instantly(state)),
            _ => {}
        }
    }

    /// Marks that must be set even if the context broke before the task ran.
    pub(crate) fn finish(&self) {
        match self {
            Self::Mark(stamp) | Self::LoneMark(stamp) if stamp.at().is_none() => {
                stamp.mark_at(now_ns());
            }
            _ => {}
        }
    }

    /// Callbacks are told of a broken context and memory is given back; nothing else happens in it.
    pub(crate) fn runs_in_a_broken_context(&self) -> bool {
        matches!(self, Self::Callback(..) | Self::Release(_))
    }

    /// Whether all it asks of the device is known before it runs, so that it can be handed in while
    /// the work before it is still under way.
    pub(crate) fn can_go_ahead(&self) -> bool {
        match self {
            Self::Empty
            | Self::Fill(_)
            | Self::Kernel(_)
            | Self::Mark(_)
            | Self::LoneMark(_)
            | Self::WriteValue(_)
            | Self::MarkEvent(_)
            | Self::Release(_)
            | Self::Assign(_)
            | Self::Hold(_) => true,
            // A copy's engine depends on where its addresses lie when it runs; which body is to run, on what
            // ran before.
            Self::Copy(_)
            | Self::Branches(_)
            | Self::Host(..)
            | Self::Callback(..)
            | Self::WaitValue(_)
            | Self::AwaitEvent(_) => false,
            Self::Series(tasks) => tasks.iter().all(Self::can_go_ahead),
        }
    }

    /// Hands in what it asks of the device; answers how many pieces that were, also when the machine
    /// would not take the rest: running the task then meets the same refusal.
    pub(crate) fn go_ahead(&self, lane: &dyn Lane, place: Place, ready_ns: u64) -> usize {
        let asked = match self {
            Self::Kernel(launch) => Some(launch.load()),
            Self::LoneMark(_) => Some((Load::Touch, 0)),
            Self::Fill(shape) => Some((Load::Fill, shape.bytes())).filter(|(_, bytes)| *bytes > 0),
            Self::Series(tasks) => {
                return tasks.iter().map(|task| task.go_ahead(lane, place, ready_ns)).sum();
            }
            _ => None,
        };
        asked.map_or(0, |(load, amount)| {
            usize::from(lane.submit(place, load, amount, ready_ns).unwrap_or(false))
        })
    }

    /// Does the work.
    pub(crate) fn run(
        &self,
        driver: &'static Driver,
        track: &mut Track<'_>,
        place: Place,
    ) -> Answer {
        match self {
            Self::Empty => Ok(()),
            Self::Copy(shape) => run_copy(driver, track, place, shape),
            Self::Fill(shape) => run_fill(driver, track, place, shape),
            Self::Kernel(launch) => launch.run(driver, track, place),
            Self::Host(function, data) => {
                in_host_function(|| call_host(*function, *data));
                track.catch_up();
                Ok(())
            }
            Self::Callback(function, stream, data) => {
                let sticky = driver.lock().contexts.get(place.context).ok().and_then(|c| c.sticky);
                let status = sticky.unwrap_or(CUresult::CUDA_SUCCESS);
                let stream = CUstream::from_key(*stream);
                in_host_function(|| call_stream(*function, stream, status, *data));
                track.catch_up();
                Ok(())
            }
            Self::Mark(stamp) => {
                stamp.mark_at(track.position_ns());
                Ok(())
            }
            Self::LoneMark(stamp) => {
                track.run(place, Load::Touch, 0, &mut || {})?;
                stamp.mark_at(track.position_ns());
                Ok(())
            }
            Self::WaitValue(value) => {
                wait_value(driver, place, value)?;
                track.catch_up();
                Ok(())
            }
            Self::WriteValue(value) => write_value(driver, value),
            Self::MarkEvent(event) => {
                mark_event(&mut driver.lock(), *event, track.position_ns());
                Ok(())
            }
            Self::AwaitEvent(event) => {
                let state = driver.lock();
                let mark = state.events.get(*event).ok().and_then(|event| event.mark.clone());
                if let Some((point, _)) = mark {
                    drop(super::stream::wait_for(driver, state, point));
                    track.catch_up();
                }
                Ok(())
            }
            Self::Release(addresses) => {
                release(&mut driver.lock(), addresses);
                Ok(())
            }
            Self::Hold(_) => Ok(()),
            Self::Series(tasks) => run_series(driver, track, place, tasks),
            Self::Assign(conditions) => {
                conditional::assign(conditions);
                Ok(())
            }
            Self::Branches(branches) => branches.run(driver, track, place),
        }
    }
}

/// Runs tasks in order, handing in each stretch of what can go ahead at once.
pub(crate) fn run_series(
    driver: &'static Driver,
    track: &mut Track<'_>,
    place: Place,
    tasks: &[Task],
) -> Answer {
    let mut rest = tasks;
    while !rest.is_empty() {
        let length = rest.iter().take_while(|task| task.can_go_ahead()).count();
        if length > 0 && track.lane().is_timed() && !track.has_ahead() {
            let stretch = rest.iter().take(length);
            let ready_ns = track.position_ns();
            let pieces = stretch.map(|task| task.go_ahead(track.lane(), place, ready_ns)).sum();
            track.expect(pieces);
        }
        let (now, later) = rest.split_at(length.max(1).min(rest.len()));
        now.iter().try_for_each(|task| task.run(driver, track, place))?;
        rest = later;
    }
    Ok(())
}

/// The device touches memory: what is managed and still on the host moves over. When the card is
/// full it stays where it is, as the driver would evict something for it.
pub(crate) fn touch(driver: &Driver, state: &mut State, at: u64, bytes: u64) {
    for (base, device, size) in state.space.untouched(at, bytes) {
        let rounded = size.next_multiple_of(super::space::GRANULE_BYTES);
        let resident = driver.allocate(state, device, rounded, Purpose::Overhead).ok();
        if let Some(range) = state.space.find_mut(base) {
            range.resident = resident;
        }
    }
}

fn mark_event(state: &mut State, event: u64, at_ns: u64) {
    let stamp = Arc::new(Stamp::default());
    stamp.mark_at(at_ns);
    if let Ok(event) = state.events.get_mut(event) {
        event.mark = Some(((0, 0), stamp));
    }
}

fn release(state: &mut State, addresses: &[u64]) {
    for address in addresses {
        // Freed by the program meanwhile, or by the end of its context.
        let _ = super::graph_memory::free(state, *address);
    }
}

fn extent(rows: &Rows, width: u64, height: u64, depth: u64) -> Answer<u64> {
    let last = |count: u64, step: u64| count.saturating_sub(1).checked_mul(step);
    last(depth, rows.slice)
        .and_then(|z| last(height, rows.pitch)?.checked_add(z))
        .and_then(|sum| sum.checked_add(width))
        .ok_or(INVALID_VALUE)
}

/// Copies along both sides' pieces.
fn copy_run(to: &[Piece], to_at: u64, from: &[Piece], from_at: u64, length: u64) -> Answer {
    let mut done = 0;
    while done < length {
        let left = length - done;
        let (source, can_read) = part(from, from_at + done, left).ok_or(ILLEGAL_ADDRESS)?;
        let (target, can_write) = part(to, to_at + done, left).ok_or(ILLEGAL_ADDRESS)?;
        let step = can_read.min(can_write);
        if let (Some(source), Some(target)) = (source, target) {
            let cut = |span: bytes::Span| bytes::Span { bytes: step as usize, ..span };
            bytes::copy(cut(target), cut(source));
        }
        done += step;
    }
    Ok(())
}

fn run_copy(driver: &Driver, track: &mut Track<'_>, place: Place, shape: &CopyShape) -> Answer {
    let CopyShape { to, from, width, height, depth } = *shape;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let (targets, sources, load) = {
        let state = driver.lock();
        let targets = state.space.pieces(to.at, extent(&to, width, height, depth)?)?;
        let sources = state.space.pieces(from.at, extent(&from, width, height, depth)?)?;
        let on_device = |at| state.space.find(at).is_some_and(|range| range.device >= 0);
        let load = match (on_device(to.at), on_device(from.at)) {
            (true, true) => Load::DeviceCopy,
            (true, false) => Load::CopyIn,
            (false, true) => Load::CopyOut,
            (false, false) => Load::None,
        };
        (targets, sources, load)
    };
    let moved = width.saturating_mul(height).saturating_mul(depth);
    let mut result = Ok(());
    track.run(place, load, moved, &mut || {
        let packed = |rows: &Rows| {
            (height == 1 || rows.pitch == width) && (depth == 1 || rows.slice == width * height)
        };
        result = if packed(&to) && packed(&from) {
            copy_run(&targets, to.at, &sources, from.at, moved)
        } else {
            (0..depth).try_for_each(|z| {
                (0..height).try_for_each(|y| {
                    let offset = |rows: &Rows| rows.at + z * rows.slice + y * rows.pitch;
                    copy_run(&targets, offset(&to), &sources, offset(&from), width)
                })
            })
        };
    })?;
    result
}

fn run_fill(driver: &Driver, track: &mut Track<'_>, place: Place, shape: &FillShape) -> Answer {
    let rows = Rows { at: shape.at, pitch: shape.pitch, slice: 0 };
    let width = shape.width.saturating_mul(u64::from(shape.element_bytes));
    if shape.bytes() == 0 {
        return Ok(());
    }
    let pieces = {
        let mut state = driver.lock();
        let length = extent(&rows, width, shape.height, 1)?;
        touch(driver, &mut state, shape.at, length);
        state.space.pieces(shape.at, length)?
    };
    let value = shape.value.to_le_bytes();
    let pattern = value.get(..shape.element_bytes as usize).ok_or(INVALID_VALUE)?;
    let mut result = Ok(());
    track.run(place, Load::Fill, shape.bytes(), &mut || {
        result = (0..shape.height).try_for_each(|y| {
            let (mut at, mut left) = (shape.at + y * shape.pitch, width);
            while left > 0 {
                let (span, length) = part(&pieces, at, left).ok_or(ILLEGAL_ADDRESS)?;
                if let Some(span) = span {
                    bytes::fill(span, pattern);
                }
                (at, left) = (at + length, left - length);
            }
            Ok(())
        });
    })?;
    result
}

fn value_span(driver: &Driver, value: &MemoryValue) -> Answer<Option<Vec<Piece>>> {
    let pieces = driver.lock().space.pieces(value.at, value.bytes)?;
    Ok(if is_null() { None } else { Some(pieces) })
}

fn write_value(driver: &Driver, value: &MemoryValue) -> Answer {
    let Some(pieces) = value_span(driver, value)? else { return Ok(()) };
    if let Some((Some(span), _)) = part(&pieces, value.at, value.bytes) {
        bytes::write(span, &value.value.to_le_bytes()[..value.bytes as usize]);
    }
    Ok(())
}

fn wait_value(driver: &Driver, place: Place, value: &MemoryValue) -> Answer {
    let Some(pieces) = value_span(driver, value)? else { return Ok(()) };
    let Some((Some(span), _)) = part(&pieces, value.at, value.bytes) else { return Ok(()) };
    let mask = if value.bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
    loop {
        let mut seen = [0; 8];
        seen[..value.bytes as usize].copy_from_slice(&bytes::read(span));
        let (seen, wanted) = (u64::from_le_bytes(seen), value.value & mask);
        let arrived = match value.comparison {
            0 => seen.wrapping_sub(wanted) & mask <= mask >> 1,
            1 => seen == wanted,
            2 => seen & wanted != 0,
            _ => !(seen | wanted) & mask != 0,
        };
        let alive = driver.lock().contexts.get(place.context).is_ok_and(|c| c.alive);
        if arrived || !alive {
            return Ok(());
        }
        // What is waited for is written by another thread, or another process, at any time.
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
}
