//! A manual of some hundred pages behind the real nginx, browsed while nginx is off.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Reply, browse, get};
use crate::harness::{Gateway, House, Plan, eventually, process, told, within};

/// A pass over thousands of pages or over an application, on a machine that does other things too, takes no longer.
pub(crate) const LONGEST: Duration = Duration::from_mins(10);

/// Of the package `postgresql-doc-15`.
const MANUAL: &str = "/usr/share/doc/postgresql-doc-15/html";

/// The reference part of the manual, and what leads there.
const PARTS: [&str; 5] = ["app", "index.html", "reference", "sql", "stylesheet.css"];

/// nginx as Debian has it, for one folder.
const NGINX: &str = "daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/error.log;
events {}
http {
  include /etc/nginx/mime.types;
  access_log DIR/nginx.log;
  client_body_temp_path DIR/temp;
  proxy_temp_path DIR/temp;
  fastcgi_temp_path DIR/temp;
  uwsgi_temp_path DIR/temp;
  scgi_temp_path DIR/temp;
  server {
    listen ORIGIN;
    root DIR/html;
LOCATIONS
  }
}
";

/// nginx, which serves an empty folder; nothing if this machine lacks it. `locations` are further lines of its `server`.
pub(crate) fn static_site(mirror: &str, locations: &str) -> Option<House> {
    let nginx = nightwatt_needs::program("nginx")?;
    let script = format!("exec {} -c DIR/nginx.conf", nginx.display());
    let site = "kind = \"pages\"\nwatch = \"500ms\"\nwake_timeout = \"10s\"\n\
                mirror.url = \"http://site.test\"\nmirror.rate = 1000.0\nmirror.extension = \"10m\"\n";
    let site = format!("{site}{mirror}");
    let house = House::build(&Plan { power: process(&script), site, ..Plan::default() });
    let (dir, origin) = (house.dir.path().display().to_string(), house.origin.to_string());
    let conf = NGINX.replace("LOCATIONS", locations);
    let conf = conf.replace("DIR", &dir).replace("ORIGIN", &origin);
    fs::write(house.path("nginx.conf"), conf).unwrap();
    fs::create_dir(house.path("html")).unwrap();
    Some(house)
}

/// The manual and its files by path; nothing if this machine lacks nginx or the manual.
fn house(parts: &[&str]) -> Option<(House, BTreeMap<String, Vec<u8>>)> {
    if !Path::new(MANUAL).is_dir() {
        println!("skipped: there is no {MANUAL} (apt-get install postgresql-doc-15)");
        return None;
    }
    let house = static_site("mirror.include = [\"/sql-*\"]", "")?;
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(MANUAL).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if parts.iter().any(|part| name.starts_with(part)) {
            let bytes = fs::read(Path::new(MANUAL).join(&name)).unwrap();
            fs::write(house.path("html").join(&name), &bytes).unwrap();
            files.insert(format!("/{name}"), bytes);
        }
    }
    files.insert("/".to_owned(), files["/index.html"].clone());
    Some((house, files))
}

pub(crate) fn mirror(gateway: &Gateway) -> Value {
    let output = gateway.order(&["mirror", "status", "--json"]);
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    reply["status"][0].clone()
}

/// Wakes nginx, and waits until the site was crawled and nginx is off again.
pub(crate) fn crawl(house: &House, gateway: &Gateway) {
    gateway.order(&["wake"]);
    within(LONGEST, "a whole pass", || {
        (!mirror(gateway)["last_pass_s_ago"].is_null()).then_some(())
    });
    off(house, gateway);
}

/// Waits until nginx is off.
pub(crate) fn off(house: &House, gateway: &Gateway) {
    gateway.until("asleep");
    assert!(house.servers().is_empty());
    assert!(TcpStream::connect(house.origin).is_err(), "nothing listens");
}

pub(crate) fn wakeups(gateway: &Gateway) -> u64 {
    gateway.status()["ledger"]["wakeups"].as_u64().unwrap()
}

#[track_caller]
fn is_file(reply: &Reply, path: &str, file: &[u8]) {
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    assert_eq!(reply.body.len(), file.len(), "{path} from {}", reply.answer());
    assert!(reply.body == file, "{path} from {} has other bytes", reply.answer());
}

/// Purges these paths, and waits until they were fetched again and nginx is off.
fn refresh(house: &House, gateway: &Gateway, paths: &[&str]) {
    let output = gateway.order(&[&["purge", "--refresh"], paths].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    eventually("nothing is due", || (mirror(gateway)["due"] == 0).then_some(()));
    off(house, gateway);
}

#[test]
fn a_manual_is_read_from_cover_to_cover_while_its_server_is_off() {
    let Some((house, mut files)) = house(&PARTS) else { return };
    assert!(files.len() > 200, "{} files", files.len());
    let gateway = house.serve(&[]);
    crawl(&house, &gateway);
    let before = wakeups(&gateway);
    for (path, file) in &files {
        let reply = browse(gateway.address, path).unwrap();
        is_file(&reply, path, file);
        assert_eq!(reply.answer(), "mirror", "{path}");
    }
    let status = gateway.status();
    assert_eq!(status["ledger"]["wakeups"], before, "nginx stayed off");
    assert_eq!(status["state"], "asleep");
    assert_eq!(status["mirror"]["coverage"], 1.0, "{}", status["mirror"]);

    // A page changes while nginx is off, and another one goes.
    let (changed, gone) = ("/sql-select.html", "/sql-insert.html");
    let old = files.insert(changed.to_owned(), b"<h1>SELECT, shorter</h1>".to_vec()).unwrap();
    fs::write(house.path("html/sql-select.html"), &files[changed]).unwrap();
    fs::remove_file(house.path("html/sql-insert.html")).unwrap();
    files.remove(gone);
    let stale = browse(gateway.address, changed).unwrap();
    is_file(&stale, changed, &old);
    assert!(stale.header("age").is_some(), "and it says how old it is");
    refresh(&house, &gateway, &[changed, gone]);
    let before = wakeups(&gateway);
    for (path, file) in &files {
        is_file(&browse(gateway.address, path).unwrap(), path, file);
    }
    let reply = browse(gateway.address, gone).unwrap();
    assert_eq!((reply.status, reply.answer()), (404, "mirror"));
    assert_eq!(wakeups(&gateway), before, "nginx stayed off");
}

/// Kills the gateway by SIGKILL this many times, each time when nginx has served another part of a pass.
fn killed(times: u64) {
    let Some((house, mut files)) = house(&["app-", "appendix", "index.html", "reference"]) else {
        return;
    };
    let log = || fs::metadata(house.path("nginx.log")).map_or(0, |it| it.len());
    let mut gateway = house.serve(&[]);
    crawl(&house, &gateway);
    let whole_pass = log();
    assert!(whole_pass > 0, "nginx logs");
    let paths: Vec<String> = files.keys().cloned().collect();
    for time in 1..=times {
        let path = &paths[usize::try_from(time).unwrap() % paths.len()];
        if path != "/" {
            // Its links stay.
            let mut text = fs::read(Path::new(MANUAL).join(&path[1..])).unwrap();
            text.extend(format!("<p>{path}, version {time}.</p>").repeat(100).into_bytes());
            fs::write(house.path(&format!("html{path}")), &text).unwrap();
            if path == "/index.html" {
                files.insert("/".to_owned(), text.clone());
            }
            files.insert(path.clone(), text);
        }
        let output = gateway.order(&["purge", "--refresh", "--prefix", "/", "--site", "site"]);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let moment = log() + time * 7919 % whole_pass;
        eventually("nginx has served this part of the pass, or all of it", || {
            (log() >= moment || mirror(&gateway)["due"] == 0).then_some(())
        });
        gateway.kill();
        gateway = house.serve(&[]);
        // After a purge every answer is whole and current, from the mirror or from nginx.
        for path in [path, &paths[usize::try_from(time * 31).unwrap() % paths.len()]] {
            is_file(&get(gateway.address, path).unwrap(), path, &files[path]);
        }
    }
    refresh(&house, &gateway, &["--prefix", "/"]);
    let before = wakeups(&gateway);
    for (path, file) in &files {
        let reply = browse(gateway.address, path).unwrap();
        is_file(&reply, path, file);
        assert_eq!(reply.answer(), "mirror", "{path}");
    }
    assert_eq!(wakeups(&gateway), before, "nginx stayed off");
    println!(
        "{times} times killed in a pass over {} pages: no answer torn or outdated",
        files.len()
    );
}

#[test]
fn killed_in_passes_it_gives_no_torn_and_no_outdated_page() {
    killed(10);
}

#[test]
#[ignore = "takes a quarter of an hour: `make soak-mirror`"]
fn killed_in_a_thousand_passes_it_gives_no_torn_and_no_outdated_page() {
    let times = std::env::var("KILLS").ok().and_then(|it| it.parse().ok());
    killed(times.unwrap_or(1000));
}
