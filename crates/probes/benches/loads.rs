//! What a handful of watched functions costs a compiler, a compressor, a web server and a database, in
//! one run.
//!
//! `make bench-caliper-loads`. Needs root, bzip2, nginx and `PostgreSQL` 15. CPU time is the programs' own
//! with all they start, the kernel's on their behalf included (and so the probes'); the least of several
//! runs in turn, since whatever else runs here only adds.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_probes::{InstructionKind, ProbeSite, SectionProbes, Watch, function_entries};
use rustix::process::{Pid, Signal, kill_process};
use wait4::Wait4;

const ROUNDS: usize = 11;
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";
/// Small requests, over each of two connections.
const REQUESTS: usize = 20_000;
/// Large ones, each over a connection of its own.
const PAGES: usize = 300;

/// Something that does the same work each time.
struct Load {
    name: &'static str,
    functions: &'static [&'static str],
    /// From one place to another.
    pairs: &'static [(&'static str, &'static str)],
    run: fn(&Path) -> f64,
}

const LOADS: [Load; 6] = [
    Load {
        name: "gcc -O1, 5 files (the assembler's libbfd)",
        functions: &[
            "libbfd-2.40-system.so:bfd_set_section_contents",
            "libbfd-2.40-system.so:bfd_close",
            "libbfd-2.40-system.so:bfd_make_section_with_flags",
        ],
        pairs: &[],
        run: compile,
    },
    Load {
        name: "bzip2, 16 MB",
        functions: &[
            "libbz2.so.1.0:BZ2_bzCompress",
            "libbz2.so.1.0:BZ2_blockSort",
            "libbz2.so.1.0:BZ2_compressBlock",
            "libbz2.so.1.0:BZ2_hbMakeCodeLengths",
        ],
        pairs: &[],
        run: compress,
    },
    Load {
        name: "nginx, 600 pages of 256 KiB, compressed",
        functions: REQUEST,
        pairs: &[],
        run: serve_pages,
    },
    Load {
        name: "nginx, 40,000 files of 4 KiB over two connections",
        functions: REQUEST,
        pairs: &[],
        run: serve,
    },
    Load {
        name: "PostgreSQL, pgbench, 6,000 transactions",
        functions: &["/usr/lib/postgresql/15/bin/postgres:XLogFlush"],
        pairs: &[(
            "/usr/lib/postgresql/15/bin/postgres:usdt:transaction__start",
            "/usr/lib/postgresql/15/bin/postgres:usdt:transaction__commit",
        )],
        run: transact,
    },
    Load {
        name: "the same, five functions of each statement",
        functions: &[
            "/usr/lib/postgresql/15/bin/postgres:PortalRun",
            "/usr/lib/postgresql/15/bin/postgres:pg_plan_queries",
            "/usr/lib/postgresql/15/bin/postgres:CommitTransactionCommand",
            "/usr/lib/postgresql/15/bin/postgres:heap_update",
            "/usr/lib/postgresql/15/bin/postgres:XLogFlush",
        ],
        pairs: &[],
        run: transact,
    },
];

const REQUEST: &[&str] = &[
    "nginx:ngx_http_process_request",
    "nginx:ngx_http_send_header",
    "nginx:ngx_http_finalize_request",
];

fn main() {
    // Where the project's builds go is a disk; temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("OUT_DIR")).expect("a folder");
    prepare(folder.path());
    println!(
        "| load | CPU time, s | watched | | calls/s of CPU time | of them stepped through |\n|---|---|---|---|---|---|"
    );
    for load in LOADS {
        let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
        let (mut calls, mut stepped) = (0, 0);
        for round in 0..ROUNDS {
            // Whatever comes first in a round may find the machine other than what comes after it.
            for is_watched in [round % 2 == 0, round % 2 == 1] {
                if is_watched {
                    let (took, counts) = watched(&load, folder.path());
                    (calls, stepped) = counts;
                    with = with.min(took);
                } else {
                    without = without.min((load.run)(folder.path()));
                }
            }
        }
        let more = 100.0 * (with / without - 1.0);
        let rate = calls as f64 / with;
        let stepped = 100.0 * stepped as f64 / calls.max(1) as f64;
        println!(
            "| {} | {without:.3} | {with:.3} | {more:+.1} % | {rate:.0} | {stepped:.0} % |",
            load.name
        );
    }
    let _ = fs::remove_dir_all(data(folder.path()));
}

/// CPU time while its sections are watched, and how many calls there were, and of these such that are
/// stepped through.
fn watched(load: &Load, folder: &Path) -> (f64, (u64, u64)) {
    let mut probes = SectionProbes::load(Watch::Children).expect("it loads");
    probes.start().expect("it attaches");
    let begins = watch(&mut probes, load);
    let took = (load.run)(folder);
    let (mut calls, mut stepped) = (0, 0);
    for (number, begin) in (0..).zip(begins) {
        let ended = probes.calls(number).expect("they are told").ended;
        calls += ended;
        if begin.instruction == InstructionKind::Stepped {
            stepped += ended;
        }
    }
    (took, (calls, stepped))
}

/// Watches its sections; where each begins.
fn watch(probes: &mut SectionProbes, load: &Load) -> Vec<ProbeSite> {
    let place = |text: &str| {
        let point = text.parse().expect("a place");
        function_entries(&point).expect("it is there").swap_remove(0)
    };
    let mut begins = Vec::new();
    for (number, function) in (0..).zip(load.functions) {
        begins.push(place(function));
        probes.attach_function(number, &begins[number as usize]).expect("it attaches");
    }
    for (number, (begin, end)) in (begins.len() as u32..).zip(load.pairs) {
        begins.push(place(begin));
        probes.attach_end(number, &place(end)).expect("it attaches");
        probes.attach_begin(number, &begins[number as usize]).expect("it attaches");
    }
    begins
}

/// Sources, text that hardly repeats, a page, a database.
fn prepare(folder: &Path) {
    let mut source = String::new();
    for number in 0..300 {
        let _ = writeln!(
            source,
            "int f{number}(int n) {{ int s = 0; for (int i = 0; i < n; i++) s += i * {number} ^ s; return s; }}"
        );
    }
    fs::write(folder.join("source.c"), source).expect("it can be written");
    let mut text = String::new();
    let mut state = 1_u64;
    while text.len() < 16 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = writeln!(text, "{:x} something {:o}", state >> 20, state >> 40);
    }
    fs::write(folder.join("text"), &text).expect("it can be written");
    fs::write(folder.join("page.html"), &text[..256 << 10]).expect("it can be written");
    fs::write(folder.join("page"), &text[..4096]).expect("it can be written");
    let data = data(folder);
    fs::create_dir_all(&data).expect("a folder");
    let user = fs::read_to_string("/etc/passwd").expect("there are users");
    let user = user.lines().find_map(|line| line.strip_prefix("postgres:x:"));
    let user = user.and_then(|rest| rest.split(':').next()?.parse().ok());
    chown(&data, user, None).expect("it is PostgreSQL's");
    let mut initdb = as_postgres("initdb");
    run(initdb.arg("-D").arg(data.join("db")).args(["-A", "trust", "--no-sync"]));
    let server = Database::start(folder);
    run(as_postgres("pgbench").arg("-h").arg(&data).args(["-q", "-i", "-s", "5", "postgres"]));
    server.stop();
}

/// Below a folder that everybody may enter.
fn data(folder: &Path) -> std::path::PathBuf {
    std::env::temp_dir().join(format!(
        "nightwatt-bench-{}",
        folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    ))
}

fn run(command: &mut Command) -> f64 {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    seconds(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// CPU time of a program and all it has waited for.
fn seconds(child: Child) -> f64 {
    let waited = child.wait4().expect("it ends");
    assert!(waited.status.success(), "{:?}", waited.status);
    (waited.rusage.utime + waited.rusage.stime).as_secs_f64()
}

fn compile(folder: &Path) -> f64 {
    let work = "for i in 1 2 3 4 5; do gcc -O1 -c source.c -o object.o; done";
    run(Command::new("sh").args(["-c", work]).current_dir(folder))
}

fn compress(folder: &Path) -> f64 {
    run(Command::new("bzip2").args(["-k", "-f", "text"]).current_dir(folder))
}

fn serve(folder: &Path) -> f64 {
    serve_to(folder, ask)
}

fn serve_pages(folder: &Path) -> f64 {
    serve_to(folder, ask_for_pages)
}

/// Two clients at a time.
fn serve_to(folder: &Path, client: fn(SocketAddr)) -> f64 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let configuration = format!(
        "daemon off; master_process off; error_log stderr crit; pid {0}/nginx.pid; events {{}}\n\
         http {{ access_log off; gzip on; types {{ text/html html; }} keepalive_requests 1000000; client_body_temp_path {0};\n\
         server {{ listen {free}; root {0}; }} }}\n",
        folder.display()
    );
    fs::write(folder.join("nginx.conf"), configuration).expect("it can be written");
    let mut nginx = Command::new("nginx");
    let nginx = nginx.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf")).spawn();
    let nginx = nginx.expect("nginx runs");
    until("nginx", || TcpStream::connect(free).is_ok());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| client(free));
        }
    });
    end(&nginx, Signal::TERM);
    seconds(nginx)
}

/// Requests one after the other over one connection.
fn ask(address: SocketAddr) {
    let mut connection = TcpStream::connect(address).expect("it listens");
    let mut answer = [0; 8192];
    for _ in 0..REQUESTS {
        connection.write_all(b"GET /page HTTP/1.1\r\nHost: bench\r\n\r\n").expect("it is there");
        let mut length = 0;
        let mut whole = usize::MAX;
        while length < whole {
            length += connection.read(&mut answer[length..]).expect("it answers");
            let head = answer[..length].windows(4).position(|four| four == b"\r\n\r\n");
            whole = head.map_or(usize::MAX, |head| head + 4 + 4096);
        }
    }
}

/// Requests each over a connection of its own.
fn ask_for_pages(address: SocketAddr) {
    let mut answer = Vec::new();
    for _ in 0..PAGES {
        let mut connection = TcpStream::connect(address).expect("it listens");
        let request = "GET /page.html HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
        connection.write_all(request.as_bytes()).expect("it is there");
        answer.clear();
        connection.read_to_end(&mut answer).expect("it answers");
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() < 256 << 10, "compressed");
    }
}

/// A server of `PostgreSQL`.
struct Database(Child);

impl Database {
    fn start(folder: &Path) -> Self {
        let data = data(folder);
        let mut server = as_postgres("postgres");
        server.arg("-D").arg(data.join("db")).arg("-k").arg(&data).args(["-h", "", "-F"]);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self(server.expect("PostgreSQL runs"));
        let ready = || {
            let mut ready = Command::new(format!("{POSTGRES}/pg_isready"));
            ready.arg("-q").arg("-h").arg(&data).status().is_ok_and(|status| status.success())
        };
        until("PostgreSQL", ready);
        server
    }

    /// CPU time of all its processes.
    fn stop(self) -> f64 {
        end(&self.0, Signal::INT);
        seconds(self.0)
    }
}

fn transact(folder: &Path) -> f64 {
    let server = Database::start(folder);
    let mut pgbench = as_postgres("pgbench");
    run(pgbench.arg("-h").arg(data(folder)).args(["-n", "-t", "3000", "-c", "2", "postgres"]));
    server.stop()
}

/// One of `PostgreSQL`'s programs, which refuse to be root's.
fn as_postgres(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(format!("{POSTGRES}/{program}")).current_dir("/");
    command
}

fn end(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is there");
}

fn until(what: &str, is_there: impl Fn() -> bool) {
    let stop = Stop::new().expect("a clock");
    for _ in 0..1000 {
        if is_there() {
            return;
        }
        stop.wait_until(monotonic() + Duration::from_millis(20));
    }
    panic!("{what} does not come up");
}
