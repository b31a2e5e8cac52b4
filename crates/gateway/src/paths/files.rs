//! Files of a folder, as clients get them. Nothing outside of the folder can be opened, by whatever path or link.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use nightwatt_http1::BodyError;
use nightwatt_httpcache::conditional::{is_in_if_match, is_in_if_none_match};
use nightwatt_httpcache::{RangeAnswer, Timestamp, date, range};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use super::kinds;
use crate::answers;
use crate::body::Answer;
use crate::compress::WholeAnswer;
use crate::config::{decoded, is_hidden};

/// Bytes that are read at a time.
const PART: usize = 64 << 10;

/// The file for a path that ends with a slash.
const INDEX: &str = "index.html";

/// A folder.
#[derive(Clone)]
pub(super) struct Folder(Arc<Place>);

struct Place {
    root: PathBuf,
    index: String,
}

/// What is at a path.
pub(super) enum Found {
    File(Opened),
    /// A folder without the slash: the addresses in its page would be wrong.
    Folder,
    Nothing,
    /// It cannot be read.
    Failed,
}

/// A file that is open.
pub(super) struct Opened {
    file: File,
    length: u64,
    changed: Duration,
    /// Of the time of the change, what seconds leave out, and which file it is.
    tag: String,
    kind: &'static str,
}

impl Folder {
    pub(super) fn new(root: &Path, index: Option<&str>) -> Self {
        Self(Arc::new(Place { root: root.to_owned(), index: index.unwrap_or(INDEX).to_owned() }))
    }

    /// Opens what is at a path, in a thread that may wait for the disk.
    pub(super) async fn open(&self, path: String) -> Found {
        let this = self.clone();
        let opening = tokio::task::spawn_blocking(move || this.0.open(&path));
        opening.await.unwrap_or(Found::Failed)
    }
}

impl Place {
    fn open(&self, path: &str) -> Found {
        let Some(mut name) = name_of(path) else { return Found::Nothing };
        let asks_folder = path.ends_with('/') || name.is_empty();
        if asks_folder && path.is_empty() {
            return Found::Folder;
        }
        if asks_folder {
            name =
                if name.is_empty() { self.index.clone() } else { format!("{name}/{}", self.index) };
        }
        match self.open_name(&name) {
            Ok(Some(opened)) => Found::File(opened),
            Ok(None) if asks_folder => Found::Nothing,
            Ok(None) => Found::Folder,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Found::Nothing,
                _ if is_nowhere(&error) => Found::Nothing,
                _ => Found::Failed,
            },
        }
    }

    /// Nothing for a folder.
    fn open_name(&self, name: &str) -> io::Result<Option<Opened>> {
        let root = File::open(&self.root)?;
        // Not blocking, since it may be a pipe.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = File::from(openat2(&root, name, flags, Mode::empty(), within)?);
        let data = file.metadata()?;
        if data.is_dir() {
            return Ok(None);
        }
        if !data.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let changed = data.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let tag = format!("\"{:x}-{:x}-{:x}\"", changed.as_nanos(), data.len(), data.ino());
        let kind = kinds::of(name);
        Ok(Some(Opened { file, length: data.len(), changed, tag, kind }))
    }
}

/// Whether a path leads out of the folder or in a circle, or is too long for any file: for clients nothing is there.
fn is_nowhere(error: &io::Error) -> bool {
    let nowhere = [Errno::XDEV, Errno::LOOP, Errno::NAMETOOLONG];
    nowhere.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}

/// The name of a file below the folder; nothing if the path cannot be one, or names a hidden file.
fn name_of(path: &str) -> Option<String> {
    let name = decoded(path);
    if name.contains(['\0', '\\', char::REPLACEMENT_CHARACTER]) {
        return None;
    }
    let steps: Vec<&str> = name.split('/').filter(|step| !step.is_empty()).collect();
    if steps.iter().any(|step| is_hidden(step)) {
        return None;
    }
    Some(steps.join("/"))
}

/// The answer for what was found; `folder_url` is the address of a folder, with the slash.
pub(super) fn respond(
    found: Found,
    method: &Method,
    request: &HeaderMap,
    folder_url: impl FnOnce() -> String,
) -> Response<Answer> {
    let opened = match found {
        Found::File(opened) => opened,
        Found::Folder => {
            let place = folder_url();
            // A path of two slashes would be another host.
            let location = HeaderValue::from_str(&place).ok().filter(|_| !place.starts_with("//"));
            let Some(location) = location else {
                return answers::sentence(StatusCode::NOT_FOUND, "There is no such file.");
            };
            let text = format!("This folder is at {place}.");
            let mut response = answers::sentence(StatusCode::PERMANENT_REDIRECT, &text);
            response.headers_mut().insert(LOCATION, location);
            return response;
        }
        Found::Nothing => {
            return answers::sentence(StatusCode::NOT_FOUND, "There is no such file.");
        }
        Found::Failed => {
            let text = "This file cannot be read.";
            return answers::sentence(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
    };
    opened.respond(method, request)
}

impl Opened {
    /// The conditions come in the order of RFC 9110, 13.2.2.
    fn respond(self, method: &Method, request: &HeaderMap) -> Response<Answer> {
        if self.is_another(request) {
            let text = "The file is not in the version that the request is for.";
            return answers::sentence(StatusCode::PRECONDITION_FAILED, text);
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(LAST_MODIFIED, date::format(self.timestamp()));
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        if self.is_known(request) {
            let mut whole = WholeAnswer { status: StatusCode::OK, headers: headers.clone() };
            whole.headers.insert(CONTENT_LENGTH, self.length.into());
            headers.remove(CONTENT_TYPE);
            let mut response = made(StatusCode::NOT_MODIFIED, headers, Answer::empty());
            response.extensions_mut().insert(whole);
            return response;
        }
        let asked = request.get(RANGE).filter(|_| *method == Method::GET && self.is_same(request));
        let part = asked.map_or(RangeAnswer::Whole, |it| range::answer(it.as_bytes(), self.length));
        let (status, from, length) = match part {
            RangeAnswer::Whole => (StatusCode::OK, 0, self.length),
            RangeAnswer::Part(part) => {
                range::partial_headers(&mut headers, part, self.length);
                (StatusCode::PARTIAL_CONTENT, part.first, part.len())
            }
            RangeAnswer::NotSatisfiable => {
                let status = StatusCode::RANGE_NOT_SATISFIABLE;
                return made(status, range::unsatisfiable_headers(self.length), Answer::empty());
            }
        };
        headers.insert(CONTENT_LENGTH, length.into());
        if *method == Method::HEAD || length == 0 {
            return made(status, headers, Answer::empty());
        }
        let body = Reading { at: At::Here(Some((self.file, from))), left: length };
        made(status, headers, Answer::other(body))
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_secs(self.changed.as_secs())
    }

    /// Whether the request is for another file, or for it as it was before it changed.
    fn is_another(&self, request: &HeaderMap) -> bool {
        if request.contains_key(IF_MATCH) {
            return !is_in_if_match(request, Some(self.tag.as_bytes()));
        }
        let mut lines = request.get_all(IF_UNMODIFIED_SINCE).iter();
        // What is no date does not count.
        let (Some(since), None) = (lines.next(), lines.next()) else { return false };
        let since = date::parse_value(since, self.timestamp());
        since.is_some_and(|since| since < self.timestamp())
    }

    /// Whether the client has it already.
    fn is_known(&self, request: &HeaderMap) -> bool {
        if request.contains_key(IF_NONE_MATCH) {
            return is_in_if_none_match(request, Some(self.tag.as_bytes()));
        }
        let since = request.get(IF_MODIFIED_SINCE);
        let since = since.and_then(|it| date::parse_value(it, self.timestamp()));
        since.is_some_and(|since| since >= self.timestamp())
    }

    /// `If-Range`: whether the client's part is of this very file. Only the tag is sure of that.
    fn is_same(&self, request: &HeaderMap) -> bool {
        request.get(IF_RANGE).is_none_or(|it| it.as_bytes().trim_ascii() == self.tag.as_bytes())
    }
}

fn made(status: StatusCode, headers: HeaderMap, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A file that is being read, a part at a time.
struct Reading {
    at: At,
    left: u64,
}

enum At {
    /// The file, and where to begin.
    Here(Option<(File, u64)>),
    /// A thread reads.
    There(JoinHandle<io::Result<(File, u64, Bytes)>>),
}

fn read(mut file: File, from: u64, length: usize) -> io::Result<(File, u64, Bytes)> {
    file.seek(SeekFrom::Start(from))?;
    let mut part = vec![0; length];
    file.read_exact(&mut part)?;
    Ok((file, from + length as u64, part.into()))
}

impl Body for Reading {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            let length = usize::try_from(self.left).unwrap_or(PART).min(PART);
            match &mut self.at {
                At::Here(file) => {
                    let Some((file, from)) = file.take() else { return Poll::Ready(None) };
                    let reading = tokio::task::spawn_blocking(move || read(file, from, length));
                    self.at = At::There(reading);
                }
                At::There(reading) => {
                    let done = std::task::ready!(Pin::new(reading).poll(cx));
                    self.at = At::Here(None);
                    // A file that became shorter breaks the answer off: its length was announced.
                    let (file, next, part) = match done.map_err(io::Error::other).flatten() {
                        Ok(done) => done,
                        Err(error) => return Poll::Ready(Some(Err(error.into()))),
                    };
                    self.at = At::Here(Some((file, next)));
                    self.left -= part.len() as u64;
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_and_steps_upwards_have_no_name() {
        for (path, name) in [
            ("/a/b.txt", Some("a/b.txt")),
            ("/a%20b", Some("a b")),
            ("/%2e%2e/etc/passwd", None),
            ("/../etc/passwd", None),
            ("/a/..", None),
            ("/.git/config", None),
            ("/a/%2egit", None),
            ("/.well-known/x", Some(".well-known/x")),
            ("/a%00.txt", None),
            ("/a\\b", None),
            ("/a%5cb", None),
            ("/%ff", None),
            ("//a", Some("a")),
            ("/", Some("")),
        ] {
            assert_eq!(name_of(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn conditions_are_judged_in_their_order() {
        const BEFORE: &str = "Sun, 09 Sep 2001 01:46:39 GMT";
        const THEN: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("a.txt")).unwrap();
        // Half a second after `THEN`: dates have whole seconds.
        file.set_modified(UNIX_EPOCH + Duration::from_millis(1_000_000_000_500)).unwrap();
        let folder = Folder::new(dir.path(), None);
        let Found::File(Opened { tag, .. }) = folder.0.open("/a.txt") else { panic!("a file") };
        let weak = format!("W/{tag}");
        let (own, weak, other) = (tag.as_str(), weak.as_str(), "\"x\"");
        for (fields, status) in [
            (&[("if-match", own)][..], 200),
            (&[("if-match", "*")], 200),
            (&[("if-match", other)], 412),
            (&[("if-match", weak)], 412),
            (&[("if-match", other), ("if-match", own)], 200),
            (&[("if-unmodified-since", THEN)], 200),
            (&[("if-unmodified-since", BEFORE)], 412),
            (&[("if-unmodified-since", "yesterday")], 200),
            (&[("if-unmodified-since", BEFORE), ("if-unmodified-since", BEFORE)], 200),
            (&[("if-match", own), ("if-unmodified-since", BEFORE)], 200),
            (&[("if-match", other), ("if-unmodified-since", THEN)], 412),
            (&[("if-match", own), ("if-none-match", own)], 304),
            (&[("if-match", other), ("if-none-match", own)], 412),
            (&[("if-unmodified-since", BEFORE), ("if-modified-since", THEN)], 412),
            (&[("if-unmodified-since", THEN), ("if-modified-since", THEN)], 304),
            (&[("if-none-match", weak)], 304),
            (&[("if-none-match", other), ("if-modified-since", THEN)], 200),
            (&[("if-modified-since", BEFORE)], 200),
        ] {
            let mut request = HeaderMap::new();
            for (name, value) in fields {
                request.append(*name, HeaderValue::from_str(value).unwrap());
            }
            for method in [Method::GET, Method::HEAD] {
                let found = folder.0.open("/a.txt");
                let response = respond(found, &method, &request, String::new);
                assert_eq!(response.status().as_u16(), status, "{method} {fields:?}");
            }
            let nothing = respond(folder.0.open("/b.txt"), &Method::GET, &request, String::new);
            assert_eq!(nothing.status(), StatusCode::NOT_FOUND, "{fields:?}");
        }
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("in/page.html"), "page").unwrap();
        for (link, to) in [
            ("out", "../secret"),
            ("absolute", "/etc/passwd"),
            ("around", "in/../../secret"),
            ("up", ".."),
            ("inside", "in/page.html"),
        ] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        let folder = Folder::new(&root, None);
        let is_there = |path: &str| matches!(folder.0.open(path), Found::File(_));
        assert!(is_there("/in/page.html") && is_there("/inside"));
        for path in ["/out", "/absolute", "/around", "/up/secret", "/up", "/in/nothing", "/in/"] {
            assert!(!is_there(path), "{path}");
        }
        assert!(matches!(folder.0.open("/in"), Found::Folder));
        std::os::unix::fs::symlink("circle", root.join("circle")).unwrap();
        let (long, deep) = ("/a".to_owned() + &"b".repeat(300), "/a".repeat(3000));
        for path in ["/circle", "/circle/x", &long, &deep] {
            assert!(matches!(folder.0.open(path), Found::Nothing), "{} bytes", path.len());
        }
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(
                matches!(folder.0.open("/pipe"), Found::Nothing),
                "no request waits for a pipe"
            );
        }
    }
}
