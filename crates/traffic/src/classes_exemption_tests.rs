//! What is taken for a guess, a scan or a robot, and what only looks like one.

use super::*;

#[test]
fn guessing_a_password_is_scanning_and_a_first_log_in_is_not() {
    let log_in = |agent| send("POST", agent, "/blog/wp-login.php");
    let mut classifier = Classifier::default();
    // A person, and two typos.
    for second in 0..3 {
        assert_eq!(rule(&mut classifier, &log_in(BROWSER)), Rule::Browser, "attempt {second}");
        classifier.learn(at(second), &log_in(BROWSER), 200);
    }
    // With a new agent each time.
    assert_eq!(rule(&mut classifier, &log_in(IPHONE)), Rule::LogInGuessing);
    assert_eq!(rule(&mut classifier, &facts(BROWSER, "/blog/")), Rule::Browser, "only log-ins");
    let elsewhere = ClientFacts { client: ClientKey::from("10.9.9.9"), ..log_in(BROWSER) };
    assert_eq!(rule(&mut classifier, &elsewhere), Rule::Browser);
    classifier.learn(at(10), &log_in(BROWSER), 302);
    assert_eq!(rule(&mut classifier, &log_in(BROWSER)), Rule::Browser);
}

const MASTODON: &str = "http.rb/5.1.1 (Mastodon/4.2.0; +https://mastodon.social/)";

fn html(status: u16, shows_form: bool) -> Reply {
    Reply { status, shows_form: Some(shows_form) }
}

/// The rule for a POST after four that were answered alike.
fn after_four(post: &ClientFacts<'_>, reply: Reply) -> Rule {
    let mut classifier = Classifier::default();
    for second in 0..4 {
        classifier.learn(at(second), post, reply);
    }
    rule(&mut classifier, post)
}

#[test]
fn what_is_delivered_or_filled_in_badly_is_no_guess() {
    for (agent, target, reply, expected) in [
        (MASTODON, "/inbox", html(401, false), Rule::FederationTable),
        (STRIPE, "/stripe", html(403, false), Rule::WebhookTable),
        (BROWSER, "/comments", html(422, true), Rule::Browser),
        ("unlisted/1.0", "/hook", html(401, false), Rule::Other),
        ("audiobookshelf/0.9 okhttp/4.9", "/login", html(200, false), Rule::LibraryTable),
        ("audiobookshelf/0.9 okhttp/4.9", "/login", html(401, false), Rule::LogInGuessing),
        (BROWSER, "/login", html(200, true), Rule::LogInGuessing),
        (BROWSER, "/api/login", html(401, false), Rule::LogInGuessing),
        // Nothing is delivered to a log-in form.
        (STRIPE, "/wp-login.php", html(403, false), Rule::LogInGuessing),
    ] {
        let got = after_four(&send("POST", agent, target), reply);
        assert_eq!(got, expected, "{agent} {target} {reply:?}");
    }
    for agent in [MASTODON, STRIPE] {
        let keyed = ClientFacts { credential: Some(7), ..send("POST", agent, "/hook") };
        assert_ne!(after_four(&keyed, html(401, false)), Rule::LogInGuessing, "{agent}");
    }
}

#[test]
fn all_spellings_of_a_log_in_count_together() {
    let mut classifier = Classifier::default();
    for (n, target) in (0..).zip(["/wp-login.php", "//wp-login.php", "/%77p-login.php?a"]) {
        assert_eq!(rule(&mut classifier, &send("POST", BROWSER, target)), Rule::Browser);
        classifier.learn(at(n), &send("POST", BROWSER, target), 200);
    }
    for target in ["/wp-login.php", "/WP-LOGIN.php", "/blog/../wp-login.php", "/wp-login.php;x"] {
        let got = rule(&mut classifier, &send("POST", BROWSER, target));
        assert_eq!(got, Rule::LogInGuessing, "{target}");
    }
    // So do those of a path that is not there.
    let mut classifier = Classifier::default();
    classifier.learn(at(0), &send("POST", BROWSER, "/xmlrpc.php"), 404);
    let got = rule(&mut classifier, &send("POST", IPHONE, "//XMLRPC.php/"));
    assert_eq!(got, Rule::ScannerPath);
}

#[test]
fn commands_to_wordpress_are_guesses_unless_their_sender_fetched_something_else() {
    let command = send("POST", "app/1.0", "/xmlrpc.php");
    assert_eq!(after_four(&command, html(200, false)), Rule::LogInGuessing);
    let mut classifier = Classifier::default();
    classifier.learn(at(0), &facts("app/1.0", "/wp-content/uploads/1.jpg"), 200);
    for second in 0..9 {
        classifier.learn(at(second), &command, 200);
    }
    assert_eq!(rule(&mut classifier, &command), Rule::Other);
}

#[test]
fn a_person_behind_the_address_of_a_guesser_may_log_in_once_an_hour() {
    let log_in = |agent| send("POST", agent, "/wp-login.php");
    let opens = |agent| ClientFacts { fetch: Fetch::Navigation, ..log_in(agent) };
    let mut classifier = Classifier::default();
    for second in 0..3 {
        classifier.learn(at(second), &log_in(BROWSER), 200);
    }
    assert_eq!(rule(&mut classifier, &opens(BROWSER)), Rule::LogInGuessing, "it failed itself");
    assert_eq!(rule(&mut classifier, &opens("bad/1.0")), Rule::LogInGuessing, "no browser");
    assert_eq!(rule(&mut classifier, &log_in(IPHONE)), Rule::LogInGuessing);
    assert_eq!(rule(&mut classifier, &opens(IPHONE)), Rule::Browser);
    assert_eq!(rule(&mut classifier, &opens(IPHONE)), Rule::LogInGuessing);
    let later = at(100 + 3600);
    assert_eq!(classifier.judge(later, &opens(IPHONE)).rule, Rule::Browser);
}

#[test]
fn without_tls_the_referer_says_that_another_site_asked() {
    let planted = |referer, accepts_html, target| ClientFacts {
        host: Some("site.example"),
        referer,
        accepts_html,
        ..facts(BROWSER, target)
    };
    let (evil, own) = (Some("http://evil.example/"), Some("http://site.example/"));
    for (referer, accepts_html, expected) in [
        (evil, Some(false), Rule::Browser),
        (evil, Some(true), Rule::Misses),
        (own, Some(false), Rule::Misses),
        (None, Some(false), Rule::Misses),
        (Some("about:blank"), Some(false), Rule::Misses),
        (evil, None, Rule::Misses),
    ] {
        let mut classifier = Classifier::default();
        for target in ["/.env", "/.git/config"] {
            classifier.learn(at(0), &planted(referer, accepts_html, target), 404);
        }
        assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), expected, "{referer:?}");

        let mut classifier = Classifier::default();
        classifier.judge(at(0), &planted(referer, accepts_html, "/robots.txt"));
        let is_foreign = expected == Rule::Browser;
        let expected = if is_foreign { Rule::Browser } else { Rule::RobotsTxt };
        assert_eq!(rule(&mut classifier, &facts(BROWSER, "/")), expected, "{referer:?}");
    }
    // A program says what it likes.
    let mut classifier = Classifier::default();
    let program = ClientFacts { agent: Some("scan/1.0"), ..planted(evil, Some(false), "/.env") };
    classifier.learn(at(0), &program, 404);
    classifier.learn(at(0), &ClientFacts { target: "/.git/", ..program }, 404);
    assert_eq!(rule(&mut classifier, &facts("scan/1.0", "/")), Rule::Misses);
}

#[test]
fn an_owner_may_open_the_log_in_page_of_a_site_that_has_not_shown_it() {
    let opens = |agent, target| ClientFacts {
        host: Some("site.example"),
        ..fetched(Fetch::Navigation, agent, target)
    };
    for target in ["/wp-login.php", "/wp-admin/", "/phpmyadmin/", "/jenkins/"] {
        let mut classifier = Classifier::default();
        assert_eq!(rule(&mut classifier, &facts(BROWSER, target)), Rule::ScannerPath);
        assert_eq!(rule(&mut classifier, &opens("bad/1.0", target)), Rule::ScannerPath);
        assert_eq!(rule(&mut classifier, &opens(BROWSER, target)), Rule::Browser, "{target}");
        let again = rule(&mut classifier, &opens(BROWSER, target));
        assert_eq!(again, Rule::ScannerPath, "once an hour");
        let later = classifier.judge(at(100 + 3600), &opens(BROWSER, target));
        assert_eq!(later.rule, Rule::Browser);
    }
    let mut classifier = Classifier::default();
    let style = |referer, host| ClientFacts {
        host,
        referer: Some(referer),
        ..facts(BROWSER, "/wp-content/plugins/x/style.css")
    };
    let (own, host) = ("http://site.example/", Some("site.example"));
    for _ in 0..3 {
        assert_eq!(rule(&mut classifier, &style(own, host)), Rule::Browser);
    }
    assert_eq!(rule(&mut classifier, &style("http://a.example/", host)), Rule::ScannerPath);
    assert_eq!(rule(&mut classifier, &style(own, None)), Rule::ScannerPath, "in a log");
    let mut strict = Classifier::new(ClassifierConfig {
        scanner_paths: vec!["/wp-login".to_owned()],
        ..ClassifierConfig::default()
    });
    let named = opens(BROWSER, "/wp-login.php");
    assert_eq!(rule(&mut strict, &named), Rule::ScannerPath, "by the operator");
}

#[test]
fn a_program_that_looks_for_what_is_not_there_is_a_scanner_for_a_quarter_of_an_hour() {
    let until = |agent: &str, more: Option<&str>| {
        let mut classifier = Classifier::default();
        for n in 0..12 {
            classifier.learn(at(n), &facts(agent, &format!("/packages/{n}")), 404);
        }
        if let Some(more) = more {
            classifier.learn(at(11), &facts(agent, more), 404);
        }
        classifier.judge(at(12), &facts(agent, "/")).until
    };
    // Twelve misses from 0 s to 11 s.
    assert_eq!(until("okhttp/4.9.2", None), Some(at(11 + 900).mono));
    assert_eq!(until("unlisted/1.0", None), Some(at(11 + 900).mono));
    assert_eq!(until("unlisted/1.0", Some("/.env")), Some(at(11 + 86_400).mono));
    assert_eq!(until(BROWSER, None), Some(at(11 + 86_400).mono));
    let config = ClassifierConfig { scanner_for_s: 60, ..ClassifierConfig::default() };
    let mut brief = Classifier::new(config);
    for n in 0..12 {
        brief.learn(at(n), &facts("unlisted/1.0", &format!("/{n}")), 404);
    }
    assert_eq!(brief.judge(at(12), &facts("unlisted/1.0", "/")).until, Some(at(71).mono));
}
