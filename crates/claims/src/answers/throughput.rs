//! O6: how many bits a second the proxy passes on, of small and large bodies mixed.
//!
//! Origin, proxy and clients share this machine, each with threads of its own, over loopback: what is found
//! is the least that the proxy can do, not the most.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::{Config, Gateway, Options};
use nightwatt_load::{OriginOptions, serve_origin};

use crate::{Answer, Context, Error, Figure, Printed};

/// Bodies, and how often each is asked for in a turn: tens of bytes to hundreds of megabytes.
const MIX: [(u64, u32); 5] =
    [(64, 200), (4 << 10, 200), (256 << 10, 40), (8 << 20, 4), (200 << 20, 1)];

/// Clients at a time.
const CLIENTS: usize = 4;

/// No client begins another request after this.
const TIME: Duration = Duration::from_secs(8);

/// An exchange without progress for this time has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What was passed on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Passed {
    requests: u64,
    bytes: u64,
    seconds: f64,
}

/// O6, where it was asked for.
pub(crate) fn throughput(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    if !context.measures(printed) {
        return Ok(Answer::not_checkable(
            "some ten seconds of a busy machine: name it (`nightwatt reproduce O6`) or give `--measure`. `make \
             bench-front-door` compares with nginx and Varnish",
        ));
    }
    let passed = measure()?;
    let figures = vec![
        printed.figure("throughput", passed.bytes as f64 * 8.0 / passed.seconds / 1e9)?,
        Figure::alone("requests", passed.requests as f64, ""),
        Figure::alone("their bodies", passed.bytes as f64 / 1e9, "GB"),
        Figure::alone("in", passed.seconds, "s"),
    ];
    let build =
        if cfg!(debug_assertions) { "; this is a debug build, which is slower" } else { "" };
    let why = format!(
        "bodies of 64 B, 4 KiB, 256 KiB, 8 MiB and 200 MiB over loopback to {CLIENTS} clients, those that \
             fit from the cache; server, proxy and clients share this machine, so that it can do no less{build}"
    );
    // The least that it can do refutes nothing.
    if figures[0].agrees == Some(false) {
        let busy = "server and clients left the proxy too little of this machine: try a quiet or larger one";
        return Ok(Answer::not_checkable(format!("{busy}; {why}")).with(figures));
    }
    Ok(Answer::by(figures, why))
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// Runs it: the proxy on this thread, the server and each client on their own.
fn measure() -> Result<Passed, Error> {
    let clock = Clock::real();
    let folder = tempfile::tempdir().map_err(system("make a temporary folder"))?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(system("find a free port"))?;
    let origin = listener.local_addr().map_err(system("find a free port"))?;
    listener.set_nonblocking(true).map_err(system("listen"))?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = {
        let clock = clock.clone();
        std::thread::spawn(move || serve(&clock, listener, stopped))
    };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = {}\n\n[[site]]\nname = \"mixed\"\norigin = \
         \"http://{origin}\"\npower.simulated = {{ starts_up = true }}\nscenario.policy = \"always-on\"\n",
        toml::Value::String(folder.path().display().to_string()),
    );
    let config = Config::parse(&text, "reproduce")?;
    let runtime = clock.runtime().map_err(system("start the runtime"))?;
    let passed = runtime.block_on(async {
        let options = Options { durable: false, ..Options::default() };
        let running = Gateway::start(config, clock.clone(), options)?;
        let address = running.addresses[0];
        let started = clock.now().mono;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let clock = clock.clone();
                tokio::task::spawn_blocking(move || turns(&clock, address, client, started + TIME))
            })
            .collect();
        let mut passed = Passed::default();
        let mut failure = None;
        for client in clients {
            match client.await.map_err(io::Error::other).flatten() {
                Ok(of_client) => {
                    passed.requests += of_client.requests;
                    passed.bytes += of_client.bytes;
                }
                Err(error) => failure = Some(error),
            }
        }
        passed.seconds = clock.now().mono.since(started).as_secs_f64();
        running.stop().await;
        match failure {
            None => Ok(passed),
            Some(error) => Err(system("fetch from the proxy")(error)),
        }
    });
    // A server that has gone already needs no telling.
    let _ = stop.send(());
    let served = serving.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
    served.map_err(system("serve"))?;
    passed
}

/// The server, until it is told to stop.
fn serve(
    clock: &Clock,
    listener: TcpListener,
    stopped: tokio::sync::oneshot::Receiver<()>,
) -> io::Result<()> {
    clock.runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let options = OriginOptions { clock: clock.clone(), ..OriginOptions::default() };
        let end = async {
            let _ = stopped.await;
        };
        serve_origin(listener, options, end).await.map_err(io::Error::other)
    })
}

/// One client: turn after turn of the mix over one connection.
fn turns(clock: &Clock, proxy: SocketAddr, client: usize, until: Mono) -> io::Result<Passed> {
    let stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(256 << 10, stream);
    let mut passed = Passed::default();
    // Clients begin at different sizes, so that these are mixed at any time.
    for place in client.. {
        let (bytes, times) = MIX[place % MIX.len()];
        for time in 0..times {
            if clock.now().mono >= until {
                return Ok(passed);
            }
            // A few bodies of each size: some are asked for again, as on a site.
            fetch(&mut stream, bytes, time % 8)?;
            passed.requests += 1;
            passed.bytes += bytes;
        }
    }
    Ok(passed)
}

/// Fetches a body and lets it go.
fn fetch(stream: &mut BufReader<TcpStream>, bytes: u64, name: u32) -> io::Result<()> {
    let request = format!(
        "GET /{bytes}/{name} HTTP/1.1\r\nHost: mixed\r\nNightwatt-Replay: status=200; bytes={bytes}\r\n\r\n"
    );
    stream.get_mut().write_all(request.as_bytes())?;
    let wrong = |what: &str| io::Error::other(format!("{what} for a body of {bytes} bytes"));
    let mut line = String::new();
    stream.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200") {
        return Err(wrong(line.trim_end()));
    }
    let mut length = None;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(wrong("a head that ends early"));
        }
        match line.trim_end().split_once(':') {
            None if line.trim_end().is_empty() => break,
            Some((field, value)) if field.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<u64>().ok();
            }
            _ => {}
        }
    }
    if length != Some(bytes) {
        return Err(wrong("another length"));
    }
    let read = io::copy(&mut stream.by_ref().take(bytes), &mut io::sink())?;
    if read == bytes { Ok(()) } else { Err(wrong("an end that comes early")) }
}
