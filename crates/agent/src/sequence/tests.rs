use nightwatt_energy::time::Mono;

use super::*;
use crate::dead_man::Purpose;

/// The machine's clocks, and its sequence.
struct Machine {
    sequence: SleepSequence,
    now: Stamp,
    sent: Vec<Event>,
    counters: Vec<u64>,
}

/// 2026-11-20 12:00 UTC.
const NOON: i64 = 1_795_176_000;

fn nonce() -> Nonce {
    Nonce([7; 16])
}

/// How long the client waits for the end of an order.
const TIMEOUT: Duration = Duration::from_secs(30);

fn ticket(number: u8) -> Ticket {
    // As authentication makes them.
    let mut authenticator = crate::authentication::Authenticator::new(vec![key()], key());
    let from = "10.0.0.1:4000".parse().unwrap();
    let mut exchange =
        crate::client::Exchange::new(key(), Nonce([number; 16]), Verb::Sleep, TIMEOUT);
    let crate::authentication::Verdict::Answer(challenge) =
        authenticator.receive(Duration::ZERO, 0, from, &exchange.message())
    else {
        panic!()
    };
    exchange.receive(&challenge);
    let verdict = authenticator.receive(Duration::ZERO, 0, from, &exchange.message());
    let crate::authentication::Verdict::Order(mut ticket, _) = verdict else { panic!() };
    // The client of this order waits for ever.
    ticket.until = Duration::MAX;
    ticket
}

fn key() -> crate::key::Key {
    crate::key::Key::new(&[1; 32]).unwrap()
}

impl Machine {
    fn new() -> Self {
        let terms = Terms {
            names: vec!["porch".to_owned()],
            listeners: vec![0],
            how: SleepMethod::Suspend,
            within: Duration::from_secs(30),
            grace: Duration::from_mins(10),
            for_work: Duration::from_mins(32),
            awaits_ready: false,
            boot: [3; 16],
        };
        let now = Stamp {
            mono: Mono::from_secs(500),
            wall_ns: NOON * 1_000_000_000,
            suspended: Duration::ZERO,
        };
        let mut machine = Self {
            sequence: SleepSequence::new(terms, now, 0, nonce),
            now,
            sent: Vec::new(),
            counters: Vec::new(),
        };
        let begun = machine.acts(|sequence, now, actions| sequence.begin(now, true, actions));
        assert_eq!(events(&begun), ["booted"]);
        machine.hear();
        machine.sent.clear();
        machine
    }

    fn acts(
        &mut self,
        act: impl FnOnce(&mut SleepSequence, Stamp, &mut Vec<Action>),
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        act(&mut self.sequence, self.now, &mut actions);
        for (_, news, _) in self.sequence.due(self.now) {
            self.sent.push(news.event);
            self.counters.push(news.counter);
        }
        actions
    }

    /// The proxy acknowledges whatever is announced now.
    fn hear(&mut self) -> Vec<Action> {
        self.acts(|sequence, now, actions| sequence.acknowledged(now, 0, nonce(), actions))
    }

    fn passes(&mut self, awake: Duration) -> Vec<Action> {
        let until = self.now.mono + awake;
        let mut all = Vec::new();
        // Timers ring one after the other, as the daemon has it.
        while self.sequence.next() <= until {
            let step = self.sequence.next().since(self.now.mono);
            self.advance(step);
            all.extend(self.acts(SleepSequence::tick));
        }
        self.advance(until.since(self.now.mono));
        all
    }

    fn advance(&mut self, time: Duration) {
        self.now.mono = self.now.mono + time;
        self.now.wall_ns += time.as_nanos() as i64;
    }

    fn sleeps(&mut self, time: Duration) {
        self.now.suspended += time;
        self.now.wall_ns += time.as_nanos() as i64;
    }

    /// So shortly that its clock, which counts whole seconds, does not notice.
    fn naps(&mut self, suspends: u64) {
        self.sequence.counted(Some(suspends));
    }

    fn orders(&mut self, number: u8, verb: Verb) -> Vec<Action> {
        let ticket = ticket(number);
        self.acts(|sequence, now, actions| sequence.order(now, ticket, verb, actions))
    }

    fn is_checked(&mut self, reasons: &[&str]) -> Vec<Action> {
        let reasons = reasons.iter().map(|it| (*it).to_owned()).collect();
        self.acts(|sequence, now, actions| sequence.checked(now, reasons, actions))
    }

    fn is_armed(&mut self, hours: u64) -> Vec<Action> {
        let at_s = self.now.wall_ns / 1_000_000_000 + hours.cast_signed() * 3600;
        let alarm = Alarm { at_s, purpose: Purpose::DeadMan };
        self.acts(|sequence, now, actions| sequence.armed(now, Ok(Some(alarm)), actions))
    }

    /// As far as the command to sleep.
    fn falls_asleep(&mut self) {
        assert_eq!(self.orders(1, Verb::Sleep), [Action::Check]);
        assert_eq!(self.is_checked(&[]), [Action::Arm]);
        self.is_armed(24);
        self.hear();
        assert_eq!(self.passes(LINGER), [Action::FallAsleep]);
    }
}

/// What goes into the record, by name.
fn events(actions: &[Action]) -> Vec<String> {
    let name = |action: &Action| match action {
        Action::Record(entry) => {
            let value = serde_json::to_value(entry).unwrap();
            Some(value["event"].as_str().unwrap().to_owned())
        }
        _ => None,
    };
    actions.iter().filter_map(name).collect()
}

fn outcomes(actions: &[Action]) -> Vec<Outcome> {
    let outcome = |action: &Action| match action {
        Action::Reply(_, outcome, _) => Some(*outcome),
        _ => None,
    };
    actions.iter().filter_map(outcome).collect()
}

#[test]
fn an_order_puts_the_machine_to_sleep_after_everybody_knows() {
    let mut machine = Machine::new();
    assert_eq!(machine.orders(1, Verb::Sleep), [Action::Check]);
    assert_eq!(machine.is_checked(&[]), [Action::Arm]);
    let armed = machine.is_armed(24);
    assert_eq!(
        (events(&armed), outcomes(&armed)),
        (vec!["suspending".to_owned()], vec![Outcome::Going])
    );
    assert_eq!(machine.sent, [Event::Leaving]);
    // The proxy has heard, but the answer to its order may yet be lost.
    assert_eq!(machine.hear(), []);
    assert_eq!(machine.passes(Duration::from_millis(299)), []);
    assert_eq!(machine.passes(Duration::from_millis(1)), [Action::FallAsleep]);
    machine.sleeps(Duration::from_hours(3));
    let returned = machine.acts(|sequence, now, actions| sequence.returned(now, Ok(()), actions));
    assert_eq!(events(&returned), ["resumed"]);
    assert!(returned.contains(&Action::Disarm));
    assert_eq!(machine.sent, [Event::Leaving, Event::Back]);
    let (fell_asleep, resumed) = machine.sequence.times_ms();
    assert_eq!(resumed - fell_asleep, 3 * 3_600_000 + 300);
    assert!(machine.counters.windows(2).all(|two| two[0] < two[1]), "{:?}", machine.counters);
}

#[test]
fn a_nap_that_the_clock_does_not_notice_is_a_sleep_all_the_same() {
    let mut machine = Machine::new();
    machine.naps(4);
    machine.orders(1, Verb::Sleep);
    machine.is_checked(&[]);
    machine.is_armed(24);
    machine.hear();
    assert_eq!(machine.passes(Duration::from_millis(300)), [Action::FallAsleep]);
    machine.naps(5);
    // Its own hook says first that it is up.
    let returned = machine.orders(2, Verb::Return);
    assert_eq!(events(&returned), ["resumed"]);
    assert_eq!(machine.sent, [Event::Leaving, Event::Back]);
    // The clocks tell of the next one before the kernel has counted it.
    machine.sleeps(Duration::from_secs(2));
    assert_eq!(events(&machine.acts(SleepSequence::look)), ["resumed"]);
    machine.naps(6);
    assert_eq!(events(&machine.acts(SleepSequence::look)), [] as [&str; 0]);
    // And one that was put to sleep by others.
    machine.naps(7);
    let looked = machine.acts(SleepSequence::look);
    assert_eq!(events(&looked), ["resumed"]);
}

#[test]
fn a_proxy_that_does_not_hear_is_told_three_times_and_then_it_sleeps_all_the_same() {
    let mut machine = Machine::new();
    machine.orders(1, Verb::Sleep);
    machine.is_checked(&[]);
    machine.is_armed(24);
    let actions = machine.passes(Duration::from_secs(1));
    assert_eq!(machine.sent, [Event::Leaving; 3]);
    assert_eq!(actions, [Action::FallAsleep]);
}

#[test]
fn what_inhibits_is_told_and_written_down_and_the_next_order_is_free() {
    let mut machine = Machine::new();
    machine.orders(1, Verb::Sleep);
    let refused = machine.is_checked(&["1 SSH session"]);
    assert_eq!(events(&refused), ["refused"]);
    let said = vec!["1 SSH session".to_owned()];
    assert_eq!(refused[1], Action::Reply(ticket(1), Outcome::Inhibited, said));
    assert_eq!(machine.sent, [], "nobody needs to know");
    assert_eq!(machine.orders(2, Verb::Check), [Action::Check]);
    let checked = machine.is_checked(&["1 SSH session"]);
    assert_eq!((events(&checked).len(), outcomes(&checked)), (0, vec![Outcome::Inhibited]));
    assert_eq!(machine.orders(3, Verb::Sleep), [Action::Check]);
}

#[test]
fn while_it_is_busy_others_are_told_so_but_for_its_state() {
    let mut machine = Machine::new();
    machine.orders(1, Verb::Sleep);
    assert_eq!(outcomes(&machine.orders(2, Verb::Sleep)), [Outcome::Busy]);
    assert_eq!(outcomes(&machine.orders(3, Verb::State)), [Outcome::Done]);
    machine.is_checked(&[]);
    assert_eq!(outcomes(&machine.orders(4, Verb::Check)), [Outcome::Busy]);
    machine.is_armed(24);
    assert_eq!(outcomes(&machine.orders(5, Verb::Sleep)), [Outcome::Busy]);
    assert_eq!(outcomes(&machine.orders(6, Verb::Leave)), [Outcome::Going], "our own hook");
}

#[test]
fn a_machine_that_does_not_fall_asleep_says_that_it_is_up() {
    // The command fails.
    let mut machine = Machine::new();
    machine.falls_asleep();
    let why = "`systemctl suspend` failed".to_owned();
    let returned = machine.acts(|sequence, now, actions| sequence.returned(now, Err(why), actions));
    assert_eq!(events(&returned), ["failed"]);
    assert!(returned.contains(&Action::Disarm));
    assert_eq!(machine.sent, [Event::Leaving, Event::StayedAwake]);
    assert_eq!(machine.orders(2, Verb::Sleep), [Action::Check], "and it can be tried again");
    // The command ends well, and nothing happens.
    let mut machine = Machine::new();
    machine.falls_asleep();
    machine.acts(|sequence, now, actions| sequence.returned(now, Ok(()), actions));
    assert_eq!(events(&machine.passes(Duration::from_millis(29_999))), [""; 0]);
    assert_eq!(events(&machine.passes(Duration::from_millis(1))), ["failed"]);
    assert_eq!(machine.sent, [Event::Leaving, Event::StayedAwake]);
}

#[test]
fn without_an_alarm_it_stays_awake_and_says_why() {
    let mut machine = Machine::new();
    machine.orders(1, Verb::Sleep);
    machine.is_checked(&[]);
    let no_clock = "cannot set the alarm".to_owned();
    let failed = machine.acts(|sequence, now, actions| sequence.armed(now, Err(no_clock), actions));
    assert_eq!(
        (events(&failed), outcomes(&failed)),
        (vec!["failed".to_owned()], vec![Outcome::Failed])
    );
    assert_eq!(machine.sent, []);
    assert_eq!(machine.orders(2, Verb::Sleep), [Action::Check]);
}

#[test]
fn a_sleep_that_others_ordered_is_noticed_and_told() {
    let mut machine = Machine::new();
    machine.passes(Duration::from_hours(1));
    machine.sleeps(Duration::from_mins(5));
    let looked = machine.acts(SleepSequence::look);
    assert_eq!(events(&looked), ["resumed"]);
    assert_eq!(machine.sent, [Event::Back]);
    let (fell_asleep, resumed) = machine.sequence.times_ms();
    assert_eq!(resumed - fell_asleep, 300_000);
    assert_eq!(machine.acts(SleepSequence::look), [], "once");
    // Two clocks that are read one after the other always differ a little.
    machine.sleeps(Duration::from_millis(99));
    assert_eq!(machine.acts(SleepSequence::look), []);
}

#[test]
fn a_hook_before_the_sleep_of_others_sets_the_alarm_and_tells_the_proxies_first() {
    let mut machine = Machine::new();
    assert_eq!(machine.orders(1, Verb::Leave), [Action::Arm]);
    let armed = machine.is_armed(24);
    assert_eq!((events(&armed), outcomes(&armed)), (vec!["suspending".to_owned()], vec![]));
    assert_eq!(machine.sent, [Event::Leaving]);
    let heard = machine.hear();
    assert_eq!(outcomes(&heard), [Outcome::Going], "now the hook may end");
    machine.sleeps(Duration::from_mins(5));
    let back = machine.orders(2, Verb::Return);
    assert_eq!((events(&back), outcomes(&back)), (vec!["resumed".to_owned()], vec![Outcome::Done]));
    assert_eq!(machine.sent, [Event::Leaving, Event::Back]);
    // A sleep that is called off is announced as well.
    machine.orders(3, Verb::Leave);
    machine.is_armed(24);
    machine.hear();
    machine.orders(4, Verb::Return);
    assert_eq!(machine.sent[2..], [Event::Leaving, Event::StayedAwake]);
}

#[test]
fn what_was_ordered_is_not_done_when_nobody_waits_for_it_any_more() {
    let mut machine = Machine::new();
    let mut hasty = ticket(1);
    hasty.until = since_boot(machine.now) + TIMEOUT;
    machine.acts(|sequence, now, actions| sequence.order(now, hasty, Verb::Sleep, actions));
    assert_eq!(machine.passes(TIMEOUT + Duration::from_millis(1)), []);
    let refused = machine.is_checked(&[]);
    assert_eq!(
        (events(&refused), outcomes(&refused)),
        (vec!["refused".to_owned()], vec![Outcome::Inhibited])
    );
    // Nor when it slept meanwhile.
    for is_checked in [false, true] {
        let mut machine = Machine::new();
        machine.orders(1, Verb::Sleep);
        if is_checked {
            assert_eq!(machine.is_checked(&[]), [Action::Arm]);
        }
        machine.sleeps(Duration::from_secs(5));
        let resumed = machine.acts(SleepSequence::look);
        assert_eq!(
            (events(&resumed), outcomes(&resumed)),
            (vec!["resumed".to_owned()], vec![Outcome::Busy])
        );
        assert_eq!((machine.is_checked(&[]), machine.is_armed(24)), (vec![], vec![]));
        assert_eq!(machine.sent, [Event::Back]);
    }
}

#[test]
fn the_sleep_of_others_overtakes_an_order_that_is_being_looked_at() {
    let told = |actions: &[Action]| match &actions[0] {
        Action::Reply(to, Outcome::Busy, why) => (*to, why[0].contains("another process")),
        other => panic!("{other:?}"),
    };
    for is_armed_already in [false, true] {
        let mut machine = Machine::new();
        machine.orders(1, Verb::Sleep);
        if is_armed_already {
            assert_eq!(machine.is_checked(&[]), [Action::Arm]);
        }
        let overtaken = machine.orders(2, Verb::Leave);
        assert_eq!(told(&overtaken), (ticket(1), true));
        // One alarm is set, and what the check found is of no interest any more.
        assert_eq!(overtaken[1..], if is_armed_already { vec![] } else { vec![Action::Arm] });
        assert_eq!(machine.is_checked(&["1 SSH session"]), []);
        assert_eq!(events(&machine.is_armed(24)), ["suspending"]);
        assert_eq!(machine.sent, [Event::Leaving]);
        assert_eq!(machine.hear(), [Action::Reply(ticket(2), Outcome::Going, Vec::new())]);
    }
}

#[test]
fn the_dead_mans_switch_wakes_a_machine_whose_proxy_is_dead_and_it_stays_awake() {
    let mut machine = Machine::new();
    machine.falls_asleep();
    machine.sent.clear();
    machine.sleeps(Duration::from_hours(24));
    let woken = machine.acts(SleepSequence::look);
    assert_eq!(events(&woken), ["resumed", "dead_man"]);
    // Its own hook, which has the key too, is no proxy.
    assert_eq!(outcomes(&machine.orders(9, Verb::Return)), [Outcome::Done]);
    // No proxy acknowledges: after the grace the machine is alone, for a year if need be.
    let told = machine.passes(Duration::from_hours(24 * 365));
    assert_eq!(events(&told), ["alone"]);
    assert_eq!(machine.sent, [Event::Back; 10], "and it does not cry for ever");
    // A proxy is back, and all is as before: the next sleep has its switch again.
    assert_eq!(events(&machine.orders(2, Verb::State)), ["proxy_found"]);
    machine.falls_asleep();
    machine.sleeps(Duration::from_hours(24));
    assert_eq!(events(&machine.acts(SleepSequence::look)), ["resumed", "dead_man"]);
    // This time it hears that the machine is back.
    machine.hear();
    assert_eq!(events(&machine.passes(Duration::from_hours(24))), [""; 0]);
}

/// Falls asleep at noon, with this alarm an hour later.
fn sleeper(purpose: Purpose) -> Machine {
    let mut machine = Machine::new();
    machine.orders(1, Verb::Sleep);
    machine.is_checked(&[]);
    let alarm = Alarm { at_s: NOON + 3600, purpose };
    machine.acts(|sequence, now, actions| sequence.armed(now, Ok(Some(alarm)), actions));
    machine.hear();
    machine.passes(LINGER);
    machine
}

#[test]
fn a_machine_that_was_woken_for_work_does_not_sleep_in_the_middle_of_it() {
    let backup = || Purpose::Work("backup.timer".to_owned());
    let mut machine = sleeper(backup());
    machine.sleeps(Duration::from_hours(1).saturating_sub(LINGER));
    assert_eq!(events(&machine.acts(SleepSequence::look)), ["resumed"]);
    machine.hear();
    // It is 13:00, the work is due at 13:02, and nothing else inhibits.
    machine.passes(Duration::from_mins(5));
    machine.orders(2, Verb::Sleep);
    let refused = machine.is_checked(&[]);
    assert_eq!(events(&refused), ["refused"]);
    let said =
        "it was woken for backup.timer, and stays awake for that until 2026-11-20 13:32:00.000Z";
    let reply = |number, reason: &str| {
        Action::Reply(ticket(number), Outcome::Inhibited, vec![reason.to_owned()])
    };
    assert_eq!(refused[1], reply(2, said));
    machine.orders(3, Verb::Check);
    assert_eq!(machine.is_checked(&[]), [reply(3, said)], "whoever asks is told the same");
    machine.passes(Duration::from_mins(27) - Duration::from_millis(1));
    machine.orders(4, Verb::Sleep);
    assert_eq!(outcomes(&machine.is_checked(&[])), [Outcome::Inhibited]);
    machine.passes(Duration::from_millis(1));
    machine.orders(5, Verb::Sleep);
    assert_eq!(machine.is_checked(&[]), [Action::Arm], "then it is free");
}

#[test]
fn whoever_is_woken_for_no_work_may_sleep_again_at_once() {
    // Woken by the dead man's switch, or by something else before its alarm rings.
    let backup = Purpose::Work("backup.timer".to_owned());
    for (purpose, slept) in [(Purpose::DeadMan, 60), (backup, 30)] {
        let mut machine = sleeper(purpose);
        machine.sleeps(Duration::from_mins(slept));
        machine.acts(SleepSequence::look);
        machine.orders(2, Verb::Sleep);
        assert_eq!(machine.is_checked(&[]), [Action::Arm], "after {slept} min");
    }
}

#[test]
fn counters_grow_even_if_the_clock_was_set_back() {
    let mut machine = Machine::new();
    machine.sleeps(Duration::from_secs(10));
    machine.acts(SleepSequence::look);
    machine.now.wall_ns = 0;
    machine.sleeps(Duration::from_secs(10));
    machine.acts(SleepSequence::look);
    assert!(machine.counters.windows(2).all(|two| two[0] < two[1]), "{:?}", machine.counters);
    assert_eq!(machine.sequence.counter(), *machine.counters.last().unwrap());
}

#[test]
fn readiness_is_told_after_the_resume() {
    let mut machine = Machine::new();
    machine.sequence.terms.awaits_ready = true;
    machine.sleeps(Duration::from_mins(5));
    assert!(machine.acts(SleepSequence::look).contains(&Action::AwaitReady));
    assert_eq!(events(&machine.acts(SleepSequence::ready)), ["ready"]);
    assert_eq!(machine.sent, [Event::Back, Event::Ready]);
}
