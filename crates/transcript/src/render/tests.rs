//! Tests what no rendering may do, whatever a transcript holds.

use std::borrow::Cow;

use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};
use regex::Regex;
use serde_json::value::RawValue;

use super::*;
use crate::entry::{Compaction, RawJson, Role};
use crate::story::{
    Folded, ItemKind, Outcome, Piece, Rewind, StoryCall, StoryDetail, StoryResult, Tools,
};
use crate::time::Timestamp;

/// Texts that try to act in the output.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></details><iframe src=//evil.example>",
    "[a](javascript:alert(1)) [b](data:text/html,x) <https://c.example>",
    "![p](https://evil.example/p.png)",
    "```\nunclosed <b>",
    "`````html\n</details>\n```\n",
    "~~~",
    "> - ```\n> x",
    "\t<b>tab</b>\n \t<i>",
    "- a\n\n\t<u>x</u>",
    "# one\n## two\nthree\n===\n",
    "<!-- comment\n\n--> <?php ?> <![CDATA[x]]>",
    "<details>\n\n</summary>",
    "[r]: javascript:x\n\n[r]",
    "[r]: <javascript:x> \"t\"\n\n![r][r] [r][] [t]",
    "a\r\nb\rc\u{2028}d\u{202e}e\0f\u{1b}[31mg",
    "\" onmouseover=\"x\" '",
    "| a | b |\n|---|---|\n| <b> | `|` |",
    "&lt;b&gt; &amp; &#60;",
    "\\<b> \\`<i>`",
    "1. <p>\n\n   <q>\n",
    "<div>\n*a*\n\n<div>\n```\n</div>",
    "*<a href=\"`\">`*",
    "$$x$$ {{y}} ~~z~~ - [ ] t",
];

/// Characters that must not reach the output.
const ODD: [char; 4] = ['\0', '\u{1b}', '\u{202e}', '\r'];

fn text() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        4 => prop::sample::select(HOSTILE).prop_map(str::to_owned),
        2 => "[ -~\n\t]{0,40}",
        1 => any::<String>(),
    ];
    prop::collection::vec((one, "[\n \t]{0,2}"), 0..4)
        .prop_map(|parts| parts.into_iter().map(|(text, gap)| text + &gap).collect())
}

fn cow() -> impl Strategy<Value = Cow<'static, str>> {
    text().prop_map(Cow::Owned)
}

fn piece() -> impl Strategy<Value = Piece<'static>> {
    let id = || prop_oneof![Just(None), "[ab]".prop_map(|id| Some(Cow::Owned(id)))];
    prop_oneof![
        4 => cow().prop_map(Piece::Words),
        1 => (cow(), cow(), prop::option::of(".*")).prop_map(|(label, text, gist)| {
            Piece::Attached { label, text, gist }
        }),
        1 => (cow(), cow()).prop_map(|(label, text)| Piece::Pasted { label, text }),
        2 => cow().prop_map(Piece::Thinking),
        1 => cow().prop_map(Piece::Other),
        1 => prop::option::of(cow()).prop_map(|media_type| Piece::Image { media_type }),
        3 => (id(), cow(), prop::option::of(text()), text(), prop::option::of(text())).prop_map(
            |(id, name, about, input, subagent)| {
                let input = RawValue::from_string(serde_json::json!({ "x": input }).to_string());
                let input = Some(RawJson::Owned(input.unwrap()));
                let outcome = Some(Outcome::Failed);
                let is_partial = true;
                let exit_code = Some(1);
                Piece::Call(StoryCall {
                    id, name, about, input, is_partial, outcome, exit_code, subagent,
                })
            }
        ),
        3 => (id(), prop::option::of(cow()), cow(), any::<bool>()).prop_map(
            |(call_id, name, text, is_orphan)| {
                let about = Some(text.to_string());
                let output_file = name.clone();
                let outcome = Outcome::Mentions;
                let images = 1;
                Piece::Result(StoryResult {
                    call_id, name, about, text, outcome, output_file, images, is_orphan,
                })
            }
        ),
    ]
}

fn item() -> impl Strategy<Value = StoryItem<'static>> {
    let kind = prop_oneof![
        6 => Just(ItemKind::Message),
        1 => (cow(), text()).prop_map(|(summary, file)| ItemKind::Compaction(Compaction {
            trigger: Some(summary.clone()),
            summary,
            read_files: vec![file],
            ..Compaction::default()
        })),
        1 => cow().prop_map(|summary| ItemKind::BranchSummary { summary, from: None }),
        1 => cow().prop_map(|reason| ItemKind::Reset { reason: Some(reason) }),
        1 => Just(ItemKind::Note),
    ];
    let role =
        prop::sample::select(vec![None, Some(Role::User), Some(Role::Assistant), Some(Role::Tool)]);
    let folded = prop_oneof![4 => Just(None), 1 => Just(Some(Folded::Meta))];
    (kind, role, folded, prop::collection::vec(piece(), 0..4), any::<[bool; 4]>(), cow()).prop_map(
        |(kind, role, folded, pieces, [is_prompt, is_interrupt, has_rewind, is_error], name)| {
            StoryItem {
                kind,
                role,
                folded,
                pieces,
                is_prompt,
                is_interrupt,
                is_error,
                rewind: has_rewind.then(Rewind::default),
                model: Some(name.clone()),
                type_name: name,
                turn: is_prompt.then_some(1),
                time: Some(Timestamp(1_770_193_116_233)),
                ..StoryItem::default()
            }
        },
    )
}

fn header() -> impl Strategy<Value = Header> {
    (text(), text(), prop::option::of(text())).prop_map(|(title, project, cwd)| Header {
        id: title.clone(),
        program: "Claude Code".to_owned(),
        models: vec![project.clone()],
        title,
        project,
        cwd,
        ..Header::default()
    })
}

fn detail() -> impl Strategy<Value = StoryDetail> {
    prop_oneof![
        Just(StoryDetail::FULL),
        Just(StoryDetail::DEFAULT),
        Just(StoryDetail { tools: Tools::Inputs, ..StoryDetail::DEFAULT }),
    ]
}

fn rendered(mut rendering: impl Rendering, header: &Header, items: &[StoryItem<'_>]) -> String {
    let mut out = Vec::new();
    rendering.begin(header, &mut out).unwrap();
    for item in items {
        rendering.item(item, &mut out).unwrap();
    }
    rendering.end(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Checks that every tag is ours or Markdown's, is closed, and cannot act.
fn check_html(html: &str) -> Result<(), TestCaseError> {
    let (_, body) = html.split_once("</style>").expect("a style");
    let tag = Regex::new(r"<(/?)([a-z0-9]+)((?: [a-z-]+(?:=\x22[^\x22<>]*\x22)?)*) ?/?>").unwrap();
    let attribute = Regex::new(r" ([a-z-]+)(?:=\x22([^\x22]*)\x22)?").unwrap();
    let known = [
        "head",
        "body",
        "html",
        "header",
        "main",
        "section",
        "nav",
        "div",
        "span",
        "p",
        "a",
        "h1",
        "h2",
        "dl",
        "dt",
        "dd",
        "ul",
        "ol",
        "li",
        "details",
        "summary",
        "pre",
        "code",
        "b",
        "em",
        "strong",
        "del",
        "time",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "blockquote",
        "hr",
        "br",
        "input",
    ];
    let mut open: Vec<&str> = vec!["html", "head"];
    let mut tags = 0;
    for found in tag.captures_iter(body) {
        tags += 1;
        let (name, is_end) = (found.get(2).unwrap().as_str(), &found[1] == "/");
        prop_assert!(known.contains(&name), "<{name}>");
        if is_end {
            prop_assert_eq!(open.pop(), Some(name));
        } else if !["hr", "br", "input"].contains(&name) {
            open.push(name);
        }
        for attribute in attribute.captures_iter(&found[3]) {
            let value = attribute.get(2).map_or("", |value| value.as_str());
            match &attribute[1] {
                "class" | "id" | "title" | "datetime" | "rel" | "disabled" | "start"
                | "checked" => {}
                "type" => prop_assert_eq!(value, "checkbox"),
                "style" => prop_assert!(value.starts_with("text-align: "), "{value}"),
                "href" => prop_assert!(value.starts_with('#') || is_safe_url(value), "{value}"),
                other => prop_assert!(false, "{other}"),
            }
        }
    }
    prop_assert!(open.is_empty(), "{open:?}");
    prop_assert_eq!(body.matches('<').count(), tags, "a `<` outside of tags");
    Ok(())
}

fn is_safe_url(url: &str) -> bool {
    let url = url.to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
}

/// Checks that all HTML and all headings are ours, and that nothing stays open.
fn check_markdown(markdown: &str, prompts: usize) -> Result<(), TestCaseError> {
    let ours = Regex::new(r"^(</?details>|<summary>(?:[^<]|</?code>)*</summary>)?\n?$").unwrap();
    let (mut first, mut second) = (0, 0);
    let probed = format!("{markdown}\nthe end\n");
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut depth = 0;
    let mut ends_outside = false;
    for event in Parser::new_ext(&probed, options) {
        ends_outside = false;
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                prop_assert!(ours.is_match(&html), "{html:?} in {markdown}");
            }
            Event::Start(tag) => {
                depth += 1;
                match tag {
                    Tag::Heading { level: HeadingLevel::H1, .. } => first += 1,
                    Tag::Heading { level: HeadingLevel::H2, .. } => second += 1,
                    Tag::Image { dest_url, .. } => prop_assert!(false, "{dest_url}"),
                    Tag::Link { dest_url, .. } => prop_assert!(
                        is_safe_url(&dest_url) || !dest_url.contains(':'),
                        "{dest_url} in {markdown}"
                    ),
                    _ => {}
                }
            }
            Event::End(_) => {
                depth -= 1;
                ends_outside = depth == 0;
            }
            Event::Text(text) if &*text == "the end" => prop_assert!(depth == 1, "{markdown}"),
            _ => {}
        }
    }
    prop_assert!(ends_outside && probed.ends_with("the end\n"));
    prop_assert_eq!(first, 1, "{}", markdown);
    prop_assert_eq!(second, prompts, "{}", markdown);
    Ok(())
}

proptest! {
    #![proptest_config(crate::few_cases(512))]

    #[test]
    fn html_of_any_story_cannot_act(
        header in header(), items in prop::collection::vec(item(), 0..4), detail in detail(),
    ) {
        let html = rendered(Html::new(detail), &header, &items);
        prop_assert!(html.contains("Content-Security-Policy"));
        prop_assert!(!html.contains(ODD));
        check_html(&html)?;
    }

    #[test]
    fn markdown_of_any_story_cannot_act(
        header in header(), items in prop::collection::vec(item(), 0..4), detail in detail(),
    ) {
        let markdown = rendered(Markdown::new(detail), &header, &items);
        prop_assert!(!markdown.contains(ODD));
        let prompts = items.iter().filter(|item| item.is_prompt && item.is_open(detail) && item.is_shown(detail));
        let prompts = prompts.count();
        check_markdown(&markdown, prompts)?;
    }

    #[test]
    fn lists_of_any_sessions_cannot_act(header in header()) {
        let sessions = [Listed { header: header.clone(), file: "a-b.html".to_owned() }];
        let mut out = Vec::new();
        html::index(&header.title, &sessions, &mut out).unwrap();
        check_html(&String::from_utf8(out).unwrap().replace("\"a-b.html\"", "\"#\""))?;
        let mut out = Vec::new();
        markdown::index(&header.title, &sessions, &mut out).unwrap();
        check_markdown(&String::from_utf8(out).unwrap(), 0)?;
    }
}

fn story() -> Vec<StoryItem<'static>> {
    let input = RawValue::from_string(r#"{"command":"npm test"}"#.to_owned()).unwrap();
    vec![
        StoryItem {
            role: Some(Role::User),
            is_prompt: true,
            turn: Some(1),
            time: Some(Timestamp(1_770_193_116_233)),
            pieces: vec![Piece::Words("Why do the tests fail?".into())],
            ..StoryItem::default()
        },
        StoryItem {
            role: Some(Role::Assistant),
            pieces: vec![
                Piece::Thinking("Run them.".into()),
                Piece::Call(StoryCall {
                    id: Some("c1".into()),
                    name: "Bash".into(),
                    about: Some("npm test".to_owned()),
                    input: Some(RawJson::Owned(input)),
                    outcome: Some(Outcome::Failed),
                    ..StoryCall::default()
                }),
            ],
            ..StoryItem::default()
        },
        StoryItem {
            role: Some(Role::Tool),
            pieces: vec![Piece::Result(StoryResult {
                call_id: Some("c1".into()),
                text: "1 failed: ```price```".into(),
                outcome: Outcome::Failed,
                ..StoryResult::default()
            })],
            ..StoryItem::default()
        },
        StoryItem {
            role: Some(Role::Assistant),
            pieces: vec![Piece::Words("# Found\n\n`toFixed` **rounds**.".into())],
            ..StoryItem::default()
        },
    ]
}

fn short_header() -> Header {
    Header {
        title: "Two *decimals*".to_owned(),
        id: "0001".to_owned(),
        program: "Claude Code".to_owned(),
        project: "shop".to_owned(),
        turns: 1,
        tokens: 1234,
        ..Header::default()
    }
}

#[test]
fn a_story_is_rendered_as_markdown() {
    insta::assert_snapshot!(rendered(Markdown::new(StoryDetail::DEFAULT), &short_header(), &story()), @r"
    # Two \*decimals\*

    - Project: shop
    - Agent: Claude Code
    - Turns: 1
    - Tokens: 1,234
    - Session: 0001

    ## Turn 1 · 2026-02-04 08:18 UTC

    > Why do the tests fail?

    - `Bash` `npm test` — *failed*

    ### Found

    `toFixed` **rounds**.
    ");
    insta::assert_snapshot!(rendered(Markdown::new(StoryDetail::FULL), &short_header(), &story()), @r#"
    # Two \*decimals\*

    - Project: shop
    - Agent: Claude Code
    - Turns: 1
    - Tokens: 1,234
    - Session: 0001

    ## Turn 1 · 2026-02-04 08:18 UTC

    > Why do the tests fail?

    <details>
    <summary>Thinking</summary>

    > Run them.

    </details>

    <details>
    <summary><code>Bash</code> <code>npm test</code> — failed</summary>

    ```json
    {
      "command": "npm test"
    }
    ```

    ````text
    1 failed: ```price```
    ````

    </details>

    ### Found

    `toFixed` **rounds**.
    "#);
}

#[test]
fn a_story_is_rendered_as_html() {
    let html = rendered(Html::new(StoryDetail::FULL), &short_header(), &story());
    let (_, body) = html.split_once("<main>").unwrap();
    insta::assert_snapshot!(body, @r##"

    <h1>Two *decimals*</h1>
    <dl class="about">
    <div><dt>Project</dt><dd>shop</dd></div>
    <div><dt>Agent</dt><dd>Claude Code</dd></div>
    <div><dt>Turns</dt><dd>1</dd></div>
    <div><dt>Tokens</dt><dd>1,234</dd></div>
    <div><dt>Session</dt><dd>0001</dd></div>
    </dl>
    <section class="turn" id="turn-1">
    <h2><a href="#turn-1">Turn 1</a> <time datetime="2026-02-04T08:18:36Z">2026-02-04 08:18 UTC</time></h2>
    <div class="words human"><div class="prose"><div class="plain">Why do the tests fail?</div></div></div>
    <details class="aside thinking"><summary>Thinking</summary><div class="prose"><p>Run them.</p>
    </div></details>
    <div class="calls">
    <details class="call failed"><summary class="line"><b>Bash</b> <code>npm test</code> <span class="ended">failed</span></summary><dl class="input"><dt>command</dt><dd><pre>npm test</pre></dd></dl><pre class="result">1 failed: ```price```</pre></details>
    </div>
    <div class="words agent"><div class="prose"><p class="heading level-1">Found</p>
    <p><code>toFixed</code> <strong>rounds</strong>.</p>
    </div></div>
    </section>
    </main>
    <nav id="contents"><div class="label">Contents</div>
    <ol>
    <li><a href="#turn-1">Why do the tests fail?</a></li>
    </ol></nav>
    </body>
    </html>
    "##);
}
