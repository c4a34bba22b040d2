//! Rows for other programs: fields between tabs, or between commas.
//!
//! What a terminal would act on is written out here too: such rows often end on one.

use super::safe::safe;

/// One row of fields between tabs. Tabs and line breaks inside a field are written out.
pub(super) fn tabbed(fields: &[String]) -> String {
    let fields: Vec<_> = fields.iter().map(|field| safe(field)).collect();
    fields.join("\t")
}

/// One row of comma-separated values (RFC 4180). Line breaks inside a field are written out, too.
pub(super) fn csv(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
    match fields.as_slice() {
        // Otherwise it would be no row at all.
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
