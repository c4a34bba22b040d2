//! Asks a person, if there is one.

use std::io::{self, BufRead, IsTerminal, Write};

use super::Text;

/// What an answer needs at the end of the last line.
pub(super) const ROOM: usize = " [y/N] no".len();

/// Asks on the terminal and waits for an answer; anything but yes is no. `None` without a terminal.
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
