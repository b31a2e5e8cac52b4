//! Names with `*` for anything.

/// Does the pattern fit the whole text?
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "x"),
            ("rsync", "rsync"),
            ("borg*", "borg-1"),
            ("*.timer", "a.timer"),
            ("a*b*c", "a12b3c"),
            ("*.css", "/a/b.css"),
            ("/a*b*c", "/axxbyyc"),
            ("/static/*", "/static/"),
            ("/exact", "/exact"),
            ("*", "/anything"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "x"),
            ("rsync", "rsyncd"),
            ("borg*", "aborg"),
            ("ab*ba", "aba"),
            ("a*b*c", "acb"),
            ("*.css", "/a/b.css.map"),
            ("/static/*", "/statics"),
            ("/a*b*c", "/axxc"),
            ("/ab*ba", "/aba"),
            ("/exact", "/exactly"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
