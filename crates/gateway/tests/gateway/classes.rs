//! Who is refused while the server sleeps, by which rule, and who never is.

use std::collections::BTreeSet;

use nightwatt_gateway::clients::{ClientStatus, Forgiven};
use nightwatt_gateway::control::{Order, Reply};

use crate::client::{Ask, BROWSER, CRAWLER, ask, get, post};
use crate::origin::{Says, ok, status};
use crate::stage::{Setup, Stage, asleep, awake, secs, timeout};

/// The request wakes the server, which answers; then the server sleeps again.
const CYCLE: u64 = 100;

/// Tests speak for clients of many addresses.
fn many_clients(setup: Setup) -> Setup {
    setup.with(|config| config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()])
}

trait ByClient {
    fn by(self, address: &str) -> Self;
}

impl ByClient for Ask {
    fn by(self, address: &str) -> Self {
        self.field("X-Forwarded-For", address)
    }
}

/// Asks for ten things that are not there.
async fn miss(stage: &Stage, ask: impl Fn(&str) -> Ask) {
    for n in 0..10 {
        assert_eq!(stage.ask(ask(&format!("/guess/{n}"))).await.status, 404);
    }
}

/// The server does not know anything.
fn knows_nothing() -> Setup {
    many_clients(awake())
}

async fn why(stage: &Stage, client: &str) -> ClientStatus {
    let order = Order::Why { client: client.to_owned(), agent: None, site: None };
    match stage.order(order).await {
        Reply::Why(mut sites) => sites.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn webhooks_and_federated_posts_are_held_and_delivered_once() {
    const SENDERS: [&str; 16] = [
        "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        "GitHub-Hookshot/044aadd",
        "GitLab/17.4.0",
        "Shopify-Captain-Hook",
        "Slackbot 1.0 (+https://api.slack.com/robots)",
        "PayPal/AUHD-214.0-58443520",
        "TwilioProxy/1.1",
        "Discord-Interactions/1.0 (+https://discord.com)",
        "mailgun/treq-23.11.0",
        "Mastodon/4.3.1 (http.rb/5.2.0; +https://mastodon.example/)",
        "Lemmy/0.19.5; +https://lemmy.example",
        "gotosocial/0.17.3 (+https://social.example)",
        "Bitbucket-Webhooks/2.0",
        "SendGrid Event API",
        "Pleroma 2.7.0; https://pleroma.example <admin@pleroma.example>",
        "unlisted hooks (+https://hooks.example/bot)",
    ];
    many_clients(asleep()).play(async |stage| {
        for (n, sender) in (0..).zip(SENDERS) {
            stage.at(n * CYCLE).await;
            assert_eq!(stage.state(), "asleep");
            let body = format!("event {n}");
            let hook = post(&format!("/hook/{n}"), &body).agent(sender);
            let got = stage.ask(hook.by(&format!("198.51.100.{n}"))).await;
            assert_eq!(got.how(), (200, "held"), "{sender}");
        }
        let expected: Vec<_> = (0..SENDERS.len()).map(|n| format!("POST /hook/{n}")).collect();
        assert_eq!(stage.origin.lines(), expected);
    });
}

#[test]
fn a_crawlers_get_is_sent_away_and_its_post_is_not() {
    asleep().play(async |stage| {
        assert_eq!(stage.ask(get("/a").agent(CRAWLER)).await.how(), (503, "crawler"));
        assert_eq!(stage.ask(post("/a", "x").agent(CRAWLER)).await.how(), (200, "held"));
        stage.at(CYCLE).await;
        // A monitor's question is answered by the proxy; what it delivers is not.
        let uptime = "Mozilla/5.0+(compatible; UptimeRobot/2.0)";
        assert_eq!(stage.ask(get("/c").agent(uptime)).await.how(), (200, "monitor"));
        assert_eq!(stage.ask(post("/b", "x").agent(uptime)).await.how(), (200, "held"));
        stage.at(2 * CYCLE).await;
        assert_eq!(stage.ask(post("/healthz", "x")).await.how(), (200, "held"));
    });
}

#[test]
fn an_authority_that_validates_the_servers_own_certificate_is_let_through() {
    let agent = "Mozilla/5.0 (compatible; Let's Encrypt validation server; \
                 +https://www.letsencrypt.org)";
    asleep().play(async |stage| {
        let proof = |token| get(&format!("/.well-known/acme-challenge/{token}")).agent(agent);
        assert_eq!(stage.ask(get("/").agent(agent)).await.how(), (503, "crawler"));
        assert_eq!(stage.ask(proof("abc-_9")).await.how(), (200, "held"));
    });
}

#[test]
fn paths_that_the_operator_names_are_for_webhooks_of_any_sender() {
    let named = |site: &mut nightwatt_gateway::config::SiteConfig| {
        site.clients.webhook_paths = vec!["/hooks/".to_owned()];
    };
    asleep().site(named).play(async |stage| {
        let challenge = get("/hooks/meta?hub.challenge=1").agent(CRAWLER);
        assert_eq!(stage.ask(challenge).await.how(), (200, "held"));
    });
}

#[test]
fn a_scanner_does_not_lock_out_others_behind_its_address() {
    knows_nothing().play(async |stage| {
        stage.origin.says(status(404, "no"));
        miss(stage, |path| get(path).agent("scan/1.0").by("203.0.113.9")).await;
        stage.at(200).await;
        let refused = stage.ask(get("/a").agent("scan/1.0").by("203.0.113.9")).await;
        assert_eq!(refused.how(), (503, "scanner"));
        stage.origin.says(ok("fine"));
        let neighbour = get("/a").agent("app/2.0").by("203.0.113.9");
        assert_eq!(stage.ask(neighbour).await.how(), (200, "held"));
        stage.at(400).await;
        let person = get("/b").by_browser().by("203.0.113.9");
        assert_eq!(stage.ask(person).await.how(), (503, "waiting-page"));
    });
}

#[test]
fn a_build_client_with_many_misses_is_served_when_it_comes_again() {
    knows_nothing().play(async |stage| {
        stage.origin.says(status(404, "no"));
        let maven = |method: &str, path: &str| ask(method, path).agent("Apache-Maven/3.9.9");
        miss(stage, |path| maven("GET", path)).await;
        miss(stage, |path| maven("HEAD", path)).await;
        stage.at(200).await;
        stage.origin.says(status(201, "stored"));
        let upload = post("/release.jar", "bytes").agent("Apache-Maven/3.9.9");
        assert_eq!(stage.ask(upload).await.how(), (201, "held"));
    });
}

#[test]
fn a_credential_that_the_server_has_honoured_exempts_and_another_does_not() {
    let with = |path: &str, token: &str| {
        get(path).agent("app/1.0").field("Authorization", &format!("Bearer {token}"))
    };
    awake().play(async |stage| {
        stage.origin.script(|seen| {
            let is_known = seen.field("authorization") == Some("Bearer good");
            let is_mine = seen.target == "/mine";
            if is_known && is_mine { ok("mine").acts() } else { status(404, "no").acts() }
        });
        assert_eq!(stage.ask(with("/mine", "good")).await.how(), (200, "server"));
        // Its bearer is one of several clients with this agent behind this address.
        miss(stage, |path| with(path, "guessed")).await;
        stage.at(200).await;
        assert_eq!(stage.ask(with("/mine", "guessed")).await.how(), (503, "scanner"));
        assert_eq!(stage.ask(get("/mine").agent("app/1.0")).await.how(), (503, "scanner"));
        assert_eq!(stage.ask(with("/mine", "good")).await.how(), (200, "held"));
    });
}

#[test]
fn only_who_opens_a_page_is_shown_one_that_waits() {
    const JAVA: &str = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2";
    const FIREFOX: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let with = |accept: &str| get("/a").agent("app/1.0").field("Accept", accept);
    let browser = |accept: &str| get("/a").agent(BROWSER).field("Accept", accept);
    let held = [
        with(JAVA),
        with("application/rss+xml, application/atom+xml, text/html;q=0.8"),
        browser("*/*"),
        browser("text/html, */*; q=0.01").field("X-Requested-With", "XMLHttpRequest"),
        browser(FIREFOX).field("X-Requested-With", "XMLHttpRequest"),
        browser(FIREFOX).field("HX-Request", "true"),
        browser(FIREFOX).field("Sec-Fetch-Mode", "cors").field("Sec-Fetch-Dest", "empty"),
        browser("application/json, text/html"),
    ];
    asleep().play(async move |stage| {
        stage.origin.says(ok("fine").field("Cache-Control", "no-store"));
        for (n, ask) in (0..).zip(held) {
            stage.at(n * CYCLE).await;
            assert_eq!(stage.ask(ask.clone()).await.how(), (200, "held"), "{ask:?}");
        }
        stage.at(1000).await;
        assert_eq!(stage.ask(browser(FIREFOX)).await.how(), (503, "waiting-page"));
        stage.at(1200).await;
        let opens = browser(FIREFOX)
            .field("Sec-Fetch-Mode", "navigate")
            .field("Sec-Fetch-Dest", "document");
        assert_eq!(stage.ask(opens.clone()).await.how(), (503, "waiting-page"));
        // As Android's WebView does it, with the name of its program.
        stage.at(1400).await;
        let in_a_program = opens.field("X-Requested-With", "org.example.reader");
        assert_eq!(stage.ask(in_a_program).await.how(), (503, "waiting-page"));
    });
}

#[test]
fn an_image_on_another_site_makes_no_robot_and_no_scanner_of_its_reader() {
    let planted = |path: &str| {
        get(path)
            .agent(BROWSER)
            .field("Accept", "image/avif,image/webp,*/*;q=0.8")
            .field("Sec-Fetch-Site", "cross-site")
            .field("Sec-Fetch-Mode", "no-cors")
            .field("Sec-Fetch-Dest", "image")
    };
    awake().play(async |stage| {
        stage.origin.says(status(404, "no").field("Cache-Control", "no-store"));
        miss(stage, planted).await;
        for path in ["/robots.txt", "/.env", "/.git/config", "/wp-login.php"] {
            stage.ask(planted(path)).await;
        }
        stage.at(200).await;
        assert_eq!(stage.state(), "asleep");
        stage.origin.says(ok("fine"));
        let opens = get("/").by_browser();
        assert_eq!(stage.ask(opens).await.how(), (503, "waiting-page"));
    });
}

#[test]
fn a_navigation_clears_what_a_neighbour_with_the_same_browser_did() {
    awake().play(async |stage| {
        stage.origin.says(ok("fine"));
        stage.ask(get("/robots.txt").agent(BROWSER)).await;
        stage.at(200).await;
        assert_eq!(stage.ask(get("/x").by_browser()).await.how(), (503, "crawler"));
        let opens = get("/x")
            .by_browser()
            .field("Sec-Fetch-Mode", "navigate")
            .field("Sec-Fetch-Dest", "document");
        assert_eq!(stage.ask(opens).await.how(), (503, "waiting-page"));
    });
}

#[test]
fn health_checkers_are_answered_by_the_proxy() {
    asleep().play(async |stage| {
        for agent in ["Gatus/1.0", "kube-probe/1.31", "ELB-HealthChecker/2.0", "Prometheus/3.0.1"] {
            assert_eq!(stage.ask(get("/").agent(agent)).await.how(), (200, "monitor"), "{agent}");
        }
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn guessing_a_password_does_not_wake_the_server_and_a_persons_first_log_ins_do() {
    let log_in = |n: u64, address: &str| {
        let agent = format!("Mozilla/5.0 (Windows NT 6.{n}; rv:{n}.0) Gecko Firefox/{n}.0");
        post("/blog/wp-login.php", "log=admin&pwd=x").agent(&agent).by(address)
    };
    let form = || ok("<form>").field("Content-Type", "text/html");
    many_clients(asleep()).play(async |stage| {
        stage.origin.says(form());
        for n in 0..10 {
            stage.at(n * CYCLE).await;
            let expected = if n < 3 { (200, "held") } else { (503, "scanner") };
            assert_eq!(stage.ask(log_in(n, "203.0.113.9")).await.how(), expected, "attempt {n}");
        }
        assert_eq!(stage.commands().0, 3);
        // Another user, with two typos.
        for n in 10..13 {
            stage.at(n * CYCLE).await;
            let answer = if n < 12 { form() } else { status(302, "") };
            stage.origin.says(answer);
            assert_eq!(stage.ask(log_in(n, "198.51.100.7")).await.answer(), "held");
        }
        stage.at(13 * CYCLE).await;
        assert_eq!(stage.ask(log_in(13, "198.51.100.7")).await.answer(), "held");
        let known = why(stage, "203.0.113.9").await.failed_log_ins.unwrap();
        assert_eq!(known.failures, 3);
    });
}

/// A site that is awake for each of four POSTs, and asleep at the fifth: how that is answered.
fn fifth(
    answer: impl Fn() -> Says + Send + Sync + 'static,
    post: Ask,
    expected: (u16, &'static str),
) {
    asleep().play(async move |stage| {
        stage.origin.says(answer());
        for n in 0..5 {
            stage.at(n * CYCLE).await;
            let got = stage.ask(post.clone()).await;
            if n == 4 {
                assert_eq!(got.how(), expected, "{post:?}");
            }
        }
    });
}

#[test]
fn what_is_delivered_or_filled_in_badly_still_wakes_the_server() {
    let mastodon = "http.rb/5.1.1 (Mastodon/4.2.0; +https://mastodon.example/)";
    let form = "application/x-www-form-urlencoded";
    fifth(|| status(401, "{}"), post("/inbox", "{}").agent(mastodon), (401, "held"));
    fifth(|| status(403, "{}"), post("/stripe", "{}").agent("Stripe/1.0"), (403, "held"));
    let comment = post("/comments", "a=b").by_browser().field("Content-Type", form);
    fifth(|| status(422, "<form>").field("Content-Type", "text/html"), comment, (422, "held"));
}

#[test]
fn a_log_in_by_json_is_a_success_and_a_form_that_is_shown_again_is_none() {
    const HTML: &str = "text/html; charset=UTF-8";
    let log_in = || post("/login", "{}").agent("audiobookshelf/0.9");
    let says = |content_type: &'static str| {
        move || ok("x").field("Content-Type", content_type).field("Cache-Control", "no-store")
    };
    fifth(says("application/json"), log_in(), (200, "held"));
    fifth(says(HTML), log_in().field("Content-Type", "application/json"), (200, "held"));
    fifth(move || says(HTML)().field("Set-Cookie", "auth=1"), log_in(), (200, "held"));
    fifth(says(HTML), log_in(), (503, "scanner"));
    let test_cookie = move || says(HTML)().field("Set-Cookie", "wordpress_test_cookie=1");
    fifth(test_cookie, log_in(), (503, "scanner"));
}

#[test]
fn each_spelling_of_a_log_in_is_the_same() {
    many_clients(asleep()).play(async |stage| {
        stage.origin.says(ok("<form>").field("Content-Type", "text/html"));
        for (n, path) in (0..).zip([
            "/wp-login.php",
            "//wp-login.php",
            "/%77p-login.php",
            "/WP-LOGIN.php",
            "/wp-login.php;x",
            "/wp-login.php/",
        ]) {
            stage.at(n * CYCLE).await;
            let got = stage.ask(post(path, "a=b").by_browser()).await;
            let expected = if n < 3 { (200, "held") } else { (503, "scanner") };
            assert_eq!(got.how(), expected, "{path}");
        }
    });
}

#[test]
fn the_owner_may_open_the_log_in_page_of_a_cold_site() {
    let opens =
        |ask: Ask| ask.field("Sec-Fetch-Mode", "navigate").field("Sec-Fetch-Dest", "document");
    for path in ["/wp-login.php", "/wp-admin/", "/phpmyadmin/", "/jenkins/"] {
        asleep().play(async move |stage| {
            assert_eq!(stage.ask(get(path).by_browser()).await.how(), (503, "scanner"));
            let owner = stage.ask(opens(get(path).by_browser())).await;
            assert_eq!(owner.how(), (503, "waiting-page"), "{path}");
        });
    }
}

#[test]
fn an_image_on_another_site_makes_no_robot_of_its_reader_without_tls_either() {
    let planted = |path: &str| {
        get(path)
            .agent(BROWSER)
            .field("Accept", "image/avif,image/webp,*/*;q=0.8")
            .field("Referer", "http://evil.example/")
    };
    awake().play(async |stage| {
        stage.origin.says(status(404, "no").field("Cache-Control", "no-store"));
        miss(stage, planted).await;
        for path in ["/robots.txt", "/.env", "/.git/config", "/.aws/credentials"] {
            stage.ask(planted(path)).await;
        }
        stage.at(200).await;
        assert_eq!(stage.state(), "asleep");
        stage.origin.says(ok("fine"));
        assert_eq!(stage.ask(get("/").by_browser()).await.how(), (503, "waiting-page"));
    });
}

#[test]
fn clients_that_are_not_recognised_share_a_budget() {
    let few = |site: &mut nightwatt_gateway::config::SiteConfig| {
        site.clients.unrecognised_wakes_per_hour = 2;
    };
    many_clients(asleep().site(few)).play(async |stage| {
        let stranger = |n: u64| post("/a", "x").agent("app/1.0").by(&format!("203.0.113.{n}"));
        for n in 0..2 {
            stage.at(n * CYCLE).await;
            assert_eq!(stage.ask(stranger(n)).await.how(), (200, "held"));
        }
        stage.at(2 * CYCLE).await;
        let refused = stage.ask(stranger(2)).await;
        assert_eq!((refused.how(), refused.seconds("retry-after")), ((503, "budget"), 1600));
        // The server has answered the first one before; and people are known by their browsers.
        assert_eq!(stage.ask(stranger(0)).await.how(), (200, "held"));
        stage.at(3 * CYCLE).await;
        let person = get("/b").by_browser().by("203.0.113.3");
        assert_eq!(stage.ask(person).await.how(), (503, "waiting-page"));
        let left = why(stage, "203.0.113.0").await;
        assert_eq!((left.wakes_left, left.unrecognised_wakes_left), (19, 0));
    });
}

#[test]
fn each_refusal_names_its_rule_in_the_access_log() {
    let few = |site: &mut nightwatt_gateway::config::SiteConfig| {
        site.wakes_per_client_and_hour = 1;
        site.clients.unrecognised_wakes_per_hour = 1;
    };
    many_clients(asleep().site(few)).play(async |stage| {
        // Loopback is private, where no client is a stranger.
        for ask in [
            get("/a").agent(CRAWLER),
            get("/.env").by_browser(),
            get("/healthz"),
            get("/").agent("Gatus/1.0"),
            get("/favicon.ico").by_browser(),
            get("/a").agent("app/1.0").by("203.0.113.9"),
        ] {
            stage.ask(ask).await;
        }
        stage.at(CYCLE).await;
        stage.ask(get("/b").agent("app/1.0").by("203.0.113.9")).await;
        stage.ask(get("/b").agent("another/1.0").by("203.0.113.10")).await;
        let rules: Vec<_> = stage.extras().into_iter().map(|extras| extras.rule).collect();
        let named = |rule: &str| Some(rule.to_owned());
        let expected = [
            named("crawler-table"),
            named("scanner-path"),
            named("health-check"),
            named("monitor-table"),
            named("icons"),
            None,
            named("wakes-per-client"),
            named("unrecognised-wakes"),
        ];
        assert_eq!(rules, expected);
    });
}

#[test]
fn the_operator_is_told_why_and_may_forgive() {
    let stay = |config: &mut nightwatt_gateway::Config| config.scenario.policy = timeout(5);
    knows_nothing().with(stay).play(async |stage| {
        stage.origin.says(status(404, "no"));
        miss(stage, |path| get(path).agent("scan/1.0").by("203.0.113.9")).await;
        stage.pass(secs(30)).await;
        let told = why(stage, "203.0.113.9").await;
        assert_eq!((told.site.as_str(), told.wakes_left, told.clients.len()), ("blog", 20, 1));
        let client = &told.clients[0];
        assert_eq!(client.agent.as_deref(), Some("scan/1.0"));
        assert_eq!((client.class.as_str(), client.rule.as_str()), ("scanner", "misses"));
        assert_eq!((client.misses, client.since_s), (10, Some(30.0)));
        // No browser, and nothing that scanners ask for.
        assert_eq!(client.ends_in_s, Some(900.0 - 30.0));
        assert!(why(stage, "203.0.113.10").await.clients.is_empty());

        let forgive = |client: &str, site: Option<&str>| Order::Forgive {
            client: client.to_owned(),
            agent: None,
            site: site.map(str::to_owned),
        };
        for wrong in [forgive("host.example", None), forgive("203.0.113.9", Some("shop"))] {
            assert!(matches!(stage.order(wrong).await, Reply::Error(_)));
        }
        let forgiven = stage.order(forgive("203.0.113.9", None)).await;
        // Its one wake-up did not use its budget up, and is given back.
        let expected = Forgiven { clients: 1, budgets: BTreeSet::new(), restored: true };
        assert!(matches!(&forgiven, Reply::Forgiven(it) if *it == expected), "{forgiven:?}");
        let told = why(stage, "203.0.113.9").await;
        assert_eq!((told.clients[0].rule.as_str(), told.clients[0].misses), ("other", 0));
        stage.pass(secs(200)).await;
        stage.origin.says(ok("fine"));
        let again = get("/a").agent("scan/1.0").by("203.0.113.9");
        assert_eq!(stage.ask(again).await.how(), (200, "held"));
    });
}

#[test]
fn one_address_does_not_lock_out_others_that_are_not_recognised() {
    many_clients(asleep()).play(async |stage| {
        let mut woken = 0;
        for n in 0..14 {
            stage.at(n * CYCLE).await;
            let agent = format!("x{n}/1.0");
            let got = stage.ask(get(&format!("/{n}")).agent(&agent).by("198.51.100.9")).await;
            woken += u32::from(got.status == 200);
        }
        // A quarter of twelve, and one more after a third of an hour.
        assert_eq!(woken, 4);
        let rule = stage.extras().pop().unwrap().rule;
        assert_eq!(rule.as_deref(), Some("unrecognised-wakes-per-client"));
        stage.at(14 * CYCLE).await;
        let app = get("/System/Info").agent("Findroid/0.14");
        assert_eq!(stage.ask(app.by("203.0.113.2")).await.how(), (200, "held"));
        stage.at(15 * CYCLE).await;
        let hook = post("/hook", "x").agent("SomeBank-Notify/1.0").by("203.0.113.3");
        assert_eq!(stage.ask(hook).await.how(), (200, "held"));
    });
}

#[test]
fn clients_at_home_and_authorities_do_not_depend_on_what_strangers_share() {
    let one = |site: &mut nightwatt_gateway::config::SiteConfig| {
        site.clients.unrecognised_wakes_per_hour = 1;
    };
    many_clients(asleep().site(one)).play(async |stage| {
        stage.origin.says(ok("fine").field("Cache-Control", "no-store"));
        let app = get("/System/Info").agent("Findroid/0.14");
        assert_eq!(stage.ask(app.clone().by("203.0.113.2")).await.how(), (200, "held"));
        stage.at(CYCLE).await;
        assert_eq!(stage.ask(app.clone().by("203.0.113.3")).await.how(), (503, "budget"));
        assert_eq!(stage.ask(app.by("192.168.1.5")).await.how(), (200, "held"));
        let authority = "Mozilla/5.0 (compatible; Let's Encrypt validation server; \
                         +https://www.letsencrypt.org)";
        for (n, kind, agent) in [
            (2, "acme-challenge", authority),
            (3, "acme-challenge", "ca/1"),
            (4, "pki-validation", "ca/1"),
        ] {
            stage.at(n * CYCLE).await;
            assert_eq!(stage.state(), "asleep");
            let proof = get(&format!("/.well-known/{kind}/tok")).agent(agent);
            let got = stage.ask(proof.by(&format!("203.0.113.{}", 100 + n))).await;
            assert_eq!(got.how(), (200, "held"), "{kind} {agent}");
        }
    });
}

#[test]
fn each_budget_is_explained_and_forgiven() {
    let short = |site: &mut nightwatt_gateway::config::SiteConfig| {
        site.wakes_per_client_and_hour = 1;
        site.awake_per_client_and_day = secs(30);
    };
    many_clients(asleep().site(short)).play(async |stage| {
        let forgive = async |client: &str| {
            let client = client.to_owned();
            match stage.order(Order::Forgive { client, agent: None, site: None }).await {
                Reply::Forgiven(forgiven) => forgiven.budgets.into_iter().collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            }
        };
        let asks = async |client: &str| stage.ask(get("/a").agent("curl/8").by(client)).await;
        stage.origin.says(ok("fine").field("Cache-Control", "no-store"));
        // Awake for a minute at least each time.
        assert_eq!(asks("198.51.100.1").await.status, 200);
        stage.at(CYCLE).await;
        let refused = asks("198.51.100.1").await;
        assert_eq!(refused.how(), (503, "budget"));
        assert!(refused.text().contains("kept the server awake"), "{}", refused.text());
        let told = why(stage, "198.51.100.1").await;
        let rules: Vec<_> = told.spent.iter().map(|it| it.rule.as_str()).collect();
        assert_eq!(rules, ["wakes-per-client", "awake-per-client"]);
        assert_eq!(told.awake_left_s, Some(0.0));
        assert_eq!(forgive("198.51.100.1").await, ["awake-per-client", "wakes-per-client"]);
        assert_eq!(asks("198.51.100.1").await.how(), (200, "held"));
    });
}

#[test]
fn the_budget_of_a_network_is_explained_and_forgiven() {
    let one = |site: &mut nightwatt_gateway::config::SiteConfig| site.wakes_per_client_and_hour = 1;
    many_clients(asleep().site(one)).play(async |stage| {
        let asks = async |n: u64| {
            let client = format!("2001:db8:1:{n}::1");
            stage.ask(get("/a").by_browser().by(&client)).await
        };
        stage.origin.says(ok("fine").field("Cache-Control", "no-store"));
        for n in 1..5 {
            stage.at(n * CYCLE).await;
            assert_eq!(asks(n).await.answer(), "waiting-page");
        }
        stage.at(5 * CYCLE).await;
        let refused = asks(9).await;
        assert_eq!(refused.how(), (503, "budget"));
        assert!(refused.text().contains("Clients of this network"), "{}", refused.text());
        let told = why(stage, "2001:db8:1:9::1").await;
        assert_eq!((told.wakes_left, told.network_wakes_left), (1, Some(0)));
        assert_eq!(told.spent[0].rule, "wakes-per-network");
        let client = "2001:db8:1:9::1".to_owned();
        let forgiven = stage.order(Order::Forgive { client, agent: None, site: None }).await;
        let is_said =
            matches!(&forgiven, Reply::Forgiven(it) if it.budgets.contains("wakes-per-network"));
        assert!(is_said, "{forgiven:?}");
        assert_eq!(asks(9).await.answer(), "waiting-page");
    });
}
