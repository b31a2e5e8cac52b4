//! The fast path for plain hits leads to the same answers and the same accounting as the slow path.

use nightwatt_gateway::status::SiteStatus;

use crate::client::{Ask, BROWSER, CRAWLER, Client, get};
use crate::origin::{ok, status};
use crate::stage::{Stage, awake, secs};

/// The same request, with a field that changes nothing and that the fast path does not accept.
fn the_long_way(ask: &Ask) -> Ask {
    ask.clone().field("Content-Length", "0")
}

/// Head, sorted, and body.
async fn answer(stage: &Stage, ask: &Ask) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let got = stage.ask(ask.clone()).await;
    let mut fields = got.fields.0.clone();
    fields.sort();
    (got.status, fields, got.body)
}

#[test]
fn both_ways_lead_to_the_same_answer() {
    let asks = [
        get("/"),
        get("/").agent("curl/8"),
        get("/").by_browser(),
        get("/").agent(CRAWLER),
        get("/").field("Accept-Encoding", "gzip"),
        get("/").field("Accept-Encoding", "br"),
        get("/").field("Cookie", "a=b"),
        get("/").field("Referer", "http://blog/x"),
        get("/?q=1"),
        get("/robots.txt").agent(BROWSER),
        get("/gone").agent("curl/8"),
        get("/moved"),
        get("/empty"),
    ];
    awake().play(async |stage| {
        stage.origin.script(|seen| {
            let answer = match seen.target.as_str() {
                "/gone" => status(404, "gone"),
                "/moved" => status(301, "").field("Location", "/"),
                "/empty" => ok(""),
                _ => ok("hello").field("Vary", "Accept-Encoding").field("Set-Fun", "1"),
            };
            answer.field("Cache-Control", "max-age=600").field("Age", "7").acts()
        });
        for ask in &asks {
            stage.ask(ask.clone()).await;
        }
        let before = stage.origin.seen().len();
        for seconds in [0, 1, 100] {
            stage.pass(secs(seconds)).await;
            for ask in &asks {
                let short = answer(stage, ask).await;
                assert_eq!(short, answer(stage, &the_long_way(ask)).await, "{ask:?}");
            }
        }
        assert_eq!(stage.origin.seen().len(), before, "all of it from memory");
    });
}

/// The accounting of a story: the status, without what differs from run to run, and the request log
/// without the ids.
fn books(stage: &Stage) -> (SiteStatus, Vec<String>) {
    let without_id = |line: String| {
        let (before, after) = line.split_once(" id=").unwrap();
        let (_, after) = after.split_once(' ').unwrap();
        format!("{before} {after}")
    };
    (stage.status(), stage.log().into_iter().map(without_id).collect())
}

#[test]
fn both_ways_lead_to_the_same_books() {
    let story = async |stage: &mut Stage, way: fn(&Ask) -> Ask| {
        stage.origin.says(ok("hello").field("Cache-Control", "max-age=600"));
        stage.ask(get("/")).await;
        for ask in [
            get("/").by_browser(),
            get("/").agent(CRAWLER),
            get("/").agent("odd \"one\"\\"),
            get("/").field("X-Forwarded-For", "10.9.9.9, 203.0.113.9"),
        ] {
            stage.pass(secs(2)).await;
            let got = stage.ask(way(&ask)).await;
            assert_eq!(got.how(), (200, "cache"));
        }
    };
    for trusted in [Vec::new(), vec!["127.0.0.1".parse().unwrap()]] {
        let mut seen = Vec::new();
        for way in [|ask: &Ask| ask.clone(), the_long_way as fn(&Ask) -> Ask] {
            let trusted = trusted.clone();
            awake().with(|config| config.trusted_proxies = trusted).play(async |stage| {
                story(stage, way).await;
                let (status, log) = books(stage);
                seen.push((format!("{status:?}"), log));
            });
        }
        assert_eq!(seen[0], seen[1]);
        let told = seen[0].1.iter().filter(|line| line.starts_with("203.0.113.9 ")).count();
        assert_eq!(told, usize::from(!trusted.is_empty()), "{:?}", seen[0].1);
    }
}

#[test]
fn the_fast_path_keeps_the_id_that_a_trusted_proxy_gives() {
    let trusting =
        awake().with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]);
    trusting.play(async |stage| {
        stage.origin.says(ok("hello").field("Cache-Control", "max-age=600"));
        for (id, kept) in [("first-1", true), ("second-2", true), ("third 3", false)] {
            stage.ask(get("/").field("X-Request-Id", id)).await;
            let line = stage.log().pop().unwrap();
            assert_eq!(line.contains(&format!(" id={id} ")), kept, "{line}");
        }
        assert_eq!(stage.origin.seen().len(), 1);
    });
}

#[test]
fn what_is_not_fresh_or_not_plain_takes_the_long_way() {
    awake().play(async |stage| {
        stage.origin.says(ok("hello").field("Cache-Control", "max-age=10"));
        stage.ask(get("/")).await;
        for ask in [
            get("/").field("Cache-Control", "no-cache"),
            get("/").field("Pragma", "no-cache"),
            get("/").field("Cache-Control", "max-age=0"),
        ] {
            let before = stage.origin.seen().len();
            assert_eq!(stage.ask(ask.clone()).await.status, 200);
            assert_eq!(stage.origin.seen().len(), before + 1, "{ask:?} is asked of the server");
        }
        stage.pass(secs(11)).await;
        let before = stage.origin.seen().len();
        assert_eq!(stage.ask(get("/")).await.answer(), "server", "it is stale by now");
        assert_eq!(stage.origin.seen().len(), before + 1);
    });
}

#[test]
fn an_answer_larger_than_the_connection_takes_at_once_arrives_whole() {
    let body: String = (0..700_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    awake().play(async |stage| {
        stage.origin.says(ok(&body).field("Cache-Control", "max-age=600"));
        assert_eq!(stage.ask(get("/")).await.text(), body);
        let mut client = Client::connect(stage).await;
        for _ in 0..3 {
            client.send(&get("/")).await;
        }
        for _ in 0..3 {
            assert_eq!(client.answer().await.text(), body);
        }
        let log = stage.log();
        assert_eq!(log.len(), 4);
        assert!(log.iter().all(|line| line.contains("\" 200 700000 \"")), "{log:?}");
    });
}

#[test]
fn a_client_that_leaves_in_the_middle_is_logged_with_what_it_took() {
    awake().play(async |stage| {
        let body = "x".repeat(8_000_000);
        stage.origin.says(ok(&body).field("Cache-Control", "max-age=600"));
        assert_eq!(stage.ask(get("/")).await.text().len(), body.len());
        let mut client = stage.begin(get("/")).await;
        let head = client.head().await;
        assert_eq!(head.status, 200);
        client.leave().await;
        let log = stage.log();
        assert_eq!(log.len(), 2);
        let bytes: usize = log[1].split(' ').nth(9).unwrap().parse().unwrap();
        assert!(bytes < body.len(), "it cannot have taken all of it: {}", log[1]);
    });
}
