//! Paths that are answered in another way.

use std::path::Path;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::PathConfig;

use crate::access::only;
use crate::client::{ask, get, post};
use crate::origin::{Origin, ok};
use crate::passing::{switches, upgrade};
use crate::stage::{Setup, Stage, asleep, awake, secs};

fn tables(texts: &[&str]) -> Vec<PathConfig> {
    texts
        .iter()
        .map(|text| toml::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}")))
        .collect()
}

fn with(setup: Setup, texts: &[&str]) -> Setup {
    let path = tables(texts);
    setup.site(move |site| site.path = path)
}

#[test]
fn redirects_texts_and_files_need_no_server() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "the page").unwrap();
    let folder = format!("prefix = \"/docs\"\nfolder = \"{}\"", dir.path().display());
    let texts = [
        "prefix = \"/old\"\nredirect = \"/new/{rest}\"",
        "exact = \"/feed\"\nredirect = \"https://example.org/feed?{rest}\"\nstatus = 302",
        "exact = \"/.well-known/matrix/server\"\ntext = '{\"m.server\": \"m.example:443\"}'\ncontent_type = \"application/json\"",
        "exact = \"/gone\"\ntext = \"It is gone.\"\nstatus = 410",
        folder.as_str(),
    ];
    with(asleep(), &texts).play(async |stage| {
        for (target, status, place) in [
            ("/old/a/b?c=d", 308, "/new/a/b?c=d"),
            ("/old", 308, "/new/"),
            ("/old//evil.example/", 308, ""),
            ("/feed", 302, "https://example.org/feed?"),
            ("/docs", 308, "/docs/"),
            ("/docs?a=b", 308, "/docs/?a=b"),
        ] {
            let got = stage.ask(get(target)).await;
            if place.is_empty() {
                // Servers read it as `/old/evil.example/`: there it stays.
                assert_eq!(got.field("location"), Some("/new/evil.example/"), "{target}");
                continue;
            }
            assert_eq!(
                (got.how(), got.field("location")),
                ((status, "path"), Some(place)),
                "{target}"
            );
        }
        let got = stage.ask(get("/.well-known/matrix/server")).await;
        assert_eq!((got.how(), got.text()), ((200, "path"), "{\"m.server\": \"m.example:443\"}"));
        assert_eq!(got.field("content-type"), Some("application/json"));
        assert_eq!(stage.ask(get("/gone")).await.how(), (410, "path"));
        let got = stage.ask(get("/docs/")).await;
        assert_eq!((got.how(), got.text()), ((200, "path"), "the page"));
        let got = stage.ask(ask("HEAD", "/docs/")).await;
        assert_eq!((got.how(), got.field("content-length")), ((200, "path"), Some("8")));
        assert_eq!(stage.ask(post("/docs/", "x")).await.how(), (405, "path"));
        stage.pass(secs(60)).await;
        assert_eq!((stage.commands(), stage.origin.lines().len()), ((0, 0), 0));
        assert_eq!(stage.status().answers["path"], 11);
        // The rest is the server's.
        assert_eq!(stage.ask(get("/older")).await.how(), (200, "held"));
    });
}

#[test]
fn no_spelling_reaches_what_belongs_to_another_table() {
    let texts = ["prefix = \"/admin\"\ntext = \"not here\"\nstatus = 403"];
    with(awake(), &texts).play(async |stage| {
        for target in [
            "/admin/x",
            "/admin",
            "/admin/",
            "/admin?x",
            "/%61dmin/x",
            "/a/../admin/x",
            "/a/%2e%2e/admin",
            "//admin/x",
            "/admin;x/y",
            "/admin%2fx",
            "/./admin",
            "/admin/../x",
            "http://blog/admin/x",
            "http://blog/a/../admin",
            "/a\\b/../admin/x",
            "/a%2fb/%2e%2e/admin/x",
            "/a/../b",
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: blog\r\n\r\n");
            let status = stage.say(&request).await.map_or(0, |got| got.status);
            assert!(matches!(status, 400 | 403), "{status} to {target}");
        }
        assert_eq!(stage.origin.lines(), [""; 0], "nothing reached the server");
        for target in ["/a//b", "/administrator", "/a%2fb", "/x;y"] {
            assert_eq!(stage.ask(get(target)).await.how(), (200, "server"), "{target}");
        }
    });
}

/// Another port of the server.
fn other(stage: &Stage) -> Origin {
    let other = Origin::new(&stage.clock);
    other.script(|seen| ok(&format!("other: {}", seen.target)).acts());
    other.up();
    other
}

async fn turn_to(stage: &mut Stage, texts: &[&str]) {
    let path = tables(texts);
    stage.reload(move |config: &mut Config| config.site[0].path = path).await.unwrap();
}

#[test]
fn another_port_of_the_server_answers_without_the_prefix_and_wakes_with_it() {
    asleep().play(async |stage| {
        let other = other(stage);
        let text = format!(
            "prefix = \"/api\"\norigin = \"http://{}\"\nstrip_prefix = true\n\
             request_headers = {{ remove = [\"X-Debug\"], set = {{ X-From = \"home\" }} }}\n\
             response_headers = {{ remove = [\"X-Powered-By\"], set = {{ X-Frame-Options = \"DENY\" }} }}",
            other.address()
        );
        turn_to(stage, &[&text]).await;
        let fields = [("X-Debug", "1"), ("X_Debug", "1"), ("X.Debug", "1"), ("X-From", "x"), ("x_from", "x")];
        let ask = fields.iter().fold(get("/api/items?a=/api/b"), |ask, (name, value)| ask.field(name, value));
        let got = stage.ask(ask).await;
        assert_eq!((got.how(), got.text()), ((200, "held"), "other: /items?a=/api/b"));
        assert_eq!(stage.commands(), (1, 0));
        assert_eq!(got.field("x-frame-options"), Some("DENY"));
        let seen = other.only();
        assert_eq!((seen.field("x-debug"), seen.fields.all("x-from")), (None, vec!["home"]));
        for name in ["x_debug", "x.debug", "x_from"] {
            assert_eq!(seen.field(name), None, "{name}: some servers read it as the same");
        }
        assert_eq!((seen.field("x-forwarded-prefix"), seen.field("host")), (Some("/api"), Some("blog")));
        for (target, text) in [("/api", "other: /"), ("/api/", "other: /"), ("/apis", "this is /apis")] {
            assert_eq!(stage.ask(get(target)).await.text(), text, "{target}");
        }
        // A reload to nothing.
        turn_to(stage, &[]).await;
        assert_eq!(stage.ask(get("/api/x")).await.text(), "this is /api/x");
    });
}

#[test]
fn fields_that_a_table_removes_or_sets_do_not_come_as_trailers() {
    let text =
        "prefix = \"/\"\nrequest_headers = { remove = [\"X-Debug\"], set = { X-Role = \"user\" } }";
    with(awake(), &[text]).play(async |stage| {
        let request = "POST /a HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\
                       Trailer: X-Role, x_role, X-Debug, X-Other\r\n\r\n0\r\nX-Role: admin\r\nX_Role: admin\r\n\
                       X-Debug: 1\r\nX-Other: x\r\n\r\n";
        assert_eq!(stage.say(request).await.unwrap().status, 200);
        let seen = stage.origin.only();
        assert_eq!(seen.trailers.join("\n").to_lowercase(), "x-other: x");
        assert_eq!(seen.fields.all("x-role"), ["user"]);
    });
}

#[test]
fn what_is_stored_of_one_port_is_not_an_answer_of_the_other() {
    awake().play(async |stage| {
        let other = other(stage);
        other.says(ok("other").field("Cache-Control", "max-age=600"));
        stage.origin.says(ok("first").field("Cache-Control", "max-age=600"));
        let text = format!(
            "prefix = \"/api/\"\norigin = \"http://{}\"\nstrip_prefix = true",
            other.address()
        );
        turn_to(stage, &[&text]).await;
        for (target, text, how) in [
            ("/api/x", "other", "server"),
            ("/x", "first", "server"),
            ("/api/x", "other", "cache"),
            ("/x", "first", "cache"),
        ] {
            let got = stage.ask(get(target)).await;
            assert_eq!((got.text(), got.answer()), (text, how), "{target}");
        }
        turn_to(stage, &[]).await;
        assert_eq!(stage.ask(get("/api/x")).await.text(), "first");
    });
}

#[test]
fn headers_of_answers_are_as_the_table_says_also_from_the_cache() {
    let texts =
        ["prefix = \"/\"\nresponse_headers = { set = { X-A = \"1\" }, remove = [\"Server\"] }"];
    with(awake(), &texts).play(async |stage| {
        stage
            .origin
            .says(ok("x").field("Cache-Control", "max-age=60").field("Server", "secret/1.0"));
        for how in ["server", "cache"] {
            let got = stage.ask(get("/a")).await;
            assert_eq!(
                (got.answer(), got.field("x-a"), got.field("server")),
                (how, Some("1"), None)
            );
        }
    });
}

#[test]
fn a_path_has_bounds_and_times_of_its_own() {
    let texts = [
        "prefix = \"/upload\"\nlimits.body_bytes = 100",
        "prefix = \"/slow\"\nlimits.origin_timeout = \"10m\"",
    ];
    let bounded = |config: &mut Config| config.site[0].limits.body_bytes = Some(10);
    with(awake(), &texts).with(bounded).play(async |stage| {
        let body = "x".repeat(50);
        assert_eq!(stage.ask(post("/upload", &body)).await.status, 200);
        assert_eq!(stage.ask(post("/other", &body)).await.status, 413);
        assert_eq!(stage.ask(post("/upload", &"x".repeat(101))).await.status, 413);
        stage.origin.script(|_| {
            vec![crate::origin::Act::Take(secs(300)), crate::origin::Act::Say(ok("late").bytes())]
        });
        for (target, status) in [("/slow", 200), ("/a", 504)] {
            let mut client = stage.begin(get(target)).await;
            client.lets_time_pass();
            stage.pass(secs(301)).await;
            assert_eq!(client.answer().await.status, status, "{target}");
        }
    });
}

#[test]
fn a_websocket_goes_to_the_port_of_its_path() {
    awake().play(async |stage| {
        let other = other(stage);
        other.script(|_| switches());
        let text = format!("prefix = \"/socket\"\norigin = \"http://{}\"", other.address());
        turn_to(stage, &[&text]).await;
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        assert_eq!((other.lines().len(), stage.origin.lines().len()), (1, 0));
    });
}

#[test]
fn texts_and_files_of_a_closed_site_are_for_no_cache_in_front() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "a").unwrap();
    let own = "exact = \"/own\"\ntext = \"x\"\nresponse_headers = { set = { Cache-Control = \"max-age=9\" } }";
    let texts = [files(dir.path()), "exact = \"/text\"\ntext = \"x\"".to_owned(), own.to_owned()];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (is_closed, ours) in [(true, Some("private")), (false, None)] {
        let setup = with(asleep(), &texts);
        let setup = setup.site(move |site| site.access = is_closed.then(|| only(&["127.0.0.1"])));
        setup.play(async |stage| {
            for (target, value) in
                [("/f/a.txt", ours), ("/text", ours), ("/own", Some("max-age=9"))]
            {
                let got = stage.ask(get(target)).await;
                assert_eq!(
                    (got.how(), got.field("cache-control")),
                    ((200, "path"), value),
                    "{target}"
                );
            }
        });
    }
}

fn files(dir: &Path) -> String {
    format!("prefix = \"/f\"\nfolder = \"{}\"", dir.display())
}

#[test]
fn files_have_tags_ranges_and_types() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..40_000).map(|line| format!("{line:05}\n")).collect();
    let big = lines.concat();
    std::fs::write(dir.path().join("big.txt"), &big).unwrap();
    std::fs::write(dir.path().join("a b.svg"), "<svg/>").unwrap();
    std::fs::write(dir.path().join(".secret"), "x").unwrap();
    std::fs::write(dir.path().join("empty.css"), "").unwrap();
    let text = files(dir.path());
    with(asleep(), &[&text]).play(async |stage| {
        let got = stage.ask(get("/f/big.txt")).await;
        assert!(got.whole && got.text() == big, "three parts and a rest");
        assert_eq!(got.field("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(got.field("content-length"), Some(big.len().to_string().as_str()));
        let tag = got.field("etag").unwrap().to_owned();
        let date = got.field("last-modified").unwrap().to_owned();
        for (name, value) in [
            ("If-None-Match", tag.as_str()),
            ("If-None-Match", &format!("\"x\", W/{tag}")),
            ("If-None-Match", "*"),
            ("If-Modified-Since", &date),
        ] {
            let got = stage.ask(get("/f/big.txt").field(name, value)).await;
            assert_eq!(
                (got.status, got.field("etag")),
                (304, Some(tag.as_str())),
                "{name}: {value}"
            );
        }
        let other =
            get("/f/big.txt").field("If-None-Match", "\"x\"").field("If-Modified-Since", &date);
        assert_eq!(stage.ask(other).await.status, 200, "the tag decides");
        for (range, status, text) in [
            ("bytes=6-10", 206, "00001"),
            ("bytes=-6", 206, "39999\n"),
            ("bytes=239994-", 206, "39999\n"),
            ("bytes=240000-", 416, ""),
        ] {
            let got = stage.ask(get("/f/big.txt").field("Range", range)).await;
            assert_eq!((got.status, got.text()), (status, text), "{range}");
        }
        let part = get("/f/big.txt").field("Range", "bytes=0-4");
        assert_eq!(stage.ask(part.clone().field("If-Range", &tag)).await.status, 206);
        assert_eq!(stage.ask(part.clone().field("If-Range", "\"x\"")).await.status, 200);
        let got = stage.ask(get("/f/a%20b.svg")).await;
        assert_eq!((got.field("content-type"), got.text()), (Some("image/svg+xml"), "<svg/>"));
        assert_eq!(stage.ask(get("/f/empty.css")).await.text(), "");
        for target in ["/f/.secret", "/f/nothing", "/f/", "/f/big.txt/", "/f/%2esecret", "/f/x%00"]
        {
            assert_eq!(stage.ask(get(target)).await.how(), (404, "path"), "{target}");
        }
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn a_file_that_has_changed_since_is_not_continued() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "abc").unwrap();
    let text = files(dir.path());
    with(asleep(), &[&text]).play(async |stage| {
        let got = stage.ask(get("/f/a.txt")).await;
        let tag = got.field("etag").unwrap().to_owned();
        let date = got.field("last-modified").unwrap().to_owned();
        for (name, value, status, text) in [
            ("If-Match", tag.as_str(), 206, "bc"),
            ("If-Match", "*", 206, "bc"),
            ("If-Match", "\"x\"", 412, CHANGED),
            ("If-Unmodified-Since", &date, 206, "bc"),
            ("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT", 412, CHANGED),
        ] {
            let rest = get("/f/a.txt").field("Range", "bytes=1-").field(name, value);
            let got = stage.ask(rest).await;
            assert_eq!((got.how(), got.text()), ((status, "path"), text), "{name}: {value}");
        }
        let head = ask("HEAD", "/f/a.txt").field("If-Match", "\"x\"");
        assert_eq!(stage.ask(head).await.how(), (412, "path"));
        let both = get("/f/a.txt").field("If-Match", &tag).field("If-None-Match", &tag);
        assert_eq!(stage.ask(both).await.how(), (304, "path"));
    });
}

const CHANGED: &str = "The file is not in the version that the request is for.\n";

#[test]
fn a_status_without_content_is_sent_without_content() {
    let texts = ["exact = \"/generate_204\"\ntext = \"\"\nstatus = 204"];
    with(asleep(), &texts).play(async |stage| {
        let got = stage.ask(get("/generate_204")).await;
        assert_eq!((got.how(), got.text()), ((204, "path"), ""));
        assert_eq!((got.field("content-length"), got.field("transfer-encoding")), (None, None));
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn errors_have_pages_of_the_sites_own_for_people() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("404.html");
    std::fs::write(&page, "<h1>Nothing here</h1>").unwrap();
    let text = files(dir.path());
    with(asleep(), &[&text])
        .site(move |site| drop(site.error_pages.insert("404".to_owned(), page)))
        .play(async |stage| {
            let got = stage.ask(get("/f/x").by_browser()).await;
            assert_eq!((got.how(), got.text()), ((404, "path"), "<h1>Nothing here</h1>"));
            assert_eq!(got.field("content-type"), Some("text/html; charset=utf-8"));
            let got = stage.ask(get("/f/x")).await;
            assert_eq!((got.status, got.text()), (404, "There is no such file.\n"));
            // A file is no error, and the server's own errors stay.
            stage.origin.says(crate::origin::status(404, "of the server"));
            let mut client = stage.begin(get("/x").agent(crate::client::BROWSER)).await;
            assert_eq!(client.answer().await.text(), "of the server");
        });
}
