//! A client that writes what it is told and reads what comes, with the debts of virtual time.

use std::fmt::Write as _;
use std::net::SocketAddr;

use nightwatt_clock::{Clock, Debt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::stage::{Stage, settle, watched};
use crate::wire::{Ahead, Fields};

pub(crate) const BROWSER: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
pub(crate) const CRAWLER: &str =
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// A request to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    line: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

pub(crate) fn get(target: &str) -> Ask {
    ask("GET", target)
}

pub(crate) fn ask(method: &str, target: &str) -> Ask {
    let fields = vec![("Host".to_owned(), "blog".to_owned())];
    Ask { line: format!("{method} {target} HTTP/1.1"), fields, body: Vec::new() }
}

pub(crate) fn post(target: &str, body: &str) -> Ask {
    ask("POST", target).field("Content-Length", &body.len().to_string()).with_body(body)
}

impl Ask {
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Of another host.
    pub(crate) fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.fields[0].1);
        self
    }

    pub(crate) fn by_http10(mut self) -> Self {
        self.line = self.line.replace("HTTP/1.1", "HTTP/1.0");
        self
    }

    pub(crate) fn is_http10(&self) -> bool {
        self.line.ends_with("HTTP/1.0")
    }

    pub(crate) fn without_host(mut self) -> Self {
        self.fields.retain(|(name, _)| name != "Host");
        self
    }

    pub(crate) fn with_body(mut self, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self
    }

    pub(crate) fn agent(self, agent: &str) -> Self {
        self.field("User-Agent", agent)
    }

    /// A person opens a page.
    pub(crate) fn by_browser(self) -> Self {
        self.agent(BROWSER).field("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
    }

    pub(crate) fn is_head(&self) -> bool {
        self.line.starts_with("HEAD ")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend(&self.body);
        bytes
    }
}

/// An answer as the client got it.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    /// The body came to its proper end.
    pub(crate) whole: bool,
}

impl Got {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    pub(crate) fn text(&self) -> &str {
        assert!(self.whole, "the answer was cut: {self:?}");
        std::str::from_utf8(&self.body).unwrap()
    }

    /// How nightwatt says it was answered.
    pub(crate) fn answer(&self) -> &str {
        self.field("nightwatt-answer").unwrap_or("-")
    }

    /// Status and how it was answered: what most stories are about.
    pub(crate) fn how(&self) -> (u16, &str) {
        (self.status, self.answer())
    }

    pub(crate) fn seconds(&self, name: &str) -> u64 {
        self.field(name).unwrap_or_else(|| panic!("no {name}: {self:?}")).parse().unwrap()
    }
}

/// The connection of a client at 127.0.0.2, of which the proxy knows nothing yet: it has shown no wrong
/// password, and was refused nothing.
pub(crate) async fn another(proxy: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let stream = socket.connect(proxy).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// What a client's connection runs over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug> Stream for T {}

/// A connection to the proxy.
#[derive(Debug)]
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    ahead: Ahead,
    clock: Clock,
    /// Held while a request is unanswered.
    owes: Option<Debt>,
    head_only: bool,
    asked: String,
}

impl Client {
    pub(crate) async fn connect(stage: &Stage) -> Self {
        Self::connect_to(stage, stage.address()).await
    }

    pub(crate) async fn connect_to(stage: &Stage, address: SocketAddr) -> Self {
        let owes = stage.clock.owe();
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        drop(owes);
        Self::on(stage, Box::new(stream))
    }

    /// On a connection that there is.
    pub(crate) fn on(stage: &Stage, stream: Box<dyn Stream>) -> Self {
        let clock = stage.clock.clone();
        Self {
            stream,
            ahead: Ahead::default(),
            clock,
            owes: None,
            head_only: false,
            asked: String::new(),
        }
    }

    /// Sends a request and owes its answer from now on.
    pub(crate) async fn send(&mut self, ask: &Ask) {
        self.head_only = ask.is_head();
        self.asked.clone_from(&ask.line);
        self.say(ask.bytes()).await;
    }

    /// Sends bytes and owes an answer from now on.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        if self.owes.is_none() {
            self.owes = Some(self.clock.owe());
        }
        // A proxy that has refused already may have closed: the answer tells.
        let _ = watched("the proxy to take bytes", self.stream.write_all(bytes.as_ref())).await;
        let _ = self.stream.flush().await;
    }

    /// No more will come from this side.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Owes nothing any more: time passes while the proxy works.
    pub(crate) fn lets_time_pass(&mut self) {
        self.owes = None;
    }

    /// The next answer, or nothing if the proxy closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Got> {
        if self.owes.is_none() {
            self.owes = Some(self.clock.owe());
        }
        let what = format!("an answer to {}", self.asked);
        let got = watched(&what, self.read()).await;
        settle(&self.clock).await;
        self.owes = None;
        got
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Got {
        self.next().await.expect("an answer")
    }

    /// The next answer's head; from then on nothing is owed. Its body is left in the stream.
    pub(crate) async fn head(&mut self) -> Got {
        let got = watched("a head", self.read_head()).await.expect("an answer");
        settle(&self.clock).await;
        self.owes = None;
        got
    }

    async fn read_head(&mut self) -> Option<Got> {
        loop {
            let head = self.ahead.until(&mut self.stream, b"\r\n\r\n").await?;
            let (line, fields) = Fields::of_head(&head);
            let status = line.split(' ').nth(1)?.parse().ok()?;
            // Interim answers are not what was asked for.
            if !(100..200).contains(&status) || status == 101 {
                return Some(Got { status, fields, body: Vec::new(), whole: true });
            }
        }
    }

    async fn read(&mut self) -> Option<Got> {
        let mut got = self.read_head().await?;
        if !self.head_only && !matches!(got.status, 204 | 304) {
            (got.body, got.whole) = self.ahead.body(&mut self.stream, &got.fields, true).await;
        }
        Some(got)
    }

    /// Bytes of a body that comes in parts; nothing when the connection ends.
    pub(crate) async fn part(&mut self) -> Vec<u8> {
        let _owes = self.clock.owe();
        let part = watched("a part of the body", self.ahead.some(&mut self.stream)).await;
        settle(&self.clock).await;
        part
    }

    /// The proxy has closed the connection, and said nothing more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let _owes = self.clock.owe();
        watched("the end of the connection", self.ahead.some(&mut self.stream)).await.is_empty()
    }

    /// Goes away. Time stands still until the proxy can have noticed.
    pub(crate) async fn leave(self) {
        // The task that holds a request of ours is parked on our debt until it forgets us.
        let _still = (self.clock.owe(), self.clock.owe());
        drop(self.stream);
        settle(&self.clock).await;
        settle(&self.clock).await;
    }
}
