//! Tests what the rules find, what they leave unmasked, and that nothing of a secret remains.

use proptest::prelude::*;

use super::*;

/// No run of this many characters of a secret may remain; shorter runs reveal nothing.
const REVEALING_CHARS: usize = 8;

#[track_caller]
fn assert_masked(secret: &str, text: &str) {
    let placeholder = regex::Regex::new(r"\[redacted:[a-z-]+(:[0-9]+)?\]").unwrap();
    let text = placeholder.replace_all(text, "▮");
    let letters: Vec<char> = secret.chars().collect();
    for part in letters.windows(REVEALING_CHARS.min(letters.len())) {
        let part: String = part.iter().collect();
        assert!(!text.contains(&part), "{part:?} is left in {text:?}");
    }
}

#[test]
fn names_are_unique_and_plain() {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
}

#[test]
fn each_rule_masks_its_own_sample() {
    for rule in RULES {
        let (text, secret) = rule.sample();
        let mut redactor = Redactor::new();
        let masked = redactor.mask(&text).into_owned();
        assert_masked(&secret, &masked);
        let (before, _, after) = rule.sample;
        assert_eq!(masked, format!("{before}[redacted:{}:1]{after}", rule.name));
        // Masking again changes nothing.
        assert_eq!(Redactor::new().mask(&masked), masked);
    }
}

#[test]
fn each_sample_is_masked_in_json_and_nested_json() {
    for rule in RULES {
        let (text, secret) = rule.sample();
        let inner = serde_json::json!({ "command": text, "list": [text] }).to_string();
        for line in [
            serde_json::json!({ "type": "user", "message": { "content": text } }).to_string(),
            serde_json::json!({ "arguments": inner, &text: 1 }).to_string(),
            // A torn line.
            format!("{{\"a\":{}", serde_json::json!(text)),
        ] {
            let is_json = serde_json::from_str::<serde_json::Value>(&line).is_ok();
            let masked = Redactor::new().mask_json(&line).into_owned();
            assert!(masked.contains(rule.name), "{masked}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), is_json);
            assert_masked(&secret, &masked);
        }
    }
}

#[test]
fn a_key_may_mark_its_value_as_a_secret() {
    let line = r#"{"env":{"DB_PASSWORD":"sesame-7","SHOP_API_TOKEN" : "q8Zy7Xw1Lk3Jh5Gf9Ds2"},"at":"sesame-7!"}"#;
    let mut redactor = Redactor::new();
    redactor.mask_json(line);
    redactor.rebuild_finder();
    assert_eq!(
        redactor.mask_json(line),
        r#"{"env":{"DB_PASSWORD":"[redacted:password:1]","SHOP_API_TOKEN" : "[redacted:secret:1]"},"at":"[redacted:password:1]!"}"#
    );
}

#[test]
fn the_same_secret_has_the_same_number() {
    let mut redactor = Redactor::new();
    let (one, _) = RULES.iter().find(|rule| rule.name == "github-token").unwrap().sample();
    let other = one.replace('7', "8");
    assert_eq!(
        redactor.mask(&format!("{one} {other} {one}")),
        "[redacted:github-token:1] [redacted:github-token:2] [redacted:github-token:1]"
    );
    assert_eq!(redactor.mask(&other), "[redacted:github-token:2]");
    assert_eq!(
        redactor.mask(&format!("git push https://x-access-token:{one}@example.org/shop")),
        "git push https://x-access-token:[redacted:github-token:1]@example.org/shop"
    );
    assert_eq!(redactor.counts().collect::<Vec<_>>(), [("github-token", 2)]);
}

#[test]
fn a_known_secret_is_masked_without_the_words_around_it() {
    let mut redactor = Redactor::new();
    let text = "it is sesame-7x. password=sesame-7x";
    redactor.mask(text);
    redactor.rebuild_finder();
    assert_eq!(redactor.mask(text), "it is [redacted:password:1]. password=[redacted:password:1]");
}

#[test]
fn a_secret_that_was_cut_is_masked() {
    for rule in RULES {
        let (text, secret) = rule.sample();
        let before = rule.sample.0;
        for kept in [secret.len() * 3 / 4, secret.len() / 2] {
            let cut = format!("{before}{}…", &secret[..kept]);
            // The redactor knows the whole secret.
            let mut redactor = Redactor::new();
            redactor.mask(&text);
            let masked = redactor.mask_cut(&cut).into_owned();
            assert_masked(&secret[..kept], &masked);
            if !rule.start.is_empty() {
                assert_masked(&secret[..kept], &Redactor::new().mask_cut(&cut));
            }
        }
    }
    // A placeholder is not a secret, whatever its name.
    let far = "x ".repeat(50);
    let url = format!("{far}postgres://shop:sesame-7@db.example/shop");
    let masked = format!("{far}postgres://shop:[redacted:url-password:1]@db.example/shop");
    assert_eq!(Redactor::new().mask_cut(&url), masked);
    // The end of a complete secret is not the beginning of another.
    let mut redactor = Redactor::new();
    redactor.mask("Authorization: Bearer x7Kq2mZp9RtY4wLs8NvB3c");
    let whole = format!("{} ghp_x7Kq2mZp9RtY4wLs8NvBx7Kq2mZp9RtY4wLs", "x ".repeat(50));
    assert_masked("7Kq2mZp9RtY4wLs8NvBx7Kq2mZp9RtY4wLs", &redactor.mask_cut(&whole));
    assert_eq!(
        Redactor::new().mask_cut("set the token: a1b2c3…"),
        "set the token: [redacted:secret]…"
    );
    assert_eq!(
        Redactor::new().mask_cut("explain the token: refresh…"),
        "explain the token: refresh…"
    );
}

#[test]
fn a_secret_may_continue_in_the_next_part() {
    let (text, secret) = RULES[0].sample();
    let parts = [&text[..40], &text[40..60], &text[60..]];
    let masked = Redactor::new().mask_parts(&parts);
    assert_eq!(masked, ["the key is\n[redacted:private-key:1]", "", "\nkeep it"]);
    assert_masked(&secret, &masked.concat());
}

#[test]
fn secrets_are_found_after_escapes_and_other_edges() {
    let (token, secret) = RULES.iter().find(|rule| rule.name == "github-token").unwrap().sample();
    for text in [
        format!("\u{1b}[32m{token}\u{1b}[0m"),
        format!("a\\n{token}\\nb"),
        format!("https://a.example/?q=%22{token}%22"),
        format!("日本{token}語"),
    ] {
        assert_masked(&secret, &Redactor::new().mask(&text));
    }
}

#[test]
fn text_that_is_no_secret_stays() {
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    for text in [
        "640ab4c7-1f2e-4d3c-8b5a-0123456789ab",
        "commit 9cacdae0f1e2d3c4b5a697887766554433221100",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "toolu_01AbCdEfGhIjKlMnOpQrStUv msg_01XyZaBcDeFgHiJkLmNoPq req_011CSabcdefgh",
        picture,
        &format!("data:image/png;base64,{picture}"),
        "const token = process.env.GITHUB_TOKEN2;",
        "let secret = config.get(\"client_secret_v2\");",
        "token_count: 1234567890123456789",
        "max_tokens=200000 tokenizer=cl100k_base_and_more",
        "the password: please ask Bob about it",
        "PASSWORD=$DB_PASSWORD_2",
        "https://alice@example.org/a:b@c",
        "https://${USER}:${PASS1}@example.org/",
        "sessionKey: agent:main:telegram:dm:8212345678",
        "a risk-averse task-list, desk-1234567890",
        "Authorization: Bearer $TOKEN_1234567",
        "2026-11-16T02:44:45.123Z 12:34:56",
    ] {
        let line = serde_json::json!({ "text": text, "id": text }).to_string();
        assert_eq!(Redactor::new().mask(text), text);
        assert_eq!(Redactor::new().mask_json(&line), line);
    }
    let long = picture.repeat(40);
    let line = serde_json::json!({ "data": long }).to_string();
    assert!(matches!(Redactor::new().mask_json(&line), Cow::Borrowed(_)));
}

#[test]
fn half_a_surrogate_pair_keeps_json_whole() {
    let (token, secret) = RULES.iter().find(|rule| rule.name == "github-token").unwrap().sample();
    let pem = r"-----BEGIN PRIVATE KEY-----\nMIIEabc\";
    for inner in [format!(r"\ud83d {token} \n"), format!(r#"\ud83d {pem}" x"#)] {
        let line = format!("{{\"a\":\"{inner}\"}}");
        let masked = Redactor::new().mask_json(&line).into_owned();
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(&masked).is_ok(), "{masked}");
        assert_masked(&secret, &masked);
    }
}

fn sample() -> impl Strategy<Value = (String, String)> {
    (0..RULES.len()).prop_map(|rule| RULES[rule].sample())
}

proptest! {
    #[test]
    fn nothing_of_a_secret_is_left(
        before in any::<String>(), (text, secret) in sample(), after in any::<String>(),
    ) {
        let text = format!("{before} {text} {after}");
        let masked = Redactor::new().mask(&text).into_owned();
        assert_masked(&secret, &masked);
        let json = serde_json::json!([{ "a": text }]).to_string();
        let masked = Redactor::new().mask_json(&json).into_owned();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok());
        assert_masked(&secret, &masked);
    }

    #[test]
    fn text_without_secrets_stays(text in "[a-zA-Z ,.\n]{0,200}") {
        prop_assert_eq!(Redactor::new().mask(&text), text.as_str());
    }

    #[test]
    fn masking_never_panics(bytes in any::<Vec<u8>>()) {
        Redactor::new().mask_record(&bytes);
        Redactor::new().mask_cut(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn parts_are_masked_as_the_whole(text in sample(), cuts in prop::collection::vec(0.0..1.0, 2)) {
        let (text, secret) = text;
        let mut cuts: Vec<usize> =
            cuts.iter().map(|cut| (text.len() as f64 * cut) as usize).collect();
        cuts.sort_unstable();
        let parts = [&text[..cuts[0]], &text[cuts[0]..cuts[1]], &text[cuts[1]..]];
        let mut redactor = Redactor::new();
        let masked = redactor.mask_parts(&parts);
        assert_masked(&secret, &masked.concat());
    }
}

/// Masked text is not masked again, whatever the rules match in it.
#[test]
fn placeholders_are_not_masked_again() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut redactor = Redactor::new();
    let texts = [
        format!("token: {secret}"),
        format!("export GITHUB_TOKEN={secret} && password='{secret}'"),
        format!("{{\"api_key\":\"{secret}\",\"secret\": \"x{secret}\"}}"),
        format!("Authorization: Bearer {secret}{secret}"),
    ];
    for text in &texts {
        let once = redactor.mask(text).into_owned();
        assert!(!once.contains(secret) && once.contains("[redacted:"), "{once}");
        redactor.rebuild_finder();
        let twice = redactor.mask(&once).into_owned();
        assert_eq!(once, twice);
        assert_eq!(Redactor::new().mask(&once), once, "by a redactor that knows no secrets");
        let cut: String = format!("{once}…");
        assert_eq!(redactor.mask_cut(&cut), cut);
    }
    // Text that only looks like a placeholder is masked.
    let fake = format!("token=[redacted:{secret}]");
    assert!(!redactor.mask(&fake).contains(secret));
}
