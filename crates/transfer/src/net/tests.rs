use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nightwatt_energy::time::Mono;
use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::wire::{Codecs, FrameReader, FrameWriter, Hello, Message, VERSIONS};

fn clock() -> Mono {
    let time = clock_gettime(ClockId::Monotonic);
    Mono(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

fn listener() -> (Listener, Address) {
    let listener = Listener::encrypted("127.0.0.1:0".parse().unwrap(), [7; 32]).unwrap();
    let authority = listener.address().unwrap().to_string();
    (listener, Address { authority, is_encrypted: true, name: None })
}

#[test]
fn addresses_have_a_scheme_a_host_and_a_port() {
    let read = |text: &str| text.parse::<Address>().ok();
    let address = |authority: &str, is_encrypted, name: Option<&str>| {
        Some(Address {
            authority: authority.to_owned(),
            is_encrypted,
            name: name.map(str::to_owned),
        })
    };
    assert_eq!(read("tls://nas:7000"), address("nas:7000", true, None));
    assert_eq!(read("tls://[fe80::1]:7000/"), address("[fe80::1]:7000", true, None));
    assert_eq!(read("tcp://10.0.0.2:1/a.tar"), address("10.0.0.2:1", false, Some("a.tar")));
    for wrong in
        ["nas:7000", "tls://nas", "tls://:1", "tls://nas:70000", "ftp://a:1", "tls://a:1/b/c"]
    {
        assert_eq!(read(wrong), None, "{wrong}");
    }
    for wrong in ["tls://a:1/.", "tls://a:1/..", "tcp://a:1/../x", "tcp://a:1//"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn a_ticket_is_read_as_it_was_printed_and_not_shown() {
    let (listener, _) = listener();
    let ticket = listener.ticket().unwrap();
    let text = ticket.reveal();
    assert_eq!((text.len(), text.parse().as_ref()), (133, Ok(ticket)));
    assert_eq!(format!("{ticket:?}"), "Ticket(..)");
    let wrong = [text[1..].to_owned(), text[..132].to_owned(), text.replace("nwt1-", "nwt1-+")];
    for wrong in wrong {
        assert_eq!(wrong.parse::<Ticket>(), Err(NoTicket));
    }
}

fn content(seed: u8) -> Vec<u8> {
    (0..20_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed).collect()
}

/// 20 MB each way at once, each in a thread of its own.
#[test]
fn both_directions_flow_at_once() {
    let (listener, address) = listener();
    let ticket = listener.ticket().unwrap().clone();
    let talk = |ends: Ends, own: u8, other: u8| {
        let Ends { mut reader, mut writer, .. } = ends;
        let writing = thread::spawn(move || {
            writer.write_all(&content(own)).unwrap();
        });
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writing.join().unwrap();
        assert!(read == content(other));
    };
    let there = thread::spawn(move || {
        let until = clock() + Duration::from_mins(5);
        talk(listener.accept(clock, until, &mut |it| panic!("{it:?}")).unwrap(), 1, 2);
    });
    talk(connect(&address, Some(&ticket)).unwrap(), 2, 1);
    there.join().unwrap();
}

#[test]
fn only_the_ticket_lets_a_sender_in() {
    let (listener, address) = listener();
    let ticket = listener.ticket().unwrap().clone();
    let (refuse, refused) = std::sync::mpsc::channel();
    let accepting = thread::spawn(move || {
        let until = clock() + Duration::from_mins(5);
        listener.accept(clock, until, &mut |it| refuse.send(it.why).unwrap()).is_ok()
    });
    // The key of another receiver.
    let (other, _) = self::listener();
    let strange = connect(&address, other.ticket());
    assert!(matches!(strange, Err(ConnectError::Stranger(_))));
    assert!(refused.recv().unwrap().contains("AccessDenied"));
    // The right key, and another token.
    let mut text = ticket.reveal();
    text.replace_range(131..133, if text.ends_with("00") { "01" } else { "00" });
    let mut ends = connect(&address, Some(&text.parse().unwrap())).unwrap();
    let mut answer = Vec::new();
    ends.reader.read_to_end(&mut answer).unwrap();
    let mut frames = FrameReader::default();
    frames.push(&answer);
    let (kind, body) = frames.next_frame().unwrap().unwrap();
    let Ok(Message::Failed(failed)) = Message::decode(kind, body) else { panic!("{body:?}") };
    assert!(failed.text.contains("token"), "{}", failed.text);
    assert_eq!(refused.recv().unwrap(), "a wrong token");
    // Something that speaks no TLS.
    let mut plain = TcpStream::connect(&address.authority).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    assert!(refused.recv().unwrap().contains("corrupt message"));
    // It is there until it has been let in.
    let _sender = connect(&address, Some(&ticket)).unwrap();
    assert!(accepting.join().unwrap());
    assert_eq!(refused.into_iter().count(), 0);
}

/// The faults of reviews: a peer that had connected, and was silent, held the port; later it took 64 of them.
#[test]
fn silent_peers_keep_no_sender_waiting() {
    for is_encrypted in [false, true] {
        let listener = if is_encrypted {
            Listener::encrypted("127.0.0.1:0".parse().unwrap(), [7; 32]).unwrap()
        } else {
            Listener::plain("127.0.0.1:0".parse().unwrap()).unwrap()
        };
        let authority = listener.address().unwrap().to_string();
        let ticket = listener.ticket().cloned();
        // Kept open until the end: silent ones, and one that says half a greeting.
        let mut silent: Vec<TcpStream> =
            (0..70).map(|_| TcpStream::connect(&authority).unwrap()).collect();
        let half: &[u8] = if is_encrypted { &[22, 3, 1] } else { &[1, 60, 0] };
        silent[0].write_all(half).unwrap();
        let accepting = thread::spawn(move || {
            // The clock stands still: no time limit helps.
            let clock = || Mono::ZERO;
            let until = Mono(Duration::from_mins(5));
            let mut refused = |it: Refusal| assert!(it.why.contains("too many others"), "{it:?}");
            let mut ends = listener.accept(clock, until, &mut refused).unwrap();
            let mut first = [0];
            ends.reader.read_exact(&mut first).unwrap();
            first
        });
        let address = Address { authority, is_encrypted, name: None };
        let mut ends = connect(&address, ticket.as_ref()).unwrap();
        let hello = Message::Hello(Hello {
            versions: VERSIONS,
            codecs: Codecs::all(),
            session: [7; 16],
            program: String::new(),
        });
        let mut writer = FrameWriter::new(&mut ends.writer);
        let (kind, body) = hello.encode();
        writer.write(kind, &body).unwrap();
        writer.flush().unwrap();
        assert_eq!(accepting.join().unwrap(), [kind], "what it read before is not lost");
    }
}

/// The fault of a review: a second sender waited for 20 s, and got to know nothing.
#[test]
fn a_sender_that_comes_during_a_session_is_told_so() {
    let (listener, address) = listener();
    let ticket = listener.ticket().unwrap().clone();
    let first = thread::spawn({
        let (address, ticket) = (address.clone(), ticket.clone());
        move || connect(&address, Some(&ticket)).unwrap()
    });
    let until = clock() + Duration::from_mins(5);
    let session = listener.accept(clock, until, &mut |it| panic!("{it:?}")).unwrap();
    let mut first = first.join().unwrap();
    for _ in 0..2 {
        let answer = listener.while_busy(clock, || {
            let mut answer = Vec::new();
            let mut second = connect(&address, Some(&ticket)).unwrap();
            second.reader.read_to_end(&mut answer).unwrap();
            answer
        });
        let mut frames = FrameReader::default();
        frames.push(&answer);
        let (kind, body) = frames.next_frame().unwrap().unwrap();
        let Ok(Message::Failed(failed)) = Message::decode(kind, body) else { panic!("{body:?}") };
        assert!(failed.text.contains("has another sender"), "{}", failed.text);
    }
    // The first one notices nothing of that.
    let Ends { mut writer, .. } = session;
    writer.write_all(b"x").unwrap();
    writer.flush().unwrap();
    let mut byte = [0];
    first.reader.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"x");
}

/// In the clear, only what begins as a sender is let in.
#[test]
fn another_program_is_refused_in_the_clear() {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    let listener = Listener::plain("127.0.0.1:0".parse().unwrap()).unwrap();
    let authority = listener.address().unwrap().to_string();
    let mut stranger = TcpStream::connect(&authority).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let clock = || Mono(Duration::from_secs(LOOKS.load(Ordering::Relaxed)));
    let mut refused = Vec::new();
    let late = listener.accept(clock, Mono(Duration::from_secs(1)), &mut |it| {
        LOOKS.store(1, Ordering::Relaxed);
        refused.push(it.why);
    });
    assert!(matches!(late, Err(ListenError::Late)));
    assert!(refused[0].contains("it sent `GET / HTTP/1.1`"), "{refused:?}");
    assert_eq!(stranger.read(&mut [0]).unwrap_or(0), 0, "it is cut off");
}

#[test]
fn a_slow_peer_has_one_time_for_all_it_sends() {
    static SECONDS: AtomicU64 = AtomicU64::new(0);
    let clock = || Mono(Duration::from_secs(SECONDS.fetch_add(8, Ordering::Relaxed)));
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut here = TcpStream::connect(there.local_addr().unwrap()).unwrap();
    here.write_all(&[0; 9]).unwrap();
    let (socket, _) = there.accept().unwrap();
    let mut hurried = Hurried { socket: &socket, clock, until: Mono(HANDSHAKE) };
    // At 0, 8 and 16 s there is time left, and at 24 s no more.
    let mut byte = [0];
    for _ in 0..3 {
        hurried.read_exact(&mut byte).unwrap();
    }
    assert_eq!(hurried.read(&mut byte).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_ticket_ends_with_its_time() {
    let (listener, _) = listener();
    let late = listener.accept(clock, clock(), &mut |_| ());
    assert!(matches!(late, Err(ListenError::Late)));
}
