//! A session over a pair of streams.

use std::io::{self, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use nightwatt_energy::time::Mono;

use super::session::{Clocks, Receiver as Session, SessionError, Store};
use crate::codec::thread_seconds;
use crate::wire::{
    Arrival, Failed, Failure, FrameError, FrameWriter, Message, MessageError, ReadError, Receipt,
    Spent, read_messages,
};

/// Messages that wait to be processed: as many as a sender has on the way, and one.
const QUEUE: usize = 5;

/// A sender in the clear that sends nothing for this time is let go: it may be any program, and others wait.
pub const SILENCE: Duration = Duration::from_mins(15);

/// What was received.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// As the sender got it.
    pub receipt: Receipt,
    /// Whether it was a dry run, which writes nothing.
    pub is_trial: bool,
}

/// Why receiving ended without a receipt. What has arrived is kept, and a later attempt goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// A message was not as it should be, or could not be followed.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// A frame was damaged.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A frame is whole, and is no message.
    #[error("{0}")]
    Message(#[from] MessageError),
    /// The sender went away.
    #[error(
        "the sender went away before it was done; what has arrived is kept, and sending again goes on from there"
    )]
    Cut,
    /// The sender of a stream, or to stdout, went away.
    #[error(
        "the sender went away before it was done; nothing of a stream is kept: send all of it again"
    )]
    Lost,
    /// The sender sends nothing.
    #[error("the sender has sent nothing for {} minutes: start it again", .0.as_secs() / 60)]
    Silent(Duration),
    /// The connection failed.
    #[error("the connection to the sender failed: {0}")]
    Connection(#[from] io::Error),
}

impl From<ReadError> for ReceiveError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Frame(error) => error.into(),
            ReadError::Message(error) => error.into(),
            ReadError::Cut => Self::Cut,
            ReadError::Connection(error) => error.into(),
        }
    }
}

/// As [`run_metered`], without a figure for what this machine used.
pub fn run(
    reader: impl Read + Send + 'static,
    writer: impl Write,
    store: impl Store,
    clock: fn() -> Mono,
) -> Result<Received, ReceiveError> {
    run_metered(reader, writer, store, Gauges { clock, spent: &|_| None, silence: None })
}

/// What is read besides messages.
#[derive(Clone, Copy)]
pub struct Gauges<'a> {
    /// It is monotonic.
    pub clock: fn() -> Mono,
    /// What this machine used until now, if that is known: of the CPU time of all blocks, s.
    pub spent: &'a dyn Fn(f64) -> Option<Spent>,
    /// A sender that is silent for this time is let go.
    pub silence: Option<Duration>,
}

/// Receives until the receipt was given. An error is also sent to the sender.
///
/// After an error, the thread that reads lives on until the sender closes the connection.
pub fn run_metered(
    reader: impl Read + Send + 'static,
    writer: impl Write,
    store: impl Store,
    gauges: Gauges<'_>,
) -> Result<Received, ReceiveError> {
    let clock = gauges.clock;
    let mut writer = FrameWriter::new(BufWriter::new(writer));
    let (arrivals, arrived) = sync_channel(QUEUE);
    thread::spawn(move || {
        read_messages(reader, &clock, &mut |arrival| arrivals.send(arrival).is_ok());
    });
    let result = messages(&arrived, &mut writer, store, gauges);
    if let Err(error) = &result {
        let failed = match error {
            ReceiveError::Session(error) => Some(error.message()),
            ReceiveError::Frame(_) | ReceiveError::Message(_) => {
                Some(Failed { failure: Failure::Protocol, text: error.to_string() })
            }
            ReceiveError::Silent(_) => {
                Some(Failed { failure: Failure::Other, text: error.to_string() })
            }
            ReceiveError::Cut | ReceiveError::Lost | ReceiveError::Connection(_) => None,
        };
        if let Some(failed) = failed {
            let (kind, body) = Message::Failed(failed).encode();
            // The connection may be gone as well: the first error is the one that counts.
            let _ = writer.write(kind, &body).and_then(|()| writer.flush());
        }
    }
    result
}

/// Reports to the sender that nothing can be received, and why.
pub fn refuse(writer: impl Write, text: String) -> io::Result<()> {
    let mut writer = FrameWriter::new(writer);
    let (kind, body) = Message::Failed(Failed { failure: Failure::NotWritable, text }).encode();
    writer.write(kind, &body)?;
    writer.flush()
}

type Arrived = Receiver<Result<Arrival, ReadError>>;

fn next(arrived: &Arrived, silence: Option<Duration>) -> Result<Arrival, ReceiveError> {
    let arrival = match silence {
        None => arrived.recv().map_err(|_| ReceiveError::Cut)?,
        Some(time) => arrived.recv_timeout(time).map_err(|error| match error {
            RecvTimeoutError::Timeout => ReceiveError::Silent(time),
            RecvTimeoutError::Disconnected => ReceiveError::Cut,
        })?,
    };
    Ok(arrival?)
}

fn messages<W: Write>(
    arrived: &Arrived,
    writer: &mut FrameWriter<W>,
    store: impl Store,
    Gauges { clock, spent, silence }: Gauges<'_>,
) -> Result<Received, ReceiveError> {
    let mut session = Session::new(store);
    loop {
        let arrival = next(arrived, silence).map_err(|error| match error {
            ReceiveError::Cut if !session.keeps_parts() => ReceiveError::Lost,
            error => error,
        })?;
        let mut answers = Vec::new();
        let clocks = Clocks { now: &clock, cpu: &thread_seconds, spent };
        let result = session.on(arrival.message, arrival.at, &clocks, &mut answers);
        for answer in &answers {
            let (kind, body) = answer.encode();
            writer.write(kind, &body)?;
        }
        // Each block is acknowledged at once: the sender measures the link by that.
        writer.flush()?;
        result?;
        if let Some(Message::Receipt(receipt)) = answers.pop()
            && session.is_done()
        {
            return Ok(Received { receipt, is_trial: session.is_trial() });
        }
    }
}
