//! Writes JSON as JavaScript's `JSON.stringify(JSON.parse(text))` does.
//!
//! A number that a double cannot hold becomes what JavaScript reads: the nearest double, or `null`
//! above the largest one.

use std::borrow::Cow;

/// Maximum nesting. Text that is nested deeper stays as written, so that recursion cannot exhaust
/// the stack.
const MAX_DEPTH: usize = 256;

/// Returns the JSON text in JavaScript's spelling; the text itself if it is not JSON or is nested
/// too deeply.
pub fn stringify(text: &str) -> Cow<'_, str> {
    if serde_json::from_str::<&serde_json::value::RawValue>(text).is_err() {
        return Cow::Borrowed(text);
    }
    let mut reader = Reader { text, at: 0 };
    let mut out = String::with_capacity(text.len());
    match reader.value(&mut out, 0) {
        Some(()) if out != text => Cow::Owned(out),
        _ => Cow::Borrowed(text),
    }
}

/// Returns whether [`stringify()`] would leave this JSON unchanged, as it does with every line that
/// JavaScript wrote. Checks only spaces, escapes and numbers, not names that are numbers or
/// repeated.
pub fn is_stringified(line: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        at += 1;
        match byte {
            b'"' => match string_end(line, at) {
                Some(end) => at = end,
                None => return false,
            },
            b'{' | b'}' | b'[' | b']' | b':' | b',' | b'a'..=b'z' => {}
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let length = line.iter().skip(at).take_while(is_part).count();
                if !is_plain_number(line.get(at - 1..at + length).unwrap_or_default()) {
                    return false;
                }
                at += length;
            }
            _ => return false,
        }
    }
    true
}

/// The number of digits up to which a double holds every integer.
const MAX_EXACT_DIGITS: usize = 15;

/// Returns true for a number that JavaScript would write in this way.
fn is_plain_number(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    if digits.iter().all(u8::is_ascii_digit) {
        return number != b"-0" && digits.len() <= MAX_EXACT_DIGITS;
    }
    let Ok(text) = std::str::from_utf8(number) else { return false };
    let mut written = String::with_capacity(text.len());
    write_word(text, &mut written);
    written == text
}

/// Returns the position after the string that begins before `at`; `None` if it has an escape that
/// JavaScript would not write.
fn string_end(line: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        match line.get(at + 1)? {
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
            b'u' if is_escaped_control(line.get(at + 2..at + 6)?) => at += 6,
            _ => return None,
        }
    }
}

/// Returns true for the four digits of a control character that has no shorter escape, such as
/// `001b`.
fn is_escaped_control(digits: &[u8]) -> bool {
    let [b'0', b'0', high @ (b'0' | b'1'), low] = digits else { return false };
    let has_short = *high == b'0' && matches!(low, b'8' | b'9' | b'a' | b'c' | b'd');
    matches!(low, b'0'..=b'9' | b'a'..=b'f') && !has_short
}

/// A position in valid JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte that is not whitespace.
    fn peek(&mut self) -> Option<u8> {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.byte()
    }

    /// Skips the next byte if it is `byte`. Returns whether it was.
    fn skip(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// Writes the next value; returns `None` where it is nested too deeply.
    fn value(&mut self, out: &mut String, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(out, depth),
            b'[' => {
                self.at += 1;
                out.push('[');
                let mut is_first = true;
                while !self.skip(b']') {
                    if !std::mem::take(&mut is_first) {
                        self.skip(b',');
                        out.push(',');
                    }
                    self.value(out, depth + 1)?;
                }
                out.push(']');
                Some(())
            }
            b'"' => {
                out.push_str(&spelled(self.string()?));
                Some(())
            }
            _ => {
                let rest = self.text.get(self.at..)?;
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
                let length = rest.as_bytes().iter().position(is_end);
                let word = rest.get(..length.unwrap_or(rest.len()))?;
                self.at += word.len();
                write_word(word, out);
                Some(())
            }
        }
    }

    /// Writes an object in JavaScript's order: first the names that are array indexes, in ascending
    /// order, then the others as written. A repeated name has its last value, in the place of the
    /// first.
    fn object(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        // Two spellings of a name are the same name.
        let mut fields: Vec<(Cow<'a, str>, String)> = Vec::new();
        while !self.skip(b'}') {
            self.skip(b',');
            self.peek()?;
            let name = spelled(self.string()?);
            self.skip(b':');
            let mut value = String::new();
            self.value(&mut value, depth + 1)?;
            fields.push((name, value));
        }
        // A stable sort puts repeated names beside each other, in their order.
        let mut order: Vec<usize> = (0..fields.len()).collect();
        let name = |at: &usize| fields.get(*at).map(|(name, _)| &**name).unwrap_or_default();
        order.sort_by(|a, b| name(a).cmp(name(b)));
        let mut kept: Vec<(Option<u32>, usize, usize)> = Vec::new();
        for same in order.chunk_by(|a, b| name(a) == name(b)) {
            let (Some(first), Some(last)) = (same.first(), same.last()) else { continue };
            kept.push((element(name(first)), *first, *last));
        }
        kept.sort_by_key(|(element, first, _)| (element.is_none(), *element, *first));
        out.push('{');
        for (number, (_, _, at)) in kept.iter().enumerate() {
            let (name, value) = fields.get(*at)?;
            if number > 0 {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Some(())
    }

    /// Skips a string and returns it with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
            match bytes.get(at) {
                Some(b'"') => break,
                _ => at += 2,
            }
        }
        self.at = at + 1;
        self.text.get(start..self.at)
    }
}

/// Returns the array index that a field's name is, if it is one.
fn element(name: &str) -> Option<u32> {
    let name = name.strip_prefix('"')?.strip_suffix('"')?;
    let number: u32 = name.parse().ok().filter(|number| *number < u32::MAX)?;
    (number.to_string() == name).then_some(number)
}

/// Returns a string, which has its quotes, in JavaScript's spelling.
fn spelled(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let respelled = |raw: &str| -> Option<String> {
        serde_json::to_string(&serde_json::from_str::<String>(raw).ok()?).ok()
    };
    if let Some(text) = respelled(raw) {
        return Cow::Owned(text);
    }
    // No Rust string holds a lone surrogate, so the text between them is respelled in parts.
    let mut out = String::from('"');
    let mut rest = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    loop {
        let (part, surrogate, after) = before_lone_surrogate(rest);
        let quoted = format!("\"{part}\"");
        let text = respelled(&quoted).unwrap_or(quoted);
        out.push_str(text.get(1..text.len().saturating_sub(1)).unwrap_or_default());
        let Some(surrogate) = surrogate else { break };
        out.push_str(&format!("\\u{surrogate:04x}"));
        rest = after;
    }
    out.push('"');
    Cow::Owned(out)
}

/// Splits the inside of a string at the first escape of a surrogate that has no other half.
fn before_lone_surrogate(text: &str) -> (&str, Option<u16>, &str) {
    const ESCAPE_BYTES: usize = "\\uXXXX".len();
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr(b'\\', rest.as_bytes())) {
        at += next;
        let is_pair = || unit(at + ESCAPE_BYTES).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        match unit(at) {
            Some(0xD800..0xDC00) if is_pair() => at += 2 * ESCAPE_BYTES,
            Some(surrogate @ 0xD800..0xE000) => {
                let after = text.get(at + ESCAPE_BYTES..).unwrap_or_default();
                return (text.get(..at).unwrap_or_default(), Some(surrogate), after);
            }
            Some(_) => at += ESCAPE_BYTES,
            None => at += "\\n".len(),
        }
    }
    (text, None, "")
}

/// Writes a number, or `true`, `false` or `null`.
fn write_word(word: &str, out: &mut String) {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && digits.len() <= MAX_EXACT_DIGITS {
        return out.push_str(if digits == "0" { digits } else { word });
    }
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() => write_number(number, out),
        Ok(_) => out.push_str("null"),
        Err(_) => out.push_str(word),
    }
}

/// Writes a number as JavaScript does: digits only from 10^-6 up to 10^21, and with an exponent
/// outside of that range.
fn write_number(number: f64, out: &mut String) {
    if number == 0.0 {
        return out.push('0');
    }
    let shortest = format!("{number:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return out.push_str(&shortest) };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-6..21).contains(&exponent) {
        return out.push_str(&number.to_string());
    }
    let sign = if exponent < 0 { "" } else { "+" };
    out.push_str(&format!("{digits}e{sign}{exponent}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checked against Node.js: `JSON.stringify(JSON.parse(text))`.
    #[test]
    fn json_is_written_as_javascript_writes_it() {
        for (text, expected) in [
            (r#" { "a" : [ 1 , 2 ] , "b" : { } } "#, r#"{"a":[1,2],"b":{}}"#),
            (
                r#"{"a":"\u00e9\/\u0041\u001F\u2028\ud83e\udd9e\n"}"#,
                "{\"a\":\"\u{e9}/A\\u001f\u{2028}\u{1f99e}\\n\"}",
            ),
            (
                r#"[1.0,1e5,1E+2,-0,-0.0,0.10,1e21,1e-7,1.5e300,0.000001,123456.789e3]"#,
                r#"[1,100000,100,0,0,0.1,1e+21,1e-7,1.5e+300,0.000001,123456789]"#,
            ),
            (r#"{"b":1,"2":2,"a":3,"1":4,"b":5,"01":6}"#, r#"{"1":4,"2":2,"b":5,"a":3,"01":6}"#),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
            (
                r#"["\uD800\u0041\/","\ud83e\udd9e\uDD9E\n"]"#,
                "[\"\\ud800A/\",\"\u{1f99e}\\udd9e\\n\"]",
            ),
            (r#"{"\uD800":1,"\ud800":2,"\"\\u":3}"#, r#"{"\ud800":2,"\"\\u":3}"#),
            ("[1E400,-1e400]", "[null,null]"),
            (
                "[12345678901234567890,9007199254740993,-1.00000000000000000001]",
                "[12345678901234567000,9007199254740992,-1]",
            ),
            ("[true,false,null]", "[true,false,null]"),
        ] {
            assert_eq!(stringify(text), expected, "{text}");
        }
        // Text that is not JSON stays unchanged.
        for text in ["not json", "", "{\"a\":1"] {
            assert_eq!(stringify(text), text);
        }
        let deep = format!("{}{}", "[ ".repeat(100_000), "]".repeat(100_000));
        assert_eq!(stringify(&deep), deep);
    }

    #[test]
    fn text_that_javascript_wrote_is_recognised() {
        for text in [
            r#"{"a":[1,-2.5,0,10,0.1,true,null,{}],"b":"x \n\"\\ \té"}"#,
            r#"{"cost":0.0129045,"n":1770193116233}"#,
            r#"{"cost":0.012904500000000001,"n":1e+21}"#,
            r#"{"a":"\u001b[31mred\u0000\u000b"}"#,
        ] {
            assert!(is_stringified(text.as_bytes()), "{text}");
        }
        for text in [
            r#"{"a": 1}"#,
            "{\"a\":1\t}",
            r#"{"a":1.0}"#,
            r#"{"a":1e5}"#,
            r#"{"a":0.00000001}"#,
            r#"{"a":-0}"#,
            // More digits than a double holds.
            r#"{"a":12345678901234567890}"#,
            r#"{"a":0.1000000000000000055511151231257827}"#,
            r#"{"a":"\/"}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":"\u001B"}"#,
            r#"{"a":"\u000a"}"#,
            r#"{"a":"\u001"#,
            r#"{"a":"unended"#,
            r#"{"a":"\"#,
        ] {
            assert!(!is_stringified(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #![proptest_config(crate::few_cases(512))]

        #[test]
        fn recognised_text_is_left_unchanged(
            number in "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,18})?([eE][0-9])?",
            string in "(\\\\[/nu\"]|\\\\u00[01][0-9aAbcf]|[ax ]){0,8}",
        ) {
            for text in [format!("{{\"a\":{number}}}"), format!("[\"{string}\"]")] {
                if is_stringified(text.as_bytes()) {
                    prop_assert_eq!(stringify(&text), text.as_str());
                }
            }
        }

        #[test]
        fn a_second_pass_changes_nothing(text in "[\\[\\]{}:, \"a0-9.eE\\\\u-]{0,40}", string in ".*", number: f64) {
            for text in [text, serde_json::json!({"a b": [string, number]}).to_string()] {
                let once = stringify(&text).into_owned();
                prop_assert_eq!(stringify(&once), once.as_str());
            }
        }

        #[test]
        fn values_do_not_change(string in ".*", number in -1e300_f64..1e300, key in "[a-z0-9]{1,3}") {
            let value = serde_json::json!([string, {key: null}]);
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let back: serde_json::Value = serde_json::from_str(&stringify(&pretty)).unwrap();
            prop_assert_eq!(back, value);
            // serde_json reads the last digit of some numbers differently.
            prop_assert_eq!(stringify(&format!("{number:e}")).parse::<f64>().unwrap(), number);
        }
    }
}
