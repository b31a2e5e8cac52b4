use std::net::IpAddr;

use nightwatt_energy::time::Wall;
use proptest::prelude::*;

use super::*;

#[path = "classes_exemption_tests.rs"]
mod exemptions;

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

fn at(seconds: u64) -> Now {
    Now { mono: Mono::from_secs(seconds), wall: Wall::default(), utc_offset: 0 }
}

fn facts<'a>(agent: &'a str, target: &'a str) -> ClientFacts<'a> {
    ClientFacts {
        client: ClientKey::from("10.1.2.3"),
        agent: (!agent.is_empty()).then_some(agent),
        method: "GET",
        target,
        host: None,
        referer: None,
        accepts_html: None,
        credential: None,
        fetch: Fetch::Unknown,
    }
}

fn class(facts: &ClientFacts<'_>) -> ClientClass {
    Classifier::default().classify(at(0), facts)
}

/// Asks for this many missing targets, a second apart.
fn miss(classifier: &mut Classifier, count: u64) {
    for n in 0..count {
        let target = format!("/missing/{n}");
        classifier.learn(at(n), &facts(BROWSER, &target), 404);
    }
}

#[test]
fn agents_tell_most_classes() {
    for (agent, expected) in [
        (BROWSER, ClientClass::Human),
        ("Opera/9.80 (Windows NT 6.1; U; en) Presto/2.10 Version/11.61", ClientClass::Human),
        (
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            ClientClass::Crawler,
        ),
        (
            "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
            ClientClass::Monitor,
        ),
        ("curl/8.5.0", ClientClass::Api),
        ("Reeder/1.5.5 CFNetwork/548.1.4 Darwin/11.0.0", ClientClass::Api),
        ("Mozilla/5.0 ERDDAP/2.23", ClientClass::Api),
        ("", ClientClass::Api),
    ] {
        assert_eq!(class(&facts(agent, "/")), expected, "{agent}");
    }
}

#[test]
fn what_is_accepted_helps_where_the_agent_is_no_help() {
    let accepts =
        |agent, accepts| class(&ClientFacts { accepts_html: Some(accepts), ..facts(agent, "/") });
    assert_eq!(accepts("Lynx/2.9.0", true), ClientClass::Human);
    assert_eq!(accepts("Lynx/2.9.0", false), ClientClass::Api);
    assert_eq!(accepts(BROWSER, false), ClientClass::Human, "a browser that asks for an image");
    assert_eq!(accepts("curl/8.5.0", true), ClientClass::Api, "libraries stay what they are");
    assert_eq!(accepts("", true), ClientClass::Api);
    let head = ClientFacts { method: "HEAD", ..facts(BROWSER, "/") };
    assert_eq!(class(&head), ClientClass::Api);
}

#[test]
fn the_operator_knows_better_than_the_table() {
    let mut classifier = Classifier::new(ClassifierConfig {
        api_agents: vec!["Googlebot-of-ours".to_owned()],
        crawler_agents: vec!["Firefox".to_owned()],
        monitor_agents: vec!["pulse".to_owned()],
        monitor_paths: vec!["/up".to_owned()],
        ..ClassifierConfig::default()
    });
    let mut class = |agent, target| classifier.classify(at(0), &facts(agent, target));
    assert_eq!(class("Googlebot-of-ours/1.0", "/"), ClientClass::Api);
    assert_eq!(class(BROWSER, "/"), ClientClass::Crawler);
    assert_eq!(class("pulse/1.0", "/"), ClientClass::Monitor);
    assert_eq!(class("curl/8.5.0", "/up?deep=1"), ClientClass::Monitor);
    assert_eq!(class("curl/8.5.0", "/upload"), ClientClass::Api);
}

#[test]
fn eight_misses_make_a_scanner_for_a_day_after_the_last() {
    let home = facts(BROWSER, "/");
    let mut classifier = Classifier::default();
    miss(&mut classifier, 7);
    assert_eq!(classifier.classify(at(8), &home), ClientClass::Human);

    let mut classifier = Classifier::default();
    miss(&mut classifier, 8);
    assert_eq!(classifier.classify(at(8), &home), ClientClass::Scanner);
    let other = ClientFacts { client: ClientKey::from("10.1.2.4"), ..home };
    assert_eq!(classifier.classify(at(8), &other), ClientClass::Human);

    // Its last miss was at 7 s; one more at 50,000 s prolongs it.
    assert_eq!(classifier.classify(at(86_406), &home), ClientClass::Scanner);
    assert_eq!(classifier.classify(at(86_407), &home), ClientClass::Human);
    classifier.learn(at(50_000), &facts(BROWSER, "/x"), 404);
    assert_eq!(classifier.classify(at(136_399), &home), ClientClass::Scanner);
    assert_eq!(classifier.classify(at(136_400), &home), ClientClass::Human);
}

#[test]
fn who_finds_most_of_what_he_asks_for_is_no_scanner() {
    let mut classifier = Classifier::default();
    for n in 0..12u64 {
        let target = format!("/missing/{n}");
        classifier.learn(at(n), &facts(BROWSER, &target), 404);
        classifier.learn(at(n), &facts(BROWSER, "/"), 200);
    }
    assert_eq!(classifier.classify(at(20), &facts(BROWSER, "/")), ClientClass::Human);
}

#[test]
fn few_misses_an_hour_are_no_scan() {
    let mut classifier = Classifier::default();
    for n in 0..50u64 {
        let target = format!("/missing/{n}");
        classifier.learn(at(n * 120), &facts(BROWSER, &target), 404);
    }
    assert_eq!(classifier.classify(at(6000), &facts(BROWSER, "/")), ClientClass::Human);
}

#[test]
fn readers_of_a_broken_page_are_no_scanners() {
    let run = |referer, host| {
        let mut classifier = Classifier::default();
        for n in 0..40u64 {
            let target = format!("/gallery/{n}.JPG?size=2");
            let image = ClientFacts { referer: Some(referer), host, ..facts(BROWSER, &target) };
            classifier.learn(at(n), &image, 404);
        }
        classifier.classify(at(50), &facts(BROWSER, "/"))
    };
    assert_eq!(run("https://site.example/gallery", Some("site.example")), ClientClass::Human);
    assert_eq!(run("https://site.example/gallery", None), ClientClass::Human);
    assert_eq!(run("https://elsewhere.example/", Some("site.example")), ClientClass::Scanner);
    assert_eq!(run("-", None), ClientClass::Scanner);
}

#[test]
fn icons_and_gone_feeds_make_no_scanner() {
    let mut classifier = Classifier::default();
    for n in 0..300u64 {
        for target in
            ["/favicon.ico", "/apple-touch-icon-120x120.png", "/gone/feed.xml", "/robots.txt"]
        {
            classifier.learn(at(n * 30), &facts("Reader/1.0", target), 404);
        }
    }
    assert_eq!(classifier.classify(at(9000), &facts("Reader/1.0", "/")), ClientClass::Api);
}

#[test]
fn paths_of_scanners_are_known_at_once_unless_they_exist() {
    let mut classifier = Classifier::default();
    let login = facts(BROWSER, "/wp-login.php?redirect=1");
    assert_eq!(classifier.classify(at(0), &login), ClientClass::Scanner);
    assert_eq!(classifier.classify(at(0), &facts(BROWSER, "/")), ClientClass::Human);

    // One such miss may be a mistake, two are none.
    classifier.learn(at(1), &login, 404);
    assert!(!classifier.is_scanner(at(1).mono, &login));
    classifier.learn(at(2), &facts(BROWSER, "/.env"), 404);
    assert!(classifier.is_scanner(at(2).mono, &login));

    // The author of a weblog logs in, by way of the front page.
    let author =
        |target| ClientFacts { client: ClientKey::from("10.9.9.9"), ..facts(BROWSER, target) };
    classifier.learn(at(3), &author("/wp-login.php"), 200);
    assert_eq!(classifier.classify(at(4), &author("/wp-login.php")), ClientClass::Human);

    let known =
        ClassifierConfig { known_paths: vec!["/wp-".to_owned()], ..ClassifierConfig::default() };
    assert_eq!(Classifier::new(known).classify(at(0), &login), ClientClass::Human);
}

#[test]
fn who_reads_robots_txt_is_a_robot_for_a_day() {
    let mut classifier = Classifier::default();
    assert_eq!(classifier.classify(at(0), &facts("python-requests/2.31", "/a")), ClientClass::Api);
    for agent in ["python-requests/2.31", BROWSER] {
        assert_eq!(classifier.classify(at(10), &facts(agent, "/robots.txt")), ClientClass::Crawler);
        assert_eq!(classifier.classify(at(20), &facts(agent, "/a")), ClientClass::Crawler);
        assert_eq!(classifier.classify(at(86_409), &facts(agent, "/a")), ClientClass::Crawler);
    }
    // Another client behind the same address.
    let other = facts("Mozilla/5.0 (iPhone) Version/17.5 Mobile Safari/604.1", "/a");
    assert_eq!(classifier.classify(at(20), &other), ClientClass::Human);
    assert_eq!(classifier.classify(at(86_410), &facts(BROWSER, "/a")), ClientClass::Human);
}

#[test]
fn a_curious_person_is_no_robot_for_long() {
    let mut classifier = Classifier::default();
    classifier.classify(at(0), &facts(BROWSER, "/robots.txt"));
    let referer = Some("https://site.example/");
    let style = ClientFacts { referer, ..facts(BROWSER, "/main.css") };
    assert_eq!(classifier.classify(at(1), &style), ClientClass::Human);
    assert_eq!(classifier.classify(at(2), &facts(BROWSER, "/")), ClientClass::Human);

    let tool = |target| ClientFacts { referer, ..facts("python-requests/2.31", target) };
    classifier.classify(at(0), &tool("/robots.txt"));
    assert_eq!(classifier.classify(at(1), &tool("/main.css")), ClientClass::Crawler);
}

const IPHONE: &str = "Mozilla/5.0 (iPhone) AppleWebKit/605 Version/17.5 Mobile Safari/604.1";
const STRIPE: &str = "Stripe/1.0 (+https://stripe.com/docs/webhooks)";

fn send<'a>(method: &'a str, agent: &'a str, target: &'a str) -> ClientFacts<'a> {
    ClientFacts { method, ..facts(agent, target) }
}

fn rule(classifier: &mut Classifier, facts: &ClientFacts<'_>) -> Rule {
    classifier.judge(at(100), facts).rule
}

#[test]
fn others_behind_the_address_of_a_scanner_are_judged_by_themselves() {
    let mut classifier = Classifier::default();
    miss(&mut classifier, 8);
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), Rule::Misses);
    assert_eq!(rule(&mut classifier, &facts(IPHONE, "/")), Rule::Browser);
    assert_eq!(rule(&mut classifier, &send("PUT", "phone/1.0", "/file")), Rule::Other);
}

#[test]
fn what_changes_something_is_never_a_crawlers_or_a_monitors_by_the_table() {
    let googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    let uptime = "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)";
    let unlisted = "quuxcrawler (+https://quux.example/)";
    for agent in [STRIPE, googlebot, uptime, unlisted, "gotosocial/0.17 (+https://a.example)"] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "MKCOL"] {
            assert_eq!(class(&send(method, agent, "/hook")), ClientClass::Api, "{method} {agent}");
        }
    }
    assert_eq!(class(&send("GET", STRIPE, "/")), ClientClass::Crawler);
    // A robot that has read robots.txt may deliver something.
    let mut classifier = Classifier::default();
    rule(&mut classifier, &facts("quux/1.0", "/robots.txt"));
    assert_eq!(rule(&mut classifier, &facts("quux/1.0", "/")), Rule::RobotsTxt);
    assert_eq!(rule(&mut classifier, &send("POST", "quux/1.0", "/inbox")), Rule::Other);
    // They stay a scanner's.
    for n in 0..8 {
        classifier.learn(at(n), &send("POST", STRIPE, &format!("/{n}")), 404);
    }
    assert_eq!(rule(&mut classifier, &send("POST", STRIPE, "/hook")), Rule::Misses);
    // The site's own timer is no delivery.
    let cron = send("POST", "WordPress/6.6; https://a.example", "/wp-cron.php?doing_wp_cron=1");
    assert_eq!(rule(&mut classifier, &cron), Rule::WordPressCron);
}

#[test]
fn servers_of_the_fediverse_read_json_and_their_previews_read_pages() {
    let mut classifier = Classifier::default();
    for agent in
        ["Mastodon/4.3.1 (http.rb/5.2.0; +https://a.example/)", "Lemmy/0.19.5; +https://b.example"]
    {
        let json = ClientFacts { accepts_html: Some(false), ..facts(agent, "/users/alice") };
        assert_eq!(rule(&mut classifier, &json), Rule::FederationTable, "{agent}");
        let page = ClientFacts { accepts_html: Some(true), ..facts(agent, "/users/alice") };
        assert_eq!(classifier.judge(at(0), &page).class(), ClientClass::Crawler, "{agent}");
    }
}

#[test]
fn paths_of_webhooks_and_of_certificate_authorities_wake() {
    let config = ClassifierConfig {
        webhook_paths: vec!["/hooks/".to_owned(), String::new()],
        ..ClassifierConfig::default()
    };
    let mut classifier = Classifier::new(config);
    let lets_encrypt = "Mozilla/5.0 (compatible; Let's Encrypt validation server; \
                        +https://www.letsencrypt.org)";
    assert_eq!(rule(&mut classifier, &facts(lets_encrypt, "/hooks/a?x")), Rule::WebhookPaths);
    assert_eq!(rule(&mut classifier, &facts(lets_encrypt, "/")), Rule::CrawlerTable);
    for (target, is_proof) in [
        ("/.well-known/acme-challenge/aB-3_x", true),
        ("/.well-known/acme-challenge/", false),
        ("/.well-known/acme-challenge/../../x", false),
        ("/.well-known/acme-challenge/a/b", false),
        ("/.well-known/pki-validation/fileauth.txt", true),
        ("/.well-known/pki-validation/5F.txt?x", true),
        ("/.well-known/pki-validation/", false),
        ("/.well-known/pki-validation/a/b.txt", false),
        ("/0f21fd1c9c8e4ddd8ab2e7ab1ee8c5a7.txt", true),
        ("/0f21fd1c9c8e4ddd8ab2e7ab1ee8c5.txt", false),
        ("/a/0f21fd1c9c8e4ddd8ab2e7ab1ee8c5a7.txt", false),
        ("/google1a2b3c4d5e6f7081.html", true),
        ("/google.html", false),
        ("/yandex_1a2b3c4d5e6f7081.html", true),
        ("/BingSiteAuth.xml", true),
    ] {
        let verdict = classifier.judge(at(0), &facts(lets_encrypt, target));
        assert_eq!(verdict.rule == Rule::AcmeChallenge, is_proof, "{target}");
        assert_eq!(verdict.recognised, !is_proof);
    }
}

#[test]
fn a_hub_that_asks_by_a_robots_agent_wakes() {
    let hub = "FeedHub/1.0 (+https://hub.example/bot)";
    for (target, expected) in [
        ("/push?hub.mode=subscribe&hub.topic=a&hub.challenge=b", Rule::WebSub),
        ("/push?id=5&hub.challenge=b&hub.mode=unsubscribe", Rule::WebSub),
        ("/push?hub.mode=subscribe", Rule::CrawlerTable),
        ("/push?xhub.mode=a&xhub.challenge=b", Rule::CrawlerTable),
        ("/hub.mode=a&hub.challenge=b", Rule::CrawlerTable),
    ] {
        let verdict = Classifier::default().judge(at(0), &facts(hub, target));
        assert_eq!(verdict.rule, expected, "{target}");
        assert_eq!(verdict.recognised, expected != Rule::WebSub, "anybody may ask so");
    }
}

#[test]
fn a_build_or_sync_client_misses_much_and_is_no_scanner() {
    for agent in [
        "git/2.39.5",
        "Apache-Maven/3.9.9 (Java 21)",
        "Debian APT-HTTP/1.3 (2.6.1)",
        "rclone/v1.68",
    ] {
        let mut classifier = Classifier::default();
        for n in 0..500 {
            classifier.learn(at(n / 10), &facts(agent, &format!("/repo/{n}")), 404);
        }
        assert_eq!(rule(&mut classifier, &facts(agent, "/repo")), Rule::ClientTable, "{agent}");
    }
    // One that no table lists, and that the server lets write.
    let mut classifier = Classifier::default();
    classifier.learn(at(0), &send("PUT", "backup/1.0", "/a"), 201);
    for n in 0..50 {
        classifier.learn(at(n), &facts("backup/1.0", &format!("/chunks/{n}")), 404);
    }
    assert_eq!(rule(&mut classifier, &send("PUT", "backup/1.0", "/b")), Rule::Other);
}

fn with(credential: Option<u64>, target: &str) -> ClientFacts<'_> {
    ClientFacts { credential, ..facts("app/1.0", target) }
}

fn fetched<'a>(fetch: Fetch, agent: &'a str, target: &'a str) -> ClientFacts<'a> {
    ClientFacts { fetch, ..facts(agent, target) }
}

#[test]
fn a_credential_exempts_once_the_server_has_honoured_it() {
    let scanned = |classifier: &mut Classifier, credential| {
        for n in 0..20 {
            classifier.learn(at(n), &with(credential, &format!("/guess/{n}")), 404);
        }
    };
    let mut classifier = Classifier::default();
    scanned(&mut classifier, Some(7));
    assert_eq!(
        rule(&mut classifier, &with(Some(7), "/")),
        Rule::Misses,
        "one that was never honoured"
    );
    classifier.learn(at(30), &with(Some(8), "/mine"), 200);
    assert_eq!(rule(&mut classifier, &with(Some(8), "/")), Rule::Other);
    assert_eq!(rule(&mut classifier, &with(Some(7), "/")), Rule::Misses);
    assert_eq!(rule(&mut classifier, &with(None, "/")), Rule::Misses);
    classifier.learn(at(31), &with(Some(8), "/mine"), 401);
    assert_eq!(rule(&mut classifier, &with(Some(8), "/")), Rule::Misses, "it was withdrawn");
    // What the cache gives is no merit.
    let traits = classifier.traits(&with(Some(9), "/page"));
    classifier.learn_cached(at(32).mono, &traits, 200);
    assert_eq!(rule(&mut classifier, &with(Some(9), "/")), Rule::Misses);

    let mut classifier = Classifier::default();
    classifier.learn(at(0), &with(Some(8), "/mine"), 200);
    scanned(&mut classifier, Some(8));
    assert_eq!(rule(&mut classifier, &with(None, "/")), Rule::Other, "its misses do not count");
}

#[test]
fn nothing_is_learned_of_what_another_site_has_a_browser_ask_for() {
    let mut classifier = Classifier::default();
    classifier.judge(at(0), &fetched(Fetch::PartOfAnotherSite, BROWSER, "/robots.txt"));
    for n in 0..50 {
        classifier.learn(
            at(n),
            &fetched(Fetch::PartOfAnotherSite, BROWSER, &format!("/missing/{n}")),
            404,
        );
        classifier.learn(at(n), &fetched(Fetch::PartOfAnotherSite, BROWSER, "/.env"), 404);
    }
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), Rule::Browser);
}

#[test]
fn a_navigation_clears_the_mark_but_claiming_one_each_time_does_not() {
    let mut classifier = Classifier::default();
    // A neighbour with the same browser.
    classifier.judge(at(0), &facts(BROWSER, "/robots.txt"));
    assert_eq!(rule(&mut classifier, &fetched(Fetch::Navigation, BROWSER, "/")), Rule::Browser);
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), Rule::Browser, "for good");
    miss(&mut classifier, 8);
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), Rule::Misses);
    assert_eq!(rule(&mut classifier, &fetched(Fetch::Navigation, BROWSER, "/")), Rule::Browser);
    for n in 0..8 {
        classifier.learn(
            at(100 + n),
            &fetched(Fetch::Navigation, BROWSER, &format!("/again/{n}")),
            404,
        );
    }
    assert_eq!(rule(&mut classifier, &fetched(Fetch::Navigation, BROWSER, "/")), Rule::Misses);
    // No program navigates.
    classifier.judge(at(0), &facts("python-requests/2.31", "/robots.txt"));
    assert_eq!(
        rule(&mut classifier, &fetched(Fetch::Navigation, "python-requests/2.31", "/")),
        Rule::RobotsTxt
    );
}

#[test]
fn a_post_to_a_scanners_path_is_refused_only_where_that_is_known_to_be_absent() {
    let mut classifier = Classifier::default();
    let log_in = |target| send("POST", BROWSER, target);
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/wp-login.php")), Rule::ScannerPath);
    assert_eq!(rule(&mut classifier, &log_in("/wp-login.php")), Rule::Browser);
    classifier.learn(at(0), &log_in("/wp-login.php?a"), 404);
    let other = ClientFacts { client: ClientKey::from("10.9.9.9"), ..log_in("/wp-login.php?b") };
    assert_eq!(rule(&mut classifier, &other), Rule::ScannerPath);
    assert_eq!(rule(&mut classifier, &log_in("/blog/wp-login.php")), Rule::Browser);
}

#[test]
fn a_program_is_recognised_once_the_server_has_answered_it() {
    let mut classifier = Classifier::default();
    let mut is_recognised = |facts: &ClientFacts<'_>| classifier.judge(at(0), facts).recognised;
    assert!(is_recognised(&facts(BROWSER, "/")) && is_recognised(&send("POST", STRIPE, "/hook")));
    for agent in ["", "curl/8.5.0", "app/1.0"] {
        assert!(!is_recognised(&facts(agent, "/")), "{agent}");
    }
    let traits = classifier.traits(&facts("app/1.0", "/"));
    classifier.learn_cached(at(0).mono, &traits, 200);
    assert!(!classifier.judge(at(0), &facts("app/1.0", "/")).recognised);
    classifier.learn(at(0), &facts("app/1.0", "/"), 200);
    assert!(classifier.judge(at(0), &facts("app/1.0", "/")).recognised);
}

#[test]
fn what_is_known_of_an_address_is_told_by_agent_and_forgiven() {
    let mut classifier = Classifier::default();
    let address = ClientKey::from("10.1.2.3");
    miss(&mut classifier, 8);
    classifier.learn(at(1), &facts(IPHONE, "/"), 200);
    for second in 0..3 {
        classifier.learn(at(second), &send("POST", IPHONE, "/login"), 200);
    }
    let mut known = classifier.known(at(100).mono, address, None);
    known.sort_by_key(|it| it.verdict.rule);
    assert_eq!(known.len(), 2);
    assert_eq!((known[0].verdict.rule, known[0].agent.as_deref()), (Rule::Misses, Some(BROWSER)));
    assert_eq!((known[0].misses, known[0].since), (8, Some(at(7).mono)));
    assert_eq!(known[0].verdict.until, Some(at(86_407).mono));
    assert_eq!((known[1].verdict.rule, known[1].misses), (Rule::Browser, 0));
    assert_eq!(classifier.failed_log_ins(at(100).mono, address).unwrap().failures, 3);
    assert_eq!(classifier.known(at(100).mono, ClientKey::from("10.9.9.9"), None), []);

    assert_eq!(classifier.forgive(address, Some(IPHONE)), 0, "it did nothing wrong");
    assert_eq!(classifier.forgive(address, Some(BROWSER)), 1);
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), Rule::Browser);
    assert_eq!(classifier.failed_log_ins(at(100).mono, address), None);
}

#[test]
fn clients_are_told_apart_by_what_they_own() {
    let key = ClientKey::from;
    assert_eq!(key("10.0.0.1"), ClientKey::from("10.0.0.1".parse::<IpAddr>().unwrap()));
    assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
    assert_eq!(key("2001:db8:1:2::5"), key("2001:db8:1:2:ffff::1"));
    assert_ne!(key("2001:db8:1:2::5"), key("2001:db8:1:3::5"));
    assert_ne!(key("a.example"), key("b.example"));
}

#[test]
fn empty_entries_of_a_config_mean_nothing() {
    let empty = vec![String::new()];
    let mut classifier = Classifier::new(ClassifierConfig {
        api_agents: empty.clone(),
        crawler_agents: empty.clone(),
        monitor_agents: empty.clone(),
        scanner_paths: empty.clone(),
        known_paths: empty,
        ..ClassifierConfig::default()
    });
    assert_eq!(classifier.classify(at(0), &facts(BROWSER, "/")), ClientClass::Human);
    assert_eq!(classifier.classify(at(0), &facts(BROWSER, "/.env")), ClientClass::Scanner);
}

#[test]
fn a_config_is_what_is_given_and_the_rest_is_default() {
    let config: ClassifierConfig = serde_json::from_str(r#"{"scanner_misses": 3}"#).unwrap();
    assert_eq!(config, ClassifierConfig { scanner_misses: 3, ..ClassifierConfig::default() });
}

proptest! {
    #[test]
    fn memory_is_bounded_and_nothing_panics(
        steps in proptest::collection::vec(
            (any::<u32>(), any::<u16>(), "\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}", any::<u32>()), 0..200)
    ) {
        let config = ClassifierConfig { clients: 32, ..ClassifierConfig::default() };
        let mut classifier = Classifier::new(config);
        for (client, status, agent, target, referer, time) in steps {
            let facts = ClientFacts {
                client: ClientKey::V4(client),
                referer: Some(&referer),
                ..facts(&agent, &target)
            };
            classifier.classify(at(time.into()), &facts);
            classifier.learn(at(time.into()), &facts, status);
            prop_assert!(classifier.clients() <= 32);
        }
    }
}
