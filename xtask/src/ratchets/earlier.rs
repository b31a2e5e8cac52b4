//! The files as they were when the counts were last written, from git.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::sources::File;

/// The files of the commit that last changed the file at `path`. `now` has those that are as they were. None where git
/// does not have that commit.
pub(super) fn files(root: &Path, path: &str, now: &[File]) -> Option<Vec<File>> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then_some(text)
    };
    let commit = git(&["log", "-1", "--format=%H", "--", path])?;
    let commit = commit.trim();
    if commit.is_empty() {
        return None;
    }
    let all = git(&["ls-tree", "-r", "-z", "--name-only", commit])?;
    let changed = git(&["diff", "-z", "--name-only", "--no-renames", commit])?;
    let changed: BTreeSet<&str> = changed.split_terminator('\0').collect();
    let all: BTreeSet<&str> = all.split_terminator('\0').collect();
    let same = now
        .iter()
        .filter(|file| all.contains(file.path.as_str()) && !changed.contains(file.path.as_str()));
    let same = same.map(|file| File { path: file.path.clone(), text: file.text.clone() });
    // A picture is no text.
    let other = changed.intersection(&all).filter_map(|path| {
        let text = git(&["show", &format!("{commit}:{path}")])?;
        Some(File { path: (*path).to_owned(), text })
    });
    Some(same.chain(other).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs git in a folder, without anybody's settings.
    fn git(folder: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut command = Command::new("git");
        command.args(identity).args(arguments).current_dir(folder);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        assert!(command.output().unwrap().status.success(), "{arguments:?}");
    }

    #[test]
    fn files_are_as_they_were_when_the_counts_were_written() {
        let folder = std::env::temp_dir().join(format!("xtask-earlier-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |path: &str, text: &str| std::fs::write(folder.join(path), text).unwrap();
        git(&folder, &["init", "-q"]);
        for path in ["counts", "same", "changed", "removed"] {
            write(path, "old");
        }
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "-qm", "a"]);
        write("changed", "later");
        git(&folder, &["commit", "-qam", "b"]);
        write("changed", "now");
        write("added", "now");
        std::fs::remove_file(folder.join("removed")).unwrap();

        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let now = [
            file("counts", "old"),
            file("same", "old"),
            file("changed", "now"),
            file("added", "now"),
        ];
        let earlier = files(&folder, "counts", &now);
        let nothing = files(&folder, "never", &now);
        std::fs::remove_dir_all(&folder).unwrap();
        let mut earlier: Vec<_> = earlier
            .unwrap()
            .into_iter()
            .map(|file| format!("{} {}", file.path, file.text))
            .collect();
        earlier.sort();
        assert_eq!(earlier, ["changed old", "counts old", "removed old", "same old"]);
        assert!(nothing.is_none());
    }
}
