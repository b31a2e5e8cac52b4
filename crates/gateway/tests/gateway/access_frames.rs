//! A closed site that sleeps, asked by frames of HTTP/2 that no client would write: whatever the rule, none
//! of them passes it, and none wakes the server.

use std::path::Path;

use http::Request;
use http_body_util::{BodyExt, Full};
use nightwatt_gateway::Config;
use nightwatt_gateway::config::AccessConfig;

use crate::access::{ANN, WRONG, only, password};
use crate::access_forward::guard;
use crate::access_spellings::beside_an_open_site;
use crate::http2::{Hello, answer, connect, connection_of, connection_of_another, read, with_tls};
use crate::http2_smuggling::{self, Answered, Case, Fate, Field, answered_on, field, head};
use crate::stage::{Setup, Stage, asleep, timeout, watched};

/// ann's password without the scheme before it.
const ANN_ALONE: &str = "YW5uOkhlbGxvIHdvcmxkIQ==";

/// The closed site, `blog`, beside one for all; both sleep. Once awake they stay so.
pub(crate) fn closed_and_open(access: AccessConfig) -> Setup {
    beside_an_open_site(asleep(), access).with(|config: &mut Config| {
        config.scenario.policy = timeout(3600);
        config.site[0].hosts = vec!["blog".to_owned()];
    })
}

/// `GET /case` with these fields behind the first four.
fn with(fields: &[(&str, &str)]) -> Case {
    let more: Vec<Field> = fields.iter().map(|(name, value)| field(name, value)).collect();
    Case::new(format!("{fields:?}"), [head("GET", "/case"), more].concat(), Fate::Refused)
}

/// Pseudo-headers that are there twice, that are missing, that there are not, and in odd places.
fn pseudo() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, other) in [
        (":method", "OPTIONS"),
        (":scheme", "http"),
        (":authority", "open.example"),
        (":path", "/public"),
    ] {
        let own = head("GET", "/case");
        let behind = [own.clone(), vec![field(name, other)]].concat();
        let before = [vec![field(name, other)], own.clone()].concat();
        let mut without = own;
        without.retain(|it| it.0 != name.as_bytes());
        let late = [without.clone(), vec![field("x-first", "1"), field(name, other)]].concat();
        for (place, fields) in
            [("behind", behind), ("before", before), ("late", late), ("without", without)]
        {
            cases.push(Case::new(format!("{name} {other} {place}"), fields, Fate::Refused));
        }
    }
    for (name, value) in [
        (":evil", "1"),
        (":host", "open.example"),
        (":status", "200"),
        (":protocol", "websocket"),
        (":Authority", "open.example"),
        (":PATH", "/public"),
        (":", "open.example"),
    ] {
        let among = [vec![field(name, value)], head("GET", "/case")].concat();
        cases.push(Case::new(format!("{name} {value}"), among, Fate::Refused));
    }
    cases
}

/// Odd values of the pseudo-headers. Each is for the closed site, or for none.
fn values() -> Vec<Case> {
    let authorities = [
        "BLOG",
        "blog.",
        "blog:443",
        "blog:",
        "blog:00443",
        "Blog.:8443",
        "blog:80",
        "%62log",
        "me@blog",
        "open.example@blog",
        "blog@open.example",
        "blog, open.example",
        "blog/",
        "blog\0",
        "blog open.example",
        "",
    ];
    let paths =
        ["//", "/./", "/../", "/%61", "/%2e%2e/", "/;x", "/a%00", "/\u{e4}", "*", "", "public"];
    let absolute = ["http://open.example/", "https://open.example/case", "//open.example/"];
    let methods = ["get", "HEAD", "POST", "OPTIONS", "PURGE", "TRACE", "CONNECT", ""];
    let schemes = ["http", "HTTPS", "ftp", ""];
    let of = |name: &'static str, values: &[&str]| -> Vec<Case> {
        values.iter().map(|value| Case::changed(name, value, Fate::Refused)).collect()
    };
    [
        of(":authority", &authorities),
        of(":path", &paths),
        of(":path", &absolute),
        of(":method", &methods),
        of(":scheme", &schemes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `host` beside `:authority`, and instead of it.
fn hosts() -> Vec<Case> {
    let instead = |hosts: &[&str]| {
        let mut fields = head("GET", "/case");
        fields.retain(|it| it.0 != b":authority");
        fields.extend(hosts.iter().map(|host| field("host", host)));
        Case::new(format!("hosts {hosts:?}"), fields, Fate::Refused)
    };
    let mut of_open = head("GET", "/case");
    of_open.retain(|it| it.0 != b":authority");
    of_open.extend([field(":authority", "open.example"), field("host", "blog")]);
    vec![
        with(&[("host", "blog")]),
        with(&[("host", "BLOG")]),
        with(&[("host", "open.example")]),
        with(&[("host", "blog"), ("host", "open.example")]),
        with(&[("host", "open.example"), ("host", "blog")]),
        with(&[("host", "")]),
        Case::new(":authority open.example, host blog", of_open, Fate::Refused),
        instead(&["blog"]),
        instead(&["BLOG."]),
        instead(&["blog", "blog"]),
        instead(&["blog", "open.example"]),
        instead(&["open.example", "blog"]),
        instead(&["blog, open.example"]),
    ]
}

/// Names in upper case, which HTTP/2 does not have, and names that some servers read as others.
fn names() -> Vec<Case> {
    [
        ("X-Forwarded-For", "10.0.0.1"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x_forwarded_for", "10.0.0.1"),
        ("x-forwarded_for", "10.0.0.1"),
        ("x.forwarded.for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("x_real_ip", "10.0.0.1"),
        ("x-forwarded-host", "open.example"),
        ("x_forwarded_host", "open.example"),
        ("http_host", "open.example"),
        ("Host", "open.example"),
        ("x-original-url", "/public"),
        ("x-http-method-override", "OPTIONS"),
        ("remote-user", "ann"),
        ("remote_user", "ann"),
        ("x-client-cert", "ann"),
        ("Authorization", ANN),
        ("AUTHORIZATION", ANN),
        ("authorization ", ANN),
        ("authorization:", ANN),
        ("_authorization", ANN),
        ("authorization_", ANN),
        ("http_authorization", ANN),
        ("proxy-authorization", ANN),
        ("x-authorization", ANN),
        ("Cookie", "session=ann"),
        ("_cookie", "session=ann"),
        ("set-cookie", "session=ann"),
        ("connection", "authorization"),
        ("connection", "x-forwarded-for"),
    ]
    .iter()
    .map(|it| with(&[*it]))
    .collect()
}

/// The right password and the right session, but in parts or among others. Fewer than ten are attempts.
fn secrets() -> Vec<Case> {
    let (first, second) = ANN.split_at(12);
    let joined = format!("{ANN}, {WRONG}");
    let mut cases = vec![
        with(&[("authorization", "Basic"), ("authorization", ANN_ALONE)]),
        with(&[("authorization", first), ("authorization", second)]),
        with(&[("authorization", WRONG), ("authorization", ANN)]),
        with(&[("authorization", ANN), ("authorization", WRONG)]),
        with(&[("authorization", ANN), ("authorization", ANN)]),
        with(&[("authorization", joined.as_str())]),
        with(&[("authorization", ANN_ALONE)]),
        with(&[("cookie", "session="), ("cookie", "ann")]),
        with(&[("cookie", "session"), ("cookie", "=ann")]),
    ];
    for (name, value) in [("authorization", ANN), ("cookie", "session=ann"), ("host", "blog")] {
        let name_of_case = format!("{name} in the trailers");
        let mut case = Case::new(name_of_case, head("POST", "/case"), Fate::Refused);
        case.body = vec![&b"one"[..]];
        case.trailers = vec![field(name, value)];
        cases.push(case);
    }
    cases
}

/// Sends a case and the canary on a connection that begins so.
pub(crate) async fn answered(stage: &Stage, hello: Hello<'_>, case: &Case) -> Answered {
    let mut stream = Box::pin(connection_of(stage, hello)).await;
    answered_on(&mut stream, case).await
}

/// Sends all of them, and those of the smuggling suite. Behind each comes another stranger's request on the
/// same connection.
pub(crate) async fn none_passes(stage: &Stage, hello: Hello<'_>) {
    let own = [pseudo(), values(), hosts(), names(), secrets()];
    let cases: Vec<Case> = own.into_iter().flatten().chain(http2_smuggling::cases()).collect();
    let mut faults = Vec::new();
    for case in &cases {
        let got = watched(&case.name, answered(stage, hello, case)).await;
        if got.case || got.canary || stage.commands() != (0, 0) || stage.state() != "asleep" {
            let commands = stage.commands();
            faults.push(format!("{}: {got:?}, {commands:?}, {}", case.name, stage.state()));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
    assert_eq!(stage.origin.lines(), [""; 0], "nothing reached the server");
    let status = stage.running_status();
    for site in &status.sites {
        let mut taken = site.answers.iter().filter(|(_, count)| **count > 0);
        if site.name == "blog" {
            // A connection that ends may take the second request with it.
            let is_fine = |how: &str| ["refused", "denied", "gone"].contains(&how);
            assert!(taken.all(|(how, _)| is_fine(how)), "{:?}", site.answers);
            // The rule was asked: most of the requests behind them were denied.
            let denied = site.answers.get("denied").copied().unwrap_or(0);
            assert!(denied > cases.len() as u64 / 2, "{denied} of {}", cases.len());
        } else {
            assert!(taken.all(|(how, _)| how == "refused"), "{:?}", site.answers);
        }
    }
}

/// The page comes to a client that was refused nothing before, and this wakes the server.
async fn opens_to(stage: &Stage, chain: &Path, fields: &[(&str, &str)]) {
    let mut stream = Box::pin(connection_of_another(stage, chain)).await;
    let case = with(fields);
    let got = watched(&case.name, answered_on(&mut stream, &case)).await;
    assert!(got.case, "{got:?}");
    assert_eq!(stage.commands(), (1, 0));
    assert!(stage.origin.lines().contains(&"GET /case".to_owned()), "{:?}", stage.origin.lines());
}

#[test]
fn no_frames_pass_the_rule_of_a_network_or_wake_its_site() {
    let Some((_dir, chain, setup)) = with_tls(closed_and_open(only(&["10.0.0.0/8"]))) else {
        return;
    };
    setup.play(async |stage| {
        Box::pin(none_passes(stage, Hello::new(&chain))).await;
        let opens = |config: &mut Config| config.site[0].access = Some(only(&["127.0.0.0/8"]));
        stage.reload(opens).await.unwrap();
        Box::pin(opens_to(stage, &chain, &[])).await;
    });
}

#[test]
fn no_frames_pass_a_password_or_wake_its_site() {
    let Some((_dir, chain, setup)) = with_tls(closed_and_open(password())) else { return };
    setup.play(async |stage| {
        Box::pin(none_passes(stage, Hello::new(&chain))).await;
        Box::pin(opens_to(stage, &chain, &[("authorization", ANN)])).await;
    });
}

#[test]
fn no_frames_pass_a_service_that_decides_or_wake_its_site() {
    let closed = closed_and_open(AccessConfig::default());
    let Some((_dir, chain, setup)) = with_tls(closed) else { return };
    setup.play(async |stage| {
        let auth = guard(stage, "").await;
        Box::pin(none_passes(stage, Hello::new(&chain))).await;
        for seen in auth.seen() {
            let host = seen.field("x-forwarded-host").unwrap_or_default().to_ascii_lowercase();
            assert!(host.starts_with("blog"), "the service was asked about {host}: {seen:?}");
        }
        Box::pin(opens_to(stage, &chain, &[("cookie", "session=ann")])).await;
    });
}

/// Asks a thousand times on one connection, and gives the statuses that came.
async fn asks_a_thousand_times(stage: &Stage, chain: &Path, name: &str, value: &str) -> Vec<u16> {
    let mut sender = Box::pin(connect(stage, chain, 65_535)).await;
    let mut statuses = Vec::new();
    for _ in 0..1000 {
        let request = Request::get("https://blog/").header("accept", "text/html");
        let request = request.header(name, value).body(Full::default().boxed()).unwrap();
        let (status, how, _) = read(answer(&mut sender, request).await).await;
        assert_eq!(how, "denied", "{status} to {name} {value}");
        statuses.push(status);
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

#[test]
fn thousands_of_strangers_by_http2_wake_it_no_time() {
    let Some((_dir, chain, setup)) = with_tls(closed_and_open(password())) else { return };
    setup.play(async |stage| {
        let bearer = ("authorization", "Bearer x");
        for (name, value) in [("x-none", ""), bearer, ("cookie", "session=guess")] {
            let statuses = Box::pin(asks_a_thousand_times(stage, &chain, name, value)).await;
            assert_eq!(statuses, [401], "{name} {value}");
        }
        // Ten at once, and one every ten seconds.
        let statuses = Box::pin(asks_a_thousand_times(stage, &chain, "authorization", WRONG)).await;
        assert_eq!(statuses, [401, 429]);
        assert_eq!((stage.commands(), stage.status().answers["denied"]), ((0, 0), 4000));
        guard(stage, "").await;
        for (name, value) in [("x-none", ""), ("cookie", "session=guess")] {
            let statuses = Box::pin(asks_a_thousand_times(stage, &chain, name, value)).await;
            assert_eq!(statuses, [401], "{name} {value}");
        }
        assert_eq!(stage.commands(), (0, 0));
        assert_eq!((stage.state().as_str(), stage.origin.lines().len()), ("asleep", 0));
    });
}
