//! What serial meters send: how a stream is cut makes no difference, and a whole record after any
//! garbage is found. The first byte is the size of the pieces.

use nightwatt_meters::{currentcost, energino, wattsup};

const PACKET: &[u8] = b"#d,-,16,387,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0;";
const MESSAGE: &[u8] = b"<msg><ch1><watts>00750</watts></ch1></msg>";
const LINE: &[u8] = b"#Energino,0,12.26,0.343,4.205,1,2000,21700\n";

/// What a parser finds in pieces of a stream, as text.
macro_rules! found {
    ($parser:path, $pieces:expr) => {{
        let (mut parser, mut all) = (<$parser>::default(), Vec::new());
        for piece in $pieces {
            parser.feed(piece, |record| all.push(format!("{record:?}")));
        }
        all
    }};
}

macro_rules! check {
    ($parser:path, $stream:expr, $size:expr, $record:expr) => {{
        let whole = found!($parser, [$stream]);
        assert_eq!(found!($parser, $stream.chunks($size)), whole);
        // Twice: the first may end what was open before.
        let after = [$stream, $record, $record];
        assert_eq!(found!($parser, after).last(), found!($parser, [$record]).last());
    }};
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else { return };
    let size = usize::from(size).max(1);
    check!(wattsup::Parser, stream, size, PACKET);
    check!(currentcost::Parser, stream, size, MESSAGE);
    check!(energino::Parser, stream, size, LINE);
}
