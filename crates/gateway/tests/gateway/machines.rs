//! Servers on machines that sleep too.

use nightwatt_gateway::Config;
use nightwatt_gateway::control::{Order, Reply};

use crate::client::{get, post};
use crate::stage::{Setup, asleep, awake};

/// The site's server stands on the last of these machines, the first of which stands on none. Each takes
/// 10 s to wake and 5 s to fall asleep, and does that 30 s after the last server on it.
pub(crate) fn on(names: &'static [&'static str], more: &'static str, setup: Setup) -> Setup {
    setup.with(move |config| {
        let mut text = String::from("listen = [\"127.0.0.1:0\"]\n");
        let mut on = String::new();
        for name in names {
            let machine = format!(
                r#"
                [[machine]]
                name = "{name}"
                {on}
                power.simulated = {{ wake_time = "10s", sleep_time = "5s", {more} }}
                probe = "controller"
                linger = "30s"
                watch = "0"
                server.min_on = "0"
                "#
            );
            text.push_str(&machine);
            on = format!("on = \"{name}\"");
        }
        let site = format!("[[site]]\nname = \"blog\"\norigin = \"http://a:1\"\n{on}\n");
        text.push_str(&site);
        let parsed = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        config.machine = parsed.machine;
        config.site[0].on.clone_from(&parsed.site[0].on);
    })
}

#[test]
fn a_guest_is_woken_after_its_machine_and_put_to_sleep_before_it() {
    on(&["metal", "vm"], "", asleep()).play(async |stage| {
        assert_eq!(stage.states(), ["asleep", "asleep", "asleep"]);
        let got = stage.ask(post("/a", "x")).await;
        assert_eq!(got.status, 200);
        // 10 s for the metal, 10 for the machine on it, 5 for the server.
        assert_eq!(stage.clock.now().mono.0.as_secs(), 25);
        stage.at(26).await;
        assert_eq!(stage.states(), ["awake", "awake", "awake"]);
        // Awake for a minute at least, then 5 s to fall asleep: at 90. The machine follows after 30 s, and
        // 5 s later it sleeps, at 125; and the metal likewise, at 160.
        stage.at(89).await;
        assert_eq!(stage.states(), ["awake", "awake", "falling-asleep"]);
        stage.at(91).await;
        assert_eq!(stage.states(), ["awake", "awake", "asleep"]);
        stage.at(119).await;
        assert_eq!(stage.states(), ["awake", "awake", "asleep"]);
        stage.at(121).await;
        assert_eq!(stage.states(), ["awake", "falling-asleep", "asleep"]);
        stage.at(126).await;
        assert_eq!(stage.states(), ["awake", "asleep", "asleep"]);
        stage.at(154).await;
        assert_eq!(stage.states(), ["awake", "asleep", "asleep"]);
        stage.at(161).await;
        assert_eq!(stage.states(), ["asleep", "asleep", "asleep"]);
        let machines = stage.machines();
        assert_eq!(machines[0].ledger.sleeps, 1);
        assert_eq!(machines[0].ledger.wakeups, 1);
    });
}

#[test]
fn who_comes_while_the_machine_falls_asleep_is_answered_all_the_same() {
    on(&["metal"], "", asleep()).play(async |stage| {
        stage.ask(post("/a", "x")).await;
        // Asleep at 80, so the metal falls asleep from 110 to 115.
        stage.at(112).await;
        assert_eq!(stage.states(), ["falling-asleep", "asleep"]);
        let got = stage.ask(post("/a", "x")).await;
        assert_eq!(got.status, 200);
        assert_eq!(stage.clock.now().mono.0.as_secs(), 115 + 10 + 5);
    });
}

#[test]
fn a_server_without_power_of_its_own_sleeps_with_its_machine() {
    let setup = on(&["metal"], "", asleep()).site(|site| site.power = None);
    setup.play(async |stage| {
        stage.origin.up();
        assert_eq!(stage.ask(get("/a").by_browser()).await.status, 503, "a page that waits");
        stage.at(11).await;
        assert_eq!(stage.states(), ["awake", "awake"]);
        assert_eq!(stage.ask(get("/a").by_browser()).await.status, 200);
        // A minute at least; then it lets go at once, and the machine stays for 30 s.
        stage.at(72).await;
        assert_eq!(stage.states(), ["awake", "asleep"]);
        let got = stage.ask(get("/b").by_browser()).await;
        assert_eq!(got.status, 200, "nobody waits for a machine that is awake");
        assert_eq!(stage.clock.now().mono.0.as_secs(), 72);
        stage.at(72 + 61 + 30 + 6).await;
        assert_eq!(stage.states(), ["asleep", "asleep"]);
        // What it draws is on the machine's bill.
        assert!(stage.status().ledger.server.joules.get() <= 0.0);
        assert!(stage.machines()[0].ledger.server.joules.get() > 0.0);
    });
}

#[test]
fn a_machine_that_does_not_wake_fails_what_stands_on_it() {
    on(&["metal"], "never_wakes = true", asleep()).play(async |stage| {
        assert_eq!(stage.ask(get("/a").by_browser()).await.status, 503);
        // Three attempts of two minutes each.
        stage.at(361).await;
        assert_eq!(stage.states()[0], "failed");
        let got = stage.ask(get("/a").by_browser()).await;
        assert_eq!(got.status, 503);
        assert!(got.field("retry-after").is_some());
    });
}

#[test]
fn a_machine_is_not_put_to_sleep_under_a_server_that_is_awake_even_if_ordered() {
    on(&["metal"], "starts_up = true", awake()).play(async |stage| {
        stage.at(1).await;
        assert_eq!(stage.states(), ["awake", "awake"]);
        let order = Order::Sleep { site: Some("metal".to_owned()) };
        assert!(matches!(stage.order(order).await, Reply::Done));
        stage.at(2).await;
        assert_eq!(stage.states(), ["awake", "awake"], "not while a server is awake on it");
    });
}

#[test]
fn who_stands_on_whom_must_make_sense() {
    let parse = |machines: &str, site: &str| {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n{machines}\n[[site]]\nname = \"blog\"\norigin = \"http://a:1\"\n{site}\n"
        );
        Config::parse(&text, "f").unwrap_err().to_string()
    };
    let machine = |name: &str, on: &str| {
        format!(
            "[[machine]]\nname = \"{name}\"\nprobe = \"controller\"\npower.simulated = {{}}\n{on}\n"
        )
    };
    let unknown = parse(&machine("metal", ""), "on = \"mettle\"");
    assert!(unknown.contains("`mettle`") && unknown.contains("`metal`"), "{unknown}");
    let circle = [machine("a", "on = \"b\""), machine("b", "on = \"a\"")].concat();
    let circle = parse(&circle, "on = \"a\"");
    assert!(circle.contains("stands on itself"), "{circle}");
    let nothing = parse("", "");
    assert!(nothing.contains("`site.power` is missing"), "{nothing}");
    let twice = parse(&machine("blog", ""), "on = \"blog\"");
    assert!(twice.contains("two are called `blog`"), "{twice}");
    let short = parse(&machine("metal", "linger = \"1s\""), "on = \"metal\"");
    assert!(short.contains("`machine.linger`") && short.contains("2s"), "{short}");
}
