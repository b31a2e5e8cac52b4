//! Which client it is, and which site it asks for.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{AccessConfig, Users};

use crate::access::{ANN, USERS, behind_a_proxy, networks, only, password, rule, with};
use crate::client::{Client, get};
use crate::origin::ok;
use crate::passing::{switches, upgrade};
use crate::stage::{Stage, awake};

/// The proxy's own network comes in: what it does not name, or names in two ways, may be any client.
#[test]
fn a_client_that_its_proxy_does_not_name_is_not_taken_for_the_proxy() {
    const LISTED: &str = "X-Forwarded-For";
    let access = only(&["10.0.0.0/8", "127.0.0.0/8"]);
    let denied = AccessConfig { deny: networks(&["192.0.2.0/24"]), ..AccessConfig::default() };
    for access in [access, denied] {
        behind_a_proxy(with(awake(), access)).play(async |stage| {
            let unnamed = [
                (LISTED, "unknown"),
                (LISTED, "_hidden"),
                (LISTED, ""),
                ("Forwarded", "proto=http"),
            ];
            for (name, value) in unnamed {
                assert_eq!(stage.ask(get("/").field(name, value)).await.status, 403, "{value}");
                assert_eq!(rule(stage).as_deref(), Some("access-unnamed"), "{value}");
            }
            assert_eq!(stage.ask(get("/")).await.status, 403, "the proxy itself");
            assert_eq!(stage.ask(get("/").field(LISTED, "10.1.2.3")).await.status, 200);
            for (forwarded, status) in [
                ("for=10.1.2.3", 200),
                ("for=\"10.1.2.3:80\";proto=http", 200),
                ("for=192.0.2.1", 403),
                ("for=10.1.2.4", 403),
                ("for=10.1.2.3, for=192.0.2.1", 403),
                ("for=_hidden", 403),
                ("for=\"10.1.2.3", 403),
            ] {
                let both = get("/").field("Forwarded", forwarded).field(LISTED, "10.1.2.3");
                assert_eq!(stage.ask(both).await.status, status, "{forwarded}");
            }
        });
    }
}

/// A closed site at this machine's addresses, and an open one for all other hosts, with the same server.
#[test]
fn no_spelling_of_an_address_selects_another_site() {
    let sites = |config: &mut Config| {
        let mut open = config.site[0].clone();
        "open".clone_into(&mut open.name);
        open.hosts = vec![];
        config.site[0].hosts = vec!["127.0.0.1".to_owned(), "[::1]".to_owned()];
        config.site[0].access = Some(only(&["10.0.0.0/8"]));
        config.site.push(open);
    };
    awake().with(sites).play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "max-age=600"));
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]",
            "[::0001]",
            "[::ffff:127.0.0.1]",
            "[::FFFF:7f00:1]",
        ] {
            assert_eq!(stage.ask(get("/").host(host)).await.status, 403, "{host}");
        }
        for host in [
            "127.1",
            "127.000.000.001",
            "2130706433",
            "0x7f.0.0.1",
            "0x7f000001",
            "0177.0.0.1",
            "127.1.",
        ] {
            for _ in 0..2 {
                assert_eq!(stage.ask(get("/").host(host)).await.status, 400, "{host}");
            }
        }
        assert_eq!(stage.origin.lines(), [""; 0], "nothing reached the server");
        for host in ["open.example", "[fd00::5]", "10.0.0.9", "10.example"] {
            assert_eq!(stage.ask(get("/").host(host)).await.status, 200, "{host}");
        }
    });
}

/// A WebSocket of a client behind the proxy.
async fn socket(stage: &Stage, client: &str) -> Client {
    let mut client = stage.begin(upgrade("websocket").field("X-Forwarded-For", client)).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.part().await, b"welcome");
    client
}

#[test]
fn a_reload_that_shuts_a_client_out_ends_its_tunnels() {
    behind_a_proxy(awake()).play(async |stage| {
        stage.origin.script(|_| switches());
        let mut home = socket(stage, "10.0.0.1").await;
        let mut away = socket(stage, "192.0.2.1").await;
        let allow = |text: &'static str| {
            move |config: &mut Config| config.site[0].access = Some(only(&[text]))
        };
        stage.reload(allow("0.0.0.0/0")).await.unwrap();
        for client in [&mut home, &mut away] {
            client.say("one").await;
            assert_eq!(client.part().await, b"one");
        }
        stage.reload(allow("10.0.0.0/8")).await.unwrap();
        assert!(away.is_closed().await);
        home.say("two").await;
        assert_eq!(home.part().await, b"two");
    });
}

#[test]
fn a_changed_password_ends_the_tunnels_that_the_old_one_opened_and_no_others() {
    const BOB: &str = "bob:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n";
    // `bob:U*U`
    const AS_BOB: &str = "Basic Ym9iOlUqVQ==";
    let rules = |users: &str| AccessConfig { users: Users::parse(users).unwrap(), ..password() };
    with(awake(), rules(&format!("{USERS}{BOB}"))).play(async |stage| {
        stage.origin.script(|_| switches());
        let opens = async |login: &str| {
            let mut client = stage.begin(upgrade("websocket").field("Authorization", login)).await;
            assert_eq!(client.head().await.status, 101, "{login}");
            assert_eq!(client.part().await, b"welcome");
            client
        };
        let (mut ann, mut bob) = (opens(ANN).await, opens(AS_BOB).await);
        // The same users, in another order, and one more.
        let more = format!("{BOB}{}{USERS}", USERS.replace("ann", "zed"));
        let access = rules(&more);
        stage.reload(move |config| config.site[0].access = Some(access)).await.unwrap();
        for client in [&mut ann, &mut bob] {
            client.say("one").await;
            assert_eq!(client.part().await, b"one");
        }
        // Ann has another password, bob the same.
        let other = BOB
            .replace("bob", "ann")
            .replace("E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "VGOzA784oUp/Z0DY336zx7pLYAy0lwK");
        let access = rules(&format!("{other}{BOB}"));
        stage.reload(move |config| config.site[0].access = Some(access)).await.unwrap();
        assert!(ann.is_closed().await);
        bob.say("two").await;
        assert_eq!(bob.part().await, b"two");
        // Bob is gone.
        let access = rules(USERS);
        stage.reload(move |config| config.site[0].access = Some(access)).await.unwrap();
        assert!(bob.is_closed().await);
    });
}

#[test]
fn a_site_that_gets_a_password_ends_the_tunnels_of_those_who_had_none() {
    awake().play(async |stage| {
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        stage.reload(|config| config.site[0].access = Some(password())).await.unwrap();
        assert!(client.is_closed().await);
    });
}
