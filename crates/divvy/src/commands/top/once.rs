//! One frame as text, for people without a terminal and for `awk`: the whole of both tables, however wide.
//!
//! Pure. Has no colour, no bars and no history; the screen is [`super::screen`]'s.

use super::cells;
use super::memory;
use super::model::{Picture, Sort};
use crate::output::sizes;
use crate::output::table::TextTable;

/// The frame.
pub(super) fn text(picture: &Picture) -> String {
    let notes: String = cells::notes(picture).iter().map(|note| format!("{note}\n")).collect();
    format!("{}\n{}{notes}\n{}", title(picture), gpus(picture), rows(picture))
}

fn title(picture: &Picture) -> String {
    let unreadable = match picture.unreadable {
        0 => String::new(),
        count => format!(", {count} unreadable (divvy ps says why)"),
    };
    let daemon = if picture.daemons == 0 { ", no daemon" } else { "" };
    let sort = Sort::default().word();
    format!("divvy top: {}{unreadable}{daemon}; by {sort}", cells::counts(picture))
}

fn gpus(picture: &Picture) -> TextTable {
    let mut table =
        TextTable::new(&["GPU", "NAME", ">HELD", ">OF", ">USED", "TIME", ">TURNS/S", ">FOREIGN"]);
    for gpu in &picture.gpus {
        table.row([
            cells::gpu_name(gpu.index, &gpu.uuid),
            gpu.name.clone(),
            sizes::text(gpu.held_bytes),
            sizes::text(gpu.card_bytes),
            cells::percent(gpu.used_ratio),
            cells::mode(gpu),
            cells::turns(gpu),
            gpu.foreign.to_string(),
        ]);
    }
    table
}

fn rows(picture: &Picture) -> TextTable {
    let may_any_leave = picture.rows.iter().any(|row| row.memory.is_some());
    let columns = if may_any_leave { memory::HEAD.as_slice() } else { &[] };
    let time = [
        ">ASKED",
        ">REACHED",
        ">THROTTLED",
        ">WAITING",
        ">QUEUE",
        ">LAUNCHES/S",
        "GATE",
        "PRIORITY",
    ];
    let mut table =
        TextTable::new(&[&["GPU", "TENANT", ">HELD", ">LIMIT"], columns, &time].concat());
    for row in &picture.rows {
        let held = [
            cells::gpu_name(row.index, &row.gpu),
            row.tenant.clone(),
            sizes::text(row.held_bytes),
            sizes::limit(row.limit_bytes),
        ];
        let places = may_any_leave.then(|| memory::cells(row.memory.as_ref()));
        let time = [
            cells::asked(row),
            cells::percent(row.reached_ratio),
            cells::percent(row.throttled_ratio),
            cells::percent(row.waited_ratio),
            cells::queue(row.queued_ns),
            cells::launches(row),
            row.gate.to_owned(),
            cells::priority(row),
        ];
        table.row(held.into_iter().chain(places.into_iter().flatten()).chain(time));
    }
    table
}
