//! File systems that go away, or are full.

use std::process::Command;

use super::*;

/// A mount, which ends with it.
struct Mounted(PathBuf);

impl Mounted {
    /// Nothing if this user may not mount.
    fn new(arguments: &[&str], at: &Path) -> Option<Self> {
        nightwatt_needs::program("mount")?;
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(arguments).arg(at).output().unwrap();
        if !mounted.status.success() {
            println!("skipped: cannot mount: {}", String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(Self(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The fault of a review: the disk of the receiver was pulled out and came back, with the journal and without the data.
/// Files of zeros then counted as complete. A bind mount is another mount, as that disk is.
#[test]
fn what_was_not_synced_counts_only_on_the_same_mount() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("file");
    fs::write(&path, noise(2_000_000)).unwrap();
    let there = to.path().join("there");
    fs::create_dir(&there).unwrap();
    let again = to.path().join("again");
    let Some(_mounted) = Mounted::new(&["--bind", there.to_str().unwrap()], &again) else { return };
    let options = || Options { block: Some(16 << 10), ..options() };
    // In tests, a large file is synced every 512 KiB.
    for (cut_after, synced) in [(300_000, 0..1), (900_000, 512 << 10..900_000)] {
        let cut = transfer(from_ref(&path), &there, options(), cut_after);
        assert!(cut.sent.is_err() && cut.session.report().acknowledged_bytes > 0);
        let whole = whole(from_ref(&path), &again, options());
        let had = whole.session.report().had_bytes;
        assert!(synced.contains(&had), "{had} bytes, cut after {cut_after}");
        assert_eq!(contents(from.path()), contents(&there));
        fs::remove_file(there.join("file")).unwrap();
    }
}

/// The journal is on the file system of the folder, and has no record of the life of another.
#[test]
fn what_was_not_synced_does_not_count_on_a_file_system_that_is_mounted_below() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("below")).unwrap();
    fs::write(top.join("below/file"), noise(900_000)).unwrap();
    let below = to.path().join("top/below");
    let Some(_mounted) = Mounted::new(&["-t", "tmpfs", "none"], &below) else { return };
    let options = || Options { block: Some(16 << 10), ..options() };
    let cut = transfer(from_ref(&top), to.path(), options(), 300_000);
    assert!(cut.sent.is_err() && cut.session.report().acknowledged_bytes > 0);
    let whole = whole(from_ref(&top), to.path(), options());
    assert_eq!(whole.session.report().had_bytes, 0);
    assert_eq!(contents(from.path()), contents(to.path()));
}

/// The fault of a review: of a transfer to a disk that was full at the end nothing could be used.
#[test]
fn complete_files_have_their_names_when_the_disk_is_full() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let size = ["-t", "tmpfs", "-o", "size=1m", "none"];
    let Some(mounted) = Mounted::new(&size, &to.path().join("there")) else { return };
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    for number in 0..15 {
        fs::write(top.join(number.to_string()), noise(100_000)).unwrap();
    }
    let options = || Options { block: Some(16 << 10), ..options() };
    let named = || {
        let all = contents(&mounted.0).into_iter();
        all.filter(|(name, _)| !name.contains(".nightwatt-")).collect::<Vec<_>>()
    };
    // All of some files has arrived when it is cut; then there is room for nothing more.
    let cut = transfer(from_ref(&top), &mounted.0, options(), 450_000);
    assert!(cut.sent.is_err() && named().is_empty());
    let hog = mounted.0.join("hog");
    let _ = fs::write(&hog, vec![1; 1 << 20]);
    let full = transfer(from_ref(&top), &mounted.0, options(), usize::MAX);
    assert!(full.sent.unwrap_err().to_string().contains("is full"));
    let count = named().len() - 1;
    assert!(count >= 3, "{count} files have names");
    // With some room, more get theirs.
    fs::remove_file(&hog).unwrap();
    let full = transfer(from_ref(&top), &mounted.0, options(), usize::MAX);
    assert!(full.sent.unwrap_err().to_string().contains("is full"));
    assert!(named().len() >= 8, "{} files have names", named().len());
    for (name, content) in named() {
        assert!(content == fs::read(from.path().join(&name)).unwrap(), "{name}");
    }
}
