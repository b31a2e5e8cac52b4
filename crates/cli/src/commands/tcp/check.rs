//! `nightwatt tcp check`: what a capture shows about connections, and whether the kernels agree.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_tcp::capture::{self, At, Beside, CaptureReport, Fetched, Pair};
use serde_json::{Value, json};

use crate::ExitStatus;
use crate::errors::Failure;
use crate::output;

/// `tcp check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Capture that `tcpdump -w` or `dumpcap` wrote; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) capture: PathBuf,
    /// Where it was captured: at the side that sends most, or at the other. Needed where handshakes do not show
    /// it, as between sides within 200 µs of each other (one machine, one switch)
    #[arg(long, value_name = "SIDE")]
    pub(crate) at: Option<CaptureAt>,
    /// Compare with the kernels' figures in the JSON of `tcp fetch`
    #[arg(long, value_name = "FETCH.json", value_hint = ValueHint::FilePath)]
    pub(crate) beside: Option<PathBuf>,
    /// Connections that are listed one by one; the sums and `--beside` include all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) rows: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A side of a connection.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CaptureAt {
    /// At the side that sends
    Sender,
    /// At the side that receives
    Receiver,
}

/// Bytes that one read asks for.
const CHUNK: usize = 1 << 20;

pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let at = args.at.map(|at| match at {
        CaptureAt::Sender => At::Sender,
        CaptureAt::Receiver => At::Receiver,
    });
    let fetched = args.beside.as_deref().map(fetched).transpose()?;
    let reader: Box<dyn Read> = if args.capture.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.capture).map_err(|error| unread(&args.capture, &error))?;
        Box::new(BufReader::with_capacity(CHUNK, file))
    };
    // All rows are compared, however many are printed.
    let kept = if fetched.is_some() { usize::MAX } else { args.rows };
    let mut report =
        capture::check(reader, at, kept).map_err(|error| unread(&args.capture, &error))?;
    let beside = fetched.map(|fetched| capture::beside(&report.connections, &fetched));
    report.connections.truncate(args.rows);
    if args.json {
        print_json(&report, beside.as_ref())?;
    } else {
        let mut text = capture::capture_text(&report);
        if let Some(beside) = &beside {
            write_beside(&mut text, beside);
        }
        output::print(&text)?;
    }
    if report.packets.tcp == 0 && report.packets.all > 0 {
        return Err(Failure::new("there is no packet of TCP in it that could be read")
            .hint("its first line says what there is; capture Ethernet, Linux's `any` or raw IP, 96 bytes of each at least"));
    }
    let Some(beside) = beside else { return Ok(ExitStatus::Success) };
    if beside.equal + beside.differing() == 0 {
        return Err(nothing_compared(&beside));
    }
    Ok(if beside.differing() > 0 { ExitStatus::Failed } else { ExitStatus::Success })
}

fn nothing_compared(beside: &Beside) -> Failure {
    if beside.unknown > 0 {
        Failure::new("nothing was compared: the kernel of the side that sends has said nothing")
            .hint("`tcp fetch` asks the server unless `--client-only` is given, and `tcp serve` answers")
    } else {
        Failure::new("nothing was compared: no connection of the one is in the other")
            .hint("both must be of the same run, and `tcp fetch --records` must have kept its connections")
    }
}

fn fetched(path: &Path) -> Result<Fetched, Failure> {
    let text = std::fs::read(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .into_usage()
            .hint("`nightwatt tcp fetch .. --json > FETCH.json` makes one")
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::because(
            format!("{} is not what `tcp fetch --json` prints", path.display()),
            &error,
        )
        .hint("give the file into which its output went")
    })
}

fn print_json(report: &CaptureReport, beside: Option<&Beside>) -> Result<(), Failure> {
    let figures = serde_json::to_value(report);
    let mut value =
        figures.map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    if let (Value::Object(fields), Some(beside)) = (&mut value, beside) {
        fields.insert("beside".to_owned(), json!(beside));
    }
    output::print_json(&value)
}

fn write_beside(text: &mut String, beside: &Beside) {
    let _ = writeln!(
        text,
        "\nbeside TCP_INFO: {} of {} connections equal{}; {} only fetched, {} only captured",
        beside.equal,
        beside.connections.len(),
        match beside.unknown {
            0 => String::new(),
            unknown => format!(", {unknown} without figures of the kernel"),
        },
        beside.only_fetched,
        beside.only_captured
    );
    for one in beside.connections.iter().filter(|one| !one.equal) {
        let pairs = [
            ("segments sent again", one.retransmitted_segments),
            ("bytes sent again", one.retransmitted_bytes),
            ("bytes sent", one.bytes_sent),
            ("segments sent", one.data_segments),
            ("bytes received", one.bytes_received),
        ];
        let differing: Vec<String> = pairs
            .into_iter()
            .filter_map(|(what, Pair { capture, kernel })| {
                let kernel = kernel.filter(|kernel| *kernel != capture)?;
                Some(format!("{what}: {capture} captured, {kernel} by the kernel"))
            })
            .collect();
        let _ = writeln!(text, "  port {}: {}", one.port, differing.join("; "));
    }
}

fn unread(path: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::because(format!("cannot read {}", path.display()), error)
        .into_usage()
        .hint("`tcpdump -i eth0 -s 128 -w FILE tcp` makes one")
}
