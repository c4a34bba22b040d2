//! Questions on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use super::Text;

/// Asks which one of several is meant. Returns `None` without a terminal or a valid answer.
pub(super) fn pick(
    question: &Text,
    choices: &[Text],
    has_colour: bool,
) -> io::Result<Option<usize>> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(None);
    }
    let mut stderr = io::stderr();
    writeln!(stderr, "{}", question.render(has_colour))?;
    let digits = choices.len().to_string().len();
    for (number, choice) in choices.iter().enumerate() {
        writeln!(stderr, "  {:digits$}  {}", number + 1, choice.render(has_colour))?;
    }
    write!(stderr, "Which one? [1-{}] ", choices.len())?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    let answer: Option<usize> = answer.trim().parse().ok();
    Ok(answer.and_then(|answer| answer.checked_sub(1)).filter(|answer| *answer < choices.len()))
}

/// Columns of the number before a choice.
pub(super) const NUMBER: usize = "  999  ".len();

/// Columns that an answer needs at the end of the last line.
pub(super) const ROOM: usize = " [y/N] no".len();

/// Asks on the terminal and waits for an answer. Anything but yes is no. Returns `None` without a
/// terminal.
pub(super) fn ask(question: &[Text], has_colour: bool) -> io::Result<Option<bool>> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(None);
    }
    let mut stderr = io::stderr();
    let question: Vec<String> = question.iter().map(|line| line.render(has_colour)).collect();
    write!(stderr, "{} [y/N] ", question.join("\n"))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")))
}
