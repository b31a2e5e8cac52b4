//! Cells of tables for people.

use nightwatt_energy::display::shown;

/// A long name cut in front: what tells names apart stands behind.
pub(crate) fn end_of(name: &str, most: usize) -> String {
    let length = name.chars().count();
    let name = name.chars().map(shown);
    if length <= most {
        return name.collect();
    }
    let kept: String = name.skip(length - most + 2).collect();
    format!("..{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_commands_no_terminal_and_keeps_its_end() {
        assert_eq!(end_of("a\u{1b}[2Jb", 10), "a\u{fffd}[2Jb");
        assert_eq!(end_of("a\u{202e}b\u{85}\u{2028}c", 10), "a\u{fffd}b\u{fffd}\u{fffd}c");
        assert_eq!(end_of("/a/long/path/to/it", 10), "..th/to/it");
        assert_eq!(end_of("ten chars.", 10), "ten chars.");
    }
}
