//! What is to be sent.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::attributes::attributes;
use crate::pure::exclude::Exclude;
use crate::pure::paths::{self, OWN};
use crate::pure::shown;
use crate::wire::{Entry, EntryKind, Stamp};

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// In order: folders before what is in them.
    pub entries: Vec<Entry>,
    /// Where each entry is here.
    pub sources: Vec<PathBuf>,
    /// What should be sent and cannot be, and why.
    pub skipped: Vec<String>,
    /// Sockets, pipes and devices, which have no contents, and temporary files of nightwatt: they are left out.
    pub special: Vec<String>,
    /// What the user may not expect of what is sent.
    pub notes: Vec<String>,
}

/// Names of files that have more than one.
#[derive(Debug, Default)]
struct HardLinks {
    /// Device and number of each file that was seen.
    seen: HashSet<[u64; 2]>,
    /// The first name of a file that was seen before, and how many such names there are.
    first: Option<String>,
    count: u64,
}

impl HardLinks {
    fn see(&mut self, source: &Path, metadata: &Metadata) {
        let is_known = metadata.nlink() > 1 && !self.seen.insert([metadata.dev(), metadata.ino()]);
        if is_known {
            self.count += 1;
            self.first.get_or_insert_with(|| shown::name(source.as_os_str().as_bytes()));
        }
    }

    fn note(self) -> Option<String> {
        let (first, count) = (self.first?, self.count);
        let others = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        Some(format!(
            "{first}{others}: hard links to files that are sent too become files of their own there"
        ))
    }
}

/// What of the files is sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// What is left out.
    pub excludes: Vec<Exclude>,
    /// Whether extended attributes of users are sent.
    pub attributes: bool,
}

/// Why there is nothing to send.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// A path that was named cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A path has no last part under which it could be received.
    #[error("{} has no name to be received under: name a file or folder", .0.display())]
    NoName(PathBuf),
    /// Two paths would be received under the same name.
    #[error(
        "two of the paths end in `{0}`, and would be received under that name: send them one after the other"
    )]
    Twice(String),
}

/// Lists the files and folders that were named, and all that is in the folders, in order of their names, except what a
/// pattern leaves out. Links are sent as links.
pub fn walk(paths: &[PathBuf], wanted: &Wanted) -> Result<Plan, WalkError> {
    let mut walk = Walk { plan: Plan::default(), links: HardLinks::default(), wanted };
    let mut names = std::collections::BTreeSet::new();
    for path in paths {
        let read = |error| WalkError::Read { path: path.clone(), error };
        let whole = if path.file_name().is_some() {
            path.clone()
        } else {
            fs::canonicalize(path).map_err(read)?
        };
        let name = whole.file_name().ok_or_else(|| WalkError::NoName(path.clone()))?.to_owned();
        if !names.insert(name.clone()) {
            return Err(WalkError::Twice(name.to_string_lossy().into_owned()));
        }
        // What was named is sent itself, also if it is a link that was named.
        let metadata = fs::metadata(&whole).map_err(read)?;
        walk.add(&whole, name.as_bytes(), &metadata);
    }
    let Walk { mut plan, links, .. } = walk;
    plan.notes.extend(links.note());
    Ok(plan)
}

/// A walk through what was named.
struct Walk<'a> {
    plan: Plan,
    links: HardLinks,
    wanted: &'a Wanted,
}

impl Walk<'_> {
    fn add(&mut self, source: &Path, path: &[u8], metadata: &Metadata) {
        if self.wanted.excludes.iter().any(|it| it.matches(path, metadata.is_dir())) {
            return;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if paths::is_own(name) && !metadata.is_dir() {
            return self.leave_out(source, "it is a temporary file of nightwatt");
        }
        if name.starts_with(OWN) {
            return self.skip(source, "the receiver keeps such names for itself: rename it");
        }
        let kind = match metadata.file_type() {
            it if it.is_dir() => EntryKind::Folder,
            it if it.is_file() => EntryKind::File(metadata.len()),
            it if it.is_symlink() => match fs::read_link(source) {
                Ok(target) => EntryKind::Link(target.as_os_str().as_bytes().to_vec()),
                Err(error) => return self.skip(source, &error.to_string()),
            },
            _ => return self.leave_out(source, "it is a socket, pipe or device"),
        };
        let is_folder = kind == EntryKind::Folder;
        if matches!(kind, EntryKind::File(_)) {
            self.links.see(source, metadata);
        }
        // Found now, a dry run fails as sending would.
        if matches!(kind, EntryKind::File(_))
            && let Err(errno @ (Errno::ACCESS | Errno::PERM)) =
                accessat(CWD, source, Access::READ_OK, AtFlags::EACCESS)
        {
            return self.skip(source, &io::Error::from(errno).to_string());
        }
        let modified = Stamp {
            seconds: metadata.mtime(),
            nanos: u32::try_from(metadata.mtime_nsec()).unwrap_or(0).min(999_999_999),
        };
        let mode = (metadata.mode() & 0o7777) as u16;
        let has_attributes = self.wanted.attributes && !matches!(kind, EntryKind::Link(_));
        let attributes = if has_attributes { attributes(source) } else { Ok(Vec::new()) };
        let attributes = match attributes {
            Ok(attributes) => attributes,
            Err(why) => return self.skip(source, &why),
        };
        self.plan.entries.push(Entry { path: path.to_vec(), kind, mode, modified, attributes });
        self.plan.sources.push(source.to_owned());
        if is_folder {
            self.add_folder(source, path);
        }
    }

    fn add_folder(&mut self, source: &Path, path: &[u8]) {
        let entries: io::Result<Vec<fs::DirEntry>> =
            fs::read_dir(source).and_then(Iterator::collect);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.skip(source, &error.to_string()),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let within = [path, b"/", entry.file_name().as_bytes()].concat();
            match entry.metadata() {
                Ok(metadata) => self.add(&entry.path(), &within, &metadata),
                Err(error) => self.skip(&entry.path(), &error.to_string()),
            }
        }
    }

    fn leave_out(&mut self, source: &Path, why: &str) {
        let path = shown::name(source.as_os_str().as_bytes());
        self.plan.special.push(format!("{path} is left out: {why}"));
    }

    fn skip(&mut self, source: &Path, why: &str) {
        let path = shown::name(source.as_os_str().as_bytes());
        self.plan.skipped.push(format!("{path} is left out: {why}"));
    }
}

impl Plan {
    /// Folders that were named and have nothing in them that is sent. With `--delete`, all of them would go.
    pub fn empty_folders(&self) -> impl Iterator<Item = &Path> {
        let tops = self.entries.iter().enumerate().filter(|(_, it)| !it.path.contains(&b'/'));
        let is_empty = |place: usize| {
            self.entries.get(place + 1).is_none_or(|next| !next.path.contains(&b'/'))
        };
        tops.filter(move |(place, it)| it.kind == EntryKind::Folder && is_empty(*place))
            .map(|(place, _)| self.sources[place].as_path())
    }

    /// Bytes of contents.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(Entry::bytes).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::slice::from_ref;

    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_links_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir_all(top.join("b/c")).unwrap();
        fs::write(top.join("b/c/file"), "12345").unwrap();
        fs::write(top.join("a"), "1").unwrap();
        symlink("a", top.join("link")).unwrap();
        let own = ".nightwatt-0123456789abcdef";
        fs::write(top.join(format!("{own}-0-a.part")), "").unwrap();
        fs::create_dir(top.join(format!("{own}-0-b.part"))).unwrap();
        fs::write(top.join(".nightwatt-mine"), "").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, top.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let plan = walk(from_ref(&top), &Wanted::default()).unwrap();
        let paths: Vec<&str> =
            plan.entries.iter().map(|it| std::str::from_utf8(&it.path).unwrap()).collect();
        assert_eq!(paths, ["top", "top/a", "top/b", "top/b/c", "top/b/c/file", "top/link"]);
        assert_eq!(plan.entries[5].kind, EntryKind::Link(b"a".to_vec()));
        assert_eq!((plan.bytes(), plan.skipped.len()), (6, 2));
        // The fault of a review: what an interrupted transfer had left made each backup of the folder fail.
        let [own, pipe] = plan.special.as_slice() else { panic!("{:?}", plan.special) };
        assert!(own.contains("-0-a.part is left out: it is a temporary file"), "{own}");
        assert!(plan.skipped.iter().all(|it| it.contains("rename it")), "{:?}", plan.skipped);
        assert!(pipe.contains("top/pipe is left out"), "{pipe}");
        assert!(matches!(
            walk(&[top.clone(), top.clone()], &Wanted::default()),
            Err(WalkError::Twice(_))
        ));
        assert!(matches!(
            walk(&[top.join("nothing")], &Wanted::default()),
            Err(WalkError::Read { .. })
        ));
        assert_eq!(walk(&[top.join("b/..")], &Wanted::default()).unwrap().entries[0].path, b"top");
        assert_eq!(plan.empty_folders().count(), 0);
        let bare = folder.path().join("bare");
        fs::create_dir(&bare).unwrap();
        let plan = walk(&[bare.clone(), top.clone()], &Wanted::default()).unwrap();
        assert_eq!(plan.empty_folders().collect::<Vec<_>>(), [bare]);
        let excludes = ["c/", "a", ".nightwatt-*"].map(|pattern| pattern.parse().unwrap()).to_vec();
        let wanted = Wanted { excludes, attributes: false };
        let plan = walk(&[top], &wanted).unwrap();
        let paths: Vec<&[u8]> = plan.entries.iter().map(|it| it.path.as_slice()).collect();
        assert_eq!(paths, [b"top".as_slice(), b"top/b", b"top/link"]);
        assert!(plan.skipped.is_empty(), "what was left out by wish is no failure");
        assert_eq!(plan.special.len(), 1);
    }

    /// The fault of a review: a folder of hard links took many times its room there, without a word.
    #[test]
    fn hard_links_that_are_sent_as_files_are_noted() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir(&top).unwrap();
        for name in ["a", "b", "outside"] {
            fs::write(top.join(name), "1").unwrap();
        }
        fs::hard_link(top.join("outside"), folder.path().join("outside")).unwrap();
        let notes = || walk(from_ref(&top), &Wanted::default()).unwrap().notes;
        assert!(notes().is_empty(), "the other name is not sent: {:?}", notes());
        fs::hard_link(top.join("a"), top.join("c")).unwrap();
        let of_one = notes();
        assert!(of_one[0].contains("top/c: hard links to files"), "{of_one:?}");
        fs::hard_link(top.join("a"), top.join("d")).unwrap();
        fs::hard_link(top.join("b"), top.join("e")).unwrap();
        let of_more = notes();
        assert!(of_more.len() == 1 && of_more[0].contains("top/c and 2 more: "), "{of_more:?}");
    }
}
