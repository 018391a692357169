//! Columns of a table, chosen and measured by the width there is.
//!
//! Pure. Promises: columns of rank 0 are always there; of the others those of the lower ranks come first, and one that
//! does not fit keeps none of a higher rank out that does; no line is wider than asked, as long as the columns of rank 0 fit
//! into it; room that is left goes to names first, then to bars.

/// Room that a column can do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// As wide as its widest cell.
    Cells,
    /// The same, and cut to no less than this where there is less room.
    Text(usize),
    /// Between two widths, as there is room.
    Bar(usize, usize),
}

/// A column before the width is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnPlan<C> {
    pub(super) column: C,
    pub(super) head: &'static str,
    /// 0 is always shown.
    pub(super) rank: u8,
    pub(super) room: Room,
    /// Of its widest cell.
    pub(super) cells: usize,
}

/// A column that is shown, and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed<C> {
    pub(super) column: C,
    pub(super) head: &'static str,
    pub(super) width: usize,
}

impl<C: Copy> ColumnPlan<C> {
    fn natural(&self) -> usize {
        self.cells.max(self.head.chars().count())
    }

    fn least(&self) -> usize {
        match self.room {
            Room::Cells => self.natural(),
            Room::Text(least) => self.natural().min(least),
            Room::Bar(least, _) => least.max(self.head.chars().count()),
        }
    }

    fn most(&self) -> usize {
        match self.room {
            Room::Cells | Room::Text(_) => self.natural(),
            Room::Bar(_, most) => most,
        }
    }

    fn is_bar(&self) -> bool {
        matches!(self.room, Room::Bar(..))
    }
}

/// Columns that fit into `width`, in the order of the plan, with `gap` between two.
pub(super) fn place<C: Copy>(plan: &[ColumnPlan<C>], width: usize, gap: usize) -> Vec<Placed<C>> {
    let mut order: Vec<usize> = (0..plan.len()).collect();
    order.sort_by_key(|at| plan.get(*at).map_or(u8::MAX, |column| column.rank));
    let mut widths = vec![None; plan.len()];
    let mut used = 0_usize;
    for at in order {
        let (Some(column), Some(slot)) = (plan.get(at), widths.get_mut(at)) else { continue };
        let more = column.least() + if used == 0 { 0 } else { gap };
        if column.rank == 0 || used + more <= width {
            used += more;
            *slot = Some(column.least());
        }
    }
    let mut spare = width.saturating_sub(used);
    for of_bars in [false, true] {
        // A cell to each in turn, so that those alike stay alike.
        loop {
            let mut has_grown = false;
            for (column, slot) in plan.iter().zip(&mut widths) {
                let Some(wide) = slot.as_mut() else { continue };
                if column.is_bar() == of_bars && *wide < column.most() && spare > 0 {
                    *wide += 1;
                    spare -= 1;
                    has_grown = true;
                }
            }
            if !has_grown {
                break;
            }
        }
    }
    let shown = plan.iter().zip(widths);
    shown
        .filter_map(|(plan, width)| {
            Some(Placed { column: plan.column, head: plan.head, width: width? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan() -> Vec<ColumnPlan<u8>> {
        let plan = |column, head, rank, room, cells| ColumnPlan { column, head, rank, room, cells };
        vec![
            plan(0, "NAME", 0, Room::Text(8), 20),
            plan(1, "SHARE", 0, Room::Bar(10, 24), 0),
            plan(2, "HELD", 1, Room::Cells, 7),
            plan(3, "QUEUE", 3, Room::Cells, 12),
            plan(4, "GATE", 2, Room::Cells, 6),
        ]
    }

    fn shown(width: usize) -> Vec<(u8, usize)> {
        place(&plan(), width, 1).iter().map(|placed| (placed.column, placed.width)).collect()
    }

    #[test]
    fn columns_come_by_rank_and_names_grow_before_bars() {
        assert_eq!(shown(19), [(0, 8), (1, 10)]);
        assert_eq!(shown(5), [(0, 8), (1, 10)], "never less");
        assert_eq!(shown(30), [(0, 11), (1, 10), (2, 7)]);
        assert_eq!(shown(34), [(0, 8), (1, 10), (2, 7), (4, 6)]);
        assert_eq!(shown(47), [(0, 8), (1, 10), (2, 7), (3, 12), (4, 6)]);
        assert_eq!(shown(60), [(0, 20), (1, 11), (2, 7), (3, 12), (4, 6)]);
        assert_eq!(shown(200), [(0, 20), (1, 24), (2, 7), (3, 12), (4, 6)]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide(width in 19_usize..300, gap in 1_usize..3) {
            let placed = place(&plan(), width.max(18 + gap), gap);
            let all: usize = placed.iter().map(|placed| placed.width).sum();
            prop_assert!(all + gap * (placed.len() - 1) <= width.max(18 + gap));
        }
    }
}
