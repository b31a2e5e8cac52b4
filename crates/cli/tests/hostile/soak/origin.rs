//! The origin as processes of its own, since it is to be killed and frozen: this very program,
//! started with other arguments. One process serves; its parent has the listening socket and starts
//! another when it has died, as many servers do, so that no client is refused meanwhile. It records
//! each request before it answers.

use std::fs::File;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::content::{SUM, more, reply};
use crate::gateway::pause;
use crate::strict::{Bad, Head};

/// Where it listens, and where it writes: environment of the process.
pub(super) const LISTEN: &str = "SOAK_ORIGIN_LISTEN";
pub(super) const RECORD: &str = "SOAK_ORIGIN_RECORD";

/// The command that starts it.
pub(super) fn command() -> (PathBuf, [&'static str; 4]) {
    let program = std::env::current_exe().expect("this program");
    (program, ["--exact", "soak::origin::the_process", "--ignored", "--nocapture"])
}

/// What the record says of a request that it should never have got.
pub(super) const MALFORMED: &str = "malformed";

/// A request as the record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Handled {
    pub(super) id: String,
    /// Length and sum of its body.
    pub(super) body: (u64, u64),
}

impl Handled {
    /// Reads a line; nothing if the process was killed while it wrote.
    pub(super) fn read(line: &str) -> Option<Self> {
        let [id, _, _, length, sum, "."] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let body = (length.parse().ok()?, u64::from_str_radix(sum, 16).ok()?);
        Some(Self { id: id.to_owned(), body })
    }
}

/// Set for the one that serves; who finds it unset starts one, and another one when that ends.
const SERVES: &str = "SOAK_ORIGIN_SERVES";

#[test]
#[ignore = "is no test but the origin of `soak`, which starts it"]
fn the_process() {
    let (Ok(listen), Ok(record)) = (std::env::var(LISTEN), std::env::var(RECORD)) else {
        println!("skipped: nobody says where to listen");
        return;
    };
    if std::env::var(SERVES).is_err() {
        let listener = TcpListener::bind(listen).expect("the port is free");
        let (program, args) = command();
        loop {
            let listener = OwnedFd::from(listener.try_clone().expect("another handle"));
            let mut server = Command::new(&program);
            server.args(args).env(SERVES, "1").stdin(listener);
            server.status().expect("this program runs");
        }
    }
    let listener = std::io::stdin().as_fd().try_clone_to_owned().expect("its socket");
    let listener = TcpListener::from(listener);
    let record = File::options().create(true).append(true).open(record).expect("a record");
    let record = Arc::new(record);
    for stream in listener.incoming().flatten() {
        let record = Arc::clone(&record);
        std::thread::spawn(move || {
            if let Err(Bad::Malformed(what)) = serve(stream, &record) {
                let _ = (&*record).write_all(format!("{MALFORMED} {what}\n").as_bytes());
            }
        });
    }
}

fn serve(mut stream: TcpStream, mut record: &File) -> Result<(), Bad> {
    stream.set_nodelay(true)?;
    let mut reading = BufReader::new(stream.try_clone()?);
    while let Some(head) = Head::read(&mut reading)? {
        let (mut length, mut sum) = (0, SUM);
        head.body(&mut reading, &mut |part| {
            length += part.len() as u64;
            sum = more(sum, part);
        })?;
        let Head { method, target, .. } = &head;
        if !head.is_probe() {
            let id = head.only("x-request-id").unwrap_or("-");
            // One write for each line: a written line stays, whatever process is killed then.
            record.write_all(format!("{id} {method} {target} {length} {sum:x} .\n").as_bytes())?;
        }
        if !matches!(&**method, "GET" | "HEAD") {
            // Acting takes its time: that is when a server that is killed leaves doubts behind.
            pause(Duration::from_millis(sum % 40));
        }
        reply(&head, (length, sum)).write(&mut stream)?;
        if head.is_probe() {
            break;
        }
    }
    Ok(())
}
