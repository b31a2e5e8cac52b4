//! Captures of real connections, beside tshark, `TCP_INFO` and the kernel's counters.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_tcp::capture::{Beside, CaptureReport, Fetched, FileEnd, beside, check};
use nightwatt_tcp::{Direction, FetchReport, Plan, Server, ServerPlan, Until};

use rustix::thread::CpuSet;

use crate::made::{MS, Talk, pcap};
use crate::own_network::{kernel_count, within};

/// On several CPUs, packets of `lo` overtake each other on their way to the capture.
fn stay_on_one_cpu() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
}

fn run(line: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(String::from_utf8(output.stdout).unwrap()) } else { Err(said) }
}

/// What is sent when all is over. tcpdump would end before it has read all that was captured.
const LAST: &[u8] = b"the last packet of this capture";

/// tcpdump at work.
struct Tcpdump(Child, BufReader<ChildStderr>, JoinHandle<Vec<u8>>);

impl Tcpdump {
    fn start(filter: &str) -> Self {
        let filter = format!("{filter} or udp port 9");
        let mut child = Command::new("tcpdump")
            .args(["-q", "-U", "-i", "lo", "-s", "128", "-B", "65536", "-w", "-", &filter])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let (mut all, mut chunk) = (Vec::new(), [0; 1 << 13]);
            while !all.windows(LAST.len()).rev().take(1 << 17).any(|bytes| bytes == LAST) {
                match stdout.read(&mut chunk).unwrap() {
                    0 => break,
                    n => all.extend(&chunk[..n]),
                }
            }
            all
        });
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump says why above");
        }
        Self(child, said, reader)
    }

    /// What it captured; `None` if that was not all.
    fn end(mut self) -> Option<Vec<u8>> {
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(LAST, "127.0.0.1:9").unwrap();
        let captured = self.2.join().unwrap();
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut said = String::new();
        self.1.read_to_string(&mut said).unwrap();
        self.0.wait().unwrap();
        said.contains("\n0 packets dropped by kernel").then_some(captured)
    }
}

/// What tshark says of each packet, before its marks.
const FIELDS: [&str; 5] = ["len", "stream", "srcport", "nxtseq", "ack"];

/// Packets with each of these marks of tshark's. Of the duplicate acknowledgements, those while something is on
/// its way are counted apart, as `duplicate_ack_of_data`: RFC 5681 has no others.
fn tshark(file: &str, marks: &[&str]) -> HashMap<String, u64> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", file, "-T", "fields"]);
    for field in FIELDS {
        command.args(["-e", &format!("tcp.{field}")]);
    }
    for mark in marks {
        command.args(["-e", &format!("tcp.analysis.{mark}")]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut counts: HashMap<String, u64> = HashMap::new();
    // By stream and port: what has been sent, SYN and FIN with it.
    let mut sent: HashMap<(u64, u64), u64> = HashMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut fields = line.split('\t');
        let mut number = || fields.next().unwrap().parse::<u64>().ok();
        // Those of what is no TCP are empty.
        let [Some(bytes), Some(stream), Some(port), Some(next), ack] =
            [number(), number(), number(), number(), number()]
        else {
            continue;
        };
        let own = sent.entry((stream, port)).or_default();
        *own = next.max(*own);
        let of_others = sent.iter().filter(|((of, from), _)| *of == stream && *from != port);
        let is_awaited = of_others.map(|(_, next)| *next).max() > ack;
        *counts.entry("bytes".to_owned()).or_default() += bytes;
        for (mark, field) in marks.iter().zip(fields) {
            let is_set = u64::from(!field.is_empty());
            *counts.entry((*mark).to_owned()).or_default() += is_set;
            if *mark == "duplicate_ack" {
                let of_data = counts.entry("duplicate_ack_of_data".to_owned()).or_default();
                *of_data += is_set * u64::from(is_awaited);
            }
        }
    }
    counts
}

const MARKS: [&str; 8] = [
    "retransmission",
    "fast_retransmission",
    "spurious_retransmission",
    "out_of_order",
    "duplicate_ack",
    "zero_window",
    "keep_alive",
    "lost_segment",
];

/// Connections over `lo` of which data is lost, captured; `None` if something is not there.
fn lossy(direction: Direction, file: &str) -> Option<(CaptureReport, FetchReport, u64)> {
    let server = Server::bind(ServerPlan::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = server.address().unwrap();
    let port = address.port();
    let from = if direction == Direction::Fetch { "sport" } else { "dport" };
    // Data only: a lost FIN is sent again when the test no longer looks.
    let planted = run(&format!(
        "nft 'table inet lossy {{ chain in {{ type filter hook input priority 0; tcp {from} {port} \
         meta length > 500 numgen random mod 40 == 0 drop; }}; }}'"
    ));
    if let Err(said) = planted {
        println!("skipped: this kernel has no nft: {said}");
        return None;
    }
    let before = kernel_count("RetransSegs");
    let stop = Stop::new().unwrap();
    let theirs = stop.clone();
    let serving = std::thread::spawn(move || server.run(&theirs));
    let tcpdump = Tcpdump::start(&format!("tcp port {port}"));
    let mut plan = Plan {
        connections: 20,
        bytes: 3000 * 1460,
        direction,
        until: Until { count: Some(20), time: None },
        timeout: Duration::from_mins(1),
        ..Plan::new(address)
    };
    // Segments of the usual size, and timestamps in each.
    plan.options.mss = 1460;
    let report = nightwatt_tcp::fetch(&plan, &Stop::new().unwrap(), None).unwrap();
    stop.stop();
    serving.join().unwrap().unwrap();
    let counted = kernel_count("RetransSegs") - before;
    run("nft delete table inet lossy").unwrap();
    let Some(bytes) = tcpdump.end() else {
        println!("skipped: tcpdump could not keep up on this machine");
        return None;
    };
    std::fs::write(file, &bytes).unwrap();
    let captured = check(&bytes[..], None, 1000).unwrap();
    Some((captured, report, counted))
}

/// Of captures of which one in three or so is out of order.
const TRIES: usize = 10;

#[test]
fn a_real_capture_counts_what_tshark_tcp_info_and_the_kernel_count() {
    const NAME: &str = "peers::a_real_capture_counts_what_tshark_tcp_info_and_the_kernel_count";
    if !within(NAME, &["nft", "tcpdump", "tshark"]) {
        return;
    }
    stay_on_one_cpu();
    run("ip link set lo up").unwrap();
    let folder = run("mktemp -d").unwrap();
    for direction in [Direction::Fetch, Direction::Send] {
        let file = format!("{}/lossy.pcap", folder.trim());
        // On `lo` a packet may reach the capture after one that was sent later: then there is a gap that
        // closes again, and tshark and the kernel have not seen the same.
        let mut tries = (0..TRIES).map(|_| lossy(direction, &file));
        let in_order = |it: &Option<(CaptureReport, _, _)>| {
            it.as_ref().is_none_or(|(captured, ..)| captured.totals.counts.gaps == 0)
        };
        let Some((captured, report, counted)) = tries.find(in_order).expect("one in order") else {
            break;
        };
        let counts = captured.totals.counts;
        assert_eq!(captured.file_end, FileEnd::Whole);
        assert!(counts.retransmitted_segments > 0, "{counts:?}");
        assert_eq!(counts.missed_bytes, 0, "{counts:?}");
        // The kernel's own count, of all connections in this namespace: the one that asked for the report, too.
        assert_eq!(counts.retransmitted_segments, counted, "{counts:?}");
        let value = serde_json::to_value(&report).unwrap();
        let fetched: Fetched = serde_json::from_value(value).unwrap();
        let Beside { connections, equal, only_fetched, .. } =
            beside(&captured.connections, &fetched);
        assert_eq!((connections.len(), only_fetched), (20, 0));
        for one in connections.iter().filter(|one| !one.equal) {
            println!("{one:?}");
        }
        assert_eq!(equal, 20);
        let theirs = tshark(&file, &MARKS);
        assert_eq!(counts.bytes_sent, theirs["bytes"]);
        // tshark does not say at which side it is, and takes what comes soon for overtaken.
        let again = theirs["retransmission"] + theirs["out_of_order"];
        assert_eq!(counts.retransmitted_packets + counts.reordered_packets, again, "{theirs:?}");
        assert_eq!(counts.zero_windows, theirs["zero_window"]);
        assert_eq!(counts.keep_alives, theirs["keep_alive"]);
        assert_eq!(counts.gaps, theirs["lost_segment"]);
        assert_eq!(counts.duplicate_acks, theirs["duplicate_ack_of_data"], "{theirs:?}");
    }
    run(&format!("rm -r {folder}")).unwrap();
}

/// What tshark makes of packets by hand.
fn beside_tshark(talk: &Talk) -> Option<(HashMap<String, u64>, CaptureReport)> {
    nightwatt_needs::program("tshark")?;
    let bytes = pcap(&talk.packets, 101, &[], 65_535, (false, true));
    let file = run("mktemp").unwrap();
    std::fs::write(file.trim(), &bytes).unwrap();
    let theirs = tshark(file.trim(), &MARKS);
    std::fs::remove_file(file.trim()).unwrap();
    Some((theirs, check(&bytes[..], None, 10).unwrap()))
}

#[test]
fn tshark_finds_the_same_reordering_and_the_same_retransmits_in_packets_by_hand() {
    let mut talk = Talk::default();
    talk.say(0, 2, (0, 0), 0).options.mss = Some(1000);
    talk.after(20 * MS).say(1, 18, (0, 1), 0).options.mss = Some(1000);
    talk.after(10_000).say(0, 16, (1, 1), 0);
    // 1001 is overtaken; 4001 is lost, asked for and sent again; the last one is lost and not asked for.
    for seq in [1, 2001, 1001, 3001] {
        talk.data(seq);
    }
    talk.ack(4001);
    for seq in [5001, 6001, 7001] {
        talk.data(seq);
        talk.ack(4001);
    }
    talk.after(17 * MS).data(4001);
    talk.ack(8001);
    talk.after(400 * MS).data(7001);
    talk.ack(8001);
    let Some((theirs, ours)) = beside_tshark(&talk) else { return };
    let counts = ours.totals.counts;
    assert_eq!((theirs["out_of_order"], counts.reordered_packets), (1, 1));
    assert_eq!((theirs["fast_retransmission"], counts.fast_segments), (1, 1));
    assert_eq!((counts.retransmitted_packets, counts.timeout_segments), (2, 1));
    // Those that it calls fast or spurious have this mark as well.
    assert_eq!(theirs["retransmission"], 2, "{theirs:?}");
    assert_eq!((theirs["lost_segment"], counts.gaps), (2, 2));
    // One more is theirs: of when nothing was on its way (RFC 5681 does not count it).
    assert_eq!(theirs["duplicate_ack_of_data"], counts.duplicate_acks);
    assert_eq!(theirs["duplicate_ack"], counts.duplicate_acks + 1);
}
