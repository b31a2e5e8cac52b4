//! A session over a pair of streams.

use std::io::{self, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nightwatt_energy::time::Mono;

use super::error::SendError;
use super::session::Session;
use crate::wire::{Arrival, Failed, FrameWriter, Message, read_messages};

/// Messages of the receiver that wait: one for each block on the way, and some.
const QUEUE: usize = 16;
/// Time between two looks at whether the user has stopped it, while nothing arrives.
const LOOK: Duration = Duration::from_millis(100);
/// The same while another program's output is sent.
const LOOK_AT_INPUT: Duration = Duration::from_millis(5);
/// A receiver that is silent for this time while the sender waits for it is gone. The longest that a live one needs is
/// what its disk needs to write all that is in memory.
const SILENCE: Duration = Duration::from_mins(15);
/// A receiver that is gone may have said why: for this time that is waited for.
const LAST_WORDS: Duration = Duration::from_secs(5);

type Arrivals = SyncSender<Result<Arrival, SendError>>;
type Arrived = Receiver<Result<Arrival, SendError>>;

/// Sends over a pair of streams until the receipt is there. `clock` is monotonic. `close` is called when the session has
/// failed; the threads that read and write end with their streams. `watch` is called after each step, and while nothing
/// arrives.
pub fn run(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    close: &dyn Fn(),
    session: &mut Session,
    clock: fn() -> Mono,
    watch: &mut dyn FnMut(&Session),
) -> Result<(), SendError> {
    let (arrivals, arrived) = sync_channel(QUEUE);
    // What is in it is bounded by the window, so that only the writer waits for the link.
    let (outgoing, to_write) = channel();
    let of_writer = arrivals.clone();
    thread::spawn(move || {
        // An arrival is stamped here: the session may be packing, and look at it much later.
        read_messages(reader, &clock, &mut |it| arrivals.send(it.map_err(SendError::from)).is_ok());
    });
    thread::spawn(move || write(writer, &to_write, &of_writer));
    let mut result = drive(session, &arrived, &outgoing, clock, watch);
    drop(outgoing);
    if let Err(SendError::Connection(error)) = &result {
        let is_gone = error.kind() == io::ErrorKind::BrokenPipe;
        if let Some(reason) = last_words(&arrived).or(is_gone.then_some(SendError::Cut)) {
            result = Err(reason);
        }
    }
    if result.is_err() {
        close();
    }
    result
}

fn drive(
    session: &mut Session,
    arrived: &Arrived,
    outgoing: &Sender<Message>,
    clock: fn() -> Mono,
    watch: &mut dyn FnMut(&Session),
) -> Result<(), SendError> {
    let hand_over = |message: Message| {
        let sent = outgoing.send(message);
        sent.map_err(|_| SendError::from(io::Error::from(io::ErrorKind::BrokenPipe)))
    };
    hand_over(session.start())?;
    let mut heard = clock();
    let mut has_sent = true;
    while session.receipt().is_none() {
        // While there is something to send, nothing is waited for.
        let look = if session.waits_for_input() { LOOK_AT_INPUT } else { LOOK };
        match arrived.recv_timeout(if has_sent { Duration::ZERO } else { look }) {
            Ok(arrival) => {
                heard = clock();
                let Arrival { message, at } = arrival?;
                for message in session.on(message, at)? {
                    hand_over(message)?;
                }
            }
            // A program that writes nothing may be at work.
            Err(RecvTimeoutError::Timeout)
                if !has_sent && session.waits_for_receiver() && clock().since(heard) > SILENCE =>
            {
                return Err(SendError::Silent(SILENCE));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(SendError::Cut),
        }
        let messages = session.next(&clock)?;
        has_sent = !messages.is_empty();
        for message in messages {
            hand_over(message)?;
        }
        watch(session);
        if session.is_cancelled() && session.receipt().is_none() {
            return Err(SendError::Cancelled);
        }
    }
    Ok(())
}

/// What the receiver said before it went away: that counts more than that it is gone.
fn last_words(arrived: &Arrived) -> Option<SendError> {
    loop {
        match arrived.recv_timeout(LAST_WORDS) {
            Ok(Ok(Arrival { message: Message::Failed(Failed { failure, text }), .. })) => {
                return Some(SendError::refused(failure, &text));
            }
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

fn write(writer: impl Write, messages: &Receiver<Message>, arrivals: &Arrivals) {
    let mut writer = FrameWriter::new(BufWriter::new(writer));
    for message in messages {
        let (kind, body) = message.encode();
        if let Err(error) = writer.write(kind, &body).and_then(|()| writer.flush()) {
            // A receiver that went away is found by the reader.
            if error.kind() != io::ErrorKind::BrokenPipe {
                let _ = arrivals.send(Err(error.into()));
            }
            return;
        }
    }
}
