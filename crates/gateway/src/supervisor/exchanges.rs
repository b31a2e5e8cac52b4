//! Exchanges with the server, which is kept awake while one is under way; and which client may wake it for one.

use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::{Budget, ClientClass, Route};
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_policy::in_use::{Found, Standing};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::{AdmissionRequest, BudgetLeft, Payer};
use tokio::sync::watch;

use super::{Managed, Supervisor};

/// Whose exchange it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExchangeFor {
    /// A client that may wake the server: the server stays awake for it, which is charged to its network.
    Client { network: u64 },
    /// A crawler, scanner or monitor that found it awake.
    Guest,
}

impl ExchangeFor {
    /// A client of this class in this network.
    pub(crate) const fn of(class: ClientClass, network: u64) -> Self {
        if class.is_admitted() { Self::Client { network } } else { Self::Guest }
    }
}

impl Managed {
    /// Updates whether a pool's server has requests now.
    fn works(&mut self, now: Now) {
        self.manager.works(now, self.manager.in_flight() > self.tunnels);
    }
}

impl Supervisor {
    /// Begins an exchange with the server if it is awake: for a held request of a client of this network.
    pub(crate) fn try_begin(&self, network: u64) -> bool {
        let now = self.clock.now();
        self.with(|managed, _| {
            let awake = managed.manager.phase() == Phase::Awake;
            if awake {
                managed.manager.begin(now, network);
            }
            awake
        })
    }

    /// Whether it is awake, as far as known.
    pub(crate) fn is_awake(&self) -> bool {
        self.lock().manager.phase() == Phase::Awake
    }

    /// Lets a request without a stored answer through, and begins its exchange, if the server is awake.
    pub(crate) fn admit_awake(&self, admission_request: &AdmissionRequest) -> bool {
        let now = self.clock.now();
        self.with(|managed, actions| {
            managed.manager.phase() == Phase::Awake
                && managed.manager.admit(now, admission_request, actions) == Route::Forward
        })
    }

    /// Begins an exchange, whatever the state of the server. No client is charged for it.
    pub(crate) fn begin(&self) {
        self.begin_for(ExchangeFor::Client { network: UNLIMITED });
    }

    /// The same, on behalf of the given client.
    pub(crate) fn begin_for(&self, requester: ExchangeFor) {
        let now = self.clock.now();
        self.with(|managed, _| match requester {
            ExchangeFor::Client { network } => managed.manager.begin(now, network),
            ExchangeFor::Guest => managed.manager.begin_as_guest(),
        });
    }

    /// Whether it does not answer, but may be up.
    pub(crate) fn may_be_up(&self) -> bool {
        self.lock().manager.lifecycle().may_be_up()
    }

    /// Changes when it goes to sleep for certain; not when it merely does not answer.
    pub(crate) fn sleeps(&self) -> watch::Receiver<u64> {
        self.sleeps.subscribe()
    }

    /// Ends an exchange that [`begin`](Self::begin) began.
    pub(crate) fn end(&self) {
        self.end_for(ExchangeFor::Client { network: UNLIMITED });
    }

    /// Ends an exchange that was begun on behalf of the given client.
    pub(crate) fn end_for(&self, requester: ExchangeFor) {
        let now = self.clock.now();
        self.with(|managed, _| match requester {
            ExchangeFor::Client { network } => managed.manager.end(now, network),
            ExchangeFor::Guest => managed.manager.end_as_guest(now),
        });
    }

    /// An exchange with this server of a pool begins.
    pub(crate) fn take(&self) {
        let now = self.clock.now();
        self.with(|managed, _| {
            // The supervisor of the whole pool charges its client.
            managed.manager.begin(now, UNLIMITED);
            managed.manager.works(now, true);
        });
    }

    /// The exchange ends.
    pub(crate) fn release(&self) {
        let now = self.clock.now();
        self.with(|managed, _| {
            managed.manager.end(now, UNLIMITED);
            managed.works(now);
        });
    }

    /// The exchange became a tunnel: that keeps the server awake, but does not count as work.
    pub(crate) fn tunnel_opened(&self) {
        let now = self.clock.now();
        self.with(|managed, _| {
            managed.tunnels += 1;
            managed.works(now);
        });
    }

    /// The tunnel was closed.
    pub(crate) fn tunnel_closed(&self) {
        let now = self.clock.now();
        self.with(|managed, _| {
            managed.tunnels -= 1;
            managed.manager.end(now, UNLIMITED);
            managed.works(now);
        });
    }

    /// When a probe is to be asked whether the server is in use past this proxy.
    pub(crate) fn probes_due_at(&self) -> Mono {
        let now = self.clock.now();
        self.lock().manager.probes_due_at(now)
    }

    /// The probes that are to be asked now.
    pub(crate) fn probes_due(&self) -> Vec<usize> {
        let now = self.clock.now();
        self.lock().manager.probes_due(now)
    }

    /// A probe was asked. Returns its standing, unless the server went to sleep meanwhile.
    pub(crate) fn found_in_use(&self, probe: usize, found: Found) -> Option<Standing> {
        let now = self.clock.now();
        self.with(|managed, _| {
            managed.manager.found_in_use(now, probe, found);
            managed.manager.standings(now).get(probe).copied()
        })
    }

    /// What each probe contributes now; nothing while the server is not awake.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        let now = self.clock.now();
        self.lock().manager.standings(now)
    }

    /// Begins an exchange without a client, if the server is awake and not about to sleep.
    pub(crate) fn try_begin_background(&self) -> bool {
        self.with(|managed, _| {
            let begins = managed.manager.begin_background();
            managed.background += u32::from(begins);
            begins
        })
    }

    /// Ends an exchange without a client.
    pub(crate) fn end_background(&self) {
        let now = self.clock.now();
        self.with(|managed, _| {
            managed.background = managed.background.saturating_sub(1);
            managed.manager.end_background(now);
        });
    }

    /// Whether the server's sleep waits for exchanges without a client, and for nothing else.
    pub(crate) fn is_draining(&self) -> bool {
        self.lock().manager.is_draining()
    }

    /// Wakes a sleeping server, so that copies of its site can be confirmed.
    pub(crate) fn wake_to_refresh(&self) {
        let now = self.clock.now();
        self.with(|managed, actions| managed.manager.wake_to_refresh(now, actions));
    }

    /// Whether it was woken only for copies of its site, and no request has used it since.
    pub(crate) fn is_up_to_refresh(&self) -> bool {
        self.lock().manager.is_up_to_refresh()
    }

    /// What is left of the budgets of a client.
    pub(crate) fn budget_left(&self, payer: &Payer) -> BudgetLeft {
        let now = self.clock.now();
        self.lock().manager.budget_left(now, payer)
    }

    /// Restores the budgets of a client. Returns which of them were spent.
    pub(crate) fn forgive(&self, payer: &Payer) -> Vec<Budget> {
        let now = self.clock.now();
        self.with(|managed, _| managed.manager.forgive(now, payer))
    }
}
