//! The servers as processes of their own: this very program, started with other arguments. Each answers
//! one request after the other, 20 ms for each, by waiting.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where it listens, and how long it takes until it does (ms): environment of the process.
pub(crate) const LISTEN: &str = "POOL_SERVER_LISTEN";
pub(crate) const STARTS: &str = "POOL_SERVER_STARTS_MS";

/// The field of an answer that says how late it is (µs).
pub(crate) const LATE: &str = "Served-Late";

/// What an answer takes.
pub(crate) const SERVICE: Duration = Duration::from_millis(20);

/// The command that starts one, for the configuration.
pub(crate) fn command() -> String {
    let program = std::env::current_exe().expect("this program");
    let program = program.to_str().expect("a path");
    format!("{:?}", [program, "--exact", "server::the_process", "--ignored", "--nocapture"])
}

#[test]
#[ignore = "is no test but a server of the pool, which starts it"]
fn the_process() {
    let (Ok(listen), Ok(starts)) = (std::env::var(LISTEN), std::env::var(STARTS)) else {
        println!("skipped: nobody says where to listen");
        return;
    };
    pause(Duration::from_millis(starts.parse().expect("a number")));
    let listener = TcpListener::bind(listen).expect("the port is free");
    let free_at: &'static Mutex<Instant> = Box::leak(Box::new(Mutex::new(now())));
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || serve(stream, free_at));
    }
}

/// Answers the requests of a connection, none of which has a body.
fn serve(mut stream: TcpStream, free_at: &Mutex<Instant>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reading = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while reading.read_line(&mut line).ok()? > 2 {
            head.push_str(&line);
            line.clear();
        }
        if head.is_empty() {
            return None;
        }
        let mut late = Duration::ZERO;
        // A probe doesn't wait in the queue of requests.
        if !head.contains("nightwatt-probe") {
            let done_at = {
                let mut free_at = free_at.lock().ok()?;
                *free_at = (*free_at).max(now()) + SERVICE;
                *free_at
            };
            pause(done_at.saturating_duration_since(now()));
            late = now().saturating_duration_since(done_at);
        }
        let target = head.split(' ').nth(1)?;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n{LATE}: {}\r\n\
             Content-Length: {}\r\n\r\n{target}",
            late.as_micros(),
            target.len()
        );
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

#[expect(clippy::disallowed_methods, reason = "a process that lives in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a process that lives in real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
