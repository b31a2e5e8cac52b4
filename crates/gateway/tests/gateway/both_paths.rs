//! The fast path and the slow path give the same: answers, log lines, questions to the server, state. Generated
//! stories are told to two gateways, one of which has no fast path.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{AccessConfig, CertificateConfig, Hsts};
use nightwatt_gateway::control::Order;
use nightwatt_power::probe::OWN_MARK;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::client::{Ask, BROWSER, CRAWLER, Client, ask, get};
use crate::origin::{Act, Seen, ok, status};
use crate::stage::{Setup, Stage, awake, secs, timeout};
use crate::tls::{by_tls, certificate, secure};

impl Stage {
    /// Whether requests may be answered on the fast path from now on.
    pub(crate) fn allow_fast_path(&self, is_allowed: bool) {
        self.running().gateway.allow_fast_path(is_allowed);
    }
}

/// One request of a story.
#[derive(Debug, Clone)]
struct Step {
    ask: Ask,
    /// On a connection of its own.
    alone: bool,
    /// Seconds before it.
    pause: u64,
}

/// How the gateway is configured.
#[derive(Debug, Clone, Copy)]
enum Site {
    Plain,
    /// The client is a proxy that is believed.
    Trusting,
    Named,
    /// The same, with what concerns TLS.
    Secure,
    Quiet,
    /// Not all clients come in, and some of those are monitors.
    Guarded,
}

impl Site {
    const ALL: [Self; 6] =
        [Self::Plain, Self::Trusting, Self::Named, Self::Secure, Self::Quiet, Self::Guarded];

    fn setup(self) -> Setup {
        let setup = awake().probed_by_http().with(move |config| self.change(config));
        setup.with(|config| config.scenario.policy = timeout(100_000))
    }

    fn change(self, config: &mut Config) {
        let loopback = || vec!["127.0.0.1".parse().unwrap()];
        let site = &mut config.site[0];
        match self {
            Self::Plain => {}
            Self::Trusting => config.trusted_proxies = loopback(),
            Self::Named => {
                site.hosts = vec!["blog".into(), "www.blog".into()];
                site.cache.harmless_headers = vec!["x-plain".into()];
                site.clients.monitor_paths = vec!["/health".into(), "/fresh".into()];
            }
            Self::Secure => {
                site.redirect_to_https = true;
                site.https_exempt = vec!["/fresh".into(), "/no-store".into()];
                site.hsts =
                    Some(Hsts { max_age: secs(600), include_subdomains: false, preload: false });
                config.trusted_proxies = loopback();
            }
            Self::Quiet => config.answer_header = false,
            Self::Guarded => {
                site.access = Some(AccessConfig {
                    deny: vec!["203.0.113.0/24".parse().unwrap()],
                    monitors: vec!["2001:db8::/32".parse().unwrap()],
                    ..AccessConfig::default()
                });
                config.trusted_proxies = loopback();
            }
        }
    }
}

/// What the server answers depends on the path.
const TARGETS: [&str; 24] = [
    "/fresh",
    "/fresh?a=b&c",
    "/fresh?",
    "/public",
    "/assumed",
    "/vary",
    "/no-store",
    "/no-store?q=%20x",
    "/private",
    "/no-cache",
    "/gone",
    "/gone-no-store",
    "/moved",
    "/error",
    "/set-cookie",
    "/etag",
    "/empty",
    "/hop-by-hop",
    "/health",
    "/favicon.ico",
    "/.well-known/acme-challenge/x",
    "/.nightwatt/state",
    "/.nightwatt/states",
    "/\"odd\"|[]{}",
];

fn answer(seen: &Seen) -> Vec<Act> {
    let path = seen.target.split('?').next().unwrap();
    let body = format!("{} {}", seen.method, seen.target);
    let fresh = |says: crate::origin::Says| says.field("Cache-Control", "max-age=600");
    let unstored = |says: crate::origin::Says| says.field("Cache-Control", "no-store");
    let says = match path {
        "/public" => ok(&body).field("Cache-Control", "public, s-maxage=60"),
        "/assumed" => ok(&body),
        "/vary" => fresh(ok(&body)).field("Vary", "Accept-Encoding, Accept-Language"),
        "/no-store" => unstored(ok(&body)).field("X-Twice", "1").field("X-Twice", "2"),
        "/private" => ok(&body).field("Cache-Control", "private, max-age=60"),
        "/no-cache" => ok(&body).field("Cache-Control", "no-cache").field("ETag", "\"n\""),
        "/gone" => fresh(status(404, &body)),
        "/gone-no-store" => unstored(status(404, &body)),
        "/moved" => fresh(status(301, "")).field("Location", "/fresh"),
        "/error" => unstored(status(500, &body)),
        "/set-cookie" => fresh(ok(&body)).field("Set-Cookie", "a=b"),
        "/etag" => fresh(ok(&body)).field("ETag", "\"e\"").field("Age", "5"),
        "/empty" => fresh(ok("")),
        "/hop-by-hop" => unstored(ok(&body))
            .field("Connection", "X-Own")
            .field("X-Own", "1")
            .field("Keep-Alive", "timeout=9")
            .field("Proxy-Authenticate", "x")
            .field("Via", "1.0 back"),
        _ => fresh(ok(&body)),
    };
    if seen.method == "HEAD" {
        let bytes = says.bytes();
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
        return vec![Act::Say(bytes[..end].to_vec())];
    }
    says.acts()
}

/// Every name of the list of fields, as a client might spell it.
fn listed_names() -> Vec<String> {
    let list = include_str!("../../../httpcache/data/request-fields.tsv");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let names = lines.map(|line| line.split('\t').next().unwrap().replace('*', "any"));
    // Framing is another story: the client here sends no content.
    let is_framing = |name: &String| {
        ["content-length", "transfer-encoding", "expect", "host"].contains(&name.as_str())
    };
    names.filter(|name| !is_framing(name)).collect()
}

fn usual_field() -> impl Strategy<Value = (String, String)> {
    let fields = [
        ("User-Agent", BROWSER),
        ("User-Agent", CRAWLER),
        ("User-Agent", "curl/8"),
        ("User-Agent", "odd \"one\"\\ \u{202e}"),
        ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
        ("Accept", "application/json"),
        ("Accept", "text/html, \u{e4}"),
        ("Accept-Encoding", "gzip, br"),
        ("Accept-Language", "de"),
        ("Cookie", "_ga=1"),
        ("Cookie", "session=alice"),
        ("Referer", "http://blog/"),
        ("Connection", "keep-alive"),
        ("Sec-Fetch-Dest", "document"),
        ("Sec-Fetch-Dest", "image"),
        ("X-Plain", "1"),
    ];
    select(fields.to_vec()).prop_map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Stands for [`own_probe`], which is another one in each process.
const OWN_PROBE: &str = "the proxy's own probe";

/// What `Via` of the proxy's own probes says.
fn own_probe() -> String {
    format!("1.1 nightwatt ({})", OWN_MARK.as_str())
}

fn odd_field() -> impl Strategy<Value = (String, String)> {
    let fields = [
        ("Connection", "close"),
        ("Connection", "X-Plain"),
        ("Connection", "X-Forwarded-For, Forwarded"),
        ("Range", "bytes=0-3"),
        ("If-None-Match", "\"e\""),
        ("If-Modified-Since", "Mon, 23 Nov 2026 11:00:00 GMT"),
        ("Cache-Control", "no-cache"),
        ("Cache-Control", "only-if-cached"),
        ("Pragma", "no-cache"),
        ("Content-Length", "0"),
        ("Authorization", "Basic eDp5"),
        ("X-Emby-Token", "alice"),
        ("X_Emby_Token", "alice"),
        ("X_Forwarded_For", "203.0.113.9"),
        ("X-Forwarded-For", "198.51.100.1, 203.0.113.9:51008"),
        ("X-Forwarded-For", "\"[2001:db8::1]:443\""),
        ("X-Forwarded-For", "unknown"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "blog"),
        ("X-Forwarded-Host", "evil"),
        ("Forwarded", "for=\"[2001:db8::1]:443\";proto=https"),
        ("X-Request-Id", "trace-7"),
        ("X-Request-Id", "no id"),
        ("Via", "1.1 other"),
        ("Via", OWN_PROBE),
        ("Referer", "\u{2028}\u{85}"),
        ("Range_", "x"),
        ("Content_Type", "text/plain"),
        ("Upgrade", "h2c"),
        ("TE", "trailers"),
    ];
    select(fields.to_vec()).prop_map(|(name, value)| {
        let value = if value == OWN_PROBE { own_probe() } else { value.to_owned() };
        (name.to_owned(), value)
    })
}

fn listed_field() -> impl Strategy<Value = (String, String)> {
    let spell = |(name, spelling): (String, u8)| match spelling {
        0 => name.to_ascii_uppercase(),
        1 => name.replace('-', "_"),
        _ => name,
    };
    let name = (select(listed_names()), 0..8_u8).prop_map(spell);
    (name, select(vec!["1", "a", "blog", "https", "bytes=0-1"]))
        .prop_map(|(name, value)| (name, value.to_owned()))
}

fn request() -> impl Strategy<Value = Ask> {
    let method = prop_oneof![
        20 => Just("GET"),
        2 => Just("HEAD"),
        1 => select(vec!["POST", "OPTIONS", "PURGE", "TRACE"]),
    ];
    let target = prop_oneof![
        20 => select(TARGETS.to_vec()),
        1 => select(vec!["http://blog/fresh", "http://BLOG.:80/fresh", "*", "//blog/x", "/%zz"]),
    ];
    let host = prop_oneof![
        12 => Just("blog"),
        3 => select(vec![
            "BLOG", "blog.", "blog:80", "blog:", "blog:443", "blog.:80", "www.blog", "blog:8080", "other",
            "blog..", ".", "user@blog", "[::1]", "[fe80::1%25eth0]", "bl\u{f6}g",
        ]),
    ];
    let fields = (
        proptest::collection::vec(usual_field(), 0..5),
        prop_oneof![2 => Just(None), 1 => odd_field().prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => listed_field().prop_map(Some)],
    );
    (method, target, host, fields, 0..20_u8).prop_map(|(method, target, host, fields, version)| {
        let (usual, odd, listed) = fields;
        let named = usual.into_iter().chain(odd).chain(listed);
        let ask = named
            .fold(ask(method, target).host(host), |ask, (name, value)| ask.field(&name, &value));
        match version {
            0 => ask.by_http10(),
            1 => ask.by_http10().without_host(),
            2 => ask.without_host(),
            _ => ask,
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let pause = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(70)];
    (request(), proptest::bool::weighted(0.2), pause).prop_map(|(ask, alone, pause)| Step {
        ask,
        alone,
        pause,
    })
}

/// What can be seen of one request: the answer, what the log says of it, what the server was asked.
type Trace = (String, Vec<String>, Vec<String>);

/// Sorted by name: the slow path gathers the fields of one name.
fn sorted(fields: &[(String, String)]) -> Vec<(String, String)> {
    let mut fields = fields.to_vec();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields
}

fn without_id(line: &str) -> String {
    let (before, after) = line.split_once(" id=").unwrap();
    let (id, after) = after.split_once(' ').unwrap();
    let id = if id.starts_with("trace-") { id } else { "" };
    format!("{before} {id} {after}")
}

fn question(seen: &Seen) -> String {
    let fields = sorted(&seen.fields.0).into_iter().map(|(name, value)| match name.as_str() {
        "x-request-id" if !value.starts_with("trace-") => (name, String::new()),
        // Of a request without one, the server's own address.
        "host" if value.starts_with("127.0.0.2:") => (name, String::new()),
        _ => (name, value),
    });
    format!("{} {} {:?}", seen.method, seen.target, fields.collect::<Vec<_>>())
}

/// How clients connect.
#[derive(Debug, Clone, Copy)]
enum Over<'a> {
    Http,
    Tls(&'a CertificateConfig),
}

impl Over<'_> {
    async fn connect(self, stage: &Stage) -> Client {
        match self {
            Self::Http => Client::connect(stage).await,
            Self::Tls(certificate) => secure(stage, &certificate.chain).await,
        }
    }
}

/// Tells a story, with the fast path or without; then the server sleeps, and a crawler asks for everything.
fn told(site: Site, story: &[Step], over: Over<'_>, has_fast_path: bool) -> (Vec<Trace>, String) {
    let mut traces = Vec::new();
    let mut end = String::new();
    let setup = match over {
        Over::Http => site.setup(),
        Over::Tls(certificate) => by_tls(site.setup(), certificate),
    };
    setup.play(async |stage| {
        stage.allow_fast_path(has_fast_path);
        stage.origin.script(answer);
        // For the connection that is left behind.
        stage.ask(get("/no-store?first")).await;
        let mut client: Option<Client> = None;
        for Step { ask, alone, pause } in story {
            stage.pass(secs(*pause)).await;
            let mut own = match client.take().filter(|_| !alone) {
                Some(client) => client,
                None => over.connect(stage).await,
            };
            let (trace, is_last) = traced(stage, &mut own, ask).await;
            traces.push(trace);
            client = (!alone && !is_last).then_some(own);
        }
        drop(client);
        stage.order(Order::Sleep { site: None }).await;
        stage.pass(secs(30)).await;
        let mut crawler = over.connect(stage).await;
        for target in TARGETS {
            let (trace, is_last) = traced(stage, &mut crawler, &get(target).agent(CRAWLER)).await;
            traces.push(trace);
            if is_last {
                crawler = over.connect(stage).await;
            }
        }
        end = state(stage).await;
    });
    (traces, end)
}

/// What can be seen of one request, and whether its connection ends.
async fn traced(stage: &Stage, client: &mut Client, ask: &Ask) -> (Trace, bool) {
    let (lines, asked) = (stage.log().len(), stage.origin.seen().len());
    client.send(ask).await;
    let got = client.answer().await;
    let is_last = got.fields.all("connection").contains(&"close") || ask.is_http10();
    let (fields, body) = (sorted(&got.fields.0), String::from_utf8_lossy(&got.body));
    let seen = format!("{} {fields:?} {body:?}", got.status);
    let log = stage.log()[lines..].iter().map(|line| without_id(line)).collect();
    let asked = stage.origin.seen()[asked..].iter().map(question).collect();
    ((seen, log, asked), is_last)
}

/// Counters, and what the cache has now: asked for with the fast path switched off.
async fn state(stage: &Stage) -> String {
    let status = format!("{:?}", stage.status());
    stage.allow_fast_path(false);
    let mut stored = Vec::new();
    for target in TARGETS {
        let got = stage.ask(get(target).field("Cache-Control", "only-if-cached")).await;
        stored.push(format!("{target} {} {:?}", got.status, got.fields.all("age")));
    }
    format!("{status}\n{}", stored.join("\n"))
}

fn is_the_same(site: Site, story: &[Step], over: Over<'_>) -> Result<(), TestCaseError> {
    let (fast, fast_end) = told(site, story, over, true);
    let (slow, slow_end) = told(site, story, over, false);
    for (at, (fast, slow)) in fast.into_iter().zip(slow).enumerate() {
        prop_assert_eq!(fast, slow, "fast, then slow, request {}: {:?}", at, story.get(at));
    }
    prop_assert_eq!(fast_end, slow_end);
    Ok(())
}

fn are_the_same(cases: u32, over: Over<'_>) {
    let cases = Cases { cases, failure_persistence: None, ..Cases::default() };
    let stories = (select(Site::ALL.to_vec()), proptest::collection::vec(step(), 1..16));
    let told =
        TestRunner::new(cases).run(&stories, |(site, story)| is_the_same(site, &story, over));
    told.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn generated_requests_are_answered_alike_on_both_paths() {
    are_the_same(60, Over::Http);
}

#[test]
fn by_tls_they_are_answered_alike_too() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    are_the_same(20, Over::Tls(&made));
}

fn steps(asks: &[Ask]) -> Vec<Step> {
    asks.iter().map(|ask| Step { ask: ask.clone(), alone: false, pause: 0 }).collect()
}

/// What differed before there was one table of rules, each as a story of its own.
#[test]
fn what_once_differed_is_answered_alike() {
    let fresh = || get("/fresh");
    for (site, asks) in [
        // A loop of proxies is refused, stored or not.
        (Site::Plain, vec![fresh(), fresh().field("Via", &own_probe())]),
        // `Accept` that is not ASCII says nothing.
        (Site::Plain, vec![get("/no-store").agent(BROWSER).field("Accept", "text/html, \u{e4}")]),
        // A path that only begins as one of ours is the server's.
        (Site::Plain, vec![get("/.nightwatt/states"), get("/.nightwatt/states")]),
    ] {
        is_the_same(site, &steps(&asks), Over::Http)
            .unwrap_or_else(|error| panic!("{site:?} {error}"));
    }
}

/// A path becomes a health check while an answer to it is stored.
#[test]
fn a_health_check_is_never_answered_from_the_cache() {
    Site::Plain.setup().play(async |stage| {
        stage.origin.script(answer);
        assert_eq!(stage.ask(get("/fresh")).await.answer(), "server");
        assert_eq!(stage.ask(get("/fresh")).await.answer(), "cache");
        let monitored = |config: &mut Config| {
            config.site[0].clients.monitor_paths = vec!["/fresh".to_owned()];
        };
        stage.reload(monitored).await.unwrap();
        assert_eq!(stage.ask(get("/fresh")).await.answer(), "monitor");
    });
}
