//! Follows what is watched by samples until it ends, or its time is over.

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use nightwatt_meters::sampler::Sampler;
use nightwatt_probes::Samples;

use crate::caliper::{Event, TargetRun};
use crate::error::Error;
use nightwatt_measure::run::{Running, child};

/// How often samples are read: there is room for those of a second.
pub(crate) const READ_EVERY: Duration = Duration::from_millis(50);

/// What counts the samples meanwhile.
pub(crate) trait Accounting {
    /// From here on it counts.
    fn begin(&mut self, at: Mono);
    /// Takes the samples that have come.
    fn read(&mut self, samples: &mut Samples);
    /// Takes what a meter has said.
    fn event(&mut self, event: &Event);
}

/// What is followed.
pub(crate) struct FollowedTarget<'a> {
    /// A command, which is started and followed to its end.
    pub(crate) command: Option<&'a [OsString]>,
    /// The command is asked to end after this time; without a command the measurement ends.
    pub(crate) time: Option<Duration>,
    /// Without a command: is what was there before gone?
    pub(crate) is_gone: &'a dyn Fn() -> bool,
    /// Lets others end it.
    pub(crate) running: &'a Running,
}

impl FollowedTarget<'_> {
    /// To its end.
    pub(crate) fn to_its_end(
        &self,
        samples: &mut Samples,
        accounting: &mut impl Accounting,
        metering: &Sampler,
        sender: Sender<Event>,
        events: &Receiver<Event>,
    ) -> Result<TargetRun, Error> {
        let begin = monotonic();
        metering.begin(begin);
        accounting.begin(begin);
        let running = self.running;
        thread::scope(|scope| {
            // It is held to the end: without it nothing would come, and nothing would be waited for.
            let sender = sender;
            if let Some(command) = self.command {
                let sender = sender.clone();
                scope.spawn(move || {
                    let ended = child::run(command, running, |_| ());
                    let _ = sender.send(Event::Ended(ended));
                });
            }
            let deadline = self.time.map(|time| begin + time);
            loop {
                let left = deadline.map(|deadline| deadline.since(monotonic()));
                // A command that was told to end may take its time.
                let left = left.filter(|left| !left.is_zero()).unwrap_or(READ_EVERY);
                let event = events.recv_timeout(left.clamp(Duration::from_millis(1), READ_EVERY));
                accounting.read(samples);
                match event {
                    Ok(Event::Ended(finished)) => {
                        let finished = finished?;
                        return Ok(TargetRun {
                            begin,
                            end: finished.end,
                            finished: Some(finished),
                        });
                    }
                    Ok(event) => accounting.event(&event),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                }
                let is_over = deadline.is_some_and(|deadline| monotonic() >= deadline);
                if self.command.is_some() {
                    if is_over {
                        running.interrupt(Some(rustix::process::Signal::TERM));
                    }
                } else if is_over || running.is_interrupted() || (self.is_gone)() {
                    return Ok(TargetRun { begin, end: monotonic(), finished: None });
                }
            }
        })
    }
}
