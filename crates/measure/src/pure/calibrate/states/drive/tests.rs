use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A machine in steps of 10 ms.
struct Machine {
    wake: Duration,
    sleep: Duration,
    /// From the wake command done to its first answer.
    ready: Duration,
    /// So many wake commands come to nothing.
    deaf: u32,
    insomniac: bool,
    up_from: Option<Mono>,
    command: Option<(Command, Mono)>,
    given: Vec<(Command, Mono)>,
}

impl Machine {
    fn new() -> Self {
        Self {
            wake: seconds(5),
            sleep: seconds(4),
            ready: millis(1250),
            deaf: 0,
            insomniac: false,
            up_from: None,
            command: None,
            given: Vec::new(),
        }
    }

    fn is_up(&self, now: Mono) -> bool {
        self.up_from.is_some_and(|from| from <= now)
    }

    fn give(&mut self, command: Command, now: Mono) {
        assert!(self.command.is_none(), "one command at a time");
        self.given.push((command, now));
        let takes = match command {
            Command::Wake => self.wake,
            Command::Sleep => self.sleep,
        };
        self.command = Some((command, now + takes));
    }

    /// Whether a command is done now.
    fn advance(&mut self, now: Mono) -> bool {
        let Some((command, _)) = self.command.take_if(|(_, done)| *done <= now) else {
            return false;
        };
        match command {
            Command::Wake if self.deaf > 0 => self.deaf -= 1,
            Command::Wake if self.up_from.is_none() => self.up_from = Some(now + self.ready),
            Command::Sleep if !self.insomniac => self.up_from = None,
            Command::Wake | Command::Sleep => {}
        }
        true
    }

    /// Drives it to the end; the `stop` comes at that moment.
    fn driven(&mut self, plan: DrivePlan, stop: Option<Mono>) -> (Drive, Ending, Mono) {
        let mut drive = Drive::new(plan, Mono::ZERO);
        let mut now = Mono::ZERO;
        let mut stop = stop;
        for _ in 0..10_000_000 {
            if self.advance(now) {
                drive.command_done(true, now);
            }
            if stop.take_if(|at| *at <= now).is_some() {
                drive.stop();
            }
            match drive.next(now) {
                Next::Give(command) => self.give(command, now),
                Next::Probe => drive.probed(self.is_up(now), now, now),
                Next::Finished(ending) => return (drive, ending, now),
                Next::Wait(until) => {
                    assert!(until > now, "no waiting for the past: {drive:?}");
                    now = now + millis(10);
                }
            }
        }
        panic!("it never ends: {drive:?}");
    }
}

fn plan(cycles: u32) -> DrivePlan {
    DrivePlan::new(cycles, &(seconds(30)..=seconds(60)), &(seconds(20)..=seconds(180)))
}

#[test]
fn times_lie_between_the_shortest_and_the_longest_and_take_turns() {
    let plan = plan(5);
    let secs = |time: Duration| time.as_secs_f64().round();
    let (on, off): (Vec<_>, Vec<_>) = plan.cycles.iter().map(|it| (secs(it.0), secs(it.1))).unzip();
    // 30 x 2^(0, 1/4, ..): 30, 35.7, 42.4, 50.5, 60; 20 x 9^(0, 1/4, ..): 20, 34.6, 60, 103.9, 180.
    assert_eq!(on, [30.0, 36.0, 42.0, 50.0, 60.0]);
    assert_eq!(off, [20.0, 180.0, 35.0, 104.0, 60.0]);
    let sum = on.iter().sum::<f64>() + off.iter().sum::<f64>() + 30.0;
    assert!((secs(plan.lasts()) - sum).abs() <= 2.0, "{:?} {sum}", plan.lasts());
}

#[test]
fn each_cycle_is_driven_for_its_times_and_its_commands_are_timed_by_the_probe() {
    let mut machine = Machine::new();
    let (drive, ending, ended) = machine.driven(plan(5), None);
    assert_eq!(ending, Ending::Complete);
    assert!(machine.is_up(ended), "it is left awake");
    assert_eq!(drive.cycles().len(), 5);
    let mut awake = drive.begun().unwrap();
    // 5 s and 1.25 s after the first command, seen by the next probe.
    assert!(awake >= Mono(millis(6250)) && awake <= Mono(millis(6350)), "{awake:?}");
    for (driven, (on, off)) in drive.cycles().iter().zip(&plan(5).cycles) {
        let near = |a: Duration, b: Duration| a.abs_diff(b) <= millis(110);
        assert!(near(driven.cycle.sleep_commanded.since(awake), *on), "{driven:?}");
        assert!(near(driven.time_to_sleep, seconds(4)), "{driven:?}");
        assert!(near(driven.time_to_wake, millis(6250)), "{driven:?}");
        let whole = driven.cycle.wake_answered.since(driven.cycle.sleep_commanded);
        assert!(near(whole, *off + millis(6250)), "{driven:?}");
        awake = driven.cycle.wake_answered;
    }
}

#[test]
fn whenever_it_is_stopped_it_ends_awake() {
    for stop in 0..300 {
        let mut machine = Machine::new();
        let at = Mono(seconds(stop) + millis(370));
        let (_, ending, ended) = machine.driven(plan(3), Some(at));
        assert!(machine.is_up(ended), "stopped at {stop} s");
        assert_eq!(ending, Ending::Stopped);
        // A sleep command that is under way, a wake command, and the machine's own time.
        assert!(ended.since(at) < seconds(11), "{stop}: {ended:?}");
        assert!(machine.command.is_none(), "nothing is under way");
    }
}

#[test]
fn a_machine_that_does_not_sleep_is_given_up_awake() {
    let mut machine = Machine { insomniac: true, ..Machine::new() };
    let (drive, ending, ended) = machine.driven(plan(3), None);
    assert_eq!((ending, drive.cycles().len()), (Ending::NeverSleeps, 0));
    assert!(machine.is_up(ended));
    assert_eq!(machine.given.last().unwrap().0, Command::Wake);
}

#[test]
fn a_machine_that_does_not_hear_is_told_again_and_then_given_up() {
    let mut machine = Machine { deaf: 1, ..Machine::new() };
    let (drive, ending, _) = machine.driven(plan(2), None);
    assert_eq!((ending, drive.cycles().len()), (Ending::Complete, 2));
    let mut machine = Machine { deaf: 99, ..Machine::new() };
    let (_, ending, _) = machine.driven(plan(2), None);
    assert_eq!((ending, machine.given.len()), (Ending::NeverWakes, 3));
}

#[test]
fn the_time_left_falls_to_nothing() {
    let plan = plan(4);
    let mut drive = Drive::new(plan.clone(), Mono::ZERO);
    assert_eq!(drive.left(Mono::ZERO), plan.lasts());
    let mut machine =
        Machine { wake: millis(10), sleep: millis(10), ready: millis(0), ..Machine::new() };
    let (mut now, mut before) = (Mono::ZERO, plan.lasts() + seconds(1));
    loop {
        if machine.advance(now) {
            drive.command_done(true, now);
        }
        match drive.next(now) {
            Next::Give(command) => machine.give(command, now),
            Next::Probe => drive.probed(machine.is_up(now), now, now),
            Next::Finished(_) => break,
            Next::Wait(_) => now = now + millis(10),
        }
        let left = drive.left(now);
        assert!(left <= before + millis(250), "{left:?} after {before:?}: {drive:?}");
        before = left;
    }
    assert!(before <= millis(10), "{before:?}");
}
