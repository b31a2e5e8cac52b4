use super::*;

/// Decided only with the last byte, and as expected.
#[track_caller]
fn decides(protocol: Protocol, bytes: &[u8], expected: &Greeting) {
    for end in 0..bytes.len() {
        assert_eq!(read(protocol, &bytes[..end]), Greeting::Incomplete, "{end} bytes");
    }
    assert_eq!(read(protocol, bytes), *expected);
    let more = [bytes, b"\x09\x01pingpong"].concat();
    if *expected == Greeting::Wakes {
        assert_eq!(read(protocol, &more), Greeting::Wakes, "what follows is the service's");
    }
}

/// As MS-RDPBCGR, 4.1.1 has it.
const RDP: &[u8] = b"\x03\x00\x00\x2c\x27\xe0\x00\x00\x00\x00\x00Cookie: mstshash=eltons\r\n\x01\x00\x08\x00\x00\x00\x00\x00";

#[test]
fn clients_of_each_protocol_wake() {
    decides(Protocol::Ssh, b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", &Greeting::Wakes);
    decides(Protocol::Ssh, b"SSH-2.0-x\n", &Greeting::Wakes);
    decides(Protocol::Rdp, RDP, &Greeting::Wakes);
    decides(Protocol::Rdp, b"\x03\x00\x00\x0b\x06\xe0\x00\x00\x00\x00\x00", &Greeting::Wakes);
}

#[test]
fn scanners_of_ssh_and_rdp_do_not() {
    let long = [b"SSH-2.0-".as_slice(), &[b'x'; 300]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n".as_slice(),
        b"SSH-1.5-x\r\n",
        b"SSH-2.0-\r\n",
        b"SSH-2.0-\x07\r\n",
        b"\n",
        &long,
    ] {
        assert_eq!(read(Protocol::Ssh, bytes), Greeting::Alien, "{bytes:?}");
    }
    for (at, value) in
        [(0, 2), (1, 1), (2, 9), (3, 10), (4, 6), (5, 0xd0), (6, 1), (10, 1), (11, b'X'), (36, 2)]
    {
        let mut other = RDP.to_vec();
        other[at] = value;
        assert_eq!(read(Protocol::Rdp, &other), Greeting::Alien, "byte {at}");
    }
    assert_eq!(read(Protocol::Rdp, b"\x16\x03\x01\x00\x10"), Greeting::Alien, "TLS");
    assert_eq!(read(Protocol::Tls, b"SSH-2.0-x\r\n"), Greeting::Alien);
}

/// Version 767, `a.example`, port 25565, and what comes next.
fn hello(next: u8) -> Vec<u8> {
    framed(&[b"\x00\xff\x05\x09a.example\x63\xdd".as_slice(), &[next]].concat())
}

#[test]
fn players_of_minecraft_wake_and_lists_of_servers_are_answered() {
    let login = [hello(2), framed(b"\x00\x05Alice0123456789abcdef")].concat();
    decides(Protocol::Minecraft, &login, &Greeting::Wakes);
    decides(Protocol::Minecraft, &[hello(3), framed(b"\x00\x03Bob")].concat(), &Greeting::Wakes);
    let asks = [hello(1), framed(b"\x00")].concat();
    decides(Protocol::Minecraft, &asks, &Greeting::Status { version: 767, ping: None });
    let asks = [asks, framed(b"\x0112345678")].concat();
    let ping = Some(*b"12345678");
    assert_eq!(read(Protocol::Minecraft, &asks), Greeting::Status { version: 767, ping });
}

#[test]
fn what_is_not_minecraft_wakes_nothing() {
    let long_name = framed(b"\x00\x11ABCDEFGHIJKLMNOPQ");
    for bytes in [
        b"\xfe\x01\xfa".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".repeat(10),
        b"\x00".to_vec(),
        b"\x80\x80\x80\x80\x80\x80".to_vec(),
        b"\xff\xff\xff\xff\x1f".to_vec(),
        hello(0),
        hello(4),
        framed(b"\x00\xff\x05\x09a.example\x63\xdd\x01\x00"),
        [hello(2), long_name].concat(),
        [hello(2), framed(b"\x00\x00")].concat(),
        [hello(2), framed(b"\x01\x03Bob")].concat(),
        [hello(1), framed(b"\x01")].concat(),
    ] {
        assert_eq!(read(Protocol::Minecraft, &bytes), Greeting::Alien, "{bytes:?}");
    }
}

#[test]
fn an_answer_has_the_text_and_the_version_that_was_asked_for() {
    let answer = status_answer(767, "asleep: \"join\" to wake");
    let mut all = Messages(&answer);
    let Ok(mut message) = all.message(4096) else { panic!("no message") };
    assert!(matches!(message.number(), Ok(0)) && all.0.is_empty());
    let Ok(text) = message.text(4096) else { panic!("no text") };
    let status: serde_json::Value = serde_json::from_slice(text).unwrap();
    assert_eq!(status["version"]["protocol"], 767);
    assert_eq!(status["description"]["text"], "asleep: \"join\" to wake");
    assert_eq!(ping_answer(*b"12345678"), b"\x09\x0112345678");
}

#[test]
fn numbers_have_up_to_32_bits() {
    // wiki.vg, VarInt: the sample values.
    for (bytes, number) in [
        (&[0][..], 0),
        (&[0x7f], 127),
        (&[0x80, 1], 128),
        (&[0xdd, 0xc7, 1], 25565),
        (&[0xff, 0xff, 0xff, 0xff, 7], i32::MAX),
        (&[0xff, 0xff, 0xff, 0xff, 15], -1),
        (&[0x80, 0x80, 0x80, 0x80, 8], i32::MIN),
    ] {
        assert!(matches!(Messages(bytes).number(), Ok(it) if it == number), "{number}");
    }
}
