//! Sessions, for clients that ask at the end what the server has seen: a fixed number of them, and a
//! fixed number of records of their connections.

use nightwatt_energy::time::Mono;

use crate::report::{ServerRecord, SessionReport};
use crate::usage::Usage;

/// Sessions that are remembered; of more, the one is forgotten that was quiet for longest.
const SESSIONS: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Session {
    id: u64,
    begun: Usage,
    last: Mono,
    report: SessionReport,
}

/// All that is remembered.
#[derive(Debug)]
pub(super) struct Sessions {
    known: Vec<Session>,
    /// A ring: the oldest is overwritten, but by a session of its own, whose first ones are asked for.
    records: Vec<(u64, ServerRecord)>,
    next: usize,
}

impl Sessions {
    pub(super) fn new(records: usize) -> Self {
        Self { known: Vec::with_capacity(SESSIONS), records: Vec::with_capacity(records), next: 0 }
    }

    fn find(&mut self, id: u64) -> Option<&mut Session> {
        self.known.iter_mut().find(|session| session.id == id)
    }

    /// A connection of a session begins.
    pub(super) fn begin(&mut self, id: u64, now: Mono) {
        if self.find(id).is_none() {
            let new =
                Session { id, begun: Usage::now(), last: now, report: SessionReport::default() };
            if self.known.len() < SESSIONS {
                self.known.push(new);
            } else if let Some(oldest) = self
                .known
                .iter_mut()
                .filter(|session| session.report.open == 0)
                .min_by_key(|session| session.last)
            {
                *oldest = new;
            }
        }
        if let Some(session) = self.find(id) {
            session.last = now;
            session.report.accepted += 1;
            session.report.open += 1;
        }
    }

    /// One of them is over.
    pub(super) fn end(&mut self, id: u64, record: &ServerRecord, now: Mono) {
        if self.records.len() < self.records.capacity() {
            self.records.push((id, *record));
        } else if let Some(oldest) = self.records.get_mut(self.next)
            && oldest.0 != id
        {
            *oldest = (id, *record);
            self.next = (self.next + 1) % self.records.len();
        }
        let Some(session) = self.find(id) else { return };
        session.last = now;
        // A session that was forgotten and then started again may not have seen it begin.
        session.report.open = session.report.open.saturating_sub(1);
        session.report.bytes += record.bytes;
        if record.fault.is_none() {
            session.report.completed += 1;
            session.report.tcp.add(&record.tcp);
        } else {
            session.report.failed += 1;
        }
    }

    /// What is sent with is known.
    pub(super) fn congestion(&mut self, id: u64, name: crate::wire::Name) {
        if let Some(session) = self.find(id) {
            session.report.congestion = name;
        }
    }

    /// Has it named none yet?
    pub(super) fn wants_congestion(&mut self, id: u64) -> bool {
        self.find(id).is_some_and(|session| session.report.congestion.is_none())
    }

    /// What is known of a session now; `None` if it is not known.
    pub(super) fn report(&mut self, id: u64) -> Option<SessionReport> {
        let used = Usage::now();
        let session = self.find(id)?;
        Some(SessionReport { cpu: used.since(&session.begun), ..session.report })
    }

    /// Has none of its connections yet to end?
    pub(super) fn is_quiet(&mut self, id: u64) -> bool {
        self.find(id).is_none_or(|session| session.report.open == 0)
    }

    /// How many records there are of a session, at most this many.
    pub(super) fn count(&self, id: u64, most: u64) -> u64 {
        let all = self.records.iter().filter(|(session, _)| *session == id).count() as u64;
        all.min(most)
    }

    /// The place of the oldest record.
    pub(super) fn oldest(&self) -> usize {
        self.next
    }

    /// The first record of a session from this place in the ring on, and the place after it, wrapping around;
    /// a record that says "gone" if there is no further one.
    pub(super) fn record(&self, id: u64, from: usize) -> (usize, ServerRecord) {
        let all = self.records.len();
        let found = (from..from + all).find_map(|place| {
            let (session, record) = &self.records[place % all];
            (*session == id).then_some((place + 1, *record))
        });
        found.unwrap_or_else(|| (from, ServerRecord::gone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::info::TcpInfo;

    fn record(number: u32, fault: Option<Fault>) -> ServerRecord {
        ServerRecord { number, fault, bytes: 10, lasted_ns: 1, tcp: TcpInfo::default() }
    }

    #[test]
    fn a_session_is_counted_and_its_records_are_found_among_those_of_others() {
        let mut sessions = Sessions::new(4);
        for number in 0..3 {
            sessions.begin(7, Mono::ZERO);
            sessions.begin(8, Mono::ZERO);
            assert!(!sessions.is_quiet(7));
            sessions.end(7, &record(number, (number == 1).then_some(Fault::Reset)), Mono::ZERO);
            sessions.end(8, &record(number + 100, None), Mono::ZERO);
        }
        let report = sessions.report(7).unwrap();
        assert_eq!((report.accepted, report.completed, report.failed, report.open), (3, 2, 1, 0));
        assert_eq!(report.bytes, 30);
        // There is room for four of six records: the last of 8 has taken the place of the first of 7.
        assert_eq!((sessions.count(7, 10), sessions.count(8, 10), sessions.count(8, 1)), (1, 3, 1));
        assert_eq!(sessions.record(7, sessions.oldest()).1.number, 1);
        assert_eq!(sessions.record(9, 0).1.number, ServerRecord::GONE);
        assert_eq!(sessions.report(9), None);
    }

    #[test]
    fn a_session_keeps_its_first_records_however_many_follow_and_takes_the_place_of_older_ones() {
        let mut sessions = Sessions::new(3);
        // In the order in which they ended, wherever in the ring that begins.
        let first = |sessions: &Sessions, id, count| {
            let mut from = sessions.oldest();
            let mut next = || {
                let (behind, found) = sessions.record(id, from);
                from = behind;
                found.number
            };
            (0..count).map(|_| next()).collect::<Vec<_>>()
        };
        for (id, count) in [(6, 2), (7, 100), (8, 100)] {
            for number in 0..count {
                sessions.begin(id, Mono::ZERO);
                sessions.end(id, &record(number, None), Mono::ZERO);
            }
        }
        assert_eq!((sessions.count(8, 10), sessions.count(7, 10)), (3, 0));
        assert_eq!(first(&sessions, 8, 3), [0, 1, 2]);
        assert_eq!(sessions.oldest(), 2, "not the first place of the ring");
        assert_eq!(first(&sessions, 7, 1), [ServerRecord::GONE]);
    }

    #[test]
    fn strangers_cannot_make_it_remember_more_than_so_many() {
        let mut sessions = Sessions::new(2);
        sessions.begin(1, Mono::ZERO);
        for id in 2..1000 {
            sessions.begin(id, Mono::from_secs(id));
            sessions.end(id, &record(0, None), Mono::from_secs(id));
        }
        assert_eq!((sessions.known.len(), sessions.records.len()), (SESSIONS, 2));
        assert!(sessions.report(1).is_some(), "it is still open");
        assert!(sessions.report(999).is_some() && sessions.report(2).is_none());
    }
}
