//! Fields of CSV.

use std::borrow::Cow;

/// A field as RFC 4180 has it: what could break a row is quoted.
pub fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_could_break_a_row_are_quoted() {
        assert_eq!(quoted("/plain?a=b"), "/plain?a=b");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
        assert_eq!(quoted("two\rlines"), "\"two\rlines\"");
    }
}
