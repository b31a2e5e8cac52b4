//! Servers that fail, come back, and are ordered about.

use super::*;

#[test]
fn a_server_that_drains_answers_what_it_has_and_is_replaced() {
    let mut play = Play::new(settings(vec![kind(2, 2, 0)]), "always-on 1");
    play.arrive(1);
    play.done();
    play.pool.hold_off(ms(2), 0, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(1)]);
    assert_eq!(play.arrive(3), Route::To(1));
    assert_eq!(play.pool.phase(0), Some(Phase::Draining));
    play.complete(11, 0);
    assert_eq!(play.done(), [SwitchOff(0)]);
    assert_eq!(play.pool.tally(ms(100), 0).on, Duration::from_millis(11));
}

#[test]
fn who_is_to_be_off_serves_until_another_is_on_in_its_place_and_is_not_taken_again() {
    let mut play = Play::new(settings(vec![kind(2, 1, 5000)]), "always-on 1");
    play.ready(5000, 0);
    play.done();
    // It is idle, and by number the first to be had.
    play.pool.hold_off(ms(6000), 0, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(1)]);
    assert_eq!(play.arrive(7000), Route::To(0), "nobody else is on yet");
    play.complete(7010, 0);
    assert_eq!(play.done(), []);
    play.ready(11_000, 1);
    assert_eq!(play.done(), [SwitchOff(0)]);
    // Two are needed, and only the other is to be had.
    play.arrive(12_000);
    assert_eq!(play.arrive(12_001), Route::Refuse);
    assert_eq!(play.done(), []);
    // A server that was turned on all the same is not used; the operator ends it.
    play.ready(13_000, 0);
    assert_eq!(play.pool.phase(0), Some(Phase::Off));
    play.pool.start(ms(14_000), 0, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(0)]);
    play.ready(19_000, 0);
    assert_eq!(play.arrive(19_001), Route::To(0));
}

#[test]
fn who_is_to_be_off_goes_at_once_if_nobody_is_wanted_in_its_place_or_nobody_can_be_had() {
    let mut play = Play::new(settings(vec![kind(2, 1, 5000)]), "delayed-off 100s");
    play.ready(5000, 0);
    play.arrive(6000);
    play.arrive(6001);
    play.ready(11_001, 1);
    play.done();
    // One is to stay on, and one does.
    play.pool.hold_off(ms(12_000), 1, &mut play.actions);
    assert_eq!(play.done(), [SwitchOff(1)]);
    // The other is not to be had, but an order is an order.
    play.pool.hold_off(ms(13_000), 0, &mut play.actions);
    assert_eq!(play.pool.phase(0), Some(Phase::Draining));
    play.complete(13_010, 0);
    assert_eq!(play.done(), [SwitchOff(0)]);
    assert_eq!(play.arrive(14_000), Route::Refuse);
    assert_eq!(play.done(), []);
}

#[test]
fn a_replacement_that_fails_is_replaced_and_if_none_is_left_the_order_is_carried_out() {
    let mut play = Play::new(settings(vec![kind(3, 1, 5000)]), "always-on 1");
    play.ready(5000, 0);
    play.done();
    play.pool.hold_off(ms(6000), 0, &mut play.actions);
    play.pool.failed(ms(7000), 1, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(1), SwitchOn(2)]);
    assert_eq!(play.pool.phase(0), Some(Phase::On));
    play.pool.failed(ms(8000), 2, &mut play.actions);
    assert_eq!(play.done(), [SwitchOff(0)]);
}

#[test]
fn a_server_that_starts_or_drains_or_failed_can_be_held_off_and_wanted_again() {
    let mut play = Play::new(settings(vec![kind(3, 1, 5000)]), "always-on 1");
    assert_eq!(play.done(), [SwitchOn(0)]);
    play.pool.hold_off(ms(1000), 0, &mut play.actions);
    assert_eq!(play.done(), [SwitchOff(0), SwitchOn(1)]);
    play.ready(6000, 1);
    // Held off while it has failed: once repaired, it is not to be had.
    play.pool.failed(ms(7000), 1, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(2)]);
    play.pool.hold_off(ms(8000), 1, &mut play.actions);
    play.pool.repaired(ms(9000), 1, &mut play.actions);
    play.ready(12_000, 2);
    play.arrive(12_001);
    assert_eq!(play.arrive(12_002), Route::Refuse);
    assert_eq!(play.done(), []);
    // It drains, since no server can take its place; and is wanted after all.
    play.pool.hold_off(ms(13_000), 2, &mut play.actions);
    assert_eq!(play.pool.phase(2), Some(Phase::Draining));
    play.pool.start(ms(13_001), 2, &mut play.actions);
    assert_eq!((play.pool.phase(2), play.pool.on()), (Some(Phase::On), 1));
    play.complete(13_002, 2);
    assert_eq!(play.arrive(13_003), Route::To(2));
    // A failed one is switched on at once.
    play.pool.failed(ms(13_004), 2, &mut play.actions);
    play.pool.start(ms(13_005), 2, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(2)]);
}

#[test]
fn a_tunnel_takes_no_place_and_keeps_its_server_on_until_it_ends() {
    for policy in ["baseline", "predictive"] {
        let mut play = Play::new(settings(vec![kind(2, 1, 1)]), policy);
        play.ready(1, 0);
        play.pool.start(ms(1), 1, &mut play.actions);
        play.ready(2, 1);
        play.done();
        assert_eq!(play.arrive(10), Route::To(0));
        play.pool.tunnel(ms(11), 0, &mut play.actions);
        assert_eq!(play.arrive(12), Route::To(0), "{policy}: its place is free");
        play.complete(13, 0);
        // The other one goes; this one stays although it is idle, whatever the policy.
        play.wait(600_000);
        assert_eq!((play.done(), play.pool.busy()), (vec![SwitchOff(1)], 0), "{policy}");
        play.pool.start(ms(600_000), 1, &mut play.actions);
        play.ready(600_001, 1);
        play.pool.hold_off(ms(600_002), 0, &mut play.actions);
        assert_eq!(play.pool.phase(0), Some(Phase::Draining), "{policy}");
        play.done();
        play.wait(700_000);
        assert_eq!(play.done(), [], "{policy}");
        play.pool.tunnel_ended(ms(700_001), 0, &mut play.actions);
        assert_eq!(play.done(), [SwitchOff(0)], "{policy}");
    }
}

#[test]
fn a_request_offered_again_waits_where_a_new_one_is_refused() {
    let mut play = Play::new(settings(vec![kind(2, 1, 5000)]), "baseline");
    play.ready(5000, 0);
    assert_eq!(play.arrive(6000), Route::To(0));
    play.pool.failed(ms(6001), 0, &mut play.actions);
    // There is no line, and the other server starts.
    assert_eq!(play.arrive(6002), Route::Refuse);
    assert_eq!(play.pool.offer_again(ms(6003), None, &mut play.actions), Route::Wait);
    assert_eq!(play.done(), [SwitchOn(0), SwitchOn(1)]);
    play.ready(11_001, 1);
    assert_eq!(play.done(), [Take(1)]);
    play.pool.returned(ms(12_000), 0, &mut play.actions);
    assert_eq!(play.arrive(12_001), Route::To(0));
}

#[test]
fn a_request_offered_again_goes_where_it_failed_only_if_nobody_else_has_a_place() {
    let mut play = Play::new(settings(vec![kind(2, 1, 0)]), "always-on 2");
    assert_eq!(play.pool.offer_again(ms(1), Some(0), &mut play.actions), Route::To(1));
    assert_eq!(play.pool.offer_again(ms(2), Some(0), &mut play.actions), Route::To(0));
    // No server has a place: the first to have one may be the same.
    assert_eq!(play.pool.offer_again(ms(3), Some(0), &mut play.actions), Route::Wait);
    play.done();
    play.complete(11, 0);
    assert_eq!(play.done(), [Take(0)]);
    // The one that was passed over is not forgotten.
    play.complete(12, 1);
    play.complete(13, 0);
    assert_eq!(play.arrive(14), Route::To(0));
}

#[test]
fn a_closed_pool_drains_to_nothing_and_an_open_one_begins_anew() {
    let mut play = Play::new(settings(vec![kind(3, 1, 5000)]), "always-on 2");
    play.ready(5000, 0);
    play.ready(5000, 1);
    play.arrive(5001);
    play.done();
    play.pool.close(ms(5002), &mut play.actions);
    assert_eq!(play.done(), [SwitchOff(1)]);
    assert_eq!(play.arrive(5003), Route::Refuse);
    play.complete(5011, 0);
    assert_eq!(play.done(), [SwitchOff(0)]);
    // One that comes on by itself is not kept.
    play.ready(5012, 2);
    assert_eq!(play.done(), [SwitchOff(2)]);
    play.pool.open(ms(6000), &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(0), SwitchOn(1)]);
}

#[test]
fn who_wants_one_server_of_a_closed_pool_opens_it_with_this_one() {
    let mut play = Play::new(settings(vec![kind(3, 1, 5000)]), "always-on 1");
    play.pool.close(Mono::ZERO, &mut play.actions);
    play.ready(1, 0);
    play.done();
    play.pool.start(ms(5), 2, &mut play.actions);
    assert_eq!(play.done(), [SwitchOn(2)]);
    assert!(!play.pool.is_closed());
}
