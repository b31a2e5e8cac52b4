//! Compression of what the server answers: by our decoders, by curl, and by a browser.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nightwatt_gateway::config::SiteConfig;
use sha2::{Digest, Sha256};

use crate::client::{Ask, Got, ask, get};
use crate::origin::{Act, Gate, Says, ok, status};
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Setup, Stage, awake};
use crate::tls::{by_tls, certificate};

fn compresses(setup: Setup) -> Setup {
    setup.site(|site: &mut SiteConfig| site.compression.enabled = true)
}

/// A page that shrinks.
fn page() -> String {
    (0..4000).fold(String::new(), |page, line| page + "<li>line " + &line.to_string() + "\n")
}

/// What the server says each time.
fn html(body: &str) -> Says {
    storable(body).field("Cache-Control", "no-store")
}

fn storable(body: &str) -> Says {
    ok(body).field("Content-Type", "text/html; charset=utf-8").field("ETag", "\"one\"")
}

fn plain(got: &Got) -> String {
    let (mut out, bytes) = (Vec::new(), &got.body[..]);
    match got.field("content-encoding") {
        Some("gzip") => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap()),
        Some("br") => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap()),
        Some("zstd") => {
            out = vec![0; 1 << 20];
            let length = zstd_safe::decompress(&mut out[..], bytes).unwrap();
            out.truncate(length);
        }
        other => panic!("{other:?}"),
    }
    String::from_utf8(out).unwrap()
}

fn accepting(target: &str, codings: &str) -> Ask {
    get(target).field("Accept-Encoding", codings)
}

#[test]
fn a_page_comes_in_the_best_coding_that_its_client_accepts() {
    compresses(awake()).play(async |stage| {
        let page = page();
        stage.origin.says(html(&page));
        for (accepts, coding) in [
            ("gzip, deflate, br, zstd", "zstd"),
            ("gzip, br", "br"),
            ("gzip", "gzip"),
            ("br;q=0.1, gzip", "gzip"),
        ] {
            let got = stage.ask(accepting("/a", accepts)).await;
            assert_eq!((got.how(), got.field("content-encoding")), ((200, "server"), Some(coding)));
            assert!(got.whole && plain(&got) == page, "{coding}");
            assert!(got.body.len() * 4 < page.len(), "{coding}: {} bytes", got.body.len());
            assert_eq!(got.field("etag"), Some("W/\"one\""));
            assert_eq!((got.field("content-length"), got.field("accept-ranges")), (None, None));
            assert_eq!(got.field("vary"), Some("accept-encoding"));
        }
        for accepts in ["identity", "deflate", "*;q=0", ""] {
            let got = stage.ask(accepting("/a", accepts)).await;
            assert_eq!((got.field("content-encoding"), got.field("etag")), (None, Some("\"one\"")));
            assert_eq!((got.field("vary"), got.text()), (Some("accept-encoding"), &*page));
        }
        let status = stage.status().compression.unwrap();
        assert_eq!(status.answers.values().sum::<u64>(), 4);
        assert_eq!(status.bytes_before, 4 * page.len() as u64);
        assert!(status.bytes_after * 4 < status.bytes_before);
        for (coding, answers) in [("zstd", 1), ("br", 1), ("gzip", 2)] {
            let bytes = status.bytes[coding];
            let all = answers * page.len() as u64;
            assert_eq!((status.answers[coding], bytes.before), (answers, all));
            assert!(bytes.after > 0 && bytes.after * 4 < bytes.before, "{coding}: {bytes:?}");
        }
        let metrics = stage.ask_admin(get("/metrics")).await;
        let in_order = "nightwatt_compressed_answers_total{site=\"blog\",coding=\"zstd\"} 1";
        let sorted = "nightwatt_compressed_answers_total{coding=\"zstd\",site=\"blog\"} 1";
        assert!([in_order, sorted].iter().any(|it| metrics.text().contains(it)));
        let before = 4 * page.len();
        let line = format!("nightwatt_compressed_bytes_before_total{{site=\"blog\"}} {before}");
        assert!(metrics.text().contains(&line), "{line}");
    });
}

#[test]
fn what_is_personal_or_fixed_passes_as_it_is() {
    compresses(awake()).play(async |stage| {
        let page = page();
        let both = "gzip, br, zstd";
        stage.origin.says(html(&page));
        let personal = [
            accepting("/a", both).field("Cookie", "session=1"),
            accepting("/a", both).field("Authorization", "Bearer x"),
            accepting("/a", both).field("X-Api-Key", "x"),
        ];
        for request in personal {
            let got = stage.ask(request).await;
            assert_eq!((got.field("content-encoding"), got.text()), (None, &*page));
        }
        for says in [
            html(&page).field("Set-Cookie", "session=1"),
            html(&page).field("Cache-Control", "no-transform"),
            html(&page).field("Content-Encoding", "gzip"),
            ok(&page).field("Content-Type", "image/png"),
            ok(&page).field("Content-Type", "text/event-stream"),
            status(206, &page)
                .field("Content-Type", "text/html")
                .field("Content-Range", "bytes 0-9/10"),
            html("short"),
        ] {
            let own = says.bytes().windows(25).any(|it| it == b"Content-Encoding: gzip\r\nC");
            stage.origin.says(says);
            let got = stage.ask(accepting("/a", both)).await;
            assert_eq!(got.field("content-encoding"), own.then_some("gzip"));
            assert_eq!(got.field("vary"), None);
        }
        // The parts of pages hold no secrets.
        stage.origin.says(ok(&page).field("Content-Type", "text/css"));
        let got = stage.ask(accepting("/a.css", both).field("Cookie", "session=1")).await;
        assert_eq!((got.field("content-encoding"), plain(&got) == page), (Some("zstd"), true));
    });
}

#[test]
fn the_cache_keeps_the_plain_answer_and_a_client_that_has_the_other_is_known() {
    compresses(awake()).play(async |stage| {
        let page = page();
        stage.origin.says(storable(&page).field("Cache-Control", "max-age=600"));
        let got = stage.ask(accepting("/a", "br")).await;
        assert_eq!((got.how(), got.field("content-encoding")), ((200, "server"), Some("br")));
        let got = stage.ask(accepting("/a", "br")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), &*page));
        let got = stage.ask(accepting("/a", "br").field("If-None-Match", "W/\"one\"")).await;
        assert_eq!((got.how(), got.field("etag")), ((304, "not-modified"), Some("W/\"one\"")));
        stage.origin.says(status(304, "").field("ETag", "\"one\""));
        let known = accepting("/b", "br").field("If-None-Match", "W/\"one\"");
        let got = stage.ask(known).await;
        assert_eq!((got.status, got.field("etag")), (304, Some("W/\"one\"")));
    });
}

#[test]
fn stored_answers_heads_parts_and_304s_vary_as_the_whole_answer_does() {
    let varying = async |stage: &Stage, target: &str, expected: Option<&str>| {
        let plain = stage.ask(get(target)).await;
        assert_eq!(plain.how(), (200, "server"), "{target}");
        assert_eq!(plain.field("vary"), expected, "{target}");
        // The first is read on the fast path, and the others are not.
        for (request, how) in [
            (get(target), (200, "cache")),
            (
                get(target).field("Accept", "*/*").field("Cache-Control", "max-age=60"),
                (200, "cache"),
            ),
            (ask("HEAD", target), (200, "cache")),
            (get(target).field("Range", "bytes=0-4"), (206, "cache")),
            (get(target).field("If-None-Match", "\"one\""), (304, "not-modified")),
        ] {
            let line = String::from_utf8_lossy(&request.bytes()).into_owned();
            let got = stage.ask(request).await;
            assert_eq!((got.how(), got.field("vary")), (how, expected), "{line}");
        }
    };
    compresses(awake()).play(async |stage| {
        let page = page();
        let kept = |says: Says| says.field("Cache-Control", "max-age=600");
        stage.origin.says(kept(storable(&page)));
        varying(stage, "/page", Some("accept-encoding")).await;
        stage
            .origin
            .says(kept(ok(&page).field("Content-Type", "image/png").field("ETag", "\"one\"")));
        varying(stage, "/picture", None).await;
        stage.origin.says(kept(storable("short page")));
        varying(stage, "/short", None).await;
        // The server's own is not repeated.
        stage.origin.says(kept(storable(&page)).field("Vary", "Accept-Encoding"));
        varying(stage, "/own", Some("Accept-Encoding")).await;
        // A 304 of the server's has no type.
        for (field, value, expected) in [
            ("ETag", "\"one\"", Some("accept-encoding")),
            ("Cache-Control", "no-transform", None),
            ("Content-Type", "image/png", None),
        ] {
            stage.origin.says(status(304, "").field(field, value));
            let got = stage.ask(get("/other").field("If-None-Match", "\"one\"")).await;
            assert_eq!((got.how(), got.field("vary")), ((304, "server"), expected), "{value}");
        }
        // One that may not get it compressed does not keep it from others.
        stage.origin.says(html(&page));
        let got = stage.ask(accepting("/mine", "br").field("Cookie", "session=1")).await;
        assert_eq!(
            (got.field("content-encoding"), got.field("vary")),
            (None, Some("accept-encoding"))
        );
    });
}

#[test]
fn what_has_come_is_sent_while_the_server_thinks() {
    compresses(awake()).play(async |stage| {
        let gate = Gate::shut();
        let opens = gate.clone();
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
        let first = format!("{head}5\r\nfirst\r\n");
        stage.origin.script(move |_| {
            let rest = b"6\r\nsecond\r\n0\r\n\r\n".to_vec();
            vec![
                Act::Body,
                Act::Say(first.clone().into_bytes()),
                Act::Await(gate.clone()),
                Act::Say(rest),
            ]
        });
        let mut client = stage.begin(accepting("/a", "gzip")).await;
        assert_eq!(client.head().await.field("content-encoding"), Some("gzip"));
        let part = client.part().await;
        // The chunk: its length, a line, and what of gzip is there.
        let at = part.windows(2).position(|it| it == [0x1f, 0x8b]).expect("gzip begins");
        let mut text = [0; 5];
        flate2::read::GzDecoder::new(&part[at..]).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"first");
        opens.open();
        drop(client);
    });
}

#[test]
fn a_body_that_breaks_off_breaks_off_for_the_client() {
    compresses(awake()).play(async |stage| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9000\r\n\r\n";
        let says = format!("{head}{}", "x".repeat(5000));
        stage.origin.script(move |_| vec![Act::Say(says.clone().into_bytes()), Act::Close]);
        let got = stage.ask(accepting("/a", "zstd")).await;
        assert_eq!((got.status, got.whole), (200, false));
    });
}

async fn curl(stage: &Stage, accepts: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--compressed", "-i", "-H", "Host: blog"]);
    curl.args(["-H", &format!("Accept-Encoding: {accepts}")]);
    curl.arg(format!("http://{}/a", stage.address()));
    succeeded(&run(curl).await)
}

#[test]
fn curl_reads_every_coding() {
    if !has("curl") {
        return;
    }
    let version = Command::new("curl").arg("--version").output().unwrap();
    let features = String::from_utf8_lossy(&version.stdout).into_owned();
    compresses(awake().real()).play(async |stage| {
        let page = page();
        stage.origin.says(html(&page));
        for (coding, feature) in [("gzip", "libz"), ("br", "brotli"), ("zstd", "zstd")] {
            if !features.contains(feature) {
                println!("skipped: this curl does not read {coding}");
                continue;
            }
            let got = curl(stage, coding).await;
            let (head, body) = got.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-encoding: {coding}")), "{head}");
            assert!(body == page, "{coding}");
        }
    });
}

/// A browser that prints what a page has become after its scripts ran.
fn browser(chromium: &Path, profile: &Path) -> Command {
    let mut browser = Command::new(chromium);
    browser
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={}", profile.display()));
    browser
}

/// The codings of answers so far.
fn used(stage: &Stage) -> Vec<String> {
    let answers = stage.status().compression.unwrap().answers;
    answers.into_iter().filter(|it| it.1 > 0).map(|it| it.0).collect()
}

#[test]
fn a_browser_shows_a_compressed_page() {
    let Some(chromium) = nightwatt_needs::program("chromium") else { return };
    compresses(awake().real()).play(async |stage| {
        let page = format!("<!doctype html><title>x</title><ul>{}</ul>", page());
        stage.origin.says(html(&page));
        let dir = tempfile::tempdir().unwrap();
        let mut browser = browser(&chromium, dir.path());
        browser.arg(format!("http://127.0.0.1:{}/a", stage.address().port()));
        let shown = succeeded(&run(browser).await);
        assert!(shown.contains("line 3999"), "the end of the page is there");
        let used = used(stage);
        println!("the browser got {used:?}");
        assert!(!used.is_empty(), "{:?}", stage.status().compression);
    });
}

/// The hash of a certificate's public key, by which Chromium is told to accept it.
fn key_hash(chain: &Path) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-pubkey", "-in"]).arg(chain);
    let pem = succeeded(&openssl.output().unwrap());
    let key: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.encode(Sha256::digest(STANDARD.decode(key).unwrap()))
}

/// A page whose script writes into it in which coding the browser got another answer.
fn page_that_looks() -> String {
    let script = "fetch('/b').then(it => document.getElementById('coding').textContent = \
                  'came as ' + it.headers.get('content-encoding'))";
    let page = page();
    format!(
        "<!doctype html><title>x</title><p id=coding></p><script>{script}</script><ul>{page}</ul>"
    )
}

/// What that script wrote.
fn coding(shown: &str) -> &str {
    let (_, rest) = shown.split_once("id=\"coding\">").expect("the page is shown");
    rest.split('<').next().unwrap_or_default()
}

#[test]
fn a_browser_gets_br_or_zstd_by_tls_and_gzip_in_clear_text() {
    let Some(chromium) = nightwatt_needs::program("chromium") else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    by_tls(compresses(awake().real()), &made).play(async |stage| {
        stage.origin.says(html(&page_that_looks()));
        // By a name: to `127.0.0.1` and `localhost` browsers offer all codings in clear text too.
        let opened = async |scheme: &str, port: u16| {
            let mut browser = browser(&chromium, &dir.path().join(scheme));
            browser
                .arg("--host-resolver-rules=MAP blog 127.0.0.1")
                .arg(format!("--ignore-certificate-errors-spki-list={}", key_hash(&made.chain)))
                .arg(format!("{scheme}://blog:{port}/a"));
            succeeded(&run(browser).await)
        };
        let shown = opened("https", stage.tls_address().port()).await;
        assert!(shown.contains("line 3999"), "the end of the page is there");
        let came = coding(&shown);
        assert!(["came as br", "came as zstd"].contains(&came), "{came}");
        let used_by_tls = used(stage);
        let is_for_tls = |it: &String| ["br", "zstd"].contains(&it.as_str());
        assert!(!used_by_tls.is_empty() && used_by_tls.iter().all(is_for_tls), "{used_by_tls:?}");

        let shown = opened("http", stage.address().port()).await;
        assert!(shown.contains("line 3999"), "the end of the page is there");
        assert_eq!(coding(&shown), "came as gzip");
        assert!(used(stage).contains(&"gzip".to_owned()), "{:?}", used(stage));
    });
}
