//! Counts the kinds of answers that a disk cache holds, by site: `nightwatt init --upgrade` proposes the `kind` of a
//! site from it. What an earlier version stored is dropped at the start, and counted before that.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use http::header::{CONTENT_TYPE, EXPIRES};
use nightwatt_httpcache::ResponseDirectives;
use serde::{Deserialize, Serialize};

use super::record::{Content, HEAD, Head, Meta, PAGE, RecordKind, SEGMENT_HEAD, is_earlier};
use super::storage::files_of;

/// File in the folder of the cache: counts of what an earlier version had stored.
const EARLIER: &str = "earlier-version.json";

/// Stored answers of one site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// HTML.
    pub pages: u64,
    /// JSON and XML except feeds: answers of APIs.
    pub data: u64,
    /// All others.
    pub files: u64,
    /// Of all these, answers that the server marked as cacheable.
    pub marked: u64,
}

impl Survey {
    fn count(&mut self, headers: &HeaderMap) {
        let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/html" | "application/xhtml+xml" => self.pages += 1,
            "application/json" | "application/xml" | "text/xml" => self.data += 1,
            kind if kind.ends_with("+json") => self.data += 1,
            _ => self.files += 1,
        }
        let says = ResponseDirectives::parse(headers);
        let is_marked = match says.s_maxage.or(says.max_age) {
            // A lifetime of zero does not permit sharing.
            Some(lifetime) => says.public || !lifetime.is_zero(),
            None => says.public || headers.contains_key(EXPIRES),
        };
        self.marked += u64::from(is_marked);
    }

    /// Answers in all.
    pub const fn all(&self) -> u64 {
        self.pages + self.data + self.files
    }
}

/// Counts what is in the folder of a disk cache, and what an earlier version had left there. Empty if there is no such
/// folder.
///
/// # Errors
///
/// The folder or a file in it cannot be read.
pub fn survey(folder: &Path) -> io::Result<BTreeMap<String, Survey>> {
    let mut sites: BTreeMap<String, Survey> = match std::fs::read(folder.join(EARLIER)) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error),
    };
    let files = match files_of(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        files => files?,
    };
    count(&files, &mut sites)?;
    Ok(sites)
}

/// Saves the counts of what an earlier version has stored, which is dropped next.
pub(super) fn remember_earlier(folder: &Path) -> io::Result<()> {
    let mut files = files_of(folder)?;
    files.retain(|path| head_of(path).is_ok_and(|head| is_earlier(&head)));
    if files.is_empty() {
        return Ok(());
    }
    let mut sites = BTreeMap::new();
    count(&files, &mut sites)?;
    std::fs::write(folder.join(EARLIER), serde_json::to_vec_pretty(&sites)?)
}

fn head_of(path: &Path) -> io::Result<[u8; SEGMENT_HEAD as usize]> {
    use std::io::Read as _;
    let mut head = [0; SEGMENT_HEAD as usize];
    std::fs::File::open(path)?.read_exact(&mut head)?;
    Ok(head)
}

fn count(files: &[PathBuf], sites: &mut BTreeMap<String, Survey>) -> io::Result<()> {
    let mut seen = HashSet::new();
    for path in files {
        for meta in metas(&std::fs::read(path)?) {
            let Some((site, _)) = meta.name.as_str().split_once(' ') else { continue };
            if seen.insert(meta.name.clone()) && meta.status.is_success() {
                sites.entry(site.to_owned()).or_default().count(&meta.headers);
            }
        }
    }
    Ok(())
}

/// The metadata of the whole records of a segment.
fn metas(segment: &[u8]) -> Vec<Meta> {
    let Some(head) = segment.first_chunk::<{ SEGMENT_HEAD as usize }>() else { return Vec::new() };
    let is_earlier = is_earlier(head);
    let salt = head[24..32].try_into().map_or(0, u64::from_le_bytes);
    let (mut at, mut found) = (PAGE as usize, Vec::new());
    while let Some(rest) = segment.get(at..).filter(|rest| rest.len() >= HEAD) {
        let head = rest.first_chunk::<HEAD>().and_then(Head::read);
        let both = head.and_then(|head| Some((head, rest.get(..HEAD + head.meta as usize)?)));
        let whole = both.filter(|(head, bytes)| head.is_whole(bytes, salt, at as u64));
        let Some((head, bytes)) = whole else {
            at = (at + 1).next_multiple_of(PAGE as usize);
            continue;
        };
        at += usize::try_from(head.length()).unwrap_or(usize::MAX).min(segment.len());
        let is_answer = matches!(head.kind, RecordKind::Object | RecordKind::Renewed);
        let said = Content::read_of(head.kind, &bytes[HEAD..], is_earlier).filter(|_| is_answer);
        if let Some(Content::Object(meta) | Content::Renewed(meta, _)) = said {
            found.push(meta);
        }
    }
    found
}
