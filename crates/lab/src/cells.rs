//! Cells of tables for people.

/// A long name cut in front: what tells names apart stands behind.
pub(crate) fn end_of(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length - most + 2).collect();
    format!("..{kept}")
}
