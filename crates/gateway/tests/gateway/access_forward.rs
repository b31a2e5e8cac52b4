//! A service that decides who may come in: a scripted one, and oauth2-proxy.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::AccessConfig;

use crate::access::{ANN, WRONG, behind_a_proxy, hammer, networks, rule};
use crate::client::{Ask, Client, get, post};
use crate::origin::{Act, Origin, Says, ok, status};
use crate::passing::{switches, upgrade};
use crate::stage::{Stage, asleep, awake, secs, settle, watched};

/// The rules with a service at this address.
fn asks(auth: std::net::SocketAddr, more: &str) -> AccessConfig {
    let text = format!("url = \"http://{auth}/verify?level=2\"\n{more}");
    AccessConfig { forward: Some(toml::from_str(&text).unwrap()), ..AccessConfig::default() }
}

fn decides(cookie: &str) -> Says {
    match cookie {
        "session=ann" => ok("").field("Remote-User", "ann").field("Remote-Groups", "family"),
        "session=old" => {
            ok("").field("Remote-User", "ann").field("Set-Cookie", "session=new; HttpOnly")
        }
        "session=bob" => status(403, "bob may not").field("Content-Type", "text/plain"),
        "session=away" => status(302, "").field("Location", "https://auth.example/?rd=x"),
        "session=portal" => status(401, "").field("Location", "https://portal.example/"),
        "session=broken" => status(500, ""),
        _ => status(401, "log in").field("WWW-Authenticate", "Cookie realm=\"home\""),
    }
}

/// A service that knows some sessions, and the site behind it.
pub(crate) async fn guard(stage: &mut Stage, more: &str) -> Origin {
    let auth = Origin::new(&stage.clock);
    auth.script(|seen| decides(seen.field("cookie").unwrap_or_default()).acts());
    auth.up();
    let access = asks(auth.address(), more);
    stage.reload(move |config: &mut Config| config.site[0].access = Some(access)).await.unwrap();
    auth
}

fn of(cookie: &str) -> Ask {
    get("/a?b=c").field("Cookie", &format!("session={cookie}"))
}

#[test]
fn who_is_not_let_in_gets_the_answer_of_the_service_and_wakes_nothing() {
    asleep().play(async |stage| {
        let auth = guard(stage, "sign_in = \"https://auth.example/?rd={url}\"").await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((401, "denied"), "log in"));
        assert_eq!(got.field("www-authenticate"), Some("Cookie realm=\"home\""));
        assert_eq!(got.field("cache-control"), Some("no-store"));
        assert_eq!(rule(stage).as_deref(), Some("access-forward"));
        let got = stage.ask(get("/a?b=c").by_browser()).await;
        let place = "https://auth.example/?rd=http%3A%2F%2Fblog%2Fa%3Fb%3Dc";
        assert_eq!((got.how(), got.field("location")), ((302, "denied"), Some(place)));
        assert_eq!(got.field("www-authenticate"), None, "a browser that is sent elsewhere");
        let got = stage.ask(of("portal").by_browser()).await;
        let place = Some("https://portal.example/");
        assert_eq!((got.how(), got.field("location")), ((401, "denied"), place), "its own address");
        assert_eq!(stage.ask(of("bob")).await.how(), (403, "denied"));
        let got = stage.ask(of("away")).await;
        let place = "https://auth.example/?rd=x";
        assert_eq!((got.how(), got.field("location")), ((302, "denied"), Some(place)));
        stage.at(600).await;
        assert_eq!((stage.commands(), auth.lines().len()), ((0, 0), 5));
        assert_eq!(stage.ask(of("ann")).await.how(), (200, "held"));
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn the_service_sees_what_was_asked_for_and_no_forgery_of_it() {
    awake().play(async |stage| {
        let auth = guard(stage, "").await;
        let forged = of("ann")
            .field("X-Forwarded-Uri", "/public")
            .field("X-Forwarded-Host", "open.example")
            .field("X-Forwarded-Method", "OPTIONS")
            .field("X-Forwarded-For", "10.0.0.1")
            .field("X-Original-URL", "http://open.example/")
            .field("Remote-User", "admin");
        assert_eq!(stage.ask(forged).await.status, 200);
        let seen = auth.only();
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/verify?level=2"));
        for (name, value) in [
            ("host", auth.address().to_string().as_str()),
            ("x-forwarded-uri", "/a?b=c"),
            ("x-forwarded-host", "blog"),
            ("x-forwarded-method", "GET"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-original-url", "http://blog/a?b=c"),
            ("cookie", "session=ann"),
        ] {
            assert_eq!(seen.fields.all(name), [value], "{name}");
        }
        assert_eq!(seen.field("remote-user"), None);
    });
}

#[test]
fn the_server_learns_from_the_service_alone_who_it_is() {
    let forged = ["Remote-User", "remote_user", "Remote.User", "REMOTE-GROUPS", "Remote-Email"];
    awake().play(async |stage| {
        guard(stage, "").await;
        let ask = forged.iter().fold(of("ann"), |ask, name| ask.field(name, "admin"));
        assert_eq!(stage.ask(ask).await.status, 200);
        let seen = stage.origin.only();
        assert_eq!(seen.fields.all("remote-user"), ["ann"]);
        assert_eq!(seen.fields.all("remote-groups"), ["family"]);
        for name in ["remote_user", "remote.user", "remote-email"] {
            assert_eq!(seen.field(name), None, "{name}");
        }
    });
    // What makes another method of the one about which the service was asked.
    awake().play(async |stage| {
        guard(stage, "").await;
        let names = [
            "X-HTTP-Method-Override",
            "X_HTTP_Method_Override",
            "X-HTTP-Method",
            "X-Method.Override",
        ];
        let ask = names.iter().fold(of("ann"), |ask, name| ask.field(name, "DELETE"));
        assert_eq!(stage.ask(ask).await.status, 200);
        let seen = stage.origin.only();
        for name in names {
            assert_eq!(seen.field(&name.to_lowercase()), None, "{name}");
        }
    });
    // A name of the operator's own, a client that need not log in, and a trusted proxy.
    behind_a_proxy(awake()).play(async |stage| {
        let auth = guard(stage, "headers = [\"X-My-Name\"]").await;
        let mut access = asks(auth.address(), "headers = [\"X-My-Name\"]");
        access.without_password = networks(&["10.0.0.0/8"]);
        stage.reload(move |config| config.site[0].access = Some(access)).await.unwrap();
        let ask = get("/a").field("X-Forwarded-For", "10.0.0.1");
        let ask = ask.field("X-My-Name", "admin").field("X_My_Name", "admin");
        assert_eq!((stage.ask(ask).await.status, auth.lines().len()), (200, 0));
        let seen = stage.origin.only();
        assert_eq!((seen.field("x-my-name"), seen.field("x_my_name")), (None, None));
        let trailer = "POST /a HTTP/1.1\r\nHost: blog\r\nX-Forwarded-For: 10.0.0.1\r\nTransfer-Encoding: chunked\r\n\
                       Trailer: X-My-Name, X-Other\r\n\r\n0\r\nX-My-Name: admin\r\nX-Other: x\r\n\r\n";
        assert_eq!(stage.say(trailer).await.unwrap().status, 200);
        let trailers = stage.origin.seen()[1].trailers.join("\n").to_lowercase();
        assert_eq!(trailers, "x-other: x");
    });
}

#[test]
fn a_service_that_fails_lets_none_in() {
    asleep().play(async |stage| {
        let auth = guard(stage, "timeout = \"3s\"").await;
        let got = stage.ask(of("broken")).await;
        assert_eq!((got.how(), got.seconds("retry-after")), ((503, "denied"), 5));
        assert_eq!(rule(stage).as_deref(), Some("access-service"));
        auth.script(|_| vec![Act::Say(b"nonsense\r\n\r\n".to_vec()), Act::Close]);
        assert_eq!(stage.ask(of("ann")).await.how(), (503, "denied"));
        auth.script(|_| ok(&"x".repeat(70_000)).acts());
        assert_eq!(stage.ask(of("ann")).await.how(), (503, "denied"));
        auth.script(|_| vec![Act::Hang]);
        let mut client = stage.begin(of("ann")).await;
        client.lets_time_pass();
        stage.pass(secs(4)).await;
        assert_eq!(client.answer().await.how(), (503, "denied"));
        auth.down().await;
        assert_eq!(stage.ask(of("ann")).await.how(), (503, "denied"));
        assert_eq!(stage.commands(), (0, 0));
        // It comes back.
        auth.script(|seen| decides(seen.field("cookie").unwrap_or_default()).acts());
        auth.up();
        assert_eq!(stage.ask(of("ann")).await.how(), (200, "held"));
    });
}

#[test]
fn answers_to_people_are_not_shared_and_refreshed_cookies_reach_their_client_alone() {
    awake().play(async |stage| {
        guard(stage, "").await;
        stage.origin.says(ok("of ann"));
        for _ in 0..2 {
            assert_eq!(stage.ask(of("ann")).await.how(), (200, "server"), "unmarked, and personal");
        }
        stage.origin.says(ok("for all").field("Cache-Control", "public, max-age=600"));
        let public = |cookie: &str| get("/p").field("Cookie", &format!("session={cookie}"));
        let got = stage.ask(public("old")).await;
        assert_eq!(
            (got.how(), got.field("set-cookie")),
            ((200, "server"), Some("session=new; HttpOnly"))
        );
        assert_eq!(got.field("cache-control"), Some("private, no-store"));
        let got = stage.ask(public("ann")).await;
        assert_eq!((got.how(), got.field("set-cookie")), ((200, "cache"), None));
        assert_eq!(got.field("cache-control"), Some("public, max-age=600"));
        assert_eq!(
            stage.ask(get("/p")).await.how(),
            (401, "denied"),
            "what is stored is not for strangers"
        );
        let says = ok("x").field("CDN-Cache-Control", "max-age=600");
        stage.origin.says(says.field("Surrogate-Control", "max-age=600"));
        let got = stage.ask(of("old")).await;
        assert_eq!(got.field("set-cookie"), Some("session=new; HttpOnly"));
        for name in ["cdn-cache-control", "surrogate-control"] {
            assert_eq!(got.field(name), None, "{name}: no cache keeps a cookie");
        }
    });
}

#[test]
fn a_path_that_servers_may_take_for_another_reaches_neither_the_service_nor_the_server() {
    awake().play(async |stage| {
        let auth = guard(stage, "").await;
        for target in [
            "/public/../admin",
            "/public/./admin",
            "/public//admin",
            "//admin",
            "/admin;x/y",
            "/admin\\x",
            "/public/%2e%2e/admin",
            "/public/..%2fadmin",
            "/public/%252e%252e/admin",
            "/%2e/admin",
            "/%5cadmin",
            "/%3b/admin",
            "/%2f/admin",
            "/group%2Fproject",
            "/%61dmin",
        ] {
            let request =
                format!("GET {target} HTTP/1.1\r\nHost: blog\r\nCookie: session=ann\r\n\r\n");
            let status = stage.say(&request).await.map_or(0, |got| got.status);
            assert_eq!(status, 400, "{target}");
        }
        assert_eq!((auth.lines().len(), stage.origin.lines().len()), (0, 0));
        for target in ["/a%20b", "/a/", "/a?b=/../c;d%2F"] {
            let ask = get(target).field("Cookie", "session=ann");
            assert_eq!(stage.ask(ask).await.how(), (200, "server"), "{target}");
        }
    });
}

/// Log-ins take long at most services, on purpose.
#[test]
fn a_client_that_asks_for_much_keeps_no_other_waiting() {
    behind_a_proxy(awake()).play(async |stage| {
        let auth = guard(stage, "").await;
        auth.script(|seen| match seen.field("authorization") {
            Some(_) => vec![Act::Hang],
            None => decides(seen.field("cookie").unwrap_or_default()).acts(),
        });
        let from = |client: &str, ask: Ask| ask.field("X-Forwarded-For", client);
        let mut strangers = Vec::new();
        for _ in 0..60 {
            let ask = from("192.0.2.1", get("/").field("Authorization", WRONG));
            strangers.push(stage.begin(ask).await);
        }
        while auth.lines().len() < 4 {
            settle(&stage.clock).await;
        }
        let began = stage.now();
        assert_eq!(stage.ask(from("192.0.2.2", of("ann"))).await.how(), (200, "server"));
        assert_eq!(stage.now(), began);
        assert_eq!(auth.lines().len(), 5, "four at the same time, and the other client's");
    });
}

#[test]
fn who_guesses_passwords_waits_and_keeps_nothing_else_waiting() {
    behind_a_proxy(awake()).play(async |stage| {
        let auth = guard(stage, "").await;
        auth.script(|seen| match seen.field("authorization") {
            Some(WRONG) => status(401, "").field("WWW-Authenticate", "Basic realm=\"x\"").acts(),
            Some(_) => ok("").acts(),
            None => decides(seen.field("cookie").unwrap_or_default()).acts(),
        });
        let from = |client: &str, ask: Ask| ask.field("X-Forwarded-For", client);
        let guess =
            |client: &str, login: &str| from(client, get("/").field("Authorization", login));
        for _ in 0..10 {
            assert_eq!(stage.ask(guess("192.0.2.1", WRONG)).await.status, 401);
        }
        for login in [WRONG, ANN] {
            let got = stage.ask(guess("192.0.2.1", login)).await;
            assert_eq!((got.how(), got.seconds("retry-after")), ((429, "denied"), 10));
        }
        assert_eq!((auth.lines().len(), rule(stage).as_deref()), (10, Some("access-attempts")));
        assert_eq!(stage.ask(from("192.0.2.1", of("ann"))).await.status, 200, "it guesses nothing");
        assert_eq!(stage.ask(guess("192.0.2.2", ANN)).await.status, 200);
        // A client that only needs a new session has shown no wrong password.
        auth.script(|_| status(401, "").acts());
        for _ in 0..20 {
            assert_eq!(stage.ask(guess("192.0.2.3", ANN)).await.status, 401);
        }
    });
}

#[test]
fn thousands_of_strangers_wake_it_no_time() {
    asleep().play(async |stage| {
        guard(stage, "").await;
        let _still = stage.clock.owe();
        let request =
            "GET / HTTP/1.1\r\nHost: blog\r\nCookie: session=guess\r\nAccept: text/html\r\n\r\n";
        assert_eq!(hammer(stage, request.to_owned(), 2000).await, 2000);
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn a_tunnel_ends_when_another_service_decides_and_not_before() {
    awake().play(async |stage| {
        let auth = guard(stage, "").await;
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket").field("Cookie", "session=ann")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        let same = asks(auth.address(), "timeout = \"7s\"");
        stage.reload(move |config| config.site[0].access = Some(same)).await.unwrap();
        client.say("one").await;
        assert_eq!(client.part().await, b"one");
        let other: std::net::SocketAddr = "127.0.0.3:1".parse().unwrap();
        stage.reload(move |config| config.site[0].access = Some(asks(other, ""))).await.unwrap();
        assert!(client.is_closed().await);
    });
}

/// oauth2-proxy with one user, ann, whose password is "Hello world!".
struct OauthProxy {
    child: std::process::Child,
    address: std::net::SocketAddr,
    _dir: tempfile::TempDir,
}

impl OauthProxy {
    fn start() -> Option<Self> {
        let program = nightwatt_needs::program("oauth2-proxy")?;
        let dir = tempfile::tempdir().unwrap();
        let users = dir.path().join("users");
        // `htpasswd -nbB ann 'Hello world!'`
        let hash = bcrypt::hash("Hello world!", 4).unwrap().replace("$2b$", "$2y$");
        std::fs::write(&users, format!("ann:{hash}\n")).unwrap();
        let address = nightwatt_needs::free_address();
        let child = std::process::Command::new(program)
            .arg(format!("--http-address={address}"))
            .arg(format!("--htpasswd-file={}", users.display()))
            .args(["--provider=github", "--client-id=x", "--client-secret=x", "--email-domain=*"])
            .args(["--cookie-secret=0123456789abcdef0123456789abcdef", "--cookie-secure=false"])
            .args(["--upstream=static://202", "--set-xauthrequest=true", "--reverse-proxy=true"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { child, address, _dir: dir })
    }
}

impl Drop for OauthProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn oauth2_proxy_lets_in_who_has_logged_in_there() {
    let Some(mut oauth) = OauthProxy::start() else { return };
    asleep().real().play(async |stage| {
        let address = oauth.address;
        let text = format!(
            "url = \"http://{address}/oauth2/auth\"\nheaders = [\"X-Auth-Request-User\"]\n\
             sign_in = \"http://{address}/oauth2/start?rd={{url}}\""
        );
        let forward = Some(toml::from_str(&text).unwrap());
        let access = AccessConfig { forward, ..AccessConfig::default() };
        stage.reload(move |config| config.site[0].access = Some(access)).await.unwrap();
        let listens = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                let ended = oauth.child.try_wait().unwrap();
                assert_eq!(ended, None, "oauth2-proxy has ended");
                settle(&stage.clock).await;
            }
        };
        watched("oauth2-proxy to listen", listens).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), stage.commands()), ((401, "denied"), (0, 0)));
        let got = stage.ask(get("/a").by_browser()).await;
        assert_eq!(got.status, 302);
        assert!(got.field("location").unwrap().contains("rd=http%3A%2F%2Fblog%2Fa"), "{got:?}");
        let wrong = log_in(stage, &oauth, "wrong").await;
        assert_eq!(wrong, None, "a wrong password");
        let session = log_in(stage, &oauth, "Hello world!").await.expect("a session");
        let forged = get("/a").field("Cookie", &session).field("X-Auth-Request-User", "admin");
        assert_eq!(stage.ask(forged).await.how(), (200, "held"));
        assert_eq!(stage.origin.only().fields.all("x-auth-request-user"), ["ann"]);
        let stolen = get("/a").field("Cookie", &session.replace('=', "=x"));
        assert_eq!(stage.ask(stolen).await.how(), (401, "denied"));
    });
}

/// The cookie of a session.
async fn log_in(stage: &Stage, oauth: &OauthProxy, password: &str) -> Option<String> {
    let mut client = Client::connect_to(stage, oauth.address).await;
    let form = format!("username=ann&password={}", password.replace(' ', "+").replace('!', "%21"));
    let kind = "application/x-www-form-urlencoded";
    client.send(&post("/oauth2/sign_in", &form).field("Content-Type", kind)).await;
    let got = client.answer().await;
    let cookies = got.fields.all("set-cookie").into_iter();
    let session =
        cookies.filter_map(|it| it.split(';').next()).find(|it| it.starts_with("_oauth2_proxy="));
    session.map(str::to_owned)
}
