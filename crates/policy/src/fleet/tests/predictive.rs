//! What the default policy learns.

use super::*;

/// Requests at a steady pace: `rate` a second, each served in 10 ms, from `from` to `to` seconds.
fn load(play: &mut Play, (from, to): (u64, u64), rate: u64) {
    let mut answers = std::collections::VecDeque::new();
    for n in 0..(to - from) * rate {
        let at = from * 1000 + n * 1000 / rate;
        while let Some(&(done, server)) = answers.front().filter(|(done, _)| *done <= at) {
            play.wait(done);
            play.complete(done, server);
            answers.pop_front();
        }
        play.wait(at);
        if let Route::To(server) = play.arrive(at) {
            answers.push_back((at + 10, server));
        }
        for action in play.done() {
            match action {
                // For these tests a start ends at once, but the policy does not know that.
                SwitchOn(server) => play.ready(at, server),
                Take(server) => answers.push_back((at + 10, server)),
                SwitchOff(_) => {}
            }
        }
    }
    for (done, server) in answers {
        play.wait(done);
        play.complete(done, server);
    }
}

#[test]
fn the_predictive_policy_wants_what_the_forecast_rate_fills_and_lets_go_afterwards() {
    let mut play = Play::new(settings(vec![kind(20, 1, 2000)]), "predictive");
    play.ready(0, 0);
    // 500/s at 100/s for each server: five, and some headroom.
    load(&mut play, (0, 120), 500);
    assert!((5..=9).contains(&play.pool.on()), "{}", play.pool.on());
    // Silence: 10 J a cycle at 1.5 W saved break even after 6.7 s, so all but one are gone in a minute.
    play.wait(240_000);
    assert_eq!(play.pool.on(), 1);
    // And then there is nothing left to wake up for.
    assert_eq!(play.pool.next_timer(), Nanos::NEVER);
}

/// A pool that got used to 500 requests/s (a thousand while a server starts), with all that is on busy
/// from then on.
fn busy_at_500(overflow_share: f64, line: u32) -> Play {
    let settings = FleetSettings { line, overflow_share, ..settings(vec![kind(20, 1, 2000)]) };
    let mut play = Play::new(settings, "predictive");
    play.ready(0, 0);
    load(&mut play, (0, 120), 500);
    for _ in 0..play.pool.on() {
        assert!(matches!(play.arrive(120_001), Route::To(_)));
    }
    assert_eq!((play.done(), play.pool.on()), (vec![], play.pool.busy()));
    play
}

#[test]
fn who_may_be_turned_away_starts_nothing_but_a_surge_does() {
    // Ten of a thousand may be refused; eight times as many are a surge, if it lasts for the 6.7 s in
    // which 10 J of a cycle are saved at 1.5 W: three and a third starts. One is on its way by then.
    let mut play = busy_at_500(0.01, 0);
    let refused = (1..2000).find(|_| {
        assert_eq!(play.arrive(120_001), Route::Refuse);
        !play.done().is_empty()
    });
    assert_eq!(refused, Some(267));
    // Where no request may be refused, the first one starts a server.
    let mut play = busy_at_500(0.0, 0);
    assert_eq!(play.arrive(120_001), Route::Refuse);
    assert!(matches!(play.done()[..], [SwitchOn(_)]));
}

#[test]
fn who_has_to_wait_in_the_line_gets_a_server() {
    let mut play = busy_at_500(0.01, 10);
    assert_eq!(play.arrive(120_001), Route::Wait);
    assert!(matches!(play.done()[..], [SwitchOn(_)]));
}

#[test]
fn a_server_that_was_started_is_of_use_for_as_long_as_that_took() {
    // A start pays after 6.7 s at most, and takes 20.
    let mut play = Play::new(settings(vec![kind(2, 1, 20_000)]), "predictive");
    play.ready(0, 0);
    // So much less is refused than may be that z is at its end, and little matters less than a start.
    load(&mut play, (0, 20_000), 5);
    let at = 20_000_001;
    assert!(matches!(play.arrive(at), Route::To(_)));
    let mut done = Vec::new();
    for _ in 0..2000 {
        play.arrive(at);
        done.extend(play.done());
    }
    let [SwitchOn(server), ..] = done[..] else { panic!("{done:?}") };
    play.wait(at + 20_000);
    play.ready(at + 20_000, server);
    assert!(!play.done().contains(&SwitchOff(server)));
    play.wait(at + 39_999);
    assert!(!play.done().contains(&SwitchOff(server)));
}

#[test]
fn what_was_learned_survives_a_restart() {
    let mut play = Play::new(settings(vec![kind(20, 1, 2000)]), "predictive");
    play.ready(0, 0);
    load(&mut play, (0, 60), 300);
    let lessons = play.pool.lessons().unwrap();
    let json = serde_json::to_string(&lessons).unwrap();
    let mut again = Play::new(settings(vec![kind(20, 1, 2000)]), "predictive");
    again.pool.resume(&serde_json::from_str(&json).unwrap(), Duration::from_secs(1));
    assert_eq!(again.pool.lessons(), Some(lessons));
    assert_eq!(Play::new(settings(vec![kind(2, 1, 0)]), "baseline").pool.lessons(), None);
}

#[test]
fn the_rate_before_a_long_stop_starts_nobody_after_it() {
    let mut play = Play::new(settings(vec![kind(20, 1, 2000)]), "predictive");
    play.ready(0, 0);
    // 700 and 900/s in an order without pattern, so that a slow mean is the best forecast.
    for bin in 0..300_u64 {
        let rate = if bin.count_ones() % 2 == 0 { 700 } else { 900 };
        load(&mut play, (2 * bin, 2 * bin + 2), rate);
    }
    let lessons = play.pool.lessons().unwrap();
    let most_on_after = |stopped| {
        let mut again = Play::new(settings(vec![kind(20, 1, 2000)]), "predictive");
        again.pool.resume(&lessons, stopped);
        again.ready(0, 0);
        // A request a second, which one server answers in a hundredth of that.
        let mut most = 0;
        for second in 1..20 {
            load(&mut again, (second, second + 1), 1);
            most = most.max(again.pool.on());
        }
        most
    };
    // Eight were needed. A moment later there could be a reason for more than one.
    assert!(most_on_after(Duration::from_secs(1)) > 1);
    assert_eq!(most_on_after(Duration::from_hours(10)), 1);
}
