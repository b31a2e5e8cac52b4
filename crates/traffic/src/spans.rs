//! A parsed line as places in it.

use nightwatt_energy::time::Wall;

use crate::record::{BadRequest, Escapes, Field, Line, Record};

/// From and to, in bytes of the line: no line has as many as 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Span {
    pub(crate) const fn new(from: usize, to: usize) -> Self {
        Self { from: from as u32, to: to as u32 }
    }

    /// Where a part of a line is in it.
    pub(crate) fn within(line: &[u8], part: &[u8]) -> Self {
        let from = part.as_ptr().addr() - line.as_ptr().addr();
        Self::new(from, from + part.len())
    }

    pub(crate) fn of_text(self, line: &str) -> &str {
        &line[self.from as usize..self.to as usize]
    }

    pub(crate) fn of(self, line: &[u8]) -> &[u8] {
        &line[self.from as usize..self.to as usize]
    }
}

/// Fields that have something to undo, as bits of [`Spans::escaped`].
pub(crate) const TARGET: u8 = 1;
pub(crate) const REFERER: u8 = 1 << 1;
pub(crate) const AGENT: u8 = 1 << 2;
/// The fields do not stand in the order of Combined.
pub(crate) const APART: u8 = 1 << 3;

/// A parsed line as places in it.
///
/// Not the fields themselves: so a reader can look for the next good line in a buffer that it
/// refills, and lend the fields only when it has found one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spans {
    pub(crate) at: Wall,
    pub(crate) utc_offset: i32,
    pub(crate) client: Span,
    pub(crate) user: Span,
    pub(crate) request: Span,
    /// Method, target and protocol, where the request field is an HTTP request. An empty method is that of a log
    /// that has no field for it.
    pub(crate) http: Option<[Span; 3]>,
    /// Query of the target where the format has it apart; else empty.
    pub(crate) query: Span,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) referer: Span,
    pub(crate) agent: Span,
    /// Which of target, referer and agent are not text as they stand.
    pub(crate) escaped: u8,
    /// How the log writes what it cannot write as it is.
    pub(crate) escapes: Escapes,
    /// Likewise in agents.
    pub(crate) agent_escapes: Escapes,
    /// Whether the line has a chain of forwarded addresses.
    pub(crate) has_chain: bool,
}

impl Spans {
    /// The same in a line that has this many bytes more in front.
    pub(crate) fn moved(mut self, by: usize) -> Self {
        let http = self.http.iter_mut().flatten();
        let own = [
            &mut self.client,
            &mut self.user,
            &mut self.request,
            &mut self.query,
            &mut self.referer,
            &mut self.agent,
        ];
        for span in own.into_iter().chain(http) {
            *span = Span { from: span.from + by as u32, to: span.to + by as u32 };
        }
        self
    }

    /// Whether the line holds an HTTP request.
    pub(crate) const fn is_request(&self) -> bool {
        self.http.is_some()
    }

    /// Whether there is an agent, given or not.
    pub(crate) const fn has_agent(&self) -> bool {
        self.agent.from < self.agent.to
    }

    /// The fields of the line this was found in.
    pub(crate) fn cut<'a>(&self, line: &'a [u8]) -> Line<'a> {
        match self.http {
            Some(_) => Line::Request(self.cut_record(line)),
            None => Line::Bad(BadRequest {
                at: self.at,
                utc_offset: self.utc_offset,
                client: ascii(line, self.client),
                request: self.field(line, self.request),
                status: self.status,
                bytes: self.bytes,
            }),
        }
    }

    /// The fields of a line with a request; without one, its target is empty.
    pub(crate) fn cut_record<'a>(&self, line: &'a [u8]) -> Record<'a> {
        let [method, target, protocol] = self.http.unwrap_or_default();
        Record {
            at: self.at,
            utc_offset: self.utc_offset,
            client: ascii(line, self.client),
            user: self.field(line, self.user).given(),
            // A log without a field for the method is one of pages.
            method: if method == Span::default() { "GET" } else { known(line, method) },
            target: self.target(line, target),
            protocol: known(line, protocol),
            status: self.status,
            bytes: self.bytes,
            referer: self.field(line, self.referer).given(),
            agent: self.agent(line).given(),
        }
    }

    pub(crate) fn field<'a>(&self, line: &'a [u8], span: Span) -> Field<'a> {
        Field { raw: span.of(line), query: &[], escapes: self.escapes }
    }

    pub(crate) fn target<'a>(&self, line: &'a [u8], target: Span) -> Field<'a> {
        Field { query: self.query.of(line), ..self.field(line, target) }
    }

    pub(crate) fn agent<'a>(&self, line: &'a [u8]) -> Field<'a> {
        Field { escapes: self.agent_escapes, ..self.field(line, self.agent) }
    }
}

/// As [`ascii`], quick for what most requests have.
fn known(line: &[u8], span: Span) -> &str {
    match span.of(line) {
        b"GET" => "GET",
        b"HTTP/1.1" => "HTTP/1.1",
        b"HTTP/2.0" => "HTTP/2.0",
        b"" => "",
        _ => ascii(line, span),
    }
}

/// A field that was checked to be ASCII when it was found.
fn ascii(line: &[u8], span: Span) -> &str {
    std::str::from_utf8(span.of(line)).unwrap_or_default()
}
