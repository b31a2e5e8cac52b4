//! Paths that another machine names.

/// Why a path, or the target of a link, is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty, begins with `/`, or has an empty part.
    #[error("it is not a path below the folder")]
    NotBelow,
    /// It has a part `..` or `.`.
    #[error("it has a part `..` or `.`")]
    Dots,
    /// A part is longer than file systems allow.
    #[error("a part of it is longer than 255 bytes")]
    Long,
    /// It has a byte 0.
    #[error("it has a byte 0")]
    Zero,
    /// A part is a name that the receiver uses itself.
    #[error("it has the form of a temporary name")]
    Reserved,
    /// The link leads out of the folder.
    #[error("the link leads outside the folder")]
    Outside,
}

/// Longest part of a path.
const LONGEST: usize = 255;
/// The receiver's own files begin with it.
pub const OWN: &[u8] = b".nightwatt-";

/// Digits of a session in such a name.
const SESSION: usize = 16;

/// Whether a file of this name is the receiver's own: it begins with [`OWN`] and a session.
pub fn is_own(name: &[u8]) -> bool {
    let rest = name.strip_prefix(OWN).and_then(|rest| rest.split_at_checked(SESSION));
    rest.is_some_and(|(session, rest)| {
        session.iter().all(u8::is_ascii_hexdigit) && matches!(rest.first(), Some(b'.' | b'-'))
    })
}

/// Checks a path from the receiver's folder.
pub fn check(path: &[u8]) -> Result<(), PathError> {
    if path.contains(&0) {
        return Err(PathError::Zero);
    }
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" => return Err(PathError::NotBelow),
            b"." | b".." => return Err(PathError::Dots),
            _ if part.len() > LONGEST => return Err(PathError::Long),
            _ if part.starts_with(OWN) => return Err(PathError::Reserved),
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a text can be the target of a link.
pub fn check_target(target: &[u8]) -> Result<(), PathError> {
    if target.contains(&0) || target.is_empty() { Err(PathError::Zero) } else { Ok(()) }
}

/// Checks that a link at `path` cannot lead outside the folder, whatever other links there are that pass this check.
///
/// `..` may stand only at the start, where it leads through folders: behind a name, which may be that of a link to
/// another depth, nothing would be known of where it leads.
pub fn check_link(path: &[u8], target: &[u8]) -> Result<(), PathError> {
    let depth = path.split(|byte| *byte == b'/').count() - 1;
    let parts = target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let ups = parts.clone().take_while(|part| *part == b"..").count();
    let is_below = !target.starts_with(b"/") && ups <= depth;
    let is_plain = parts.skip(ups).all(|part| part != b"..");
    if is_below && is_plain { Ok(()) } else { Err(PathError::Outside) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_folder() {
        for fine in ["a", "a/b", "..a/b..", "a b/ü", ".hidden"] {
            assert_eq!(check(fine.as_bytes()), Ok(()), "{fine}");
        }
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "..",
            "../a",
            "a/..",
            "a/./b",
            ".",
            "a\0b",
            ".nightwatt-x",
            "a/.nightwatt-",
        ] {
            assert!(check(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(check(&[b'a'; 256]), Err(PathError::Long));
    }

    #[test]
    fn links_stay_below_the_folder() {
        let link =
            |path: &str, target: &str| check_link(path.as_bytes(), target.as_bytes()).is_ok();
        assert!(link("a", "b") && link("a/b", "../c") && link("a/b/c", "../../d/./e"));
        assert!(!link("a", "../b") && !link("a/b", "../../c") && !link("a", "/etc/passwd"));
        // `b` may be a link to a place that is less deep.
        assert!(!link("a", "b/../c") && !link("esc/q1", "a/b/c/../../../secret"));
        assert!(check_target(b"b\0").is_err() && check_target(b"").is_err());
        assert!(check_target(b"/etc").is_ok());
    }
}
