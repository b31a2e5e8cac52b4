use std::fmt::Write as _;

use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn typed(kind: &str) -> HeaderMap {
    fields(&[("content-type", kind)])
}

fn of_kind(found: &Found, kind: LinkKind) -> Vec<&str> {
    let links = found.links.iter().filter(|link| link.kind == kind);
    links.map(|link| link.reference.as_str()).collect()
}

fn page(html: &str) -> Found {
    discover(&typed("text/html; charset=utf-8"), "/", html.as_bytes())
}

#[test]
fn every_element_of_a_page_is_looked_at() {
    let found = page(
        r##"<!DOCTYPE html><html><head><title><a href="/not-in-a-title"></title>
        <base href="/base/"><base href="/second-base/">
        <link rel="stylesheet" href="a.css"><LINK REL=ICON HREF=favicon.ico>
        <link rel="alternate" type="application/rss+xml" href="/feed/">
        <link rel="alternate" hreflang="de" href="/de/"><link rel="next" href="/page/2">
        <link rel="preconnect" href="https://cdn.example"><link rel="pingback" href="/xmlrpc.php">
        <link rel="shortlink" href="/?p=12"><link rel="https://api.w.org/" href="/wp-json/">
        <link rel="alternate" type="application/json+oembed" href="/wp-json/oembed?url=x">
        <link rel="preload" as="image" imagesrcset="p1.png 1x, p2.png 2x" href="p0.png">
        <link rel="sitemap" href="/map.xml"><link rel="manifest" href="/app.webmanifest">
        <meta http-equiv="refresh" content="5; URL='next.html'">
        <meta property="og:image" content="/og.png">
        <style>@import "imported.css"; body { background: url(bg.png) }</style>
        <script src="app.js"></script><script>var x = '<a href="/not-in-a-script">';</script>
        </head><body background="wall.png">
        <!-- <a href="/not-in-a-comment"> -->
        <a href=" one.html ">1</a><a href="one.html">again</a><a href='two.html#part'>2</a>
        <a rel="external nofollow" href="/nofollow">n</a><a href="#top">t</a><a name="x">x</a>
        <a href="mailto:me@example.org">m</a><area href=area.html>
        <img src="i.png" srcset="i1.png, i2.png 2x,i3,4.png 100w" data-src="lazy.png" alt="<a href=/no>">
        <picture><source srcset="s.webp 1x"></picture><video src=v.mp4 poster=v.jpg></video>
        <audio><source src=a.ogg></audio><track src=t.vtt><embed src=e.swf><object data=o.pdf>
        <iframe src="frame.html"></iframe><input type=image src=button.png>
        <svg><image href="svg.png"/><use xlink:href="sprite.svg#x"/></svg>
        <div style="background-image:url('inline.png')"></div>
        <form action="/send"><button formaction="/send2"></form>
        <noscript><img src="noscript.png"><a href="noscript.html">x</a></noscript>
        <textarea><a href="/not-in-a-textarea"></textarea>
        <a href="data:text/html,x">d</a>"##,
    );
    assert_eq!(found.base.as_deref(), Some("/base/"));
    let pages = [
        "/de/",
        "/page/2",
        "next.html",
        "one.html",
        "two.html#part",
        "mailto:me@example.org",
        "area.html",
        "frame.html",
        "noscript.html",
    ];
    assert_eq!(of_kind(&found, LinkKind::Page), pages);
    let parts = [
        "a.css",
        "favicon.ico",
        "p0.png",
        "p1.png",
        "p2.png",
        "/app.webmanifest",
        "/og.png",
        "imported.css",
        "bg.png",
        "app.js",
        "wall.png",
        "i.png",
        "lazy.png",
        "i1.png",
        "i2.png",
        "i3,4.png",
        "s.webp",
        "v.mp4",
        "v.jpg",
        "a.ogg",
        "t.vtt",
        "e.swf",
        "o.pdf",
        "button.png",
        "svg.png",
        "sprite.svg#x",
        "inline.png",
        "noscript.png",
    ];
    assert_eq!(of_kind(&found, LinkKind::Part), parts);
    assert_eq!(of_kind(&found, LinkKind::Feed), ["/feed/"]);
    assert_eq!(of_kind(&found, LinkKind::Sitemap), ["/map.xml"]);
    assert_eq!(of_kind(&found, LinkKind::NotFollowed), ["/nofollow", "/send", "/send2"]);
    assert!(!found.has_nonce && !found.has_form_token && !found.is_cut);
}

#[test]
fn entities_in_references_are_undone() {
    let found = page("<a href='/?a=1&amp;b=2&#x26;c=3'>x</a><a href=/q?x&copy=1>y</a>");
    // An entity without a semicolon before `=` stays, as in browsers.
    assert_eq!(of_kind(&found, LinkKind::Page), ["/?a=1&b=2&c=3", "/q?x&copy=1"]);
}

#[test]
fn of_two_attributes_of_one_name_the_first_counts() {
    let found = page("<a href=/first href=/second>x</a></a href=/end><img src=/i src=/j>");
    assert_eq!(of_kind(&found, LinkKind::Page), ["/first"]);
    assert_eq!(of_kind(&found, LinkKind::Part), ["/i"]);
}

#[test]
fn a_page_may_ask_that_no_link_of_it_be_followed() {
    for robots in ["nofollow", "NOINDEX, NoFollow", "none"] {
        let found =
            page(&format!("<meta name=robots content='{robots}'><a href=/a>a</a><img src=i.png>"));
        assert_eq!(of_kind(&found, LinkKind::NotFollowed), ["/a"], "{robots}");
        assert_eq!(of_kind(&found, LinkKind::Part), ["i.png"]);
    }
    let found = page("<meta name=robots content='noindex'><a href=/a>a</a>");
    assert_eq!(of_kind(&found, LinkKind::Page), ["/a"]);
    let of_tag = |tag: &str| {
        let headers = fields(&[("content-type", "text/html"), ("x-robots-tag", tag)]);
        of_kind(&discover(&headers, "/", b"<a href=/a>"), LinkKind::Page).len()
    };
    assert_eq!([of_tag("nofollow"), of_tag("noindex"), of_tag("otherbot: nofollow")], [0, 1, 1]);
    assert_eq!(of_tag("nightwatt: nofollow"), 0);
}

#[test]
fn nonces_and_tokens_of_forms_are_seen() {
    for nonce in [
        "<script nonce=abc>x</script>",
        "<meta http-equiv=Content-Security-Policy content=\"script-src 'nonce-abc'\">",
        "<iframe srcdoc='&lt;script nonce=a&gt;'></iframe>",
    ] {
        assert!(page(nonce).has_nonce, "{nonce}");
    }
    assert!(!page("<script nonce=''>x</script>").has_nonce);
    for name in [
        "_token",
        "contact[_token]",
        "a[b][csrf_token]",
        "_wpnonce",
        "authenticity_token",
        "csrfmiddlewaretoken",
        "_csrf",
        "CSRF-Token",
        "__RequestVerificationToken",
        "XSRF-TOKEN",
        "wpEditToken",
    ] {
        let field = format!("<form><input type=hidden name='{name}' value=abc></form>");
        assert!(page(&field).has_form_token, "{name}");
        assert!(!page(&field.replace("abc", "''")).has_form_token, "{name} without a value");
    }
    assert!(page("<meta name=csrf-token content=abc>").has_form_token);
    let hidden = |value: &str| page(&format!("<input type=hidden name=x value='{value}'>"));
    for random in ["9f8a7c6b5d4e", "q83vEjRWeJASNFZ4kBI=", "5f0c-11ee-be56"] {
        assert!(hidden(random).has_random_field, "{random}");
    }
    // WordPress, MediaWiki, and words of people.
    for plain in ["7", "Special:Search", "1234567890123", "all of 12 months", "subscription"] {
        assert!(!hidden(plain).has_random_field, "{plain}");
    }
    assert!(!page("<input name=x value=9f8a7c6b5d4e>").has_random_field);
    assert!(!page("<input name=token_count value=3><input name=q value=csrf>").has_form_token);
}

#[test]
fn style_sheets_have_references_of_every_kind() {
    let sheet = br#"@charset "utf-8"; /* url(no1.png) */
        @import url("a.css") screen; @import 'b.css'; @import url(c.css);
        @namespace svg url(http://www.w3.org/2000/svg); @namespace "no2";
        @font-face { src: url(f.woff2) format("woff2"), url( 'f.woff' ) format('woff') }
        .a::before { content: "url(no3.png)"; background: URL(d\.png), u\72l(e.png) }
        .b { background: image-set("f.png" type("image/png") 1x, url(g.png) 2x) }
        .c { cursor: url("h i.cur"), auto; mask: url(#local) }
        .d { background: url(bad url.png) } .e { background: src("j.png") }
        .f { background: url(data:image/png;base64,AAAA) } .g { background: url(k\29 .png) }
        .h { content: "unclosed
        ; background: url(l.png) }"#;
    let found = discover(&typed("text/css"), "/s.css", sheet);
    let parts = [
        "a.css", "b.css", "c.css", "f.woff2", "f.woff", "d.png", "e.png", "f.png", "g.png",
        "h i.cur", "j.png", "k).png", "l.png",
    ];
    assert_eq!(of_kind(&found, LinkKind::Part), parts);
}

#[test]
fn a_sitemap_says_when_pages_changed() {
    let sitemap = br#"<?xml version="1.0" encoding="UTF-8"?>
        <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
                xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
          <url><loc>http://www.example.com/</loc><lastmod>2005-01-01</lastmod>
               <changefreq>monthly</changefreq><priority>0.8</priority></url>
          <url><loc>http://www.example.com/catalog?item=12&amp;desc=vacation</loc>
               <image:image><image:loc>/photo.jpg</image:loc></image:image></url>
          <url><lastmod>2004-12-23T18:00:15+00:00</lastmod>
               <loc><![CDATA[http://www.example.com/c]]></loc></url>
        </urlset>"#;
    let found = discover(&typed("application/xml"), "/sitemap.xml", sitemap);
    let links: Vec<_> = found
        .links
        .iter()
        .map(|it| (it.reference.as_str(), it.kind, it.modified.map(Timestamp::as_secs)))
        .collect();
    // Dates by `date -u -d ... +%s`.
    assert_eq!(
        links,
        [
            ("http://www.example.com/", LinkKind::Page, Some(1_104_537_600)),
            ("http://www.example.com/catalog?item=12&desc=vacation", LinkKind::Page, None),
            ("/photo.jpg", LinkKind::Part, None),
            ("http://www.example.com/c", LinkKind::Page, Some(1_103_824_815)),
        ]
    );
    let index = b"<sitemapindex><sitemap><loc>/a.xml.gz</loc></sitemap></sitemapindex>";
    let found = discover(&typed("text/xml"), "/sitemap.xml", index);
    assert_eq!(of_kind(&found, LinkKind::Sitemap), ["/a.xml.gz"]);
}

#[test]
fn packed_sitemaps_are_read_and_bombs_are_not_unpacked_whole() {
    use std::io::Write as _;
    let pack = |text: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    };
    let sitemap = b"<urlset><url><loc>/a</loc></url></urlset>";
    let found = discover(&typed("application/x-gzip"), "/sitemap.xml.gz", &pack(sitemap));
    assert_eq!(of_kind(&found, LinkKind::Page), ["/a"]);
    let cut = pack(sitemap);
    let _ = discover(&typed("application/gzip"), "/s.xml.gz", &cut[..cut.len() - 9]);
    // 200 MB of spaces in 200 kB.
    let mut bomb = b"<urlset><url><loc>/a</loc></url>".to_vec();
    bomb.resize(200 << 20, b' ');
    let bomb = pack(&bomb);
    let found = discover(&typed("application/gzip"), "/s.xml.gz", &bomb);
    assert_eq!(of_kind(&found, LinkKind::Page), ["/a"]);
}

#[test]
fn entities_that_a_document_declares_are_not_expanded() {
    let mut bomb = "<!DOCTYPE urlset [<!ENTITY a0 \"ha\">".to_owned();
    for level in 1..40 {
        let before = level - 1;
        let _ = write!(bomb, "<!ENTITY a{level} \"&a{before};&a{before};\">");
    }
    bomb += "]><urlset><url><loc>/x&a39;y&#x41;</loc></url></urlset>";
    let found = discover(&typed("text/xml"), "/sitemap.xml", bomb.as_bytes());
    assert_eq!(of_kind(&found, LinkKind::Page), ["/xyA"]);
}

#[test]
fn feeds_of_both_families_are_read() {
    let rss =
        br#"<?xml version="1.0"?><rss version="2.0"><channel><link>https://example.org/</link>
        <atom:link href="https://example.org/feed/" rel="self"/>
        <item><title>A &amp; B</title><link>https://example.org/a?x=1&amp;y</link>
          <guid isPermaLink="false">https://example.org/?p=7</guid>
          <pubDate>Sun, 06 Nov 1994 09:49:37 +0100</pubDate>
          <enclosure url="/a.mp3" type="audio/mpeg"/></item>
        <item><guid>https://example.org/b</guid></item></channel></rss>"#;
    let found = discover(&typed("application/rss+xml"), "/feed/", rss);
    let pages = ["https://example.org/", "https://example.org/a?x=1&y", "https://example.org/b"];
    assert_eq!(of_kind(&found, LinkKind::Page), pages);
    assert_eq!(of_kind(&found, LinkKind::Part), ["/a.mp3"]);
    assert_eq!(of_kind(&found, LinkKind::Feed), ["https://example.org/feed/"]);
    // The second of RFC 9110, 5.6.7, in another zone.
    assert_eq!(found.links[2].modified.map(Timestamp::as_secs), Some(784_111_777));
    let atom = br#"<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://example.org/"/>
        <entry><link rel="alternate" href="/e"/><link rel="edit" href="/edit"/>
        <updated>2003-12-13T18:30:02.25+01:00</updated></entry></feed>"#;
    let found = discover(&typed("application/atom+xml"), "/atom.xml", atom);
    assert_eq!(of_kind(&found, LinkKind::Page), ["https://example.org/", "/e"]);
    // An example of RFC 4287, 3.3, by `date -u -d 2003-12-13T18:30:02+01:00 +%s`.
    assert_eq!(found.links[1].modified.map(Timestamp::as_secs), Some(1_071_336_602));
    let other = b"<svgish><url><loc>/x</loc></url></svgish>";
    assert!(discover(&typed("text/xml"), "/x.xml", other).links.is_empty());
}

#[test]
fn manifests_name_icons_and_pages() {
    let manifest = br#"{"start_url": "/app?x", "icons": [{"src": "a.png"}, {"sizes": "1x1"}],
        "shortcuts": [{"url": "/new", "icons": [{"src": "b.png"}]}], "screenshots": 3}"#;
    let found = discover(&typed("application/manifest+json"), "/m.webmanifest", manifest);
    assert_eq!(of_kind(&found, LinkKind::Page), ["/app?x", "/new"]);
    assert_eq!(of_kind(&found, LinkKind::Part), ["a.png", "b.png"]);
    let deep = "[".repeat(100_000);
    let found = discover(&typed("application/manifest+json"), "/m", deep.as_bytes());
    assert!(found.links.is_empty());
}

#[test]
fn fields_of_an_answer_have_links_too() {
    let headers = fields(&[
        ("content-type", "image/png"),
        ("link", r#"</next>; rel="next"; title="a, b; c", </s.css>;rel=stylesheet"#),
        ("link", "</x>; rel=preconnect, </f>; rel=\"alternate\"; type=\"application/atom+xml\""),
        ("refresh", "0;url=/there"),
    ]);
    let found = discover(&headers, "/i.png", b"\x89PNG <a href=/no>");
    assert_eq!(of_kind(&found, LinkKind::Page), ["/next", "/there"]);
    assert_eq!(of_kind(&found, LinkKind::Part), ["/s.css"]);
    assert_eq!(of_kind(&found, LinkKind::Feed), ["/f"]);
}

#[test]
fn what_is_found_is_bounded() {
    let mut text = String::new();
    for number in 0..3 * MOST_LINKS {
        let _ = write!(text, "<a href=/{number}>");
    }
    let found = page(&text);
    assert_eq!((found.links.len(), found.is_cut), (MOST_LINKS, true));
    let long = format!("<a href='/{}'>", "x".repeat(2 * LONGEST_REFERENCE));
    assert!(page(&long).links.is_empty());
    // Documents in attributes of documents, each escaped once more.
    let mut nested = "<a href=/deep>".to_owned();
    for _ in 0..8 {
        let inner = nested.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&#39;");
        nested = format!("<iframe srcdoc='{inner}'></iframe>");
    }
    assert!(page(&nested).links.is_empty());
}

fn of_any_kind(text: &[u8]) {
    for (kind, path) in [
        ("text/html", "/"),
        ("text/css", "/"),
        ("text/xml", "/"),
        ("application/gzip", "/a.xml.gz"),
        ("application/manifest+json", "/"),
    ] {
        let found = discover(&typed(kind), path, text);
        assert!(found.links.len() <= MOST_LINKS);
        assert!(found.links.iter().all(|it| it.reference.len() <= LONGEST_REFERENCE));
    }
    if let Ok(value) = HeaderValue::from_bytes(text) {
        let mut headers = HeaderMap::new();
        for name in ["link", "refresh", "x-robots-tag", "content-type"] {
            headers.insert(name, value.clone());
        }
        discover(&headers, "/", text);
    }
    dates::parse(&String::from_utf8_lossy(text));
}

proptest! {
    #[test]
    fn garbage_of_any_kind_is_read_to_its_end(
        text in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        of_any_kind(&text);
    }

    #[test]
    fn what_looks_like_a_document_is_read_to_its_end(
        text in "([<>/='\"&;:#!,()\\\\{}@*-]|a|href|url|src|srcset|style|import|loc|[a-z ]{0,3}|\\n|ä){0,80}",
    ) {
        of_any_kind(text.as_bytes());
    }

    #[test]
    fn dates_that_are_written_read_back(secs in 0_u64..4_000_000_000) {
        let time = Timestamp::from_secs(secs);
        let http = nightwatt_httpcache::date::format(time);
        prop_assert_eq!(dates::parse(http.to_str().unwrap()), Some(time));
    }
}
