use std::future::Future;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_power::Context;
use nightwatt_power::probe::{Config, Http, OWN_MARK, Probe, Verdict};
use nightwatt_power::simulated::{self, Simulated};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::Rig;

fn server(context: &Context) -> Simulated {
    <simulated::Config>::default().build(context).unwrap()
}

async fn attempt(rig: &Rig, config: Config) -> Verdict {
    Probe::new(config, rig.clock.clone()).attempt(&server(&rig.context())).await
}

/// Listens, and answers one connection after the other with these bytes; then accepts no more.
async fn listen<const N: usize>(
    answers: [&'static [u8]; N],
) -> (String, impl Future<Output = Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap();
            asked.push(String::from_utf8_lossy(&request[..count]).into_owned());
            stream.write_all(answer).await.unwrap();
        }
        asked
    };
    (address, serve)
}

/// With all the time that a busy machine may need.
const TIMEOUT: Duration = Duration::from_secs(1000);

fn http(address: &str, path: &str, timeout: Duration) -> Config {
    let Ok(Config::Http(mut page)) = Config::http(&format!("http://{address}{path}")) else {
        panic!()
    };
    page.timeout = timeout;
    Config::Http(page)
}

fn tcp(address: &str) -> Config {
    let Config::Tcp(mut port) = Config::tcp(address) else { panic!() };
    port.timeout = TIMEOUT;
    Config::Tcp(port)
}

#[test]
fn a_port_is_up_when_it_accepts_connections() {
    let rig = Rig::new();
    rig.run(async {
        // Where no other process listens afterwards.
        let listener = TcpListener::bind((nightwatt_needs::own_address(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let verdict = attempt(&rig, tcp(&address)).await;
        assert_eq!(verdict.reason, format!("{address} accepts connections"));
        assert!(verdict.up);
        drop(listener);
        let verdict = attempt(&rig, tcp(&address)).await;
        assert!(!verdict.up);
        assert!(verdict.reason.contains("Connection refused"), "{}", verdict.reason);
    });
}

#[test]
fn a_gateway_error_is_down_and_any_other_page_is_up() {
    let rig = Rig::new();
    rig.run(async {
        let (address, serve) = listen([
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\n\r\n",
        ])
        .await;
        let probe = Probe::new(http(&address, "/health?now", TIMEOUT), rig.clock.clone());
        let server = server(&rig.context());
        let ask = async {
            let mut verdicts = Vec::new();
            for _ in 0..3 {
                verdicts.push(probe.attempt(&server).await);
            }
            verdicts
        };
        let (asked, verdicts) = tokio::join!(serve, ask);
        assert_eq!(
            verdicts.iter().map(|verdict| verdict.up).collect::<Vec<_>>(),
            [false, true, true]
        );
        assert_eq!(verdicts[0].reason, format!("http://{address}/health?now says 503"));
        assert_eq!(
            asked[0],
            format!(
                "GET /health?now HTTP/1.1\r\nHost: {address}\r\nUser-Agent: nightwatt-probe\r\n\
                 Via: 1.1 nightwatt ({})\r\nAccept: */*\r\nConnection: close\r\n\r\n",
                OWN_MARK.as_str()
            )
        );
    });
}

#[test]
fn the_expected_statuses_can_be_named() {
    let rig = Rig::new();
    rig.run(async {
        let (address, serve) = listen([
            b"HTTP/1.1 503 x\r\n\r\n",
            b"HTTP/1.1 404 x\r\n\r\n",
            b"HTTP/1.1 301 x\r\n\r\n",
        ])
        .await;
        let Config::Http(mut page) = http(&address, "/", TIMEOUT) else { unreachable!() };
        page.expect = Some(vec!["503".parse().unwrap(), "200-399".parse().unwrap()]);
        let probe = Probe::new(Config::Http(page), rig.clock.clone());
        let server = server(&rig.context());
        let ask = async {
            let mut up = Vec::new();
            for _ in 0..3 {
                up.push(probe.attempt(&server).await.up);
            }
            up
        };
        assert_eq!(tokio::join!(serve, ask).1, [true, false, true]);
    });
}

#[test]
fn a_text_that_the_page_must_contain_can_be_named() {
    let rig = Rig::new();
    rig.run(async {
        let (address, serve) = listen([
            b"HTTP/1.1 200 OK\r\n\r\ndatabase: starting",
            b"HTTP/1.1 200 OK\r\n\r\ndatabase: ready",
        ])
        .await;
        let Config::Http(mut page) = http(&address, "/", TIMEOUT) else { unreachable!() };
        page.contains = Some("database: ready".to_owned());
        let probe = Probe::new(Config::Http(page), rig.clock.clone());
        let server = server(&rig.context());
        let ask = async {
            let first = probe.attempt(&server).await;
            [first, probe.attempt(&server).await]
        };
        let (_, [starting, ready]) = tokio::join!(serve, ask);
        assert_eq!(
            starting.reason,
            format!("http://{address}/ says 200, without \"database: ready\"")
        );
        assert!(!starting.up && ready.up);
    });
}

#[test]
fn who_answers_by_another_protocol_is_up_unless_more_is_asked_of_it() {
    let rig = Rig::new();
    rig.run(async {
        let garbage = [&b"SSH-2.0-OpenSSH_9.2p1\r\n"[..], b"", &[0xff; 5000]];
        let (address, serve) = listen::<9>([garbage; 3].concat().try_into().unwrap()).await;
        let Config::Http(plain) = http(&address, "/", TIMEOUT) else { unreachable!() };
        let expects = Http { expect: Some(vec!["100-599".parse().unwrap()]), ..plain.clone() };
        let contains = Http { contains: Some("SSH".to_owned()), ..plain.clone() };
        let server = server(&rig.context());
        let ask = async {
            let mut verdicts = Vec::new();
            for page in [plain, expects, contains] {
                let probe = Probe::new(Config::Http(page), rig.clock.clone());
                for _ in 0..3 {
                    verdicts.push(probe.attempt(&server).await);
                }
            }
            verdicts
        };
        let (_, verdicts) = tokio::join!(serve, ask);
        let up: Vec<_> = verdicts.iter().map(|verdict| verdict.up).collect();
        // A port forwarder without a server behind it closes without sending a byte.
        assert_eq!(up, [true, false, true, false, false, false, false, false, false]);
        assert_eq!(
            verdicts[0].reason,
            format!(r#"http://{address}/: its answer is not HTTP/1: "SSH-2.0-OpenSSH_9.2p1\r\n""#)
        );
        assert!(verdicts[1].reason.ends_with("it closed the connection without an answer"));
        assert!(verdicts[2].reason.contains("not HTTP/1"), "{}", verdicts[2].reason);
    });
}

#[test]
fn one_that_accepts_and_says_nothing_is_down_when_the_time_is_up() {
    for rig in [Rig::new(), Rig::in_virtual_time()] {
        rig.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let config = http(&address, "/", Duration::from_millis(30));
            let before = rig.clock.now().mono;
            let verdict = attempt(&rig, config).await;
            assert_eq!(
                verdict,
                Verdict { up: false, reason: format!("http://{address}/: no answer within 30ms") }
            );
            if rig.clock.is_virtual() {
                assert_eq!(rig.clock.now().mono, before, "a probe takes no virtual time");
            }
            drop(listener);
        });
    }
}

#[test]
fn the_controller_can_be_asked() {
    let rig = Rig::in_virtual_time();
    let server = server(&rig.context());
    let probe = Probe::new("controller".parse().unwrap(), rig.clock.clone());
    rig.run(async {
        assert_eq!(probe.attempt(&server).await.reason, "the controller says down");
        server.come_up();
        let verdict = probe.attempt(&server).await;
        assert!(verdict.up && verdict.reason == "the controller says up");
        assert_eq!(rig.clock.now().mono, Mono::ZERO);
    });
}
