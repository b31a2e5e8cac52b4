//! robots.txt: a path and a file. Whatever comes is read, and what it says does not depend on how the file is
//! written: with other ends of lines, and with a comment behind it, it says the same.

use nightwatt_mirror::pure::robots::{Permission, Robots};

/// Runs the target on one input: a path on the first line, and the file behind it.
pub fn run(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let path = String::from_utf8_lossy(&input[..end]).into_owned();
    let file = input.get(end + 1..).unwrap_or_default();
    let robots = Robots::parse(file);
    let permission = robots.permission(&path);
    assert_eq!(robots.permission("/robots.txt"), Permission::Fetch);
    if robots.speaks_to_us() {
        assert_ne!(permission, Permission::DoNotDiscover);
    } else {
        assert_ne!(permission, Permission::Never);
    }
    let other_ends: Vec<u8> =
        file.iter().map(|byte| if *byte == b'\n' { b'\r' } else { *byte }).collect();
    assert_eq!(Robots::parse(&other_ends), robots);
    let commented = [file, b"\n# Disallow: /"].concat();
    assert_eq!(Robots::parse(&commented).permission(&path), permission);
}
