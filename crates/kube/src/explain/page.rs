//! Page of an explanation, for people. Pure.
//!
//! Promises: nothing on it that a terminal would obey; at most [`MOST_CARDS`] cards of a request, those with the most room
//! first, and how many are left out.

use super::books::CardOffer;
use super::finding::{Explanation, RequestView};
use crate::event::escaped;
use crate::offers::Amounts;

/// Cards that are listed of a request.
const MOST_CARDS: usize = 16;

/// The page.
pub(super) fn page(found: &Explanation) -> String {
    let mut lines = vec![format!(
        "pod {}/{} {}",
        found.namespace,
        found.pod,
        if found.waits { "waits" } else { "does not wait for a share" }
    )];
    for finding in &found.findings {
        lines.push(format!("  {}", finding.words));
        if !finding.fix.is_empty() {
            lines.push(format!("    -> {}", finding.fix));
        }
    }
    for request in &found.requests {
        lines.extend(table(request));
    }
    let lines: Vec<_> = lines.iter().map(|line| escaped(line)).collect();
    lines.join("\n") + "\n"
}

fn table(request: &RequestView) -> Vec<String> {
    let asked = match &*amounts(&request.asked) {
        "" => "a whole card".to_owned(),
        asked => asked.to_owned(),
    };
    let mut lines = vec![
        String::new(),
        format!("request {} of claim {}: {asked}", request.request, request.claim),
    ];
    let mut rows = vec![["node", "card", "product", "free", ""].map(str::to_owned)];
    let free = |card: &CardOffer| card.free.as_ref().and_then(|free| free.get("memory").copied());
    let mut cards: Vec<_> = request.cards.iter().collect();
    cards.sort_by_key(|view| (!view.lacks.is_empty(), std::cmp::Reverse(free(&view.card))));
    for view in cards.iter().take(MOST_CARDS) {
        let card = &view.card;
        rows.push([
            card.node.clone(),
            card.device.clone(),
            card.product.clone().unwrap_or_default(),
            card.free.as_ref().map_or("unknown".to_owned(), amounts),
            if view.lacks.is_empty() { "fits".to_owned() } else { view.lacks.clone() },
        ]);
    }
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|it| it.chars().count()).max();
    let widths: Vec<_> = (0..5).map(|at| width(at).unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        lines.push(format!("  {}", line.trim_end()));
    }
    if cards.len() > MOST_CARDS {
        lines.push(format!("  and {} more", cards.len() - MOST_CARDS));
    }
    lines
}

/// Amounts as people read them: `memory 8 GiB, cores 30 %`.
pub(super) fn amounts(amounts: &Amounts) -> String {
    let one = |(name, &amount): (&String, &u64)| match &**name {
        "memory" => format!("memory {}", bytes(amount)),
        "cores" => format!("cores {amount} %"),
        _ => format!("{name} {amount}"),
    };
    // Memory first, which most ask for.
    let mut all: Vec<_> = amounts.iter().collect();
    all.sort_by_key(|(name, _)| (*name != "memory", *name != "cores"));
    all.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

fn bytes(count: u64) -> String {
    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    match count {
        0 => "0".to_owned(),
        _ if count.is_multiple_of(GIB) => format!("{} GiB", count / GIB),
        // Tenths, rounded down: what is free is never more than is said.
        _ if count > 10 * GIB => format!("{}.{} GiB", count / GIB, count % GIB * 10 / GIB),
        _ if count >= MIB => format!("{} MiB", count / MIB),
        _ => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_by_people() {
        let all = [("slots", 1), ("memory", 8 << 30), ("cores", 30)];
        let all: Amounts = all.map(|(name, amount)| (name.to_owned(), amount)).into();
        assert_eq!(amounts(&all), "memory 8 GiB, cores 30 %, slots 1");
        assert_eq!(bytes((140 << 30) + (900 << 20)), "140.8 GiB");
        assert_eq!((bytes(1536 << 20), bytes(12)), ("1536 MiB".to_owned(), "12 bytes".to_owned()));
    }
}
