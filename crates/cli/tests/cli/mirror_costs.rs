//! What a mirror costs: time of the processor, of the server and of the proxy, and the proxy's memory.

use std::fs;

use crate::harness::{Gateway, House, within};
use crate::mirror_live::{LONGEST, crawl, mirror, static_site};

const FOLDERS: usize = 20;

/// Passes over the unchanged site.
const PASSES: usize = 15;

/// By then each thread of the proxy that writes has the memory that one pass needs.
const WARM: usize = 5;

/// Seconds of the processor that a process has used.
fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name may have spaces: fields 14 and 15 are the 12th and 13th behind it.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|it| it.parse::<f64>().unwrap());
    ticks.sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
}

/// Resident memory of a process, in MB.
fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1000.0
}

/// Four letters for each number: numbers would be addresses of one form.
fn word(number: usize) -> String {
    let letter = |place: u32| char::from(b"aeioulmnrst"[number / 11_usize.pow(place) % 11]);
    (0..4).map(letter).collect()
}

/// Pages of 8 kB in folders, each of which has a list.
fn write(house: &House, pages: usize) {
    let html = house.path("html");
    let list = |names: &[String]| {
        names.iter().map(|it| format!("<a href=\"{it}\">x</a>\n")).collect::<Vec<_>>().concat()
    };
    let folders: Vec<String> = (0..FOLDERS).map(|it| format!("{}/", word(it))).collect();
    fs::write(html.join("index.html"), list(&folders)).unwrap();
    for (number, folder) in folders.iter().enumerate() {
        fs::create_dir(html.join(folder)).unwrap();
        let numbers = (0..pages).filter(|it| it % FOLDERS == number);
        let names: Vec<String> = numbers.map(|it| format!("{}.html", word(it))).collect();
        fs::write(html.join(folder).join("index.html"), list(&names)).unwrap();
        for name in &names {
            let text = format!("<h1>{name}</h1><p>").repeat(8000 / 23);
            fs::write(html.join(folder).join(name), text).unwrap();
        }
    }
}

/// What a pass over the unchanged site used.
struct Used {
    server_s: f64,
    proxy_s: f64,
    resident_mb: f64,
}

/// Confirms all pages while nginx is on.
fn confirm(house: &House, gateway: &Gateway) -> Used {
    let nginx: u32 = house.read("nginx.pid").trim().parse().unwrap();
    let before = (cpu(nginx), cpu(gateway.pid()));
    gateway.order(&["mirror", "refresh"]);
    assert!(mirror(gateway)["due"].as_u64().unwrap() > 0);
    // Nothing has this address: what is due is fetched at once.
    gateway.order(&["purge", "--refresh", "/none"]);
    within(LONGEST, "nothing is due", || (mirror(gateway)["due"] == 0).then_some(()));
    Used {
        server_s: cpu(nginx) - before.0,
        proxy_s: cpu(gateway.pid()) - before.1,
        resident_mb: resident(gateway.pid()),
    }
}

/// Returns the memory after the last pass.
fn measured(pages: usize) -> Option<f64> {
    let house = static_site("mirror.pages = 20000", "")?;
    write(&house, pages);
    let gateway = house.serve(&[]);
    crawl(&house, &gateway);
    let found = mirror(&gateway)["pages"].as_u64().unwrap();
    assert!(found >= pages as u64, "{found} of {pages} pages: {}", mirror(&gateway));
    let (first, first_mb) = (cpu(gateway.pid()), resident(gateway.pid()));
    println!("{pages} pages: first pass {first:.2} s of the proxy, then {first_mb:.1} MB");
    gateway.order(&["stay-awake", "--for", "60m"]);
    gateway.until("awake");
    let passes: Vec<Used> = (0..PASSES).map(|_| confirm(&house, &gateway)).collect();
    for pass in &passes {
        let Used { server_s, proxy_s, resident_mb } = pass;
        println!(
            "{pages} pages: {server_s:.2} s of nginx, {proxy_s:.2} s of the proxy, {resident_mb:.1} MB"
        );
        let most = 2.0 * pages as f64 / 1000.0;
        assert!(*server_s < most, "{server_s} s of nginx, {most} s at most");
    }
    let memory: Vec<f64> = passes.iter().map(|it| it.resident_mb).collect();
    let (warm, last) = (memory[WARM - 1], memory[PASSES - 1]);
    assert!(last < 1.1 * warm, "memory grows from pass to pass: {memory:?} MB");
    let log = house.read("nginx.log");
    let unchanged = log.lines().filter(|it| it.contains("\" 304 ")).count();
    assert!(unchanged >= PASSES * pages, "{unchanged} answers without a body");
    Some(last)
}

#[test]
#[ignore = "minutes: `make test-mirror`"]
fn a_pass_over_unchanged_pages_costs_little_and_memory_stays_flat() {
    let (Some(small), Some(large)) = (measured(1000), measured(10_000)) else { return };
    let each = (large - small) / 9.0;
    println!("1,000 pages: {small:.1} MB; 10,000 pages: {large:.1} MB; {each:.2} kB for each page");
    // The index is in memory, the pages are not: they have 8 kB each.
    assert!(each < 8.0, "{each} kB of memory for each page");
}
