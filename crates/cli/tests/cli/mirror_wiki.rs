//! MediaWiki of Debian behind nginx and PHP-FPM, with the recipe of docs/mirror.md, read while it is off.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use nightwatt_needs::{command, program};
use serde_json::Value;

use crate::client::Reply;
use crate::web_stack::{Application, Posted, READER, WebStack, cookies, run};

const MEDIAWIKI: &str = "/usr/share/mediawiki";

const LOCATIONS: &str = "    root DIR/html;
    location = / { return 301 /wiki/Main_Page; }
    location /wiki/ {
      include /etc/nginx/fastcgi_params;
      fastcgi_param MW_CONFIG_FILE DIR/LocalSettings.php;
      fastcgi_param SCRIPT_FILENAME /usr/share/mediawiki/index.php;
      fastcgi_pass unix:DIR/fpm.sock;
    }
    location ~ ^/w/(index|api|load|rest|opensearch_desc)\\.php {
      include /etc/nginx/fastcgi_params;
      fastcgi_param MW_CONFIG_FILE DIR/LocalSettings.php;
      fastcgi_param SCRIPT_FILENAME /usr/share/mediawiki/$1.php;
      fastcgi_pass unix:DIR/fpm.sock;
    }
    location /w/ { alias /usr/share/mediawiki/; }";

/// As its manual advises for short URLs.
const SETTINGS: &str = "
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
wfLoadSkin('Vector');
";

const ARTICLES: usize = 20;
const USER: &str = "203.0.113.2";
const EDITOR: &str = "203.0.113.4";

/// Addresses that change something, belong to one user, or are computed for each request.
const FORBIDDEN: [&str; 8] = [
    "action=edit",
    "action=history",
    "oldid=",
    "UserLogin",
    "CreateAccount",
    "api.php",
    "diff=",
    "/Special:",
];

/// What differs between two answers of MediaWiki to the same request: a number of the request, and a line about how it
/// was answered (when, and in which time). Pages that do not exist are made for each request.
const OF_EACH_REQUEST: &str = "\"wgRequestId\":";
const HOW_IT_WAS_MADE: &str = "<script>(RLQ=window.RLQ||[]).push(function(){mw.config.set({";

/// The script with the versions of all other scripts, some of which MediaWiki computes when they are first requested.
const VERSIONS: &str = "modules=startup";

/// The feed of changes, which the mirror reads too. It says when it was requested.
const FEED: &str = "Special:RecentChanges&feed=";

struct Wiki(WebStack);

/// The recipe: the part of `[site.mirror]` in the page.
fn recipe() -> String {
    let page = include_str!("../../../../docs/mirror.md");
    let (_, rest) = page.split_once("**MediaWiki.**").unwrap();
    let (_, block) = rest.split_once("```toml\n[site.mirror]\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert!(block.contains("override = "), "{block}");
    block.lines().map(|line| format!("mirror.{line}\n")).collect::<Vec<_>>().concat()
}

impl Wiki {
    /// Nothing if this machine lacks one of the parts.
    fn install() -> Option<Self> {
        let php = program("php")?;
        let index = format!("{MEDIAWIKI}/index.php");
        for part in [index.as_str(), "/usr/share/php8.2-sqlite3/sqlite3/sqlite3.ini"] {
            if !Path::new(part).is_file() {
                println!("skipped: there is no {part} (mediawiki php-sqlite3)");
                return None;
            }
        }
        let application = Application { locations: LOCATIONS, others: "", mirror: &recipe() };
        let stack = WebStack::build(&application)?;
        let dir = stack.house.dir.path().to_owned();
        fs::create_dir(dir.join("data")).unwrap();
        run(Command::new(php)
            .arg(format!("{MEDIAWIKI}/maintenance/install.php"))
            .args(["--dbtype", "sqlite", "--dbname", "wiki", "--server", "http://site.test"])
            .args(["--scriptpath", "/w", "--lang", "en", "--pass", "long-secret-1"])
            .arg("--confpath")
            .arg(&dir)
            .arg("--dbpath")
            .arg(dir.join("data"))
            .args(["The wiki", "ann"]));
        let settings = stack.house.read("LocalSettings.php");
        fs::write(dir.join("LocalSettings.php"), settings + SETTINGS).unwrap();
        let wiki = Self(stack);
        wiki.import();
        Some(wiki)
    }

    fn import(&self) {
        let folder = self.0.house.path("articles");
        fs::create_dir(&folder).unwrap();
        let mut files = Vec::new();
        let mut write = |title: &str, text: &str| {
            let file = folder.join(format!("{title}.txt"));
            fs::write(&file, text).unwrap();
            files.push(file);
        };
        // What others link to comes first: until its jobs have run, a wiki shows links to what did not exist.
        write("Category:Things", "All of them.");
        for number in 1..=ARTICLES {
            let text = format!(
                "Text {number}, version 1.\n\nSee [[Page {}]]. [[Category:Things]]",
                number / 2 + 1
            );
            write(&format!("Page {number}"), &text);
        }
        let all: Vec<String> = (1..=ARTICLES).map(|it| format!("* [[Page {it}]]\n")).collect();
        write("Main Page", &all.concat());
        run(command("php")
            .arg(format!("{MEDIAWIKI}/maintenance/importTextFiles.php"))
            .args(["--user", "ann", "--overwrite"])
            .args(files)
            .env("MW_CONFIG_FILE", self.0.house.path("LocalSettings.php")));
    }

    /// All that an anonymous visitor can find, as the server itself gives it.
    fn pages(&self) -> BTreeMap<String, Reply> {
        let mut paths = articles();
        paths.push("/".to_owned());
        let is_forbidden = |path: &str| FORBIDDEN.iter().any(|word| path.contains(word));
        let of_each_request = [VERSIONS, FEED];
        let is_of_each_request = |path: &str| of_each_request.iter().any(|it| path.contains(it));
        self.0.pages(paths, |path| is_of_each_request(path) || is_forbidden(path))
    }

    fn article(&self, number: usize) -> Reply {
        let reply = self.0.visit(READER, &format!("/wiki/Page_{number}"), "");
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.text().contains("\"wgUserName\":null"), "it is of no user");
        reply
    }

    /// A request to MediaWiki's API.
    fn api(&self, client: &str, cookie: &str, body: &str) -> (Value, String) {
        let reply = self.0.post(client, "/w/api.php", &Posted { cookie, ..Posted::form(body) });
        let value = serde_json::from_slice(&reply.body);
        (value.unwrap_or_else(|error| panic!("{error}: {}", reply.text())), cookies(&reply))
    }

    fn log_in(&self) -> String {
        let (asked, session) =
            self.api(USER, "", "action=query&meta=tokens&type=login&format=json");
        let token = asked["query"]["tokens"]["logintoken"].as_str().unwrap();
        let token = token.replace('+', "%2B").replace('\\', "%5C");
        let form =
            format!("action=login&lgname=ann&lgpassword=long-secret-1&lgtoken={token}&format=json");
        let (done, cookies) = self.api(USER, &session, &form);
        assert_eq!(done["login"]["result"], "Success", "{done}");
        cookies
    }
}

fn articles() -> Vec<String> {
    let mut paths: Vec<String> = (1..=ARTICLES).map(|it| format!("/wiki/Page_{it}")).collect();
    paths.push("/wiki/Main_Page".to_owned());
    paths.push("/wiki/Category:Things".to_owned());
    paths
}

/// Without what MediaWiki makes for each request.
fn same(text: &str) -> String {
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with(HOW_IT_WAS_MADE));
    let text: String = lines.collect();
    let Some((before, rest)) = text.split_once(OF_EACH_REQUEST) else { return text };
    let end = rest.find([',', '}']).unwrap();
    format!("{before}{}", &rest[end..])
}

#[test]
#[ignore = "minutes, and needs MediaWiki: `make test-mirror`"]
fn a_wiki_is_read_while_it_is_off_and_an_edit_is_seen_at_once() {
    let Some(mut wiki) = Wiki::install() else { return };
    wiki.0.crawl();
    let pages = wiki.0.while_on(|| wiki.pages());
    let (read, reasons) = wiki.0.read(&pages, same);
    for path in articles() {
        assert_eq!(pages[&path].status, 200, "{path}");
        assert_eq!(wiki.0.explain(&path)["is_mirrored"], true, "{path}: {reasons:?}");
    }
    println!("{read} of {} pages read while it is off; not mirrored: {reasons:#?}", pages.len());
    // A user who is logged in gets pages of her own, while it is on and while it is off.
    let cookie = wiki.log_in();
    let browse = |number: usize| {
        let reply = wiki.0.visit(USER, &format!("/wiki/Page_{number}"), &cookie);
        assert!(reply.text().contains("\"wgUserName\":\"Ann\""), "from {}", reply.answer());
    };
    wiki.0.while_on(|| {
        wiki.0.purge_and_refresh();
        (1..=ARTICLES).for_each(browse);
        wiki.0.until_fetched();
    });
    wiki.0.read(&pages, same);
    browse(1);
    wiki.0.off();
    assert_eq!(wiki.article(1).answer(), "mirror");
    // An anonymous edit: its token is the same for everyone.
    let before = wiki.0.times("POST /w/api.php");
    let edit = "action=edit&title=Page+3&text=Text+3,+version+2.&token=%2B%5C&format=json";
    let (done, _) = wiki.api(EDITOR, "", edit);
    assert_eq!(done["edit"]["result"], "Success", "{done}");
    assert_eq!(wiki.0.times("POST /w/api.php"), before + 1);
    for answer in [None, Some("mirror")] {
        let read = wiki.article(3);
        let text = read.text();
        assert!(text.contains("Text 3, version 2.") && !text.contains("version 1."), "{text}");
        assert!(answer.is_none_or(|it| it == read.answer()), "from {}", read.answer());
        wiki.0.off();
    }
    let own = wiki.0.has_only_read(&FORBIDDEN);
    println!(
        "{own} requests of the mirror, all of them anonymous GETs of pages\n{}",
        wiki.0.mirror()
    );
}
