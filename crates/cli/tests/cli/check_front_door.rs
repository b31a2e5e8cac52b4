//! What `check` explains of the front door: each feature has a row, and programs get the same.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{nightwatt, told};

/// A site; the lines of a test belong to it until a table begins.
pub(crate) const SITE: &str = r#"listen = ["127.0.0.1:8080"]
state_dir = "DIR/state"

[[site]]
name = "blog"
hosts = ["blog.example"]
origin = "http://127.0.0.1:1"
power.simulated = {}
"#;

/// An authority whose key is nowhere.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUQw9L/4dqa61kBHl+ee7O4GG7o0IwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKRXhhbXBsZSBDQTAgFw0yNjExMjgxODMyNTRaGA8yMTI2MTEw
NDE4MzI1NFowFTETMBEGA1UEAwwKRXhhbXBsZSBDQTBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABEXEc6e9eUa4aekOAmg1YOlyWaqZx6yNbklFkGEho/agEgW0t5/n
uerHyd1qtv/DhZyPkSWGYF1WnWMdyn7C3dmjUzBRMB0GA1UdDgQWBBSQ99Z32rOd
kj51r+9njfIpPhW2gjAfBgNVHSMEGDAWgBSQ99Z32rOdkj51r+9njfIpPhW2gjAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIAM20zf/woQAMNtUcVbT
Vg2ti2axsOKSqtpXdrpTSR1nAiEAxhOfmBLwPhBiFnIWSEQYEnTQnuzRo7hV3BHz
0mfwLBc=
-----END CERTIFICATE-----
";

const OVER: &str = "BEGIN:VEVENT\r\nSUMMARY:Over\r\nDTSTART;VALUE=DATE:20001225\r\nEND:VEVENT\r\n";
const COMING: &str =
    "BEGIN:VEVENT\r\nSUMMARY:Coming\r\nDTSTART;VALUE=DATE:20991225\r\nEND:VEVENT\r\n";

/// A configuration in a folder of its own, beside the files that it may name (`DIR/users`).
pub(crate) struct Written(TempDir);

impl Written {
    pub(crate) fn new(config: &str) -> Self {
        let written = Self(tempfile::tempdir().unwrap());
        let days = format!("{OVER}{COMING}");
        let users = "ann:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n";
        let key = "key \"Night.example.\" { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n";
        let config = config.replace("DIR", &written.dir());
        for (name, text) in [
            ("ca.pem", AUTHORITY),
            ("days.ics", days.as_str()),
            ("over.ics", OVER),
            ("users", users),
            ("dns.key", key),
            ("token", "t0ken\n"),
            ("503.html", "<p>Later\n"),
            ("n.toml", config.as_str()),
        ] {
            fs::write(written.0.path().join(name), text).unwrap();
            written.open_to(name, 0o640);
        }
        written
    }

    /// The configuration [`SITE`] with more.
    pub(crate) fn site(lines: &str) -> Self {
        Self::new(&format!("{SITE}{lines}"))
    }

    pub(crate) fn dir(&self) -> String {
        self.0.path().display().to_string()
    }

    pub(crate) fn open_to(&self, name: &str, mode: u32) {
        fs::set_permissions(self.0.path().join(name), Permissions::from_mode(mode)).unwrap();
    }

    /// `check` of it.
    pub(crate) fn check(&self, more: &[&str]) -> Output {
        let file = self.0.path().join("n.toml").display().to_string();
        nightwatt(&[&["check", "-c", &file], more].concat())
    }

    fn checked(&self, more: &[&str]) -> Output {
        let output = self.check(more);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        output
    }

    pub(crate) fn page(&self) -> String {
        String::from_utf8(self.checked(&[]).stdout).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.checked(&["--json"]).stdout).unwrap()
    }
}

/// The part of a page below a heading, however its rows are folded.
pub(crate) fn part(page: &str, heading: &str) -> String {
    let found = page.split("\n\n").find(|it| it.trim_start().starts_with(heading));
    let found = found.unwrap_or_else(|| panic!("no {heading:?} in {page}"));
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub(crate) fn says(part: &str, rows: &[&str]) {
    for row in rows {
        assert!(part.contains(row), "no {row:?} in {part}");
    }
}

#[test]
fn hours_name_the_next_holiday_and_the_zone_of_this_machine() {
    let hours = "[site.scenario]\nawake = [\"mon-fri 08:00-18:00\", \"sat 10:00-12:00\"]\n\
                 never_sleep = [\"20:00-22:00\"]\nholidays = \"DIR/days.ics\"\n";
    let written = Written::site(hours);
    let site = part(&written.page(), "site blog");
    let rows = [
        "never sleeps within 20:00-22:00",
        "awake woken for mon-fri 08:00-18:00, sat 10:00-12:00, but not on holidays: the next one is 2099-12-25",
        "time zone ",
    ];
    says(&site, &rows);
    let said = written.json();
    let said = &said["sites"][0];
    assert_eq!(said["awake"], json!(["mon-fri 08:00-18:00", "sat 10:00-12:00"]));
    assert_eq!(said["holidays"], json!(["2000-12-25", "2099-12-25"]));
    assert_eq!(said["never_sleep"], json!(["20:00-22:00"]));

    let written = Written::site(&hours.replace("days.ics", "over.ics"));
    let over = format!("; all days in {}/over.ics are over: renew the file", written.dir());
    says(&part(&written.page(), "site blog"), &[&over]);

    let without = part(&Written::site("").page(), "site blog");
    assert!(!without.contains("time zone") && !without.contains("woken for"), "{without}");
}

#[test]
fn access_says_who_comes_in_and_who_wakes_the_server() {
    let written = Written::site(
        r#"[site.access]
allow = ["10.0.0.0/8", "fd00::/8"]
deny = ["10.6.0.0/16"]
htpasswd = "DIR/users"
without_password = ["10.1.0.0/16"]
wake = ["10.0.0.0/9"]
never_wake = ["10.0.0.9"]
monitors = ["10.0.0.8"]
"#,
    );
    let password = format!("with a password of 1 user in {}/users", written.dir());
    let rows = [
        "access clients of 10.0.0.0/8, fd00::/8 come in; those of 10.6.0.0/16 do not; ",
        &password,
        "those of 10.1.0.0/16 without one",
        "passwords cross the network in clear text without `redirect_to_https`",
        "behind another proxy, name that in `trusted_proxies`: else all of its clients have its address",
        "only those of 10.0.0.0/9 wake the server",
        "those of 10.0.0.9/32 never wake it",
        "those of 10.0.0.8/32 are monitors",
        "`monitors` log in as other clients do: if those of 10.0.0.8/32 cannot, name them in `without_password` too",
    ];
    says(&part(&written.page(), "site blog"), &rows);
    let access = json!({
        "allow": ["10.0.0.0/8", "fd00::/8"],
        "deny": ["10.6.0.0/16"],
        "users": 1,
        "htpasswd": format!("{}/users", written.dir()),
        "forward": null,
        "forward_headers": null,
        "forward_sign_in": null,
        "certificate_authorities": null,
        "certificate_ca": null,
        "without_password": ["10.1.0.0/16"],
        "wake": ["10.0.0.0/9"],
        "never_wake": ["10.0.0.9/32"],
        "monitors": ["10.0.0.8/32"],
        "careful": [
            "passwords cross the network in clear text without `redirect_to_https`",
            "behind another proxy, name that in `trusted_proxies`: else all of its clients have its address",
            "`monitors` log in as other clients do: if those of 10.0.0.8/32 cannot, name them in `without_password` too",
        ],
    });
    let said = written.json();
    assert_eq!(said["sites"][0]["access"], access);
    assert!(!said.to_string().contains("saltstring"), "a hash is shown nowhere");
}

#[test]
fn access_warns_of_what_is_true_of_this_configuration_only() {
    let redirected = r#"redirect_to_https = true
[site.access]
htpasswd = "DIR/users"
[tls]
listen = ["127.0.0.1:8443"]
certificate = [{ acme = ["blog.example"] }]
acme.terms_agreed = true
"#;
    let said = part(&Written::site(redirected).page(), "site blog");
    says(&said, &["access all clients come in; with a password of 1 user in "]);
    assert!(!said.contains("in clear text") && !said.contains("trusted_proxies"), "{said}");

    let access = "access.allow = [\"10.0.0.0/8\"]";
    let behind = format!("trusted_proxies = [\"10.0.0.2\"]\n{SITE}{access}\n");
    let said = part(&Written::new(&behind).page(), "site blog");
    says(&said, &["access clients of 10.0.0.0/8 come in"]);
    assert!(!said.contains("behind another proxy"), "{said}");

    let without = Written::site("");
    let page = part(&without.page(), "site blog");
    assert!(!page.contains("come in"), "{page}");
    assert_eq!(without.json()["sites"][0]["access"], Value::Null);
}

#[test]
fn access_by_a_service_or_by_certificates_names_them() {
    let forward = "[site.access]\nwithout_password = [\"10.1.0.0/16\"]\n[site.access.forward]\n\
                   url = \"http://127.0.0.1:9091/api/authz\"\nheaders = [\"Remote-User\", \"Remote-Groups\"]\n";
    let written = Written::site(forward);
    let rows = [
        "access all clients come in; http://127.0.0.1:9091/api/authz decides about each request, and the server gets \
         Remote-User, Remote-Groups of it; but not about those of 10.1.0.0/16",
    ];
    says(&part(&written.page(), "site blog"), &rows);
    let said = written.json();
    let access = &said["sites"][0]["access"];
    assert_eq!(access["forward"], "http://127.0.0.1:9091/api/authz");
    assert_eq!(access["users"], Value::Null);
    assert_eq!(access["forward_headers"], json!(["Remote-User", "Remote-Groups"]));

    let by_certificate = "access.certificate_ca = \"DIR/ca.pem\"\n[tls]\nlisten = [\"127.0.0.1:8443\"]\n\
                          certificate = [{ acme = [\"blog.example\"] }]\nacme.terms_agreed = true\n";
    let written = Written::site(by_certificate);
    let row = format!("with a certificate of the authority in {}/ca.pem", written.dir());
    says(&part(&written.page(), "site blog"), &[&row]);
    let said = written.json();
    let access = &said["sites"][0]["access"];
    assert_eq!(access["certificate_authorities"], 1);
    assert_eq!(access["certificate_ca"], format!("{}/ca.pem", written.dir()));
    fs::write(written.0.path().join("ca.pem"), AUTHORITY.repeat(2)).unwrap();
    let row = format!("with a certificate of the 2 authorities in {}/ca.pem", written.dir());
    says(&part(&written.page(), "site blog"), &[&row]);
}

#[test]
fn a_log_in_page_is_named_and_one_on_the_guarded_site_is_warned_of() {
    let warning = "`sign_in` is on this site, so the service decides about the log-in page too";
    for (place, is_own) in [
        ("https://auth.example/?rd={url}", false),
        ("https://blog.example/login", true),
        ("/login", true),
    ] {
        let forward = format!(
            "[site.access.forward]\nurl = \"http://127.0.0.1:9091/api/authz\"\nsign_in = \"{place}\"\n"
        );
        let written = Written::site(&forward);
        let page = part(&written.page(), "site blog");
        says(&page, &[&format!("; browsers log in at {place}")]);
        assert_eq!(page.contains(warning), is_own, "{place}: {page}");
        let said = written.json();
        let access = &said["sites"][0]["access"];
        assert_eq!(access["forward_sign_in"], place);
        assert_eq!(access["careful"].to_string().contains(warning), is_own, "{said}");
    }
}

#[test]
fn networks_of_one_family_alone_are_warned_of() {
    let warning = "`never_wake` has all addresses of IPv4 and none of IPv6: if it is for all clients, add `::/0`";
    let written = Written::site("access.never_wake = [\"0.0.0.0/0\"]\n");
    says(&part(&written.page(), "site blog"), &[warning]);
    assert_eq!(written.json()["sites"][0]["access"]["careful"], json!([warning]));
    let both = Written::site("access.never_wake = [\"0.0.0.0/0\", \"::/0\"]\n");
    assert_eq!(both.json()["sites"][0]["access"]["careful"], json!([]));
}

#[test]
fn a_path_on_another_machine_and_a_folder_that_is_a_file_are_named() {
    let written = Written::site(
        "[[site.path]]\nprefix = \"/api\"\norigin = \"http://10.0.0.5:9000\"\n[[site.path]]\nprefix = \"/files\"\n\
         folder = \"DIR/503.html\"\n",
    );
    let said = part(&written.page(), "site blog");
    let dir = written.dir();
    let file =
        format!("files of {dir}/503.html, which is a file, but `folder` needs a folder: 404");
    let elsewhere = "careful `origin` of the path `/api` is at 10.0.0.5, and the server of the site at 127.0.0.1";
    says(&said, &[&file, elsewhere]);
}

#[test]
fn compression_says_what_is_compressed_and_why_not_more() {
    let enabled = "[site.compression]\nenabled = true\n";
    let more = "types = [\"text/*\", \"application/json\"]\nmin_bytes = 2000\npersonal = true\n";
    for (lines, words) in [
        (
            enabled.to_owned(),
            "answers to clients that do not name themselves, and styles, scripts and the like for all, from 1024 \
             bytes on",
        ),
        (
            format!("access.deny = [\"10.6.0.0/16\"]\n{enabled}"),
            "styles, scripts and the like, since the site has rules of access, from 1024 bytes on",
        ),
        (
            format!("{enabled}{more}"),
            "all answers, also pages that hold a secret of the client (`personal`): see docs/compression.md, of \
             text/*, application/json, from 2000 bytes on",
        ),
    ] {
        let written = Written::site(&lines);
        says(&part(&written.page(), "site blog"), &[&format!("compresses {words}")]);
        assert_eq!(written.json()["sites"][0]["answers"]["compression"], words);
    }
    let without = Written::site("");
    let page = part(&without.page(), "site blog");
    assert!(!page.contains("compresses"), "{page}");
    assert_eq!(without.json()["sites"][0]["answers"]["compression"], Value::Null);
}

#[test]
fn each_path_says_how_it_is_answered_and_whether_that_wakes_the_server() {
    let written = Written::site(
        r#"error_pages = { 503 = "DIR/503.html" }
[[site.path]]
prefix = "/old/"
redirect = "/new/{rest}"
[[site.path]]
exact = "/robots.txt"
text = "gone"
status = 410
[[site.path]]
prefix = "/files"
folder = "DIR/none"
[[site.path]]
prefix = "/here"
folder = "DIR/here"
[[site.path]]
prefix = "/api/"
origin = "http://10.0.0.5:9000"
strip_prefix = true
request_headers.set = { X-Api = "1" }
response_headers.remove = ["Server"]
[[site.path]]
prefix = "/plain"
response_headers.remove = ["Server"]
"#,
    );
    let dir = written.dir();
    std::fs::create_dir(format!("{dir}/here")).unwrap();
    let asleep = "; the server is not woken for it";
    let paths = [
        format!("/old/ and below: 308 to /new/{{rest}}{asleep}"),
        format!("/robots.txt alone: 410 with a fixed text{asleep}"),
        format!("/files and below: files of {dir}/none, which is not there now: 404{asleep}"),
        format!("/here and below: files of {dir}/here{asleep}"),
        "/api/ and below: http://10.0.0.5:9000, without the prefix, with 2 headers changed"
            .to_owned(),
        "/plain and below: the server, with a header changed".to_owned(),
    ];
    let said = part(&written.page(), "site blog");
    for path in &paths {
        says(&said, &[&format!("path {path}")]);
    }
    says(&said, &[&format!("error page 503 is {dir}/503.html")]);
    let said = written.json();
    let answers = &said["sites"][0]["answers"];
    assert_eq!(answers["paths"], json!(paths));
    assert_eq!(answers["error_pages"], json!(["503"]));
    assert_eq!(answers["error_page_files"], json!({ "503": format!("{dir}/503.html") }));
}

#[test]
fn each_probe_of_use_says_what_it_asks_and_never_a_secret() {
    let written = Written::site(
        r#"[[site.in_use]]
preset = "jellyfin"
token_file = "DIR/token"
every = "5m"
unknown_for = "20m"
[[site.in_use]]
ports = [8096, 8097]
[[site.in_use]]
name = "own"
url = "http://10.0.0.7/state?key=s3cret"
"#,
    );
    let probes = [
        "jellyfin: http://127.0.0.1:1/Sessions, every 5m while idle; no answer counts as use for 20m",
        "tcp: connections to 8096, 8097, every 1m while idle; no answer counts as use for 10m",
        "own: http://10.0.0.7/state, every 1m while idle; no answer counts as use for 10m",
    ];
    let page = written.page();
    for probe in probes {
        says(&part(&page, "site blog"), &[&format!("in use {probe}")]);
    }
    let said = written.json();
    assert_eq!(said["sites"][0]["answers"]["in_use"], json!(probes));
    assert_eq!(said["careful"], json!([]));
    for shown in [page, said.to_string()] {
        assert!(!shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
    }
    written.open_to("token", 0o644);
    let file = format!("{}/token", written.dir());
    let risk = format!(
        "everybody on this machine can read the token of a probe of use in {file} (mode 644): `chmod 640 {file}`"
    );
    assert_eq!(written.json()["careful"], json!([risk]));
    // It belongs to no site.
    let page = written.page();
    says(&part(&page, "listens on"), &[&format!("careful {risk}")]);
    assert!(!part(&page, "site blog").contains(&risk), "{page}");
}

#[test]
fn cache_mirror_sla_and_time_zone_are_the_same_words_for_programs() {
    let lines = "kind = \"pages\"\nscenario.never_sleep = [\"20:00-22:00\"]\n\
                 mirror.url = \"http://blog.example\"\n";
    let written = Written::site(lines);
    let said = written.json();
    let said = &said["sites"][0];
    let page = part(&written.page(), "site blog");
    let rows = [("cache", "cache"), ("warm-up", "warm_up"), ("mirror", "mirror"), ("SLA", "sla")];
    for (row, key) in rows {
        let words = said[key].as_str().unwrap_or_else(|| panic!("no {key} in {said}"));
        says(&page, &[&format!("{row} {words}")]);
    }
    assert!(said["time_zone"]["utc_offset_s"].is_i64(), "{said}");
    let app = Written::site("kind = \"app\"\n").json();
    let keys = ["mirror", "time_zone"].map(|key| app["sites"][0][key].clone());
    assert_eq!(keys, [Value::Null, Value::Null]);
}

#[test]
fn a_probe_of_a_container_says_which_use_counts() {
    let site = SITE.replace("power.simulated = {}", "power.docker = { container = \"blog\" }");
    let probes = "[[site.in_use]]\ncpu = 0.05\n[[site.in_use]]\nname = \"own\"\nnetwork = 20000\n";
    let written = Written::new(&format!("{site}{probes}"));
    let rows = [
        "container: its container uses more than 5 % of a processor, every 1m while idle",
        "own: its container uses more than 20000 bytes/s, every 1m while idle",
    ];
    let page = written.page();
    for row in rows {
        says(&part(&page, "site blog"), &[&format!("in use {row}")]);
    }
}
