//! The driver against the agent itself, over real sockets.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nightwatt_agent::Host;
use nightwatt_agent::protocol::{Body, Event, Message, News, Nonce};
use nightwatt_agent::{Agent, Config, key};
use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_power::agent::Config as DriverConfig;
use nightwatt_power::{Controller, Error, Heard, Observed};

use crate::Rig;
use crate::daemon::stub;

/// An agent in a thread of its own, whose machine is a folder. It ends with its owner.
struct Machine {
    address: SocketAddr,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Machine {
    /// A machine below `dir`, whose sleep is the command. `more` are lines of its configuration.
    fn start(dir: &Path, listen: &str, announce: Option<SocketAddr>, more: &str) -> Self {
        let announce = announce.map(|at| format!("announce = \"{at}\"\n")).unwrap_or_default();
        let text = format!(
            "listen = [\"{listen}\"]\nstate_dir = \"{0}/state\"\n[[proxy]]\nname = \"porch\"\nkey = \
             \"{0}/agent.key\"\n{announce}{more}",
            dir.display()
        );
        let config = Config::parse(&text, "agent.toml").unwrap();
        fs::create_dir_all(dir.join("proc")).unwrap();
        let (host, stop) = (Host::at(dir), Stop::new().unwrap());
        let theirs = stop.clone();
        let (told, tells) = std::sync::mpsc::channel();
        let run = move || {
            let runtime = nightwatt_clock::Clock::real().runtime().unwrap();
            runtime.block_on(async {
                let agent = Agent::open(config, &host).unwrap();
                told.send(agent.addresses()[0]).unwrap();
                let stopped = tokio::task::spawn_blocking(move || {
                    assert_eq!(theirs.wait_until(Mono::NEVER), Woken::Stopped);
                });
                agent.run(async { stopped.await.unwrap() }).await.unwrap();
            });
        };
        let thread = Some(std::thread::spawn(run));
        Self { address: tells.recv().unwrap(), stop, thread }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the agent panicked");
    }
}

/// Sleep is a command that writes a file and is over at once; the machine stays up.
const WRITES: &str = "[alarm]\ndead_man = \"0\"\ntimers = []\ncron = false\n[inhibit]\nusers = false\n\
                      ssh_ports = []\nsystemd = false\ntimers_within = \"0\"\n";

fn sleep(dir: &Path) -> String {
    let [file, news] = ["slept", "news"].map(|name| dir.join(name).display().to_string());
    let command = format!("echo >> {file}; test ! -p {news} || echo asleep > {news}");
    sleep_by(&command)
}

/// What a command may take before it is killed is longer than any busy machine needs.
fn sleep_by(command: &str) -> String {
    format!("[sleep]\nhow = \"command\"\nwithin = \"1m\"\ncommand = \"{command}\"\n{WRITES}")
}

fn free_address() -> SocketAddr {
    nightwatt_needs::free_udp_address()
}

fn driver(rig: &Rig, address: SocketAddr, listen: Option<SocketAddr>) -> DriverConfig {
    let listen = listen.map(|at| format!("listen = \"{at}\"\n")).unwrap_or_default();
    let key = rig.path("agent.key").display().to_string();
    toml::from_str(&format!("address = \"{address}\"\nkey = \"{key}\"\ntimeout = \"1m\"\n{listen}"))
        .unwrap()
}

fn with_key(rig: &Rig) {
    key::write(&rig.path("agent.key"), &key::generate().unwrap()).unwrap();
}

/// Asks until it is up: the driver waits for an answer for two seconds only.
async fn is_up(controller: &impl Controller) {
    let until = monotonic() + Duration::from_mins(1);
    while controller.state().await.unwrap() != Observed::Up {
        assert!(monotonic() < until, "it does not answer");
    }
}

/// How often the machine was put to sleep.
fn sleeps(rig: &Rig) -> usize {
    fs::read_to_string(rig.path("slept")).unwrap_or_default().lines().count()
}

#[test]
fn a_machine_sleeps_when_it_is_told_and_says_that_it_leaves_and_is_back() {
    let rig = Rig::new();
    with_key(&rig);
    let listen = free_address();
    // The driver first: the agent says that it is up when it starts.
    let context = rig.context();
    let at = free_address();
    let controller = driver(&rig, at, Some(listen)).build(&context).unwrap();
    // Its command fails once it is told to: what is heard before that must not be forgotten for what comes after.
    let _go = rig.news("go");
    let [slept, go] = ["slept", "go"].map(|name| rig.path(name).display().to_string());
    let fails = sleep_by(&format!("echo >> {slept}; read -r _ < {go}; exit 1"));
    let machine = Machine::start(rig.dir.path(), &at.to_string(), Some(listen), &fails);
    assert_eq!(machine.address, at);
    rig.run(async {
        assert_eq!(controller.heard().await, Heard::Back);
        is_up(&controller).await;
        for order in 1..=2 {
            controller.sleep().await.unwrap();
            assert_eq!(controller.heard().await, Heard::Leaving);
            fs::write(rig.path("go"), "on\n").unwrap();
            // It did not fall asleep, and says so.
            assert_eq!(controller.heard().await, Heard::StayedAwake);
            assert_eq!(sleeps(&rig), order);
        }
    });
    drop(machine);
    let record = nightwatt_agent::record::read(&rig.path("state")).unwrap();
    let events: Vec<_> = record
        .iter()
        .map(|entry| serde_json::to_value(entry).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(events, ["booted", "suspending", "failed", "suspending", "failed", "stopped"]);
}

#[test]
fn a_machine_that_is_needed_stays_awake_and_says_why() {
    let rig = Rig::new();
    with_key(&rig);
    // A script that is written while the agent may run it could not be run.
    let done = rig.path("done");
    let may_sleep = format!("[ -e '{}' ] && exit 0\necho 'a backup runs'\nexit 1", done.display());
    let script = stub(&rig, "may-sleep", &may_sleep);
    let more = format!("{}script = [\"{}\"]\n", sleep(rig.dir.path()), script.display());
    let machine = Machine::start(rig.dir.path(), "127.0.0.1:0", None, &more);
    let controller = driver(&rig, machine.address, None).build(&rig.context()).unwrap();
    let mut news = rig.news("news");
    rig.run(async {
        let error = controller.sleep().await.unwrap_err();
        let Error::Inhibited { reasons } = &error else { panic!("{error}") };
        assert!(reasons.ends_with("may-sleep: a backup runs"), "{reasons}");
        assert!(error.retryable());
        fs::write(&done, "").unwrap();
        controller.sleep().await.unwrap();
        assert_eq!(news.line().await, "asleep");
    });
    drop(machine);
    assert_eq!(sleeps(&rig), 1);
}

#[test]
fn without_an_alarm_clock_the_machine_is_not_put_to_sleep_and_the_error_names_the_cure() {
    let rig = Rig::new();
    with_key(&rig);
    let more = sleep(rig.dir.path()).replace("dead_man = \"0\"", "dead_man = \"24h\"");
    let machine = Machine::start(rig.dir.path(), "127.0.0.1:0", None, &more);
    let controller = driver(&rig, machine.address, None).build(&rig.context()).unwrap();
    let error = rig.run(controller.sleep()).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("there is no /sys/class/rtc/rtc0") && said.contains("dead_man = \"0\""),
        "{said}"
    );
    drop(machine);
    assert_eq!(sleeps(&rig), 0);
}

#[test]
fn an_agent_that_is_away_or_has_another_key_is_not_waited_for_for_ever() {
    let rig = Rig::new();
    with_key(&rig);
    let nowhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = driver(&rig, nowhere.local_addr().unwrap(), None);
    config.timeout = Duration::from_millis(300);
    let controller = config.build(&rig.context()).unwrap();
    let error = rig.run(controller.sleep()).unwrap_err();
    assert!(error.to_string().contains("did not answer within 300ms"), "{error}");
    for cure in ["awake?", "nightwatt-agent", "firewall", "same key"] {
        assert!(error.hint().contains(cure), "{cure}: {}", error.hint());
    }
    assert_eq!(rig.run(controller.state()).unwrap(), Observed::Unknown);
    // The same address, an agent there, and another key.
    let other = Rig::new();
    with_key(&other);
    let machine = Machine::start(other.dir.path(), "127.0.0.1:0", None, &sleep(other.dir.path()));
    config.address = machine.address;
    let controller = config.build(&rig.context()).unwrap();
    let error = rig.run(controller.sleep()).unwrap_err();
    assert!(matches!(error, Error::Agent(_)), "{error}");
    assert_eq!(sleeps(&other), 0);
}

#[test]
fn announcements_that_are_played_again_are_not_believed_and_older_ones_not_even_answered() {
    let rig = Rig::new();
    with_key(&rig);
    let key = key::Key::read(&rig.path("agent.key")).unwrap();
    let listen = free_address();
    let config = driver(&rig, free_address(), Some(listen));
    let context = rig.context();
    // Of the machine that the driver knows.
    let agent = UdpSocket::bind((nightwatt_needs::own_address(), 0)).unwrap();
    let says = |event, counter, key: &key::Key| {
        let news = News { event, boot: [1; 16], counter, wall_ms: 0 };
        let nonce = Nonce([counter as u8; 16]);
        agent.send_to(&Message { nonce, body: Body::News(news) }.seal(key), listen).unwrap();
    };
    let answer = || {
        let mut buffer = [0; 100];
        let length = agent.recv(&mut buffer).unwrap();
        let sealed = nightwatt_agent::protocol::Sealed::parse(&buffer[..length]).unwrap();
        sealed.open(&key).unwrap().body
    };
    let controller = config.build(&context).unwrap();
    says(Event::Back, 5, &key);
    assert_eq!(answer(), Body::Ack(5));
    // The next answer is to a repetition of the last.
    says(Event::Leaving, 4, &key);
    says(Event::Leaving, 5, &key);
    assert_eq!(answer(), Body::Ack(5));
    assert_eq!(rig.run(controller.heard()), Heard::Back);
    // Nor is a stranger's.
    says(Event::Leaving, 9, &key::Key::new(&[1; 32]).unwrap());
    says(Event::Leaving, 6, &key);
    assert_eq!(answer(), Body::Ack(6));
    // Only the last is kept for a caller that asks later.
    says(Event::Ready, 7, &key);
    assert_eq!(answer(), Body::Ack(7));
    assert_eq!(rig.run(controller.heard()), Heard::Back);
    // A second site may listen on the same address, with the same key; and a proxy that starts again
    // remembers.
    let mut other = rig.context();
    other.site = "other.example.org".to_owned();
    let second = config.build(&other).unwrap();
    drop(controller);
    let controller = config.build(&context).unwrap();
    says(Event::Leaving, 7, &key);
    answer();
    says(Event::Back, 8, &key);
    answer();
    assert_eq!(rig.run(controller.heard()), Heard::Back);
    assert_eq!(rig.run(second.heard()), Heard::Back);
    drop((controller, second));
    // The address is free again.
    UdpSocket::bind(listen).unwrap();
}

#[test]
fn a_key_that_others_can_read_is_refused_with_the_cure() {
    let rig = Rig::new();
    with_key(&rig);
    let config = driver(&rig, free_address(), None);
    let path = rig.path("agent.key");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o604)).unwrap();
    let error = config.build(&rig.context()).unwrap_err();
    assert!(
        error.to_string().contains("can be read by everybody")
            && error.hint().contains("chmod 600")
    );
    fs::remove_file(&path).unwrap();
    let error = config.build(&rig.context()).unwrap_err();
    assert!(error.hint().contains("nightwatt agent key -o"), "{}", error.hint());
}

#[test]
fn a_right_order_is_obeyed_amid_a_hundred_thousand_hostile_messages() {
    const HOSTILE: usize = 100_000;
    let rig = Rig::new();
    with_key(&rig);
    let key = key::Key::read(&rig.path("agent.key")).unwrap();
    let machine = Machine::start(rig.dir.path(), "127.0.0.1:0", None, &sleep(rig.dir.path()));
    let controller = driver(&rig, machine.address, None).build(&rig.context()).unwrap();
    let kinds = hostile(&key);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut news = rig.news("news");
    let before = resident_kib();
    let (began, is_answered) = (monotonic(), AtomicBool::new(false));
    let answered = std::thread::scope(|scope| {
        let attack = scope.spawn(|| {
            let mut sent = 0;
            let has_time = || monotonic().since(began) < Duration::from_mins(1);
            while sent < HOSTILE || (!is_answered.load(Ordering::Relaxed) && has_time()) {
                // What the kernel has no room for is lost, as on any network.
                let _ = socket.send_to(&kinds[sent % kinds.len()], machine.address);
                sent += 1;
            }
            (sent, monotonic().since(began))
        });
        let order = rig.run(controller.sleep());
        let answered = monotonic().since(began);
        is_answered.store(true, Ordering::Relaxed);
        let (sent, attacked) = attack.join().unwrap();
        println!(
            "{sent} hostile messages sent in {attacked:?}; the order was answered after {answered:?}"
        );
        order.unwrap();
        answered
    });
    assert_eq!(rig.run(news.line()), "asleep");
    // And after the flood too.
    rig.run(is_up(&controller));
    let grown = resident_kib().saturating_sub(before);
    println!("answered {answered:?}; resident memory grew by {grown} KiB");
    // The socket's buffer is the kernel's. A hundred bytes for each message would be 9,700 KiB.
    assert!(grown < 4096, "{grown} KiB");
    drop(machine);
    assert_eq!(sleeps(&rig), 1);
    let mut buffer = [0; 2000];
    socket.set_nonblocking(true).unwrap();
    // Of all that, the only answers were challenges to the recorded HELLO, which is authentic.
    while let Ok(length) = socket.recv(&mut buffer) {
        assert_eq!(buffer[4], 2, "a challenge, {length} bytes");
    }
}

/// Recorded, forged, truncated, reflected, stale, of an unknown key, and rubbish.
fn hostile(key: &key::Key) -> Vec<Vec<u8>> {
    use nightwatt_agent::protocol::{Challenge, Verb};
    let nonce = Nonce([9; 16]);
    let seal = |body, key: &key::Key| Message { nonce, body }.seal(key);
    let order = |slot| Body::Order(Challenge { slot, token: [3; 16] }, Verb::Sleep, 30_000);
    let stale = seal(order(0), key);
    let mut forged = seal(order(u64::MAX), key);
    *forged.last_mut().unwrap() ^= 1;
    let stranger = key::Key::new(&[8; 32]).unwrap();
    let news = News { event: Event::Leaving, boot: [0; 16], counter: 1, wall_ms: 0 };
    vec![
        stale.clone(),
        forged,
        stale[..40].to_vec(),
        seal(Body::News(news), key),
        seal(Body::Hello, &stranger),
        seal(Body::Hello, key),
        vec![0xff; 1400],
        Vec::new(),
        seal(order(u64::MAX), key),
    ]
}

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
