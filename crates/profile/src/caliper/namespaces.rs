//! Processes that live in namespaces of their own, as those in containers do.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Is its namespace of that kind (`pid`, `time`) ours? If that cannot be told, it is believed.
pub(super) fn is_shared(process: u32, kind: &str) -> bool {
    let identity = |path: String| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    let its = identity(format!("/proc/{process}/ns/{kind}"));
    its.is_none_or(|its| identity(format!("/proc/self/ns/{kind}")).is_none_or(|ours| its == ours))
}

/// A process's number as it knows itself.
pub(super) fn number_inside(process: u32) -> Option<u32> {
    number_in(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn number_in(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_number_is_the_one_that_a_process_has_for_itself() {
        let status = "Name:\tloop\nTgid:\t4711\nNSpid:\t4711\t31\t1\nNSpgid:\t4711\t31\t1\n";
        assert_eq!(number_in(status), Some(1));
        assert_eq!(number_in("Name:\tloop\nNSpid:\t4711\n"), Some(4711));
        assert_eq!(number_in("Name:\tloop\n"), None);
        assert_eq!(number_inside(std::process::id()), Some(std::process::id()));
        assert!(is_shared(std::process::id(), "pid"));
    }
}
