//! A scripted origin: it says what the test tells it to say, well-formed or not.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use crate::stage::watched;
use crate::wire::{Ahead, Fields};

/// A request as the origin got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Fields,
    /// Once the script has read it, and whether all of it came.
    pub(crate) body: Option<(Vec<u8>, bool)>,
    /// The trailers behind it.
    pub(crate) trailers: Vec<String>,
    pub(crate) at: Mono,
    /// Number of the connection, from 1.
    pub(crate) connection: usize,
}

impl Seen {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    pub(crate) fn text(&self) -> String {
        let (body, whole) = self.body.clone().expect("the body was read");
        assert!(whole, "the body was cut: {body:?}");
        String::from_utf8(body).unwrap()
    }
}

/// What the origin does about a request, one after the other.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Reads the request's body.
    Body,
    /// Writes this.
    Say(Vec<u8>),
    /// Says whatever it hears, to the end of the connection.
    Echo,
    /// Lets so much time pass.
    Take(std::time::Duration),
    /// Waits until the test opens the gate.
    Await(Gate),
    /// Closes the connection.
    Close,
    /// Says nothing any more, and keeps the connection.
    Hang,
}

/// Lets through one at a time.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }

    async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// An answer that is well-formed unless told otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Says {
    head: String,
    body: String,
}

/// 200 with this body.
pub(crate) fn ok(body: &str) -> Says {
    status(200, body)
}

/// That status with this body.
pub(crate) fn status(code: u16, body: &str) -> Says {
    Says { head: format!("HTTP/1.1 {code} Whatever\r\n"), body: body.to_owned() }
}

impl Says {
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.head, "{name}: {value}\r\n");
        self
    }

    /// Everything, with its length.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = self.body.len();
        let length = if self.head.starts_with("HTTP/1.1 304") {
            String::new()
        } else {
            format!("Content-Length: {length}\r\n")
        };
        format!("{}{length}\r\n{}", self.head, self.body).into_bytes()
    }

    /// Reads the request's body, and says it.
    pub(crate) fn acts(&self) -> Vec<Act> {
        vec![Act::Body, Act::Say(self.bytes())]
    }
}

/// Reads the request's body, then says these bytes as they are.
pub(crate) fn raw(bytes: &str) -> Vec<Act> {
    vec![Act::Body, Act::Say(bytes.as_bytes().to_vec())]
}

type Script = Arc<dyn Fn(&Seen) -> Vec<Act> + Send + Sync>;

/// The origin; clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Origin(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    /// Keeps the port while the origin does not listen: tests in other processes cannot get it.
    _port: Socket,
    clock: Clock,
    state: Mutex<State>,
    news: Notify,
}

struct State {
    script: Script,
    /// What probes are answered: acts too.
    probes: Script,
    seen: Vec<Seen>,
    connections: usize,
    listening: Option<JoinHandle<()>>,
    serving: Vec<JoinHandle<()>>,
}

/// A socket that shares its port with others of this test, and that refuses connections until it listens.
fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Origin({})", self.0.address)
    }
}

impl Origin {
    /// Takes a port, and does not listen yet.
    pub(crate) fn new(clock: &Clock) -> Self {
        let port = bound(SocketAddr::from(([127, 0, 0, 2], 0)));
        let state = State {
            script: Arc::new(|seen| ok(&format!("this is {}", seen.target)).acts()),
            probes: Arc::new(|_| ok("up").acts()),
            seen: Vec::new(),
            connections: 0,
            listening: None,
            serving: Vec::new(),
        };
        Self(Arc::new(Shared {
            address: port.local_addr().unwrap().as_socket().unwrap(),
            _port: port,
            clock: clock.clone(),
            state: Mutex::new(state),
            news: Notify::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// What it does about requests from now on.
    pub(crate) fn script(&self, script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) {
        self.state().script = Arc::new(script);
    }

    /// It says this to every request from now on.
    pub(crate) fn says(&self, says: Says) {
        self.script(move |_| says.acts());
    }

    /// What it does about probes from now on.
    pub(crate) fn probed(&self, script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) {
        self.state().probes = Arc::new(script);
    }

    /// Requests so far, probes apart.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// Method and target of the requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect()
    }

    /// The only request so far.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        seen.into_iter().next().unwrap()
    }

    /// Waits until so many requests (their heads) have come.
    pub(crate) async fn saw(&self, count: usize) {
        self.when(|state| state.seen.len() >= count).await;
    }

    async fn when(&self, so: impl Fn(&State) -> bool) {
        watched("the origin to see a request", async {
            loop {
                let news = self.0.news.notified();
                if so(&self.state()) {
                    return;
                }
                news.await;
            }
        })
        .await;
    }

    /// Listens.
    pub(crate) fn up(&self) {
        let mut state = self.state();
        if state.listening.is_some() {
            return;
        }
        let listener = bound(self.0.address);
        listener.listen(1024).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener.into()).unwrap();
        let origin = self.clone();
        state.listening = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut state = origin.state();
                state.connections += 1;
                let number = state.connections;
                let conversation = origin.clone().converse(stream, number);
                state.serving.push(tokio::spawn(conversation));
            }
        }));
    }

    /// Listens no more, and closes what is open.
    pub(crate) async fn down(&self) {
        let tasks: Vec<_> = {
            let mut state = self.state();
            let listening = state.listening.take();
            listening.into_iter().chain(state.serving.drain(..)).collect()
        };
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
    }

    /// Its queue of connections is full until it goes down: connections are neither accepted nor refused.
    pub(crate) async fn shut_out(&self) {
        self.down().await;
        let port = bound(self.0.address);
        port.listen(0).unwrap();
        let queue = (port, std::net::TcpStream::connect(self.0.address).unwrap());
        self.state().listening = Some(tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(queue);
        }));
    }

    /// Closes open connections, and goes on listening.
    pub(crate) async fn hang_up(&self) {
        let tasks = std::mem::take(&mut self.state().serving);
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
    }

    async fn converse(self, mut stream: TcpStream, connection: usize) {
        let mut ahead = Ahead::default();
        while let Some(head) = ahead.until(&mut stream, b"\r\n\r\n").await {
            let (line, fields) = Fields::of_head(&head);
            let mut words = line.split(' ').map(str::to_owned);
            let seen = Seen {
                method: words.next().unwrap_or_default(),
                target: words.next().unwrap_or_default(),
                fields,
                body: None,
                trailers: Vec::new(),
                at: self.0.clock.now().mono,
                connection,
            };
            let is_probe = seen.fields.all("user-agent") == ["nightwatt-probe"];
            let (script, index) = {
                let mut state = self.state();
                if !is_probe {
                    state.seen.push(seen.clone());
                }
                let script = if is_probe { &state.probes } else { &state.script };
                (Arc::clone(script), (!is_probe).then(|| state.seen.len() - 1))
            };
            self.0.news.notify_waiters();
            for act in script(&seen) {
                match act {
                    Act::Body => {
                        let body = ahead.body(&mut stream, &seen.fields, false).await;
                        if let Some(index) = index {
                            let mut state = self.state();
                            state.seen[index].body = Some(body);
                            state.seen[index].trailers = std::mem::take(&mut ahead.1);
                        }
                    }
                    Act::Say(bytes) => {
                        if stream.write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                    Act::Echo => loop {
                        let bytes = ahead.some(&mut stream).await;
                        if bytes.is_empty() || stream.write_all(&bytes).await.is_err() {
                            return;
                        }
                    },
                    Act::Take(time) => {
                        let clock = &self.0.clock;
                        clock.parked(clock.sleep(time)).await;
                    }
                    Act::Await(gate) => gate.pass().await,
                    Act::Close => return,
                    Act::Hang => std::future::pending().await,
                }
            }
        }
    }
}
