//! Rows for other programs: tab-separated or comma-separated.
//!
//! Control characters are escaped here too, because such rows are often printed on a terminal.

use super::safe::safe;

/// Formats one tab-separated row. Tabs and line breaks inside a field are escaped.
pub(super) fn tabbed(fields: &[String]) -> String {
    let fields: Vec<_> = fields.iter().map(|field| safe(field)).collect();
    fields.join("\t")
}

/// Formats one comma-separated row (RFC 4180). Line breaks inside a field are escaped.
pub(super) fn csv(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
    match fields.as_slice() {
        // An unquoted empty line would not be a row.
        [only] if only.is_empty() => "\"\"".to_owned(),
        _ => fields.join(","),
    }
}

fn csv_field(field: &str) -> String {
    let field = safe(field);
    let is_plain = !field.contains([',', '"']) && field.trim() == field;
    if is_plain { field.into_owned() } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[&str]) -> Vec<String> {
        fields.iter().map(|field| (*field).to_owned()).collect()
    }

    #[test]
    fn fields_stay_apart() {
        assert_eq!(tabbed(&row(&["a\tb", "c\nd", ""])), "a\\tb\tc\\nd\t");
        assert_eq!(
            csv(&row(&["a,b", "c\"d", "e\nf", " g", ""])),
            "\"a,b\",\"c\"\"d\",e\\nf,\" g\","
        );
        assert_eq!(csv(&row(&[""])), "\"\"");
    }

    #[test]
    fn nothing_reaches_the_terminal() {
        assert_eq!(tabbed(&row(&["\x1b[2J"])), "\\u{1b}[2J");
        assert_eq!(csv(&row(&["\x1b[2J\r\n\u{9b}"])), "\\u{1b}[2J\\r\\n\\u{9b}");
    }
}
