//! Counts the answers of one configuration: from the server or the proxy, and how long they took.

use std::time::Duration;

use serde::Serialize;

use super::delays::Delays;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responder {
    Origin,
    Proxy,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PublishedAnswer {
    /// With this status.
    Status(u16),
    /// A crawler: come back later.
    Later,
    /// With the page that waits.
    WaitingPage,
}

/// What was answered. Every request is in one of the two `served_by`, and in one of the four
/// `http`, `bot_redirection` and `served_survey`; or in `malformed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Lines that hold a request or should, and pages asked for again.
    pub requests: u64,
    /// Lines that hold no HTTP request.
    pub malformed: u64,
    /// Answered by the server.
    pub served_by_origin: u64,
    /// Answered by the proxy.
    pub served_by_proxy: u64,
    /// Answers with this status.
    pub http_200: u64,
    /// Answers with this status.
    pub http_404: u64,
    /// Answers with this status, crawlers that were sent away apart.
    pub http_503: u64,
    /// Answers with any other status: no row of the published table.
    pub http_other: u64,
    /// Crawlers told to come back later.
    pub bot_redirection: u64,
    /// Waiting pages.
    pub served_survey: u64,
    /// What pages got that were asked for again (in the four `http` as well).
    pub replayed_200: u64,
    /// Likewise.
    pub replayed_404: u64,
    /// Likewise.
    pub replayed_503: u64,
    /// Likewise; no row of the published table.
    pub replayed_other: u64,
}

/// One configuration's books.
#[derive(Debug, Clone, Default)]
pub(super) struct Column {
    pub(super) tally: Tally,
    pub(super) all: Delays,
    pub(super) origin: Delays,
    pub(super) proxy: Delays,
}

impl Column {
    /// A request was answered; `again` if it is a page that was asked for again.
    pub(super) fn enter(
        &mut self,
        by: Responder,
        answer: PublishedAnswer,
        delay: Duration,
        again: bool,
    ) {
        let tally = &mut self.tally;
        tally.requests += 1;
        let (served, delays) = match by {
            Responder::Origin => (&mut tally.served_by_origin, &mut self.origin),
            Responder::Proxy => (&mut tally.served_by_proxy, &mut self.proxy),
        };
        *served += 1;
        delays.add(delay);
        self.all.add(delay);
        let (count, replayed) = match answer {
            PublishedAnswer::Later => (&mut tally.bot_redirection, None),
            PublishedAnswer::WaitingPage => (&mut tally.served_survey, None),
            PublishedAnswer::Status(200) => (&mut tally.http_200, Some(&mut tally.replayed_200)),
            PublishedAnswer::Status(404) => (&mut tally.http_404, Some(&mut tally.replayed_404)),
            PublishedAnswer::Status(503) => (&mut tally.http_503, Some(&mut tally.replayed_503)),
            PublishedAnswer::Status(_) => (&mut tally.http_other, Some(&mut tally.replayed_other)),
        };
        *count += 1;
        if let Some(count) = replayed.filter(|_| again) {
            *count += 1;
        }
    }

    /// Counts lines without a request.
    pub(super) const fn malformed(&mut self, lines: u64) {
        self.tally.malformed += lines;
        self.tally.requests += lines;
    }
}
