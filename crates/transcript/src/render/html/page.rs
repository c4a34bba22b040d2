//! Writes the frame of a page: its head, its header, and the table of contents.

use std::io::{self, Write};

use super::{Listed, escaped, line, time_tag, words};
use crate::render::Header;

/// The style sheet.
const STYLE: &str = include_str!("style.css");

/// The content security policy: nothing is loaded and nothing runs, whatever the page holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

fn head(title: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"quipu\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n",
        escaped(&line(title))
    )
}

pub(super) fn begin(header: &Header, out: &mut dyn Write) -> io::Result<()> {
    let title = line(&header.title);
    head(&title, out)?;
    writeln!(out, "<body>\n<header class=\"top\"><div class=\"bar\">")?;
    writeln!(out, "<div class=\"title\">{}</div>", escaped(&title))?;
    let facts = [
        Some(header.project.clone())
            .filter(|project| !project.is_empty())
            .map(|p| escaped(&line(&p))),
        Some(escaped(&line(&header.whose()))),
        header.started_at.map(time_tag),
        Some(words::count(header.tokens, "token")).filter(|_| header.tokens > 0),
    ];
    let facts: Vec<String> = facts
        .into_iter()
        .flatten()
        .filter(|fact| !fact.trim().is_empty())
        .map(|fact| format!("<span>{}</span>", fact.trim()))
        .collect();
    writeln!(
        out,
        "<div class=\"facts\">{}<a href=\"#contents\">Contents</a></div>",
        facts.concat()
    )?;
    writeln!(out, "</div></header>\n<main>\n<h1>{}</h1>\n<dl class=\"about\">", escaped(&title))?;
    for (label, fact) in header.facts() {
        writeln!(out, "<div><dt>{label}</dt><dd>{}</dd></div>", escaped(&line(&fact)))?;
    }
    out.write_all(b"</dl>\n")?;
    if header.is_redacted {
        out.write_all(
            b"<p class=\"mark\">Secrets are masked: <code>[redacted:kind:number]</code></p>\n",
        )?;
    }
    Ok(())
}

/// Writes the table of contents at the end, because it is complete only then; the style sheet puts
/// it beside the story if there is room.
pub(super) fn end(turns: &[(String, String)], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"</main>\n<nav id=\"contents\"><div class=\"label\">Contents</div>\n<ol>\n")?;
    for (anchor, prompt) in turns {
        writeln!(out, "<li><a href=\"#{anchor}\">{}</a></li>", escaped(prompt))?;
    }
    out.write_all(b"</ol></nav>\n</body>\n</html>\n")
}

pub(super) fn index(title: &str, sessions: &[Listed], out: &mut dyn Write) -> io::Result<()> {
    let title = line(title);
    head(&title, out)?;
    writeln!(out, "<body class=\"index\">\n<main>\n<h1>{}</h1>", escaped(&title))?;
    writeln!(
        out,
        "<p class=\"mark\">{}</p>\n<ul class=\"sessions\">",
        words::count(sessions.len() as u64, "session")
    )?;
    for Listed { header, file } in sessions {
        let facts = [
            header.project.clone(),
            header.whose(),
            header.started_at.and_then(words::minute).unwrap_or_default(),
            words::count(header.turns, "turn"),
            header.parent.as_ref().map(|_| "sub-agent".to_owned()).unwrap_or_default(),
        ];
        let facts: Vec<String> = facts
            .iter()
            .filter(|fact| !fact.is_empty())
            .map(|fact| format!("<span>{}</span>", escaped(&line(fact))))
            .collect();
        writeln!(
            out,
            "<li><a href=\"{}\">{}</a><div class=\"facts\">{}</div></li>",
            escaped(file),
            escaped(&line(&header.title)),
            facts.concat()
        )?;
    }
    out.write_all(b"</ul>\n</main>\n</body>\n</html>\n")
}
