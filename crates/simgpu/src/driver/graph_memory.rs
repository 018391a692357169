//! Memory of graphs' allocation nodes: the addresses a graph has for them, and the pieces behind.
//!
//! Promises, as measured on the H200: nodes share addresses where the order of the graph's nodes lets
//! them; for each node that fits nowhere the graph's addresses grow by its size in whole pieces of
//! 32 MiB. A launch has one piece behind each of them. Pieces serve one executable after another in
//! a stream, and in any stream once no work uses them; an executable whose pieces another stream is
//! using gets others. What is reserved stays so until it is trimmed.
//!
//! Does not put launches of one executable on several streams in order.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::*;
use super::machine::{Block, Purpose};
use super::objects::arena::{Arena, Mapping, PIECE_BYTES, Piece, Use};
use super::objects::graph::Spot;
use super::objects::stream::Point;
use super::space::{Kind, Range, round_up};
use super::state::{DriverState, State};
use crate::sys::driver::Answer;

const ALIGN_BYTES: u64 = 512;

/// The nodes that `after` depend on, themselves included.
fn ancestors(state: &State, after: &[u64]) -> BTreeSet<u64> {
    let (mut found, mut open) = (BTreeSet::new(), after.to_vec());
    while let Some(node) = open.pop() {
        if found.insert(node)
            && let Ok(node) = state.nodes.get(node)
        {
            open.extend(&node.after);
        }
    }
    found
}

/// Addresses for an allocation node.
pub(crate) fn place(state: &mut State, spot: Spot<'_>, device: i32, bytes: u64) -> Answer<u64> {
    let Spot { graph, after } = spot;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let before = ancestors(state, after);
    let graph_now = state.graphs.get(graph)?;
    let arena = graph_now.memory.iter().find(|arena| arena.device == device).cloned();
    let mut arena = arena.unwrap_or(Arena { device, segments: Vec::new(), uses: Vec::new() });
    let rounded = round_up(bytes, ALIGN_BYTES)?;
    let is_free = |used: &Use| used.freed_by.is_some_and(|node| before.contains(&node));
    let mut taken: Vec<(u64, u64)> =
        arena.uses.iter().filter(|u| !is_free(u)).map(|u| (u.at, u.at + u.bytes)).collect();
    taken.sort_unstable();
    let at = match arena.hole(&taken, rounded) {
        Some(at) => at,
        None => {
            let step = round_up(bytes, PIECE_BYTES)?;
            let hint = arena.segments.last().map_or(0, |(_, end)| *end);
            let got = state.space.reserve(step, PIECE_BYTES, hint)?;
            match arena.segments.last_mut() {
                Some((_, end)) if *end == got => *end += step,
                _ => arena.segments.push((got, got + step)),
            }
            state.graph_memory.insert(got, step);
            arena.hole(&taken, rounded).ok_or(OUT_OF_MEMORY)?
        }
    };
    arena.uses.push(Use { at, bytes: rounded, freed_by: None });
    let memory = &mut state.graphs.get_mut(graph)?.memory;
    memory.retain(|arena| arena.device != device);
    memory.push(arena);
    Ok(at)
}

/// A node of `graph` frees what lies at `at`.
pub(crate) fn freed(state: &mut State, graph: u64, at: u64, node: u64) {
    let Ok(graph) = state.graphs.get_mut(graph) else { return };
    let mut uses = graph.memory.iter_mut().flat_map(|arena| &mut arena.uses);
    if let Some(used) = uses.find(|used| used.at == at && used.freed_by.is_none()) {
        used.freed_by = Some(node);
    }
}

/// Mappings that an executable of a graph is to have behind its addresses.
pub(crate) fn mappings(arenas: &[Arena]) -> Vec<Mapping> {
    arenas.iter().map(|arena| Mapping { arena: arena.clone(), pieces: Vec::new() }).collect()
}

fn is_over(state: &State, (stream, sequence): Point) -> bool {
    state.streams.get(stream).map_or(true, |stream| stream.completed >= sequence)
}

/// Whether a launch of `exec` on `stream` may have a piece: launches of one executable run in order, and with
/// them what its last one came after.
fn is_usable(state: &State, piece: &Piece, exec: u64, stream: u64) -> bool {
    let is_clear = |(point, _): &(Point, u64)| point.0 == stream || is_over(state, *point);
    let is_last = piece.busy.last().is_some_and(|(_, owner)| *owner == exec);
    piece.live == 0 && (is_last || piece.busy.iter().all(is_clear))
}

/// Has a piece behind each of an executable's addresses, for a launch on `stream`; all or nothing.
pub(crate) fn attach(driver: &DriverState, state: &mut State, exec: u64, stream: u64) -> Answer {
    for index in 0..state.execs.get(exec)?.memory.len() {
        let Some(mapping) = state.execs.get(exec)?.memory.get(index) else { continue };
        let device = mapping.arena.device;
        let memory = &state.device(device)?.graphs;
        let usable = |key: &u64| {
            memory.pieces.get(key).is_some_and(|piece| is_usable(state, piece, exec, stream))
        };
        let wanted = (mapping.arena.bytes() / PIECE_BYTES) as usize;
        if mapping.pieces.len() == wanted && mapping.pieces.iter().all(usable) {
            continue;
        }
        let mut chosen: Vec<u64> = mapping.pieces.iter().copied().filter(usable).collect();
        let own = chosen.clone();
        chosen.extend(memory.pieces.keys().filter(|k| !own.contains(k) && usable(k)));
        chosen.truncate(wanted);
        let new = (chosen.len()..wanted)
            .map(|_| driver.allocate(state, device, PIECE_BYTES, Purpose::Data))
            .collect::<Answer<Vec<_>>>()?;
        let starts: Vec<(u64, bool)> =
            mapping.arena.starts().map(|start| (start, mapping.arena.is_used(start))).collect();
        let memory = &mut state.device_mut(device)?.graphs;
        for block in new {
            memory.next += 1;
            let piece = Piece { block, busy: Vec::new(), live: 0, is_used: false };
            memory.pieces.insert(memory.next, piece);
            chosen.push(memory.next);
        }
        let mut backed = Vec::new();
        for ((start, is_used), key) in starts.into_iter().zip(&chosen) {
            let Some(piece) = memory.pieces.get_mut(key) else { continue };
            piece.is_used |= is_used;
            backed.push((start, Arc::clone(&piece.block)));
        }
        memory.note_highs();
        for (start, block) in backed {
            state.space.back(start, &block);
        }
        if let Some(mapping) = state.execs.get_mut(exec)?.memory.get_mut(index) {
            mapping.pieces = chosen;
        }
    }
    Ok(())
}

/// Work of `exec` that was queued on `stream` uses its pieces until it has ended.
pub(crate) fn occupy(state: &mut State, exec: u64, stream: u64) -> Answer {
    let point = (stream, state.streams.get(stream)?.submitted);
    for (device, key) in pieces_of(state, exec)? {
        let Some(piece) = state.device(device)?.graphs.pieces.get(&key) else { continue };
        let mut busy: Vec<_> =
            piece.busy.iter().filter(|(point, _)| !is_over(state, *point)).copied().collect();
        busy.push((point, exec));
        if let Some(piece) = state.device_mut(device)?.graphs.pieces.get_mut(&key) {
            piece.busy = busy;
        }
    }
    Ok(())
}

fn pieces_of(state: &State, exec: u64) -> Answer<Vec<(i32, u64)>> {
    let mappings = &state.execs.get(exec)?.memory;
    Ok(mappings.iter().flat_map(|m| m.pieces.iter().map(|key| (m.arena.device, *key))).collect())
}

/// The keys of the pieces in which a range lies.
fn pieces_behind(state: &State, range: &Range) -> Vec<u64> {
    let Ok(device) = state.device(range.device) else { return Vec::new() };
    let is_in = |block: &Arc<dyn Block>| range.chunks.iter().any(|(_, b)| Arc::ptr_eq(b, block));
    let found = device.graphs.pieces.iter().filter(|(_, piece)| is_in(&piece.block));
    found.map(|(key, _)| *key).collect()
}

/// An allocation that outlives the launch that made it.
pub(crate) fn hold(state: &mut State, exec: u64, device: i32, address: u64, bytes: u64) -> Answer {
    let mut range = Range::new(address, bytes, Kind::Graph, 0, device);
    let mappings = &state.execs.get(exec)?.memory;
    let mapping = mappings.iter().find(|m| m.arena.device == device).ok_or(INVALID_VALUE)?;
    let memory = &state.device(device)?.graphs;
    for (start, key) in mapping.arena.starts().zip(&mapping.pieces) {
        if start < address + bytes
            && start + PIECE_BYTES > address
            && let Some(piece) = memory.pieces.get(key)
        {
            range.chunks.push((start, Arc::clone(&piece.block)));
        }
    }
    let behind = pieces_behind(state, &range);
    for key in behind {
        if let Some(piece) = state.device_mut(device)?.graphs.pieces.get_mut(&key) {
            piece.live += 1;
        }
    }
    state.space.add(range);
    Ok(())
}

/// Frees what outlived its launch.
pub(crate) fn free(state: &mut State, address: u64) -> Answer {
    if state.space.at(address).ok_or(INVALID_VALUE)?.kind != Kind::Graph {
        return Err(INVALID_VALUE);
    }
    let range = state.space.remove(address)?;
    for key in pieces_behind(state, &range) {
        if let Some(piece) = state.device_mut(range.device)?.graphs.pieces.get_mut(&key) {
            piece.live = piece.live.saturating_sub(1);
        }
    }
    Ok(())
}

/// Gives back what no work and no allocation uses.
pub(crate) fn trim(state: &mut State, device: i32) -> Answer {
    let is_idle = |piece: &Piece| {
        piece.live == 0 && piece.busy.iter().all(|(point, _)| is_over(state, *point))
    };
    let pieces = &state.device(device)?.graphs.pieces;
    let idle: Vec<u64> = pieces.iter().filter(|(_, p)| is_idle(p)).map(|(key, _)| *key).collect();
    let memory = &mut state.device_mut(device)?.graphs;
    memory.pieces.retain(|key, _| !idle.contains(key));
    Ok(())
}

/// Forgets everything of a device: its primary context ended.
pub(crate) fn reset_device(state: &mut State, device: i32) {
    state.space.remove_where(|range| range.kind == Kind::Graph && range.device == device);
    if let Ok(device) = state.device_mut(device) {
        device.graphs.pieces.clear();
    }
}
