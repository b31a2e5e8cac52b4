//! The access log: Combined Log Format, with nightwatt's own fields at the end of each line.
//!
//! ```text
//! 10.0.0.9 - - [03/Mar/2012:06:26:42 -0800] "GET / HTTP/1.1" 200 257 "-" "curl/8" id=a-7 site=blog class=api answer=held delay=5.002 needs=server
//! ```
//!
//! `id` is the request's `X-Request-Id`, `answer` one of [`Answered`], `delay` the seconds from the head of the request
//! to the head of the answer. `from=cache` means that the answer was in the cache when it was sent, `needs=server` that
//! only the server could answer, whether it slept or not. In shadow mode `would` is how the request would have been
//! answered if the server were allowed to sleep.
//!
//! `rule` names the rule by which a request did not reach the server: that of its client's class
//! ([`Rule`](nightwatt_traffic::Rule)), `icons`, or `requests-per-client`, or a
//! [`Budget`](nightwatt_policy::admission::Budget), or one of `[site.access]` (`access-network`, `access-password`, …).
//! Connections that `allow` and `deny` of `[[tcp]]` refuse have the rule `access-network` too.
//!
//! A connection that was passed through has a line with the method `TCP`: `delay` is the time from when its service was
//! known to when the connection to that service was made, and `outcome` how the connection ended.
//!
//! A head that cannot be read (400, 408, 414, 431, 501, 505) has a line as well, with site `-`, and with `-` for method
//! and target, which are unknown.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_policy::admission::ClientClass;
use nightwatt_traffic::{Arrival, clf};
use tokio::sync::Notify;

use crate::private;
use crate::repeated_warnings::Repeats;

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answered {
    /// From the cache, fresh.
    Cache,
    /// From the cache, stale.
    Stale,
    /// From the cache: 304, the client has it.
    NotModified,
    /// From the mirror of the site.
    Mirror,
    /// By the server, which was awake.
    Server,
    /// By the server, after it woke.
    Held,
    /// With the waiting page.
    WaitingPage,
    /// A crawler: 503, come back later.
    Crawler,
    /// A scanner: 503.
    Scanner,
    /// A health check, an icon, or an authority's request for a proof, answered from what the proxy knows.
    Monitor,
    /// The waiting page's request for the server's state.
    State,
    /// 504: held too long.
    Timeout,
    /// 503: this client woke the server too often.
    Budget,
    /// 502 or 503: the server failed.
    Unavailable,
    /// 4xx: the request was rejected.
    Refused,
    /// 401, 403, 429 or 503: this client may not come in, or not wake the server.
    Denied,
    /// 429: this client sends too many requests.
    Limited,
    /// Not at all: the client left while its request was held.
    Gone,
    /// 308: redirected to the same address over TLS.
    Redirect,
    /// As its path is configured: a redirect, a text or a file.
    Path,
}

impl Answered {
    /// Every answer.
    pub const ALL: [Self; 20] = [
        Self::Cache,
        Self::Stale,
        Self::NotModified,
        Self::Mirror,
        Self::Server,
        Self::Held,
        Self::WaitingPage,
        Self::Crawler,
        Self::Scanner,
        Self::Monitor,
        Self::State,
        Self::Timeout,
        Self::Budget,
        Self::Unavailable,
        Self::Refused,
        Self::Denied,
        Self::Limited,
        Self::Gone,
        Self::Redirect,
        Self::Path,
    ];

    /// The name in logs, metrics, JSON and the header `Nightwatt-Answer`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Stale => "stale",
            Self::NotModified => "not-modified",
            Self::Mirror => "mirror",
            Self::Server => "server",
            Self::Held => "held",
            Self::WaitingPage => "waiting-page",
            Self::Crawler => "crawler",
            Self::Scanner => "scanner",
            Self::Monitor => "monitor",
            Self::State => "state",
            Self::Timeout => "timeout",
            Self::Budget => "budget",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Limited => "limited",
            Self::Gone => "gone",
            Self::Redirect => "redirect",
            Self::Path => "path",
        }
    }
}

/// Fields of a request that are not UTF-8, as they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raw {
    pub(crate) referer: Option<Vec<u8>>,
    pub(crate) agent: Option<Vec<u8>>,
}

/// What the log records about one request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) request: Arrival,
    /// The fields that are not UTF-8.
    pub(crate) raw: Raw,
    pub(crate) id: String,
    pub(crate) site: Arc<str>,
    pub(crate) class: ClientClass,
    pub(crate) answered: Answered,
    pub(crate) delay: Duration,
    pub(crate) needs_server: bool,
    pub(crate) from_cache: bool,
    pub(crate) would: Option<&'static str>,
    pub(crate) rule: Option<&'static str>,
}

/// nightwatt's own fields of a log line; the rest is Combined.
#[derive(Debug, Clone, PartialEq)]
pub struct Extras {
    /// The request's id.
    pub id: String,
    /// Address of its client.
    pub client: String,
    /// Class of its client at that time.
    pub class: String,
    /// How it was answered.
    pub answer: String,
    /// Seconds from its head to the head of its answer.
    pub delay_s: f64,
    /// Could only the server answer it?
    pub needs_server: bool,
    /// Was the answer in the cache when it was given (by then, for a held request)?
    pub from_cache: bool,
    /// The rule by which it did not reach the server.
    pub rule: Option<String>,
}

impl Extras {
    /// Parses nightwatt's fields at the end of a line; nothing if the line has none.
    pub fn read(line: &str) -> Option<Self> {
        let (_, extras) = line.rsplit_once("\" id=")?;
        let mut fields = extras.split(' ');
        let id = fields.next()?.to_owned();
        let fields: std::collections::HashMap<&str, &str> =
            fields.filter_map(|field| field.split_once('=')).collect();
        Some(Self {
            id,
            client: line.split(' ').next()?.to_owned(),
            class: (*fields.get("class")?).to_owned(),
            answer: (*fields.get("answer")?).to_owned(),
            delay_s: fields.get("delay")?.parse().ok()?,
            needs_server: fields.get("needs") == Some(&"server"),
            from_cache: fields.get("from") == Some(&"cache"),
            rule: fields.get("rule").map(|rule| (*rule).to_owned()),
        })
    }
}

/// nightwatt's own fields for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) site: &'a str,
    pub(crate) class: ClientClass,
    pub(crate) answered: Answered,
    pub(crate) delay: Duration,
    pub(crate) needs_server: bool,
    pub(crate) from_cache: bool,
    pub(crate) would: Option<&'static str>,
    /// The rule by which it did not reach the server.
    pub(crate) rule: Option<&'static str>,
    /// How a connection that is passed through ended.
    pub(crate) outcome: Option<&'static str>,
}

impl Part<'_> {
    /// Appends one line. Formats the id with `Display`, so that it needs no string of its own.
    fn write(&self, out: &mut String, request: &clf::Entry<'_>, id: &dyn Display) {
        clf::write(out, request);
        let (class, answered) = (self.class.as_str(), self.answered.as_str());
        let millis = self.delay.as_millis();
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            " id={id} site={} class={class} answer={answered} delay={}.{:03}",
            self.site,
            millis / 1000,
            millis % 1000
        );
        if self.needs_server {
            out.push_str(" needs=server");
        }
        if self.from_cache {
            out.push_str(" from=cache");
        }
        let named = [(" rule=", self.rule), (" would=", self.would), (" outcome=", self.outcome)];
        for (name, value) in named {
            if let Some(value) = value {
                out.push_str(name);
                out.push_str(value);
            }
        }
        out.push('\n');
    }
}

impl Entry {
    pub(crate) fn combined(&self) -> clf::Entry<'_> {
        let text = clf::Entry::from(&self.request);
        clf::Entry {
            referer: self.raw.referer.as_deref().or(text.referer),
            agent: self.raw.agent.as_deref().or(text.agent),
            ..text
        }
    }

    pub(crate) fn part(&self) -> Part<'_> {
        Part {
            site: &self.site,
            class: self.class,
            answered: self.answered,
            delay: self.delay,
            needs_server: self.needs_server,
            from_cache: self.from_cache,
            would: self.would,
            rule: self.rule,
            outcome: None,
        }
    }

    #[cfg(test)]
    fn line(&self) -> String {
        let mut line = String::new();
        self.part().write(&mut line, &self.combined(), &self.id);
        line
    }
}

/// Waiting lines are written once they fill this many bytes.
const FULL: usize = 64 << 10;

/// An open access log.
///
/// [`AccessLog::run`] writes lines in batches, after the requests that are ready now have been answered: under load
/// that is one write for many lines, otherwise one for each, and no line waits for a timer. A kill loses the lines of
/// requests answered in that very moment.
#[derive(Debug)]
pub(crate) struct AccessLog {
    log: Mutex<Log>,
    waiting: Notify,
}

#[derive(Debug)]
struct Log {
    file: File,
    lines: String,
    /// The last line may be incomplete: the next line must not be appended to it.
    torn: bool,
    clock: Clock,
    repeats: Repeats,
}

impl Log {
    fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if self.torn {
            self.lines.insert(0, '\n');
        }
        let written = self.file.write_all(self.lines.as_bytes());
        self.lines.clear();
        self.torn = written.is_err();
        if let Err(error) = written {
            self.repeats.warn(&self.clock, "access log", "", move |count| {
                tracing::error!(
                    %error,
                    count,
                    "the access log could not be written, lines are lost: look for a full disk"
                );
            });
        }
    }
}

impl AccessLog {
    pub(crate) fn open(path: &Path, clock: &Clock, repeats: &Repeats) -> std::io::Result<Self> {
        let file = private::options().append(true).create(true).open(path)?;
        let (clock, repeats) = (clock.clone(), repeats.clone());
        let log = Mutex::new(Log { file, lines: String::new(), torn: false, clock, repeats });
        Ok(Self { log, waiting: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line.
    pub(crate) fn add(&self, request: &clf::Entry<'_>, id: &dyn Display, part: &Part<'_>) {
        let mut log = self.lock();
        let was_empty = log.lines.is_empty();
        part.write(&mut log.lines, request, id);
        if log.lines.len() >= FULL {
            log.flush();
        } else if was_empty {
            self.waiting.notify_one();
        }
    }

    /// Writes the waiting lines.
    pub(crate) fn flush(&self) {
        self.lock().flush();
    }

    /// Continues in the file at this path. It may be a new file: the old one may have been moved away.
    pub(crate) fn reopen(&self, path: &Path) -> std::io::Result<()> {
        let file = private::options().append(true).create(true).open(path)?;
        let mut log = self.lock();
        log.flush();
        (log.file, log.torn) = (file, false);
        Ok(())
    }

    /// Writes lines as they come, until aborted.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.waiting.notified().await;
            self.flush();
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;

    use super::*;

    #[test]
    fn the_log_is_combined_and_can_be_read_back() {
        let request = Arrival {
            at: Wall::from_secs(1_330_784_797),
            utc_offset: -8 * 3600,
            client: "10.0.0.9".into(),
            method: "GET".into(),
            target: "/\" id=forged class=human\n\u{202e}".into(),
            status: 200,
            bytes: 257,
            referer: None,
            agent: Some("\u{fffd}".into()),
        };
        let entry = Entry {
            request: request.clone(),
            raw: Raw { agent: Some(b"\xff".to_vec()), ..Raw::default() },
            id: "a-7".into(),
            site: "blog".into(),
            class: ClientClass::Api,
            answered: Answered::Held,
            delay: Duration::from_millis(5002),
            needs_server: true,
            from_cache: true,
            would: None,
            rule: Some("wakes-per-client"),
        };
        let line = entry.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.is_ascii() && line.contains("\"\\xFF\""), "{line}");
        let Ok(nightwatt_traffic::record::Line::Request(record)) =
            clf::parse(line.trim_end().as_bytes())
        else {
            panic!("not Combined: {line}")
        };
        assert_eq!(record.to_arrival(), request);
        let extras = Extras::read(line.trim_end()).unwrap();
        let expected = Extras {
            id: "a-7".into(),
            client: "10.0.0.9".into(),
            class: "api".into(),
            answer: "held".into(),
            delay_s: 5.002,
            needs_server: true,
            from_cache: true,
            rule: Some("wakes-per-client".into()),
        };
        assert_eq!(extras, expected);
    }
}
