//! What another program writes, as a file.

use super::*;
use crate::wire::Stamp;

/// Gives its contents in small parts, and fails at the end if it is to.
struct Slow {
    content: io::Cursor<Vec<u8>>,
    fails: bool,
}

impl Read for Slow {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(7777);
        match self.content.read(&mut bytes[..most])? {
            0 if self.fails => Err(io::Error::other("the pipe broke")),
            count => Ok(count),
        }
    }
}

fn streamed(content: Vec<u8>, fails: bool, to: &Path, cut_after: usize) -> Both {
    let stream = Stream::of(Slow { content: io::Cursor::new(content), fails });
    let modified = Stamp { seconds: 1_700_000_000, nanos: 5 };
    let session = Session::of_stream(stream, b"today.tar", modified, options());
    run_both(session, to, cut_after)
}

#[test]
fn a_stream_arrives_as_a_file_and_what_was_there_stays_until_then() {
    let to = tempfile::tempdir().unwrap();
    for length in [0, 1, 50_000, 3_000_000] {
        let content = text(length, 3);
        let both = streamed(content.clone(), false, to.path(), usize::MAX);
        assert!(both.sent.is_ok() && both.received.is_ok(), "{:?} {:?}", both.sent, both.received);
        assert_eq!(contents(to.path()), [("today.tar".to_owned(), content)]);
        let report = both.session.report();
        let bytes = length as u64;
        assert_eq!((report.total_bytes, report.acknowledged_bytes), (bytes, bytes));
    }
    let modified = to.path().join("today.tar").metadata().unwrap();
    assert_eq!((modified.mtime(), modified.mtime_nsec()), (1_700_000_000, 5));
}

/// Of a stream that ends too early nothing gets the final name, and the next attempt leaves nothing of it.
#[test]
fn a_stream_that_is_cut_or_cannot_be_read_is_not_a_file() {
    let to = tempfile::tempdir().unwrap();
    streamed(text(10, 1), false, to.path(), usize::MAX);
    let has_old =
        || contents(to.path()).iter().any(|it| it == &("today.tar".to_owned(), text(10, 1)));
    let failed = streamed(noise(1_000_000), true, to.path(), usize::MAX);
    assert!(matches!(failed.sent, Err(SendError::Input(_))), "{:?}", failed.sent);
    assert!(failed.received.is_err() && has_old());
    let cut = streamed(noise(1_000_000), false, to.path(), 400_000);
    assert!(cut.sent.is_err() && has_old());
    streamed(text(99, 2), false, to.path(), usize::MAX);
    assert_eq!(contents(to.path()), [("today.tar".to_owned(), text(99, 2))]);
}

/// The fault of a review: its report made the command panic, or print more bytes than there are.
#[test]
fn a_stream_that_cannot_be_written_is_not_read_and_counts_nothing() {
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join("today.tar")).unwrap();
    let both = streamed(text(500_000, 1), false, to.path(), usize::MAX);
    assert!(both.sent.is_ok() && both.received.is_ok(), "{:?} {:?}", both.sent, both.received);
    let report = both.session.report();
    let counted = [report.total_bytes, report.had_bytes, report.rejected_bytes];
    assert_eq!((counted, report.acknowledged_bytes, report.wire_bytes), ([0; 3], 0, 0));
    let receipt = both.session.receipt().unwrap();
    assert_eq!((receipt.entries, receipt.rejected_count, receipt.bytes), (0, 1, 0));
    let text = summary(&both.session).text();
    assert!(text.starts_with("sent       0 B as 0 B in "), "{text}");
    assert!(text.contains("today.tar: a folder has its name: name a file in it"), "{text}");
}
