//! A pool to which anything happens.

use proptest::prelude::*;

use super::*;

/// Something that happens to a pool.
#[derive(Debug, Clone)]
struct Step {
    wait_ms: u64,
    what: u8,
    server: u32,
}

/// Places of the servers that things happen to.
const PLACES: [u32; 6] = [2, 2, 2, 2, 1, 1];

/// What became of requests, kept by the test.
#[derive(Debug, Default)]
struct RequestCounts {
    /// By server.
    has: [u32; 6],
    /// Requests that became tunnels.
    tunnels: [u32; 6],
    offered: u32,
    refused: u32,
    lost: u32,
    answered: u32,
    waits: u32,
}

impl RequestCounts {
    fn accounted(&self) -> u32 {
        self.refused + self.lost + self.answered + self.waits + self.has.iter().sum::<u32>()
    }

    fn check(&self, pool: &Pool, action: Action) -> Result<(), TestCaseError> {
        match action {
            SwitchOn(server) => prop_assert!(!pool.is_held_off(server)),
            SwitchOff(server) => {
                prop_assert_eq!((self.has[server as usize], self.tunnels[server as usize]), (0, 0));
            }
            Take(_) => {}
        }
        Ok(())
    }

    fn take(&mut self, play: &mut Play, step: &Step, now: u64) {
        let server = step.server as usize;
        match step.what {
            0..=5 => {
                self.offered += 1;
                match play.arrive(now) {
                    Route::To(server) => self.has[server as usize] += 1,
                    Route::Wait => self.waits += 1,
                    Route::Refuse => self.refused += 1,
                }
            }
            6..=8 if self.has[server] > 0 => {
                self.has[server] -= 1;
                self.answered += 1;
                play.complete(now, step.server);
            }
            9 => play.ready(now, step.server),
            10 if step.wait_ms > 150 => {
                self.lost += std::mem::take(&mut self.has[server]);
                self.tunnels[server] = 0;
                play.pool.failed(ms(now), step.server, &mut play.actions);
            }
            11 if step.wait_ms > 100 => {
                play.pool.repaired(ms(now), step.server, &mut play.actions);
            }
            11 => {
                play.pool.hold_off(ms(now), step.server, &mut play.actions);
            }
            19 if self.has[server] > 0 => {
                self.has[server] -= 1;
                self.answered += 1;
                self.tunnels[server] += 1;
                play.pool.tunnel(ms(now), step.server, &mut play.actions);
            }
            20 if self.tunnels[server] > 0 => {
                self.tunnels[server] -= 1;
                play.pool.tunnel_ended(ms(now), step.server, &mut play.actions);
            }
            12 => {
                self.offered += 1;
                let shunned = step.wait_ms.is_multiple_of(2).then_some(step.server);
                let has_room = |it: usize| {
                    play.pool.phase(it as u32) == Some(Phase::On) && self.has[it] < PLACES[it]
                };
                let others_have_room = (0..6).any(|it| Some(it as u32) != shunned && has_room(it));
                match play.pool.offer_again(ms(now), shunned, &mut play.actions) {
                    Route::To(server) => {
                        assert!(Some(server) != shunned || !others_have_room);
                        self.has[server as usize] += 1;
                    }
                    Route::Wait => self.waits += 1,
                    Route::Refuse => {
                        assert!(play.pool.is_closed());
                        self.refused += 1;
                    }
                }
            }
            13 => {
                if let Some(server) = play.pool.take_spare(ms(now), None) {
                    self.offered += 1;
                    self.has[server as usize] += 1;
                }
            }
            14 if self.waits > 0 => {
                self.waits -= 1;
                self.lost += 1;
                play.pool.leave_line();
            }
            15 => play.pool.returned(ms(now), step.server, &mut play.actions),
            16 => {
                play.pool.start(ms(now), step.server, &mut play.actions);
            }
            17 if step.wait_ms > 170 => play.pool.close(ms(now), &mut play.actions),
            17 | 18 => play.pool.open(ms(now), &mut play.actions),
            _ => {}
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u64..200, 0_u8..21, 0_u32..6).prop_map(|(wait_ms, what, server)| Step {
        wait_ms,
        what,
        server,
    });
    proptest::collection::vec(step, 0..400)
}

proptest! {
    /// Whatever happens in whatever order: no server has more requests than places, no server that is off has
    /// any, no request is lost, no server is switched off in the middle of something, and a server that is
    /// held off is not switched on.
    #[test]
    fn the_pool_keeps_its_books_whatever_happens(
        steps in steps(),
        choice in prop_oneof![
            Just("baseline"), Just("always-on 3"), Just("delayed-off 100ms"), Just("hybrid 2 1s"),
            Just("predictive"),
        ],
        spread: bool, switch_on_ms in prop_oneof![Just(0_u64), Just(300)], line in 0_u32..5,
        min_on in 0_u64..500,
    ) {
        let other = ServerKind { busy: Watts(1.0), places: 1, ..kind(2, 1, switch_on_ms) };
        let settings = FleetSettings {
            min_on: Duration::from_millis(min_on),
            line,
            wear: if spread { Wear::Spread } else { Wear::ByNumber },
            ..settings(vec![kind(4, 2, switch_on_ms), other])
        };
        let mut play = Play::new(settings, choice);
        let mut counts = RequestCounts::default();
        let mut now = 0;
        for step in steps {
            now += step.wait_ms;
            play.wait(now);
            for action in play.done() {
                counts.check(&play.pool, action)?;
            }
            counts.take(&mut play, &step, now);
            for action in play.done() {
                match action {
                    Take(server) => {
                        counts.waits -= 1;
                        counts.has[server as usize] += 1;
                    }
                    SwitchOn(_) | SwitchOff(_) => counts.check(&play.pool, action)?,
                }
            }
            let pool = &play.pool;
            let phases: Vec<Phase> = (0..6).map(|server| pool.phase(server).unwrap()).collect();
            for server in 0..6 {
                let serves = matches!(phases[server], Phase::On | Phase::Draining);
                prop_assert!(counts.has[server] <= PLACES[server]);
                let has_any = counts.has[server] + counts.tunnels[server] > 0;
                prop_assert!(serves || !has_any, "{phases:?} {counts:?}");
                // Only as long as another comes in its place.
                let leaves = phases[server] == Phase::On && pool.is_held_off(server as u32);
                prop_assert!(!leaves || pool.starting() > 0, "{phases:?}");
            }
            let in_phase = |wanted| phases.iter().filter(|it| **it == wanted).count() as u32;
            prop_assert_eq!(pool.on(), in_phase(Phase::On));
            prop_assert!(!pool.is_closed() || pool.on() == 0);
            prop_assert_eq!(pool.starting(), in_phase(Phase::Starting));
            prop_assert_eq!(pool.busy(), counts.has.iter().filter(|it| **it > 0).count() as u32);
            prop_assert_eq!(pool.waiting(), counts.waits);
            prop_assert_eq!(counts.offered, counts.accounted());
            // No request waits while a server that is on has a place.
            let room = (0..6).any(|it| phases[it] == Phase::On && counts.has[it] < PLACES[it]);
            prop_assert!(!(room && counts.waits > 0));
            let sum = pool.tallies(ms(now)).iter().fold(Tally::default(), |a, b| a.plus(b));
            prop_assert!(sum.busy <= sum.on);
            prop_assert!(sum.on + sum.starting <= Duration::from_millis(now) * 6);
        }
    }
}
