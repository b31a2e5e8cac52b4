//! A hand-over while clients send datagrams, and while a job runs.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nightwatt_gateway::status::{JobStatus, UdpStatus};

use super::{AT_ONCE, House, eventually};

/// A service that sends back what it gets, but `late` only when the test does it.
struct Echo {
    socket: UdpSocket,
    late: Mutex<Vec<SocketAddr>>,
    ends: AtomicBool,
}

impl Echo {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Self { socket, late: Mutex::default(), ends: AtomicBool::new(false) }
    }

    fn serve(&self) {
        let mut part = [0; 64];
        while !self.ends.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut part) {
                Ok((4, from)) if &part[..4] == b"late" => self.late.lock().unwrap().push(from),
                Ok((length, from)) => drop(self.socket.send_to(&part[..length], from)),
                // Where a session was that is over.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
    }

    /// Its address as the key of a service, in a configuration.
    fn table(&self) -> String {
        let origin = self.socket.local_addr().unwrap();
        format!(
            "[[udp]]\nname = \"echo\"\nlisten = [\"127.0.0.1:0\"]\non = \"site\"\norigin = \"{origin}\"\n"
        )
    }
}

fn client(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(to).unwrap();
    socket
}

fn asked(socket: &UdpSocket, what: &str) -> String {
    socket.send(what.as_bytes()).unwrap();
    heard(socket)
}

fn heard(socket: &UdpSocket) -> String {
    let mut part = [0; 64];
    let length = socket.recv(&mut part).expect("an answer");
    String::from_utf8_lossy(&part[..length]).into_owned()
}

fn datagrams(house: &House) -> UdpStatus {
    house.status().udp.remove(0)
}

fn job(house: &House) -> JobStatus {
    house.status().jobs.remove(0)
}

#[test]
fn no_datagram_is_lost_in_a_hand_over_and_what_was_asked_before_is_answered() {
    let house = House::build(AT_ONCE);
    let (echo, stops) = (Echo::new(), AtomicBool::new(false));
    house.configure(AT_ONCE, &echo.table());
    let mut old = house.start(false);
    let at = old.datagrams.unwrap();
    let steady = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| echo.serve());
        let late = client(at);
        assert_eq!(asked(&late, "early"), "early");
        late.send(b"late").unwrap();
        eventually("it has come", || !echo.late.lock().unwrap().is_empty());
        let asking = scope.spawn(|| {
            let socket = client(at);
            // Nothing is sent twice: one datagram that is lost, and no answer comes.
            while !stops.load(Ordering::Relaxed) {
                let number = steady.fetch_add(1, Ordering::Relaxed).to_string();
                assert_eq!(asked(&socket, &number), number);
            }
        });
        let asks_on = || {
            // More than 500, as the last ones may not have come.
            let due = steady.load(Ordering::Relaxed) + 510;
            eventually("it asks on", || steady.load(Ordering::Relaxed) >= due);
        };
        asks_on();
        let before = datagrams(&house).received;
        let new = house.start(true);
        assert_eq!(new.datagrams, Some(at), "it has the same socket");
        let first = echo.late.lock().unwrap().remove(0);
        echo.socket.send_to(b"late", first).unwrap();
        assert_eq!(heard(&late), "late", "by the old process");
        asks_on();
        assert_eq!(asked(&late, "new"), "new");
        let now = datagrams(&house);
        assert!(before > 500 && now.received > 500 && now.sessions == 2, "{before}, {now:?}");
        eventually("the old one ends", || old.child.try_wait().unwrap().is_some());
        asks_on();
        stops.store(true, Ordering::Relaxed);
        asking.join().unwrap();
        echo.ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_job_that_runs_goes_on_in_the_old_process_and_is_shown_by_the_new_one() {
    let house = House::build(AT_ONCE);
    let dir = house.dir.path();
    let script = dir.join("job.sh");
    let text = format!(
        "echo begins >> {dir}/job\nwhile [ ! -e {dir}/go ]; do sleep 0.05; done\necho ends >> {dir}/job\n",
        dir = dir.display()
    );
    std::fs::write(&script, text).unwrap();
    // Its last run was long ago: it is made up for at once.
    std::fs::write(dir.join("backup.job.json"), "{\"day\":1}").unwrap();
    let table = format!(
        "[[job]]\nname = \"backup\"\non = \"site\"\nat = \"00:00\"\ncommand = [\"sh\", \"{}\"]\n",
        script.display()
    );
    house.configure(AT_ONCE, &table);
    let lines = || std::fs::read_to_string(dir.join("job")).unwrap_or_default();
    let mut old = house.start(false);
    eventually("it begins", || lines() == "begins\n");
    assert!(job(&house).running_for_s.is_some());
    let _new = house.start(true);
    eventually("the new one shows it", || job(&house).running_for_s.is_some());
    assert!(old.child.try_wait().unwrap().is_none(), "the old process waits for it");
    let site = house.status().sites.remove(0);
    assert!(site.in_flight > 0, "it keeps the server awake at the new one: {site:?}");
    std::fs::write(dir.join("go"), "").unwrap();
    eventually("the old one ends", || old.child.try_wait().unwrap().is_some());
    eventually("the new one knows its end", || job(&house).succeeded_ms.is_some());
    let after = job(&house);
    assert_eq!((after.running_for_s, after.failures), (None, 0), "{after:?}");
    assert_eq!(lines(), "begins\nends\n", "it ran once");
}
