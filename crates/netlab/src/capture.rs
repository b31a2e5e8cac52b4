//! What goes through the sender's card during a run: captured by tcpdump, and counted as it comes. Headers
//! only, and nothing of it is kept.

use std::fs::File;
use std::io::{self, Cursor, PipeReader, PipeWriter, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_tcp::capture::{At, CaptureError, CaptureReport, Frame, check_while};

use super::Error;
use super::check::probe_from;
use super::ends::{End, Running};
use super::probe::{LARGEST, ProbeRequest, sink};

/// Ethernet, IPv4 and TCP with all their options.
const HEADERS: &str = "128";

/// What waits in the kernel for tcpdump, in KiB.
const WAITING: &str = "65536";

/// Length of a file's head, which tcpdump writes as soon as it captures packets.
const FILE_HEAD: usize = 24;

/// Connections that are told apart. Each needs some 600 bytes.
pub(super) const ROWS: usize = 65_536;

/// Until tcpdump has read the last frame: the kernel gives it what came once a second.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Frames, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Frames {
    /// How many.
    pub count: u64,
    /// Of all of them, as cards count them.
    pub bytes: u64,
}

impl Frames {
    fn add(&mut self, frame: &Frame<'_>) {
        self.count += 1;
        self.bytes += u64::from(frame.original);
    }
}

/// What was captured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Captured {
    /// Of connections.
    pub report: CaptureReport,
    /// What the sender's card has sent.
    pub sent: Frames,
    /// And received.
    pub received: Frames,
    /// What tcpdump could not keep up with.
    pub dropped: u64,
    /// Was the last frame seen?
    pub is_whole: bool,
}

/// What the thread has read that counts.
struct Counted {
    report: Result<CaptureReport, CaptureError>,
    sent: Frames,
    received: Frames,
    is_whole: bool,
}

/// tcpdump at work. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Capturing {
    tcpdump: Running,
    /// A byte when it captures; closed when it has seen the last frame.
    progress: PipeReader,
    counting: JoinHandle<Counted>,
    at: SocketAddr,
}

impl Capturing {
    /// Captures all that goes through the card of the sender, until a frame goes to where probes only load
    /// the link, beside where they are answered (`at`). All that is sent from now on is captured.
    pub(crate) fn start(sender: &End, at: SocketAddr, stop: &Stop) -> Result<Self, Error> {
        let what = "capture packets at the sender";
        let words = ["tcpdump", "-U", "-i", &sender.card, "-s", HEADERS, "-B", WAITING, "-w", "-"];
        let tcpdump = sender.spawn(what, &words.map(str::to_owned))?;
        let (progress, progress_writer) = io::pipe().map_err(Error::system(what))?;
        let output = tcpdump.printed().map_err(Error::system(what))?;
        let last = sink(at).port();
        let own = sender.hardware_address.as_deref().and_then(hardware).unwrap_or_default();
        let counting = std::thread::spawn(move || count(output, progress_writer, own, last));
        let mut capturing = Self { tcpdump, progress, counting, at };
        let mut byte = [0];
        if stop.readable_until(capturing.progress.as_fd(), Mono::NEVER) == Woken::Stopped {
            return Err(Error::Interrupted);
        }
        match capturing.progress.read(&mut byte).map_err(Error::system(what))? {
            0 => Err(capturing.tcpdump.failed()),
            _ => Ok(capturing),
        }
    }

    /// Has the receiver send the last frame, waits until it is seen, and says what was captured before.
    pub(crate) fn end(self, receiver: &End, stop: &Stop) -> Result<Captured, Error> {
        // A few frames of full size within a moment.
        let rate = 8.0 * LARGEST as f64 * 100.0;
        let load = Some((rate, Duration::from_millis(100)));
        probe_from(
            receiver,
            &ProbeRequest { target: self.at, echoes: 0, load, count: None },
            stop,
        )?;
        if stop.readable_until(self.progress.as_fd(), monotonic() + TIMEOUT) == Woken::Stopped {
            return Err(Error::Interrupted);
        }
        let output = self.tcpdump.complaints()?;
        let Ok(Counted { report, sent, received, is_whole }) = self.counting.join() else {
            return Err(Error::UnexpectedOutput {
                program: "tcpdump",
                why: "reading its packets has failed".to_owned(),
                output,
            });
        };
        let report = report.map_err(|error| Error::UnexpectedOutput {
            program: "tcpdump",
            why: error.to_string(),
            output: output.clone(),
        })?;
        let dropped = dropped(&output).ok_or_else(|| Error::UnexpectedOutput {
            program: "tcpdump",
            why: "it does not tell how many packets it has lost".to_owned(),
            output,
        })?;
        Ok(Captured { report, sent, received, dropped, is_whole })
    }
}

/// Reads what tcpdump writes to its end.
fn count(mut output: File, mut progress: PipeWriter, own: [u8; 6], last: u16) -> Counted {
    let (mut sent, mut received, mut is_whole) = (Frames::default(), Frames::default(), false);
    let mut head = [0; FILE_HEAD];
    let begun = output.read_exact(&mut head).and_then(|()| progress.write_all(&[1]));
    let report = begun.map_err(CaptureError::Read).and_then(|()| {
        let file = Cursor::new(head).chain(&output);
        check_while(file, Some(At::Sender), ROWS, |frame| {
            is_whole = goes_to(frame.bytes, last);
            let of = if frame.bytes.get(6..12) == Some(&own) { &mut sent } else { &mut received };
            if !is_whole {
                of.add(frame);
            }
            !is_whole
        })
    });
    drop(progress);
    // Discards the output behind the last frame: unread, it would kill tcpdump before its final statistics.
    let _ = io::copy(&mut output, &mut io::sink());
    Counted { report, sent, received, is_whole }
}

/// Is it a packet of UDP, over IPv4 without options, to this port?
fn goes_to(frame: &[u8], port: u16) -> bool {
    frame.get(12..15) == Some(&[0x08, 0x00, 0x45])
        && frame.get(23) == Some(&17)
        && frame.get(36..38) == Some(&port.to_be_bytes())
}

/// An address of a card: `02:00:00:00:00:01`.
fn hardware(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    let mut all = [0; 6];
    for byte in &mut all {
        *byte = bytes.next()??;
    }
    Some(all)
}

/// As tcpdump says at its end: `0 packets dropped by kernel`.
fn dropped(output: &str) -> Option<u64> {
    let number = |line: &str| line.split_once(" packet")?.0.parse::<u64>().ok();
    let of_kernel = output.lines().filter(|line| line.contains("dropped by"));
    let counts = of_kernel.map(number).collect::<Option<Vec<_>>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tcpdump_has_lost_is_read_as_it_says_it() {
        // tcpdump 4.99.3.
        let output = "tcpdump: listening on link0, link-type EN10MB (Ethernet), snapshot length 128 bytes\n\
                    1043 packets captured\n1043 packets received by filter\n7 packets dropped by kernel\n";
        assert_eq!(dropped(output), Some(7));
        let of_card = format!("{output}2 packets dropped by interface\n");
        assert_eq!(dropped(&of_card), Some(9));
        assert_eq!(dropped("tcpdump: listening on link0"), None);
    }

    #[test]
    fn the_last_frame_is_known_by_where_it_goes() {
        let mut frame = vec![0; 42];
        frame[12..15].copy_from_slice(&[0x08, 0, 0x45]);
        frame[23] = 17;
        frame[36..38].copy_from_slice(&5004_u16.to_be_bytes());
        assert!(goes_to(&frame, 5004));
        assert!(!goes_to(&frame, 5003) && !goes_to(&frame[..37], 5004));
        frame[23] = 6;
        assert!(!goes_to(&frame, 5004), "TCP");
        assert_eq!(hardware("02:00:0a:00:00:ff"), Some([2, 0, 10, 0, 0, 255]));
        assert_eq!(hardware("02:00"), None);
    }
}
