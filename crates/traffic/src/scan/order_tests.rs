use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// A batch of requests at these times, the way a worker leaves it. Each one's target is its place.
fn batch(piece: u32, times: &[i64]) -> Batch {
    let mut batch = Batch { piece, ..Batch::default() };
    for (place, &at) in times.iter().enumerate() {
        let from = batch.text.len() as u32;
        write!(batch.text, "{piece}/{place}").unwrap();
        let target = BatchSpan { from, to: batch.text.len() as u32 };
        batch.entries.push(Entry {
            at: Wall(at),
            piece,
            utc_offset: 0,
            client: BatchSpan::default(),
            method: BatchSpan::default(),
            target,
            referer: BatchSpan::default(),
            agent: BatchSpan::default(),
            bytes: 0,
            visitor: nightwatt_policy::visit::Visitor(0),
            traits: crate::traits::Traits::default(),
            status: 200,
        });
    }
    batch.entries.sort_by_key(|entry| entry.at);
    batch
}

/// Times and targets as they come out, and how many were late.
fn ordered(batches: &[Vec<i64>], hold: Hold) -> (Vec<(i64, String)>, u64) {
    let mut order = Order::new(hold);
    let mut out = Vec::new();
    let mut consume = |logged: Logged<'_>| {
        out.push((logged.at.0, logged.target.to_owned()));
        ControlFlow::Continue(())
    };
    for (piece, times) in batches.iter().enumerate() {
        let _ = order.push(batch(piece as u32, times), &mut consume, &mut Vec::new());
        assert!(order.requests <= hold.requests && order.bytes() <= hold.bytes);
    }
    let _ = order.finish(&mut consume);
    (out, order.late())
}

const ROOM: Hold = Hold { requests: 1 << 20, bytes: 1 << 30 };

#[test]
fn of_equal_times_the_earlier_line_goes_first() {
    let (out, late) = ordered(&[vec![5, 1, 5], vec![5, 1]], ROOM);
    let targets: Vec<&str> = out.iter().map(|(_, target)| target.as_str()).collect();
    assert_eq!((targets, late), (vec!["0/1", "1/1", "0/0", "0/2", "1/0"], 0));
}

#[test]
fn what_comes_too_late_goes_out_at_the_latest_time() {
    let (out, late) = ordered(&[vec![1, 2, 9], vec![3]], Hold { requests: 1, ..ROOM });
    // The first batch has to let two go; 3 comes after 2, so it is not late.
    assert_eq!((out.iter().map(|of| of.0).collect::<Vec<_>>(), late), (vec![1, 2, 3, 9], 0));
    let (out, late) = ordered(&[vec![1, 8, 9], vec![3]], Hold { requests: 1, ..ROOM });
    assert_eq!((out.iter().map(|of| of.0).collect::<Vec<_>>(), late), (vec![1, 8, 8, 9], 1));
}

#[test]
fn requests_far_in_the_future_do_not_keep_the_log_in_memory() {
    let hold = Hold { requests: 10_000, bytes: 4 << 20 };
    let mut order = Order::new(hold);
    let (mut before, mut seen) = (0, 0);
    let mut consume = |logged: Logged<'_>| {
        assert!(logged.at.0 >= before);
        before = logged.at.0;
        seen += 1;
        ControlFlow::Continue(())
    };
    for piece in 0..2000 {
        let mut times: Vec<i64> = (0..1000).map(|n| i64::from(piece) * 1000 + n).collect();
        times.push(1 << 40);
        let _ = order.push(batch(piece, &times), &mut consume, &mut Vec::new());
        assert!(order.bytes() <= hold.bytes);
        let all: usize = order.runs.iter().flatten().map(|run| run.batch.cost()).sum();
        assert_eq!(all, order.bytes());
    }
    assert_eq!(order.late(), 0, "those of the future wait, nobody waits for them");
    let _ = order.finish(&mut consume);
    assert_eq!(seen, 2000 * 1001);
}

#[test]
fn the_consumer_may_stop() {
    let mut order = Order::new(Hold { requests: 0, ..ROOM });
    let mut count = 0;
    let flow = order.push(
        batch(0, &[1, 2, 3]),
        &mut |_| {
            count += 1;
            if count == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
        &mut Vec::new(),
    );
    assert!(flow.is_break());
    assert_eq!(count, 2);
}

proptest! {
    #[test]
    fn with_room_for_all_it_is_a_stable_sort(
        batches in proptest::collection::vec(proptest::collection::vec(0i64..30, 0..12), 0..12)
    ) {
        let mut expected: Vec<(i64, String)> = batches
            .iter()
            .enumerate()
            .flat_map(|(piece, times)| {
                times.iter().enumerate().map(move |(place, &at)| (at, format!("{piece}/{place}")))
            })
            .collect();
        expected.sort_by_key(|of| of.0);
        prop_assert_eq!(ordered(&batches, ROOM), (expected, 0));
    }

    #[test]
    fn with_little_room_nothing_is_lost_and_time_never_runs_back(
        batches in proptest::collection::vec(proptest::collection::vec(0i64..1000, 0..12), 0..12),
        requests in 0usize..30,
        kib in 4usize..20,
    ) {
        let hold = Hold { requests, bytes: kib << 10 };
        let (out, late) = ordered(&batches, hold);
        prop_assert!(out.is_sorted_by_key(|of| of.0));
        let mut targets: Vec<&str> = out.iter().map(|of| of.1.as_str()).collect();
        targets.sort_unstable();
        targets.dedup();
        prop_assert_eq!(targets.len(), batches.iter().map(Vec::len).sum::<usize>());
        prop_assert!(late as usize <= targets.len());
    }
}
