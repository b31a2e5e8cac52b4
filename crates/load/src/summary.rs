//! What a replay came to, in the form of the published table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use nightwatt_energy::stats::Summary;
use nightwatt_policy::admission::ClientClass;
use serde::Serialize;

use crate::answer::Answer;
use crate::cdf::Cdf;
use crate::csv::class_name;
use crate::outcome::{Outcome, RequestKind};
use crate::replay::{Lag, Run, Unsendable};

/// What an answer takes beyond the waiting, added to each delay: virtual time stands still while
/// an answer is made, so the scenario says how long that would have taken. Zero in real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ServiceTime {
    /// By the server.
    pub origin: Duration,
    /// By the proxy alone.
    pub proxy: Duration,
}

impl ServiceTime {
    /// Delay of an answered request in seconds.
    pub fn delay_of(&self, outcome: &Outcome) -> Option<f64> {
        let service = if outcome.is_from_server() { self.origin } else { self.proxy };
        outcome.delay().map(|delay| (delay + service).as_secs_f64())
    }
}

/// When the user who opened something saw its content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContentDelay {
    /// Index of the arrival.
    pub arrival: usize,
    /// Class of its client.
    pub class: ClientClass,
    /// Seconds from the first request to the content: for a waiting page, to the end of the
    /// reopened answer. Any other answer counts as content, an error or a "come back later" to a
    /// crawler too. Nothing if it never came.
    pub delay_s: Option<f64>,
}

/// Counts and delays of a replay. Polls of the waiting page are in none of them but `polls`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplaySummary {
    /// All requests: those of the log, reopened pages, crawlers' returns. The sum of `malformed`,
    /// `no_answer`, `served_by_origin` and `served_by_proxy`, and also of `malformed`,
    /// `no_answer`, the four `http_`, `bot_redirection` and `served_survey`.
    pub requests: u64,
    /// Requests of the log that HTTP cannot express.
    pub malformed: u64,
    /// Sent, but without a whole answer.
    pub no_answer: u64,
    /// Answered by the server.
    pub served_by_origin: u64,
    /// Answered by the proxy alone.
    pub served_by_proxy: u64,
    /// Answers with this status.
    pub http_200: u64,
    /// Answers with this status.
    pub http_404: u64,
    /// Answers with this status, waiting pages and redirected crawlers apart.
    pub http_503: u64,
    /// Answers with any other status.
    pub http_other: u64,
    /// Crawlers told to come back later.
    pub bot_redirection: u64,
    /// Waiting pages.
    pub served_survey: u64,
    /// What reopened pages got (also counted above).
    pub replayed_200: u64,
    /// What reopened pages got.
    pub replayed_404: u64,
    /// What reopened pages got, further waiting pages included.
    pub replayed_503: u64,
    /// What reopened pages got.
    pub replayed_other: u64,
    /// Crawlers that came back.
    pub crawler_retries: u64,
    /// Polls of waiting pages.
    pub polls: u64,
    /// Delays in seconds of all answers.
    pub delays: Summary,
    /// Of the server's answers.
    pub delays_origin: Summary,
    /// Of the proxy's answers.
    pub delays_proxy: Summary,
    /// By class of client; the first answers to requests of the log only.
    pub delays_by_class: BTreeMap<&'static str, Summary>,
    /// By class of client, until the content was there: waiting pages sat out.
    pub until_content_by_class: BTreeMap<&'static str, Summary>,
    /// Requests of the log that never got content: no answer, or a waiting page to the end.
    pub never_got_content: u64,
    /// Distribution of the delays of all answers.
    pub cdf: Cdf,
    /// Seconds by the operating system's clock that exchanges took.
    pub real_time: Summary,
    /// What was added to each delay.
    pub service_time: ServiceTime,
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Answers by who gave them.
    pub by_answer: BTreeMap<String, u64>,
    /// Requests without a whole answer, by why.
    pub by_error: BTreeMap<&'static str, u64>,
    /// Bytes of all answers' bodies.
    pub bytes: u64,
    /// Clock time of the run in seconds.
    pub duration_s: f64,
    /// How late requests left.
    pub lag: Lag,
    /// Requests for which this machine had no free connection.
    pub client_limited: u64,
    /// Was this machine, rather than the other side, what made it slow?
    pub client_was_the_bottleneck: bool,
    /// The first few arrivals that could not be sent.
    pub unsendable_samples: Vec<Unsendable>,
    /// What casts doubt on the figures.
    pub warnings: Vec<String>,
}

impl ReplaySummary {
    /// Of a run.
    pub fn of(run: &Run, service: ServiceTime) -> Self {
        let mut tally = Tally::default();
        for outcome in &run.outcomes {
            tally.add(outcome, service);
        }
        let mut until_content: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        let mut never_got_content = 0;
        for seen in content_delays(run, service) {
            match seen.delay_s {
                Some(delay) => {
                    until_content.entry(class_name(seen.class)).or_default().push(delay);
                }
                None => never_got_content += 1,
            }
        }
        let count = |counts: &BTreeMap<u16, u64>, statuses: &[u16]| {
            statuses.iter().filter_map(|status| counts.get(status)).sum::<u64>()
        };
        let named = count(&tally.plain_status, &[200, 404, 503]);
        let replayed = count(&tally.reopened_status, &[200, 404, 503]);
        Self {
            requests: tally.requests,
            malformed: run.unsendable() as u64,
            no_answer: tally.by_error.values().sum::<u64>() - run.unsendable() as u64,
            served_by_origin: tally.origin.len() as u64,
            served_by_proxy: tally.proxy.len() as u64,
            http_200: count(&tally.plain_status, &[200]),
            http_404: count(&tally.plain_status, &[404]),
            http_503: count(&tally.plain_status, &[503]),
            http_other: tally.plain_status.values().sum::<u64>() - named,
            bot_redirection: tally.by_answer.get("crawler").copied().unwrap_or(0),
            served_survey: tally.by_answer.get("waiting-page").copied().unwrap_or(0),
            replayed_200: count(&tally.reopened_status, &[200]),
            replayed_404: count(&tally.reopened_status, &[404]),
            replayed_503: count(&tally.reopened_status, &[503]),
            replayed_other: tally.reopened_status.values().sum::<u64>() - replayed,
            crawler_retries: tally.crawler_retries,
            polls: tally.polls,
            delays: Summary::of([tally.origin.as_slice(), &tally.proxy].concat()),
            cdf: Cdf::of([tally.origin.as_slice(), &tally.proxy].concat()),
            delays_origin: Summary::of(tally.origin),
            delays_proxy: Summary::of(tally.proxy),
            delays_by_class: summaries(tally.by_class),
            until_content_by_class: summaries(until_content),
            never_got_content,
            real_time: Summary::of(tally.real_time),
            service_time: service,
            by_status: tally.by_status,
            by_answer: tally.by_answer,
            by_error: tally.by_error,
            bytes: tally.bytes,
            duration_s: run.ended.mono.since(run.started.mono).as_secs_f64(),
            lag: run.lag,
            client_limited: run.client_limited,
            client_was_the_bottleneck: run.client_was_the_bottleneck(),
            unsendable_samples: run.unsendable_samples.clone(),
            warnings: run.warnings(),
        }
    }

    /// The published table's rows and ours, as text; empty where there is nothing to tell.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let count = |n: u64| n.to_string();
        let some = |n: u64| if n == 0 { String::new() } else { n.to_string() };
        let time = |of: &Summary, value: f64| {
            if of.count == 0 { String::new() } else { format!("{value:.3}") }
        };
        let (all, origin, proxy) = (&self.delays, &self.delays_origin, &self.delays_proxy);
        vec![
            ("requests", count(self.requests)),
            ("malformed", count(self.malformed)),
            ("no_answer", some(self.no_answer)),
            ("served_by_origin", count(self.served_by_origin)),
            ("served_by_proxy", some(self.served_by_proxy)),
            ("http_200", count(self.http_200)),
            ("http_404", count(self.http_404)),
            ("http_503", some(self.http_503)),
            ("http_other", some(self.http_other)),
            ("bot_redirection", some(self.bot_redirection)),
            ("served_survey", some(self.served_survey)),
            ("replayed_200", some(self.replayed_200)),
            ("replayed_404", some(self.replayed_404)),
            ("replayed_503", some(self.replayed_503)),
            ("replayed_other", some(self.replayed_other)),
            ("crawler_retries", some(self.crawler_retries)),
            ("polls", some(self.polls)),
            ("max_delay_origin_s", time(origin, origin.max)),
            ("max_delay_proxy_s", time(proxy, proxy.max)),
            ("mean_delay_all_s", time(all, all.mean)),
            ("mean_delay_origin_s", time(origin, origin.mean)),
            ("mean_delay_proxy_s", time(proxy, proxy.mean)),
            ("p50_delay_all_s", time(all, all.p50)),
            ("p90_delay_all_s", time(all, all.p90)),
            ("p99_delay_all_s", time(all, all.p99)),
        ]
    }
}

/// When each arrival's client had what it asked for.
pub fn content_delays(run: &Run, service: ServiceTime) -> Vec<ContentDelay> {
    let of_one_arrival = run.outcomes.chunk_by(|a, b| a.arrival == b.arrival);
    let content_delays = of_one_arrival.filter_map(|outcomes| {
        let first = outcomes.iter().find(|outcome| outcome.kind == RequestKind::Trace)?;
        let last = outcomes.iter().rfind(|outcome| outcome.kind == RequestKind::Reopened);
        let last = last.unwrap_or(first);
        let before = last.intended.since(first.intended).as_secs_f64();
        let has_content = last.answer != Some(Answer::WaitingPage);
        let delay_s = service.delay_of(last).filter(|_| has_content).map(|delay| before + delay);
        Some(ContentDelay { arrival: first.arrival, class: first.class, delay_s })
    });
    content_delays.collect()
}

/// Several replays side by side, as CSV: the form of the published table.
pub fn csv_table(columns: &[(&str, &ReplaySummary)]) -> String {
    let mut text = String::from("metric");
    for (name, _) in columns {
        let _ = write!(text, ",{name}");
    }
    text.push('\n');
    for row in table_rows(columns) {
        let _ = writeln!(text, "{}", row.join(","));
    }
    text
}

/// Several replays side by side, for a terminal.
pub fn text_table(columns: &[(&str, &ReplaySummary)]) -> String {
    let mut rows = vec![vec![""; columns.len() + 1]];
    for (cell, (name, _)) in rows[0].iter_mut().skip(1).zip(columns) {
        *cell = name;
    }
    let body = table_rows(columns);
    // A row without any value is left out.
    let told = body.iter().filter(|row| row[1..].iter().any(|cell| !cell.is_empty()));
    rows.extend(told.map(|row| row.iter().map(String::as_str).collect()));
    let width_of = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=columns.len()).map(width_of).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn table_rows(columns: &[(&str, &ReplaySummary)]) -> Vec<Vec<String>> {
    let Some((_, first)) = columns.first() else { return Vec::new() };
    let mut rows: Vec<Vec<String>> =
        first.rows().iter().map(|(name, _)| vec![(*name).to_owned()]).collect();
    for (_, summary) in columns {
        for (row, (_, value)) in rows.iter_mut().zip(summary.rows()) {
            row.push(value);
        }
    }
    rows
}

#[derive(Default)]
struct Tally {
    requests: u64,
    polls: u64,
    crawler_retries: u64,
    bytes: u64,
    /// Delays of the server's answers.
    origin: Vec<f64>,
    /// Delays of the proxy's.
    proxy: Vec<f64>,
    by_class: BTreeMap<&'static str, Vec<f64>>,
    real_time: Vec<f64>,
    /// Of answers that are neither waiting pages nor sent-away crawlers.
    plain_status: BTreeMap<u16, u64>,
    reopened_status: BTreeMap<u16, u64>,
    by_status: BTreeMap<u16, u64>,
    by_answer: BTreeMap<String, u64>,
    by_error: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome, service: ServiceTime) {
        if outcome.kind == RequestKind::Poll {
            self.polls += 1;
            return;
        }
        self.requests += 1;
        self.bytes += outcome.bytes;
        self.crawler_retries += u64::from(outcome.kind == RequestKind::CrawlerRetry);
        if let Some(error) = outcome.error {
            *self.by_error.entry(error.as_str()).or_default() += 1;
        }
        let (Some(delay), Some(status), Some(answer)) =
            (service.delay_of(outcome), outcome.status, &outcome.answer)
        else {
            return;
        };
        let delays = if outcome.is_from_server() { &mut self.origin } else { &mut self.proxy };
        delays.push(delay);
        if outcome.kind == RequestKind::Trace {
            self.by_class.entry(class_name(outcome.class)).or_default().push(delay);
        }
        self.real_time.push(outcome.real_time.as_secs_f64());
        *self.by_status.entry(status).or_default() += 1;
        *self.by_answer.entry(answer.to_string()).or_default() += 1;
        if !matches!(answer, Answer::WaitingPage | Answer::Crawler) {
            *self.plain_status.entry(status).or_default() += 1;
        }
        if outcome.kind == RequestKind::Reopened {
            *self.reopened_status.entry(status).or_default() += 1;
        }
    }
}

fn summaries(delays: BTreeMap<&'static str, Vec<f64>>) -> BTreeMap<&'static str, Summary> {
    delays.into_iter().map(|(class, delays)| (class, Summary::of(delays))).collect()
}
