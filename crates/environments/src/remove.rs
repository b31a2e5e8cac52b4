//! Removes folders in which a user may have mounted something.

use crate::shell;

/// Defines `remove FOLDER`. A mount of the same file system looks to `rm` like any folder, so that it is
/// unmounted before, or nothing is removed.
pub(crate) const REMOVE: &str = include_str!("remove.sh");

/// A line that removes a folder, if there is one.
pub(crate) fn line(folder: &str) -> String {
    format!("{REMOVE}remove {}", shell::quote(folder))
}
