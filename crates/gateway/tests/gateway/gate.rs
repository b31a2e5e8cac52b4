//! The gate: another proxy asks, and takes the request to the server itself.

use nightwatt_gateway::Config;

use crate::client::{Ask, BROWSER, CRAWLER, Client, Got, get};
use crate::stage::{Setup, Stage, asleep, awake, secs, timeout};

/// A gate with a minute of quiet; the server sleeps five seconds after.
fn gated(setup: Setup) -> Setup {
    with_gate(setup, "quiet = \"1m\"")
}

fn with_gate(setup: Setup, more: &str) -> Setup {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[gate]\nlisten = [\"127.0.0.1:0\"]\n{more}\n[[site]]\nname = \"blog\"\n\
         origin = \"http://a:1\"\npower.simulated = {{}}\n"
    );
    let parsed = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    setup.with(move |config| {
        config.gate = parsed.gate;
        config.scenario.policy = timeout(5);
    })
}

/// What another proxy asks about a request.
fn about(method: &str, target: &str) -> Ask {
    asked_by("/ask", method, target)
}

fn asked_by(path: &str, method: &str, target: &str) -> Ask {
    get(path)
        .field("X-Forwarded-Method", method)
        .field("X-Forwarded-Uri", target)
        .field("X-Forwarded-For", "203.0.113.9")
}

async fn begin(stage: &Stage, ask: Ask) -> Client {
    let mut client = Client::connect_to(stage, stage.gate_address()).await;
    client.send(&ask).await;
    crate::stage::settle(&stage.clock).await;
    client
}

async fn ask(stage: &Stage, ask: Ask) -> Got {
    begin(stage, ask).await.answer().await
}

#[test]
fn a_request_to_a_server_that_is_awake_may_go_at_once() {
    gated(awake()).play(async |stage| {
        let got = ask(stage, about("GET", "/a").agent("curl/8")).await;
        assert_eq!(got.how(), (204, "server"));
        assert_eq!(stage.origin.seen().len(), 0, "the other proxy takes it there");
    });
}

#[test]
fn a_program_is_held_until_the_server_is_awake() {
    gated(asleep()).play(async |stage| {
        let mut client = begin(stage, about("POST", "/api").agent("curl/8")).await;
        assert_eq!((stage.state().as_str(), stage.status().held), ("waking", 1));
        let got = client.answer().await;
        assert_eq!(got.how(), (204, "held"));
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
        let causes = format!("{:?}", stage.journal());
        assert!(causes.contains("POST /api") && causes.contains("203.0.113.9"), "{causes}");
    });
}

#[test]
fn a_browser_gets_the_waiting_page_and_is_let_through_when_it_comes_again() {
    gated(asleep()).play(async |stage| {
        let page = ask(stage, about("GET", "/a").by_browser()).await;
        assert_eq!(page.how(), (503, "waiting-page"));
        assert!(page.text().contains("It is waking up for you"), "{}", page.text());
        assert_eq!(page.field("cache-control"), Some("no-store"));
        assert!(page.seconds("retry-after") > 0);
        let state = ask(stage, get("/.nightwatt/state")).await;
        assert!(state.text().contains("\"state\":\"waking\""), "{}", state.text());
        stage.pass(secs(30)).await;
        let again = ask(stage, about("GET", "/a").by_browser()).await;
        assert_eq!(again.how(), (204, "server"));
    });
}

#[test]
fn a_crawler_and_a_scanner_wake_nobody() {
    gated(asleep()).play(async |stage| {
        let crawler = ask(stage, about("GET", "/a").agent(CRAWLER)).await;
        assert_eq!(crawler.how(), (503, "crawler"));
        assert!(crawler.seconds("retry-after") > 0);
        let scanner = ask(stage, about("GET", "/wp-login.php").agent(BROWSER)).await;
        assert_eq!((scanner.how(), scanner.seconds("retry-after")), ((503, "scanner"), 3600));
        let icon = ask(stage, about("GET", "/favicon.ico").agent(BROWSER)).await;
        assert_eq!((icon.how(), icon.seconds("retry-after")), ((503, "monitor"), 5));
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
    });
}

#[test]
fn a_proxy_that_passes_on_nothing_but_a_status_asks_for_the_answer_with_what_it_was_told() {
    gated(asleep()).play(async |stage| {
        let short = |target| asked_by("/ask/403", "GET", target);
        let told = ask(stage, short("/a").by_browser()).await;
        assert_eq!((told.status, told.body.len()), (403, 0));
        let refusal = told.field("nightwatt-refusal").unwrap().to_owned();
        assert!(refusal.starts_with("waiting-page "), "{refusal}");
        let page = ask(stage, get("/refusal").field("Nightwatt-Refusal", &refusal)).await;
        assert_eq!(page.status, 503);
        assert_eq!(page.field("retry-after"), refusal.split(' ').nth(1));
        assert!(page.text().contains("It is waking up for you"));
        stage.pass(secs(30)).await;
        assert_eq!(ask(stage, short("/a").by_browser()).await.status, 204);
        // A refusal that another proxy made.
        assert_eq!(ask(stage, get("/refusal")).await.status, 403);
    });
}

#[test]
fn what_was_let_through_keeps_the_server_awake_until_it_has_been_quiet() {
    gated(awake()).play(async |stage| {
        let begun = stage.now();
        let after = |seconds| begun + secs(seconds);
        ask(stage, about("GET", "/a").agent("curl/8")).await;
        stage.pass(secs(40)).await;
        assert_eq!(stage.status().in_flight, 1);
        ask(stage, about("GET", "/b").agent("curl/8")).await;
        assert_eq!(stage.status().in_flight, 1, "however many they are");
        // A minute after the second one; then the policy's five seconds.
        stage.clock.sleep_until(after(99)).await;
        assert_eq!((stage.status().in_flight, stage.commands()), (1, (0, 0)));
        stage.pass(secs(2)).await;
        assert_eq!((stage.status().in_flight, stage.commands()), (0, (0, 0)));
        stage.pass(secs(6)).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn a_crawler_that_found_the_server_awake_does_not_keep_it_so() {
    gated(awake()).play(async |stage| {
        let got = ask(stage, about("GET", "/a").agent(CRAWLER)).await;
        assert_eq!((got.status, stage.status().in_flight), (204, 0));
    });
}

#[test]
fn what_was_let_through_is_not_taken_for_something_that_is_there() {
    gated(awake()).play(async |stage| {
        let scanner = about("GET", "/wp-login.php").by_browser();
        assert_eq!(ask(stage, scanner.clone()).await.status, 204, "the server has its say");
        stage.pass(secs(300)).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(ask(stage, scanner).await.how(), (503, "scanner"));
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn a_client_is_held_no_longer_than_the_gate_says() {
    let setup = asleep().power(|power| power.wake_time = secs(100));
    with_gate(setup, "hold = \"25s\"").play(async |stage| {
        let got = ask(stage, about("GET", "/a").agent("curl/8")).await;
        assert_eq!(got.how(), (504, "timeout"));
        assert_eq!(stage.status().held, 0);
    });
}

#[test]
fn a_client_that_leaves_is_held_no_longer() {
    gated(asleep().power(|power| power.wake_time = secs(20))).play(async |stage| {
        let client = begin(stage, about("GET", "/a").agent("curl/8")).await;
        assert_eq!(stage.status().held, 1);
        client.leave().await;
        stage.until("nobody held", |status| status.held == 0).await;
    });
}

#[test]
fn each_client_has_a_wake_budget_of_its_own_whoever_asks_for_it() {
    let setup = asleep().site(|site| site.wakes_per_client_and_hour = 1);
    gated(setup).play(async |stage| {
        let by = |client: &str| {
            get("/ask")
                .field("X-Forwarded-Method", "GET")
                .field("X-Forwarded-Uri", "/a")
                .field("X-Forwarded-For", &format!("198.51.100.1, {client}"))
                .agent("curl/8")
        };
        assert_eq!(ask(stage, by("203.0.113.9")).await.how(), (204, "held"));
        stage.pass(secs(300)).await;
        assert_eq!(stage.state(), "asleep");
        // The client's own word in front changes nothing.
        assert_eq!(ask(stage, by("203.0.113.9")).await.how(), (503, "budget"));
        assert_eq!(ask(stage, by("203.0.113.10")).await.how(), (204, "held"));
    });
}

#[test]
fn a_proxy_that_says_too_little_is_told_what_is_missing() {
    gated(asleep()).play(async |stage| {
        let got = ask(stage, get("/ask").agent("curl/8")).await;
        assert_eq!(got.status, 500);
        assert!(got.text().contains("without X-Forwarded-Uri"), "{}", got.text());
        let got = ask(stage, get("/")).await;
        assert!(got.status == 404 && got.text().contains("/ask"), "{}", got.text());
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn who_is_not_named_may_not_ask() {
    with_gate(asleep(), "from = [\"10.1.2.3\"]").play(async |stage| {
        let got = ask(stage, about("GET", "/a")).await;
        assert_eq!(got.status, 403);
        assert!(got.text().contains("gate.from"), "{}", got.text());
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn programs_that_read_json_get_problem_details() {
    gated(asleep()).play(async |stage| {
        let crawler = about("GET", "/a").agent(CRAWLER).field("Accept", "application/json");
        let got = ask(stage, crawler).await;
        assert_eq!(got.field("content-type"), Some("application/problem+json"));
        let refusal = get("/refusal")
            .field("Nightwatt-Refusal", "crawler 7")
            .field("Accept", "application/json");
        let got = ask(stage, refusal).await;
        assert_eq!(got.field("content-type"), Some("application/problem+json"));
        assert_eq!(got.seconds("retry-after"), 7);
    });
}

#[test]
fn in_shadow_mode_everything_is_let_through() {
    gated(awake()).observing().play(async |stage| {
        let got = ask(stage, about("GET", "/a").agent(CRAWLER)).await;
        assert_eq!(got.how(), (204, "server"));
    });
}

#[test]
fn a_pool_has_no_gate() {
    let setup = awake().pool(&["one", "two"], "", "");
    gated(setup).play(async |stage| {
        let got = ask(stage, about("GET", "/a").agent("curl/8")).await;
        assert_eq!(got.status, 501);
        assert!(got.text().contains("several servers"), "{}", got.text());
    });
}

#[test]
fn what_was_let_through_stays_when_the_configuration_is_read_again_and_is_quiet_by_the_new_one() {
    gated(awake()).play(async |stage| {
        let old = stage.gate_address();
        assert_eq!(ask(stage, about("GET", "/a").agent("curl/8")).await.how(), (204, "server"));
        let change = |config: &mut Config| {
            config.site[0].wakes_per_client_and_hour = 3;
            let gate = config.gate.as_mut().unwrap();
            (gate.listen, gate.quiet) = (vec!["127.0.0.2:0".parse().unwrap()], secs(20));
        };
        stage.reload(change).await.unwrap();
        assert_ne!(stage.gate_address(), old);
        stage.pass(secs(15)).await;
        assert_eq!(stage.status().in_flight, 1, "it is with the server");
        stage.pass(secs(6)).await;
        assert_eq!(stage.status().in_flight, 0, "the quiet before would be three times as long");
        // A minute later the old address is closed.
        stage.pass(secs(60)).await;
        assert!(std::net::TcpStream::connect(old).is_err());
        assert_eq!(ask(stage, about("GET", "/a").agent(CRAWLER)).await.how(), (503, "crawler"));
        stage.reload(|config| config.gate = None).await.unwrap();
        assert!(stage.running_status().reload.is_some_and(|it| it.refused.is_none()));
    });
}

#[test]
fn a_proxy_that_is_connected_is_told_when_its_address_goes() {
    gated(awake()).play(async |stage| {
        let mut kept = Client::connect_to(stage, stage.gate_address()).await;
        kept.send(&about("GET", "/a").agent("curl/8")).await;
        assert_eq!(kept.answer().await.field("connection"), None);
        let elsewhere = |config: &mut Config| {
            config.gate.as_mut().unwrap().listen = vec!["127.0.0.2:0".parse().unwrap()];
        };
        stage.reload(elsewhere).await.unwrap();
        kept.send(&about("GET", "/a").agent("curl/8")).await;
        let last = kept.answer().await;
        assert_eq!((last.how(), last.field("connection")), ((204, "server"), Some("close")));
    });
}
