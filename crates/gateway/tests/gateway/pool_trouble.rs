//! Servers of a pool that are ordered about, that fail, and whose clients take their time.

use nightwatt_gateway::config::AccessConfig;
use nightwatt_gateway::control::Order;

use crate::access::{behind_a_proxy, networks};
use crate::client::{Got, get};
use crate::origin::{Act, ok, raw};
use crate::pool::{Done, FOUR, ONE_EACH, ask_beside, four, seen, takes};
use crate::stage::{asleep, secs};

/// As `ONE_EACH`, but two are always on.
fn two_on() -> &'static str {
    ONE_EACH.replace("delayed-off 20s", "always-on 2").leak()
}

fn to_sleep(name: &str) -> Order {
    Order::Sleep { site: Some(name.to_owned()) }
}

fn to_wake(name: &str) -> Order {
    Order::Wake { site: Some(name.to_owned()) }
}

#[test]
fn a_server_is_not_put_to_sleep_in_the_middle_of_an_exchange() {
    four().play(async |stage| {
        stage.at(6).await;
        takes(stage, 30);
        let client = ask_beside(stage, get("/1")).await;
        assert_eq!(stage.order(to_sleep("a")).await.done(), "done");
        // Another is to take its place. It serves on until that is on, finishes what it has, and goes.
        assert_eq!(stage.duties(), ["on", "starting", "off", "off"]);
        stage.at(12).await;
        assert_eq!(stage.duties(), ["draining", "on", "off", "off"]);
        stage.at(35).await;
        assert_eq!(stage.members[0].power.calls().sleeps, 0);
        assert_eq!(client.await.unwrap().status, 200);
        assert_eq!(stage.now().0.as_secs(), 36);
        stage.at(37).await;
        assert_eq!(stage.duties(), ["off", "on", "off", "off"]);
        assert_eq!(stage.members[0].power.calls().sleeps, 1);
    });
}

#[test]
fn a_server_that_answers_rubbish_is_out_and_another_answers() {
    four().play(async |stage| {
        stage.at(6).await;
        stage.members[0].origin.script(|_| raw("SSH-2.0-OpenSSH_9.2p1\r\n\r\n"));
        // The only one that is on is tried once more while the next one starts.
        assert_eq!(stage.ask(get("/1")).await.status, 200);
        assert!((1..=2).contains(&stage.members[0].origin.seen().len()));
        assert_eq!(stage.members[1].origin.seen().len(), 1);
    });
}

#[test]
fn a_tunnel_takes_no_place_and_keeps_its_server_from_sleeping() {
    four().play(async |stage| {
        stage.at(6).await;
        stage.members[0].origin.script(|seen| {
            if seen.target != "/chat" {
                return ok("no chat").acts();
            }
            let head =
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n";
            vec![Act::Say(head.as_bytes().to_vec()), Act::Echo]
        });
        let upgrade = get("/chat").field("Connection", "upgrade").field("Upgrade", "chat");
        let mut tunnel = stage.begin(upgrade).await;
        assert_eq!(tunnel.head().await.status, 101);
        tunnel.lets_time_pass();
        // It takes no place: the next one is answered beside it, and idling in it is no work.
        assert_eq!(stage.ask(get("/1")).await.how(), (200, "server"));
        assert_eq!(stage.duties(), ["on", "off", "off", "off"]);
        stage.at(30).await;
        let a = stage.pool().servers[0].clone();
        assert_eq!((a.in_flight, a.tunnels), (1, 1));
        assert!(a.ledger.busy_s < 1.0, "{:?}", a.ledger);
        stage.order(to_sleep("a")).await;
        stage.at(200).await;
        assert_eq!(stage.duties()[0], "draining");
        assert_eq!(stage.members[0].power.calls().sleeps, 0);
        tunnel.leave().await;
        stage.at(201).await;
        assert_eq!(stage.duties()[0], "off");
    });
}

#[test]
fn the_operator_wakes_keeps_awake_and_puts_to_sleep_single_servers() {
    four().play(async |stage| {
        stage.at(6).await;
        let to = |name: &str| Some(name.to_owned());
        stage.order(Order::Wake { site: to("c") }).await;
        stage.at(12).await;
        assert_eq!(stage.duties(), ["on", "off", "on", "off"]);
        stage.at(60).await;
        assert_eq!(stage.duties(), ["on", "off", "off", "off"], "nobody needed it");
        stage.order(Order::StayAwake { site: to("d"), seconds: 300 }).await;
        stage.at(200).await;
        let d = &stage.pool().servers[3];
        assert_eq!((d.duty.as_str(), d.state.as_str()), ("off", "awake"));
        stage.at(400).await;
        assert_eq!(stage.pool().servers[3].state, "asleep");
    });
}

#[test]
fn what_broke_at_one_server_is_sent_to_another_that_idles_not_to_the_same_again() {
    let pool = two_on();
    asleep().pool(FOUR, pool, "watch = \"10s\"").play(async |stage| {
        stage.at(6).await;
        assert_eq!(stage.duties(), ["on", "on", "off", "off"]);
        // It is up, and its probe says so; but it closes each connection without an answer.
        stage.members[0].origin.script(|_| vec![Act::Close]);
        for number in 0..3 {
            assert_eq!(stage.ask(get(&format!("/{number}"))).await.how(), (200, "server"));
        }
        assert_eq!(seen(&stage.members), [3, 3, 0, 0]);
        assert_eq!(stage.pool().resent, 3);
        assert_eq!(stage.duties(), ["on", "on", "off", "off"]);
    });
}

#[test]
fn a_server_that_is_put_to_sleep_stays_off_until_it_is_woken_and_nobody_waits_for_its_replacement()
{
    four().play(async |stage| {
        stage.at(6).await;
        // `a` idles, and is the first by number.
        assert_eq!(stage.order(to_sleep("a")).await.done(), "done");
        stage.at(8).await;
        assert_eq!(stage.ask(get("/1")).await.how(), (200, "server"), "`b` is not on yet");
        assert_eq!(seen(&stage.members), [1, 0, 0, 0]);
        stage.at(12).await;
        assert_eq!(stage.duties(), ["off", "on", "off", "off"]);
        assert!(stage.pool().servers[0].held_off);
        // More are needed: anybody but `a`.
        takes(stage, 30);
        let busy = [ask_beside(stage, get("/2")).await, ask_beside(stage, get("/3")).await];
        stage.at(30).await;
        assert_eq!(stage.duties(), ["off", "on", "on", "off"]);
        for client in busy {
            assert_eq!(client.await.unwrap().status, 200);
        }
        assert_eq!(stage.members[0].power.calls().wakes, 1);
        assert_eq!(stage.pool().servers[0].state, "asleep");
        assert_eq!(stage.order(to_wake("a")).await.done(), "done");
        stage.pass(secs(6)).await;
        assert_eq!(stage.duties()[0], "on");
        assert!(!stage.pool().servers[0].held_off);
    });
}

#[test]
fn a_server_that_is_just_waking_is_put_to_sleep_when_it_is_up() {
    four().play(async |stage| {
        stage.at(3).await;
        assert_eq!(stage.duties(), ["starting", "off", "off", "off"]);
        assert_eq!(stage.order(to_sleep("a")).await.done(), "done");
        assert_eq!(stage.duties(), ["off", "starting", "off", "off"]);
        stage.at(30).await;
        assert_eq!(stage.duties(), ["off", "on", "off", "off"]);
        let calls = stage.members[0].power.calls();
        assert_eq!((calls.wakes, calls.sleeps), (1, 1));
        assert_eq!(stage.pool().servers[0].state, "asleep");
    });
}

#[test]
fn a_server_that_failed_is_put_to_sleep_and_is_not_taken_back_when_it_is_well_again() {
    four().play(async |stage| {
        stage.at(6).await;
        stage.members[0].dies().await;
        assert_eq!(stage.ask(get("/1")).await.status, 200);
        assert_eq!(stage.duties()[..2], ["failed", "on"]);
        assert_eq!(stage.order(to_sleep("a")).await.done(), "done");
        // An operator repairs it and turns it on: the gateway leaves it to the operator.
        stage.members[0].power.come_up();
        stage.members[0].origin.up();
        stage.at(300).await;
        assert_eq!(stage.duties()[..2], ["off", "on"]);
        assert_eq!(stage.members[0].power.calls().wakes, 1);
        assert_eq!(stage.order(to_wake("a")).await.done(), "done");
        stage.pass(secs(10)).await;
        assert_eq!(stage.ask(get("/2")).await.status, 200);
        assert_eq!(seen(&stage.members), [1, 1, 0, 0]);
    });
}

#[test]
fn a_server_that_drains_is_taken_back_if_it_is_wanted_after_all() {
    four().play(async |stage| {
        stage.at(6).await;
        takes(stage, 30);
        let client = ask_beside(stage, get("/1")).await;
        stage.order(to_sleep("a")).await;
        stage.at(12).await;
        assert_eq!(stage.duties(), ["draining", "on", "off", "off"]);
        assert_eq!(stage.order(to_wake("a")).await.done(), "done");
        assert_eq!(stage.duties(), ["on", "on", "off", "off"]);
        assert_eq!(client.await.unwrap().how(), (200, "server"));
        stage.at(40).await;
        assert_eq!(stage.members[0].power.calls().sleeps, 0);
    });
}

#[test]
fn a_server_that_would_not_sleep_when_ordered_is_told_again() {
    let setup = asleep().power(|power| power.fail_sleeps = 1);
    setup.pool(FOUR, ONE_EACH, "watch = \"0\"").play(async |stage| {
        stage.at(6).await;
        stage.order(to_sleep("a")).await;
        stage.at(300).await;
        assert_eq!(stage.duties(), ["off", "on", "off", "off"]);
        assert_eq!(stage.pool().servers[0].state, "asleep");
        assert_eq!(stage.members[0].power.calls().sleeps, 2);
    });
}

#[test]
fn a_pool_all_of_whose_servers_are_to_be_off_says_so_until_one_is_woken() {
    let setup = asleep().pool(&["a", "b"], ONE_EACH, "watch = \"0\"");
    setup.play(async |stage| {
        stage.at(6).await;
        stage.order(to_sleep("b")).await;
        stage.order(to_sleep("a")).await;
        stage.at(30).await;
        assert_eq!(stage.duties(), ["off", "off"]);
        let got = stage.ask(get("/1")).await;
        assert!(matches!(got.status, 503 | 504), "{got:?}");
        assert_eq!(stage.members[0].power.calls().wakes, 1);
        stage.order(to_wake("b")).await;
        stage.pass(secs(10)).await;
        assert_eq!(stage.ask(get("/2")).await.status, 200);
        assert_eq!(stage.duties(), ["off", "on"]);
    });
}

#[test]
fn one_server_of_a_pool_that_sleeps_can_be_woken() {
    let pool = ONE_EACH.replacen("line = 3", "line = 3\n    sleeps = true", 1).leak();
    asleep().pool(FOUR, pool, "watch = \"0\"").play(async |stage| {
        assert_eq!(stage.ask(get("/1")).await.status, 200);
        stage.at(120).await;
        assert_eq!(stage.duties(), ["off", "off", "off", "off"]);
        stage.order(to_wake("c")).await;
        stage.at(126).await;
        assert_eq!(stage.duties(), ["off", "off", "on", "off"]);
        assert_eq!(stage.ask(get("/2")).await.how(), (200, "server"));
    });
}

#[test]
fn a_server_that_lets_nobody_in_for_a_moment_stays_in_the_pool_and_one_that_goes_on_so_does_not() {
    let pool = two_on();
    asleep().pool(FOUR, pool, "watch = \"0\"").play(async |stage| {
        stage.at(6).await;
        stage.members[0].origin.shut_out().await;
        let ask_for_long = async |path: &str| {
            let mut client = stage.begin(get(path)).await;
            client.lets_time_pass();
            // The time for a connection is 5 s.
            stage.pass(secs(6)).await;
            client.answer().await
        };
        assert_eq!(ask_for_long("/1").await.status, 200, "it was not sent, so another has it");
        assert_eq!((stage.duties()[0].as_str(), stage.pool().servers[0].failed), ("on", 0));
        // It is well again, and answers: that is forgotten.
        stage.members[0].origin.down().await;
        stage.members[0].origin.up();
        assert_eq!(stage.ask(get("/2")).await.status, 200);
        assert_eq!(seen(&stage.members), [1, 1, 0, 0]);
        stage.members[0].origin.shut_out().await;
        assert_eq!(ask_for_long("/3").await.status, 200);
        assert_eq!(stage.pool().servers[0].failed, 0);
        assert_eq!(ask_for_long("/4").await.status, 200);
        assert_eq!(stage.pool().servers[0].failed, 1, "twice without an answer between");
        assert_eq!(seen(&stage.members), [1, 3, 0, 0]);
    });
}

#[test]
fn what_finds_no_place_gets_the_stored_answer_if_that_may_be_given_when_a_server_fails() {
    four().play(async |stage| {
        stage.at(6).await;
        let origin = &stage.members[0].origin;
        origin.script(|seen| {
            let fields = match seen.target.as_str() {
                "/kept" => "max-age=1, stale-if-error=3600",
                _ => "max-age=1, must-revalidate",
            };
            ok(&format!("this is {}", seen.target)).field("Cache-Control", fields).acts()
        });
        for path in ["/kept", "/strict"] {
            assert_eq!(stage.ask(get(path)).await.how(), (200, "server"));
        }
        stage.pass(secs(2)).await;
        for member in &stage.members {
            member
                .origin
                .script(|_| vec![Act::Body, Act::Take(secs(60)), Act::Say(ok("").bytes())]);
        }
        // One at `a`, three in line; the other servers take 5 s to wake.
        let mut busy = Vec::new();
        for number in 0..4 {
            busy.push(ask_beside(stage, get(&format!("/{number}"))).await);
        }
        let stale = stage.ask(get("/kept")).await;
        assert_eq!((stale.how(), stale.text()), ((200, "stale"), "this is /kept"));
        assert_eq!(stage.ask(get("/strict")).await.how(), (503, "unavailable"));
        for client in busy {
            assert_eq!(client.await.unwrap().status, 200);
        }
    });
}

#[test]
fn a_client_that_may_wake_nothing_waits_at_the_servers_that_are_on() {
    let access = AccessConfig { wake: Some(networks(&["10.0.0.0/8"])), ..AccessConfig::default() };
    behind_a_proxy(four().site(|site| site.access = Some(access))).play(async |stage| {
        let from = |client: &str, path: &str| get(path).field("X-Forwarded-For", client);
        let guest = "192.0.2.1";
        stage.at(6).await;
        takes(stage, 3);
        let mut clients = Vec::new();
        for number in 0..5 {
            clients.push(ask_beside(stage, from(guest, &format!("/{number}"))).await);
        }
        // One at `a`, three in line, and no room for the last.
        let mut answers = Vec::new();
        for client in clients {
            answers.push(client.await.unwrap());
        }
        let how: Vec<_> = answers.iter().map(Got::how).collect();
        assert_eq!(how[0], (200, "server"));
        assert_eq!(how[1..4], [(200, "held"); 3]);
        assert_eq!(how[4], (503, "unavailable"));
        assert_eq!(stage.now().0.as_secs(), 18, "one after the other");
        assert_eq!(stage.duties(), ["on", "off", "off", "off"]);
        // Those for whom a server may be woken come first.
        let at_server = ask_beside(stage, from(guest, "/5")).await;
        let behind = ask_beside(stage, from(guest, "/6")).await;
        let home = ask_beside(stage, from("10.0.0.1", "/7")).await;
        assert_eq!(at_server.await.unwrap().status, 200);
        assert_eq!(home.await.unwrap().how(), (200, "held"));
        assert_eq!(stage.duties()[1], "on", "for the client at home");
        assert_eq!(behind.await.unwrap().how(), (200, "held"));
        assert_eq!(seen(&stage.members)[2..], [0, 0]);
    });
}

/// Admission never wakes a server for a crawler: the pool must not either.
#[test]
fn a_crawler_waits_at_the_servers_that_are_on() {
    four().play(async |stage| {
        let crawler = |path: &str| {
            get(path)
                .agent("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
        };
        stage.at(6).await;
        takes(stage, 3);
        let mut crawlers = Vec::new();
        for number in 0..3 {
            crawlers.push(ask_beside(stage, crawler(&format!("/{number}"))).await);
        }
        let mut how = Vec::new();
        for one in crawlers {
            how.push(one.await.unwrap().how().0);
        }
        assert_eq!(how, [200, 200, 200]);
        assert_eq!(stage.now().0.as_secs(), 15, "one after the other");
        let calls = stage.members.iter().map(|it| it.power.calls().wakes);
        assert_eq!(calls.collect::<Vec<_>>(), [1, 0, 0, 0]);
        // A person behind a crawler gets the next server.
        let first = ask_beside(stage, crawler("/3")).await;
        let person = ask_beside(stage, get("/4").by_browser()).await;
        assert_eq!(first.await.unwrap().status, 200);
        assert_eq!(person.await.unwrap().status, 200);
        assert_eq!(stage.duties()[1], "on");
    });
}

#[test]
fn a_client_that_may_wake_nothing_goes_to_another_server_that_is_on_if_one_fails() {
    let access = AccessConfig { wake: Some(networks(&["10.0.0.0/8"])), ..AccessConfig::default() };
    let setup = asleep().pool(FOUR, two_on(), "");
    setup.site(|site| site.access = Some(access)).play(async |stage| {
        stage.at(6).await;
        assert_eq!(stage.duties(), ["on", "on", "off", "off"]);
        takes(stage, 3);
        let first = ask_beside(stage, get("/1")).await;
        let second = ask_beside(stage, get("/2")).await;
        let third = ask_beside(stage, get("/3")).await;
        stage.at(7).await;
        stage.members[0].dies().await;
        for client in [first, second, third] {
            assert_eq!(client.await.unwrap().status, 200);
        }
        // The policy wants two on, and no more.
        let calls = stage.members.iter().map(|it| it.power.calls().wakes);
        assert_eq!(calls.collect::<Vec<_>>(), [1, 1, 1, 0]);
    });
}
