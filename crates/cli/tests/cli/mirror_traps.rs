//! Traps for crawlers behind the real nginx: endless lists and filters, loops, a file of 10 GB, pages that act.

use std::fs;

use serde_json::Value;

use crate::client::browse;
use crate::harness::Gateway;
use crate::mirror_live::{crawl, mirror, static_site, wakeups};

/// Each page leads to more of its kind.
const LOCATIONS: &str = r#"    default_type text/html;
    absolute_redirect off;
    location = /robots.txt { return 404; }
    location /shop { return 200 "<a href='/shop?$args&red=1'>r</a><a href='/shop?$args&blue=1'>b</a>"; }
    location /days/ { return 200 "<a href='/days/${msec}'>next</a>"; }
    location /deep/ { return 200 "<a href='${uri}${connection_requests}/'>deeper</a>"; }
    location = /round { return 302 /about; }
    location = /about { return 302 /round; }
    location /logout { return 200 "you are logged out"; }
    location = /delete-account { return 200 "it is deleted"; }
    location /confirm { return 200 "it is confirmed"; }"#;

const START: &str = "<a href=/shop?a=1>s</a><a href=/days/>d</a><a href=/deep/>d</a>\
                     <a href=/round>l</a><a href=/logout>o</a>\
                     <a href=/delete-account>d</a><a href='/confirm?token=abc'>c</a><a href=/huge.iso>h</a>\
                     <a href=/page.html>p</a>";

const HUGE: u64 = 10 << 30;

fn explain(gateway: &Gateway, path: &str) -> Value {
    let output = gateway.order(&["mirror", "explain", path, "--json"]);
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    reply["explained"].clone()
}

/// The largest that a process has been, in MB.
fn largest(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1000.0
}

#[test]
fn traps_end_and_the_rest_of_the_site_is_mirrored() {
    let Some(house) = static_site("", LOCATIONS) else { return };
    fs::write(house.path("html/index.html"), START).unwrap();
    fs::write(house.path("html/page.html"), "a page").unwrap();
    // It needs no room on the disk.
    fs::File::create(house.path("html/huge.iso")).unwrap().set_len(HUGE).unwrap();
    let gateway = house.serve(&[]);
    crawl(&house, &gateway);
    let (log, status) = (house.read("nginx.log"), mirror(&gateway));
    let asked = |word: &str| log.lines().filter(|it| it.contains(word)).count();
    for action in ["/logout", "/delete-account", "/confirm"] {
        assert_eq!(asked(action), 0, "{action} is not requested");
        assert!(explain(&gateway, action)["reason"].is_string(), "{action}");
    }
    assert!((1..=200).contains(&asked("GET /shop")), "{} filters", asked("GET /shop"));
    assert!((1..=1001).contains(&asked("GET /days/")), "{} days", asked("GET /days/"));
    assert!((1..=20).contains(&asked("GET /deep/")), "{} folders", asked("GET /deep/"));
    assert!((1..=3).contains(&asked("GET /round")), "{} rounds", asked("GET /round"));
    // nginx was not asked for it twice, and the proxy read none of it.
    assert_eq!(asked("GET /huge.iso"), 1);
    assert_eq!(explain(&gateway, "/huge.iso")["reason"], "too-large");
    assert!(largest(gateway.pid()) < 500.0, "{} MB", largest(gateway.pid()));
    assert!(status["not_mirrored"]["trap"].as_u64() > Some(0), "{status}");
    let before = wakeups(&gateway);
    assert_eq!(browse(gateway.address, "/page.html").unwrap().answer(), "mirror");
    assert_eq!(browse(gateway.address, "/round").unwrap().status, 302);
    assert_eq!(wakeups(&gateway), before);
    println!("not mirrored: {}", status["not_mirrored"]);
}
