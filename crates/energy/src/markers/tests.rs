//! The merger beside a reference that goes through all moments one by one.

use proptest::prelude::*;

use super::area::{Head, Header, MAGIC, RECORDS, RingReader};
use super::*;

const ME: ThreadId = ThreadId { process: 7, thread: 8 };

fn begin(at: u64, section: u32) -> Mark {
    Mark { at, section, edge: Edge::Begin }
}

fn end(at: u64, section: u32) -> Mark {
    Mark { at, section, edge: Edge::End }
}

fn run(begin: u64, end: u64, then: RunEnd) -> Run {
    Run { thread: ME, begin, end, ran: end - begin, then }
}

fn merged(marks: &[Mark], runs: &[Run]) -> Merger {
    let mut merger = Merger::default();
    for mark in marks {
        merger.mark(ME, *mark);
    }
    for run in runs {
        merger.run(run);
    }
    merger
}

/// CPU time of the section's stacks that end in it.
fn itself(merger: &Merger, section: usize) -> u64 {
    let nodes = merger.usage(Usage::default()).nodes;
    merger.tree().exclusive(section, &nodes).as_nanos() as u64
}

#[test]
fn the_time_that_others_had_the_cpu_is_in_the_length_and_not_in_the_cpu_time() {
    // On its CPU from 100 to 200 and, after another thread, from 250 to 300. In section 0 from 150 to 290, in
    // section 1 inside of it from 180 to 260.
    let marks = [begin(150, 0), begin(180, 1), end(260, 1), end(290, 0)];
    let merger = merged(&marks, &[run(100, 200, RunEnd::Preempted), run(250, 300, RunEnd::Waits)]);
    let (outer, inner) = (merger.calls(0), merger.calls(1));
    assert_eq!((outer.length, outer.ran, outer.preempted), (140, 90, 50));
    assert_eq!((inner.length, inner.ran, inner.preempted), (80, 30, 50));
    assert_eq!((itself(&merger, 0), itself(&merger, 1)), (60, 30));
}

#[test]
fn whoever_waits_was_not_preempted() {
    let marks = [begin(150, 0), end(290, 0)];
    let merger = merged(&marks, &[run(100, 200, RunEnd::Waits), run(250, 300, RunEnd::Waits)]);
    let calls = merger.calls(0);
    assert_eq!((calls.length, calls.ran, calls.preempted), (140, 90, 0));
}

#[test]
fn what_a_hypervisor_took_is_spread_over_the_piece_it_was_taken_from() {
    // 100 ns, of which 60 ran: 15 of the 25 in the section.
    let mut merger = Merger::default();
    for mark in [begin(100, 0), end(125, 0)] {
        merger.mark(ME, mark);
    }
    merger.run(&Run { thread: ME, begin: 100, end: 200, ran: 60, then: RunEnd::Runs });
    let calls = merger.calls(0);
    assert_eq!((calls.length, calls.ran, calls.preempted), (25, 15, 10));
}

#[test]
fn a_mark_that_comes_after_its_piece_counts_from_the_end_of_that() {
    let mut merger = merged(&[], &[run(100, 200, RunEnd::Preempted)]);
    merger.mark(ME, begin(199, 0));
    merger.mark(ME, end(260, 0));
    merger.run(&run(250, 300, RunEnd::Waits));
    let calls = merger.calls(0);
    assert_eq!((calls.length, calls.ran, calls.preempted), (61, 10, 50));
}

#[test]
fn a_piece_that_comes_after_a_later_one_is_not_lost() {
    let merger =
        merged(&[begin(100, 0)], &[run(200, 210, RunEnd::Runs), run(100, 200, RunEnd::Waits)]);
    assert_eq!(itself(&merger, 0), 110);
}

#[test]
fn an_end_without_a_beginning_and_a_beginning_without_an_end_are_told_and_not_invented() {
    let marks = [end(110, 0), begin(120, 1), begin(130, 2), end(140, 2)];
    let mut merger = merged(&marks, &[run(100, 200, RunEnd::Gone)]);
    let told = |merger: &Merger, section| {
        let calls = merger.calls(section);
        (calls.begun, calls.ended, calls.unbegun, calls.unended)
    };
    assert_eq!(told(&merger, 0), (0, 0, 1, 0));
    assert_eq!(told(&merger, 1), (1, 0, 0, 1));
    assert_eq!(told(&merger, 2), (1, 1, 0, 0));
    // Its number is another's now, which is in no section.
    merger.run(&run(300, 400, RunEnd::Waits));
    assert_eq!(itself(&merger, 1), 70);
}

#[test]
fn what_a_thread_said_that_has_the_number_of_one_before_is_its_own() {
    let marks = [begin(110, 0), begin(250, 1), end(260, 1)];
    let merger = merged(&marks, &[run(100, 200, RunEnd::Gone), run(240, 300, RunEnd::Gone)]);
    assert_eq!((itself(&merger, 0), itself(&merger, 1)), (90, 10));
    assert_eq!((merger.calls(0).unended, merger.calls(1).ended), (1, 1));
}

#[test]
fn sections_that_overlap_end_each_at_their_own_end() {
    // a from 0 to 30, b from 10 to 50: 20 ns in a;b, then 20 in b alone.
    let marks = [begin(0, 0), begin(10, 1), end(30, 0), end(50, 1)];
    let merger = merged(&marks, &[run(0, 60, RunEnd::Waits)]);
    assert_eq!((merger.calls(0).ran, merger.calls(1).ran), (30, 40));
    let nodes = merger.usage(Usage::default()).nodes;
    let paths: Vec<_> =
        (1..nodes.len()).map(|node| (merger.tree().path(node), nodes[node].as_nanos())).collect();
    assert_eq!(paths, [(vec![0], 10), (vec![0, 1], 20), (vec![1], 20)]);
}

#[test]
fn calls_inside_of_sixteen_others_are_told_and_their_ends_end_nothing_else() {
    let mut marks: Vec<Mark> = (0..20).map(|at| begin(at, 0)).collect();
    marks.extend((20..40).map(|at| end(at, 0)));
    let merger = merged(&marks, &[run(0, 50, RunEnd::Waits)]);
    let calls = merger.calls(0);
    assert_eq!((calls.begun, calls.ended, calls.too_deep, calls.unbegun), (16, 16, 4, 0));
    // The n-th from outside, 39 - 2 n ns long, for n from 0 to 15.
    assert_eq!(calls.ran, (0..16).map(|n| 39 - 2 * n).sum::<u64>());
}

#[test]
fn time_in_sections_is_taken_from_that_of_all_watched_threads() {
    let merger = merged(&[begin(100, 0), end(125, 0)], &[run(100, 200, RunEnd::Waits)]);
    let all = Usage { nodes: vec![Duration::from_nanos(300)], ..Usage::default() };
    let nodes = merger.usage(all).nodes;
    assert_eq!(nodes, [Duration::from_nanos(275), Duration::from_nanos(25)]);
}

#[test]
fn a_process_that_names_ever_more_threads_is_not_believed_forever_and_takes_nothing_from_others() {
    let mut merger = Merger::default();
    let believed = (0..1 << 20)
        .filter(|&thread| merger.mark(ThreadId { process: 7, thread }, begin(100, 0)))
        .count();
    assert_eq!(believed, 1 << 14);
    assert!(merger.mark(ThreadId { process: 8, thread: 1 << 20 }, begin(100, 1)));
    // One that the kernel tells of makes room for another.
    merger.run(&Run {
        thread: ThreadId { process: 7, thread: 0 },
        begin: 90,
        end: 110,
        ran: 20,
        then: RunEnd::Gone,
    });
    assert!(merger.mark(ThreadId { process: 7, thread: 1 << 20 }, begin(100, 0)));
    assert!(!merger.mark(ThreadId { process: 7, thread: 1 << 21 }, begin(100, 0)));
}

#[test]
fn threads_that_the_kernel_never_told_of_are_counted() {
    let mut merger = merged(&[begin(100, 0)], &[run(90, 110, RunEnd::Waits)]);
    merger.mark(ThreadId { process: 7, thread: 9 }, begin(100, 0));
    merger.mark(ThreadId { process: 7, thread: 9 }, end(105, 0));
    merger.finish();
    assert_eq!((merger.unmatched_threads(), merger.calls(0).ended), (1, 1));
}

/// What one moment belongs to, and what of calls: the reference.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reference {
    /// CPU time by stack.
    stacks: HashMap<Vec<u32>, u64>,
    /// Ended, length, CPU time, preempted, ended without a beginning: by section.
    calls: [(u64, u64, u64, u64, u64); 3],
}

/// A thread that is in turn on its CPU, without it though it wants it, and waiting; at some moments it
/// says something.
fn reference(turns: &[(u64, RunEnd)], marks: &[Mark]) -> Reference {
    let mut reference = Reference::default();
    // Section, length, CPU time, preempted.
    let mut open: Vec<(u32, u64, u64, u64)> = Vec::new();
    let mut marks = marks.iter().peekable();
    let states = turns.iter().flat_map(|(time, then)| (0..*time).map(move |_| *then));
    for (at, state) in (0..).zip(states) {
        while let Some(mark) = marks.next_if(|mark| mark.at == at) {
            let calls = &mut reference.calls[mark.section as usize];
            match mark.edge {
                Edge::Begin => open.push((mark.section, 0, 0, 0)),
                Edge::End => match open.iter().rposition(|it| it.0 == mark.section) {
                    None => calls.4 += 1,
                    Some(place) => {
                        let (_, length, ran, preempted) = open.remove(place);
                        calls.0 += 1;
                        calls.1 += length;
                        calls.2 += ran;
                        calls.3 += preempted;
                    }
                },
            }
        }
        for (_, length, ran, preempted) in &mut open {
            *length += 1;
            *ran += u64::from(state == RunEnd::Runs);
            *preempted += u64::from(state == RunEnd::Preempted);
        }
        if state == RunEnd::Runs && !open.is_empty() {
            let stack = open.iter().map(|it| it.0).collect();
            *reference.stacks.entry(stack).or_default() += 1;
        }
    }
    reference
}

/// The pieces of time that the kernel would tell of it, cut at `cuts`, and the moments at which it does.
fn pieces(turns: &[(u64, RunEnd)], cuts: &[u64]) -> Vec<Run> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for (place, (time, state)) in turns.iter().enumerate() {
        if *state == RunEnd::Runs && *time > 0 {
            let next = turns.get(place + 1).map_or(RunEnd::Waits, |turn| turn.1);
            let mut inner: Vec<u64> =
                cuts.iter().copied().filter(|cut| *cut > at && *cut < at + time).collect();
            inner.sort_unstable();
            inner.dedup();
            let mut from = at;
            for cut in inner {
                pieces.push(run(from, cut, RunEnd::Runs));
                from = cut;
            }
            pieces.push(run(from, at + time, next));
        }
        at += time;
    }
    pieces
}

proptest! {
    #[test]
    fn it_is_what_going_through_all_moments_finds(
        turns in prop::collection::vec((1..30_u64, 0..3_usize), 1..30),
        marks in prop::collection::vec((0..600_u64, 0..3_u32, any::<bool>()), 0..60),
        cuts in prop::collection::vec(0..600_u64, 0..10),
    ) {
        let mut turns: Vec<(u64, RunEnd)> = turns
            .into_iter()
            .map(|(time, which)| (time, [RunEnd::Runs, RunEnd::Preempted, RunEnd::Waits][which]))
            .collect();
        // A thread that is taken away comes back before anything else becomes of it, and is there at
        // the end, so that all it said is known.
        for place in 1..turns.len() {
            if turns[place - 1].1 != RunEnd::Runs {
                turns[place].1 = RunEnd::Runs;
            }
        }
        turns.push((1, RunEnd::Runs));
        let all: u64 = turns.iter().map(|turn| turn.0).sum();
        // A thread that sets a mark is running.
        let runs = pieces(&turns, &cuts);
        let on_cpu = |at: u64| runs.iter().any(|run| run.begin < at && at < run.end);
        let mut marks: Vec<Mark> = marks
            .into_iter()
            .filter(|(at, ..)| *at < all && on_cpu(*at))
            .map(|(at, section, is_end)| if is_end { end(at, section) } else { begin(at, section) })
            .collect();
        marks.sort_by_key(|mark| mark.at);
        let mut depth = 0_usize;
        marks.retain(|mark| {
            depth = if mark.edge == Edge::Begin { depth + 1 } else { depth };
            mark.edge == Edge::End || depth <= DEPTH
        });
        // They come in turns, as readings are made at `cuts`.
        let mut merger = Merger::default();
        let mut left = marks.iter().peekable();
        for run in &runs {
            while let Some(mark) = left.next_if(|mark| mark.at <= run.end) {
                merger.mark(ME, *mark);
            }
            merger.run(run);
        }
        let expected = reference(&turns, &marks);
        let nodes = merger.usage(Usage::default()).nodes;
        let mut stacks: HashMap<Vec<u32>, u64> = HashMap::new();
        for (node, time) in nodes.iter().enumerate().skip(1).filter(|(_, time)| !time.is_zero()) {
            let path = merger.tree().path(node).into_iter().map(|it| it as u32).collect();
            stacks.insert(path, time.as_nanos() as u64);
        }
        prop_assert_eq!(stacks, expected.stacks);
        for (section, expected) in expected.calls.iter().enumerate() {
            let found = merger.calls(section as u32);
            let found = (found.ended, found.length, found.ran, found.preempted, found.unbegun);
            prop_assert_eq!(&found, expected);
        }
    }

    #[test]
    fn whatever_is_said_all_running_time_is_somewhere_once(
        marks in prop::collection::vec((any::<u64>(), 0..300_u32, any::<bool>()), 0..200),
        runs in prop::collection::vec((0..1_u64 << 40, 0..1_u64 << 20, 0..1_u64 << 20, 0..4_usize), 0..50),
    ) {
        let mut merger = Merger::default();
        for (at, section, is_end) in marks {
            merger.mark(ME, if is_end { end(at, section) } else { begin(at, section) });
        }
        let mut ran = 0;
        for (from, length, took, then) in runs {
            let then = [RunEnd::Runs, RunEnd::Preempted, RunEnd::Waits, RunEnd::Gone][then];
            merger.run(&Run { thread: ME, begin: from, end: from + length, ran: took, then });
            ran += took;
        }
        merger.finish();
        let all = Usage { nodes: vec![Duration::from_nanos(ran)], ..Usage::default() };
        let sum: Duration = merger.usage(all).nodes.iter().sum();
        prop_assert_eq!(sum, Duration::from_nanos(ran));
    }

    #[test]
    fn records_come_out_of_a_ring_in_the_order_in_which_they_went_in(
        steps in prop::collection::vec(0..RECORDS + 1, 1..6), start in any::<u64>(),
    ) {
        let mut reader = RingReader::from(Head { owner: 3, written: start, lost: 0 });
        let (mut written, mut seen, mut expected) = (start, Vec::new(), Vec::new());
        for step in steps {
            let from = written;
            written = written.wrapping_add(step);
            // The ring: each place holds the last record that was written there.
            let mut places = 0;
            for area::Range { from: offset, length } in reader.unread(1, written) {
                for place in 0..length as u64 / 16 {
                    let number = from.wrapping_add(places);
                    let at = offset - (area::lost(1).from + 4096) + 16 * place;
                    prop_assert_eq!(at, number % RECORDS * 16);
                    let mut record = number.to_ne_bytes().to_vec();
                    record.extend(5_u32.to_ne_bytes());
                    record.extend(1_u32.to_ne_bytes());
                    reader.take(&record, 6, |owner, mark| seen.push((owner, mark.at)));
                    expected.push((3, number));
                    places += 1;
                }
            }
            prop_assert_eq!(places, step);
        }
        prop_assert_eq!((reader.torn, reader.tail()), (0, written));
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn names_and_heads_are_read_and_what_is_no_such_file_is_told() {
    let mut bytes = vec![0; 36_864];
    assert_eq!(Header::read(&bytes), Err(area::Fault::NotMarkers));
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8] = 2;
    assert_eq!(Header::read(&bytes), Err(area::Fault::Version(2)));
    bytes[8] = 1;
    bytes[24] = 2;
    assert_eq!(Header::read(&bytes[1..]), Err(area::Fault::NotMarkers));
    assert_eq!(Header::read(&bytes).unwrap().sections, 2);
    bytes[4096..4101].copy_from_slice(b"parse");
    bytes[4160..4164].copy_from_slice(b"a\x1b[m");
    let part = |area::Range { from, length }| &bytes[from as usize..from as usize + length];
    let names: Vec<String> = area::names_of(part(area::names(0, 2))).collect();
    assert_eq!(names, ["parse", "a\u{fffd}[m"]);
    // The third ring: thread 9 has written 5 records, and 2 calls found no room.
    let mut bytes = bytes.clone();
    for (at, value) in [(0, 9), (8, 5), (16, 2)] {
        bytes[20_480 + 256 + at] = value;
    }
    let area::Range { from, length } = area::HEADS;
    let heads = &bytes[from as usize..from as usize + length];
    let expected = Head { owner: 9, written: 5, lost: 2 };
    assert_eq!(area::heads_of(heads).nth(2), Some(expected));
}
