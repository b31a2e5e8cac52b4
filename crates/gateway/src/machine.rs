//! Machines that carry servers: each sleeps when everything on it sleeps, and is woken before anything on it.
//!
//! A machine is supervised like a server; what is awake on it counts as an exchange with it. So its ledger, its
//! failures and its timers work like those of any server.

use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_energy::quantity::Watts;
use nightwatt_policy::history::Rates;
use nightwatt_policy::lifecycle::{Phase, ProbeTimeouts};
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::{Scenario, Server};
use nightwatt_policy::sleep::Timeout;
use nightwatt_power::neighbour::Neighbour;
use nightwatt_power::probe::Probe;
use nightwatt_power::{Context, Controller, Error, News, Observed, Subject, Work};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::common::Common;
use crate::config::MachineConfig;
use crate::error::StartError;
use crate::metering::Feed;
use crate::supervisor::{Learns, Retuning, ServerControl, Supervisor};
use crate::wake_cause::WakeCause;

/// A machine under supervision.
pub(crate) struct Machine {
    pub(crate) name: Arc<str>,
    pub(crate) supervisor: Arc<Supervisor>,
    /// Its power.
    pub(crate) server: Server,
    /// The power of the proxy, which is on its bill only if there are no sites.
    pub(crate) proxy: Watts,
    /// Readings of its meter.
    pub(crate) meter: Option<Feed>,
}

impl Machine {
    /// Opens a machine; `below` is the machine that it runs on.
    pub(crate) fn open(
        machine: &MachineConfig,
        common: &Common<'_>,
        controller: Option<Box<dyn Controller>>,
        [meter, proxy_meter]: [Option<Feed>; 2],
        below: Option<&Self>,
        tasks: &mut Vec<JoinHandle<()>>,
    ) -> Result<Self, StartError> {
        let Common { config, clock, .. } = common;
        let (server_control, guest) = server_control(machine, common, controller, below)?;
        let server = config.server_of(machine).clone();
        let proxy = config.scenario.proxy_power();
        let rates = Rates {
            states: server.power_states(),
            busy: Watts::ZERO,
            proxy,
            unsaid_proxy: false,
            electricity: config.scenario.electricity.clone(),
        };
        let mut records = common.records(&machine.name, [meter.clone(), proxy_meter], rates)?;
        // Earlier versions did not put it on the bills of machines.
        records.memory.bill = records.memory.bill.without_unsaid_proxy();
        let settings = settings(machine, &server, common);
        let policy = Box::new(Timeout { idle: machine.linger });
        let (supervisor, task) =
            Supervisor::start(&machine.name, clock, settings, policy, server_control, records);
        tasks.push(task);
        tasks.extend(guest.map(|guest| tokio::spawn(guest.follow(Arc::clone(&supervisor)))));
        Ok(Self { name: machine.name.as_str().into(), supervisor, server, proxy, meter })
    }
}

impl Machine {
    /// The machine with a changed configuration, and how its supervisor has to change. What runs on it notices nothing.
    pub(crate) fn changed(
        &self,
        was: &MachineConfig,
        machine: &MachineConfig,
        common: &Common<'_>,
        controller: Option<Box<dyn Controller>>,
        below: Option<&Self>,
    ) -> Result<(Self, Retuning, Option<MachineUse>), StartError> {
        let is_elsewhere = controller.is_some()
            || (&was.power, &was.on, &was.probe) != (&machine.power, &machine.on, &machine.probe);
        let (server_control, guest) = if is_elsewhere {
            let (server_control, guest) = server_control(machine, common, controller, below)?;
            (Some(server_control), guest)
        } else {
            (None, None)
        };
        let server =
            machine.server.clone().unwrap_or_else(|| common.config.scenario.server.clone());
        let supervisor = Arc::clone(&self.supervisor);
        let retuning = Retuning {
            supervisor: Arc::clone(&supervisor),
            settings: settings(machine, &server, common),
            policy: Some(Box::new(Timeout { idle: machine.linger })),
            learns: Learns::AsBefore,
            server_control,
            new_probes: false,
        };
        let (name, meter) = (Arc::clone(&self.name), self.meter.clone());
        let proxy = common.config.scenario.proxy_power();
        let changed = Self { name, supervisor, server, proxy, meter };
        Ok((changed, retuning, guest))
    }
}

/// How to control a machine.
fn server_control(
    machine: &MachineConfig,
    common: &Common<'_>,
    controller: Option<Box<dyn Controller>>,
    below: Option<&Machine>,
) -> Result<(ServerControl, Option<MachineUse>), StartError> {
    let Common { config, clock, .. } = common;
    let context = Context {
        clock: (*clock).clone(),
        state_dir: config.state_dir.clone(),
        site: machine.name.clone(),
    };
    let own = match controller {
        Some(controller) => controller,
        None => machine
            .power
            .build(&context)
            .map_err(|source| StartError::Power { site: machine.name.clone(), source })?,
    };
    let (controller, guest) = stand_on(below, &machine.name, Some(own));
    let is_elsewhere = !machine.power.is_on_this_machine();
    let neighbour = machine.probe.host().filter(|_| is_elsewhere);
    let server_control = ServerControl {
        controller,
        probe: Probe::new(machine.probe.clone(), (*clock).clone()),
        neighbour: neighbour.map(|host| Neighbour::new(host, (*clock).clone())),
    };
    Ok((server_control, guest))
}

/// It serves what runs on it, and has no SLA of its own.
fn settings(machine: &MachineConfig, server: &Server, common: &Common<'_>) -> Settings {
    let scenario = &common.config.scenario;
    Settings {
        sla: None,
        never_sleep: scenario.never_sleep.clone(),
        awake: scenario.awake.clone(),
        days_off: scenario.days_off.clone(),
        zone: common.clock.zone(),
        min_on: server.min_on,
        quiet: std::time::Duration::ZERO,
        wake_time: server.wake_time,
        grace: machine.grace,
        timeouts: ProbeTimeouts {
            wake_timeout: machine.wake_timeout,
            sleep_timeout: machine.sleep_timeout,
            watch_every: machine.watch,
            watch_asleep_every: machine.watch_asleep(),
            good_bye: machine.good_bye,
            ..ProbeTimeouts::default()
        },
        ..Settings::of(&Scenario::default())
    }
}

/// What runs on a machine, as that machine sees it.
struct Footing {
    name: String,
    machine: Arc<Supervisor>,
    /// Whether it keeps the machine awake.
    keeps: Mutex<bool>,
    /// Notified when the server is controlled in another way.
    over: Notify,
    /// It has a controller of its own, and can sleep while the machine is awake.
    is_separate: bool,
}

impl Footing {
    fn keep(&self) {
        let mut keeps = self.keeps.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *keeps, true) {
            self.machine.begin();
        }
    }

    fn let_go(&self) {
        let mut keeps = self.keeps.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *keeps) {
            self.machine.end();
        }
    }

    fn keeps(&self) -> bool {
        *self.keeps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the machine to be awake, and wakes it if necessary.
    async fn stand(&self) -> Result<(), Error> {
        self.keep();
        let mut phase = self.machine.phase();
        if self.machine.phase_now() == Phase::Awake {
            return Ok(());
        }
        let asker = || WakeCause::Guest { name: self.name.clone() };
        if !self.machine.rejoin(Supervisor::next_id(), None, asker) {
            return Err(self.does_not_wake());
        }
        loop {
            match *phase.borrow_and_update() {
                Phase::Awake => return Ok(()),
                Phase::Failed => return Err(self.does_not_wake()),
                _ => {}
            }
            if phase.changed().await.is_err() {
                return Err(self.does_not_wake());
            }
        }
    }

    fn does_not_wake(&self) -> Error {
        Error::Machine { name: self.machine.name().to_owned() }
    }
}

/// A server on a machine. It stops keeping the machine awake when this is dropped.
pub(crate) struct MachineUse(Arc<Footing>);

impl Drop for MachineUse {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl MachineUse {
    /// Keeps the machine awake while the server is, forever; and checks the server as soon as the machine is gone.
    pub(crate) async fn follow(self, server: Arc<Supervisor>) {
        let footing = &self.0;
        let mut phase = server.phase();
        let mut ground = footing.machine.phase();
        loop {
            let is_there = *ground.borrow_and_update() == Phase::Awake;
            match *phase.borrow_and_update() {
                Phase::Asleep | Phase::Failed => footing.let_go(),
                Phase::Awake | Phase::FallingAsleep | Phase::Waking => footing.keep(),
                Phase::Unknown => {}
            }
            if !footing.is_separate {
                // With an awake machine, no browser needs to wait for the machine first.
                server.show_waiting_page(!is_there);
            }
            let moved = tokio::select! {
                () = footing.over.notified() => return,
                moved = phase.changed() => moved,
                moved = ground.changed() => {
                    match *ground.borrow() {
                        // Anything that is sent to it now may wake the machine.
                        Phase::Asleep if is_there => server.ground_is_gone(),
                        Phase::Failed if is_there => server.unreachable(),
                        _ => {}
                    }
                    moved
                }
            };
            if moved.is_err() {
                return;
            }
        }
    }
}

/// The controller of what runs on a machine, and the task that must then [`follow`](MachineUse::follow) its server. A server
/// without a controller of its own sleeps with the machine.
pub(crate) fn stand_on(
    machine: Option<&Machine>,
    name: &str,
    own: Option<Box<dyn Controller>>,
) -> (Box<dyn Controller>, Option<MachineUse>) {
    match (machine, own) {
        (None, Some(own)) => (own, None),
        (Some(machine), own) => {
            let footing = Arc::new(Footing {
                name: name.to_owned(),
                machine: Arc::clone(&machine.supervisor),
                keeps: Mutex::new(false),
                over: Notify::new(),
                is_separate: own.is_some(),
            });
            let standing = Standing { footing: Arc::clone(&footing), own };
            (Box::new(standing), Some(MachineUse(footing)))
        }
        (None, None) => unreachable!("a configuration without both does not pass its check"),
    }
}

/// Wakes the machine first, then the server.
struct Standing {
    footing: Arc<Footing>,
    own: Option<Box<dyn Controller>>,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standing").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.footing.over.notify_one();
    }
}

impl Controller for Standing {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.footing.stand().await?;
            match &self.own {
                Some(own) => own.wake().await,
                None => Ok(()),
            }
        })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async {
            if let Some(own) = &self.own {
                // The machine is released when the server is seen asleep.
                return own.sleep().await;
            }
            self.footing.let_go();
            Ok(())
        })
    }

    fn leave(&self) {
        if let Some(own) = &self.own {
            own.leave();
        }
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            let machine = self.footing.machine.phase_now();
            match &self.own {
                _ if matches!(machine, Phase::Asleep | Phase::Failed) => Ok(Observed::Down),
                Some(own) => own.state().await,
                None if !self.footing.keeps() => Ok(Observed::Down),
                None if machine == Phase::Awake => Ok(Observed::Up),
                None => Ok(Observed::Unknown),
            }
        })
    }

    fn asks_others(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.asks_others())
    }

    fn announces_sleep(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.announces_sleep())
    }

    fn remind(&self) -> Work<'_, ()> {
        match &self.own {
            Some(own) => own.remind(),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn heard(&self) -> News<'_> {
        match &self.own {
            Some(own) => own.heard(),
            None => Box::pin(std::future::pending()),
        }
    }

    fn still_starts(&self) -> Work<'_, ()> {
        match &self.own {
            Some(own) => own.still_starts(),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    /// While the machine sleeps, a probe may wake it.
    fn subject(&self) -> Subject {
        match &self.own {
            Some(own) if self.footing.machine.phase_now() == Phase::Awake => own.subject(),
            _ => Subject::Machine,
        }
    }
}
