//! Any bytes as heads and chunks: however they are cut, the same comes out, and a body that is taken is
//! one that a plain encoder could have written.

use bytes::BytesMut;
use nightwatt_http1::{Chunked, Refusal, Scan, Step, scan};

use crate::typed;

/// Bounds as tests have them: small, so that they are met.
const HEAD: usize = 256;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(input) = typed::<(u8, &[u8])>(bytes) else { return };
    let (cut, bytes) = (usize::from(input.0).max(1), input.1);
    heads(cut, bytes);
    let whole = body(bytes.len().max(1), bytes);
    assert_eq!(whole, body(cut, bytes), "cut every {cut} bytes");
}

/// The end of a head does not depend on how its bytes came, as far as one is found.
fn heads(cut: usize, bytes: &[u8]) {
    let whole = scan(bytes, 0, HEAD);
    let (mut have, mut seen) = (0, 0);
    while have < bytes.len() {
        have = (have + cut).min(bytes.len());
        match scan(&bytes[..have], seen, HEAD) {
            Ok(Scan::More) => seen = have,
            found => {
                // What is refused for its length may be refused sooner; nothing is taken that was not.
                assert!(found.is_err() || found == whole, "{found:?} and {whole:?}");
                return;
            }
        }
    }
    assert!(whole == Ok(Scan::More) || whole.is_err(), "found at once only: {whole:?}");
}

/// Body, whether trailers came, and how many bytes are left; or that it is refused.
type Decoded = Option<(Vec<u8>, bool, usize)>;

fn body(cut: usize, bytes: &[u8]) -> Result<Decoded, &'static str> {
    let mut decoder = Chunked::new(HEAD, 8);
    let (mut buffer, mut body) = (BytesMut::new(), Vec::new());
    let mut pieces = bytes.chunks(cut);
    loop {
        match decoder.step(&mut buffer) {
            Ok(Step::Data(part)) => body.extend_from_slice(&part),
            Ok(Step::End(trailers)) => {
                let left = buffer.len() + pieces.map(<[u8]>::len).sum::<usize>();
                return Ok(Some((body, trailers.is_some(), left)));
            }
            Ok(Step::More) => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => return Ok(None),
            },
            Err(Refusal::TimedOut) => unreachable!("there is no timeout here"),
            Err(_) => return Err("refused"),
        }
    }
}
