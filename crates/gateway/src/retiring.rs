//! Removed sites and machines, as long as clients wait for them or are served by them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::gateway::Gateway;
use crate::supervisor::{Supervisor, end};

/// A site or machine that is not in the configuration any more, and its background tasks.
pub(crate) struct Leaving {
    pub(crate) name: String,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) jobs: Vec<JoinHandle<()>>,
}

impl Leaving {
    pub(crate) fn into_job(self) -> (String, Vec<JoinHandle<()>>) {
        (self.name, self.jobs)
    }

    pub(crate) async fn end(self) {
        for job in self.jobs {
            end(job).await;
        }
    }
}

/// Sites and machines that one reload removed, and their gateway.
pub(crate) struct Retired {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) hold: Duration,
    /// Sites first, then the machines under them.
    pub(crate) leaving: Vec<Leaving>,
}

impl Retired {
    /// Each continues until no client waits for it any more.
    pub(crate) fn retire(self) -> Retiring {
        let names = self.leaving.iter().map(|it| it.name.clone()).collect();
        let hurry = Arc::new(Notify::new());
        let task = tokio::spawn(retire(self, Arc::clone(&hurry)));
        Retiring { names, hurry, task }
    }
}

/// Removed sites and machines, as long as a client waits for them.
pub(crate) struct Retiring {
    pub(crate) names: Vec<String>,
    hurry: Arc<Notify>,
    /// Returns those that clients still waited for when `hurry` was notified.
    task: JoinHandle<Retired>,
}

impl Retiring {
    /// Whether all of them have ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends them now.
    pub(crate) async fn end(self) {
        for leaving in self.call_back().await.leaving {
            leaving.end().await;
        }
    }

    /// Returns those that have not ended yet.
    pub(crate) async fn call_back(self) -> Retired {
        self.hurry.notify_one();
        match self.task.await {
            Ok(retired) => retired,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Ends one after the other, once no client waits for it or is served by it. Returns the rest if there is a hurry.
async fn retire(mut retired: Retired, hurry: Arc<Notify>) -> Retired {
    while let Some(first) = retired.leaving.first() {
        tokio::select! {
            () = hurry.notified() => return retired,
            () = unneeded(&first.supervisor, retired.hold) => {}
        }
        let first = retired.leaving.remove(0);
        first.supervisor.leave().await;
        first.end().await;
    }
    retired
}

/// Returns when no client waits for a server or is served by it.
async fn unneeded(supervisor: &Supervisor, hold: Duration) {
    let (mut phase, mut busy) = (supervisor.phase(), supervisor.busy());
    while supervisor.held() > 0 {
        let changed = supervisor.clock().timeout(hold, phase.changed()).await;
        if !matches!(changed, Ok(Ok(()))) {
            break;
        }
    }
    // Its machine stays awake for clients that are still served.
    while supervisor.held() == 0 && *busy.borrow_and_update() {
        let _ = busy.changed().await;
    }
}
