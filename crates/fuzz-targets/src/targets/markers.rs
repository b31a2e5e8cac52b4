//! Memory of markers: whatever a process writes into what it shares with us, reading it ends, and all
//! the time for which its threads ran is somewhere once.

use std::time::Duration;

use nightwatt_energy::markers::area::{
    HEADS, Header, RECORDS, RingReader, heads_of, lost_of, names_of,
};
use nightwatt_energy::markers::{Mark, Merger, Run, RunEnd, ThreadId};
use nightwatt_energy::sections::Usage;

/// Records of one ring that are looked at, so that an input is read quickly.
const MOST: usize = 256;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let sections = Header::read(bytes).map_or(256, |header| header.sections);
    for name in names_of(bytes) {
        assert!(!name.contains(char::is_control), "{name:?}");
    }
    assert!(lost_of(bytes).len() <= 256);
    let mut merger = Merger::default();
    let mut marks = Vec::new();
    let mut reader = RingReader::default();
    for head in heads_of(&bytes[..bytes.len().min(HEADS.length)]) {
        let ranges = reader.unread(1, head.written);
        let read: usize = ranges.iter().map(|range| range.length).sum();
        assert!(read as u64 <= RECORDS * 16);
        let mut left = bytes.iter().copied().cycle().take(read.min(16 * MOST));
        for range in ranges {
            let records: Vec<u8> = left.by_ref().take(range.length).collect();
            reader.take(&records, sections, |thread, mark| marks.push((thread, mark)));
        }
        reader = RingReader::from(head);
    }
    for (thread, mark) in &marks {
        assert!((mark.section as usize) < sections);
        merger.mark(ThreadId { process: 1, thread: *thread }, *mark);
    }
    let ran = merge(&mut merger, &marks);
    merger.finish();
    let all = Usage { nodes: vec![ran], ..Usage::default() };
    let nodes = merger.usage(all).nodes;
    assert_eq!(nodes.iter().sum::<Duration>(), ran);
}

/// Each thread ran now and then, as the kernel would tell: its time grows, and is that of no year to come.
fn merge(merger: &mut Merger, marks: &[(u32, Mark)]) -> Duration {
    let mut all = 0;
    for (place, (thread, mark)) in marks.iter().enumerate() {
        let begin = mark.at % (1 << 56);
        let ran = mark.at % 1000;
        let then = [RunEnd::Runs, RunEnd::Preempted, RunEnd::Waits, RunEnd::Gone][place % 4];
        merger.run(&Run {
            thread: ThreadId { process: 1, thread: *thread },
            begin,
            end: begin + 2 * ran,
            ran,
            then,
        });
        all += ran;
    }
    Duration::from_nanos(all)
}
