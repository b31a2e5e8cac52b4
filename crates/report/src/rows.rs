//! Tables of things of one kind: a column is a heading, and what to show of each thing.

use crate::document::Block;
use crate::table::{Cell, Column, Table};

/// A table with a row for each thing, built column by column.
#[derive(Debug)]
pub struct Rows<T> {
    table: Table,
    things: Vec<T>,
}

/// What a column of numbers shows: a number, a count, or nothing.
pub trait Figure {
    /// As a cell with this many digits behind the point.
    fn cell(self, decimals: usize) -> Cell;
}

impl Figure for f64 {
    fn cell(self, decimals: usize) -> Cell {
        Cell::number(self, decimals)
    }
}

impl Figure for u32 {
    fn cell(self, decimals: usize) -> Cell {
        f64::from(self).cell(decimals)
    }
}

macro_rules! counts {
    ($($count:ty),*) => {$(
        impl Figure for $count {
            fn cell(self, decimals: usize) -> Cell {
                Cell::number(self as f64, decimals)
            }
        }
    )*};
}

counts!(u64, i64, usize);

impl<F: Figure> Figure for Option<F> {
    fn cell(self, decimals: usize) -> Cell {
        self.map_or(Cell::Empty, |figure| figure.cell(decimals))
    }
}

impl Table {
    /// A table of these things, to be given columns.
    pub fn of<T: Copy>(caption: impl Into<String>, things: impl IntoIterator<Item = T>) -> Rows<T> {
        let things: Vec<T> = things.into_iter().collect();
        let rows = things.iter().map(|_| Vec::new()).collect();
        Rows { table: Self { rows, ..Self::new(caption, Vec::new()) }, things }
    }
}

impl<T: Copy> Rows<T> {
    /// A column of any cells.
    #[must_use]
    pub fn column(mut self, column: Column, of: impl Fn(T) -> Cell) -> Self {
        self.table.columns.push(column);
        for (row, thing) in self.table.rows.iter_mut().zip(&self.things) {
            row.push(of(*thing));
        }
        self
    }

    /// A column of text.
    #[must_use]
    pub fn text<C: Into<Cell>>(self, title: impl Into<String>, of: impl Fn(T) -> C) -> Self {
        self.column(Column::text(title), |thing| of(thing).into())
    }

    /// A column of text that leans to the right, as numbers do: `1.25 ± 0.02`.
    #[must_use]
    pub fn written<C: Into<Cell>>(self, title: &str, unit: &str, of: impl Fn(T) -> C) -> Self {
        self.column(Column::number(title, unit), |thing| of(thing).into())
    }

    /// A column of numbers in a unit, with this many digits behind the point.
    #[must_use]
    pub fn number<F: Figure>(
        self,
        title: impl Into<String>,
        unit: impl Into<String>,
        decimals: usize,
        of: impl Fn(T) -> F,
    ) -> Self {
        self.column(Column::number(title, unit), |thing| of(thing).cell(decimals))
    }

    /// A column of counts.
    #[must_use]
    pub fn count<F: Figure>(self, title: impl Into<String>, of: impl Fn(T) -> F) -> Self {
        self.number(title, "", 0, of)
    }

    /// Leaves the last column to the page and to CSV: a terminal has no room for all.
    #[must_use]
    pub fn detail(mut self) -> Self {
        if let Some(column) = self.table.columns.last_mut() {
            column.is_detail = true;
        }
        self
    }

    /// A terminal shows this many rows.
    #[must_use]
    pub fn most(mut self, rows: usize) -> Self {
        self.table.most = Some(rows);
        self
    }
}

impl<T> From<Rows<T>> for Table {
    fn from(rows: Rows<T>) -> Self {
        rows.table
    }
}

impl<T> From<Rows<T>> for Block {
    fn from(rows: Rows<T>) -> Self {
        Self::Table(rows.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_a_heading_and_a_cell_of_each_thing() {
        let things = [("a", 1.25, Some(3_u64)), ("b", 2.5, None)];
        let rows = Table::of("Things", &things)
            .text("name", |it| it.0)
            .number("energy", "J", 1, |it| it.1)
            .count("calls", |it| it.2)
            .detail();
        let columns = vec![
            Column::text("name"),
            Column::number("energy", "J"),
            Column { is_detail: true, ..Column::number("calls", "") },
        ];
        let table = Table::new("Things", columns)
            .row(vec!["a".into(), Cell::number(1.25, 1), Cell::count(3)])
            .row(vec!["b".into(), Cell::number(2.5, 1), Cell::Empty]);
        assert_eq!(Table::from(rows), table);
    }
}
