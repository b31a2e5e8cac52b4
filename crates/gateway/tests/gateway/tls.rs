//! TLS to clients: programs that people use, and a client of our own where time is virtual.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use nightwatt_gateway::config::{CertificateConfig, Hsts, TlsConfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Client, get, post};
use crate::origin::{ok, status};
use crate::passing::{switches, upgrade};
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Setup, Stage, asleep, awake, secs, settle, watched};

/// A certificate for `blog` and `*.site.example` in this folder, by `openssl`; none if that is not here.
pub(crate) fn certificate(dir: &Path) -> Option<CertificateConfig> {
    if !has("openssl") {
        return None;
    }
    let (chain, key) = (dir.join("chain.pem"), dir.join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "3650", "-subj", "/CN=test", "-addext"])
        .args(["basicConstraints=critical,CA:FALSE", "-addext"])
        .args(["subjectAltName=DNS:blog,DNS:*.site.example", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&chain);
    succeeded(&openssl.output().unwrap());
    Some(CertificateConfig { chain, key, ..CertificateConfig::default() })
}

/// The only site by TLS as well. Clients are told of port 443.
pub(crate) fn by_tls(setup: Setup, certificate: &CertificateConfig) -> Setup {
    let certificate = vec![certificate.clone()];
    setup.with(|config| {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.tls = Some(TlsConfig {
            listen,
            port: Some(443),
            http2: true,
            certificate,
            acme: None,
            client_authorities: Vec::new(),
        });
    })
}

/// A client that believes this certificate only.
pub(crate) async fn secure(stage: &Stage, chain: &Path) -> Client {
    secure_behind(stage, chain, "").await
}

/// The same after these bytes.
async fn secure_behind(stage: &Stage, chain: &Path, header: &str) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(chain).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let _owes = stage.clock.owe();
    let mut stream = TcpStream::connect(stage.tls_address()).await.unwrap();
    stream.write_all(header.as_bytes()).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = "blog".try_into().unwrap();
    let stream = watched("the handshake", connector.connect(name, stream)).await.unwrap();
    Client::on(stage, Box::new(stream))
}

pub(crate) fn curl(stage: &Stage, chain: &Path, path: &str) -> Command {
    let port = stage.tls_address().port();
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "-i",
        "--http1.1",
        "--resolve",
        &format!("blog:{port}:127.0.0.1"),
        "--cacert",
    ])
    .arg(chain)
    .arg(format!("https://blog:{port}{path}"));
    curl
}

#[test]
fn curl_gets_by_tls_what_the_server_says_and_then_what_the_cache_has() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()).filter(|_| has("curl")) else { return };
    by_tls(awake().real(), &made).play(async |stage| {
        // More than the kernel takes at once.
        let page = (0..800_000).map(|line: u32| line.to_string()).collect::<Vec<_>>().join("\n");
        stage.origin.says(ok(&page).field("Cache-Control", "max-age=600"));
        for answer in ["server", "cache"] {
            let got = succeeded(&run(curl(stage, &made.chain, "/page")).await);
            let (head, body) = got.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert!(head.contains(&format!("nightwatt-answer: {answer}")), "{head}");
            assert!(body == page, "{answer}: the body is not what the server said");
        }
        let seen = stage.origin.only();
        assert_eq!(seen.field("x-forwarded-proto"), Some("https"));
        let status = stage.tls();
        assert_eq!(status.listen, [stage.tls_address().to_string()], "not port 0");
        assert_eq!((status.handshakes, status.failures.len()), (2, 0));
        assert_eq!(status.certificates[0].names, ["blog", "*.site.example"]);
        assert_eq!(status.certificates[0].kind, "file");
        assert_eq!(status.certificates[0].renewal, None);
    });
}

#[test]
fn openssl_is_shown_the_certificate_and_speaks_either_version() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    by_tls(awake().real(), &made).play(async |stage| {
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let mut openssl = Command::new("openssl");
            openssl
                .args(["s_client", "-connect", &stage.tls_address().to_string(), version])
                .args(["-servername", "a.site.example", "-verify_return_error", "-verify_hostname"])
                .args(["a.site.example", "-alpn", "h2,http/1.1", "-CAfile"])
                .arg(&made.chain);
            let said = succeeded(&run(openssl).await);
            assert!(said.contains(&format!("New, {name}")), "{said}");
            assert!(said.contains("ALPN protocol: h2"), "{said}");
            assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
        }
    });
}

#[test]
fn handshakes_that_fail_are_counted_by_why() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()).filter(|_| has("curl")) else { return };
    by_tls(awake().real(), &made).play(async |stage| {
        let mut plain = Client::connect_to(stage, stage.tls_address()).await;
        plain.say("GET / HTTP/1.1\r\nHost: blog\r\n\r\n").await;
        // An alert, which is no HTTP.
        assert!(plain.next().await.is_none());
        Client::connect_to(stage, stage.tls_address()).await.leave().await;
        let mut stranger = Command::new("curl");
        stranger.args(["-sS", &format!("https://{}/", stage.tls_address())]);
        assert!(!run(stranger).await.status.success(), "it trusts nobody we know");
        let mut old = Command::new("openssl");
        old.args(["s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-connect"])
            .arg(stage.tls_address().to_string());
        assert!(!run(old).await.status.success());
        watched("the failures to be counted", async {
            while stage.tls().failures.values().sum::<u64>() < 4 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let failures = stage.tls().failures;
        let each: Vec<_> = failures.iter().map(|(why, count)| (why.as_str(), *count)).collect();
        let once = ["left", "not-tls", "nothing-in-common", "refused"].map(|why| (why, 1));
        assert_eq!(each, once);
        assert_eq!(stage.origin.lines(), [""; 0]);
    });
}

#[test]
fn who_says_nothing_in_a_handshake_is_closed_after_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    by_tls(awake(), &made).play(async |stage| {
        let mut silent = Client::connect_to(stage, stage.tls_address()).await;
        let began = stage.clock.now().mono;
        silent.lets_time_pass();
        stage.clock.sleep(secs(9)).await;
        assert_eq!(stage.tls().failures.len(), 0);
        stage.clock.sleep(secs(2)).await;
        assert!(silent.is_closed().await);
        assert_eq!(stage.tls().failures["timeout"], 1);
        assert!(stage.clock.now().mono.since(began) < secs(30), "it was not the head's time");
    });
}

#[test]
fn plain_http_is_sent_on_to_tls_but_for_what_is_exempt() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    let redirecting = by_tls(asleep(), &made).site(|site| {
        site.redirect_to_https = true;
        let max_age = secs(86_400);
        site.hsts = Some(Hsts { max_age, include_subdomains: true, preload: false });
    });
    redirecting.play(async |stage| {
        let got = stage.ask(post("/form?a=b", "x")).await;
        assert_eq!(got.how(), (308, "redirect"));
        assert_eq!(got.field("location"), Some("https://blog/form?a=b"));
        assert_eq!(got.field("strict-transport-security"), None, "RFC 6797, 7.2");
        assert!(!stage.power.is_up(), "that wakes nobody");
        let proof = "/.well-known/acme-challenge/token";
        assert_eq!(stage.ask(get(proof)).await.how(), (200, "held"));
        let mut client = secure(stage, &made.chain).await;
        for answer in ["server", "cache"] {
            client.send(&get("/page")).await;
            let got = client.answer().await;
            assert_eq!(got.how(), (200, answer));
            let told = got.field("strict-transport-security");
            assert_eq!(told, Some("max-age=86400; includeSubDomains"));
        }
        assert_eq!(stage.ask(get("/page")).await.how(), (308, "redirect"), "by the short way");
        assert_eq!(stage.status().answers["redirect"], 2);
    });
}

#[test]
fn what_a_server_says_to_plain_http_is_not_said_to_who_came_by_tls() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    by_tls(awake(), &made).play(async |stage| {
        // As servers do that want to be asked by TLS only.
        stage.origin.script(|seen| match seen.field("x-forwarded-proto") {
            Some("https") => ok("welcome").field("Cache-Control", "max-age=600").acts(),
            _ => status(301, "").field("Location", "https://blog/").acts(),
        });
        assert_eq!(stage.ask(get("/")).await.how(), (301, "server"));
        assert_eq!(stage.ask(get("/")).await.how(), (301, "cache"));
        let mut client = secure(stage, &made.chain).await;
        for answer in ["server", "cache"] {
            client.send(&get("/")).await;
            assert_eq!(client.answer().await.how(), (200, answer));
        }
        // And what clients say of themselves is not believed.
        let forged = get("/").field("X-Forwarded-Proto", "https");
        assert_eq!(stage.ask(forged).await.how(), (301, "cache"));
    });
}

#[test]
fn a_proxy_that_is_believed_speaks_tls_for_its_clients() {
    let trusting = awake().with(|config| {
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
        config.site[0].redirect_to_https = true;
    });
    trusting.play(async |stage| {
        assert_eq!(stage.ask(get("/")).await.how(), (308, "redirect"));
        let spoken = || get("/").field("X-Forwarded-Proto", "https");
        assert_eq!(stage.ask(spoken()).await.how(), (200, "server"));
        assert_eq!(stage.ask(spoken()).await.how(), (200, "cache"));
        assert_eq!(stage.ask(get("/")).await.how(), (308, "redirect"));
    });
}

#[test]
fn a_balancer_says_whose_connection_it_is_before_the_handshake() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    let balanced = by_tls(awake(), &made)
        .with(|config| config.proxy_protocol = vec!["127.0.0.1".parse().unwrap()]);
    balanced.play(async |stage| {
        let header = "PROXY TCP4 192.0.2.7 192.0.2.1 5 443\r\n";
        let mut client = secure_behind(stage, &made.chain, header).await;
        client.send(&get("/")).await;
        assert_eq!(client.answer().await.how(), (200, "server"));
        assert_eq!(stage.origin.only().field("x-forwarded-for"), Some("192.0.2.7"));
    });
}

#[test]
fn a_websocket_goes_through_tls_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    by_tls(awake(), &made).play(async |stage| {
        stage.origin.script(|_| switches());
        let mut client = secure(stage, &made.chain).await;
        client.send(&upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        for word in ["one", "two"] {
            client.say(word).await;
            assert_eq!(client.part().await, word.as_bytes());
        }
        client.finish().await;
        assert!(client.is_closed().await);
        settle(&stage.clock).await;
    });
}
