use std::path::PathBuf;

use super::*;

struct GuardFolder(tempfile::TempDir);

impl GuardFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A line that writes a word below the others.
    fn note(&self, word: &str) -> String {
        format!("echo {word} >>{}", self.at("notes").display())
    }

    fn notes(&self) -> String {
        fs::read_to_string(self.at("notes")).unwrap_or_default()
    }
}

#[test]
fn at_the_end_all_is_undone_the_latest_first() {
    let desk = GuardFolder::new();
    let guard = Guard::start(&desk.at("journal")).unwrap();
    let _one = guard.protect(&desk.note("one")).unwrap();
    let two = guard.protect(&desk.note("two")).unwrap();
    let _three = guard.protect(&desk.note("three")).unwrap();
    two.now().unwrap();
    assert_eq!(desk.notes(), "two\n");
    guard.finish().unwrap();
    assert_eq!(desk.notes(), "two\nthree\none\n", "each once");
    assert!(!desk.at("journal").exists());
}

#[test]
fn what_is_dropped_is_undone() {
    let desk = GuardFolder::new();
    let guard = Guard::start(&desk.at("journal")).unwrap();
    drop(guard.protect(&desk.note("dropped")).unwrap());
    assert_eq!(desk.notes(), "dropped\n");
    let kept = guard.protect(&desk.note("kept")).unwrap();
    drop(guard);
    assert_eq!(desk.notes(), "dropped\nkept\n");
    drop(kept);
    assert_eq!(desk.notes(), "dropped\nkept\n");
}

#[test]
fn a_line_may_have_quotes_newlines_and_backslashes() {
    let desk = GuardFolder::new();
    let script = format!(
        "for word in 'a  b' \"it's\"; do\nprintf '%s\\\\n\\n' \"$word\"\ndone >{}",
        desk.at("notes").display()
    );
    let direct = Command::new("/bin/sh").args(["-c", &script]).status().unwrap();
    assert!(direct.success());
    let expected = desk.notes();
    assert_eq!(expected, "a  b\\n\nit's\\n\n", "by hand, from what printf(1) says of `\\\\n\\n`");
    for by_guardian in [true, false] {
        fs::remove_file(desk.at("notes")).unwrap();
        let guard = Guard::start(&desk.at("journal")).unwrap();
        let undo = guard.protect(&script).unwrap();
        if by_guardian {
            guard.finish().unwrap();
        } else {
            undo.now().unwrap();
        }
        assert_eq!(desk.notes(), expected);
    }
}

#[test]
fn what_cannot_be_undone_is_told_and_tried_again_by_the_next() {
    let desk = GuardFolder::new();
    let guard = Guard::start(&desk.at("journal")).unwrap();
    let line = format!("test -e {}", desk.at("cure").display());
    let undo = guard.protect(&line).unwrap();
    let _fine = guard.protect(&desk.note("fine")).unwrap();
    assert!(undo.now().is_err());
    let error = guard.finish().unwrap_err();
    assert!(error.to_string().contains(&line), "{error}");
    assert_eq!(desk.notes(), "fine\n");
    assert!(matches!(Guard::start(&desk.at("journal")), Err(Error::LeftBehind(_))));
    fs::write(desk.at("cure"), "").unwrap();
    assert_eq!(clean(&desk.at("journal")).unwrap(), 1);
    assert!(!desk.at("journal").exists());
    assert_eq!(desk.notes(), "fine\n", "what was undone is not undone again");
}

#[test]
fn after_a_power_loss_the_journal_is_undone() {
    let desk = GuardFolder::new();
    let journal =
        format!("+1 {}\n+2 {}\n-1\n+3 {}\n+4 rm -", desk.note("1"), desk.note("2"), desk.note("3"));
    fs::write(desk.at("journal"), &journal).unwrap();
    assert_eq!(clean(&desk.at("journal")).unwrap(), 2);
    assert_eq!(desk.notes(), "3\n2\n", "not what was undone, nor the line that was cut");
    assert_eq!(clean(&desk.at("journal")).unwrap(), 0);
    fs::write(desk.at("journal"), &journal).unwrap();
    Guard::start(&desk.at("journal")).unwrap().finish().unwrap();
    assert_eq!(desk.notes(), "3\n2\n3\n2\n", "the next run does so by itself");
}

#[test]
fn a_list_that_somebody_else_may_have_written_is_not_run() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let desk = GuardFolder::new();
    let journal = desk.at("journal");
    let list = format!("+1 {}\n", desk.note("theirs"));
    let refused = |word: &str| {
        for error in [Guard::start(&journal).map(drop).unwrap_err(), clean(&journal).unwrap_err()] {
            let said = error.to_string();
            assert!(said.contains(word) && said.contains("remove it"), "{said}");
        }
        assert_eq!(desk.notes(), "");
        assert_eq!(fs::read_to_string(&journal).unwrap(), list, "it is left as it was");
        fs::remove_file(&journal).unwrap();
    };
    let mode = |mode| fs::set_permissions(&journal, fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o666, 0o620] {
        fs::write(&journal, &list).unwrap();
        mode(open);
        refused("may write");
    }
    fs::write(desk.at("elsewhere"), &list).unwrap();
    symlink(desk.at("elsewhere"), &journal).unwrap();
    refused("symbolic link");
    fs::hard_link(desk.at("elsewhere"), &journal).unwrap();
    refused("another name");
    if rustix::process::geteuid().is_root() {
        fs::write(&journal, &list).unwrap();
        mode(0o644);
        chown(&journal, Some(65534), None).unwrap();
        refused("user 65534");
    } else {
        eprintln!("skipped in part: needs root to give a file away");
    }
    fs::write(&journal, &list).unwrap();
    mode(0o644);
    assert_eq!(clean(&journal).unwrap(), 1, "one's own is");
    let guard = Guard::start(&journal).unwrap();
    assert_eq!(fs::metadata(&journal).unwrap().permissions().mode() & 0o777, 0o600);
    guard.finish().unwrap();
}

/// Opening a pipe would wait for a process at its other end.
#[test]
fn a_pipe_in_place_of_the_list_is_refused() {
    let desk = GuardFolder::new();
    assert!(Command::new("mkfifo").arg(desk.at("journal")).status().unwrap().success());
    let said = Guard::start(&desk.at("journal")).map(drop).unwrap_err().to_string();
    assert!(said.contains("no file"), "{said}");
}
