//! A site with a pool of servers, as its operator meets it.

use std::fs;

use crate::harness::{House, Plan, eventually, told, unfolded};

const CONFIG: &str = r#"listen = ["127.0.0.1:0"]
state_dir = "DIR/state"

[[site]]
name = "shop"

[site.pool]
policy = "delayed-off 1s"
line = 7

[[site.pool.kind]]
name = "small"
service_time = "20ms"
places = 3
idle_w = 6
busy_w = 9
off_w = 0.5
switch_j = 60
wake_time = "100ms"

[[site.server]]
name = "shop-1"
origin = "http://127.0.0.2:9"
probe = "controller"
power.simulated = { wake_time = "100ms", sleep_time = "100ms" }

[[site.server]]
name = "shop-2"
origin = "http://127.0.0.3:9"
probe = "controller"
power.simulated = { wake_time = "100ms", sleep_time = "100ms" }
"#;

#[test]
fn a_pool_is_checked_shown_and_ordered_by_the_names_of_its_servers() {
    let house = House::build(&Plan::default());
    let config = CONFIG.replace("DIR", &house.dir.path().display().to_string());
    fs::write(house.path("nightwatt.toml"), config).expect("it can be written");
    let gateway = house.serve(&[]);
    let checked = unfolded(&told(&gateway.order(&["check"])));
    for part in [
        "2 servers, policy delayed-off 1s, all in turn; 7 requests may wait in line",
        "small: 2 servers, 50.0 requests/s each, 3 at a time; 6 W idle, 9 W busy, 0.5 W asleep",
        "shop-2 at http://127.0.0.3:9",
        "stays awake",
    ] {
        assert!(checked.contains(part), "no {part:?} in {checked}");
    }
    let duty = |number: usize| gateway.status()["pool"]["servers"][number]["duty"].clone();
    eventually("one server is on", || (duty(0) == "on").then_some(()));
    assert_eq!(duty(1), "off");
    let page = told(&gateway.order(&["status"]));
    for part in ["shop: awake", "policy delayed-off 1s", "1 of 2 servers on", "shop-2 (small): off"]
    {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    // Both are on for a moment only: what they did is read from their counts, however late.
    let count = |number: usize, of: &str| {
        let ledger = gateway.status()["pool"]["servers"][number]["ledger"].clone();
        ledger[of].as_u64().expect("a count")
    };
    let sleeps = || count(0, "sleeps") + count(1, "sleeps");
    assert_eq!((count(1, "wakeups"), sleeps()), (0, 0));
    assert!(gateway.order(&["wake", "shop-2"]).status.success());
    eventually("shop-2 has woken, and one of both sleeps", || {
        let is_over = (count(1, "wakeups"), sleeps()) == (1, 1);
        (is_over && gateway.status()["pool"]["on"] == 1).then_some(())
    });
    let unknown = gateway.order(&["wake", "shop-3"]);
    assert!(!unknown.status.success(), "{}", told(&unknown));
    assert!(gateway.stop().0.success());
}
