use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::rc::Rc;
use std::sync::Arc;

use nightwatt_energy::time::Mono;

use super::*;
use crate::pure::arm::Codec;
use crate::wire::{
    Attribute, Change, Codecs, Data, Entry, EntryKind, Failure, Fin, FrameReader, FrameWriter,
    Hello, Message, Receipt, Stamp, VERSIONS, content_sum,
};

fn hello(versions: [u16; 2]) -> Message {
    Message::Hello(Hello {
        versions,
        codecs: Codecs::all(),
        session: [1; 16],
        program: "test".into(),
    })
}

fn entry(path: &str, kind: EntryKind) -> Entry {
    Entry {
        path: path.into(),
        kind,
        mode: 0o644,
        modified: Stamp { seconds: 1, nanos: 0 },
        attributes: Vec::new(),
    }
}

fn data(id: u64, start: u64, content: &[u8]) -> Message {
    let length = u32::try_from(content.len()).unwrap();
    let sum = content_sum(start, content);
    Message::Data(Data { id, start, length, codec: Codec::None, sum, packed: content.to_vec() })
}

fn fin(blocks: &[(u64, &[u8])]) -> Message {
    let sum = blocks
        .iter()
        .fold(0_u64, |sum, (start, content)| sum.wrapping_add(content_sum(*start, content)));
    Message::Fin(Fin { sum, blocks: blocks.len() as u64 })
}

/// The fault of a review: a peer in the clear that had greeted, and sent nothing more, held the port.
#[test]
fn a_sender_that_is_silent_for_too_long_is_let_go() {
    let (reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let (kind, body) = hello(VERSIONS).encode();
    FrameWriter::new(&mut writer).write(kind, &body).unwrap();
    let silence = Some(std::time::Duration::from_millis(1));
    let gauges = Gauges { clock: || Mono::ZERO, spent: &|_| None, silence };
    let mut answered = Vec::new();
    let result = run_metered(reader, &mut answered, Pipe::new(Vec::new()), gauges);
    assert!(matches!(result, Err(ReceiveError::Silent(_))), "{result:?}");
    let mut frames = FrameReader::default();
    frames.push(&answered);
    let mut last = None;
    while let Some((kind, body)) = frames.next_frame().unwrap() {
        last = Some(Message::decode(kind, body).unwrap());
    }
    let Some(Message::Failed(failed)) = last else { panic!("{last:?}") };
    assert!(failed.text.contains("has sent nothing for"), "{}", failed.text);
    drop(writer);
}

fn answers(
    messages: &[Message],
    store: impl Store,
) -> (Vec<Message>, Result<Received, ReceiveError>) {
    let mut bytes = FrameWriter::new(Vec::new());
    for message in messages {
        let (kind, body) = message.encode();
        bytes.write(kind, &body).unwrap();
    }
    let mut answered = Vec::new();
    let sent = io::Cursor::new(bytes.into_inner());
    let result = run(sent, &mut answered, store, || Mono::ZERO);
    let mut frames = FrameReader::default();
    frames.push(&answered);
    let mut messages = Vec::new();
    while let Some((kind, body)) = frames.next_frame().unwrap() {
        messages.push(Message::decode(kind, body).unwrap());
    }
    (messages, result)
}

fn receipt(messages: &[Message]) -> Receipt {
    match messages.last() {
        Some(Message::Receipt(receipt)) => receipt.clone(),
        other => panic!("no receipt: {other:?}"),
    }
}

/// Part of T8: whatever the manifest says, nothing outside the folder is touched.
#[test]
fn nothing_is_written_outside_the_folder() {
    let top = tempfile::tempdir().unwrap();
    let (folder, outside) = (top.path().join("folder"), top.path().join("outside"));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    symlink(&outside, folder.join("way")).unwrap();
    symlink(outside.join("kept"), folder.join("file")).unwrap();
    let file = EntryKind::File(3);
    let entries = vec![
        entry("../outside/kept", file.clone()),
        entry("/etc/nightwatt-test", file.clone()),
        entry("way/kept", file.clone()),
        entry("way/new", file.clone()),
        entry("way", EntryKind::Folder),
        entry("out", EntryKind::Link(b"../outside".to_vec())),
        entry("abs", EntryKind::Link(b"/etc".to_vec())),
        entry("in", EntryKind::Link(b"file".to_vec())),
        entry("in/side", file.clone()),
        entry("file", file),
    ];
    let count = entries.iter().filter(|entry| entry.bytes() > 0).count();
    let contents: Vec<(u64, &[u8])> =
        (0..count).map(|place| (place as u64 * 3, b"abc".as_slice())).collect();
    let mut messages = vec![hello([1, 1]), Message::Manifest(entries), Message::End];
    messages.extend(contents.iter().map(|(start, content)| data(*start, *start, content)));
    messages.push(fin(&contents));
    let (answers, result) = answers(&messages, Folder::open(&folder).unwrap());
    assert!(result.is_ok(), "{result:?}");
    let receipt = receipt(&answers);
    let rejected: Vec<String> =
        receipt.rejected.iter().map(|it| String::from_utf8_lossy(&it.path).into_owned()).collect();
    for path in ["../outside/kept", "/etc/nightwatt-test", "way/kept", "way/new", "way", "in/side"]
    {
        assert!(rejected.iter().any(|it| it == path), "{path} is not in {rejected:?}");
    }
    let there: Vec<_> =
        outside.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        (there.len(), fs::read_to_string(outside.join("kept")).unwrap().as_str()),
        (1, "kept")
    );
    // A link that stood where a file is to be is replaced, and not followed.
    assert!(folder.join("file").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(folder.join("in")).unwrap(), "abc");
}

/// A link is a text, which a backup must keep; where others serve the folder, those that could lead outside are refused.
/// The last two are of an attack: they lead outside only together.
#[test]
fn links_are_kept_as_they_are_or_refused_on_request() {
    let links =
        [("abs", "/etc/passwd"), ("out", "../x"), ("esc/way", "../.."), ("esc/q", "way/../../x")];
    let link = |(path, target): (&str, &str)| entry(path, EntryKind::Link(target.into()));
    let folder = Entry { mode: 0o755, ..entry("esc", EntryKind::Folder) };
    let mut entries = vec![folder, link(("esc/in", "../a/b"))];
    entries.extend(links.map(link));
    let messages = [hello([1, 1]), Message::Manifest(entries), Message::End, fin(&[])];
    let top = tempfile::tempdir().unwrap();
    let (kept, served) = (top.path().join("kept"), top.path().join("served"));
    let (all, _) = answers(&messages, Folder::open(&kept).unwrap());
    assert_eq!(receipt(&all).rejected_count, 0);
    for (path, target) in links {
        assert_eq!(fs::read_link(kept.join(path)).unwrap().to_str(), Some(target));
    }
    let (some, _) = answers(&messages, Folder::open(&served).unwrap().wary_of_links());
    let rejected: Vec<Vec<u8>> = receipt(&some).rejected.into_iter().map(|it| it.path).collect();
    assert_eq!(rejected, links.map(|(path, _)| path.as_bytes().to_vec()));
    assert!(served.join("esc/in").symlink_metadata().is_ok());
    assert!(links.iter().all(|(path, _)| served.join(path).symlink_metadata().is_err()));
}

/// Here the limit is 4 MiB. What was refused does not count, because it is not kept.
#[test]
fn a_manifest_has_a_limit() {
    let attribute = || Attribute { name: b"user.a".to_vec(), value: vec![0; 60_000] };
    let large = |path: &str| Entry {
        attributes: (0..10).map(|_| attribute()).collect(),
        ..entry(path, EntryKind::File(0))
    };
    let messages = |path: fn(u32) -> String| {
        let entries = (0..10).map(|number| Message::Manifest(vec![large(&path(number))]));
        std::iter::once(hello([1, 1])).chain(entries).chain([Message::End]).collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().unwrap();
    let refused = messages(|number| format!("../{number}"));
    let (all, _) = answers(&refused, Folder::open(folder.path()).unwrap());
    assert_eq!(all.last(), Some(&Message::End));
    let fine = messages(|number| number.to_string());
    let (_, result) = answers(&fine, Folder::open(folder.path()).unwrap());
    let Err(ReceiveError::Session(SessionError::Protocol(text))) = result else {
        panic!("{result:?}")
    };
    assert!(text.contains("4 MiB of names and attributes"), "{text}");
}

#[test]
fn a_block_with_other_contents_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = data(1, 0, b"abc");
    if let Message::Data(data) = &mut damaged {
        data.packed = b"abd".to_vec();
    }
    let messages = [
        hello([1, 1]),
        Message::Manifest(vec![entry("a", EntryKind::File(3))]),
        Message::End,
        damaged,
        data(2, 0, b"abc"),
        fin(&[(0, b"abc")]),
    ];
    let (answers, result) = answers(&messages, Folder::open(folder.path()).unwrap());
    assert!(result.is_ok(), "{result:?}");
    assert!(
        matches!(&answers[2..4], [Message::Nack(nack), Message::Ack(ack)] if (nack.id, ack.id) == (1, 2))
    );
    assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "abc");
    let left: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert_eq!(left.len(), 1, "nothing of ours is left: {left:?}");
}

#[test]
fn a_sender_that_breaks_the_protocol_gets_an_error() {
    let manifest = || Message::Manifest(vec![entry("a", EntryKind::File(3))]);
    let breaks: [&[Message]; 7] = [
        &[Message::End],
        &[hello([1, 1]), hello([1, 1])],
        &[hello([1, 1]), data(1, 0, b"abc")],
        &[hello([1, 1]), manifest(), Message::End, data(1, 1, b"abc")],
        &[hello([1, 1]), manifest(), Message::End, fin(&[])],
        &[hello([1, 1]), manifest(), Message::End, data(1, 0, b"abc"), fin(&[])],
        &[hello([1, 1]), manifest(), Message::End, Message::Stale(1)],
    ];
    for messages in breaks {
        let folder = tempfile::tempdir().unwrap();
        let (answers, result) = answers(messages, Folder::open(folder.path()).unwrap());
        assert!(
            matches!(result, Err(ReceiveError::Session(SessionError::Protocol(_)))),
            "{result:?}"
        );
        assert!(
            matches!(answers.last(), Some(Message::Failed(failed)) if failed.failure == Failure::Protocol)
        );
        assert!(!folder.path().join("a").exists() || messages.len() == 5);
    }
}

#[test]
fn a_sender_of_another_version_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (answers, result) = answers(&[hello([7, 9])], Folder::open(folder.path()).unwrap());
    assert!(matches!(result, Err(ReceiveError::Session(SessionError::Version { .. }))));
    let Some(Message::Failed(failed)) = answers.last() else { panic!("{answers:?}") };
    assert_eq!(failed.failure, Failure::Version);
    assert!(failed.text.contains("7 to 9"), "{}", failed.text);
}

#[test]
fn a_sender_that_goes_away_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (_, result) = answers(&[hello([1, 1])], Folder::open(folder.path()).unwrap());
    assert!(matches!(result, Err(ReceiveError::Cut)));
}

/// The fault of a review: nothing of a stream is kept, and the words promised that it was.
#[test]
fn nothing_of_a_stream_is_said_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let stream = Message::Manifest(vec![entry("a", EntryKind::Stream)]);
    let messages = [hello([1, 1]), stream, Message::End];
    let (_, of_folder) = answers(&messages, Folder::open(folder.path()).unwrap());
    let (_, of_pipe) = answers(&messages[..1], Pipe::new(Vec::new()));
    for result in [of_folder, of_pipe] {
        assert!(matches!(result, Err(ReceiveError::Lost)), "{result:?}");
    }
}

/// After a power cut, a file may be shorter than its journal has it.
#[test]
fn parts_that_are_no_longer_there_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Message::Manifest(vec![entry("a", EntryKind::File(6))]);
    let messages = [hello([1, 1]), manifest, Message::End, data(1, 0, b"abc")];
    let (_, cut) = answers(&messages, Folder::open(folder.path()).unwrap());
    assert!(matches!(cut, Err(ReceiveError::Cut)));
    let has_parts = || {
        let (said, _) = answers(&messages[..3], Folder::open(folder.path()).unwrap());
        said.iter().any(|it| matches!(it, Message::Have(_)))
    };
    assert!(has_parts());
    let names = folder.path().read_dir().unwrap().map(|it| it.unwrap().path());
    let parts: Vec<_> = names.filter(|it| it.extension().is_some_and(|it| it == "part")).collect();
    let [part] = parts.as_slice() else { panic!("{parts:?}") };
    fs::write(part, "ab").unwrap();
    assert!(!has_parts());
}

/// The fault of a review: what was left of an interrupted transfer stayed for ever.
#[test]
fn what_no_sender_goes_on_with_is_removed_after_a_week() {
    let folder = tempfile::tempdir().unwrap();
    let greeting = |session: u8| {
        let Message::Hello(hello) = hello([1, 1]) else { panic!() };
        Message::Hello(Hello { session: [session; 16], ..hello })
    };
    let entries = || vec![entry("in", EntryKind::Folder), entry("in/a", EntryKind::File(6))];
    let left = || {
        let mut all = Vec::new();
        for at in [folder.path().to_owned(), folder.path().join("in")] {
            let own = |path: &std::path::PathBuf| path.to_string_lossy().contains(".nightwatt-");
            all.extend(fs::read_dir(at).unwrap().map(|it| it.unwrap().path()).filter(own));
        }
        all.len()
    };
    for session in [1, 2] {
        let messages =
            [greeting(session), Message::Manifest(entries()), Message::End, data(1, 0, b"abc")];
        let (_, cut) = answers(&messages, Folder::open(folder.path()).unwrap());
        assert!(matches!(cut, Err(ReceiveError::Cut)));
    }
    assert_eq!(left(), 4, "a journal and a part of each");
    let now = rustix::fs::stat(folder.path()).unwrap().st_ctime;
    let mut store = Folder::open(folder.path()).unwrap();
    store.remove_abandoned(now + 6 * 86_400).unwrap();
    assert_eq!(left(), 4);
    // One of them has a receiver.
    let journal = format!(".nightwatt-{}.journal", "02".repeat(8));
    let held = fs::File::open(folder.path().join(journal)).unwrap();
    held.lock().unwrap();
    store.remove_abandoned(now + 8 * 86_400).unwrap();
    assert_eq!(left(), 2);
    drop(held);
    store.remove_abandoned(now + 8 * 86_400).unwrap();
    assert_eq!(left(), 0);
}

#[test]
fn a_dry_run_is_known_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = || Message::Manifest(vec![entry("a", EntryKind::File(0))]);
    let trial = [hello([1, 1]), manifest(), Message::Trial, Message::End];
    let (_, received) = answers(&trial, Folder::open(folder.path()).unwrap());
    assert!(received.unwrap().is_trial);
    let run = [hello([1, 1]), manifest(), Message::End, fin(&[])];
    let (_, received) = answers(&run, Folder::open(folder.path()).unwrap());
    assert!(!received.unwrap().is_trial);
}

/// A store without room.
#[derive(Debug, Default)]
struct Full(Rc<RefCell<u64>>);

impl Store for Full {
    fn begin(&mut self, _: [u8; 16]) -> Result<(), StoreError> {
        Ok(())
    }
    fn prepare(&mut self, entries: Arc<[Entry]>, _: &Options) -> Result<Vec<Standing>, StoreError> {
        Ok(vec![Standing::Parts(crate::pure::ranges::Ranges::default()); entries.len()])
    }
    fn compared(&mut self, _: &[Entry], _: &Options) -> Result<Vec<Change>, StoreError> {
        Ok(Vec::new())
    }
    fn write(&mut self, _: usize, _: u64, bytes: &[u8]) -> Result<(), StoreError> {
        *self.0.borrow_mut() += bytes.len() as u64;
        match *self.0.borrow() {
            0..=3 => Ok(()),
            _ => {
                Err(StoreError::All(io::Error::new(io::ErrorKind::StorageFull, "no room is left")))
            }
        }
    }
    fn ended(&mut self, _: usize, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn zero(&mut self, _: usize, _: u64, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn complete(&mut self, _: usize) -> Result<(), StoreError> {
        Err(StoreError::Entry("not this one".to_owned()))
    }
    fn abandon(&mut self, _: usize) -> Result<(), StoreError> {
        Ok(())
    }
    fn remove_others(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn end(&mut self) -> Result<Outcome, StoreError> {
        Ok(Outcome::default())
    }
}

#[test]
fn a_full_disk_ends_the_session_and_is_named() {
    let entries = vec![entry("a", EntryKind::File(3)), entry("b", EntryKind::File(3))];
    let messages = [
        hello([1, 1]),
        Message::Manifest(entries),
        Message::End,
        data(1, 0, b"abc"),
        data(2, 3, b"abc"),
    ];
    let (answers, result) = answers(&messages, Full::default());
    assert!(matches!(result, Err(ReceiveError::Session(SessionError::Store(_)))));
    let Some(Message::Failed(failed)) = answers.last() else { panic!("{answers:?}") };
    assert_eq!((failed.failure, failed.text.as_str()), (Failure::DiskFull, "no room is left"));
    assert!(matches!(answers[2], Message::Ack(_)), "what was written is acknowledged: {answers:?}");
}
