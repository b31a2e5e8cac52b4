//! Right bytes made wrong, or at least odd.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What attacks are made of.
const PIECES: [&[u8]; 40] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\t",
    b" ",
    b":",
    b"\x0b",
    b"\x7f",
    b"\xff",
    b"\xa0",
    b";",
    b",",
    b"%00",
    b"\r\n\r\n",
    b"\r\n ",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b"ffffffffffffffff\r\n",
    b"-1",
    b"+",
    b"0x",
    b"99999999999999999999",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Host: other.test\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: Host, Content-Length\r\n",
    b"Expect: 100-continue\r\n",
    b"Trailer: Host\r\n",
    b"Range: bytes=0-18446744073709551615,-1\r\n",
    b"Cache-Control: only-if-cached, max-stale=99999999999999999999\r\n",
    b"GET / HTTP/1.1\r\nHost: awake.test\r\n\r\n",
    b"HTTP/2.0",
    b"CONNECT ",
];

/// Changes these bytes in up to four places.
pub(crate) fn mutate(random: &mut ChaCha8Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..=4) {
        mutate_once(random, bytes);
    }
}

fn mutate_once(random: &mut ChaCha8Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.extend(PIECES[random.random_range(0..PIECES.len())]);
        return;
    }
    // Bodies are long and hold no secrets: most changes are for heads.
    let reach = if random.random_range(0..4) == 0 { bytes.len() } else { bytes.len().min(400) };
    let at = random.random_range(0..reach);
    let end = at + random.random_range(0..30).min(bytes.len() - at);
    match random.random_range(0..10) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2..5 => insert(bytes, at, PIECES[random.random_range(0..PIECES.len())]),
        5 => at_line_end(random, bytes, at),
        6 => drop(bytes.drain(at..end)),
        7 => {
            let copy = bytes[at..end].to_vec();
            insert(bytes, at, &copy);
        }
        8 => bytes.truncate(at),
        _ => insert(bytes, at, &vec![bytes[at]; random.random_range(1..12_000)]),
    }
}

/// Puts a piece at the beginning of a line, where fields begin, or takes the line's end away.
fn at_line_end(random: &mut ChaCha8Rng, bytes: &mut Vec<u8>, from: usize) {
    let end = bytes[from..].windows(2).position(|pair| pair == b"\r\n").map(|at| from + at);
    let Some(end) = end else { return };
    match random.random_range(0..4) {
        0 => drop(bytes.remove(end)),
        1 => drop(bytes.drain(end..end + 2)),
        _ => insert(bytes, end + 2, PIECES[random.random_range(0..PIECES.len())]),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}
