//! Containers find themselves: a real podman, whose containers come and go while the gateway serves.

#![expect(clippy::disallowed_methods, reason = "containers live in real time")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::control::Demand;
use nightwatt_gateway::{Config, Gateway, Options, Running};
use nightwatt_needs::{free_address, program, static_program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Podman with all that it keeps in a folder, and its socket.
struct Podman {
    dir: tempfile::TempDir,
    service: Child,
}

impl Podman {
    /// With an image of busybox.
    fn start() -> Option<Self> {
        program("podman")?;
        program("runc")?;
        let busybox = static_program("busybox")?;
        if !rustix::process::geteuid().is_root() {
            println!("skipped: not root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::copy(busybox, root.join("busybox")).unwrap();
        let image = dir.path().join("image.tar");
        done(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&image).arg(".").output());
        let mut service = podman_in(dir.path());
        service.args(["system", "service", "--time", "0"]);
        service.arg(format!("unix://{}", dir.path().join("api.sock").display()));
        let service = service.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let podman = Self { dir, service };
        podman.run(&["import", &image.display().to_string(), "local/web:1"]);
        Some(podman)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("api.sock")
    }

    fn run(&self, args: &[&str]) -> String {
        let output = done(podman_in(self.dir.path()).args(args).output());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Creates a container that runs this command on the host's network.
    fn create(&self, name: &str, labels: &[&str], command: &[&str]) {
        let mut args = vec!["create", "--name", name, "--network", "host"];
        args.extend(["--ulimit", "nofile=1000:1000", "--ulimit", "nproc=1000:1000"]);
        args.extend(labels.iter().flat_map(|&label| ["--label", label]));
        args.push("local/web:1");
        args.extend(command);
        self.run(&args);
    }

    fn state(&self, name: &str) -> String {
        self.run(&["inspect", "--format", "{{.State.Status}}", name])
    }

    /// When it was started or ended last, as podman prints it: times of the same form.
    fn when(&self, name: &str, what: &str) -> String {
        self.run(&["inspect", "--format", &format!("{{{{.State.{what}.UnixNano}}}}"), name])
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = podman_in(self.dir.path()).args(["rm", "--force", "--time", "0", "--all"]).output();
        let _ = self.service.kill();
        let _ = self.service.wait();
        let _ = Command::new("umount").arg(self.dir.path().join("storage/overlay")).output();
    }
}

fn podman_in(dir: &Path) -> Command {
    let mut command = Command::new("podman");
    for (option, folder) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
        command.arg(option).arg(dir.join(folder));
    }
    command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs"]);
    command
}

#[track_caller]
fn done(output: std::io::Result<Output>) -> Output {
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    output
}

/// Serves until that is so.
async fn until(running: &mut Running, what: &str, so: impl Fn(&Running) -> bool) {
    let waits = async {
        while !so(running) {
            tokio::select! {
                Some(demand) = running.demands.recv() => match demand {
                    Demand::Containers => drop(running.reload_containers().await.unwrap()),
                    Demand::Reload(_) | Demand::HandOver(_) => panic!("no test asks for that"),
                },
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(2), waits).await;
    assert!(waited.is_ok(), "waited for {what}: {:?}", states(running));
}

fn states(running: &Running) -> Vec<(String, String)> {
    let sites = running.gateway.status().sites;
    sites.into_iter().map(|it| (it.name, it.state)).collect()
}

/// What became of each container with labels.
fn outcomes(running: &Running) -> Vec<String> {
    let containers = running.gateway.status().containers.unwrap();
    assert!(containers.up, "{containers:?}");
    let words =
        containers.containers.iter().map(|it| format!("{} {}", it.name, it.outcome.as_str()));
    words.collect()
}

fn is(running: &Running, site: &str, state: &str) -> bool {
    states(running).iter().any(|(name, is)| name == site && is == state)
}

/// The status of an answer.
async fn get(running: &Running, host: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(running.addresses[0]).await.unwrap();
    let ask = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_container_becomes_a_site_is_woken_with_what_it_needs_and_goes() {
    let Some(podman) = Podman::start() else { return };
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(story(&podman, &clock));
}

async fn story(podman: &Podman, clock: &Clock) {
    let listens = async {
        while tokio::net::UnixStream::connect(podman.socket()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let is_listening = tokio::time::timeout(Duration::from_mins(2), listens).await;
    assert!(is_listening.is_ok(), "podman does not listen at {}", podman.socket().display());
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{}\"\n[scenario.server]\nmin_on = \"1s\"\nquiet = \"1s\"\n\
         [containers]\npodman = \"{}\"\n[containers.site]\nkind = \"app\"\n",
        podman.dir.path().join("state").display(),
        podman.socket().display()
    );
    let config = Config::parse(&text, "test.toml").unwrap();
    let mut running = Gateway::start(config, clock.clone(), Options::default()).unwrap();
    assert_eq!(states(&running), []);

    let sleeps = ["/busybox", "sleep", "100000"];
    podman.create("db", &[], &sleeps);
    podman.create("cache", &["nightwatt.group=wiki"], &sleeps);
    let at = free_address();
    let labels = ["enable=true", "hosts=wiki", "policy=timeout 1s", "needs=db", "group=wiki"];
    let mut labels: Vec<String> = labels.iter().map(|it| format!("nightwatt.{it}")).collect();
    labels.extend([
        format!("nightwatt.address={}", at.ip()),
        format!("nightwatt.port={}", at.port()),
    ]);
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let at = at.to_string();
    podman.create("wiki", &labels, &["/busybox", "httpd", "-f", "-p", &at, "-h", "/"]);
    // Wrong labels concern only their own container.
    podman.create("broken", &["nightwatt.enable=true", "nightwatt.hosts=a b"], &sleeps);
    until(&mut running, "the site", |it| is(it, "wiki", "asleep")).await;
    // Nor do those that claim the host of an older one.
    let labels = ["nightwatt.enable=true", "nightwatt.hosts=wiki", "nightwatt.port=1"];
    podman.create("aaa", &labels, &sleeps);
    until(&mut running, "the conflict", |it| outcomes(it).len() == 4).await;
    let wanted = ["cache no-site", "wiki site", "broken wrong-label", "aaa conflict"];
    assert_eq!(outcomes(&running), wanted, "the oldest first");
    assert_eq!(states(&running).len(), 1);

    let gateway = &running;
    assert_eq!(get(gateway, "wiki").await, "404", "busybox has no index, and its httpd answers");
    assert_eq!(["db", "cache", "wiki"].map(|it| podman.state(it)), ["running"; 3]);
    let started = ["db", "cache", "wiki"].map(|it| podman.when(it, "StartedAt"));
    assert!(started.is_sorted(), "in order: {started:?}");

    until(&mut running, "its sleep", |it| is(it, "wiki", "asleep")).await;
    let have_ended =
        |_: &Running| ["db", "cache", "wiki"].map(|it| podman.state(it)) == ["exited"; 3];
    until(&mut running, "the end of what it needs", have_ended).await;
    let ended = ["wiki", "cache", "db"].map(|it| podman.when(it, "FinishedAt"));
    assert!(ended.is_sorted(), "in the reverse order: {ended:?}");

    podman.run(&["rm", "aaa"]);
    podman.run(&["rm", "wiki"]);
    until(&mut running, "its end", |it| states(it).is_empty()).await;
    assert_eq!(get(&running, "wiki").await, "421");
    running.stop().await;
}
