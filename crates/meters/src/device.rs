//! Devices that speak HTTP, for tests: what they answer is up to the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::integration::Reading;
use nightwatt_host::Host;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::MeterError;
use crate::meter::{Meter, Opening, Readings, Turn};

/// A question as it came.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }
}

/// A header line of devices that hang up after an answer without saying so.
pub(crate) const HANGS_UP: &str = "X-Habit: hangs up\r\n";

/// An answer with a status, further header lines and a body.
pub(crate) fn status(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

/// JSON.
pub(crate) fn json(body: &str) -> String {
    status(200, "Content-Type: application/json\r\n", body)
}

/// The same in chunks of a few bytes.
pub(crate) fn chunked(body: &str) -> String {
    let chunks = body
        .as_bytes()
        .chunks(5)
        .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap()));
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{}0\r\n\r\n", chunks.collect::<String>())
}

type Answers = dyn Fn(&ReceivedRequest) -> String + Send + Sync;

struct Shared {
    answers: Box<Answers>,
    asked: Mutex<Vec<ReceivedRequest>>,
    connections: AtomicUsize,
    over: std::sync::atomic::AtomicBool,
}

/// A device on this machine.
pub(crate) struct Device {
    address: String,
    place: std::net::SocketAddr,
    shared: Arc<Shared>,
}

impl Device {
    pub(crate) fn http(
        answers: impl Fn(&ReceivedRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start("http", answers, |stream, shared| serve(stream, &shared))
    }

    /// One that takes questions and answers none.
    pub(crate) fn silent() -> Self {
        Self::start(
            "http",
            |_| String::new(),
            |mut stream, _| {
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            },
        )
    }

    /// Over TLS, with that certificate and key in PEM.
    pub(crate) fn https(
        identity: &Identity,
        answers: impl Fn(&ReceivedRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        let chain = vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        Self::start("https", answers, move |stream, shared| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            serve(rustls::StreamOwned::new(connection, stream), &shared);
        })
    }

    fn start(
        scheme: &str,
        answers: impl Fn(&ReceivedRequest) -> String + Send + Sync + 'static,
        speak: impl Fn(TcpStream, Arc<Shared>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answers: Box::new(answers),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            over: false.into(),
        });
        let (speak, theirs) = (Arc::new(speak), Arc::clone(&shared));
        std::thread::spawn(move || {
            loop {
                let Ok((stream, _)) = listener.accept() else { continue };
                if theirs.over.load(Ordering::Acquire) {
                    // Before the stream: its end is what `drop` waits for.
                    drop(listener);
                    return;
                }
                theirs.connections.fetch_add(1, Ordering::Relaxed);
                let (speak, shared) = (Arc::clone(&speak), Arc::clone(&theirs));
                std::thread::spawn(move || speak(stream, shared));
            }
        });
        Self { address: format!("{scheme}://{place}"), place, shared }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn asked(&self) -> Vec<ReceivedRequest> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        // The listener notices by being called once more, and is closed when that is.
        if let Ok(mut last) = TcpStream::connect(self.place) {
            let _ = last.read(&mut [0]);
        }
    }
}

/// Answers until the other end hangs up.
fn serve(stream: impl Read + Write, shared: &Shared) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = question(&mut stream) {
        shared.asked.lock().unwrap().push(asked.clone());
        let answer = (shared.answers)(&asked);
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
        let _ = stream.get_mut().flush();
        // What is no answer ends the connection, and so does a device with that habit.
        if !answer.starts_with("HTTP/1.1") || answer.contains(HANGS_UP) {
            return;
        }
    }
}

fn question(stream: &mut impl BufRead) -> Option<ReceivedRequest> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut asked = ReceivedRequest { method, path, headers, body: String::new() };
    let length = asked.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}

/// A certificate and its key, in PEM, for `127.0.0.1`.
pub(crate) struct Identity {
    pub(crate) certificate: std::path::PathBuf,
    pub(crate) key: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Identity {
    /// Signed by itself, made by the program `openssl`; `None` if that is not there.
    pub(crate) fn self_signed() -> Option<Self> {
        Self::made("CA:FALSE")
    }

    /// The same, and it calls itself an authority.
    pub(crate) fn own_authority() -> Option<Self> {
        Self::made("CA:TRUE")
    }

    fn made(constraint: &str) -> Option<Self> {
        nightwatt_needs::program("openssl")?;
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-days", "2", "-subj", "/CN=bmc"]);
        openssl.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
        openssl.args(["-addext", &format!("basicConstraints=critical,{constraint}")]);
        openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        let made = openssl.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(Self { certificate, key, _folder: folder })
    }
}

/// Opens the meter that a text names.
pub(crate) fn open(text: &str) -> Opening {
    crate::open(&Host::default(), &text.parse()?)
}

/// Why a meter cannot be opened.
pub(crate) fn refused(text: &str) -> MeterError {
    open(text).map(drop).unwrap_err()
}

/// What a meter says in one turn of ten seconds.
pub(crate) fn poll(meter: &mut dyn Meter) -> Result<Vec<(String, Reading)>, MeterError> {
    let stop = Stop::new().unwrap();
    let turn = Turn { stop: &stop, until: monotonic() + Duration::from_secs(10) };
    let mut readings = Readings::default();
    let result = meter.read(&turn, &mut readings);
    readings.outcome(result)?;
    let name = |channel: usize| meter.channels()[channel].name.clone();
    Ok(readings.iter().map(|&(channel, _, reading)| (name(channel), reading)).collect())
}

/// A file with one line, for passwords.
pub(crate) fn line(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{text}\n")).unwrap();
    file
}
