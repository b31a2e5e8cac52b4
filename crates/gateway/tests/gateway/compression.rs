//! Compression of what the server answers: by our decoders, by curl, and by browsers.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nightwatt_gateway::config::{PathConfig, SiteConfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use crate::access::only;
use crate::client::{Ask, Got, ask, get};
use crate::origin::{Act, Gate, Says, ok, status};
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Setup, Stage, asleep, awake, timeout};
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

/// Compresses, and serves this folder at `/f/`, with more lines for its table.
fn serves(dir: &Path, lines: &str) -> Setup {
    let text = format!("prefix = \"/f\"\nfolder = \"{}\"\n{lines}", dir.display());
    let path: PathConfig = toml::from_str(&text).unwrap();
    compresses(asleep()).site(move |site| site.path = vec![path])
}

/// A folder with a page of several parts, a style, a picture and a short page.
fn folder(page: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in
        [("page.html", page), ("a.css", page), ("picture.png", page), ("short.html", "short")]
    {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn a_file_comes_in_the_coding_of_its_client_with_a_weak_tag() {
    let page = page().repeat(5);
    let dir = folder(&page);
    serves(dir.path(), "").play(async |stage| {
        let got = stage.ask(get("/f/page.html")).await;
        assert_eq!((got.how(), got.field("content-encoding")), ((200, "path"), None));
        assert!(got.text() == page && got.field("vary") == Some("accept-encoding"));
        let tag = got.field("etag").unwrap().to_owned();
        let weak = format!("W/{tag}");
        for coding in ["zstd", "br", "gzip"] {
            let got = stage.ask(accepting("/f/page.html", coding)).await;
            assert_eq!((got.how(), got.field("content-encoding")), ((200, "path"), Some(coding)));
            assert!(got.whole && plain(&got) == page, "{coding}");
            assert!(got.body.len() * 4 < page.len(), "{coding}: {} bytes", got.body.len());
            assert_eq!(got.field("etag"), Some(weak.as_str()));
            assert_eq!((got.field("content-length"), got.field("accept-ranges")), (None, None));
            assert_eq!(got.field("vary"), Some("accept-encoding"));
        }
        for known in [&weak, &tag] {
            let known = known.as_str();
            let again = accepting("/f/page.html", "br").field("If-None-Match", known);
            let got = stage.ask(again).await;
            assert_eq!((got.how(), got.field("etag")), ((304, "path"), Some(known)));
            assert_eq!(got.field("vary"), Some("accept-encoding"));
        }
        let head = ask("HEAD", "/f/page.html").field("Accept-Encoding", "br");
        let got = stage.ask(head).await;
        assert_eq!((got.field("content-encoding"), got.field("etag")), (None, Some(tag.as_str())));
        assert_eq!(got.field("content-length"), Some(page.len().to_string().as_str()));
        assert_eq!(got.field("vary"), Some("accept-encoding"));
        let status = stage.status().compression.unwrap();
        assert_eq!((status.answers.values().sum::<u64>(), stage.commands()), (3, (0, 0)));
        assert_eq!(status.bytes_before, 3 * page.len() as u64);
    });
}

#[test]
fn parts_of_files_and_files_that_do_not_shrink_are_sent_as_they_are() {
    let page = page().repeat(5);
    let dir = folder(&page);
    serves(dir.path(), "").play(async |stage| {
        let got = stage.ask(ask("HEAD", "/f/page.html")).await;
        let tag = got.field("etag").unwrap().to_owned();
        let weak = format!("W/{tag}");
        let part = accepting("/f/page.html", "br").field("Range", "bytes=4-9");
        for request in [part.clone(), part.clone().field("If-Range", &tag)] {
            let got = stage.ask(request).await;
            assert_eq!((got.how(), got.text()), ((206, "path"), "line 0"));
            assert_eq!((got.field("content-encoding"), got.field("etag")), (None, Some(&*tag)));
            assert_eq!(got.field("vary"), Some("accept-encoding"));
        }
        // Parts are of the plain file only: a client that has a part of the compressed one gets all of it.
        let got = stage.ask(part.field("If-Range", &weak)).await;
        assert_eq!((got.how(), got.field("content-encoding")), ((200, "path"), Some("br")));
        assert!(plain(&got) == page);
        // Strong comparison: the compressed file is not the file.
        let got = stage.ask(accepting("/f/page.html", "br").field("If-Match", &weak)).await;
        assert_eq!((got.how(), got.field("content-encoding")), ((412, "path"), None));
        for (target, status) in
            [("/f/picture.png", 200), ("/f/short.html", 200), ("/f/nothing.html", 404)]
        {
            let got = stage.ask(accepting(target, "br")).await;
            assert_eq!(got.how(), (status, "path"), "{target}");
            let fields = (got.field("content-encoding"), got.field("vary"));
            assert_eq!(fields, (None, None), "{target}");
            let known = stage.ask(accepting(target, "br").field("If-None-Match", "*")).await;
            assert_eq!(known.status, if status == 200 { 304 } else { status }, "{target}");
            assert_eq!(known.field("vary"), None, "{target}");
        }
    });
}

#[test]
fn a_file_is_compressed_by_the_fields_that_its_table_sets() {
    let dir = folder(&page());
    for (lines, target, coding) in [
        ("", "/f/page.html", None),
        ("", "/f/a.css", Some("br")),
        ("response_headers.set = { Cache-Control = \"public\" }", "/f/page.html", Some("br")),
        ("response_headers.set = { Cache-Control = \"no-transform\" }", "/f/a.css", None),
    ] {
        serves(dir.path(), lines).play(async |stage| {
            let named = accepting(target, "br").field("Cookie", "session=1");
            let got = stage.ask(named.clone()).await;
            assert_eq!((got.how(), got.field("content-encoding")), ((200, "path"), coding));
            let vary = (!lines.contains("no-transform")).then_some("accept-encoding");
            assert_eq!(got.field("vary"), vary, "{lines}: as others get it");
            let known = stage.ask(named.field("If-None-Match", "*")).await;
            assert_eq!((known.status, known.field("vary")), (304, vary), "{lines}");
        });
    }
}

#[test]
fn of_a_closed_site_only_the_parts_of_pages_are_compressed_and_all_files_are_private() {
    let page = page();
    let dir = folder(&page);
    let setup = serves(dir.path(), "").site(|site| site.access = Some(only(&["127.0.0.1"])));
    setup.play(async |stage| {
        for (target, coding) in [("/f/page.html", None), ("/f/a.css", Some("br"))] {
            let got = stage.ask(accepting(target, "br")).await;
            assert_eq!((got.how(), got.field("content-encoding")), ((200, "path"), coding));
            assert_eq!(got.field("cache-control"), Some("private"), "{target}");
            assert_eq!(got.field("vary"), coding.map(|_| "accept-encoding"), "{target}");
        }
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

/// All answers so far came in codings that browsers accept by TLS only.
#[track_caller]
fn only_for_tls(stage: &Stage) {
    let used = used(stage);
    let is_for_tls = |it: &String| ["br", "zstd"].contains(&it.as_str());
    assert!(!used.is_empty() && used.iter().all(is_for_tls), "{used:?}");
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
        only_for_tls(stage);

        let shown = opened("http", stage.address().port()).await;
        assert!(shown.contains("line 3999"), "the end of the page is there");
        assert_eq!(coding(&shown), "came as gzip");
        assert!(used(stage).contains(&"gzip".to_owned()), "{:?}", used(stage));
    });
}

/// `blog` is this machine. All else goes to a proxy that is not there.
const FIREFOX_SETTINGS: &str = r#"user_pref("network.dns.localDomains", "blog");
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.proxy.no_proxies_on", "blog");
user_pref("network.proxy.failover_direct", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("dom.security.https_first", false);
"#;

/// A fresh profile of Firefox in this folder, which accepts the certificate of `blog` at this port.
fn firefox_profile(profile: &Path, chain: &Path, port: u16) {
    let hash = Sha256::digest(CertificateDer::from_pem_file(chain).unwrap());
    let hash: Vec<String> = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    // The number is that of SHA-256.
    let accepted = format!("blog:{port}:\tOID.2.16.840.1.101.3.4.2.1\t{}\t\n", hash.join(":"));
    std::fs::create_dir(profile).unwrap();
    std::fs::write(profile.join("cert_override.txt"), accepted).unwrap();
    std::fs::write(profile.join("user.js"), FIREFOX_SETTINGS).unwrap();
}

/// Firefox, which ends once it has a picture of a complete page.
fn firefox(program: &Path, profile: &Path) -> Command {
    // A page that it cannot open is never complete.
    let mut firefox = Command::new("timeout");
    firefox.args(["--kill-after=5", "100"]).arg(program);
    firefox.args(["--headless", "--no-remote", "--window-size=800,600", "--profile"]).arg(profile);
    firefox.arg("--screenshot").arg(profile.join("shown.png")).env("HOME", profile);
    firefox
}

/// A page that gets itself once more, and posts to the server what the browser decoded, in which coding that came,
/// and how many items the browser shows. Only then is it complete.
fn page_that_reports() -> String {
    let script = "const got = new XMLHttpRequest(), report = new XMLHttpRequest();\
                  got.open('GET', '/b', false);\
                  got.send();\
                  const items = document.querySelectorAll('li').length;\
                  const coding = got.getResponseHeader('content-encoding');\
                  report.open('POST', '/report?items=' + items + '&coding=' + coding, false);\
                  report.send(got.responseText);";
    format!("<!doctype html><title>x</title><ul>{}</ul><script>{script}</script>", page())
}

/// The coding in the last report, which has all of the page.
fn reported(stage: &Stage, page: &str) -> String {
    let seen = stage.origin.seen();
    let report = seen.iter().rfind(|it| it.method == "POST").expect("the browser reports");
    assert!(report.text() == page, "the browser has decoded another page");
    let coding = report.target.strip_prefix("/report?items=4000&coding=");
    coding.unwrap_or_else(|| panic!("{}", report.target)).to_owned()
}

#[test]
#[ignore = "a browser of 80 MB: `make test-browser`"]
fn firefox_gets_br_or_zstd_by_tls_and_gzip_in_clear_text() {
    let Some(program) = nightwatt_needs::program("firefox-esr") else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    // A browser may take long to start.
    let setup = compresses(awake().real()).with(|config| config.scenario.policy = timeout(3600));
    by_tls(setup, &made).play(async |stage| {
        let page = page_that_reports();
        stage.origin.says(html(&page));
        let opened = async |scheme: &str, port: u16| {
            let profile = dir.path().join(scheme);
            firefox_profile(&profile, &made.chain, port);
            let mut firefox = firefox(&program, &profile);
            firefox.arg(format!("{scheme}://blog:{port}/a"));
            succeeded(&run(firefox).await);
        };
        opened("https", stage.tls_address().port()).await;
        let came = reported(stage, &page);
        assert!(["br", "zstd"].contains(&came.as_str()), "{came}");
        only_for_tls(stage);

        opened("http", stage.address().port()).await;
        assert_eq!(reported(stage, &page), "gzip");
        assert!(used(stage).contains(&"gzip".to_owned()), "{:?}", used(stage));
    });
}
