//! A session over a pair of streams.

use std::io::{self, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;

use nightwatt_energy::time::Mono;

use super::error::SendError;
use super::session::Session;
use crate::wire::{Arrival, FrameWriter, Message, read_messages};

type Arrivals = Sender<Result<Arrival, SendError>>;
type Arrived = Receiver<Result<Arrival, SendError>>;

/// Sends over a pair of streams until the receipt is there. `clock` is monotonic. `close` makes a read that waits end;
/// it is called when the session has failed. `watch` is called after each step.
pub fn run(
    reader: impl Read + Send,
    writer: impl Write + Send,
    close: &(dyn Fn() + Sync),
    session: &mut Session,
    clock: &(dyn Fn() -> Mono + Sync),
    watch: &mut dyn FnMut(&Session),
) -> Result<(), SendError> {
    thread::scope(|scope| {
        let (arrivals, arrived) = channel();
        let (outgoing, to_write) = sync_channel(2);
        let of_writer = arrivals.clone();
        scope.spawn(move || {
            // An arrival is stamped here: the session may be packing, and look at it much later.
            read_messages(reader, clock, &mut |it| {
                arrivals.send(it.map_err(SendError::from)).is_ok()
            });
        });
        scope.spawn(move || write(writer, &to_write, &of_writer));
        let result = drive(session, &arrived, &outgoing, clock, watch);
        drop(outgoing);
        if result.is_err() {
            close();
        }
        result
    })
}

fn drive(
    session: &mut Session,
    arrived: &Arrived,
    outgoing: &SyncSender<Message>,
    clock: &dyn Fn() -> Mono,
    watch: &mut dyn FnMut(&Session),
) -> Result<(), SendError> {
    // A writer that is gone has said why, or the reader has.
    let hand_over = |message: Message| match outgoing.send(message) {
        Ok(()) => Ok(()),
        Err(_) => Err(arrived.iter().find_map(Result::err).unwrap_or(SendError::Cut)),
    };
    hand_over(session.start())?;
    let mut has_sent = true;
    while session.receipt().is_none() {
        let arrival = match arrived.try_recv() {
            Ok(arrival) => Some(arrival),
            Err(TryRecvError::Empty) if has_sent => None,
            // There is nothing to send until something arrives.
            Err(TryRecvError::Empty) => Some(arrived.recv().map_err(|_| SendError::Cut)?),
            Err(TryRecvError::Disconnected) => return Err(SendError::Cut),
        };
        let messages = match arrival {
            Some(arrival) => {
                let Arrival { message, at } = arrival?;
                session.on(message, at)?
            }
            None => Vec::new(),
        };
        for message in messages {
            hand_over(message)?;
        }
        let messages = session.next(clock)?;
        has_sent = !messages.is_empty();
        for message in messages {
            hand_over(message)?;
        }
        watch(session);
    }
    Ok(())
}

fn write(writer: impl Write, messages: &Receiver<Message>, arrivals: &Arrivals) {
    let mut writer = FrameWriter::new(BufWriter::new(writer));
    for message in messages {
        let (kind, body) = message.encode();
        if let Err(error) = writer.write(kind, &body).and_then(|()| writer.flush()) {
            // The receiver may have said why before it went away: that arrives first.
            if error.kind() != io::ErrorKind::BrokenPipe {
                let _ = arrivals.send(Err(error.into()));
            }
            return;
        }
    }
}
