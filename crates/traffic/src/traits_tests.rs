use std::net::Ipv4Addr;

use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::ClientClass;
use proptest::prelude::*;

use super::*;

#[test]
fn parts_of_pages_are_known_by_their_ending() {
    for path in ["/a.png", "/x/y.JPEG", "/font.woff2", "/app.js", "/.css", "/a.mp4"] {
        assert!(is_part(path), "{path}");
    }
    for path in ["", "/", "/a", "/a.html", "/png", "/a.png/", "/a.jpegs", "/a.xjpeg", "/a."] {
        assert!(!is_part(path), "{path}");
    }
}

#[test]
fn visitors_are_told_apart_by_address_and_agent() {
    let rules = Rules::new(ClassifierConfig::default());
    let mut memo = AgentMemo::new(8);
    let mut visitor_of = |address: &str, agent: Option<&str>| {
        let facts = ClientFacts {
            client: client_key(address),
            agent,
            method: "GET",
            target: "/",
            host: None,
            referer: None,
            accepts_html: None,
            credential: None,
            fetch: Fetch::Unknown,
        };
        visitor(address, &rules.traits(&mut memo, &facts))
    };
    let mut all = Vec::new();
    for address in ["10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2", "host.example"] {
        for agent in [None, Some("Firefox"), Some("Safari")] {
            assert_eq!(visitor_of(address, agent), visitor_of(address, agent));
            all.push(visitor_of(address, agent));
        }
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 15);
}

/// The classifier as it was before it was split, in as few words as may be: rules and memory in
/// one, nothing cached.
fn undivided(facts: &ClientFacts<'_>) -> Option<ClientClass> {
    let path = facts.target.split('?').next().unwrap_or_default();
    let agent = facts.agent.unwrap_or_default();
    let listed = CrawlerTable::shared().lookup(agent).map(|found| found.kind);
    match (["/healthz", "/livez", "/readyz"].contains(&path), listed) {
        (true, _) | (false, Some(AgentKind::Monitor)) => Some(ClientClass::Monitor),
        (false, Some(AgentKind::Crawler)) => Some(ClientClass::Crawler),
        _ => None,
    }
}

fn agents() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        Just(Some("curl/8.5.0".to_owned())),
        Just(Some("Mozilla/5.0 (compatible; Googlebot/2.1)".to_owned())),
        Just(Some("Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0".to_owned())),
        Just(Some("Mozilla/5.0+(compatible; UptimeRobot/2.0)".to_owned())),
        "\\PC{0,30}".prop_map(Some),
    ]
}

fn targets() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/".to_owned()),
        Just("/robots.txt".to_owned()),
        Just("/healthz?deep".to_owned()),
        Just("/wp-login.php".to_owned()),
        Just("/a/main.css".to_owned()),
        "/[a-z]{0,3}",
        "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn the_quick_reading_of_addresses_is_the_library_s(
        text in prop_oneof!["[0-9.]{0,16}", "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}", "[0-9a-f:.]{0,20}"]
    ) {
        prop_assert_eq!(client_key(&text), ClientKey::from(text.as_str()));
        if let Some(address) = crate::address::quick_ipv4(text.as_bytes()) {
            prop_assert_eq!(text.parse::<Ipv4Addr>(), Ok(address));
        }
    }

    /// By facts or by traits taken elsewhere: one classifier.
    #[test]
    fn traits_taken_by_another_thread_give_the_same_classes(
        steps in proptest::collection::vec(
            (0u32..4, agents(), targets(), any::<bool>(), 0u64..2000, prop_oneof![Just(200u16), Just(404)]), 1..80)
    ) {
        use crate::classifier::Classifier;
        use nightwatt_energy::time::{Now, Wall};
        let rules = std::sync::Arc::new(Rules::new(ClassifierConfig::default()));
        let mut whole = Classifier::default();
        let mut split = Classifier::with_rules(rules.clone());
        // Small: what is forgotten is looked up again, and is the same.
        let mut memo = AgentMemo::new(2);
        let mut now = 0;
        for (client, agent, target, referred, step, status) in steps {
            now += step;
            let mono = Mono::from_secs(now);
            let facts = ClientFacts {
                client: ClientKey::V4(client),
                agent: agent.as_deref(),
                method: "GET",
                target: &target,
                host: None,
                referer: referred.then_some("https://site.example/"),
                accepts_html: None,
                credential: None,
            fetch: Fetch::Unknown,
            };
            let traits = rules.traits(&mut memo, &facts);
            let class = whole.classify(Now { mono, wall: Wall::default(), utc_offset: 0 }, &facts);
            prop_assert_eq!(split.class_of(mono, &traits), class);
            if let Some(expected) = undivided(&facts) {
                prop_assert_eq!(class, expected);
            }
            whole.learn(Now { mono, wall: Wall::default(), utc_offset: 0 }, &facts, status);
            split.learn_of(mono, &traits, status);
        }
    }
}
