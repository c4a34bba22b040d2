//! A Markdown table: aligned if it fits, otherwise one block per row.

use super::{Style, Text};

/// Columns between two cells.
const GAP: usize = 2;

#[derive(Debug)]
pub(super) struct Table {
    /// True for columns that are aligned right.
    right: Vec<bool>,
    rows: Vec<Vec<Text>>,
}

impl Table {
    pub(super) fn new(right: Vec<bool>) -> Table {
        Table { right, rows: Vec::new() }
    }

    /// Begins a row.
    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Begins a cell of the row.
    pub(super) fn cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(Text::default());
        }
    }

    /// Adds words to the cell.
    pub(super) fn words(&mut self, style: Style, words: &str) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) {
            *cell = std::mem::take(cell).with(style, words);
        }
    }

    pub(super) fn lay_out(self, room: Option<usize>) -> Vec<Text> {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        match room {
            Some(room) if total > room => self.listed(room),
            _ => self.aligned(&widths, total),
        }
    }

    fn aligned(self, widths: &[usize], total: usize) -> Vec<Text> {
        let mut lines = Vec::new();
        for (index, row) in self.rows.into_iter().enumerate() {
            let mut line = Text::default();
            let cells = row.into_iter().zip(widths).zip(&self.right);
            for (place, ((cell, width), is_right)) in cells.enumerate() {
                if place > 0 {
                    line = line.and(" ".repeat(GAP));
                }
                let free = " ".repeat(width.saturating_sub(cell.width()));
                let cell = if index == 0 { cell.restyled(Style::Bold) } else { cell };
                line =
                    if *is_right { line.and(free).join(cell) } else { line.join(cell).and(free) };
            }
            lines.push(line);
            if index == 0 {
                lines.push(Text::styled(Style::Dim, "─".repeat(total)));
            }
        }
        lines
    }

    /// Lays each row out as lines of title and cell.
    fn listed(self, room: usize) -> Vec<Text> {
        let mut rows = self.rows.into_iter();
        let titles = rows.next().unwrap_or_default();
        let mut lines = Vec::new();
        for row in rows {
            if !lines.is_empty() {
                lines.push(Text::default());
            }
            for (index, cell) in row.into_iter().enumerate() {
                let title = titles.get(index).cloned().unwrap_or_default();
                let title = title.restyled(Style::Dim);
                let line = if title.is_empty() {
                    cell
                } else {
                    title.with(Style::Dim, ":").and(" ").join(cell)
                };
                lines.extend(line.wrap(room));
            }
        }
        if lines.is_empty() {
            lines.extend(titles.into_iter().map(|title| title.restyled(Style::Bold)));
        }
        lines
    }
}
