//! Tables that fit the terminal: as columns, with one column cut or wrapped, or as one block per
//! row.

use super::text::{Style, Text};

/// The number of spaces between two cells.
const GAP: usize = 2;

/// The smallest width of a column that is cut, in columns of the terminal. If that is still too
/// wide, each row becomes a block.
const MIN_CUT_WIDTH: usize = 16;

/// Width after which a cell is cut in a pipe, where no terminal limits a line.
pub(crate) const WIDEST_IN_PIPE: usize = 120;

/// Width after which a cell of prose is cut in a pipe.
const WIDEST_PROSE_IN_PIPE: usize = 400;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'a> {
    /// The title above the column.
    title: &'a str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Aligned left.
    Words,
    /// Aligned right.
    Numbers,
    /// Cut in the middle if the line is too long.
    Long,
    /// Cut at its end if the line is too long.
    Title,
    /// Wrapped if the line is too long; only as the last column.
    Prose,
}

impl<'a> Column<'a> {
    /// Creates a column of words.
    pub(crate) const fn words(title: &'a str) -> Column<'a> {
        Column { title, kind: Kind::Words }
    }

    /// Creates a column of numbers.
    pub(crate) const fn numbers(title: &'a str) -> Column<'a> {
        Column { title, kind: Kind::Numbers }
    }

    /// Creates a column that is cut in the middle if the line is too long.
    pub(crate) const fn long(title: &'a str) -> Column<'a> {
        Column { title, kind: Kind::Long }
    }

    /// Creates a column that is cut at its end if the line is too long.
    pub(crate) const fn title(title: &'a str) -> Column<'a> {
        Column { title, kind: Kind::Title }
    }

    /// Creates a last column that is wrapped if the line is too long.
    pub(crate) const fn prose(title: &'a str) -> Column<'a> {
        Column { title, kind: Kind::Prose }
    }

    fn can_shrink(&self) -> bool {
        matches!(self.kind, Kind::Long | Kind::Title | Kind::Prose)
    }
}

/// Lays rows out as lines of at most `width` columns. Without a width, each row is one line and
/// only very long cells are cut.
pub(crate) fn lay_out(columns: &[Column], rows: Vec<Vec<Text>>, width: Option<usize>) -> Vec<Text> {
    let mut widths: Vec<usize> =
        columns.iter().map(|column| Text::plain(column.title).width()).collect();
    for row in &rows {
        for (cell, width) in row.iter().zip(&mut widths) {
            *width = cell.width().max(*width);
        }
    }
    if width.is_none() {
        for (width, column) in widths.iter_mut().zip(columns) {
            let is_prose = column.kind == Kind::Prose;
            *width = (*width).min(if is_prose { WIDEST_PROSE_IN_PIPE } else { WIDEST_IN_PIPE });
        }
    }
    if let Some(available) = width {
        let needed = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let too_much = needed.saturating_sub(available);
        if too_much > 0 {
            let can_shrink = columns.iter().position(Column::can_shrink);
            match can_shrink.and_then(|column| widths.get_mut(column)) {
                Some(width) if *width >= MIN_CUT_WIDTH + too_much => *width -= too_much,
                _ => return blocks(columns, rows, available),
            }
        }
    }
    let titles = columns.iter().map(|column| Text::styled(Style::Dim, column.title)).collect();
    std::iter::once(titles)
        .chain(rows)
        .flat_map(|row| lines(columns, &widths, row, width.is_some()))
        .collect()
}

/// Lays out one row: one line, or more if its prose is wrapped.
fn lines(columns: &[Column], widths: &[usize], row: Vec<Text>, wraps: bool) -> Vec<Text> {
    let mut line = Text::default();
    let mut further = Vec::new();
    // Trailing spaces are not written.
    let mut pending_spaces = 0;
    for ((column, width), cell) in columns.iter().zip(widths).zip(row) {
        let cell = match column.kind {
            Kind::Prose if wraps => {
                let mut wrapped = cell.wrap(*width).into_iter();
                let first = wrapped.next().unwrap_or_default();
                let indent = line.width() + pending_spaces;
                further.extend(wrapped.map(|rest| Text::plain(" ".repeat(indent)).join(rest)));
                first
            }
            Kind::Title | Kind::Prose => cell.shorten(*width),
            _ => cell.cut(*width),
        };
        let free = width.saturating_sub(cell.width());
        let (before, after) = if column.kind == Kind::Numbers { (free, 0) } else { (0, free) };
        pending_spaces += before;
        if !cell.is_empty() {
            line = line.and(" ".repeat(pending_spaces)).join(cell);
            pending_spaces = 0;
        }
        pending_spaces += after + GAP;
    }
    further.insert(0, line);
    further
}

/// Lays rows out as blocks: the first cell, then the others below with their titles.
fn blocks(columns: &[Column], rows: Vec<Vec<Text>>, available: usize) -> Vec<Text> {
    let titles = columns.iter().skip(1).map(|column| column.title.len());
    let indent = titles.max().unwrap_or(0) + 2 * GAP;
    let mut lines = Vec::new();
    for row in rows {
        // The cells of an indented row are indented, too.
        let name = row.first().map(|cell| cell.render(false)).unwrap_or_default();
        let nested = name.len() - name.trim_start_matches(' ').len();
        for (index, (column, cell)) in columns.iter().zip(row).enumerate() {
            if cell.is_empty() {
                continue;
            }
            let (mut start, indent) = match index {
                0 => (Text::default(), nested + GAP),
                _ => {
                    let indent = nested + indent;
                    let title = format!("{:1$}{2}", "", nested + GAP, column.title);
                    (Text::styled(Style::Dim, format!("{title:indent$}")), indent)
                }
            };
            // Wrapped lines are indented.
            let fits = index == 0 && cell.width() <= available;
            let width = if fits { available } else { available.saturating_sub(indent) };
            for part in cell.wrap(width) {
                lines.push(std::mem::replace(&mut start, " ".repeat(indent).into()).join(part));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(last: Column, width: Option<usize>, expected: &[&str]) {
        let columns = [Column::words("name"), Column::numbers("bytes"), last];
        let rows = vec![
            vec!["a".into(), "1".into(), "some/where quite/deep.jsonl".into()],
            vec!["long".into(), "1,000".into(), Text::default()],
        ];
        let lines: Vec<String> =
            lay_out(&columns, rows, width).iter().map(|line| line.render(false)).collect();
        assert_eq!(lines, expected);
        for line in &lines {
            assert!(width.is_none_or(|width| line.chars().count() <= width));
        }
    }

    #[test]
    fn columns_are_aligned() {
        check(
            Column::long("path"),
            None,
            &["name  bytes  path", "a         1  some/where quite/deep.jsonl", "long  1,000"],
        );
    }

    #[test]
    fn a_cell_is_cut_where_nothing_else_limits_it() {
        for (last, widest) in [
            (Column::long("path"), WIDEST_IN_PIPE),
            (Column::title("path"), WIDEST_IN_PIPE),
            (Column::prose("path"), WIDEST_PROSE_IN_PIPE),
        ] {
            let rows = vec![vec!["a".into(), Text::plain("long ".repeat(1000))]];
            let lines = lay_out(&[Column::words("name"), last], rows, None);
            let widths: Vec<usize> = lines.iter().map(Text::width).collect();
            assert_eq!(widths, [10, 6 + widest]);
        }
    }

    #[test]
    fn the_long_column_is_cut() {
        check(
            Column::long("path"),
            Some(32),
            &["name  bytes  path", "a         1  some/wher…eep.jsonl", "long  1,000"],
        );
    }

    #[test]
    fn prose_is_wrapped() {
        check(
            Column::prose("path"),
            Some(32),
            &[
                "name  bytes  path",
                "a         1  some/where",
                "             quite/deep.jsonl",
                "long  1,000",
            ],
        );
    }

    #[test]
    fn blocks_of_indented_rows_are_indented() {
        let columns = [Column::words("day"), Column::numbers("cost")];
        let rows = vec![vec!["2026-11-01".into(), "$2".into()], vec!["  opus".into(), "$1".into()]];
        let lines = lay_out(&columns, rows, Some(13));
        let lines: Vec<String> = lines.iter().map(|line| line.render(false)).collect();
        assert_eq!(lines, ["2026-11-01", "  cost  $2", "  opus", "    cost  $1"]);
    }

    #[test]
    fn narrow_terminals_get_blocks() {
        check(
            Column::long("path"),
            Some(20),
            &[
                "a",
                "  bytes  1",
                "  path   some/where",
                "         quite/",
                "         deep.jsonl",
                "long",
                "  bytes  1,000",
            ],
        );
    }
}
