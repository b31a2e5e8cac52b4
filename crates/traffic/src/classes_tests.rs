use nightwatt_model::time::Wall;
use proptest::prelude::*;

use super::*;

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
    }
}

fn class(facts: &ClientFacts<'_>) -> ClientClass {
    Classifier::default().classify(at(0), facts)
}

/// Asks for so many missing targets, a second apart.
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
    assert!(!classifier.is_scanner(at(1).mono, login.client));
    classifier.learn(at(2), &facts(BROWSER, "/.env"), 404);
    assert!(classifier.is_scanner(at(2).mono, login.client));

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
    // Somebody else behind the same address.
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
