//! Names of functions, and patterns that fit them.

/// As its author wrote it. A name that no compiler changed stays.
pub(crate) fn demangled(raw: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        // Without the hash that tells instances apart.
        return format!("{name:#}");
    }
    let symbol = cpp_demangle::Symbol::new(raw).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| raw.to_owned())
}

/// `ns::work(int)` is `ns::work`.
pub(crate) fn without_arguments(name: &str) -> &str {
    name.split('(').next().filter(|name| !name.is_empty()).unwrap_or(name)
}

/// Does a pattern with `*` fit?
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name) in
            [("work", "work"), ("wo*", "work"), ("*rk", "work"), ("w*r*", "work"), ("*", "")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("work", "works"), ("wo", "work"), ("*rk", "works"), ("w*x*", "work")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_read_as_their_authors_wrote_them() {
        assert_eq!(demangled("_ZN2ns4workEi"), "ns::work(int)");
        assert_eq!(without_arguments("ns::work(int)"), "ns::work");
        assert_eq!(demangled("_ZN4prog4work17h0123456789abcdefE"), "prog::work");
        assert_eq!(demangled("work"), "work");
    }
}
