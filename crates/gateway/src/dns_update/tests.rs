use super::*;

const SIGNER: Signer<'_> = Signer { name: "key.example", secret: b"secret", now: 1_700_000_000 };
const RECORD: Text<'_> =
    Text { zone: "example.org", name: "_acme-challenge.example.org", value: "abc" };

/// An answer to a signed update, as a server signs it (RFC 8945, 5.3).
fn answer(question: &[u8], id: u16, now: u64) -> Vec<u8> {
    coded(question, &[id, 1 << 15 | UPDATE, 0, 0, 0, 0], now)
}

/// An answer with this header.
fn coded(question: &[u8], header: &[u16], now: u64) -> Vec<u8> {
    let mut message = Vec::new();
    put(&mut message, header);
    let mut code = code_of(SIGNER.secret).unwrap();
    let time = now.to_be_bytes();
    code.update(&u16::try_from(question.len()).unwrap().to_be_bytes());
    code.update(question);
    code.update(&message);
    code.update(&variables(SIGNER.name, &time[2..], FUDGE, 0, &[]));
    let code = code.finalize().into_bytes();
    // The same form as that of a question; only the signature differs.
    let mut signed = message.clone();
    sign(&mut signed, &Signer { now, ..SIGNER });
    let length = signed.len();
    signed[length - 38..length - 6].copy_from_slice(&code);
    signed
}

#[test]
fn an_update_has_the_form_of_rfc_2136() {
    let message = update(0x1234, &RECORD, true);
    let expected = [
        // Number, opcode 5, one zone, no condition, one change, nothing besides (2.2).
        &[0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0][..],
        b"\x07example\x03org\x00\x00\x06\x00\x01",
        b"\x0f_acme-challenge\x07example\x03org\x00\x00\x10\x00\x01\x00\x00\x00\x01\x00\x04\x03abc",
    ];
    assert_eq!(message, expected.concat());
    let removes = update(0x1234, &RECORD, false);
    // Class NONE and no lifetime: this record, and no other of the name (2.5.4).
    assert!(removes.ends_with(b"\x00\x10\x00\xfe\x00\x00\x00\x00\x00\x04\x03abc"));
}

#[test]
fn a_signature_covers_the_message_and_the_key() {
    let mut message = update(7, &RECORD, true);
    let plain = message.clone();
    let code = sign(&mut message, &SIGNER);
    assert_eq!(code.len(), 32);
    assert_eq!(message[10..12], [0, 1], "one record more");
    let read = read(&message).unwrap();
    let last = read.records.last().unwrap();
    assert_eq!((last.name.as_str(), last.kind, last.at), ("key.example", TSIG, plain.len()));
    // RFC 8945, 4.2: algorithm, time of 48 bits, fudge, length, code, number, no error, no other data.
    let tail = [&300_u16.to_be_bytes()[..], &[0, 32], &code, &[0, 7, 0, 0, 0, 0]].concat();
    assert!(last.data.ends_with(&tail) && last.data.starts_with(b"\x0bhmac-sha256\x00"));
    // RFC 2104 by hand: the code of the message followed by the variables.
    let mut by_hand = code_of(b"secret").unwrap();
    by_hand.update(&plain);
    by_hand.update(b"\x03key\x07example\x00\x00\xff\x00\x00\x00\x00\x0bhmac-sha256\x00");
    by_hand.update(&[0, 0, 0x65, 0x53, 0xf1, 0x00, 1, 44, 0, 0, 0, 0]);
    assert_eq!(by_hand.finalize().into_bytes().to_vec(), code);
}

#[test]
fn only_an_answer_to_this_question_with_this_key_is_believed() {
    let mut message = update(7, &RECORD, true);
    let code = sign(&mut message, &SIGNER);
    let good = answer(&code, 7, SIGNER.now);
    assert_eq!(read(&good).unwrap().is_for(7), Ok(()));
    assert_eq!(verify(&good, &code, &SIGNER), Ok(()));
    assert_eq!(read(&good).unwrap().is_for(8), Err(UpdateError::Other));
    assert_eq!(verify(&good, &[0; 32], &SIGNER), Err(UpdateError::Unsigned), "another question");
    let other = Signer { secret: b"other", ..SIGNER };
    assert_eq!(verify(&good, &code, &other), Err(UpdateError::Unsigned));
    let other = Signer { name: "other.example", ..SIGNER };
    assert_eq!(verify(&good, &code, &other), Err(UpdateError::Unsigned));
    let late = Signer { now: SIGNER.now + 301, ..SIGNER };
    assert_eq!(verify(&good, &code, &late), Err(UpdateError::Clock));
    // The number is checked by `is_for`, and the lifetime of a signature means nothing.
    let lifetime = read(&good).unwrap().records[0].at + 13 + 4;
    let is_covered = |at: &usize| *at > 1 && !(lifetime..lifetime + 4).contains(at);
    for at in (0..good.len()).filter(is_covered) {
        let mut forged = good.clone();
        forged[at] ^= 1;
        assert!(verify(&forged, &code, &SIGNER).is_err(), "byte {at}");
    }
    for end in 0..good.len() {
        assert!(verify(&good[..end], &code, &SIGNER).is_err(), "{end} bytes");
    }
}

/// The answer of a server whose clock differs: NOTAUTH, error 18, the client's time, and its own as other data (RFC
/// 8945, 5.2.3).
fn bad_time(question: &[u8], id: u16, theirs: u64) -> Vec<u8> {
    let mut message = Vec::new();
    put(&mut message, &[id, 1 << 15 | UPDATE | 9, 0, 0, 0, 0]);
    let (time, other) = (SIGNER.now.to_be_bytes(), theirs.to_be_bytes());
    let mut code = code_of(SIGNER.secret).unwrap();
    code.update(&u16::try_from(question.len()).unwrap().to_be_bytes());
    code.update(question);
    code.update(&message);
    code.update(&variables(SIGNER.name, &time[2..], FUDGE, 18, &other[2..]));
    let code = code.finalize().into_bytes();
    message[11] = 1;
    put_name(&mut message, SIGNER.name);
    put(&mut message, &[TSIG, ANY, 0, 0]);
    // The name of the algorithm has 13 bytes.
    put(&mut message, &[13 + 6 + 2 + 2 + 32 + 2 + 2 + 2 + 6]);
    put_name(&mut message, ALGORITHM);
    message.extend(&time[2..]);
    put(&mut message, &[FUDGE, 32]);
    message.extend(code);
    put(&mut message, &[id, 18, 6]);
    message.extend(&other[2..]);
    message
}

#[test]
fn a_wrong_clock_and_refusals_without_a_signature_are_told_apart_from_others() {
    let mut message = update(7, &RECORD, true);
    let code = sign(&mut message, &SIGNER);
    let check = |answer: &[u8]| check(answer, 7, &code, &SIGNER);
    assert_eq!(check(&answer(&code, 7, SIGNER.now)), Ok(()));
    assert_eq!(check(&answer(&code, 8, SIGNER.now)), Err(UpdateError::Other));
    assert_eq!(check(&bad_time(&code, 7, SIGNER.now + 4000)), Err(UpdateError::Clock));
    for refusal in [5, 9] {
        let header = [7, 1 << 15 | UPDATE | refusal, 0, 0, 0, 0];
        let signed = check(&coded(&code, &header, SIGNER.now));
        assert!(matches!(signed, Err(UpdateError::Refused(_))), "{signed:?}");
        let mut unsigned = Vec::new();
        put(&mut unsigned, &header);
        let unsigned = check(&unsigned);
        assert!(matches!(unsigned, Err(UpdateError::RefusedUnsigned(_))), "{unsigned:?}");
    }
}

#[test]
fn names_and_texts_are_read_with_references_and_in_parts() {
    let mut message = Vec::new();
    put(&mut message, &[9, 1 << 15, 1, 1, 1, 0]);
    put_name(&mut message, "A.Example");
    put(&mut message, &[TXT, IN]);
    // The name is that of the question, at byte 12.
    message.extend([192, 12]);
    put(&mut message, &[TXT, IN, 0, 60, 6]);
    message.extend(b"\x02ab\x02cd");
    // The zone is its second label.
    message.extend([192, 14]);
    put(&mut message, &[SOA, IN, 0, 60, 0]);
    let answer = read(&message).unwrap();
    assert!(answer.has_text("a.example", "abcd") && !answer.has_text("a.example", "ab"));
    assert!(!answer.has_text("b.example", "abcd"));
    assert_eq!(answer.zone(), Some("example"));
}

#[test]
fn references_that_lead_nowhere_end() {
    for (to, reads) in [(12, false), (13, false), (200, false), (0, true)] {
        let mut message = Vec::new();
        put(&mut message, &[0, 0, 1, 0, 0, 0]);
        message.extend([192, to]);
        put(&mut message, &[TXT, IN]);
        // At byte 0 is a zero, which is the empty name.
        assert_eq!(read(&message).is_ok(), reads, "{to}");
    }
}

#[test]
fn what_a_server_refuses_is_named() {
    for (code, word) in
        [(5, "REFUSED"), (9, "NOTAUTH"), (10, "NOTZONE"), (2, "SERVFAIL"), (11, "error")]
    {
        let mut message = Vec::new();
        put(&mut message, &[9, 1 << 15 | code, 0, 0, 0, 0]);
        let error = read(&message).unwrap().is_for(9).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
