//! Renders untrusted text as HTML.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::escaped;
use crate::render::clean::clean;

/// Maximum length in bytes of a text that is parsed. Longer ones are shown as plain text, which
/// bounds the parsing time.
const MAX_MARKDOWN_BYTES: usize = 1 << 20;

const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Renders Markdown. HTML in it becomes text, images become their descriptions, and only links to
/// the web or to a mailbox stay links.
pub(super) fn markdown(text: &str) -> String {
    let text = clean(text);
    if text.len() > MAX_MARKDOWN_BYTES {
        return format!("<pre>{}</pre>", escaped(&text));
    }
    // For each open link, true if it stays a link.
    let mut links: Vec<bool> = Vec::new();
    let events = Parser::new_ext(&text, OPTIONS).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { dest_url, .. }) => {
            let is_link = is_harmless(&dest_url);
            links.push(is_link);
            Event::Html(if is_link {
                open_link(&dest_url)
            } else {
                format!("<span class=\"link\" title=\"{}\">", escaped(&dest_url)).into()
            })
        }
        Event::End(TagEnd::Link) => {
            Event::Html(if links.pop() == Some(true) { "</a>" } else { "</span>" }.into())
        }
        Event::Start(Tag::Image { dest_url, .. }) => Event::Html(
            format!("<span class=\"picture\" title=\"{}\">🖼 ", escaped(&dest_url)).into(),
        ),
        Event::End(TagEnd::Image) => Event::Html("</span>".into()),
        // The first and second heading levels are ours.
        Event::Start(Tag::Heading { level, .. }) => {
            Event::Html(format!("<p class=\"heading level-{}\">", level as usize).into())
        }
        Event::End(TagEnd::Heading(_)) => Event::Html("</p>\n".into()),
        event => event,
    });
    let mut written = String::with_capacity(text.len() * 5 / 4);
    html::push_html(&mut written, events);
    written
}

/// Renders text as it was typed.
pub(super) fn plain(text: &str) -> String {
    format!("<div class=\"plain\">{}</div>", escaped(clean(text).trim_matches('\n')))
}

fn open_link(url: &str) -> CowStr<'static> {
    format!("<a href=\"{}\" rel=\"noopener noreferrer\">", escaped(url)).into()
}

/// Returns true for a link to a web page or a mailbox.
pub(crate) fn is_harmless(url: &str) -> bool {
    let has = |scheme: &str| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    (has("https://") || has("http://") || has("mailto:")) && !url.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn html_links_and_images_in_a_text_cannot_act() {
        for (text, expected) in [
            ("a **b**", "<p>a <strong>b</strong></p>\n"),
            ("<img src=x onerror=y>", "<p>&lt;img src=x onerror=y&gt;</p>\n"),
            ("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>\n"),
            (
                "[a](https://b.example/?c=\"d\")",
                "<p><a href=\"https://b.example/?c=&quot;d&quot;\" rel=\"noopener noreferrer\">a</a></p>\n",
            ),
            ("[a](javascript:b)", "<p><span class=\"link\" title=\"javascript:b\">a</span></p>\n"),
            (
                "![a](https://b.example/c.png)",
                "<p><span class=\"picture\" title=\"https://b.example/c.png\">🖼 a</span></p>\n",
            ),
            ("# a", "<p class=\"heading level-1\">a</p>\n"),
        ] {
            assert_eq!(markdown(text), expected);
        }
    }
}
