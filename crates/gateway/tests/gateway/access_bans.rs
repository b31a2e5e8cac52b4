//! Bans by the real fail2ban and the real crowdsec, with the files that we ship for them and the log of a proxy.

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nightwatt_clock::Clock;

use crate::access::{ANN, WRONG, behind_a_proxy, password, with};
use crate::access_forward::guard;
use crate::client::{Ask, BROWSER, CRAWLER, get};
use crate::origin::{Origin, ok, status};
use crate::stage::{Setup, Stage, asleep, awake, secs, watched};

/// Guesses passwords.
const GUESSER: &str = "198.51.100.7";
/// Guesses passwords of a service that decides.
const ELSEWHERE: &str = "2001:db8::7";
/// Asks for what scanners ask for.
const SCANNER: &str = "198.51.100.9";
/// Guesses while crowdsec follows the log.
const LATER: &str = "203.0.113.5";
/// `maxretry` of the jail, and one more than the `capacity` of the scenarios.
const ENOUGH: usize = 10;
/// Between two looks at what another program has done.
const PAUSE: Duration = Duration::from_millis(100);

fn from(client: &str, ask: Ask) -> Ask {
    ask.field("X-Forwarded-For", client)
}

/// What filters look for, written by a client into what it chooses.
fn forged(rule: &str, class: &str) -> String {
    format!("\" id=1 site=blog class={class} answer=denied delay=0.000 rule={rule}")
}

/// How many lines of a client have one of these rules.
fn lines_of(stage: &Stage, client: &str, rules: &[&str]) -> usize {
    let named = |rule: Option<&str>| rule.is_some_and(|rule| rules.contains(&rule));
    let lines = stage.extras();
    lines.iter().filter(|it| it.client == client && named(it.rule.as_deref())).count()
}

/// Many who do nothing wrong, one that mistypes its password, and then one that guesses.
async fn guesses(stage: &Stage) {
    let text = forged("access-password", "api");
    for _ in 0..ENOUGH + 2 {
        for ask in [
            from("192.0.2.1", get("/").field("Authorization", ANN).field("Referer", &text)),
            from("192.0.2.2", get("/").agent(&text)),
            from("192.0.2.3", get("/?%22%20answer=denied%20rule=access-password")),
        ] {
            stage.ask(ask).await;
        }
    }
    for _ in 0..ENOUGH - 1 {
        stage.ask(from("192.0.2.4", get("/").field("Authorization", WRONG))).await;
    }
    for _ in 0..ENOUGH {
        stage.ask(from(GUESSER, get("/").field("Authorization", WRONG))).await;
    }
    let rules = ["access-password", "access-attempts"];
    let count = |client: &str| lines_of(stage, client, &rules);
    assert_eq!((count("192.0.2.4"), count(GUESSER)), (ENOUGH - 1, ENOUGH));
    let count = |client: &str| lines_of(stage, client, &["access-log-in"]);
    assert_eq!((count("192.0.2.2"), count("192.0.2.3")), (ENOUGH + 2, ENOUGH + 2));
}

/// A crawler, a browser that asks for a few odd paths, and then a scanner. None of them wakes the server.
async fn scans(stage: &Stage) {
    let text = forged("scanner-path", "scanner");
    for _ in 0..ENOUGH + 2 {
        stage.ask(from("192.0.2.5", get("/a").agent(CRAWLER).field("Referer", &text))).await;
    }
    for (client, count) in [("192.0.2.6", ENOUGH - 1), (SCANNER, ENOUGH)] {
        for _ in 0..count {
            let got = stage.ask(from(client, get("/.env").by_browser())).await;
            assert_eq!(got.how(), (503, "scanner"));
        }
        assert_eq!(lines_of(stage, client, &["scanner-path", "misses"]), count);
    }
    assert_eq!(lines_of(stage, "192.0.2.5", &["crawler-table"]), ENOUGH + 2);
    assert_eq!(stage.commands(), (0, 0));
}

/// Clients with a session, without one and with an old password, and then one that guesses at the service.
async fn guesses_at_a_service(stage: &mut Stage) -> Origin {
    let service = guard(stage, "").await;
    service.script(|seen| match (seen.field("authorization"), seen.field("cookie")) {
        (Some(WRONG), _) => status(401, "").field("WWW-Authenticate", "Basic realm=\"x\"").acts(),
        (None, Some("session=ann")) => ok("").acts(),
        _ => status(401, "").acts(),
    });
    for _ in 0..2 * ENOUGH + 2 {
        for ask in [
            from("192.0.2.7", get("/").field("Cookie", "session=ann")),
            from("192.0.2.8", get("/").agent(BROWSER)),
            from("192.0.2.9", get("/").field("Authorization", ANN)),
        ] {
            stage.ask(ask).await;
        }
    }
    let refused = |client: &str| lines_of(stage, client, &["access-forward"]);
    assert_eq!((refused("192.0.2.8"), refused("192.0.2.9")), (2 * ENOUGH + 2, 2 * ENOUGH + 2));
    // While it guesses, a slow machine may give it further attempts.
    watched("the bounds of guesses", async {
        while lines_of(stage, ELSEWHERE, &["access-attempts"]) < ENOUGH {
            stage.ask(from(ELSEWHERE, get("/").field("Authorization", WRONG))).await;
        }
    })
    .await;
    service
}

/// Each program compares the times of the lines with the machine's. No crawler has an appointment at this time of day.
fn now(setup: Setup) -> Setup {
    let second = Clock::real().now().wall.secs().cast_unsigned() % 86_400;
    let opens = secs((second + 43_200) % 86_400);
    behind_a_proxy(setup).with(move |config| config.scenario.crawl_window.opens = opens).real()
}

/// A file that the package has.
fn shipped(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging")).join(name)
}

fn log_of(stage: &Stage) -> PathBuf {
    stage.config.access_log.clone().unwrap()
}

/// Waits for `work` of another program, whose own log explains what has gone wrong.
async fn wait_for<T>(what: &str, log: &Path, work: impl Future<Output = T>) -> T {
    let waited = Clock::real().timeout(secs(150), work).await;
    waited.unwrap_or_else(|_| {
        let log = fs::read_to_string(log).unwrap_or_default();
        panic!("waited for {what}:\n{log}")
    })
}

/// A program in a folder of its own. It ends with the test.
struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// fail2ban with our filter and our jail; a ban adds the address to a file.
struct Fail2ban(Daemon);

impl Fail2ban {
    async fn start(stage: &Stage) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        for folder in ["filter.d", "action.d", "jail.d"] {
            fs::create_dir(at.join(folder)).unwrap();
        }
        let place = at.display();
        let main = format!(
            "[Definition]\nloglevel = INFO\nlogtarget = {place}/log\nsyslogsocket = auto\n\
             socket = {place}/socket\npidfile = {place}/pid\ndbfile = {place}/bans.sqlite3\n\
             dbpurgeage = 1d\ndbmaxmatches = 10\nallowipv6 = auto\n"
        );
        let action = format!(
            "[Definition]\nactionstart =\nactionstop =\nactioncheck =\n\
             actionban = echo <ip> >> {place}/bans\nactionunban =\n"
        );
        let here = format!(
            "[nightwatt]\nlogpath = {}\nbackend = polling\naction = note\n",
            log_of(stage).display()
        );
        fs::write(at.join("fail2ban.conf"), main).unwrap();
        fs::write(at.join("jail.conf"), "[DEFAULT]\n").unwrap();
        fs::write(at.join("action.d/note.conf"), action).unwrap();
        fs::copy(shipped("fail2ban/nightwatt.conf"), at.join("filter.d/nightwatt.conf")).unwrap();
        fs::copy(shipped("fail2ban/nightwatt.local"), at.join("jail.d/nightwatt.local")).unwrap();
        // It is read after ours.
        fs::write(at.join("jail.d/of-the-test.local"), here).unwrap();
        let child = nightwatt_needs::command("fail2ban-server")
            .args(["-f", "-x"])
            .args(Self::places(at))
            .arg("start")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self(Daemon { child, dir });
        wait_for("fail2ban to read the log", &server.log(), async {
            while !server.order(&["status", "nightwatt"]).status.success() {
                stage.clock.sleep(PAUSE).await;
            }
        })
        .await;
        server
    }

    /// Options of client and server.
    fn places(at: &Path) -> [PathBuf; 6] {
        let place = |name: &str| at.join(name);
        ["-c".into(), at.into(), "-s".into(), place("socket"), "-p".into(), place("pid")]
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.dir.path().join(name)
    }

    fn log(&self) -> PathBuf {
        self.at("log")
    }

    fn order(&self, words: &[&str]) -> Output {
        let mut client = nightwatt_needs::command("fail2ban-client");
        client.args(Self::places(self.0.dir.path())).args(words).output().unwrap()
    }

    /// The addresses that it has banned, once there is one. It bans in the order of the log.
    async fn bans(&self, stage: &Stage) -> Vec<String> {
        let text = wait_for("a ban", &self.log(), async {
            loop {
                let text = fs::read_to_string(self.at("bans")).unwrap_or_default();
                if text.ends_with('\n') {
                    return text;
                }
                stage.clock.sleep(PAUSE).await;
            }
        })
        .await;
        text.lines().map(str::to_owned).collect()
    }

    /// Checks that it bans this client and no other, and stops it.
    async fn bans_only(mut self, stage: &Stage, client: &str) {
        assert_eq!(self.bans(stage).await, [client]);
        let said = String::from_utf8(self.order(&["status", "nightwatt"]).stdout).unwrap();
        let banned = said.split_once("Banned IP list:").map(|(_, list)| list.trim());
        assert_eq!(banned, Some(client), "{said}");
        assert!(self.order(&["stop"]).status.success());
        let log = self.log();
        let ended = wait_for("fail2ban to end", &log, async {
            loop {
                if let Some(ended) = self.0.child.try_wait().unwrap() {
                    return ended;
                }
                stage.clock.sleep(PAUSE).await;
            }
        })
        .await;
        assert!(ended.success(), "{ended}");
        // Nothing was banned before it ended, either.
        assert_eq!(fs::read_to_string(self.at("bans")).unwrap(), format!("{client}\n"));
    }
}

fn has_fail2ban() -> bool {
    nightwatt_needs::programs(&["fail2ban-server", "fail2ban-client"])
}

#[test]
fn fail2ban_bans_who_guesses_passwords_and_no_other() {
    if !has_fail2ban() {
        return;
    }
    now(with(awake(), password())).play(async |stage| {
        let fail2ban = Fail2ban::start(stage).await;
        guesses(stage).await;
        fail2ban.bans_only(stage, GUESSER).await;
    });
}

#[test]
fn fail2ban_bans_who_scans_a_sleeping_site_and_no_other() {
    if !has_fail2ban() {
        return;
    }
    now(asleep()).play(async |stage| {
        let fail2ban = Fail2ban::start(stage).await;
        scans(stage).await;
        fail2ban.bans_only(stage, SCANNER).await;
    });
}

#[test]
fn fail2ban_bans_who_guesses_passwords_of_a_service_that_decides_and_no_other() {
    if !has_fail2ban() {
        return;
    }
    now(awake()).play(async |stage| {
        let fail2ban = Fail2ban::start(stage).await;
        let _service = guesses_at_a_service(stage).await;
        fail2ban.bans_only(stage, ELSEWHERE).await;
    });
}

/// crowdsec of Debian's package. Installed, it would start a service: `CROWDSEC` names a folder in which
/// `tools/crowdsec` has unpacked it.
struct Crowdsec {
    root: PathBuf,
    daemon: Option<Daemon>,
}

impl Crowdsec {
    fn find() -> Option<Self> {
        let root = std::env::var_os("CROWDSEC").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let it = Self { root, daemon: None };
        if it.program("crowdsec").is_file() && it.program("cscli").is_file() {
            return Some(it);
        }
        println!("skipped: there is no crowdsec in {} (tools/crowdsec)", it.root.display());
        None
    }

    fn program(&self, name: &str) -> PathBuf {
        self.root.join("usr/bin").join(name)
    }

    /// The folder of its configuration: our files, and those parsers of Debian's package that every log needs.
    fn configure(&self, at: &Path, log: &Path) {
        let etc = at.join("etc");
        for folder in ["acquis.d", "parsers/s00-raw", "parsers/s01-parse", "parsers/s02-enrich"] {
            fs::create_dir_all(etc.join(folder)).unwrap();
        }
        for folder in ["scenarios", "patterns", "notifications"] {
            fs::create_dir(etc.join(folder)).unwrap();
        }
        // What is below the hub is not taken for configuration: it has a folder of its own, which is empty.
        for folder in ["data", "hub", "plugins"] {
            fs::create_dir(at.join(folder)).unwrap();
        }
        for name in [
            "parsers/s01-parse/nightwatt-logs.yaml",
            "scenarios/nightwatt-passwords.yaml",
            "scenarios/nightwatt-scanners.yaml",
        ] {
            fs::copy(shipped("crowdsec").join(name), etc.join(name)).unwrap();
        }
        let hub = self.root.join("usr/share/crowdsec/hub/parsers");
        for (stage, name) in [
            ("s00-raw", "syslog-logs.yaml"),
            ("s02-enrich", "dateparse-enrich.yaml"),
            ("s02-enrich", "http-logs.yaml"),
            ("s02-enrich", "whitelists.yaml"),
        ] {
            let to = etc.join("parsers").join(stage).join(name);
            fs::copy(hub.join(stage).join("crowdsecurity").join(name), to).unwrap();
        }
        for entry in fs::read_dir(self.root.join("etc/crowdsec/patterns")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), etc.join("patterns").join(entry.file_name())).unwrap();
        }
        let ours = fs::read_to_string(shipped("crowdsec/acquis.d/nightwatt.yaml")).unwrap();
        let place = "/var/log/nightwatt/access.log";
        assert!(ours.contains(place), "{ours}");
        let here = ours.replace(place, &log.display().to_string());
        fs::write(etc.join("acquis.d/nightwatt.yaml"), here).unwrap();
        let profiles = self.root.join("etc/crowdsec/profiles.yaml");
        fs::copy(profiles, etc.join("profiles.yaml")).unwrap();
        fs::write(etc.join("simulation.yaml"), "simulation: false\n").unwrap();
        fs::write(etc.join("credentials.yaml"), "").unwrap();
        let index = r#"{"parsers":{},"scenarios":{},"collections":{},"postoverflows":{}}"#;
        fs::write(at.join("index.json"), index).unwrap();
        let listen = nightwatt_needs::free_address();
        fs::write(at.join("config.yaml"), Self::config(at, &listen.to_string())).unwrap();
    }

    /// Without `online_client`, it asks its makers for nothing.
    fn config(at: &Path, listen: &str) -> String {
        let at = at.display();
        format!(
            "common: {{daemonize: false, log_media: stdout, log_level: info}}\n\
             config_paths:\n  config_dir: {at}/etc\n  data_dir: {at}/data\n  \
             simulation_path: {at}/etc/simulation.yaml\n  hub_dir: {at}/hub\n  \
             index_path: {at}/index.json\n  notification_dir: {at}/etc/notifications\n  \
             plugin_dir: {at}/plugins\n\
             crowdsec_service: {{acquisition_dir: {at}/etc/acquis.d, parser_routines: 1}}\n\
             cscli: {{output: human}}\n\
             db_config: {{type: sqlite, db_path: {at}/data/crowdsec.db, use_wal: true}}\n\
             api:\n  client: {{credentials_path: {at}/etc/credentials.yaml}}\n  \
             server: {{listen_uri: \"{listen}\", profiles_path: {at}/etc/profiles.yaml}}\n\
             prometheus: {{enabled: false}}\n"
        )
    }

    fn dir(&self) -> &Path {
        self.daemon.as_ref().unwrap().dir.path()
    }

    fn log(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// It follows the log, and decides for itself.
    async fn start(&mut self, stage: &Stage) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        self.configure(at, &log_of(stage));
        let config = at.join("config.yaml");
        let added = Command::new(self.program("cscli"))
            .arg("-c")
            .arg(&config)
            .args(["machines", "add", "test", "--password", "test", "--force", "--file"])
            .arg(at.join("etc/credentials.yaml"))
            .output()
            .unwrap();
        assert!(added.status.success(), "{added:?}");
        let log = fs::File::create(at.join("log")).unwrap();
        let child = Command::new(self.program("crowdsec"))
            .arg("-c")
            .arg(&config)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(Daemon { child, dir });
        wait_for("CrowdSec to answer", &self.log(), async {
            while self.bans().is_none() {
                stage.clock.sleep(secs(1)).await;
            }
        })
        .await;
    }

    /// Has another process read the whole log, which ends when it has.
    fn read(&self, log: &Path) {
        let ran = Command::new(self.program("crowdsec"))
            .arg("-c")
            .arg(self.dir().join("config.yaml"))
            .args(["-no-api", "-type", "nightwatt", "-dsn"])
            .arg(format!("file://{}", log.display()))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    /// Address and scenario of each ban, as `cscli` prints them; nothing before it answers.
    fn bans(&self) -> Option<BTreeSet<(String, String)>> {
        let ran = Command::new(self.program("cscli"))
            .arg("-c")
            .arg(self.dir().join("config.yaml"))
            .args(["decisions", "list", "-o", "raw"])
            .output()
            .unwrap();
        if !ran.status.success() {
            return None;
        }
        let text = String::from_utf8(ran.stdout).unwrap();
        let rows = text.lines().filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let client = cells.get(2)?.strip_prefix("Ip:")?;
            (cells.get(4) == Some(&"ban")).then(|| (client.to_owned(), cells[3].to_owned()))
        });
        Some(rows.collect())
    }

    async fn waits_for_bans(&self, stage: &Stage, expected: &BTreeSet<(String, String)>) {
        wait_for("the bans of CrowdSec", &self.log(), async {
            while !self.bans().is_some_and(|bans| bans.is_superset(expected)) {
                stage.clock.sleep(secs(1)).await;
            }
        })
        .await;
        assert_eq!(self.bans().as_ref(), Some(expected));
    }
}

#[test]
fn crowdsec_bans_who_guesses_passwords_or_scans_and_no_other() {
    let Some(mut crowdsec) = Crowdsec::find() else { return };
    let ban = |client: &str, scenario: &str| (client.to_owned(), format!("nightwatt/{scenario}"));
    now(asleep()).play(async |stage| {
        scans(stage).await;
        let _service = guesses_at_a_service(stage).await;
        stage.reload(|config| config.site[0].access = Some(password())).await.unwrap();
        guesses(stage).await;
        crowdsec.start(stage).await;
        crowdsec.read(&log_of(stage));
        let found = [(SCANNER, "scanners"), (ELSEWHERE, "passwords"), (GUESSER, "passwords")];
        let mut expected: BTreeSet<_> = found.map(|(client, it)| ban(client, it)).into();
        crowdsec.waits_for_bans(stage, &expected).await;
        // It begins at the end of a log that it follows, at a moment that it does not report: this client goes on.
        expected.insert(ban(LATER, "passwords"));
        wait_for("a ban from the log that it follows", &crowdsec.log(), async {
            while !crowdsec.bans().is_some_and(|bans| bans.is_superset(&expected)) {
                stage.ask(from(LATER, get("/").field("Authorization", WRONG))).await;
                stage.clock.sleep(secs(1)).await;
            }
        })
        .await;
        assert_eq!(crowdsec.bans(), Some(expected));
    });
}
