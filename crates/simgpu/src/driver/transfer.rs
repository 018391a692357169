//! Moving bytes: copies, fills, and values in memory that streams write and wait for.
//!
//! Promises: the address space is read when a task runs, not when it is submitted; real bytes move.
//! Copies and fills of the null machine do nothing.

use super::error::*;
use super::machine::{Load, Place};
use super::managed::await_touched;
use super::objects::managed::Part;
use super::objects::task::{CopyShape, FillShape, MemoryValue, Rows};
use super::space::{Piece, Space, part};
use super::state::{DriverState, is_null};
use super::track::Track;
use crate::sys::driver::Answer;

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
            target.copy_from(&source);
        }
        done += step;
    }
    Ok(())
}

/// One end of a copy.
enum End {
    Host,
    Device,
    /// It lies where more of it is. A copy moves nothing of it.
    Managed(Part),
}

impl End {
    fn of(space: &Space, at: u64, bytes: u64) -> Self {
        match space.find(at) {
            Some(range) if range.managed.is_some() => {
                let part = space.managed_parts(at, bytes).into_iter().next();
                part.map_or(Self::Host, Self::Managed)
            }
            Some(range) if range.device >= 0 => Self::Device,
            _ => Self::Host,
        }
    }

    fn is_on_device(&self) -> Answer<bool> {
        match self {
            Self::Host => Ok(false),
            Self::Device => Ok(true),
            Self::Managed(part) => part.is_on_device(),
        }
    }
}

pub(super) fn run_copy(
    driver: &DriverState,
    track: &mut Track<'_>,
    place: Place,
    shape: &CopyShape,
) -> Answer {
    let CopyShape { to, from, width, height, depth } = *shape;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let (to_bytes, from_bytes) =
        (extent(&to, width, height, depth)?, extent(&from, width, height, depth)?);
    let (targets, sources, ends) = {
        let space = &driver.lock().space;
        let ends = (End::of(space, to.at, to_bytes), End::of(space, from.at, from_bytes));
        (space.pieces(to.at, to_bytes)?, space.pieces(from.at, from_bytes)?, ends)
    };
    let load = match (ends.0.is_on_device()?, ends.1.is_on_device()?) {
        (true, true) => Load::DeviceCopy,
        (true, false) => Load::CopyIn,
        (false, true) => Load::CopyOut,
        (false, false) => Load::None,
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

pub(super) fn run_fill(
    driver: &DriverState,
    track: &mut Track<'_>,
    place: Place,
    shape: &FillShape,
) -> Answer {
    let rows = Rows { at: shape.at, pitch: shape.pitch, slice: 0 };
    let width = shape.width.saturating_mul(u64::from(shape.element_bytes));
    if shape.bytes() == 0 {
        return Ok(());
    }
    let length = extent(&rows, width, shape.height, 1)?;
    await_touched(driver, track, place, &[(shape.at, length)])?;
    let pieces = driver.lock().space.pieces(shape.at, length)?;
    let value = shape.value.to_le_bytes();
    let pattern = value.get(..shape.element_bytes as usize).ok_or(INVALID_VALUE)?;
    let mut result = Ok(());
    track.run(place, Load::Fill, shape.bytes(), &mut || {
        result = (0..shape.height).try_for_each(|y| {
            let (mut at, mut left) = (shape.at + y * shape.pitch, width);
            while left > 0 {
                let (span, length) = part(&pieces, at, left).ok_or(ILLEGAL_ADDRESS)?;
                if let Some(span) = span {
                    span.fill(pattern);
                }
                (at, left) = (at + length, left - length);
            }
            Ok(())
        });
    })?;
    result
}

fn value_span(driver: &DriverState, value: &MemoryValue) -> Answer<Option<Vec<Piece>>> {
    let pieces = driver.lock().space.pieces(value.at, value.bytes)?;
    Ok(if is_null() { None } else { Some(pieces) })
}

pub(super) fn write_value(driver: &DriverState, value: &MemoryValue) -> Answer {
    let Some(pieces) = value_span(driver, value)? else { return Ok(()) };
    if let Some((Some(span), _)) = part(&pieces, value.at, value.bytes) {
        span.write(&value.value.to_le_bytes()[..value.bytes as usize]);
    }
    Ok(())
}

pub(super) fn wait_value(driver: &DriverState, place: Place, value: &MemoryValue) -> Answer {
    let Some(pieces) = value_span(driver, value)? else { return Ok(()) };
    let Some((Some(span), _)) = part(&pieces, value.at, value.bytes) else { return Ok(()) };
    let mask = if value.bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
    loop {
        let mut seen = [0; 8];
        seen[..value.bytes as usize].copy_from_slice(&span.read());
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
        // The awaited value is written by another thread, or another process, at any time.
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
}
