//! Processes that take the place of each other, real ones: this program, started again as [`a_gateway`].
//! What is told here of the library, `crates/cli/tests/cli/operate*.rs` tells of `nightwatt serve`.

mod datagrams_and_jobs;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::control::{self, Demand, Order, Reply};
use nightwatt_gateway::ledger_file;
use nightwatt_gateway::status::Status;
use nightwatt_gateway::{Config, Gateway, Inherited, Options, Predecessor, Running};
use nightwatt_policy::lifecycle::Change;
use tempfile::TempDir;

/// Names the configuration of a process that is started as a gateway.
const CONFIG: &str = "NIGHTWATT_TEST_CONFIG";

/// It stands in the place of the one before.
const REPLACE: &str = "NIGHTWATT_TEST_REPLACE";

/// How the server is woken.
const AT_ONCE: &str = "echo wake >> DIR/wakes; touch DIR/up";
const WHEN_TOLD: &str = "echo wake >> DIR/wakes; setsid sh -c 'while [ -d DIR ] && [ ! -e DIR/go ]; do sleep 0.05; \
                         done; touch DIR/up' >/dev/null 2>&1 </dev/null &";

/// What may be stored.
const KEPT: &str = "/kept";

/// Its answers are stored on a disk.
const WITH_DISK: &str = "cache.disk = {}";

const CLIENTS: usize = 4;
const EACH: usize = 2500;

#[test]
#[ignore = "what the other tests start; by itself it does nothing"]
fn a_gateway() {
    let Some(path) = std::env::var_os(CONFIG) else { return };
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(serve(Path::new(&path), clock.clone()));
}

async fn serve(path: &Path, clock: Clock) {
    let config = Config::load(path).unwrap();
    let before =
        std::env::var_os(REPLACE).and_then(|_| Predecessor::ask(&config.control_socket()).unwrap());
    let (before, sockets) =
        before.map_or((None, Inherited::default()), |(before, sockets)| (Some(before), sockets));
    let options = Options { durable: false, ..Options::default() };
    let mut running = Gateway::start_from(config, clock, options, sockets, before).unwrap();
    if let Some(address) = running.udp_addresses.first() {
        println!("datagrams at {address}");
    }
    println!("listening on {}", running.addresses[0]);
    if follow(&mut running, path).await {
        running.leave().await;
    }
}

/// Until another process has taken over.
async fn follow(running: &mut Running, path: &Path) -> bool {
    while let Some(demand) = running.demands.recv().await {
        match demand {
            Demand::Reload(answer) => {
                let config = Config::load(path).unwrap();
                let done = running.reload(config, Options::default()).await;
                let _ = answer.send(done.map_err(|error| error.to_string()));
            }
            Demand::Containers => drop(running.reload_containers().await),
            Demand::HandOver(mut taker) => match running.hand_over(&mut taker).await {
                Ok(()) => return true,
                Err(error) => eprintln!("no hand-over: {error}"),
            },
        }
    }
    false
}

/// A gateway, killed at the end.
struct Process {
    child: Child,
    address: SocketAddr,
    /// For datagrams.
    datagrams: Option<SocketAddr>,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct House {
    dir: TempDir,
    origin: SocketAddr,
    served: &'static AtomicUsize,
}

impl House {
    fn build(wake: &str) -> Self {
        let served: &AtomicUsize = Box::leak(Box::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || answer_all(stream.unwrap(), served));
            }
        });
        let house = Self { dir: tempfile::tempdir().unwrap(), origin, served };
        house.configure(wake, "");
        house
    }

    fn configure(&self, wake: &str, more: &str) {
        let (dir, origin) = (self.dir.path().display(), self.origin);
        // Its power is a file, so that every process sees the same.
        let text = format!(
            r#"
            listen = ["127.0.0.1:0"]
            state_dir = "{dir}"
            {more}

            [scenario]
            policy = "always-on"
            sla.enabled = false

            [[site]]
            name = "site"
            origin = "http://{origin}"
            probe = "controller"
            watch = "0"

            [site.power.command]
            wake = "{wake}"
            sleep = "rm -f {dir}/up"
            probe = "test -e {dir}/up"
            "#
        );
        let text = text.replace("DIR", &dir.to_string());
        std::fs::write(self.dir.path().join("nightwatt.toml"), text).unwrap();
    }

    fn start(&self, replace: bool) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["a_gateway", "--exact", "--ignored", "--nocapture"]);
        command.env(CONFIG, self.dir.path().join("nightwatt.toml"));
        if replace {
            command.env(REPLACE, "1");
        }
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut datagrams = None;
        let address = loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some((_, address)) = line.trim().split_once("datagrams at ") {
                datagrams = Some(address.parse().unwrap());
            }
            if let Some((_, address)) = line.trim().split_once("listening on ") {
                break address.parse().unwrap();
            }
        };
        Process { child, address, datagrams, _stdout: stdout }
    }

    fn order(&self, order: &Order) -> Reply {
        let clock = Clock::real();
        let socket = self.dir.path().join("control.sock");
        let asked = control::ask(&socket, order);
        let timeout = Duration::from_mins(1);
        let asked = async { clock.timeout(timeout, asked).await };
        clock.runtime().unwrap().block_on(asked).expect("an answer in time").unwrap()
    }

    fn status(&self) -> Status {
        match self.order(&Order::Status) {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn count(&self, change: Change) -> usize {
        let records = ledger_file::read(&self.dir.path().join("site.ledger.jsonl")).unwrap();
        records.iter().filter(|it| it.change == Some(change)).count()
    }
}

/// The server: says what it was asked for.
fn answer_all(stream: TcpStream, served: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if lines.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let (mut line, mut body) = (String::new(), 0);
        while lines.read_line(&mut line).unwrap_or(0) > 2 {
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                body = length.trim().parse().unwrap();
            }
            line.clear();
        }
        if lines.read_exact(&mut vec![0; body]).is_err() {
            return;
        }
        served.fetch_add(1, Ordering::Relaxed);
        let path = first.split(' ').nth(1).unwrap_or_default();
        let kept = if path == KEPT { "Cache-Control: max-age=3600\r\n" } else { "" };
        let length = path.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{kept}Content-Length: {length}\r\n\r\n{path}");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Asks on a connection that is kept as long as the proxy says so. Whatever goes wrong is a lost request.
fn ask(to: SocketAddr, kept: &mut Option<TcpStream>, path: &str) -> Result<(), String> {
    let lost = |what: &dyn std::fmt::Debug| format!("{path}: {what:?}");
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect(to).map_err(|error| lost(&error))?,
    };
    let head = format!("GET {path} HTTP/1.1\r\nHost: site\r\n\r\n");
    stream.write_all(head.as_bytes()).map_err(|error| lost(&error))?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !answer.ends_with(format!("\r\n\r\n{path}").as_bytes()) {
        let length = stream.read(&mut part).map_err(|error| lost(&error))?;
        if length == 0 {
            return Err(lost(&String::from_utf8_lossy(&answer)));
        }
        answer.extend_from_slice(&part[..length]);
    }
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    if !answer.starts_with("http/1.1 200") {
        return Err(lost(&answer));
    }
    *kept = (!answer.contains("connection: close")).then_some(stream);
    Ok(())
}

fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let clock = Clock::real();
    let deadline = clock.now().mono + Duration::from_mins(1);
    while !so() {
        assert!(clock.now().mono < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn ten_thousand_requests_during_ten_reloads_and_three_hand_overs_are_all_answered() {
    let house = House::build(AT_ONCE);
    let mut process = house.start(false);
    let (address, answered) = (process.address, AtomicUsize::new(0));
    let lost: Vec<String> = std::thread::scope(|scope| {
        let client = |number: usize| {
            let answered = &answered;
            scope.spawn(move || {
                let mut kept = None;
                let mut lost = Vec::new();
                for request in 0..EACH {
                    lost.extend(ask(address, &mut kept, &format!("/{number}/{request}")).err());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                lost
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for step in 1..=13 {
            let due = step * CLIENTS * EACH / 14;
            eventually("requests are answered", || answered.load(Ordering::Relaxed) >= due);
            if step % 4 == 0 {
                let next = house.start(true);
                assert_eq!(next.address, address, "it has the same socket");
                let mut old = std::mem::replace(&mut process, next);
                eventually("the old one ends", || old.child.try_wait().unwrap().is_some());
            } else {
                house.configure(AT_ONCE, &format!("limits.hold = \"{}s\"", 60 + step));
                let done = house.order(&Order::Reload);
                let Reply::Reloaded(done) = done else { panic!("{done:?}") };
                assert!(done.new.is_empty() && done.gone.is_empty(), "{done:?}");
            }
        }
        println!("{} were answered by then", answered.load(Ordering::Relaxed));
        clients.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    assert!(lost.is_empty(), "{} lost, as {}", lost.len(), lost[0]);
    assert_eq!(
        house.served.load(Ordering::Relaxed),
        CLIENTS * EACH,
        "each reached the server once"
    );
    assert_eq!([house.count(Change::Waking), house.count(Change::Woke)], [1, 1]);
}

#[test]
fn the_lock_of_the_ledgers_is_never_free_while_one_process_takes_the_place_of_another() {
    let house = House::build(AT_ONCE);
    let path = house.dir.path().join("lock");
    let mut old = house.start(false);
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    let done = AtomicBool::new(false);
    let stolen = std::thread::scope(|scope| {
        let thief = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if File::open(&path).unwrap().try_lock().is_ok() {
                    return true;
                }
            }
            false
        });
        let next = house.start(true);
        eventually("the old one ends", || old.child.try_wait().unwrap().is_some());
        ask(next.address, &mut None, "/after").unwrap();
        done.store(true, Ordering::Relaxed);
        thief.join().unwrap()
    });
    assert!(!stolen, "another program had the lock in between");
}

#[test]
fn who_waits_is_answered_by_the_old_process_when_the_new_one_has_woken_the_server() {
    let house = House::build(WHEN_TOLD);
    let mut old = house.start(false);
    let address = old.address;
    let early = std::thread::spawn(move || ask(address, &mut None, "/early"));
    eventually("it is being woken", || house.status().sites[0].state == "waking");
    let _new = house.start(true);
    let late = std::thread::spawn(move || ask(address, &mut None, "/late"));
    eventually("it waits at the new one", || house.status().sites[0].held > 0);
    File::create(house.dir.path().join("go")).unwrap();
    assert_eq!(early.join().unwrap(), Ok(()));
    assert_eq!(late.join().unwrap(), Ok(()));
    eventually("the old one ends", || old.child.try_wait().unwrap().is_some());
    assert_eq!([house.count(Change::Waking), house.count(Change::Woke)], [1, 1]);
    let commands = std::fs::read_to_string(house.dir.path().join("wakes")).unwrap();
    assert_eq!(commands.lines().count(), 1, "the command was given once");
    assert_eq!(house.served.load(Ordering::Relaxed), 2);
}

#[test]
fn the_disk_cache_goes_with_the_sockets_and_what_changes_at_the_old_process_is_forgotten_by_the_new()
 {
    let house = House::build(AT_ONCE);
    house.configure(AT_ONCE, WITH_DISK);
    let mut old = house.start(false);
    let served = || house.served.load(Ordering::Relaxed);
    for _ in 0..2 {
        ask(old.address, &mut None, KEPT).unwrap();
    }
    assert_eq!(served(), 1);
    // A request that is under way while the other process takes over.
    let mut changing = TcpStream::connect(old.address).unwrap();
    let head = format!("POST {KEPT} HTTP/1.1\r\nHost: site\r\nContent-Length: 4\r\n\r\nab");
    changing.write_all(head.as_bytes()).unwrap();
    eventually("it is under way", || house.status().sites[0].in_flight == 1);
    let new = house.start(true);
    ask(new.address, &mut None, KEPT).unwrap();
    assert_eq!(served(), 1, "it is on the disk");
    changing.write_all(b"cd").unwrap();
    let mut answer = String::new();
    changing.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    eventually("the old one ends", || old.child.try_wait().unwrap().is_some());
    ask(new.address, &mut None, KEPT).unwrap();
    assert_eq!(served(), 3, "what was changed is asked for anew");
}

#[test]
fn what_a_process_that_fails_was_to_have_is_taken_back() {
    let house = House::build(AT_ONCE);
    house.configure(AT_ONCE, WITH_DISK);
    let process = house.start(false);
    for _ in 0..2 {
        ask(process.address, &mut None, KEPT).unwrap();
    }
    let taker = std::os::unix::net::UnixStream::connect(house.dir.path().join("control.sock"));
    let mut taker = BufReader::new(taker.unwrap());
    let mut line = String::new();
    for word in ["{\"order\":\"hand-over\"}\n", "\"let-go\"\n"] {
        taker.get_mut().write_all(word.as_bytes()).unwrap();
        line.clear();
        taker.read_line(&mut line).unwrap();
    }
    assert!(line.contains("servers"), "it has let go: {line}");
    drop(taker);
    ask(process.address, &mut None, "/other").unwrap();
    let disk = house.status().disk_cache.unwrap();
    assert_eq!(disk.answers, 1, "it has the disk again");
    let all = Order::Purge { site: None, places: Vec::new(), prefix: false, all: true };
    // Its server has not marked the other one as cacheable.
    assert!(matches!(house.order(&all), Reply::Purged(1)));
    ask(process.address, &mut None, KEPT).unwrap();
    assert_eq!(house.served.load(Ordering::Relaxed), 3);
}

#[test]
fn a_pool_that_sleeps_is_not_woken_by_a_hand_over() {
    let house = House::build(AT_ONCE);
    let dir = house.dir.path().display().to_string();
    let server = |name: &str| {
        format!(
            "[[site.server]]\nname = \"{name}\"\norigin = \"http://{}\"\nprobe = \"controller\"\nwatch = \"0\"\n\
             power.command = {{ wake = \"touch {dir}/{name}\", sleep = \"rm -f {dir}/{name}\", probe = \"test -e \
             {dir}/{name}\" }}\n",
            house.origin
        )
    };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{dir}\"\n[scenario]\nsla.enabled = false\nserver.min_on = \"0\"\n\
         policy = \"timeout 0s\"\n\
         [[site]]\nname = \"site\"\npool = {{ sleeps = true }}\n{}{}",
        server("one"),
        server("two")
    );
    std::fs::write(house.dir.path().join("nightwatt.toml"), text).unwrap();
    let _old = house.start(false);
    let is_asleep = || {
        let site = house.status().sites.remove(0);
        site.state == "asleep" && site.pool.unwrap().servers.iter().all(|it| it.state == "asleep")
    };
    eventually("all sleep", is_asleep);
    let woken = || {
        let records = ledger_file::read(&house.dir.path().join("one.ledger.jsonl")).unwrap();
        records.iter().filter(|it| it.change == Some(Change::Waking)).count()
    };
    let before = woken();
    let new = house.start(true);
    assert!(is_asleep(), "{:?}", house.status().sites);
    assert_eq!(woken(), before);
    ask(new.address, &mut None, "/").unwrap();
    assert_eq!(woken(), before + 1, "it is woken when it is wanted");
}
