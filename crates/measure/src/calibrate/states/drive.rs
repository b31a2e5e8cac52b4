//! Drives a machine through sleep cycles while a meter is read. What is done when is decided by
//! `pure::calibrate::states::drive`; here are the controller, the probe and the meter.

use std::future::{Future, pending};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::pure::calibrate::states::SleepCycle;
use crate::pure::calibrate::states::drive::{Command, Drive, DrivePlan, DrivenCycle, Ending, Next};
use nightwatt_clock::Clock;
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use nightwatt_meters::sampler::{Opened, Sample, Sampler, Sink};
use nightwatt_meters::{Host, MeterSpec};
use nightwatt_power::probe::{self, Probe};
use nightwatt_power::{Context, Controller, ControllerConfig, Work};

use super::readings::Readings;
use super::{Spread, StatesFound};
use crate::calibrate::channel_of;
use crate::error::Error;

/// Longest interval between two progress reports.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Number of readings in the shortest sleep, and the bounds of the interval between two readings.
const READINGS: u32 = 20;
const READ_BETWEEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Options of a driven calibration.
#[derive(Debug, Clone)]
pub struct DriveOptions {
    /// How the machine is woken and put to sleep.
    pub power: ControllerConfig,
    /// How to tell that it is awake.
    pub probe: probe::Config,
    /// Where its controller keeps state.
    pub state_dir: PathBuf,
    /// The site whose server it is.
    pub site: String,
    /// The meter.
    pub meter: MeterSpec,
    /// Its channel, where it has several.
    pub channel: Option<String>,
    /// How often, how long.
    pub plan: DrivePlan,
}

/// Drives the machine and fits. It is left awake, however this ends; `stop` ends it early.
pub async fn run(
    options: &DriveOptions,
    clock: &Clock,
    stop: impl Future<Output = ()>,
    on_progress: impl FnMut(&Drive, Mono),
) -> Result<StatesFound, Error> {
    let context = Context {
        clock: clock.clone(),
        state_dir: options.state_dir.clone(),
        site: options.site.clone(),
    };
    let controller = options.power.build(&context)?;
    let probe = Probe::new(options.probe.clone(), clock.clone());
    let opened = Opened::open(&Host::default(), &options.meter)?;
    let place = channel_of(&opened, &options.meter, options.channel.as_deref())?;
    let channel = opened.channels()[place].clone();

    let shortest = options.plan.cycles.iter().map(|it| it.1).min().unwrap_or(LOOK_EVERY);
    let wish = (shortest / READINGS).clamp(READ_BETWEEN.0, READ_BETWEEN.1);
    let readings = Arc::new(Mutex::new(Readings::new(opened.interval(Some(wish)))));
    // The clock's origin is its own; the meter's is the kernel's.
    let ahead = monotonic().since(clock.now().mono);
    let sink = |_: &Opened| -> Box<dyn Sink> {
        Box::new(Collector { readings: Arc::clone(&readings), place, ahead })
    };
    let cannot = |source| Error::System { what: "start the meter's thread", source };
    let sampler = Sampler::start(vec![opened], Some(wish), sink).map_err(cannot)?;
    let driven = drive(&*controller, &probe, options.plan.clone(), clock, stop, on_progress).await;
    sampler.finish(monotonic());
    let readings = std::mem::replace(
        &mut *readings.lock().unwrap_or_else(PoisonError::into_inner),
        Readings::new(wish),
    );
    let measured_by = format!("{}/{}", options.meter.name(), channel.name);
    fit(&driven, readings, measured_by, channel.accuracy.relative)
}

/// Takes the readings of one channel.
struct Collector {
    readings: Arc<Mutex<Readings>>,
    place: usize,
    ahead: Duration,
}

impl Sink for Collector {
    fn take(&mut self, sample: &Sample) {
        if sample.channel == self.place {
            let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
            readings.take(sample.mono - self.ahead, sample.reading, Some(sample.piece));
        }
    }
}

/// What was driven, and how it ended.
#[derive(Debug)]
pub struct Driven {
    /// With all cycles.
    pub drive: Drive,
    /// Why there are no more.
    pub ending: Ending,
    /// What the controller last complained of.
    pub trouble: Option<nightwatt_power::Error>,
}

/// Something that happened while something else was waited for.
enum Happened<T> {
    Work(T),
    Command(Result<(), nightwatt_power::Error>),
    Stop,
}

/// Carries out what the [`Drive`] asks for.
pub async fn drive(
    controller: &dyn Controller,
    probe: &Probe,
    plan: DrivePlan,
    clock: &Clock,
    stop: impl Future<Output = ()>,
    mut on_progress: impl FnMut(&Drive, Mono),
) -> Driven {
    let mut drive = Drive::new(plan, clock.now().mono);
    let mut command: Option<Work<'_, ()>> = None;
    let mut trouble = None;
    let mut stop = pin!(stop);
    let mut stopped = false;
    loop {
        let asked = clock.now().mono;
        let next = drive.next(asked);
        on_progress(&drive, asked);
        let mut work: Pin<Box<dyn Future<Output = Option<bool>> + '_>> = match next {
            Next::Finished(ending) => return Driven { drive, ending, trouble },
            Next::Give(given) => {
                command = Some(match given {
                    Command::Wake => controller.wake(),
                    Command::Sleep => controller.sleep(),
                });
                continue;
            }
            Next::Probe => Box::pin(async { Some(probe.attempt(controller).await.up) }),
            Next::Wait(until) => Box::pin(async move {
                clock.sleep_until(until.min(asked + LOOK_EVERY)).await;
                None
            }),
        };
        loop {
            let happened = tokio::select! {
                biased;
                done = finished(command.as_mut()) => Happened::Command(done),
                output = &mut work => Happened::Work(output),
                () = &mut stop, if !stopped => Happened::Stop,
            };
            let now = clock.now().mono;
            match happened {
                Happened::Command(done) => {
                    command = None;
                    drive.command_done(done.is_ok(), now);
                    trouble = done.err().or(trouble);
                }
                Happened::Stop => {
                    stopped = true;
                    drive.stop();
                }
                Happened::Work(Some(is_up)) => {
                    drive.probed(is_up, asked, now);
                    break;
                }
                Happened::Work(None) => break,
            }
            // A probe is heard out; waiting is no use any more.
            if matches!(next, Next::Wait(_)) {
                break;
            }
        }
    }
}

/// Ends when the command does; never without a command.
async fn finished(command: Option<&mut Work<'_, ()>>) -> Result<(), nightwatt_power::Error> {
    match command {
        Some(command) => command.await,
        None => pending().await,
    }
}

/// Fits what was measured while it was driven; also of a drive that ended early, if that is enough.
pub fn fit(
    driven: &Driven,
    mut readings: Readings,
    measured_by: String,
    accuracy: f64,
) -> Result<StatesFound, Error> {
    let failure = || match driven.ending {
        Ending::Complete => None,
        Ending::Stopped => Some(Error::Interrupted),
        Ending::NeverSleeps | Ending::NeverWakes => {
            let cause = driven.trouble.as_ref().map(|error| format!(": {error}"));
            Some(Error::Driven {
                what: match driven.ending {
                    Ending::NeverWakes => "the machine does not wake: wake it by hand",
                    _ => "the machine did not fall asleep when told to, and was left awake",
                },
                cause: cause.unwrap_or_default(),
            })
        }
    };
    if driven.ending == Ending::NeverWakes {
        return Err(failure().unwrap_or(Error::Interrupted));
    }
    readings.begin(driven.drive.begun().unwrap_or(Mono::NEVER));
    let cycles: Vec<SleepCycle> = driven.drive.cycles().iter().map(|it| it.cycle).collect();
    match super::fit_log(readings, &cycles, measured_by) {
        Ok(mut found) => {
            let times =
                |of: fn(&DrivenCycle) -> Duration| Spread::of(driven.drive.cycles().iter().map(of));
            found.time_to_sleep_s = times(|it| it.time_to_sleep);
            found.time_to_wake_s = times(|it| it.time_to_wake);
            found.meter_accuracy = Some(accuracy);
            found.warnings.extend(failure().map(|error| format!("it ended early: {error}")));
            Ok(found)
        }
        Err(error) => Err(failure().unwrap_or(error)),
    }
}
