//! A web application of Debian in a folder: PHP-FPM behind nginx, and what else it needs, switched on and off as one
//! server. Visitors come through a proxy that names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::client::{Reply, head, send};
use crate::harness::{Gateway, House, Plan, process, told, within};
use crate::mirror_live::{LONGEST, mirror, off, wakeups};

const NGINX: &str = "daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/error.log;
events {}
http {
  include /etc/nginx/mime.types;
  log_format own '$request_method $request_uri\\t$http_user_agent\\t$http_cookie';
  access_log DIR/nginx.log own;
  client_body_temp_path DIR/temp;
  proxy_temp_path DIR/temp;
  fastcgi_temp_path DIR/temp;
  uwsgi_temp_path DIR/temp;
  scgi_temp_path DIR/temp;
  server {
    listen ORIGIN;
    absolute_redirect off;
LOCATIONS
  }
}
";

const FPM: &str = "[global]
daemonize = no
error_log = DIR/fpm.log
pid = DIR/fpm.pid
[www]
user = root
group = root
listen = DIR/fpm.sock
pm = static
pm.max_children = 3
";

/// All of it ends with the script, which ends last. PHP-FPM leaves the process group; the signal to the group reaches
/// the others.
const SERVER: &str = "exec >>DIR/server.log 2>&1
fpm=
end() { trap '' TERM; kill 0 $fpm; wait; exit 0; }
trap end TERM
rm -f DIR/fpm.sock
OTHERS
PHP_FPM --allow-to-run-as-root --fpm-config DIR/fpm.conf &
fpm=$!
until test -S DIR/fpm.sock; do sleep 0.05; done
NGINX -c DIR/nginx.conf &
wait $!
end
";

const ADMIN: &str = "trusted_proxies = [\"127.0.0.0/8\"]\nadmin = \"ADMIN\"\n\n[scenario]\n";

/// A reader that waits until the server is awake: a browser would be shown the waiting page.
const PROGRAM: &str = "User-Agent: test-program/1\r\n";

/// Who comes to read.
pub(crate) const READER: &str = "203.0.113.1";

/// Who reads everything, also robots.txt: that makes it a crawler, which wakes no server.
const READS_ALL: &str = "203.0.113.9";

/// What is special about an application. `DIR/` stands for its folder.
pub(crate) struct Application<'a> {
    /// Lines of nginx's `server`.
    pub(crate) locations: &'a str,
    /// Lines of shell that start other servers, in the background.
    pub(crate) others: &'a str,
    /// Lines of `[site.mirror]`.
    pub(crate) mirror: &'a str,
}

/// The application, and nightwatt in front of it.
pub(crate) struct WebStack {
    pub(crate) house: House,
    pub(crate) gateway: Option<Gateway>,
    admin: String,
}

impl Drop for WebStack {
    /// After a failure PHP-FPM may still run: it is in no group of the house, and its title hides the mark.
    fn drop(&mut self) {
        self.gateway = None;
        let pid = self.house.read("fpm.pid").trim().parse().ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
}

/// A request as nginx logs it.
pub(crate) struct Logged {
    /// Method and target.
    pub(crate) request: String,
    pub(crate) agent: String,
    pub(crate) cookie: String,
}

impl WebStack {
    /// Writes the files; nothing runs yet. Nothing if this machine lacks nginx or PHP.
    pub(crate) fn build(application: &Application<'_>) -> Option<Self> {
        let (nginx, fpm) =
            (nightwatt_needs::program("nginx")?, nightwatt_needs::program("php-fpm8.2")?);
        // On a busy machine PHP may need longer for a page than a probe waits; nginx starts last.
        let site = "kind = \"pages\"\nwatch = \"500ms\"\nwake_timeout = \"1m\"\nprobe = \"tcp ORIGIN\"\n\
                    mirror.url = \"http://site.test\"\nmirror.rate = 1000.0\nmirror.extension = \"10m\"\n\
                    mirror.token_file = \"DIR/token\"\n";
        let site = format!("{site}{}", application.mirror);
        let house =
            House::build(&Plan { power: process("exec sh DIR/server"), site, ..Plan::default() });
        let admin = nightwatt_needs::free_address().to_string();
        house.reconfigure("[scenario]\n", &ADMIN.replace("ADMIN", &admin));
        fs::write(house.path("token"), "a-token-of-the-test\n").unwrap();
        let stack = Self { house, gateway: None, admin };
        let nginx = SERVER.replace("NGINX", &nginx.display().to_string());
        let server = nginx.replace("PHP_FPM", &fpm.display().to_string());
        let conf = NGINX.replace("LOCATIONS", application.locations);
        let conf = conf.replace("ORIGIN", &stack.house.origin.to_string());
        for (name, text) in [
            ("server", server.replace("OTHERS", application.others)),
            ("nginx.conf", conf),
            ("fpm.conf", FPM.to_owned()),
        ] {
            stack.write(name, &text);
        }
        Some(stack)
    }

    /// Writes a file of its folder, for which `DIR/` stands in it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let dir = format!("{}/", self.house.dir.path().display());
        fs::write(self.house.path(name), text.replace("DIR/", &dir)).unwrap();
    }

    /// The gateway, which is started if it does not run.
    pub(crate) fn gateway(&mut self) -> &Gateway {
        self.gateway.get_or_insert_with(|| self.house.serve(&[]))
    }

    fn running(&self) -> &Gateway {
        self.gateway.as_ref().expect("it was started")
    }

    /// Crawls the whole site, and waits until the server is off again.
    pub(crate) fn crawl(&mut self) {
        self.gateway();
        self.order(&["wake"]);
        let has_passed = || !self.mirror()["last_pass_s_ago"].is_null();
        within(LONGEST, "a whole pass", || has_passed().then_some(()));
        self.off();
    }

    /// Waits until the server is off.
    pub(crate) fn off(&self) {
        let is_asleep = || self.running().status()["state"] == "asleep";
        within(LONGEST, "the server sleeps", || is_asleep().then_some(()));
        off(&self.house, self.running());
    }

    /// Keeps the server on meanwhile.
    pub(crate) fn while_on<T>(&self, work: impl FnOnce() -> T) -> T {
        self.order(&["stay-awake", "--for", "30m"]);
        self.running().until("awake");
        let done = work();
        self.order(&["sleep"]);
        self.off();
        done
    }

    /// Purges all pages and has them fetched again at once; the server is on meanwhile.
    pub(crate) fn purge_and_refresh(&self) {
        self.order(&["purge", "--refresh", "--prefix", "/", "--site", "site"]);
    }

    /// Waits until nothing is to be fetched.
    pub(crate) fn until_fetched(&self) {
        within(LONGEST, "nothing is due", || (self.mirror()["due"] == 0).then_some(()));
    }

    pub(crate) fn wakeups(&self) -> u64 {
        wakeups(self.running())
    }

    pub(crate) fn mirror(&self) -> Value {
        mirror(self.running())
    }

    pub(crate) fn order(&self, command: &[&str]) -> String {
        let output = self.running().order(command);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The URL at which programs report changes of the site.
    pub(crate) fn changed_url(&self) -> String {
        format!("http://{}/api/v1/sites/site/changed", self.admin)
    }

    /// A page for a visitor, through nightwatt.
    pub(crate) fn visit(&self, visitor: &str, path: &str, cookie: &str) -> Reply {
        let mut fields = format!("{PROGRAM}X-Forwarded-For: {visitor}\r\n");
        if !cookie.is_empty() {
            fields = format!("{fields}Cookie: {cookie}\r\n");
        }
        send(self.running().address, &head("GET", path, &fields), &[]).unwrap()
    }

    /// A page as an anonymous visitor gets it from the server itself.
    pub(crate) fn server_reply(&self, path: &str) -> Reply {
        send(self.house.origin, &head("GET", path, PROGRAM), &[]).unwrap()
    }

    /// All that an anonymous visitor can find from these paths on, as the server itself gives it.
    pub(crate) fn pages(
        &self,
        mut paths: Vec<String>,
        is_left_out: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, Reply> {
        let mut pages = BTreeMap::new();
        while let Some(path) = paths.pop() {
            if is_left_out(&path) || pages.contains_key(&path) {
                continue;
            }
            let reply = self.server_reply(&path);
            if reply.header("content-type").is_some_and(|it| it.starts_with("text/html")) {
                paths.extend(links(&reply.text()));
            }
            pages.insert(path, reply);
        }
        pages
    }

    /// Sends a body, through nightwatt.
    pub(crate) fn post(&self, visitor: &str, path: &str, content: &Posted<'_>) -> Reply {
        let Posted { kind, cookie, body } = content;
        let fields = format!(
            "{PROGRAM}X-Forwarded-For: {visitor}\r\nContent-Type: {kind}\r\nCookie: {cookie}\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        send(self.running().address, &head("POST", path, &fields), body.as_bytes()).unwrap()
    }

    /// What `nightwatt mirror explain` has about a path.
    pub(crate) fn explain(&self, path: &str) -> Value {
        let reply: Value =
            serde_json::from_str(&self.order(&["mirror", "explain", path, "--json"])).unwrap();
        reply["explained"].clone()
    }

    /// All requests that nginx has answered.
    pub(crate) fn log(&self) -> Vec<Logged> {
        let lines = self.house.read("nginx.log");
        let logged = |line: &str| {
            let mut parts = line.split('\t').map(str::to_owned);
            let mut part = || parts.next().unwrap();
            Logged { request: part(), agent: part(), cookie: part() }
        };
        lines.lines().map(logged).collect()
    }

    /// The number of such requests.
    pub(crate) fn times(&self, request: &str) -> usize {
        self.log().iter().filter(|it| it.request == request).count()
    }

    /// The mirror asks as an anonymous visitor does who only reads.
    pub(crate) fn has_only_read(&self, forbidden: &[&str]) -> usize {
        let log = self.log();
        let own = || log.iter().filter(|it| it.agent.starts_with("nightwatt/"));
        for Logged { request, cookie, .. } in own() {
            assert!(request.starts_with("GET "), "{request}");
            assert_eq!(cookie, "-", "{request}");
            let bad = forbidden.iter().find(|word| request.contains(**word));
            assert_eq!(bad, None, "{request}");
        }
        own().count()
    }

    /// Reads all of these pages while the server is off. Each is from the mirror, or from a cache if that has fetched it
    /// later (robots.txt, for crawlers), and equals what the server itself gave, by `same`; or `explain` has a reason.
    /// Returns how many pages were read, and the reasons.
    pub(crate) fn read(
        &self,
        pages: &BTreeMap<String, Reply>,
        same: impl Fn(&str) -> String,
    ) -> (usize, BTreeMap<String, BTreeSet<String>>) {
        let (before, mut read, mut reasons) = (self.wakeups(), 0, BTreeMap::new());
        for (path, own) in pages {
            let explained = self.explain(path);
            if explained["is_mirrored"] == false {
                let reason = explained["reason"].as_str().or(explained["why"].as_str()).unwrap();
                reasons.entry(reason.to_owned()).or_insert_with(BTreeSet::new).insert(path.clone());
                continue;
            }
            let reply = self.visit(READS_ALL, path, "");
            assert_eq!(reply.status, own.status, "{path} from {}", reply.answer());
            let is_for_crawlers = path == "/robots.txt" && reply.answer() == "stale";
            assert!(
                is_for_crawlers || reply.answer() == "mirror",
                "{path} from {}",
                reply.answer()
            );
            let (ours, theirs) = (same(&reply.text()), same(&own.text()));
            assert!(ours == theirs, "{path} differs:\n{ours}\n---\n{theirs}");
            read += 1;
        }
        assert_eq!(self.wakeups(), before, "the server stayed off");
        (read, reasons)
    }
}

/// What is sent.
pub(crate) struct Posted<'a> {
    pub(crate) kind: &'a str,
    pub(crate) cookie: &'a str,
    pub(crate) body: &'a str,
}

impl<'a> Posted<'a> {
    /// A form.
    pub(crate) fn form(body: &'a str) -> Self {
        Self { kind: "application/x-www-form-urlencoded", cookie: "", body }
    }
}

/// The cookies that an answer sets, as a browser sends them.
pub(crate) fn cookies(reply: &Reply) -> String {
    let set = reply.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let pairs: BTreeMap<&str, &str> =
        set.filter_map(|(_, value)| value.split(';').next()?.split_once('=')).collect();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("; ")
}

/// Paths of this site to which a page links.
fn links(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in ["href=", "src="] {
        for rest in page.split(name).skip(1) {
            let mark = rest.chars().next().filter(|it| matches!(it, '"' | '\''));
            let Some(link) = mark.and_then(|mark| rest[1..].split(mark).next()) else { continue };
            let link = link.split('#').next().unwrap_or_default();
            let link = link.replace("&#038;", "&").replace("&amp;", "&");
            let path = link.strip_prefix("http://site.test").unwrap_or(&link);
            if path.starts_with('/') && !path.starts_with("//") {
                found.insert(path.to_owned());
            }
        }
    }
    found
}

/// Runs a program to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}
