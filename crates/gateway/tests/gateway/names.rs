//! Names: of clients, as proxies in front give them; of hosts; of fields.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::ClientField;

use crate::client::{Ask, ask, get};
use crate::origin::ok;
use crate::stage::{Setup, Stage, awake};

fn trusting() -> Setup {
    awake().with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()])
}

/// As the access log names the client of this request.
async fn client_of(stage: &Stage, ask: Ask) -> String {
    stage.ask(ask).await;
    stage.extras().pop().unwrap().client
}

/// F5: on the fast and the slow path, from the cache and from the server.
#[test]
fn a_trusted_proxy_may_name_the_client_with_a_port_in_brackets_or_as_rfc_7239_does() {
    for fast in [true, false] {
        trusting().play(async |stage| {
            stage.allow_fast_path(fast);
            stage.origin.says(ok("x").field("Cache-Control", "max-age=600"));
            for (field, value, client) in [
                ("X-Forwarded-For", "203.0.113.9:51008", "203.0.113.9"),
                ("X-Forwarded-For", "198.51.100.7, 203.0.113.9:51008", "203.0.113.9"),
                ("X-Forwarded-For", "[2001:db8::1]:443", "2001:db8::1"),
                ("X-Forwarded-For", "\"[2001:db8::1]\"", "2001:db8::1"),
                ("Forwarded", "for=203.0.113.9;proto=http", "203.0.113.9"),
                ("Forwarded", "for=\"203.0.113.9:51008\"", "203.0.113.9"),
                ("Forwarded", "for=198.51.100.7, For=\"[2001:db8::1]:443\"", "2001:db8::1"),
                ("Forwarded", "for=198.51.100.7, for=unknown", "127.0.0.1"),
                ("Forwarded", "for=198.51.100.7, for=_hidden", "127.0.0.1"),
            ] {
                for _ in 0..2 {
                    let named = client_of(stage, get("/a").field(field, value)).await;
                    assert_eq!(named, client, "{field}: {value}, fast: {fast}");
                }
            }
            let asked = get("/b").field("Forwarded", "for=\"[2001:db8::1]:443\"");
            stage.ask(asked).await;
            let seen = stage.origin.seen().pop().unwrap();
            assert_eq!(seen.field("x-forwarded-for"), Some("2001:db8::1, 127.0.0.1"));
        });
    }
}

/// What the client itself wrote into the field that its proxy does not set never counts.
#[test]
fn only_one_field_names_the_client() {
    let both =
        || get("/a").field("X-Forwarded-For", "203.0.113.9").field("Forwarded", "for=198.51.100.7");
    trusting().play(async |stage| {
        assert_eq!(client_of(stage, both()).await, "203.0.113.9");
        // Neither can `Connection` take the field away that counts.
        let hidden = both().field("Connection", "X-Forwarded-For");
        assert_eq!(client_of(stage, hidden).await, "203.0.113.9");
        let seen = stage.origin.seen().pop().unwrap();
        assert_eq!(seen.field("x-forwarded-for"), Some("203.0.113.9, 127.0.0.1"));
        let only = |field| move |config: &mut Config| config.client_field = Some(field);
        stage.reload(only(ClientField::Forwarded)).await.unwrap();
        assert_eq!(client_of(stage, both()).await, "198.51.100.7");
        stage.reload(only(ClientField::XForwardedFor)).await.unwrap();
        assert_eq!(client_of(stage, both()).await, "203.0.113.9");
        let other = get("/a").field("Forwarded", "for=198.51.100.7");
        assert_eq!(client_of(stage, other).await, "127.0.0.1");
    });
    // From any other client neither of them counts.
    awake().play(async |stage| assert_eq!(client_of(stage, both()).await, "127.0.0.1"));
}

#[test]
fn clients_that_cannot_be_read_are_counted() {
    trusting().play(async |stage| {
        stage.origin.says(ok("x").field("Cache-Control", "max-age=600"));
        for value in
            ["example.org", "203.0.113.9:port", "203.0.113.9, \u{fc}", "203.0.113.9", "unknown"]
        {
            stage.ask(get("/a").field("X-Forwarded-For", value)).await;
        }
        let got = stage.ask_admin(get("/metrics")).await;
        let count =
            got.text().lines().find(|line| line.starts_with("nightwatt_unreadable_clients_total"));
        assert_eq!(count, Some("nightwatt_unreadable_clients_total 3"));
    });
}

/// F16: one site, one entry in the cache, one name for the server, whatever the spelling.
#[test]
fn a_dot_behind_the_host_makes_no_difference() {
    for fast in [true, false] {
        awake().site(|site| site.hosts = vec!["Blog.example.".into()]).play(async |stage| {
            stage.allow_fast_path(fast);
            stage.origin.says(ok("x").field("Cache-Control", "max-age=600"));
            for host in ["blog.example.", "blog.example", "BLOG.example.:80", "blog.example:80"] {
                assert_eq!(stage.ask(get("/a").host(host)).await.status, 200, "{host}");
            }
            let absolute =
                stage.say("GET http://Blog.example./a HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert_eq!(absolute.unwrap().status, 200);
            assert_eq!(stage.origin.only().field("host"), Some("blog.example"));
            for host in ["blog.example..", ".", "..", "blog..example.."] {
                assert_eq!(stage.ask(get("/a").host(host)).await.status, 400, "{host}");
            }
            assert_eq!(stage.ask(get("/a").host("other.example.")).await.status, 421);
        });
    }
}

#[test]
fn a_redirect_to_https_names_the_host_without_its_dot() {
    let secure = |config: &mut Config| {
        config.site[0].redirect_to_https = true;
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    };
    awake().with(secure).play(async |stage| {
        let got = stage.ask(get("/a?b").host("Blog.")).await;
        assert_eq!((got.status, got.field("location")), (308, Some("https://blog/a?b")));
    });
}

#[test]
fn http_1_0_without_a_host_is_for_the_only_site_and_else_is_told_what_to_do() {
    awake().site(|site| site.hosts = vec!["blog".into()]).play(async |stage| {
        let got = stage.ask(get("/a").by_http10().without_host()).await;
        assert_eq!((got.status, got.text()), (200, "this is /a"));
        // The server is asked by its own name, since there is no other.
        let address = stage.origin.address().to_string();
        assert_eq!(stage.origin.only().field("host"), Some(address.as_str()));
        assert_eq!(stage.ask(get("/a").without_host()).await.status, 400, "HTTP/1.1 needs one");
        let another = |config: &mut Config| {
            let mut shop = config.site[0].clone();
            (shop.name, shop.hosts) = ("shop".into(), vec!["shop".into()]);
            config.site.push(shop);
        };
        stage.reload(another).await.unwrap();
        let got = stage.ask(get("/a").by_http10().without_host()).await;
        assert_eq!(got.status, 400);
        assert!(
            got.text().contains("no Host field") && got.text().contains("`hosts`"),
            "{}",
            got.text()
        );
    });
}

/// As servers with a CGI interface read the names of fields.
fn cgi(name: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' };
    name.chars().map(letter).collect()
}

/// F12: no other spelling of a name that the proxy drops or sets reaches the server, in the head or behind the
/// body.
#[test]
fn what_cgi_takes_for_a_field_of_ours_is_dropped() {
    let forged = [
        "X_Forwarded_For",
        "X-Forwarded_For",
        "X.Forwarded.For",
        "X_Forwarded_Proto",
        "X_Forwarded_Host",
        "X_Real_IP",
        "X_Request_Id",
        "Remote_User",
        "Content_Length",
        "Transfer_Encoding",
        "Accept_Language",
        "X~Forwarded~User",
        "X_Forwarded_Server",
        "Cf_Connecting_Ip",
    ];
    let setups = [|| awake(), || trusting()];
    for (setup, fast) in setups.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        setup().play(async |stage| {
            stage.allow_fast_path(fast);
            stage.origin.says(ok("x").field("Cache-Control", "no-store"));
            for name in forged {
                stage.ask(get("/a").field(name, "203.0.113.9")).await;
                let seen = stage.origin.seen().pop().unwrap();
                let same = seen.fields.0.iter().filter(|(it, _)| cgi(it) == cgi(name));
                for (own, value) in same {
                    assert!(
                        own.contains('-') && !value.contains("203.0.113.9"),
                        "{name}: {own}: {value}"
                    );
                }
                let body = format!("1\r\nx\r\n0\r\n{name}: 203.0.113.9\r\nX-Sum: 7\r\n\r\n");
                let chunked = ask("POST", "/a").field("Transfer-Encoding", "chunked");
                let trailing =
                    chunked.field("Trailer", &format!("{name}, X-Sum")).field("TE", "trailers");
                stage.ask(trailing.with_body(&body)).await;
                let seen = stage.origin.seen().pop().unwrap();
                assert_eq!(seen.trailers, ["x-sum: 7"], "{name}");
            }
            // A credential in that spelling is the client's own, and counts as one.
            stage.origin.says(ok("alice").field("Cache-Control", "max-age=600"));
            stage.ask(get("/b").field("X_Emby_Token", "alice")).await;
            assert_eq!(stage.origin.seen().pop().unwrap().field("x_emby_token"), Some("alice"));
            stage.origin.says(ok("anybody").field("Cache-Control", "max-age=600"));
            assert_eq!(stage.ask(get("/b")).await.text(), "anybody");
        });
    }
}

/// K13: text of clients steers no terminal and turns no line round, in the log as in the ledger.
#[test]
fn what_clients_write_is_escaped_in_the_log_and_in_the_ledger() {
    crate::stage::asleep().play(async |stage| {
        let mut bytes =
            b"GET /\xe2\x80\xae HTTP/1.1\r\nHost: blog\r\nUser-Agent: a\xff\xc2\x9b31m\r\n"
                .to_vec();
        bytes.extend(b"Referer: http://x/\xe2\x80\xa8\r\n\r\n");
        let got = stage.say(bytes).await.unwrap();
        assert_eq!(got.status, 200);
        let line = stage.log().pop().unwrap();
        let end = "\"http://x/\\xE2\\x80\\xA8\" \"a\\xFF\\xC2\\x9B31m\" id=";
        assert!(
            line.is_ascii() && line.contains(end) && line.contains("GET /\\xE2\\x80\\xAE "),
            "{line}"
        );
        let ledger = String::from_utf8(stage.ledger_of("blog")).unwrap();
        assert!(ledger.is_ascii() && ledger.contains("9B31m"), "{ledger}");
    });
}

/// `curl -g 'http://x/api/v1/query?query=up{job="x"}'`, and what else clients leave as it is.
#[test]
fn what_clients_should_have_escaped_is_escaped() {
    awake().play(async |stage| {
        for (asked, sent) in [
            ("/query?query=up{job=\"x\"}", "/query?query=up{job=%22x%22}"),
            ("/a`b", "/a%60b"),
            ("/a?b=<c>", "/a?b=%3Cc%3E"),
            ("/a?b=`c`", "/a?b=`c`"),
        ] {
            assert_eq!(stage.ask(get(asked)).await.status, 200, "{asked}");
            assert_eq!(stage.origin.seen().last().unwrap().target, sent, "{asked}");
        }
        assert_eq!(stage.ask(get("/a\u{1}b")).await.status, 400);
    });
}
