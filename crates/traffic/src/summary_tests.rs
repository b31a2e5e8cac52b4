use proptest::prelude::*;

use super::*;

type Request = (i64, bool, usize, u64, u16, u64, Option<u8>);

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (
        0i64..400_000_000,
        any::<bool>(),
        0usize..3,
        0u64..500,
        prop_oneof![Just(200u16), 100..600u16],
        prop_oneof![Just(0u64), any::<u32>().prop_map(u64::from)],
        proptest::option::of(any::<u8>()),
    );
    proptest::collection::vec(request, 0..60)
}

fn summary(requests: &[Request]) -> Summary {
    let mut summary = Summary::default();
    for &(at, summer, method, target, status, bytes, agent) in requests {
        let facts = Facts {
            at: Wall(at),
            utc_offset: if summer { 7200 } else { 3600 },
            method: ["GET", "HEAD", "POST"][method],
            target: crate::hash::spread(target),
            status,
            bytes,
        };
        summary.add(&facts, agent.map(|agent| format!("agent {agent}")).as_deref());
    }
    summary
}

fn merged(parts: &[&Summary]) -> Summary {
    let mut whole = Summary::default();
    for part in parts {
        whole.merge(part);
    }
    whole
}

proptest! {
    #[test]
    fn parts_merge_to_the_whole(a in requests(), b in requests(), c in requests()) {
        let (one, two, three) = (summary(&a), summary(&b), summary(&c));
        let whole = summary(&[a, b, c].concat());
        prop_assert_eq!(&merged(&[&one, &two, &three]), &whole);
        prop_assert_eq!(&merged(&[&three, &one, &two]), &whole, "in another order");
        prop_assert_eq!(&merged(&[&one, &merged(&[&two, &three])]), &whole, "in other groups");
    }

    #[test]
    fn a_summary_is_stored_and_read(requests in requests()) {
        let summary = summary(&requests);
        let text = serde_json::to_string(&summary).unwrap();
        prop_assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    }
}
