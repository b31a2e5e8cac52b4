//! HTTP/2 to servers: a real nginx, and behind it the server of the stage, which sees how it was asked.
//! What servers seldom do is in `origin_http2_trouble`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Stdio};

use nightwatt_gateway::config::OriginTls;

use crate::client::{Client, ask, get, post};
use crate::origin::{Act, Gate, ok, status};
use crate::origin_tls::Made;
use crate::passing::{switches, upgrade};
use crate::passthrough_programs::{has, kept_port};
use crate::stage::{Setup, Stage, awake, watched};

/// It ends with this.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is offered and what is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocols {
    Http2,
    /// The gateway may ask by HTTP/2, but the server does not.
    OnlyOffered,
    /// The server would.
    NotOffered,
}

/// Speaks TLS and perhaps HTTP/2, and passes on what it is asked.
fn nginx(
    dir: &Path,
    made: &Made,
    at: SocketAddr,
    server: SocketAddr,
    protocols: Protocols,
) -> Nginx {
    let http2 = if protocols == Protocols::OnlyOffered { "" } else { " http2" };
    let (chain, key, dir_shown) = (made.chain(), made.key(), dir.display());
    let text = format!(
        r#"
        daemon off;
        master_process off;
        pid {dir_shown}/pid;
        error_log {dir_shown}/error.log;
        events {{}}
        http {{
            access_log off;
            client_body_temp_path {dir_shown}/body;
            proxy_temp_path {dir_shown}/proxy;
            fastcgi_temp_path {dir_shown}/fastcgi;
            uwsgi_temp_path {dir_shown}/uwsgi;
            scgi_temp_path {dir_shown}/scgi;
            map $http_upgrade $switches {{ default "upgrade"; "" ""; }}
            server {{
                listen {at} ssl{http2};
                ssl_certificate {chain};
                ssl_certificate_key {key};
                location / {{
                    proxy_pass http://{server};
                    proxy_http_version 1.1;
                    proxy_request_buffering off;
                    proxy_set_header Host $http_host;
                    proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection $switches;
                    proxy_set_header X-Asked-By "$server_protocol on $connection";
                }}
            }}
        }}
        "#,
        chain = chain.display(),
        key = key.display(),
    );
    std::fs::write(dir.join("nginx.conf"), text).unwrap();
    let mut nginx = nightwatt_needs::command("nginx");
    nginx.arg("-e").arg(dir.join("error.log")).arg("-c").arg(dir.join("nginx.conf"));
    nginx.stdin(Stdio::null());
    Nginx(nginx.spawn().unwrap())
}

/// Plays with a server behind nginx.
fn play(protocols: Protocols, story: impl AsyncFnOnce(&mut Stage)) {
    if !has("nginx") {
        return;
    }
    let Some(made) = Made::new("DNS:localhost", "10") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (_kept, port) = kept_port(Ipv4Addr::LOCALHOST);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let http2 = protocols != Protocols::NotOffered;
    let told = OriginTls { ca: Some(made.chain()), http2, ..OriginTls::default() };
    let setup: Setup = awake().real().site(move |site| {
        site.origin.by_tls = true;
        site.origin.authority = format!("localhost:{port}");
        site.origin_tls = Some(told);
    });
    setup.play(async |stage| {
        let _nginx = nginx(dir.path(), &made, at, stage.origin.address(), protocols);
        watched("nginx to listen", async {
            while tokio::net::TcpStream::connect(at).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        story(stage).await;
    });
}

fn asked_by(stage: &Stage) -> Vec<String> {
    let seen = stage.origin.seen();
    seen.iter().map(|seen| seen.field("x-asked-by").unwrap().to_owned()).collect()
}

/// So many clients ask at once; the server answers when all have asked.
async fn all_at_once(stage: &mut Stage, clients: usize) {
    let gate = Gate::shut();
    let shut = gate.clone();
    stage.origin.script(move |seen| {
        let answer = ok(&format!("this is {}", seen.target));
        [vec![Act::Await(shut.clone())], answer.acts()].concat()
    });
    let mut asking = Vec::new();
    for number in 0..clients {
        asking.push(stage.begin(get(&format!("/{number}"))).await);
    }
    stage.origin.saw(clients).await;
    (0..clients).for_each(|_| gate.open());
    for (number, client) in asking.iter_mut().enumerate() {
        let got = client.answer().await;
        assert_eq!(got.how(), (200, "server"));
        assert_eq!(got.text(), format!("this is /{number}"));
    }
}

#[test]
fn many_requests_at_once_share_one_connection() {
    play(Protocols::Http2, async |stage| {
        all_at_once(stage, 50).await;
        let asked = asked_by(stage);
        assert!(asked[0].starts_with("HTTP/2.0 on "), "{}", asked[0]);
        assert!(asked.iter().all(|it| *it == asked[0]), "{asked:?}");
    });
}

#[test]
fn more_than_a_connection_takes_get_another_one() {
    play(Protocols::Http2, async |stage| {
        all_at_once(stage, 150).await;
        let mut asked = asked_by(stage);
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), 2, "{asked:?}");
    });
}

#[test]
fn a_server_that_speaks_only_http1_gets_a_connection_for_each_request() {
    play(Protocols::OnlyOffered, async |stage| {
        all_at_once(stage, 20).await;
        let mut asked = asked_by(stage);
        assert!(asked.iter().all(|it| it.starts_with("HTTP/1.1 on ")), "{asked:?}");
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), 20);
    });
}

#[test]
fn bodies_and_fields_are_as_by_http1() {
    play(Protocols::Http2, async |stage| {
        let long = "0123456789".repeat(30_000);
        stage.origin.says(ok("thanks").field("Cache-Control", "no-store"));
        let got = stage.ask(post("/form?a=b", &long).field("Cookie", "a=1; b=2")).await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "thanks"));
        let seen = stage.origin.only();
        assert_eq!((&*seen.method, &*seen.target), ("POST", "/form?a=b"));
        assert_eq!((seen.field("host"), seen.field("cookie")), (Some("blog"), Some("a=1; b=2")));
        assert!(seen.text() == long, "the body is another");

        let mut client = Client::connect(stage).await;
        client
            .say("POST /parts HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await;
        client.say("5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n").await;
        assert_eq!(client.answer().await.how(), (200, "server"));
        assert_eq!(stage.origin.seen()[1].text(), "firstsecond");

        let got = stage.ask(ask("HEAD", "/head")).await;
        assert_eq!((got.how(), got.field("content-length")), ((200, "server"), Some("6")));
        stage.origin.says(status(404, "no such page"));
        let got = stage.ask(get("/nowhere")).await;
        assert_eq!((got.how(), got.text()), ((404, "server"), "no such page"));
        assert!(asked_by(stage).iter().all(|it| it.starts_with("HTTP/2.0")));
    });
}

#[test]
fn what_becomes_another_protocol_goes_by_http1() {
    play(Protocols::Http2, async |stage| {
        stage.ask(get("/")).await;
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        client.say("word").await;
        assert_eq!(client.part().await, b"word");
        let asked = asked_by(stage);
        assert!(asked[0].starts_with("HTTP/2.0") && asked[1].starts_with("HTTP/1.1"), "{asked:?}");
        client.finish().await;
        assert!(client.is_closed().await);
    });
}

#[test]
fn nobody_is_asked_by_http2_unless_told_so() {
    play(Protocols::NotOffered, async |stage| {
        assert_eq!(stage.ask(get("/")).await.how(), (200, "server"));
        assert!(asked_by(stage)[0].starts_with("HTTP/1.1"));
    });
}
