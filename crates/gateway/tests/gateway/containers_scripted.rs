//! Containers of scripted daemons: what a real one cannot be made to do.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use nightwatt_clock::Clock;
use nightwatt_gateway::containers::Found;
use nightwatt_gateway::status::ContainersStatus;
use nightwatt_gateway::{Config, Gateway, Options, Running};

/// A daemon with one container, which has a site of the same name. Its stream of events stays silent.
fn daemon(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut streams = Vec::new();
        for stream in listener.incoming().map(Result::unwrap) {
            streams.extend(answer(stream, name));
        }
    });
    format!("tcp://{address}")
}

/// Answers one question. Returns the connection if that is a stream.
fn answer(mut stream: TcpStream, name: &str) -> Option<TcpStream> {
    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let path = head.first()?.split(' ').nth(1)?.to_owned();
    if path.starts_with("/events") {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        return stream.write_all(head.as_bytes()).ok().map(|()| stream);
    }
    let body = if path.starts_with("/containers/json") {
        format!(
            r#"[{{"Id": "{name}", "Names": ["/{name}"], "Labels": {{"nightwatt.enable": "true"}}}}]"#
        )
    } else {
        format!(
            r#"{{"Name": "/{name}", "Created": "2026-11-23T20:15:00Z", "State": {{"Status": "exited"}},
            "Config": {{"Labels": {{"nightwatt.enable": "true", "nightwatt.hosts": "{name}.lan",
            "nightwatt.port": "80", "nightwatt.address": "127.0.0.1"}}}}, "HostConfig": {{"PortBindings": null}}}}"#
        )
    };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    None
}

fn config(state: &std::path::Path, socket: &str) -> Config {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{}\"\n[containers]\ndocker = \"{socket}\"\n",
        state.display()
    );
    Config::parse(&text, "test.toml").unwrap()
}

fn sites(running: &Running) -> Vec<String> {
    running.gateway.status().sites.into_iter().map(|it| it.name).collect()
}

fn containers(running: &Running) -> ContainersStatus {
    running.gateway.status().containers.unwrap()
}

#[test]
fn a_reload_with_another_daemon_leaves_no_site_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let (first, second) = (daemon("wiki"), daemon("blog"));
        let of = |socket: &str| config(&state, socket);
        let found = Found::look(&of(&first), &clock).await;
        let options = Options { found, ..Options::default() };
        let mut running = Gateway::start(of(&first), clock.clone(), options).unwrap();
        assert_eq!(sites(&running), ["wiki"]);
        running.reload(of(&second), Options::default()).await.unwrap();
        // At once, and not when the task that watches the daemon has its first list.
        assert_eq!(sites(&running), ["blog"]);
        let status = containers(&running);
        assert_eq!((status.daemon, status.up), (format!("docker at {second}"), true));
        assert_eq!(status.containers[0].hosts, ["blog.lan"]);
        // Nothing listens there.
        running.reload(of("tcp://127.0.0.1:1"), Options::default()).await.unwrap();
        assert_eq!(sites(&running), [""; 0]);
        let status = containers(&running);
        assert_eq!((status.up, status.containers.len()), (false, 0));
        assert!(
            status.lost_ms.is_some() && status.problem.unwrap().contains("cannot reach docker")
        );
        running.reload(of(&first), Options::default()).await.unwrap();
        assert_eq!(sites(&running), ["wiki"]);
        running.stop().await;
    });
}

#[test]
fn a_container_event_leaves_the_notice_of_a_refused_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let first = config(&state, &daemon("wiki"));
        let found = Found::look(&first, &clock).await;
        let options = Options { found, ..Options::default() };
        let mut running = Gateway::start(first.clone(), clock.clone(), options).unwrap();
        let moved = Config { state_dir: dir.path().join("elsewhere"), ..first.clone() };
        running.reload(moved, Options::default()).await.unwrap_err();
        let refused = |running: &Running| running.gateway.status().reload.unwrap().refused;
        let why = refused(&running).unwrap();
        assert!(why.contains("`state_dir`"), "{why}");
        running.reload_containers().await.unwrap();
        assert_eq!(refused(&running), Some(why));
        running.reload(first, Options::default()).await.unwrap();
        assert_eq!(refused(&running), None);
        running.stop().await;
    });
}

#[test]
fn a_start_while_the_daemon_is_away_keeps_the_sites_of_its_containers() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let there = config(&state, &daemon("wiki"));
        for _ in 0..2 {
            let found = Found::look(&there, &clock).await;
            let options = Options { found, ..Options::default() };
            let running = Gateway::start(there.clone(), clock.clone(), options).unwrap();
            assert_eq!(sites(&running), ["wiki"]);
            running.stop().await;
        }
        // The same daemon, which does not answer any more: nothing listens at its address.
        let text = std::fs::read_to_string(state.join("containers.json")).unwrap();
        let socket = there.containers.as_ref().unwrap().daemon().unwrap().1.to_string();
        std::fs::write(state.join("containers.json"), text.replace(&socket, "tcp://127.0.0.1:1"))
            .unwrap();
        let away = config(&state, "tcp://127.0.0.1:1");
        let found = Found::look(&away, &clock).await;
        let options = Options { found, ..Options::default() };
        let running = Gateway::start(away, clock.clone(), options).unwrap();
        assert_eq!(sites(&running), ["wiki"]);
        let status = containers(&running);
        assert_eq!((status.up, status.containers[0].hosts.join(" ").as_str()), (false, "wiki.lan"));
        running.stop().await;
        // Another daemon has another list.
        let found = Found::look(&config(&state, "tcp://127.0.0.1:2"), &clock).await;
        assert_eq!(found.apply(&config(&state, "tcp://127.0.0.1:2")).outcomes.len(), 0);
    });
}
