//! Plain tables: a head, rows, columns as wide as their widest cell.
//!
//! Text columns are aligned left, columns named in `right` to the right. No colour, no borders: the
//! output is read by people and by `awk`.

use crate::output::plain;

/// A table under construction.
#[derive(Debug)]
pub struct TextTable {
    head: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table whose columns are `head`; a name that starts with `>` is aligned to the right.
    pub fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.iter().map(|name| name.trim_start_matches('>')).collect(),
            right: head.iter().map(|name| name.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty. What a terminal would obey is taken out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain::line(&cell).into_owned()).collect());
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count());
            cells.chain(self.head.get(column).map(|c| c.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                if column > 0 {
                    line.push_str("  ");
                }
                if self.right.get(column).copied().unwrap_or(false) {
                    line.push_str(&format!("{cell:>width$}"));
                } else {
                    line.push_str(&format!("{cell:<width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_whatever_is_in_it() {
        let mut table = TextTable::new(&["TENANT", "NOTE"]);
        table.row(["a\x1b]0;x\x07\nb  DV000".to_owned(), "c".to_owned()]);
        assert_eq!(table.to_string(), "TENANT            NOTE\na?]0;x??b  DV000  c\n");
    }

    #[test]
    fn columns_line_up() {
        let mut table = TextTable::new(&["TENANT", ">HELD", "NOTE"]);
        table.row(["a".to_owned(), "1 GiB".to_owned()]);
        table.row(["train-é".to_owned(), "0".to_owned(), "x".to_owned()]);
        assert_eq!(
            table.to_string(),
            "TENANT    HELD  NOTE\n\
             a        1 GiB\n\
             train-é      0  x\n"
        );
    }
}
