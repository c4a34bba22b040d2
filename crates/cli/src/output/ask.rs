//! Questions on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use super::Text;

/// Returns whether a person can be asked.
pub(super) fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks which one of several is meant, until the answer is the number of one. An empty answer means
/// `default`. Returns `None` without a terminal or an answer.
pub(super) fn pick(
    question: &Text,
    choices: &[Text],
    default: Option<usize>,
    has_colour: bool,
) -> io::Result<Option<usize>> {
    if !has_terminal() {
        return Ok(None);
    }
    let mut stderr = io::stderr();
    writeln!(stderr, "{}", question.render(has_colour))?;
    let digits = choices.len().to_string().len();
    for (number, choice) in choices.iter().enumerate() {
        writeln!(stderr, "  {:digits$}  {}", number + 1, choice.render(has_colour))?;
    }
    let hint = default.map(|default| format!(", Return: {}", default + 1)).unwrap_or_default();
    loop {
        write!(stderr, "Which one? [1-{}{hint}] ", choices.len())?;
        stderr.flush()?;
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer)? == 0 {
            writeln!(stderr)?;
            return Ok(None);
        }
        match answer.trim().parse::<usize>() {
            Ok(number) if (1..=choices.len()).contains(&number) => return Ok(Some(number - 1)),
            Err(_) if answer.trim().is_empty() => return Ok(default),
            _ => writeln!(stderr, "Type a number from 1 to {}.", choices.len())?,
        }
    }
}

/// Number of columns before a choice, for its number.
pub(super) const NUMBER: usize = "  999  ".len();

/// Columns that an answer needs at the end of the last line.
pub(super) const ROOM: usize = " [y/N] no".len();

/// Asks on the terminal and waits for an answer. Anything but yes is no. Returns `None` without a
/// terminal.
pub(super) fn ask(question: &[Text], has_colour: bool) -> io::Result<Option<bool>> {
    if !has_terminal() {
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
