//! What a stranger may say to `tcp serve`, and what a false server may say to `tcp fetch`: the same bytes
//! mean the same in whichever pieces they come, and what is understood is what would have been written so.

use nightwatt_tcp::wire::{ANSWER, Name, REQUEST, Request, RequestKind, ServerAnswer};
use nightwatt_tcp::{rehearse_client, rehearse_server, report};

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let size = 1 + usize::from(first);
    if let Some(head) = bytes.first_chunk::<REQUEST>()
        && let Ok(request) = Request::from_bytes(head)
    {
        assert_eq!(&request.to_bytes(), head);
    }
    if let Some(head) = bytes.first_chunk::<ANSWER>()
        && let Ok(answer) = ServerAnswer::from_bytes(head)
    {
        // One byte has no meaning yet.
        assert_eq!(answer.to_bytes()[..11], head[..11]);
    }
    assert_eq!(rehearse_server([bytes]), rehearse_server(bytes.chunks(size)));
    for kind in [RequestKind::Fetch, RequestKind::Send] {
        let request = Request {
            kind,
            nodelay: false,
            verify: false,
            discard: false,
            busy_poll: 0,
            session: 0,
            number: 0,
            buffer: 0,
            bytes: 100,
            pacing: 0,
            congestion: Name::default(),
        };
        assert_eq!(
            rehearse_client(&request, [bytes]),
            rehearse_client(&request, bytes.chunks(size))
        );
    }
    if let Some((_, records)) = report::read(bytes) {
        assert!(records.len() <= bytes.len() / 100, "no more than there are bytes for");
    }
}
