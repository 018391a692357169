//! Plain tables: a head, rows, columns as wide as their widest cell.
//!
//! Text columns are aligned left, columns named in `right` to the right. No borders: the output is read by
//! people and by `awk`. Tables are for standard output, and have colour where that has; columns line up all the same.

use crate::output::options::{self, Meaning, Stream};
use crate::output::plain;

/// A table under construction.
#[derive(Debug)]
pub struct TextTable {
    head: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
    /// Row, column and meaning of cells that have one.
    marks: Vec<(usize, usize, Meaning)>,
}

impl TextTable {
    /// A table whose columns are `head`; a name that starts with `>` is aligned to the right.
    pub fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.iter().map(|name| name.trim_start_matches('>')).collect(),
            right: head.iter().map(|name| name.starts_with('>')).collect(),
            rows: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty. What a terminal would obey is taken out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain::line(&cell).into_owned()).collect());
    }

    /// Gives the cell of `column` in the last row a meaning, which is its colour.
    pub(crate) fn mark(&mut self, column: usize, meaning: Meaning) {
        if let Some(last) = self.rows.len().checked_sub(1) {
            self.marks.push((last, column, meaning));
        }
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl TextTable {
    fn write(
        &self,
        f: &mut impl std::fmt::Write,
        paint: impl Fn(Meaning, &str) -> String,
    ) -> std::fmt::Result {
        let width = |column: usize| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count());
            cells.chain(self.head.get(column).map(|c| c.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let rows = self.rows.iter().enumerate().map(|(index, row)| (Some(index), row));
        for (index, row) in std::iter::once((None, &head)).chain(rows) {
            // Spaces are written when something follows them.
            let mut gap = 0;
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let room = width - cell.chars().count();
                let is_right = self.right.get(column).copied().unwrap_or(false);
                gap += if is_right { room } else { 0 };
                if !cell.is_empty() {
                    write!(f, "{:gap$}{}", "", self.painted(index, column, cell, &paint))?;
                    gap = 0;
                }
                gap += 2 + if is_right { 0 } else { room };
            }
            writeln!(f)?;
        }
        Ok(())
    }

    /// A cell in its colour; the head's row has no index.
    fn painted(
        &self,
        row: Option<usize>,
        column: usize,
        cell: &str,
        paint: impl Fn(Meaning, &str) -> String,
    ) -> String {
        let Some(row) = row else { return paint(Meaning::Head, cell) };
        let mark = self.marks.iter().find(|mark| (mark.0, mark.1) == (row, column));
        mark.map_or_else(|| cell.to_owned(), |mark| paint(mark.2, cell))
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write(f, |meaning, text| options::paint(Stream::Out, meaning, text))
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

    #[test]
    fn colour_changes_no_column_and_paints_no_space() {
        let table = || {
            let mut table = TextTable::new(&["A", ">BYTES", "C"]);
            table.row(["x".to_owned(), "7".to_owned(), String::new()]);
            table.mark(1, Meaning::Bad);
            table.mark(2, Meaning::Bad);
            table
        };
        let (mut plain, mut colored) = (String::new(), String::new());
        table().write(&mut plain, |_, text| text.to_owned()).unwrap();
        table().write(&mut colored, |meaning, text| format!("<{meaning:?} {text}>")).unwrap();
        assert_eq!(plain, "A  BYTES  C\nx      7\n");
        assert_eq!(colored, "<Head A>  <Head BYTES>  <Head C>\nx      <Bad 7>\n");
    }
}
