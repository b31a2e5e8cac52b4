//! `tcp fetch` as a run starts it, and the first look at how long connections live.

use std::time::Duration;

use super::figures::Fetched;
use super::lab::{Lab, PORT, ReportProgress};
use super::{Cell, Error};
use crate::ends::Running;

/// The first look at a cell: how long do its connections live?
pub(crate) const PILOT: Duration = Duration::from_secs(1);

/// Factors by which the pilot is lengthened while no connection has completed.
const PILOTS: [u32; 3] = [1, 5, 20];

/// Connections that are compared with a capture one by one.
const COMPARED: &str = "1000";

/// How to run: these connections, for this time, with these additional arguments of `tcp fetch`.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) words: &'a [String],
    pub(crate) length: Duration,
}

impl Lab<'_> {
    pub(super) fn fetching(&self, how: How<'_>) -> Result<Running, Error> {
        let How { cell, words: more, length: time } = how;
        let at = format!("{}:{PORT}", self.ends.sender.address);
        let seconds = format!("{:.3}", time.as_secs_f64());
        let (connections, segments) = (cell.connections.to_string(), cell.segments.to_string());
        let mut words = vec![
            "tcp",
            "fetch",
            &at,
            "--connections",
            &connections,
            "--segments",
            &segments,
            "--seconds",
            &seconds,
            "--congestion",
            &cell.congestion,
            "--records",
            if self.plan.capture { COMPARED } else { "0" },
            "--json",
        ];
        words.extend(more.iter().map(String::as_str));
        self.ends.receiver.spawn_ours("fetch", &words)
    }

    /// Waits for the end of a run, and gives what it says of itself, also as it has said it. Where a
    /// connection has failed the figures of all are not those of whole ones: the run has failed, by this.
    pub(super) fn fetched(&self, fetching: Running) -> Result<(Fetched, String), Error> {
        let (output, failed) = fetching.result(self.stop)?;
        let fetched = read(&output, failed)?;
        match fetched.failures() {
            Some(why) => Err(connections_failed(why)),
            None => Ok((fetched, output)),
        }
    }

    /// How long runs of each load last, as far as a look at it can tell, or why it cannot.
    pub(crate) fn lengths(
        &self,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<Vec<Result<Duration, String>>, Error> {
        let length = |cell: &Cell| {
            report_progress(format!("how long do {} live?", cell.text()).as_str().into());
            match self.pilot(cell, &[]) {
                Ok((lifetime, _)) => Ok(Ok(self.plan.length(lifetime))),
                Err(error) => self.ends.explained(error).of_one_run().map(Err),
            }
        };
        self.plan.cells.iter().map(length).collect()
    }

    /// How long its connections live, roughly, and all that was said of them. One whose first packet is lost
    /// takes a second longer.
    pub(crate) fn pilot(&self, cell: &Cell, words: &[String]) -> Result<(f64, Fetched), Error> {
        for times in PILOTS {
            let fetching = self.fetching(How { cell, words, length: times * PILOT })?;
            let (output, failed) = fetching.result(self.stop)?;
            let fetched = read(&output, failed)?;
            if fetched.completed == 0
                && let Some(why) = fetched.failures()
            {
                return Err(connections_failed(why));
            }
            if let Some(lifetime) = fetched.lifetime() {
                return Ok((lifetime, fetched));
            }
        }
        Err(Error::Command {
            what: "the first look".to_owned(),
            command: "nightwatt tcp fetch".to_owned(),
            output: format!("nothing came of {}, however long it was tried", cell.text()),
        })
    }
}

/// What it has printed is whole although connections have failed, and it with them; else it has said why.
fn read(output: &str, failed: Option<Error>) -> Result<Fetched, Error> {
    Fetched::read(output).map_err(|unread| failed.unwrap_or(unread))
}

fn connections_failed(why: String) -> Error {
    let (what, command) = ("fetch".to_owned(), "nightwatt tcp fetch".to_owned());
    Error::Command { what, command, output: why }
}
