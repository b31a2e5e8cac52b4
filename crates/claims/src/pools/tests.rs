use super::*;

/// A tenth of the published length: enough for figures to a few hundredths.
fn short() -> Comparison {
    run(20_000, |_, _| ()).unwrap()
}

fn claim<'a>(comparison: &'a Comparison, id: &str) -> &'a Claim {
    comparison.claims.iter().find(|claim| claim.id == id).unwrap()
}

#[test]
fn what_follows_by_hand_from_the_published_parameters_follows_here() {
    let comparison = short();
    let ours = |id: &str, place: usize| claim(&comparison, id).figures[place].ours;
    // mu = 261.80 solves 1/mu + 200 / (2 mu (mu - 200)) = 0.01.
    let mu = ours("V1", 0);
    assert!((1.0 / mu + 200.0 / (2.0 * mu * (mu - 200.0)) - 0.01).abs() < 1e-9, "{mu}");
    // At 5 ms a Pi of 261.8/s takes 100/s, so ten are needed.
    assert_eq!(
        (ours("V2", 0).to_bits(), ours("V2", 2).to_bits()),
        (3f64.to_bits(), 10f64.to_bits())
    );
    // Three of 81 W at 333.3 of 505.5/s: 3 x (81 + 16.5 x 0.6594).
    assert!((ours("V2", 1) - 275.64).abs() < 0.05, "{}", ours("V2", 1));
    // 81 + 16.5 x 300 / 505.5.
    assert!((ours("V4", 2) - 90.79).abs() < 0.01);
    let verdicts: Vec<_> = comparison.claims.iter().map(|claim| claim.verdict).collect();
    assert_eq!(verdicts[1..4], [Verdict::Differs; 3], "V2, V3 and V4");
    assert_eq!(claim(&comparison, "V1").figures[0].agrees, Some(true));
}

#[test]
fn every_pool_is_there_once_in_order_and_keeps_its_books() {
    let comparison = short();
    assert_eq!(comparison.policies.len(), 2 * 5 * 16);
    for row in &comparison.policies {
        // Servers that are on draw the reckoned power all the time.
        let watts = if row.kind == "pi" { 2.0 } else { 80.0 };
        let expected = row.mean_on * watts * 24.0;
        assert!((row.wh_per_day / expected - 1.0).abs() < 1e-9, "{row:?}");
        assert!(row.mean_response_ms <= 10.0, "the promise: {row:?}");
    }
    let pairs: Vec<_> = comparison.policies.iter().map(|row| (row.kind, row.rate)).collect();
    assert!(pairs.is_sorted());
    // More servers kept on never cost less, and never switch more.
    for kept in comparison.policies.windows(2) {
        let both = kept.iter().all(|row| row.policy.starts_with("always-on"));
        if both && kept[0].rate == kept[1].rate {
            assert!(kept[0].wh_per_day <= kept[1].wh_per_day * 1.001, "{kept:?}");
            assert!(kept[0].transitions_per_hour >= kept[1].transitions_per_hour, "{kept:?}");
        }
    }
}

#[test]
fn progress_ends_at_all_of_it_and_the_result_does_not_depend_on_the_order_of_work() {
    let mut told = Vec::new();
    let first = run(2_000, |done, all| told.push((done, all))).unwrap();
    assert_eq!(told, (1..=160).map(|done| (done, 160)).collect::<Vec<_>>());
    assert_eq!(first, run(2_000, |_, _| ()).unwrap());
}
