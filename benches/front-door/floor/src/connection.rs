//! One client: bytes in up to a blank line, bytes out.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use memchr::memmem;
use rustix::event::epoll::EventFlags;

use crate::answers::Answers;

const BLANK_LINE: &[u8] = b"\r\n\r\n";

/// What a connection is to be watched for after its turn.
pub(crate) enum Then {
    /// For the same as before.
    Same,
    /// For these from now on.
    Wait(EventFlags),
    /// It is over.
    Close,
}

/// A client and what it is owed.
pub(crate) struct Connection<'a> {
    stream: TcpStream,
    /// The beginning of a request whose end has not come.
    begun: Vec<u8>,
    /// Answers, or the rest of one, that the kernel had no room for.
    unsent: VecDeque<&'a [u8]>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, begun: Vec::new(), unsent: VecDeque::new() }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Does what can be done without waiting.
    pub(crate) fn turn(&mut self, writable: bool, answers: &'a Answers, buffer: &mut [u8]) -> Then {
        if writable {
            return self.send_rest();
        }
        let read = match self.stream.read(buffer) {
            Ok(0) => return Then::Close,
            Ok(read) => &buffer[..read],
            Err(error) => return if is_patient(&error) { Then::Same } else { Then::Close },
        };
        if self.begun.is_empty() {
            let used = self.answer_all(read, answers);
            let Some(used) = used else { return Then::Close };
            self.begun.extend_from_slice(&read[used..]);
        } else {
            let mut requests = std::mem::take(&mut self.begun);
            requests.extend_from_slice(read);
            let Some(used) = self.answer_all(&requests, answers) else { return Then::Close };
            requests.drain(..used);
            self.begun = requests;
        }
        if self.unsent.is_empty() { Then::Same } else { Then::Wait(EventFlags::OUT) }
    }

    /// Answers each whole request, and says how many bytes these were; `None`: the client is gone.
    fn answer_all(&mut self, requests: &[u8], answers: &'a Answers) -> Option<usize> {
        let mut used = 0;
        while let Some(end) = memmem::find(&requests[used..], BLANK_LINE) {
            let end = used + end + BLANK_LINE.len();
            self.send(answers.to(&requests[used..end]))?;
            used = end;
        }
        Some(used)
    }

    fn send(&mut self, answer: &'a [u8]) -> Option<()> {
        let sent = if self.unsent.is_empty() { self.write(answer)? } else { 0 };
        if sent < answer.len() {
            self.unsent.push_back(&answer[sent..]);
        }
        Some(())
    }

    fn send_rest(&mut self) -> Then {
        while let Some(rest) = self.unsent.pop_front() {
            let Some(sent) = self.write(rest) else { return Then::Close };
            if sent < rest.len() {
                self.unsent.push_front(&rest[sent..]);
                return Then::Same;
            }
        }
        Then::Wait(EventFlags::IN)
    }

    /// Writes what the kernel takes; `None`: the client is gone.
    fn write(&mut self, mut bytes: &[u8]) -> Option<usize> {
        let whole = bytes.len();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if is_patient(&error) => break,
                Err(_) => return None,
            }
        }
        Some(whole - bytes.len())
    }
}

/// Will it work later?
fn is_patient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair<'a>() -> (TcpStream, Connection<'a>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Connection::new(listener.accept().unwrap().0))
    }

    #[test]
    fn each_blank_line_gets_one_answer_however_the_bytes_come() {
        let answers = Answers::One(b"answer;".to_vec());
        let (mut client, mut connection) = pair();
        let mut buffer = [0; 64];
        for part in ["GET / HTTP/1.1\r\n\r", "\nGET / HTTP/1.1\r\n\r\nGET", " / HTTP/1.1\r\n\r\n"] {
            client.write_all(part.as_bytes()).unwrap();
            assert!(matches!(connection.turn(false, &answers, &mut buffer), Then::Same));
        }
        drop(connection);
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "answer;answer;answer;");
    }

    #[test]
    fn what_the_kernel_has_no_room_for_is_sent_later() {
        let answer: Vec<u8> = (0..32 << 20).map(|place: u32| place.to_le_bytes()[1]).collect();
        let answers = Answers::One(answer.clone());
        let (mut client, mut connection) = pair();
        connection.stream.set_nonblocking(true).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut then = connection.turn(false, &answers, &mut [0; 64]);
        assert!(matches!(then, Then::Wait(EventFlags::OUT)));
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; 32 << 20];
            client.read_exact(&mut received).unwrap();
            received
        });
        while !matches!(then, Then::Wait(EventFlags::IN)) {
            then = connection.turn(true, &answers, &mut [0; 64]);
        }
        assert!(reader.join().unwrap() == answer);
    }
}
