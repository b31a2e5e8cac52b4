//! WordPress of Debian with `MariaDB` and PHP-FPM, read while all three are off; an author works meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use nightwatt_needs::{command, program};
use rustix::process::{Pid, Signal};

use crate::client::Reply;
use crate::harness::eventually;
use crate::web_stack::{Application, Posted, READER, WebStack, cookies, run};

const WORDPRESS: &str = "/usr/share/wordpress";
const THEME: &str = "/usr/share/wordpress/wp-content/themes/twentytwentythree/style.css";

const LOCATIONS: &str = "    root DIR/html;
    index index.php;
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \\.php$ {
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
      fastcgi_pass unix:DIR/fpm.sock;
    }";

const MARIADB: &str = "rm -f DIR/db.sock
MARIADBD --no-defaults --user=root --datadir=DIR/db --socket=DIR/db.sock --pid-file=DIR/db.pid --skip-networking &
until test -S DIR/db.sock; do sleep 0.05; done";

/// Other hosts are not asked: tests need no network.
const CONFIG: &str = "<?php
define('DB_NAME', 'wp'); define('DB_USER', 'root'); define('DB_PASSWORD', ''); define('DB_CHARSET', 'utf8mb4');
define('DB_HOST', 'localhost:DIR/db.sock');
define('WP_HOME', 'http://site.test'); define('WP_SITEURL', 'http://site.test');
define('DISABLE_WP_CRON', true);
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $it) { define($it.'_KEY', $it); define($it.'_SALT', $it); }
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__.'/');
require_once ABSPATH.'wp-settings.php';
";

/// Begins each script that uses WordPress from the command line.
const LOAD: &str = "<?php
$_SERVER['HTTP_HOST'] = 'site.test'; $_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1'; $_SERVER['REQUEST_METHOD'] = 'GET';
";

const INSTALL: &str = "define('WP_INSTALLING', true);
require __DIR__.'/html/wp-load.php';
require ABSPATH.'wp-admin/includes/upgrade.php';
function wp_new_blog_notification() {}
wp_install('The site', 'ann', 'ann@site.test', true, '', 'ann-secret');
update_option('permalink_structure', '/%postname%/');
update_option('comment_previously_approved', 0);
update_option('comments_notify', 0);
$folders = [];
foreach (['Sea', 'Land', 'Sky'] as $name) $folders[] = wp_insert_term($name, 'category')['term_id'];
for ($n = 1; $n <= POSTS; $n++) {
  $id = wp_insert_post(['import_id' => 1000 + $n, 'post_title' => \"Post $n\", 'post_name' => \"post-$n\",
    'post_status' => 'publish', 'post_author' => 1, 'post_date' => date('Y-m-d H:i:s', time() - 86400 * (99 - $n)),
    'post_category' => [$folders[$n % 3]], 'tags_input' => ['tag '.($n % 5)], 'post_content' => \"Text $n, version 1.\"]);
  if ($id !== 1000 + $n) { fwrite(STDERR, \"post $n has the number $id\"); exit(1); }
}
flush_rewrite_rules();
";

const EDIT: &str = "require __DIR__.'/html/wp-load.php';
exit(wp_update_post(['ID' => 1000 + $argv[1], 'post_content' => $argv[2]]) ? 0 : 1);
";

const POSTS: usize = 20;
const AUTHOR: &str = "203.0.113.2";
const COMMENTER: &str = "203.0.113.3";
const EDITOR: &str = "203.0.113.4";

/// What only a user who is logged in gets.
const PERSONAL: [&str; 2] = ["wpadminbar", "Howdy"];

/// Addresses that change something or belong to one user.
const FORBIDDEN: [&str; 7] =
    ["wp-login", "wp-admin", "xmlrpc", "wp-comments-post", "wp-cron", "replytocom", "preview"];

struct WordPress(WebStack);

/// Ends when it is dropped.
struct MariaDb(Child);

impl Drop for MariaDb {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
        let _ = rustix::process::kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

impl WordPress {
    /// Nothing if this machine lacks one of the parts.
    fn install() -> Option<Self> {
        let (mariadbd, maker) = (program("mariadbd")?, program("mariadb-install-db")?);
        let (_, php) = (program("mariadb")?, program("php")?);
        if !Path::new(THEME).is_file() {
            println!("skipped: there is no {THEME} (wordpress wordpress-theme-twentytwentythree)");
            return None;
        }
        let others = MARIADB.replace("MARIADBD", &mariadbd.display().to_string());
        let (locations, mirror) = (LOCATIONS, "");
        let stack = WebStack::build(&Application { locations, others: &others, mirror })?;
        let dir = stack.house.dir.path().to_owned();
        run(command("cp").args(["-rL", WORDPRESS]).arg(dir.join("html")));
        stack.write("html/wp-config.php", CONFIG);
        stack
            .write("install.php", &format!("{LOAD}{INSTALL}").replace("POSTS", &POSTS.to_string()));
        stack.write("edit.php", &format!("{LOAD}{EDIT}"));
        run(Command::new(maker)
            .args(["--no-defaults", "--user=root", "--skip-test-db"])
            .arg("--auth-root-authentication-method=normal")
            .arg(format!("--datadir={}", dir.join("db").display())));
        let option = |name: &str, file: &str| format!("--{name}={}", dir.join(file).display());
        let server = Command::new(mariadbd)
            .args(["--no-defaults", "--user=root", "--skip-networking"])
            .args([option("datadir", "db"), option("socket", "db.sock")])
            .args([option("pid-file", "db.pid"), option("log-error", "db.log")])
            .spawn();
        let _server = MariaDb(server.unwrap());
        eventually("MariaDB has a database", || {
            let mut client = command("mariadb");
            client.args([
                "--no-defaults",
                &option("socket", "db.sock"),
                "-e",
                "CREATE DATABASE wp",
            ]);
            client.output().unwrap().status.success().then_some(())
        });
        run(Command::new(php).arg(dir.join("install.php")));
        Some(Self(stack))
    }

    /// Changes a post without nightwatt: the server must be on.
    fn edit(&self, post: usize, text: &str) {
        let script = self.0.house.path("edit.php");
        run(command("php").arg(script).args([&post.to_string(), text]));
    }

    /// All that an anonymous visitor can find, as the server itself gives it.
    fn pages(&self) -> BTreeMap<String, Reply> {
        self.0.pages(known(), |path| FORBIDDEN.iter().any(|word| path.contains(word)))
    }

    /// What an anonymous reader gets of a post, and that it is not another user's.
    fn post(&self, number: usize) -> Reply {
        let reply = self.0.visit(READER, &format!("/post-{number}/"), "");
        assert_eq!(reply.status, 200, "{}", reply.text());
        is_public(&reply);
        reply
    }

    fn log_in(&self) -> String {
        let form = "log=ann&pwd=ann-secret&wp-submit=Log+In&testcookie=1";
        let cookie = "wordpress_test_cookie=WP%20Cookie%20check";
        let reply = self.0.post(AUTHOR, "/wp-login.php", &Posted { cookie, ..Posted::form(form) });
        assert_eq!(reply.status, 302, "{}", reply.text());
        let cookies = cookies(&reply);
        assert!(cookies.contains("wordpress_logged_in_"), "{cookies}");
        cookies
    }

    /// Edits a post as a client of WordPress's own interface does.
    fn edit_over_http(&self, post: usize, text: &str) {
        let value =
            |kind: &str, it: &str| format!("<param><value><{kind}>{it}</{kind}></value></param>");
        let content = format!(
            "<member><name>post_content</name><value><string>{text}</string></value></member>"
        );
        let body = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>wp.editPost</methodName><params>{}{}{}{}{}</params>\
             </methodCall>",
            value("int", "1"),
            value("string", "ann"),
            value("string", "ann-secret"),
            value("int", &(1000 + post).to_string()),
            value("struct", &content)
        );
        let posted = Posted { kind: "text/xml", cookie: "", body: &body };
        let reply = self.0.post(EDITOR, "/xmlrpc.php", &posted);
        assert!(reply.text().contains("<boolean>1</boolean>"), "{}", reply.text());
    }
}

/// What WordPress has after the installation.
fn known() -> Vec<String> {
    let mut paths: Vec<String> = (1..=POSTS).map(|it| format!("/post-{it}/")).collect();
    // With the post that WordPress itself writes, ten on a page.
    paths.extend((2..=3).map(|it| format!("/page/{it}/")));
    paths.extend((0..5).map(|it| format!("/tag/tag-{it}/")));
    let others = [
        "/",
        "/hello-world/",
        "/sample-page/",
        "/category/sea/",
        "/category/land/",
        "/category/sky/",
        "/author/ann/",
        "/feed/",
        "/comments/feed/",
        "/robots.txt",
    ];
    paths.extend(others.map(str::to_owned));
    paths
}

#[track_caller]
fn is_public(reply: &Reply) {
    let text = reply.text();
    let found = PERSONAL.iter().find(|word| text.contains(**word));
    assert_eq!(found, None, "{} has what belongs to a user", reply.answer());
}

/// As it is, byte for byte.
fn exactly(text: &str) -> String {
    text.to_owned()
}

#[test]
#[ignore = "minutes, and needs WordPress and MariaDB: `make test-mirror`"]
fn wordpress_is_read_while_it_is_off_and_each_user_gets_own_pages() {
    let Some(mut site) = WordPress::install() else { return };
    site.0.crawl();
    let pages = site.0.while_on(|| site.pages());
    let (read, reasons) = site.0.read(&pages, exactly);
    for path in known() {
        assert_eq!(pages[&path].status, 200, "{path}");
        assert_eq!(site.0.explain(&path)["is_mirrored"], true, "{path}: {reasons:?}");
    }
    println!("{read} of {} pages read while it is off; not mirrored: {reasons:#?}", pages.len());
    println!("the mirror: {}", site.0.mirror());
    an_author_works(&site, &pages);
    a_comment_is_sent_once(&site);
    an_edit_is_seen_at_once(&site);
    an_edit_that_nightwatt_does_not_see_is_seen_when_it_is_reported(&site);
    the_recipe_reports_changes(&site);
    let own = site.0.has_only_read(&FORBIDDEN);
    println!("{own} requests of the mirror, all of them anonymous GETs of pages");
    println!("the mirror: {}", site.0.mirror());
}

/// An author who is logged in browses while the mirror fetches, and after that.
fn an_author_works(site: &WordPress, pages: &BTreeMap<String, Reply>) {
    let cookie = site.log_in();
    let browse = |path: &str| {
        let reply = site.0.visit(AUTHOR, path, &cookie);
        assert!(reply.text().contains(PERSONAL[0]), "{path} from {}", reply.answer());
        assert!(matches!(reply.answer(), "server" | "held"), "{path} from {}", reply.answer());
    };
    site.0.while_on(|| {
        site.0.purge_and_refresh();
        (1..=POSTS).for_each(|it| browse(&format!("/post-{it}/")));
        site.0.until_fetched();
    });
    let (read, _) = site.0.read(pages, exactly);
    assert!(read > POSTS, "{read} pages");
    browse("/post-1/");
    site.0.off();
    is_public(&site.post(1));
}

fn a_comment_is_sent_once(site: &WordPress) {
    let form = "author=Bob&email=bob%40site.test&comment=A+fine+post.&comment_post_ID=1002&comment_parent=0\
                &wp-comment-cookies-consent=yes";
    let reply = site.0.post(COMMENTER, "/wp-comments-post.php", &Posted::form(form));
    assert_eq!(reply.status, 302, "{}", reply.text());
    let cookie = cookies(&reply);
    assert!(cookie.contains("comment_author_"), "{cookie}");
    // Every reader then gets the comment, but not what the form knows of Bob.
    for _ in 0..2 {
        let read = site.post(2);
        assert!(read.text().contains("A fine post."), "from {}", read.answer());
        assert!(!read.text().contains("bob@site.test"), "from {}", read.answer());
        site.0.off();
    }
    assert_eq!(site.post(2).answer(), "mirror");
    let own = site.0.visit(COMMENTER, "/post-2/", &cookie);
    assert!(own.text().contains("bob@site.test"), "the form knows Bob, from {}", own.answer());
    site.0.off();
    assert!(!site.post(2).text().contains("bob@site.test"));
    assert_eq!(site.0.times("POST /wp-comments-post.php"), 1);
    assert_eq!(site.0.times("POST /wp-login.php"), 1);
}

fn an_edit_is_seen_at_once(site: &WordPress) {
    assert!(site.post(3).text().contains("Text 3, version 1."));
    site.0.off();
    site.edit_over_http(3, "Text 3, version 2.");
    assert_eq!(site.0.times("POST /xmlrpc.php"), 1);
    let text = site.post(3).text();
    assert!(text.contains("Text 3, version 2.") && !text.contains("version 1."), "{text}");
    site.0.off();
    let read = site.post(3);
    assert_eq!(read.answer(), "mirror");
    assert!(read.text().contains("Text 3, version 2."));
}

fn an_edit_that_nightwatt_does_not_see_is_seen_when_it_is_reported(site: &WordPress) {
    site.0.while_on(|| site.edit(4, "Text 4, version 2."));
    let read = site.post(4);
    // At most as old as `max_age` says.
    assert_eq!(read.answer(), "mirror");
    assert!(read.header("age").is_some_and(|age| age.parse::<u64>().unwrap() < 86_400));
    site.0.purge_and_refresh();
    assert!(site.post(4).text().contains("Text 4, version 2."));
    site.0.until_fetched();
    site.0.off();
    let read = site.post(4);
    assert_eq!(read.answer(), "mirror");
    assert!(read.text().contains("Text 4, version 2."));
}

/// The hook of docs/mirror.md.
fn the_recipe_reports_changes(site: &WordPress) {
    let page = include_str!("../../../../docs/mirror.md");
    let (_, hook) = page.split_once("```php\n").unwrap();
    let (hook, _) = hook.split_once("```").unwrap();
    let url = "http://10.0.0.2:9180/api/v1/sites/blog/changed";
    assert!(hook.contains(url) && hook.contains("TOKEN"), "{hook}");
    let token = site.0.house.read("token");
    let hook = hook.replace(url, &site.0.changed_url()).replace("TOKEN", token.trim());
    fs::create_dir_all(site.0.house.path("html/wp-content/mu-plugins")).unwrap();
    site.0.write("html/wp-content/mu-plugins/nightwatt.php", &format!("<?php\n{hook}"));
    assert!(site.post(5).text().contains("Text 5, version 1."));
    site.0.off();
    site.0.while_on(|| {
        site.edit(5, "Text 5, version 2.");
        eventually("the hook has reported the change", || {
            site.post(5).text().contains("Text 5, version 2.").then_some(())
        });
        site.0.until_fetched();
    });
    let read = site.post(5);
    assert_eq!(read.answer(), "mirror");
    assert!(read.text().contains("Text 5, version 2."));
}
