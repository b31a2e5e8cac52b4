//! A hit allocates nothing. In a process of its own, since everything in it is counted.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use nightwatt_clock::Clock;
use nightwatt_gateway::{Config, Gateway, Options};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: blog\r\nAccept: text/html,*/*\r\n\
    Accept-Encoding: gzip\r\nReferer: http://blog/\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\r\n";

/// The same, by a program: it is held, and shown no page, if the gateway has not looked at the server
/// yet.
const FIRST: &[u8] = b"GET /page HTTP/1.1\r\nHost: blog\r\nAccept-Encoding: gzip\r\n\r\n";

/// An origin that answers once, and keeps the connection.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\n\
                  Content-Length: 5\r\n\r\nhello",
            );
        }
    });
    address
}

fn gateway(dir: &std::path::Path, origin: SocketAddr) -> SocketAddr {
    let dir = dir.display();
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{dir}\"\naccess_log = \"{dir}/access.log\"\n\
         [scenario]\npolicy = \"timeout 1h\"\n[[site]]\nname = \"blog\"\norigin = \"http://{origin}\"\n\
         probe = \"controller\"\npower.simulated = {{ starts_up = true }}\n"
    );
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let clock = Clock::real();
        clock.runtime().unwrap().block_on(async {
            let config = Config::parse(&text, "test").unwrap();
            let running = Gateway::start(config, clock.clone(), Options::default()).unwrap();
            sender.send(running.addresses[0]).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

/// Asks, and reads the whole answer, whose end is known.
fn ask(stream: &mut TcpStream, request: &[u8], buffer: &mut [u8]) -> usize {
    stream.write_all(request).unwrap();
    let mut length = 0;
    while !buffer[..length].ends_with(b"\r\n\r\nhello") {
        let more = stream.read(&mut buffer[length..]).unwrap();
        assert!(more > 0, "closed");
        length += more;
    }
    length
}

#[test]
fn a_hit_allocates_nothing() {
    const HITS: usize = 2000;
    let dir = tempfile::tempdir().unwrap();
    let mut stream = TcpStream::connect(gateway(dir.path(), origin())).unwrap();
    let mut buffer = [0; 4096];
    ask(&mut stream, FIRST, &mut buffer);
    // Until every table has its size.
    for _ in 0..HITS {
        ask(&mut stream, REQUEST, &mut buffer);
    }
    let region = Region::new(COUNTED);
    for _ in 0..HITS {
        let length = ask(&mut stream, REQUEST, &mut buffer);
        assert!(buffer[..length].windows(5).any(|it| it == b"; hit"));
    }
    let allocations = region.change().allocations;
    // Once a second the head is built again, and timers run; no allocation is for a single request.
    assert!(allocations < HITS / 10, "{allocations} allocations for {HITS} hits");
    println!("{allocations} allocations for {HITS} hits");
}
