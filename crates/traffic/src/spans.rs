//! A parsed line as places in it.

use nightwatt_model::time::Wall;

use crate::record::{BadRequest, Escapes, Field, Line, Record};

/// From and to, in bytes of the line.
pub(crate) type Span = (usize, usize);

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
    /// Method, target and protocol, where the request field is an HTTP request.
    pub(crate) http: Option<[Span; 3]>,
    /// Query of the target where the format has it apart; else empty.
    pub(crate) query: Span,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) referer: Span,
    pub(crate) agent: Span,
    /// How the log writes what it cannot write as it is.
    pub(crate) escapes: Escapes,
    /// Likewise in agents.
    pub(crate) agent_escapes: Escapes,
}

impl Spans {
    /// Whether the line holds an HTTP request.
    pub(crate) const fn is_request(&self) -> bool {
        self.http.is_some()
    }

    /// Whether there is an agent, given or not.
    pub(crate) const fn has_agent(&self) -> bool {
        self.agent.0 < self.agent.1
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

    /// The fields of a line with a request; without one, its method and target are empty.
    pub(crate) fn cut_record<'a>(&self, line: &'a [u8]) -> Record<'a> {
        let [method, target, protocol] = self.http.unwrap_or_default();
        Record {
            at: self.at,
            utc_offset: self.utc_offset,
            client: ascii(line, self.client),
            user: self.field(line, self.user).given(),
            method: ascii(line, method),
            target: self.target(line, target),
            protocol: ascii(line, protocol),
            status: self.status,
            bytes: self.bytes,
            referer: self.field(line, self.referer).given(),
            agent: self.agent(line).given(),
        }
    }

    pub(crate) fn field<'a>(&self, line: &'a [u8], (from, to): Span) -> Field<'a> {
        Field { raw: &line[from..to], query: &[], escapes: self.escapes }
    }

    pub(crate) fn target<'a>(&self, line: &'a [u8], target: Span) -> Field<'a> {
        Field { query: &line[self.query.0..self.query.1], ..self.field(line, target) }
    }

    pub(crate) fn agent<'a>(&self, line: &'a [u8]) -> Field<'a> {
        Field { escapes: self.agent_escapes, ..self.field(line, self.agent) }
    }
}

/// A field that was checked to be ASCII when it was found.
fn ascii(line: &[u8], (from, to): Span) -> &str {
    std::str::from_utf8(&line[from..to]).unwrap_or_default()
}
