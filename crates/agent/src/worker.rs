//! What may take long, in a thread of its own: one job after the other.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_host::Host;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::{Alarm, Config, Ready, Sleep, SleepMethod};
use crate::dead_man;
use crate::due;
use crate::inhibit::Inhibitors;
use crate::program::{self, Trouble};
use crate::resumes::present;
use crate::rtc::{Rtc, Set};

/// Timeout of a command that only asks systemd to sleep. A configured command may use `within`.
const TELLING: Duration = Duration::from_secs(30);

/// How often the agent checks whether the service answers, and for how long.
const READY_EVERY: Duration = Duration::from_millis(250);
const READY_LIMIT: Duration = Duration::from_mins(10);

/// File in the state directory with the mark of our last alarm: a new process recognises the alarm after a power-off.
const MARK: &str = "alarm";

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Check,
    Arm,
    Disarm,
    FallAsleep,
    AwaitReady,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Report {
    Checked(Vec<String>),
    Armed(Result<Option<dead_man::Alarm>, String>),
    Returned(Result<(), String>),
    Ready,
}

/// The worker before it works.
#[derive(Debug)]
pub(crate) struct Worker {
    runtime: Runtime,
    hands: Executor,
}

#[derive(Debug)]
struct Executor {
    host: Host,
    inhibitors: Inhibitors,
    sleep: Sleep,
    alarm: Alarm,
    ready: Option<Ready>,
    waiting: Option<JoinHandle<()>>,
    /// Mark of the last alarm that we set. An alarm of another program is left alone.
    mark: Option<i64>,
    mark_file: PathBuf,
}

impl Worker {
    pub(crate) fn new(config: &Config, host: &Host) -> io::Result<Self> {
        let mark_file = config.state_dir.join(MARK);
        let mark = std::fs::read_to_string(&mark_file).ok();
        let hands = Executor {
            host: host.clone(),
            inhibitors: Inhibitors::new(config, host),
            sleep: config.sleep.clone(),
            alarm: config.alarm.clone(),
            ready: config.ready.clone(),
            waiting: None,
            mark: mark.and_then(|text| text.trim().parse().ok()),
            mark_file,
        };
        Ok(Self { runtime: Clock::real().runtime()?, hands })
    }

    /// Starts the worker. It ends when the sender of jobs is dropped.
    pub(crate) fn start(self) -> (mpsc::UnboundedSender<Job>, mpsc::UnboundedReceiver<Report>) {
        // The sequence gives a job only when the one before is done, except `Disarm` and `AwaitReady`.
        let (jobs, mut to_do) = mpsc::unbounded_channel();
        let (done, reports) = mpsc::unbounded_channel();
        let Self { runtime, mut hands } = self;
        let work = move || {
            runtime.block_on(async {
                while let Some(job) = to_do.recv().await {
                    hands.work(job, &done).await;
                }
            });
        };
        if let Err(error) = std::thread::Builder::new().name("worker".to_owned()).spawn(work) {
            // Orders are then answered with `busy`.
            tracing::error!(%error, "cannot start the worker's thread");
        }
        (jobs, reports)
    }
}

impl Executor {
    async fn work(&mut self, job: Job, done: &mpsc::UnboundedSender<Report>) {
        let report = match job {
            Job::Check => Report::Checked(self.inhibitors.check().await),
            Job::Arm => Report::Armed(self.arm().await),
            Job::Disarm => {
                if let Some(mark) = self.mark
                    && let Err(error) = self.rtc().clear_ours(mark)
                {
                    tracing::debug!(%error, "cannot clear the alarm");
                }
                return;
            }
            Job::FallAsleep => {
                self.stop_waiting();
                Report::Returned(self.fall_asleep().await)
            }
            Job::AwaitReady => {
                self.stop_waiting();
                let (ready, done) = (self.ready.clone(), done.clone());
                self.waiting = Some(tokio::spawn(async move {
                    if let Some(ready) = ready
                        && Clock::real().timeout(READY_LIMIT, answers(&ready)).await.is_ok()
                    {
                        let _ = done.send(Report::Ready);
                    }
                }));
                return;
            }
        };
        // A closed channel means that the agent ends.
        let _ = done.send(report);
    }

    fn stop_waiting(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
    }

    fn rtc(&self) -> Rtc {
        Rtc::new(&self.host, &self.alarm.rtc)
    }

    async fn arm(&mut self) -> Result<Option<dead_man::Alarm>, String> {
        let now = Clock::real().now();
        let Some(alarm) = due::alarm(&self.host, &self.alarm, now).await? else {
            // A machine without a clock has no alarm.
            let theirs = self.rtc().theirs(now.wall.secs(), self.mark).unwrap_or_default();
            return Ok(theirs.map(of_others));
        };
        let set = self.rtc().set(now.wall.secs(), alarm.at_s, self.mark);
        if let Ok(Set::Ours { mark, .. }) = set {
            self.mark = Some(mark);
            if let Err(error) = std::fs::write(&self.mark_file, mark.to_string()) {
                tracing::debug!(%error, "cannot keep by what the alarm is known again");
            }
        }
        let set = set.map(|set| match set {
            Set::Ours { at_s, .. } => dead_man::Alarm { at_s, ..alarm },
            Set::Theirs { at_s } => of_others(at_s),
        });
        set.map(Some).map_err(|error| {
            format!(
                "cannot set the alarm of {}: {error}; with `dead_man = \"0\"`, `timers = []` and `cron = \
                 false` in `[alarm]` it sleeps without",
                self.alarm.rtc
            )
        })
    }

    async fn fall_asleep(&self) -> Result<(), String> {
        if let Some(command) = &self.sleep.command {
            return succeed(program::shell(command), command, self.sleep.time_allowed()).await;
        }
        if let Some(kind) = &self.sleep.mem_sleep {
            self.write("/sys/power/mem_sleep", kind)?;
        }
        if self.host.has("/run/systemd/system") {
            let verb = match self.sleep.how {
                SleepMethod::Hibernate => "hibernate",
                SleepMethod::PowerOff => "poweroff",
                SleepMethod::Suspend | SleepMethod::Command => "suspend",
            };
            // Whether anything inhibits has been looked at; what came since is refused by systemd.
            let mut command = Command::new("systemctl");
            command.arg(verb);
            return succeed(command, &format!("systemctl {verb}"), TELLING).await;
        }
        match self.sleep.how {
            SleepMethod::Suspend | SleepMethod::Command => self.write("/sys/power/state", "mem"),
            SleepMethod::Hibernate => self.write("/sys/power/state", "disk"),
            SleepMethod::PowerOff => succeed(Command::new("poweroff"), "poweroff", TELLING).await,
        }
    }

    /// Ends when the machine is up again, if that is what the file is for.
    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        rustix::fs::sync();
        let before = present().suspended;
        self.host.write(path, text).map_err(|error| {
            let supported = self.host.read(path).unwrap_or_default();
            format!("cannot write `{text}` to {path} (it knows `{}`): {error}", supported.trim())
        })?;
        tracing::debug!(path, text, slept = ?present().suspended.saturating_sub(before), "written");
        Ok(())
    }
}

/// Another program that sets an alarm wants to do something at that time.
fn of_others(at_s: i64) -> dead_man::Alarm {
    let purpose = dead_man::Purpose::Work("an alarm that others have set".to_owned());
    dead_man::Alarm { at_s, purpose }
}

async fn succeed(command: Command, told: &str, limit: Duration) -> Result<(), String> {
    match program::run(command, limit).await {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => {
            let said = ended.first_line().map(|line| format!(": {line}")).unwrap_or_default();
            Err(format!("`{told}` failed ({}){said}", ended.status))
        }
        // It may be frozen with the machine before it comes to its end.
        Err(Trouble::TimedOut) => Ok(()),
        Err(trouble) => Err(format!("`{told}` failed: {trouble}")),
    }
}

async fn answers(ready: &Ready) {
    let clock = Clock::real();
    loop {
        if let Some(address) = ready.tcp
            && connects(&clock, address).await
        {
            return;
        }
        if let Some(command) = &ready.command
            && succeeds(command).await
        {
            return;
        }
        clock.sleep(READY_EVERY).await;
    }
}

async fn connects(clock: &Clock, address: SocketAddr) -> bool {
    let connected = clock.timeout(Duration::from_secs(2), TcpStream::connect(address)).await;
    connected.is_ok_and(|connected| connected.is_ok())
}

async fn succeeds(command: &str) -> bool {
    let ended = program::run(program::shell(command), TELLING).await;
    ended.is_ok_and(|ended| ended.status.success())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dead_man::Purpose;

    #[test]
    fn an_alarm_of_others_is_told_of_as_work_and_our_own_of_an_earlier_run_is_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/class/rtc/rtc0");
        fs::create_dir_all(&folder).unwrap();
        let now_s = Clock::real().now().wall.secs();
        fs::write(folder.join("since_epoch"), now_s.to_string()).unwrap();
        fs::write(folder.join("wakealarm"), (now_s + 3600).to_string()).unwrap();
        let config = |dead_man: &str| {
            let text = format!(
                "listen = [\"127.0.0.1\"]\nstate_dir = \"{}\"\n[[proxy]]\nkey = \"k\"\n[alarm]\n\
                 timers = []\ncron = false\ndead_man = \"{dead_man}\"\n",
                dir.path().display()
            );
            Config::parse(&text, "agent.toml").unwrap()
        };
        let host = Host::at(dir.path());
        let arm = |dead_man| {
            let Worker { runtime, mut hands } = Worker::new(&config(dead_man), &host).unwrap();
            runtime.block_on(hands.arm()).unwrap().map(|alarm| alarm.purpose)
        };
        let others = Some(Purpose::Work("an alarm that others have set".to_owned()));
        assert_eq!(arm("24h"), others);
        assert_eq!(arm("0"), others, "it rings all the same");
        assert_eq!(arm("30m"), Some(Purpose::DeadMan));
        assert_eq!(arm("24h"), Some(Purpose::DeadMan), "that of 30 min was ours");
    }
}
