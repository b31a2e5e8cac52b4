//! gRPC: a client and a server of grpcio, with the proxy between them: HTTP/2 by TLS from the one, without TLS to the
//! other.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nightwatt_gateway::config::CertificateConfig;

use crate::origin_tls::Made;
use crate::passthrough_programs::{run, succeeded};
use crate::stage::{asleep, awake};
use crate::tls::by_tls;

/// Echoes without Protocol Buffers: the methods of a service as functions of bytes.
const SERVER: &str = r#"
import sys, grpc
from concurrent import futures
def unary(request, context):
    context.set_trailing_metadata((("x-length", str(len(request))),))
    if request == b"fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
    return request
def stream(requests, context):
    for request in requests:
        yield request
handlers = {"Unary": grpc.unary_unary_rpc_method_handler(unary), "Stream": grpc.stream_stream_rpc_method_handler(stream)}
server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"#;

const CLIENT: &str = r#"
import sys, queue, grpc
port, chain = sys.argv[1:]
trust = grpc.ssl_channel_credentials(open(chain, "rb").read())
options = (("grpc.ssl_target_name_override", "blog.example"), ("grpc.default_authority", "blog.example"))
with grpc.secure_channel("127.0.0.1:" + port, trust, options) as channel:
    unary = channel.unary_unary("/test.Echo/Unary")
    answer, call = unary.with_call(b"x" * 100000, timeout=60)
    assert answer == b"x" * 100000
    assert dict(call.trailing_metadata())["x-length"] == "100000", call.trailing_metadata()
    try:
        unary(b"fail", timeout=60)
        assert False
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND and error.details() == "no such thing", error
    # Each request is answered before the next one is made.
    asks = queue.Queue()
    answers = channel.stream_stream("/test.Echo/Stream")(iter(asks.get, None), timeout=60)
    for number in range(20):
        asks.put(b"%d" % number)
        assert next(answers) == b"%d" % number
    asks.put(None)
    assert list(answers) == [] and answers.code() == grpc.StatusCode.OK
print("all right")
"#;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Python that has grpcio.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("NIGHTWATT_GRPC").map(PathBuf::from);
    let python = named.or_else(|| nightwatt_needs::program("python3"))?;
    let has_it = Command::new(&python).args(["-c", "import grpc"]).stderr(Stdio::null()).status();
    let has_it = has_it.is_ok_and(|it| it.success());
    if !has_it {
        println!("skipped: no Python with grpcio (`tools/grpcio` makes one)");
    }
    has_it.then_some(python)
}

#[test]
fn calls_and_streams_of_grpc_pass_with_their_trailers_and_wake_the_server() {
    let Some(python) = python() else { return };
    let Some(made) = Made::new("DNS:blog.example", "10") else { return };
    let mut command = Command::new(&python);
    command.args(["-c", SERVER]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut server = Server(command.spawn().unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let origin = format!("127.0.0.1:{}", port.trim());
    let certificate = CertificateConfig { chain: made.chain(), key: made.key(), acme: Vec::new() };
    for sleeps in [false, true] {
        let setup = if sleeps { asleep() } else { awake() };
        let origin = origin.clone();
        let setup = setup.real().site(move |site| {
            site.origin.authority = origin;
            site.origin.by_h2c = true;
        });
        by_tls(setup, &certificate).play(async |stage| {
            let mut client = Command::new(&python);
            client.args(["-c", CLIENT, &stage.tls_address().port().to_string()]).arg(made.chain());
            assert_eq!(succeeded(&run(client).await).trim(), "all right");
            assert_eq!(stage.commands().0, u32::from(sleeps));
        });
    }
}
