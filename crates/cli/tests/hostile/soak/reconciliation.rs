//! Three books about the same requests: the clients', the gateway's and the origin's. They must
//! agree.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use nightwatt_gateway::{Extras, REFRESH_ID};
use nightwatt_traffic::clf;
use nightwatt_traffic::record::Line;

use super::client::{Outcome, SentRequest};
use super::origin::{Handled, MALFORMED};
use super::trouble::Event;

/// A line of the gateway's access log.
#[derive(Debug)]
struct Logged {
    status: u16,
    bytes: u64,
    answer: String,
}

/// All three.
pub(super) struct Reconciliation {
    asked: Vec<SentRequest>,
    logged: HashMap<String, Vec<Logged>>,
    handled: HashMap<String, Vec<Handled>>,
    events: Vec<Event>,
    faults: Vec<String>,
}

impl Reconciliation {
    /// Opens them. `access_log` and `record` are the files' texts.
    pub(super) fn open(
        asked: Vec<SentRequest>,
        access_log: &str,
        record: &str,
        events: Vec<Event>,
    ) -> Self {
        let mut reconciliation = Self {
            asked,
            logged: HashMap::new(),
            handled: HashMap::new(),
            events,
            faults: Vec::new(),
        };
        for line in access_log.lines() {
            match (Extras::read(line), clf::parse(line.as_bytes())) {
                (Some(extras), Ok(Line::Request(record))) => {
                    let arrival = record.to_arrival();
                    let (status, bytes) = (arrival.status, arrival.bytes);
                    let logged = Logged { status, bytes, answer: extras.answer };
                    reconciliation.logged.entry(extras.id).or_default().push(logged);
                }
                _ => reconciliation.faults.push(format!("no line of an access log: {line}")),
            }
        }
        for line in record.lines() {
            match Handled::read(line) {
                Some(handled) => {
                    reconciliation.handled.entry(handled.id.clone()).or_default().push(handled);
                }
                // Its writer was killed.
                None if !line.starts_with(MALFORMED) => {}
                None => reconciliation.faults.push(format!("the origin got what is {line}")),
            }
        }
        reconciliation
    }

    /// What does not agree.
    pub(super) fn faults(mut self) -> Vec<String> {
        let mut faults = std::mem::take(&mut self.faults);
        for asked in &self.asked {
            if let Some(what) = self.fault(asked) {
                let logged = self.logged.get(&asked.id);
                let handled = self.handled.get(&asked.id);
                faults.push(format!("{what}: {asked:?}; {logged:?}; {handled:?}"));
            }
        }
        let known: std::collections::HashSet<&str> =
            self.asked.iter().map(|asked| &*asked.id).collect();
        let strange = |id: &&String| !known.contains(&***id) && !id.starts_with(REFRESH_ID);
        let ids = self.logged.keys().chain(self.handled.keys());
        // A client that left before its head was complete has no id of its own there.
        let strange = ids.filter(strange).filter(|id| !self.is_refusal(id));
        faults.extend(strange.map(|id| format!("nobody asked for this: {id}")));
        faults
    }

    /// A head that broke off is logged under an id that the gateway gives it.
    fn is_refusal(&self, id: &str) -> bool {
        let logged = self.logged.get(id).map_or(&[][..], |it| it);
        !logged.is_empty()
            && logged.iter().all(|it| it.answer == "refused")
            && !self.handled.contains_key(id)
    }

    fn fault(&self, asked: &SentRequest) -> Option<&'static str> {
        let logged = self.logged.get(&asked.id).map_or(&[][..], |it| it);
        let handled = self.handled.get(&asked.id).map_or(&[][..], |it| it);
        if asked.kind.happens_once() && handled.len() > 1 {
            return Some("done twice");
        }
        let Outcome::Answered { status, how, bytes, whole, right } = &asked.outcome else {
            let left = asked.outcome == Outcome::Left;
            return if !left {
                Some("lost")
            } else if logged.len() > 1 {
                Some("answered twice")
            } else {
                None
            };
        };
        let [log] = logged else { return Some("not one line in the gateway's log") };
        let troubled = self.events.iter().any(|it| it.explains(asked.begun, asked.ended));
        let went_well = *status < 400 && *whole;
        let failure = matches!(&**how, "unavailable" | "refused" | "timeout" | "gone");
        if log.status != *status || log.answer != *how || failure != (*status >= 400) {
            return Some("logged as something else");
        }
        if *whole && log.bytes != *bytes {
            return Some("logged as longer or shorter");
        }
        if !right {
            return Some("a wrong answer");
        }
        if !went_well && !troubled {
            return Some("failed without trouble");
        }
        if *status >= 400 && !matches!(status, 502..=504) {
            return Some("refused");
        }
        let done = handled.iter().all(|it| it.body == asked.body) && !handled.is_empty();
        if went_well && asked.kind.acts() && !done {
            return Some("answered, but not done");
        }
        None
    }

    /// How long the slowest of them took, and what it was.
    pub(super) fn slowest(&self) -> Option<(Duration, &SentRequest)> {
        let times = self.asked.iter().map(|asked| (asked.ended.since(asked.begun), asked));
        times.max_by_key(|(time, _)| *time)
    }

    /// How many there were, by kind and by what came of them.
    pub(super) fn summary(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for SentRequest { kind, outcome, .. } in &self.asked {
            let came = match outcome {
                Outcome::Answered { whole: false, .. } => "cut".to_owned(),
                Outcome::Answered { status, how, .. } => format!("{status} {how}"),
                Outcome::Left => "left".to_owned(),
                Outcome::Lost(_) => "lost".to_owned(),
            };
            for key in [format!("{kind:?}"), came] {
                *counts.entry(key).or_default() += 1;
            }
        }
        counts
    }
}
