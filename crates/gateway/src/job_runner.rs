//! Runs jobs: commands that need a machine which sleeps. It is woken for them, kept awake while they run, and put to
//! sleep again if it slept before.
//!
//! ```text
//! clock -> jobs::due (pure): which run is due  ->  wake, run the command, release  ->  a record in `state_dir`
//! ```

use std::sync::Arc;
use std::time::Duration;

use nightwatt_host::tool::{self, Capture, Ended, Failed};
use nightwatt_policy::in_use::Standing;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::{Order, SleepBlocker};
use tokio::process::Command;

use crate::config::JobConfig;
use crate::gateway::Gateway;
use crate::jobs::Jobs;
use crate::live::Live;
use crate::supervisor::Supervisor;

/// A clock that was set is noticed within this time.
const LONGEST: Duration = Duration::from_hours(1);
/// A machine that is not up by then does not come up.
const WAKE: Duration = Duration::from_mins(10);
/// What is kept of what a command prints, and of that, what is shown.
const KEPT: usize = 4096;
const SHOWN: usize = 300;

/// Begins what is due. What it has begun goes on when it ends.
pub(crate) async fn run(mut live: Live<Gateway>) {
    let jobs = Arc::clone(&live.now().jobs);
    loop {
        let gateway = live.now();
        let clock = gateway.serving.clock.clone();
        let wait = if gateway.serving.observe { Duration::MAX } else { start_due(&gateway) };
        drop(gateway);
        tokio::select! {
            () = clock.sleep(wait.min(LONGEST)), if wait < Duration::MAX => {}
            () = jobs.one_ended() => {}
            () = live.changed() => {}
        }
    }
}

/// Starts what is due, and returns the time until something is; the longest time if there is no job.
fn start_due(gateway: &Arc<Gateway>) -> Duration {
    let (config, clock) = (&gateway.serving.config, &gateway.serving.clock);
    let (mut wait, zone) = (Duration::MAX, clock.zone());
    for job in &config.job {
        let now = clock.now();
        let look = gateway.jobs.look(job, &config.state_dir, &zone, now);
        if look.begins {
            gateway.jobs.spawn(one(Arc::clone(gateway), job.clone()));
        }
        let left = u64::try_from(look.again - now.wall.secs()).unwrap_or(0);
        wait = wait.min(Duration::from_secs(left.max(1)));
    }
    wait
}

/// One run. If it panics, it counts as under way until the next start.
async fn one(gateway: Arc<Gateway>, job: JobConfig) {
    tracing::info!(job = job.name, on = job.on, "a job begins");
    let result = carry_out(&gateway, &job).await;
    match &result {
        Ok(()) => tracing::info!(job = job.name, "a job has succeeded"),
        Err(why) => tracing::error!(job = job.name, why, "a job has failed"),
    }
    let now = gateway.serving.clock.now();
    gateway.jobs.end(&job, &gateway.serving.config.state_dir, now, result);
}

/// A server that is kept awake. If it slept before, it is put to sleep at the end.
struct Kept {
    server: Arc<Supervisor>,
    jobs: Arc<Jobs>,
}

impl Kept {
    /// Its phase must be known. One that wakes just now has a visitor, whose time the policy decides about.
    fn new(server: &Arc<Supervisor>, jobs: &Arc<Jobs>) -> Self {
        let phase = server.phase_now();
        if phase != Phase::Awake {
            server.order(Order::WakeForJob);
        }
        server.begin();
        let was_asleep = matches!(phase, Phase::Asleep | Phase::FallingAsleep | Phase::Failed);
        jobs.keep(server.name(), was_asleep);
        Self { server: Arc::clone(server), jobs: Arc::clone(jobs) }
    }
}

/// Whether something that began meanwhile wants the server awake. An order to stay awake is not seen here.
fn is_wanted(server: &Supervisor) -> bool {
    let status = server.status();
    let is_needed = |it: SleepBlocker| match it {
        SleepBlocker::Hours(_) | SleepBlocker::AwakeHours(_) => true,
        SleepBlocker::InUse(it) => it.standing == Standing::InUse,
        _ => false,
    };
    status.in_flight > 0 || status.held > 0 || status.sleep_blocker.is_some_and(is_needed)
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.server.end();
        // After a hand-over, the policy of the other process decides.
        let was_asleep = self.jobs.release(self.server.name());
        if was_asleep && !self.jobs.is_handed_over() && !is_wanted(&self.server) {
            self.server.order(Order::Sleep);
        }
    }
}

/// Wakes the server, and keeps it awake as long as the result lives.
async fn awake(server: &Arc<Supervisor>, jobs: &Arc<Jobs>) -> Result<Kept, String> {
    let clock = server.clock();
    // The phase that is watched may lag behind the one that is: it only says when to look.
    let mut phase = server.phase();
    let gone = || format!("`{}` is gone", server.name());
    let known = async { phase.wait_for(|_| server.phase_now() != Phase::Unknown).await.is_ok() };
    match clock.timeout(WAKE, known).await {
        Ok(true) => {}
        Ok(false) => return Err(gone()),
        Err(_) => return Err(format!("whether `{}` is awake is not known", server.name())),
    }
    let kept = Kept::new(server, jobs);
    let is_decided = |_: &Phase| matches!(server.phase_now(), Phase::Awake | Phase::Failed);
    let decided = async { phase.wait_for(is_decided).await.map(|_| server.phase_now()) };
    match clock.timeout(WAKE, decided).await {
        Ok(Ok(Phase::Failed)) => Err(format!("`{}` does not wake", server.name())),
        Ok(Ok(_)) => Ok(kept),
        Ok(Err(_)) => Err(gone()),
        Err(_) => Err(format!("`{}` is not awake after 10 minutes", server.name())),
    }
}

async fn carry_out(gateway: &Gateway, job: &JobConfig) -> Result<(), String> {
    let server = gateway.supervisors().find(|it| it.name() == job.on);
    let server = server.ok_or_else(|| format!("there is no `{}` any more", job.on))?;
    let clock = &gateway.serving.clock;
    let kept = awake(server, &gateway.jobs).await?;
    let Some((program, arguments)) = job.command.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).env("NIGHTWATT_JOB", &job.name);
    let ended = tool::run(clock, job.limit, command, Capture::EndOfBoth(KEPT)).await;
    drop(kept);
    match ended {
        Ok(Ended { status, .. }) if status.success() => Ok(()),
        Ok(Ended { status, stdout, .. }) => Err(match end_of(&stdout) {
            text if text.is_empty() => format!("`{program}` ended with {status}"),
            text => format!("`{program}` ended with {status}: {text}"),
        }),
        Err(Failed::Start(error)) => Err(format!("cannot start `{program}`: {error}")),
        Err(Failed::Wait(error)) => Err(format!("cannot wait for `{program}`: {error}")),
        Err(Failed::TimedOut(_)) => {
            Err(format!("`{program}` was not done within its `limit`, and was ended"))
        }
    }
}

/// The end of what a command printed, in one line.
fn end_of(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    let from = text.len().saturating_sub(SHOWN);
    let text = &text[text.ceil_char_boundary(from)..];
    text.chars().map(nightwatt_energy::display::shown).collect::<String>().replace('\u{fffd}', " ")
}
