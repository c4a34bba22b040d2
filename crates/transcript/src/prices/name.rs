//! Plain model names. One model has many names: with a date, a region, a maker or an API version.

/// Returns the plain name of a model: `us.anthropic.claude-sonnet-4-5-20250929-v1:0` and
/// `anthropic/claude-sonnet-4.5` become `claude-sonnet-4-5`.
pub fn plain(model: &str) -> String {
    let lower = model.trim().to_ascii_lowercase();
    // Routers put makers and regions before the name.
    let name = lower.rsplit('/').next().unwrap_or_default();
    let name = name.rsplit_once("anthropic.").map_or(name, |(_, name)| name);
    // A context window size or a reasoning effort does not make another model.
    let name = name.split(['[', '@', ':']).next().unwrap_or_default();
    let name = without_version(name);
    let name = without_date(name);
    let name = ["-latest", "-preview"]
        .iter()
        .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    match name.strip_prefix("claude-") {
        // Routers write a point where Anthropic has a hyphen.
        Some(rest) => format!("claude-{}", rest.replace('.', "-")),
        None => name.to_owned(),
    }
}

/// Removes the `-v1` at the end of Bedrock's names.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("-v") {
        Some((front, version)) if is_number(version) => front,
        _ => name,
    }
}

/// Removes a date such as `-20250929` or `-2025-04-14`.
fn without_date(name: &str) -> &str {
    if let Some((front, date)) = name.rsplit_once('-')
        && date.len() == 8
        && is_number(date)
    {
        return front;
    }
    let mut parts = name.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(front))
            if (day.len(), month.len(), year.len()) == (2, 2, 4)
                && [day, month, year].into_iter().all(is_number) =>
        {
            front
        }
        _ => name,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn all_names_of_a_model_have_one_plain_name() {
        for name in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929",
            "claude-sonnet-4-5-20250929[1m]",
            "claude-sonnet-4-5@20250929",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "anthropic/claude-sonnet-4.5",
            "openrouter/anthropic/claude-sonnet-4.5",
            "Claude-Sonnet-4-5-latest",
        ] {
            assert_eq!(plain(name), "claude-sonnet-4-5", "{name}");
        }
        assert_eq!(plain("claude-3-5-haiku-20241022"), "claude-3-5-haiku");
        assert_eq!(plain("openai/gpt-4.1-2025-04-14"), "gpt-4.1");
        assert_eq!(plain("google/gemini-3.1-pro-preview"), "gemini-3.1-pro");
        assert_eq!(plain("gpt-5-codex"), "gpt-5-codex");
    }

    #[test]
    fn odd_names_do_not_panic() {
        for name in ["", "/", "-", "-v1", "-20250929", "é", "a-v", "[1m]", "::"] {
            let _ = plain(name);
        }
    }
}
