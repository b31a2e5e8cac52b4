//! MQTT 3.1.1 (OASIS standard, 2014), as much of it as it takes to listen to one topic: what is sent
//! is CONNECT, SUBSCRIBE with quality of service 0, PINGREQ and DISCONNECT.

/// The longest packet taken, in bytes.
const LONGEST: usize = 64 << 10;

/// The keep-alive interval that we promise the broker, in seconds.
pub(super) const KEEP_ALIVE: u16 = 60;

pub(super) const PING: [u8; 2] = [0xc0, 0];
pub(super) const DISCONNECT: [u8; 2] = [0xe0, 0];

/// A packet that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// To CONNECT: 0 if we are welcome (section 3.2.2.3).
    Connected(u8),
    /// To SUBSCRIBE: 0x80 if that was refused.
    Subscribed(u8),
    Message {
        topic: Vec<u8>,
        payload: Vec<u8>,
        /// Published before we subscribed, at an unknown time.
        retained: bool,
    },
    Pong,
}

/// As whom we come.
#[derive(Clone, Copy)]
pub(super) struct Login<'a> {
    pub(super) user: &'a str,
    pub(super) password: &'a str,
}

/// Section 3.1.
pub(super) fn connect(client: &str, login: Option<Login<'_>>) -> Vec<u8> {
    // A clean session; with a name and password if there are.
    let flags = 0x02 | if login.is_some() { 0xc0 } else { 0 };
    let mut body = Vec::new();
    text(&mut body, "MQTT");
    body.extend([4, flags]);
    body.extend(KEEP_ALIVE.to_be_bytes());
    text(&mut body, client);
    if let Some(Login { user, password }) = login {
        text(&mut body, user);
        text(&mut body, password);
    }
    packet(0x10, &body)
}

/// Section 3.8.
pub(super) fn subscribe(topic: &str) -> Vec<u8> {
    let mut body = vec![0, 1];
    text(&mut body, topic);
    body.push(0);
    packet(0x82, &body)
}

/// A text with its length before it. Longer ones than there may be are refused earlier.
fn text(body: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    body.extend(length.to_be_bytes());
    body.extend(&text.as_bytes()[..length.into()]);
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut left = body.len();
    loop {
        let digit = (left % 128) as u8;
        left /= 128;
        packet.push(if left > 0 { digit | 0x80 } else { digit });
        if left == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

/// Takes the first packet out of what has come; `None` until all of it is there. The error says what
/// is not MQTT: there is no going on after it.
pub(super) fn take(inbox: &mut Vec<u8>) -> Result<Option<Packet>, String> {
    loop {
        let Some((first, begin, end)) = frame(inbox)? else { return Ok(None) };
        let packet = read(first, &inbox[begin..end]);
        inbox.drain(..end);
        // Packets that mean nothing to us are left out.
        if let Some(packet) = packet? {
            return Ok(Some(packet));
        }
    }
}

/// The first byte of a packet, and where its body begins and ends; section 2.2.
fn frame(inbox: &[u8]) -> Result<Option<(u8, usize, usize)>, String> {
    let Some((first, rest)) = inbox.split_first() else { return Ok(None) };
    let mut length = 0;
    for (place, digit) in rest.iter().take(4).enumerate() {
        length |= usize::from(digit & 0x7f) << (7 * place);
        if digit & 0x80 != 0 {
            continue;
        }
        if length > LONGEST {
            return Err(format!("a message of {} KiB, which no meter has to say", length >> 10));
        }
        let begin = place + 2;
        let end = begin + length;
        return Ok((end <= inbox.len()).then_some((*first, begin, end)));
    }
    if rest.len() < 4 { Ok(None) } else { Err("that is no MQTT".to_owned()) }
}

fn read(first: u8, body: &[u8]) -> Result<Option<Packet>, String> {
    let cut = || format!("a packet of kind {} that is cut off", first >> 4);
    Ok(Some(match first >> 4 {
        2 => Packet::Connected(*body.get(1).ok_or_else(cut)?),
        3 => {
            let (length, rest) = body.split_first_chunk().ok_or_else(cut)?;
            let (topic, rest) =
                rest.split_at_checked(u16::from_be_bytes(*length).into()).ok_or_else(cut)?;
            // With a higher quality of service, which we do not ask for, there is a number.
            let number = if first & 0x06 == 0 { 0 } else { 2 };
            let payload = rest.get(number..).ok_or_else(cut)?.to_vec();
            Packet::Message { topic: topic.to_vec(), payload, retained: first & 1 != 0 }
        }
        9 => Packet::Subscribed(*body.get(2).ok_or_else(cut)?),
        13 => Packet::Pong,
        0 | 15 => return Err("that is no MQTT 3.1.1".to_owned()),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_are_those_of_the_standard() {
        // Section 3.1: protocol name and level, flags, keep alive; then client, name and password.
        let connect = connect("nw", Some(Login { user: "me", password: "pw" }));
        let expected = b"\x10\x16\x00\x04MQTT\x04\xc2\x00\x3c\x00\x02nw\x00\x02me\x00\x02pw";
        assert_eq!(connect, expected);
        assert_eq!(subscribe("a/b"), b"\x82\x08\x00\x01\x00\x03a/b\x00");
        // Section 2.2.3: 321 = 65 + 2 x 128.
        assert_eq!(packet(0x30, &[0; 321])[..3], [0x30, 193, 2]);
    }

    #[test]
    fn what_came_is_read_whole_or_in_pieces() {
        let bytes =
            b"\x20\x02\x00\x05\xd0\x00\x90\x03\x00\x01\x80\x31\x07\x00\x03a/b41\x40\x02\x00\x01";
        let message =
            Packet::Message { topic: b"a/b".to_vec(), payload: b"41".to_vec(), retained: true };
        let expected = [Packet::Connected(5), Packet::Pong, Packet::Subscribed(0x80), message];
        for size in 1..=bytes.len() {
            let mut inbox = Vec::new();
            let mut packets = Vec::new();
            for piece in bytes.chunks(size) {
                inbox.extend(piece);
                while let Some(packet) = take(&mut inbox).unwrap() {
                    packets.push(packet);
                }
            }
            assert_eq!(packets, expected);
            assert!(inbox.is_empty(), "PUBACK is left out");
        }
    }

    #[test]
    fn what_is_too_long_or_not_mqtt_is_refused_as_soon_as_that_is_known() {
        for bytes in
            [&b"\x30\x80\x80\x80\x01"[..], b"\x30\xff\xff\xff\xff", b"\x00\x00", b"\x20\x00"]
        {
            assert!(take(&mut bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_out_as_it_went_in(
            topic in "[a-z/]{1,40}",
            payload in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let mut body = Vec::new();
            text(&mut body, &topic);
            body.extend(&payload);
            let mut inbox = packet(0x30, &body);
            let message = take(&mut inbox).unwrap().unwrap();
            let expected =
                Packet::Message { topic: topic.into_bytes(), payload, retained: false };
            prop_assert_eq!(message, expected);
            prop_assert!(inbox.is_empty());
        }
    }
}
