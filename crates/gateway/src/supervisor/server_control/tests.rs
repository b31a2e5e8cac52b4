//! A controller that knows that its server does not run, while a listening socket of this machine answers the probe.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nightwatt_energy::time::Wall;
use nightwatt_policy::manager::{Memory, Order, Settings};
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::AlwaysOn;
use nightwatt_power::{Subject, Work, probe};

use super::*;
use crate::metering::Meters;
use crate::supervisor::Records;

/// What the controller controls, and what listens where it would.
#[derive(Debug)]
struct Facts {
    address: SocketAddr,
    subject: Subject,
    state: Mutex<Observed>,
    /// What answers the probe, no matter whose it is.
    listener: Mutex<Option<TcpListener>>,
    /// What is started ends at once, and another has its port.
    port_is_taken: bool,
    commands: Mutex<Vec<&'static str>>,
}

impl Facts {
    fn new(subject: Subject, state: Observed, listens: bool, port_is_taken: bool) -> Arc<Self> {
        // No other program gets its port while nothing listens there.
        let listener = TcpListener::bind((nightwatt_needs::own_address(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        Arc::new(Self {
            address,
            subject,
            state: Mutex::new(state),
            listener: Mutex::new(listens.then_some(listener)),
            port_is_taken,
            commands: Mutex::default(),
        })
    }

    fn commands(&self) -> Vec<&'static str> {
        self.commands.lock().unwrap().clone()
    }

    fn set(&self, state: Observed) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn listen(&self) {
        let mut listener = self.listener.lock().unwrap();
        listener.get_or_insert_with(|| TcpListener::bind(self.address).unwrap());
    }

    fn stop_listening(&self) {
        self.listener.lock().unwrap().take();
    }
}

#[derive(Debug)]
struct Fake(Arc<Facts>);

impl Controller for Fake {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.0.commands.lock().unwrap().push("wake");
            self.0.listen();
            if !self.0.port_is_taken {
                self.0.set(Observed::Up);
            }
            Ok(())
        })
    }

    /// What listens is another's: it goes on.
    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.0.commands.lock().unwrap().push("sleep");
            self.0.set(Observed::Down);
            Ok(())
        })
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async { Ok(*self.0.state.lock().unwrap()) })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn still_starts(&self) -> Work<'_, ()> {
        Box::pin(async {
            match self.0.subject {
                Subject::Child if self.0.port_is_taken => Err(Error::Ended {
                    program: "server".to_owned(),
                    status: "exit status: 1".to_owned(),
                    log: "server.log".into(),
                }),
                _ => Ok(()),
            }
        })
    }

    fn subject(&self) -> Subject {
        self.0.subject
    }
}

/// Supervises the server in virtual time, without a policy that would put it to sleep.
fn story<F: Future>(facts: &Arc<Facts>, story: impl FnOnce(Clock, Arc<Supervisor>) -> F) {
    let clock = Clock::virtual_at(Wall::from_secs(0), 0);
    let runtime = clock.runtime().unwrap();
    runtime.block_on(async {
        let control = ServerControl {
            controller: Box::new(Fake(Arc::clone(facts))),
            probe: Probe::new(probe::Config::tcp(facts.address.to_string()), clock.clone()),
            neighbour: None,
        };
        let records = Records {
            journal: None,
            memory: Memory::default(),
            shelf: None,
            meters: Meters::default(),
            chronicle: None,
            handed: None,
        };
        let settings = Settings::of(&Scenario::default());
        let (supervisor, task) =
            Supervisor::start("blog", &clock, settings, Box::new(AlwaysOn), control, records);
        story(clock.clone(), Arc::clone(&supervisor)).await;
        crate::supervisor::end(task).await;
    });
}

/// The phases that follow an order, until none came for an hour.
async fn phases_after(clock: &Clock, supervisor: &Supervisor, order: Order) -> Vec<Phase> {
    let mut phase = supervisor.phase();
    phase.mark_unchanged();
    supervisor.order(order);
    let mut phases = Vec::new();
    while let Ok(Ok(())) = clock.timeout(Duration::from_hours(1), phase.changed()).await {
        phases.push(*phase.borrow_and_update());
    }
    phases
}

/// The phase in which the server is found.
async fn found(supervisor: &Supervisor) -> Phase {
    *supervisor.phase().wait_for(|phase| *phase != Phase::Unknown).await.unwrap()
}

fn reason(supervisor: &Supervisor) -> String {
    supervisor.status().inhibited_by.unwrap_or_default()
}

#[test]
fn what_another_started_is_awake_and_is_not_put_to_sleep() {
    for subject in [Subject::Unit, Subject::Program, Subject::Child] {
        let facts = Facts::new(subject, Observed::Down, true, false);
        story(&facts, |clock, supervisor| async move {
            assert_eq!(found(&supervisor).await, Phase::Awake);
            assert!(reason(&supervisor).contains("did not start answers"), "{subject:?}");
            let phases = phases_after(&clock, &supervisor, Order::Sleep).await;
            assert!(!phases.contains(&Phase::Asleep), "{subject:?}: {phases:?}");
            assert_eq!(supervisor.phase_now(), Phase::Awake);
        });
        assert!(facts.commands().is_empty(), "{subject:?}: there is nothing to stop");
    }
}

#[test]
fn what_goes_on_answering_after_the_server_was_stopped_is_awake() {
    for subject in [Subject::Program, Subject::Child] {
        let facts = Facts::new(subject, Observed::Up, true, false);
        let theirs = Arc::clone(&facts);
        story(&facts, |clock, supervisor| async move {
            assert_eq!(found(&supervisor).await, Phase::Awake);
            assert_eq!(reason(&supervisor), "");
            let phases = phases_after(&clock, &supervisor, Order::Sleep).await;
            assert!(!phases.contains(&Phase::Asleep), "{subject:?}: {phases:?}");
            assert!(reason(&supervisor).contains("did not start answers"), "{subject:?}");
            // When it ends, the server sleeps.
            theirs.stop_listening();
            supervisor.unreachable();
            let mut phase = supervisor.phase();
            assert_eq!(*phase.wait_for(|it| *it != Phase::Awake).await.unwrap(), Phase::Asleep);
        });
        assert_eq!(facts.commands(), ["sleep"], "{subject:?}");
    }
}

#[test]
fn a_machine_that_its_controller_knows_to_sleep_and_what_stands_still_are_not_probed() {
    // The listener stands for what would wake the machine, and for the kernel of a frozen program.
    let machine = Facts::new(Subject::Machine, Observed::Up, true, false);
    story(&machine, |clock, supervisor| async move {
        assert_eq!(found(&supervisor).await, Phase::Awake);
        let phases = phases_after(&clock, &supervisor, Order::Sleep).await;
        assert_eq!(phases.last(), Some(&Phase::Asleep), "{phases:?}");
    });
    let frozen = Facts::new(Subject::Program, Observed::Frozen, true, false);
    let theirs = Arc::clone(&frozen);
    story(&frozen, |_, supervisor| async move {
        let control = ServerControl {
            controller: Box::new(Fake(theirs)),
            probe: Probe::new(probe::Config::Controller, supervisor.clock().clone()),
            neighbour: None,
        };
        assert!(control.sleeps_for_sure().await && !control.has_no_server().await);
    });
}

#[test]
fn a_child_that_ended_is_no_wake_up_and_what_answers_is_not_its_own() {
    let facts = Facts::new(Subject::Child, Observed::Down, false, true);
    story(&facts, |_, supervisor| async move {
        assert_eq!(found(&supervisor).await, Phase::Asleep);
        let mut phase = supervisor.phase();
        supervisor.order(Order::Wake);
        assert!(phase.wait_for(|it| *it == Phase::Awake).await.is_ok());
        assert!(reason(&supervisor).contains("did not start answers"));
    });
    // The second attempt finds what has its port, and starts nothing.
    assert_eq!(facts.commands(), ["wake"]);
}

#[test]
fn no_child_is_started_where_another_has_its_port() {
    let facts = Facts::new(Subject::Child, Observed::Down, false, true);
    let theirs = Arc::clone(&facts);
    story(&facts, |_, supervisor| async move {
        assert_eq!(found(&supervisor).await, Phase::Asleep);
        theirs.listen();
        let mut phase = supervisor.phase();
        supervisor.order(Order::Wake);
        assert!(phase.wait_for(|it| *it == Phase::Awake).await.is_ok());
        assert!(reason(&supervisor).contains("did not start answers"));
    });
    assert!(facts.commands().is_empty());
}
