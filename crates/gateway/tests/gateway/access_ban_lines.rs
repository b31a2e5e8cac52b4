//! The lines that lead to bans: each rule that the documentation names is in a line of the real log, and the
//! real filter of fail2ban counts those that it is to count, and no others.

use std::collections::{BTreeMap, BTreeSet};

use nightwatt_gateway::config::AccessConfig;

use crate::access::{ANN, WRONG, behind_a_proxy, networks, password};
use crate::access_forward::guard;
use crate::client::{Ask, CRAWLER, get, post};
use crate::origin::{ok, status};
use crate::stage::{Stage, awake};

/// Asks for paths of scanners.
const SCANNER: &str = "198.51.100.1";
/// Asks for what is not there.
const MISSES: &str = "198.51.100.2";
/// Guesses the password of a log-in form.
const FORM: &str = "198.51.100.3";
/// Guesses a password of `htpasswd`.
const GUESSER: &str = "198.51.100.4";

/// Rules that lead to a ban.
const COUNTED: [&str; 5] =
    ["access-attempts", "access-password", "log-in-guessing", "misses", "scanner-path"];

/// Rules of access that do not.
const UNCOUNTED: [&str; 7] = [
    "access-certificate",
    "access-forward",
    "access-log-in",
    "access-network",
    "access-service",
    "access-unnamed",
    "access-wake",
];

/// Those need a queue that is full, or a client that leaves: other tests cause them.
const ELSEWHERE: [&str; 2] = ["access-busy", "access-left"];

fn from(client: &str, ask: Ask) -> Ask {
    ask.field("X-Forwarded-For", client)
}

/// Words in code style in the rows of the tables between two places of `docs/access.md`.
fn documented(after: &str, before: &str) -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once(after).unwrap();
    let (section, _) = rest.split_once(before).unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn names(rules: &[&str]) -> BTreeSet<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

/// Clients that the server has judged while it was awake, and that come again while it sleeps.
async fn scan(stage: &Stage) {
    stage.origin.says(status(404, "no"));
    for n in 0..10 {
        let ask = get(&format!("/guess/{n}")).agent("scan/1.0");
        assert_eq!(stage.ask(from(MISSES, ask)).await.status, 404);
    }
    stage.origin.says(ok("<form>").field("Content-Type", "text/html"));
    let log_in = || from(FORM, post("/wp-login.php", "log=admin&pwd=x").by_browser());
    for _ in 0..3 {
        assert_eq!(stage.ask(log_in()).await.how(), (200, "server"));
    }
    stage.at(200).await;
    assert_eq!(stage.state(), "asleep");
    for _ in 0..3 {
        for ask in [
            from(MISSES, get("/").agent("scan/1.0")),
            from(SCANNER, get("/.env").by_browser()),
            log_in(),
        ] {
            assert_eq!(stage.ask(ask).await.how(), (503, "scanner"));
        }
    }
    assert_eq!(stage.ask(from("192.0.2.1", get("/a").agent(CRAWLER))).await.answer(), "crawler");
}

/// Clients that the rules of access keep out of a site that sleeps.
async fn come(stage: &mut Stage) {
    let rules = AccessConfig {
        deny: networks(&["192.0.2.2"]),
        wake: Some(networks(&["10.0.0.0/8"])),
        ..password()
    };
    stage.reload(|config| config.site[0].access = Some(rules)).await.unwrap();
    for _ in 0..12 {
        stage.ask(from(GUESSER, get("/").field("Authorization", WRONG))).await;
    }
    for (client, login, status) in [
        ("192.0.2.2", ANN, 403),
        ("unknown", ANN, 403),
        ("192.0.2.3", "Bearer x", 401),
        ("192.0.2.4", ANN, 503),
    ] {
        let ask = from(client, get("/b").field("Authorization", login));
        assert_eq!(stage.ask(ask).await.how(), (status, "denied"), "{client}");
    }
    let certificate =
        AccessConfig { certificate_ca: Some("family.pem".into()), ..AccessConfig::default() };
    stage.reload(|config| config.site[0].access = Some(certificate)).await.unwrap();
    assert_eq!(stage.ask(from("192.0.2.5", get("/b"))).await.how(), (403, "denied"));
    let service = guard(stage, "").await;
    assert_eq!(stage.ask(from("192.0.2.6", get("/b"))).await.how(), (401, "denied"));
    service.down().await;
    assert_eq!(stage.ask(from("192.0.2.7", get("/b"))).await.how(), (503, "denied"));
}

/// How many lines of each client have a rule that leads to a ban.
fn counted(stage: &Stage) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in stage.extras() {
        if line.rule.is_some_and(|rule| COUNTED.contains(&rule.as_str())) {
            *counts.entry(line.client).or_default() += 1;
        }
    }
    counts
}

/// What `fail2ban-regex` prints about these lines with the filter that we ship.
pub(crate) fn fail2ban_regex(lines: &[String]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n") + "\n").unwrap();
    let filter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/fail2ban/nightwatt.conf");
    let ran = nightwatt_needs::command("fail2ban-regex")
        .args(["--print-all-matched", "-v"])
        .arg(file.path())
        .arg(filter)
        .output();
    String::from_utf8(ran.unwrap().stdout).unwrap()
}

/// Its whole output about these lines, and those that it prints as matched.
fn matched(lines: &[String]) -> (String, String) {
    let said = fail2ban_regex(lines);
    let (matched, _) = said.split_once("Missed line(s)").expect("lines that do not count");
    (said.clone(), matched.to_owned())
}

#[test]
fn each_rule_that_the_documentation_counts_is_in_lines_that_the_real_filter_finds() {
    if !nightwatt_needs::programs(&["fail2ban-regex"]) {
        return;
    }
    behind_a_proxy(awake()).play(async |stage| {
        scan(stage).await;
        come(stage).await;
        assert_eq!(stage.commands().0, 0, "none of them has woken the server");
        let seen: BTreeSet<String> = stage.extras().into_iter().filter_map(|it| it.rule).collect();
        let crawler = ["crawler-table"];
        assert_eq!(seen, names(&[&COUNTED[..], &UNCOUNTED, &crawler].concat()));
        let counted = counted(stage);
        let expected = [(SCANNER, 3), (MISSES, 3), (FORM, 3), (GUESSER, 12)];
        let expected = expected.map(|(client, count)| (client.to_owned(), count));
        assert_eq!(counted, BTreeMap::from(expected));
        let lines = stage.log();
        let (said, matched) = matched(&lines);
        let total = format!("Lines: {} lines, 0 ignored, 21 matched", lines.len());
        assert!(said.contains(&total), "{said}\n{lines:#?}");
        for (client, count) in &counted {
            let found = matched.matches(&format!("{client} - - [")).count();
            assert_eq!(found, *count, "{client} in {said}");
        }
    });
}

#[test]
fn the_documentation_names_each_rule_of_access_and_those_that_lead_to_bans() {
    let bans = documented("## Bans", "### fail2ban");
    let rules = bans.into_iter().filter(|word| !word.contains('='));
    assert_eq!(rules.collect::<BTreeSet<_>>(), names(&COUNTED));
    let answers = documented("# Who may come in", "## Networks");
    let rules = answers.into_iter().filter(|word| word.starts_with("access-"));
    let of_access = COUNTED.into_iter().filter(|rule| rule.starts_with("access-"));
    let all: Vec<&str> = of_access.chain(UNCOUNTED).chain(ELSEWHERE).collect();
    assert_eq!(rules.collect::<BTreeSet<_>>(), names(&all));
}
