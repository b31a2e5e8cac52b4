//! No spelling of a request passes a rule of access, whatever the rule, and none wakes the server.

use std::path::Path;

use http::Request;
use http_body_util::{BodyExt, Full};
use nightwatt_gateway::Config;
use nightwatt_gateway::config::AccessConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::access::{ANN, WRONG, only, password, with};
use crate::access_certificates::{authority, opens_to};
use crate::access_forward::guard;
use crate::client::{Ask, Client, Got, another, ask, get};
use crate::http2::{answer, connect, connection_of_another, read, speaks, with_tls};
use crate::stage::{Setup, Stage, asleep, awake};
use crate::tls::{by_tls, certificate, secure};

/// The site has this rule of access. Beside it is `open.example`, which is for all; both have the same origin.
pub(crate) fn beside_an_open_site(setup: Setup, access: AccessConfig) -> Setup {
    setup.with(move |config: &mut Config| {
        let mut open = config.site[0].clone();
        "open".clone_into(&mut open.name);
        open.hosts = vec!["open.example".to_owned()];
        config.site[0].access = Some(access);
        config.site.push(open);
    })
}

fn closed_and_open(setup: Setup, access: AccessConfig) -> Setup {
    beside_an_open_site(setup, access).site(|site| site.hosts = vec!["closed.example".to_owned()])
}

/// The closed site's host, in all spellings that name it.
const CLOSED: [&str; 8] = [
    "closed.example",
    "CLOSED.Example",
    "closed.example.",
    "closed.example:80",
    "closed.example:",
    "closed.example:8080",
    "CLOSED.EXAMPLE.:80",
    "closed.example:00080",
];

/// Requests for the closed site.
fn spellings() -> Vec<String> {
    let targets =
        ["/", "/%61", "//", "/./", "/../", "/;x", "/a?b=c", "/%2e%2e/", "/A", "/a%00", "/\u{e4}"];
    let fields = [
        "",
        "X-Forwarded-For: 10.0.0.1\r\n",
        "X_Forwarded_For: 10.0.0.1\r\n",
        "x-forwarded_for: 10.0.0.1\r\n",
        "Forwarded: for=10.0.0.1\r\n",
        "X-Real-IP: 10.0.0.1\r\n",
        "True-Client-IP: 10.0.0.1\r\n",
        "X-Forwarded-Host: open.example\r\n",
        "X_Forwarded_Host: open.example\r\n",
        "HTTP_HOST: open.example\r\n",
        "X-Forwarded-Uri: /public\r\n",
        "X-Client-Cert: ann\r\nX-SSL-Client-Verify: SUCCESS\r\n",
        "Remote-User: ann\r\nRemote_User: ann\r\nX-Forwarded-User: ann\r\n",
        "X-Original-URL: /\r\n",
        "Connection: host\r\n",
        "Connection: x-forwarded-for\r\nX-Forwarded-For: 10.0.0.1\r\n",
        "Via: 1.1 nightwatt\r\n",
        "X-HTTP-Method-Override: GET\r\n",
    ];
    let mut requests = Vec::new();
    for host in CLOSED {
        for target in targets {
            requests.push(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            requests
                .push(format!("GET http://{host}{target} HTTP/1.1\r\nHost: open.example\r\n\r\n"));
            requests
                .push(format!("GET HTTPS://{host}{target} HTTP/1.1\r\nHost: open.example\r\n\r\n"));
        }
        for field in fields {
            requests.push(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{field}\r\n"));
            requests.push(format!("GET / HTTP/1.1\r\n{field}Host: {host}\r\n\r\n"));
        }
        for method in ["POST", "OPTIONS", "PURGE", "get", "TRACE", "CONNECT"] {
            requests.push(format!("{method} / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        }
        requests.push(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n"));
        requests.push(format!("GET / HTTP/1.1\r\nHost: open.example\r\nHost: {host}\r\n\r\n"));
        requests.push(format!("GET / HTTP/1.1\r\nHost: {host}\r\nHost: open.example\r\n\r\n"));
        requests.push(format!("GET / HTTP/1.1\r\nHost: {host}, open.example\r\n\r\n"));
        requests.push(format!("GET / HTTP/1.1\r\nHost: open.example@{host}\r\n\r\n"));
        requests.push(format!("GET / HTTP/1.1\r\nHost : {host}\r\n\r\n"));
        requests.push(format!("GET / HTTP/1.1\r\nHost:\r\n {host}\r\n\r\n"));
        let encoded = host.replacen(['c', 'C'], "%63", 1);
        requests.push(format!("GET / HTTP/1.1\r\nHost: {encoded}\r\n\r\n"));
        requests.push(format!("GET http://{encoded}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
    requests
}

/// A connection, by TLS if there is a certificate to believe.
async fn connected(stage: &Stage, chain: Option<&Path>) -> Client {
    match chain {
        Some(chain) => Box::pin(secure(stage, chain)).await,
        None => Client::connect(stage).await,
    }
}

/// How the requests for a site were answered so far.
fn answers_of(stage: &Stage, name: &str) -> Vec<(String, u64)> {
    let sites = stage.running_status().sites;
    let site = sites.into_iter().find(|it| it.name == name).expect("a site of this name");
    site.answers.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Sends the whole table. What names the closed site well is answered with the status `denied`.
async fn all_are_denied(stage: &Stage, chain: Option<&Path>, denied: u16) {
    for request in spellings() {
        let mut client = connected(stage, chain).await;
        client.say(&request).await;
        let status = client.next().await.map_or(0, |got| got.status);
        assert!(matches!(status, 400..=428 | 431 | 501), "{status} to {request}");
    }
    for host in CLOSED {
        let mut client = connected(stage, chain).await;
        client.send(&ask("HEAD", "/").host(host)).await;
        assert_eq!(client.answer().await.how(), (denied, "denied"), "{host}");
    }
    assert_eq!(stage.origin.lines(), [""; 0], "nothing reached the server");
    let taken = answers_of(stage, "open");
    assert!(taken.iter().all(|(how, _)| how == "refused"), "the open site answered: {taken:?}");
}

/// All sites sleep, and none was woken, neither at once nor later.
async fn all_sleep_on(stage: &Stage) {
    stage.at(600).await;
    assert_eq!(stage.commands(), (0, 0));
    for site in stage.running_status().sites {
        assert_eq!(site.state, "asleep", "{}", site.name);
    }
    assert_eq!(stage.origin.lines(), [""; 0]);
}

/// Asks for the closed site as a client that was refused nothing before.
async fn asks_anew(stage: &Stage, ask: Ask) -> Got {
    let owes = stage.clock.owe();
    let stream = another(stage.address()).await;
    drop(owes);
    let mut client = Client::on(stage, Box::new(stream));
    client.send(&ask.host("closed.example")).await;
    client.answer().await
}

#[test]
fn no_spelling_of_a_request_passes_a_rule() {
    closed_and_open(awake(), only(&["10.0.0.0/8"])).play(async |stage| {
        all_are_denied(stage, None, 403).await;
        // The other site is open all the same.
        assert_eq!(stage.ask(get("/").host("open.example")).await.status, 200);
    });
}

#[test]
fn no_spelling_wakes_a_site_for_one_network() {
    closed_and_open(asleep(), only(&["10.0.0.0/8"])).play(async |stage| {
        all_are_denied(stage, None, 403).await;
        all_sleep_on(stage).await;
        let opens = |config: &mut Config| config.site[0].access = Some(only(&["127.0.0.0/8"]));
        stage.reload(opens).await.unwrap();
        assert_eq!(asks_anew(stage, get("/")).await.how(), (200, "held"));
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn no_spelling_wakes_a_site_with_a_password() {
    closed_and_open(asleep(), password()).play(async |stage| {
        all_are_denied(stage, None, 401).await;
        all_sleep_on(stage).await;
        let right = get("/").field("Authorization", ANN);
        assert_eq!(asks_anew(stage, right).await.how(), (200, "held"));
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn no_spelling_wakes_a_site_with_a_service_that_decides() {
    closed_and_open(asleep(), AccessConfig::default()).play(async |stage| {
        let auth = guard(stage, "").await;
        all_are_denied(stage, None, 401).await;
        all_sleep_on(stage).await;
        let asked = auth.seen();
        assert!(asked.len() > CLOSED.len(), "the service was asked {} times", asked.len());
        for seen in asked {
            let host = seen.field("x-forwarded-host").unwrap_or_default().to_ascii_lowercase();
            assert!(host.starts_with("closed.example"), "it was asked about {host}: {seen:?}");
        }
        let right = get("/").field("Cookie", "session=ann");
        assert_eq!(asks_anew(stage, right).await.how(), (200, "held"));
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn no_spelling_wakes_a_site_for_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    let family = authority(dir.path(), "family");
    let rules = move |config: &mut Config| {
        opens_to(config, &family);
        let known = CertificateDer::from_pem_file(&family).unwrap();
        config.tls.as_mut().unwrap().client_authorities = vec![known];
    };
    let setup = closed_and_open(by_tls(asleep(), &made), AccessConfig::default());
    setup.with(rules).play(async |stage| {
        all_are_denied(stage, Some(&made.chain), 403).await;
        all_sleep_on(stage).await;
        // Without TLS there is no certificate.
        assert_eq!(asks_anew(stage, get("/")).await.how(), (403, "denied"));
        assert_eq!(stage.commands(), (0, 0));
        stage.reload(|config| config.site[0].access = None).await.unwrap();
        assert_eq!(asks_anew(stage, get("/")).await.how(), (200, "held"));
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn no_spelling_of_authorization_passes() {
    with(awake(), password()).play(async |stage| {
        for fields in [
            "Authorization: Basic\r\n",
            "Authorization: Basic Og==\r\n",
            "Authorization: Basic YW5uOg==\r\n",
            "Authorization: Bearer YW5uOkhlbGxvIHdvcmxkIQ==\r\n",
            "Authorization: Basic QU5OOkhlbGxvIHdvcmxkIQ==\r\n",
            "Proxy-Authorization: Basic YW5uOkhlbGxvIHdvcmxkIQ==\r\n",
            "Authorization : Basic YW5uOkhlbGxvIHdvcmxkIQ==\r\n",
            "X-Forwarded-User: ann\r\nRemote-User: ann\r\n",
            "Connection: authorization\r\nAuthorization: Basic YW5uOkhlbGxvIHdvcmxkIQ==\r\n",
            "Authorization: Basic YW5uOndyb25n\r\nAuthorization: Basic YW5uOkhlbGxvIHdvcmxkIQ==\r\n",
            "Authorization: Basic YW5uOkhlbGxvIHdvcmxkIQ==\r\nAuthorization: Basic YW5uOndyb25n\r\n",
            "Cookie: Authorization=Basic\r\n",
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: blog\r\n{fields}\r\n");
            let status = stage.say(&request).await.map_or(0, |got| got.status);
            // Fewer than ten of them are attempts.
            assert!(matches!(status, 400 | 401), "{status} to {request}");
        }
        assert_eq!(stage.origin.lines(), [""; 0]);
        // The scheme has no case (RFC 9110, 11.1).
        let basic = ANN.replace("Basic", "bAsIc");
        let got = stage.ask(get("/").field("authorization", &basic)).await;
        assert_eq!(got.how(), (200, "server"));
    });
}

#[test]
fn by_http2_the_same_rules_hold() {
    let closed = beside_an_open_site(awake(), password());
    let Some((_dir, chain, setup)) = with_tls(closed) else { return };
    setup.play(async |stage| {
        for authority in ["blog", "BLOG", "blog.", "blog:443", "blog:", "Blog.:8443", "other"] {
            for (name, value) in [
                ("x-none", ""),
                ("host", "open.example"),
                ("x-forwarded-host", "open.example"),
                ("authorization", WRONG),
                ("x-forwarded-for", "10.0.0.1"),
            ] {
                let mut sender = connect(stage, &chain, 65_535).await;
                let request = Request::get(format!("https://{authority}/")).header(name, value);
                let Ok(request) = request.body(Full::default().boxed()) else { continue };
                let (status, ..) = read(answer(&mut sender, request).await).await;
                // Fewer than ten of them show a password.
                assert!(matches!(status, 400 | 401), "{status} to {authority} {name}");
            }
        }
        assert_eq!(stage.origin.lines(), [""; 0]);
        // As a client that has shown no wrong password.
        let stream = Box::pin(connection_of_another(stage, &chain)).await;
        let mut sender = speaks(stream, 65_535).await;
        let request = Request::get("https://blog/").header("authorization", ANN);
        let request = request.body(Full::default().boxed()).unwrap();
        let (status, how, _) = read(answer(&mut sender, request).await).await;
        assert_eq!((status, how.as_str()), (200, "server"));
    });
}
