//! What a server may answer the load generator: the same bytes mean the same, in whichever pieces
//! they come, and a body is never longer than what came.

use nightwatt_load::generate::answer_reader::{AnswerReader, Progress};
use nightwatt_load::generate::sources;

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let is_head = first & 1 == 1;
    let mut whole = AnswerReader::new(is_head);
    let at_once = whole.feed(bytes);
    assert!(whole.body() <= bytes.len() as u64);
    let mut pieces = AnswerReader::new(is_head);
    // Head parsers look at all that came again: pieces of one byte would make that quadratic.
    let size = 1 + usize::from(first >> 1);
    let mut last = Ok(Progress::More);
    for piece in bytes.chunks(size) {
        last = pieces.feed(piece);
        if last.is_err() {
            break;
        }
    }
    // What is longer than a head may be is refused only where it comes in pieces.
    if at_once.is_ok() && bytes.len() < 60_000 {
        assert_eq!(last, at_once);
        assert_eq!((pieces.status(), pieces.body()), (whole.status(), whole.body()));
        assert_eq!(pieces.end(), whole.end());
        assert!(pieces.keep_alive() == whole.keep_alive());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = sources::list(text);
        let _ = sources::sizes(text);
        let _ = sources::times(text);
        let _ = sources::is_times(text);
    }
}
