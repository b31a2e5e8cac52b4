//! Servers that speak TLS: whom the proxy believes, and whom not.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nightwatt_clock::Clock;
use nightwatt_gateway::config::OriginTls;
use nightwatt_host::tls;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::client::{get, post};
use crate::origin::ok;
use crate::passing::{switches, upgrade};
use crate::passthrough_programs::{has, port, succeeded};
use crate::stage::{NOON, Setup, awake};

/// A certificate without an authority, and its key.
pub(crate) struct Made {
    dir: tempfile::TempDir,
}

impl Made {
    /// For this name, and so many days from now; none if there is no openssl here.
    pub(crate) fn new(name: &str, days: &str) -> Option<Self> {
        let made = Self { dir: tempfile::tempdir().unwrap() };
        let request = made.dir.path().join("request");
        let (chain, key) = (made.chain(), made.key());
        if !has("openssl") {
            return None;
        }
        let openssl = |args: &[&str], files: &[(&str, &Path)]| {
            let mut openssl = Command::new("openssl");
            openssl.args(args);
            for (option, file) in files {
                openssl.arg(option).arg(file);
            }
            succeeded(&openssl.output().unwrap());
        };
        let names = format!("subjectAltName={name}");
        let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let asks = [&["req"], &kind[..], &["-subj", "/CN=test", "-addext", &names]].concat();
        openssl(&asks, &[("-keyout", &key), ("-out", &request)]);
        let signs = ["x509", "-req", "-days", days, "-copy_extensions", "copy"];
        openssl(&signs, &[("-in", &request), ("-signkey", &key), ("-out", &chain)]);
        Some(made)
    }

    /// For this name, and that of an authority, as `openssl req -x509` makes them.
    fn of_authority(name: &str) -> Option<Self> {
        let made = Self::new(name, "10")?;
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-subj", "/CN=test", "-addext"]);
        openssl.arg(format!("subjectAltName={name}"));
        openssl.arg("-key").arg(made.key()).arg("-out").arg(made.chain());
        succeeded(&openssl.output().unwrap());
        Some(made)
    }

    pub(crate) fn chain(&self) -> PathBuf {
        self.dir.path().join("chain.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    fn fingerprint(&self) -> String {
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(self.chain());
        succeeded(&openssl.output().unwrap())
    }

    /// Ends TLS there, and passes on what comes to the server.
    fn serve(&self, listener: std::net::TcpListener, server: SocketAddr) {
        self.serve_as(None, listener, server);
    }

    /// The same, for who asks by this name; others are refused with an alert.
    fn serve_only(&self, name: &str, listener: std::net::TcpListener, server: SocketAddr) {
        self.serve_as(Some(name), listener, server);
    }

    fn serve_as(&self, name: Option<&str>, listener: std::net::TcpListener, server: SocketAddr) {
        let acceptor = self.acceptor(name, &[]);
        let listener = TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // Who is not believed is left without a word.
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                });
            }
        });
    }

    /// Ends TLS, for who asks by this name, and agrees upon one of these protocols.
    pub(crate) fn acceptor(&self, name: Option<&str>, protocols: &[&[u8]]) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = CertificateDer::from_pem_file(self.chain()).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.key()).unwrap();
        let key = CertifiedKey::from_der(vec![chain], key, &provider).unwrap();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Known { name: name.map(str::to_owned), key: key.into() }));
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// The site's server speaks TLS by this certificate, and is known by `told`.
    fn before(&self, setup: Setup, told: Option<OriginTls>) -> Setup {
        let (listener, at) = port();
        let own = Self::clone_of(self);
        setup.site(move |site| {
            own.serve(listener, site.origin.authority.parse().unwrap());
            site.origin.by_tls = true;
            site.origin.authority = format!("localhost:{}", at.port());
            site.origin_tls = told;
        })
    }

    fn clone_of(made: &Self) -> Self {
        let copy = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::copy(made.chain(), copy.chain()).unwrap();
        std::fs::copy(made.key(), copy.key()).unwrap();
        copy
    }
}

/// A certificate, for one name or for any.
#[derive(Debug)]
struct Known {
    name: Option<String>,
    key: Arc<CertifiedKey>,
}

impl ResolvesServerCert for Known {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_it = self.name.is_none() || hello.server_name() == self.name.as_deref();
        is_it.then(|| Arc::clone(&self.key))
    }
}

/// What the proxy answers, and whether the server was asked.
fn asked(made: &Made, told: Option<OriginTls>) -> (u16, bool) {
    let mut outcome = (0, false);
    made.before(awake().real(), told).play(async |stage| {
        stage.origin.says(ok("page"));
        let got = stage.ask(get("/")).await;
        assert_eq!(stage.state(), "awake", "a server that is not believed does not sleep");
        outcome = (got.status, !stage.origin.seen().is_empty());
    });
    outcome
}

fn by_ca(made: &Made) -> OriginTls {
    OriginTls { ca: Some(made.chain()), ..OriginTls::default() }
}

fn by_fingerprint(made: &Made) -> OriginTls {
    let text = format!("fingerprint = \"{}\"", made.fingerprint().trim());
    toml::from_str(&text).unwrap()
}

const ANSWERED: (u16, bool) = (200, true);
const REFUSED: (u16, bool) = (502, false);

#[test]
fn a_server_is_believed_if_somebody_trusted_vouches_for_it() {
    let Some(made) = Made::new("DNS:localhost", "10") else { return };
    assert_eq!(asked(&made, Some(by_ca(&made))), ANSWERED);
    assert_eq!(asked(&made, Some(by_fingerprint(&made))), ANSWERED);
    assert_eq!(asked(&made, None), REFUSED, "none of the system's authorities does");
    let other = Made::new("DNS:localhost", "10").unwrap();
    assert_eq!(asked(&made, Some(by_ca(&other))), REFUSED);
    assert_eq!(asked(&made, Some(by_fingerprint(&other))), REFUSED);
}

#[test]
fn a_certificate_that_is_over_or_for_another_name_is_refused_unless_told_otherwise() {
    let anybody = OriginTls { verify: false, ..OriginTls::default() };
    let Some(expired) = Made::new("DNS:localhost", "-1") else { return };
    assert_eq!(asked(&expired, Some(by_ca(&expired))), REFUSED);
    assert_eq!(asked(&expired, Some(anybody.clone())), ANSWERED);
    assert_eq!(asked(&expired, Some(by_fingerprint(&expired))), ANSWERED);
    let foreign = Made::new("DNS:server.example", "10").unwrap();
    assert_eq!(asked(&foreign, Some(by_ca(&foreign))), REFUSED);
    let named = OriginTls { name: Some("server.example".to_owned()), ..by_ca(&foreign) };
    assert_eq!(asked(&foreign, Some(named)), ANSWERED);
    assert_eq!(asked(&foreign, Some(anybody)), ANSWERED);
}

#[test]
fn an_authority_does_not_vouch_for_itself_and_it_is_said_what_to_write_instead() {
    let Some(made) = Made::of_authority("DNS:localhost") else { return };
    assert_eq!(asked(&made, Some(by_ca(&made))), REFUSED);
    assert_eq!(asked(&made, Some(by_fingerprint(&made))), ANSWERED);
    let clock = Clock::virtual_at(NOON, 0);
    let why = clock.runtime().unwrap().block_on(async {
        let (ours, theirs) = tokio::io::duplex(16 << 10);
        let acceptor = made.acceptor(None, &[]);
        tokio::spawn(async move { acceptor.accept(theirs).await.err() });
        let connector = TlsConnector::from(tls::config(Some(&made.chain()), None).unwrap());
        let error = connector.connect("localhost".try_into().unwrap(), ours).await.unwrap_err();
        tls::distrust(&error).unwrap()
    });
    assert!(why.contains("CA:TRUE") && why.contains("`fingerprint`"), "{why}");
}

#[test]
fn a_server_that_refuses_handshakes_is_awake_and_one_that_is_asked_by_its_name_answers() {
    let Some(made) = Made::new("DNS:server.example", "10") else { return };
    for (name, told) in [(None, 502), (Some("server.example"), 200)] {
        let (listener, at) = port();
        let own = Made::clone_of(&made);
        let tls = OriginTls { name: name.map(str::to_owned), ..by_ca(&made) };
        let setup = awake().real().site(move |site| {
            own.serve_only("server.example", listener, site.origin.authority.parse().unwrap());
            site.origin.by_tls = true;
            site.origin.authority = format!("localhost:{}", at.port());
            site.origin.name.clone_from(&tls.name);
            site.origin_tls = Some(tls);
        });
        setup.probed_by_http().play(async |stage| {
            assert_eq!(stage.state(), "awake", "{name:?}");
            assert_eq!(stage.ask(post("/", "x")).await.status, told, "{name:?}");
            assert_eq!(stage.commands(), (0, 0));
        });
    }
}

#[test]
fn a_server_without_tls_where_tls_is_expected_is_no_server_that_sleeps() {
    let (listener, at) = port();
    let setup = awake().real().site(move |site| {
        let listener = TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // As web servers answer a handshake at the wrong port.
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
        });
        site.origin.by_tls = true;
        site.origin.authority = at.to_string();
    });
    setup.play(async |stage| {
        let got = stage.ask(get("/")).await;
        assert_eq!((got.status, stage.state().as_str()), (502, "awake"));
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn a_server_that_speaks_tls_is_probed_and_spoken_to_over_kept_and_switched_connections() {
    let Some(made) = Made::new("DNS:localhost", "10") else { return };
    // Before the other change, so that it is probed by what is configured in the end.
    let setup = made.before(awake().real().probed_by_http(), Some(by_ca(&made)));
    setup.play(async |stage| {
        stage.origin.says(ok("page"));
        for _ in 0..3 {
            assert_eq!(stage.ask(post("/", "x")).await.how(), (200, "server"));
        }
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        client.say("echo").await;
        assert_eq!(client.part().await, b"echo");
    });
}
