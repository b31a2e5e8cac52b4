//! Jobs, on the page.

use nightwatt_report::exposition::Exposition;

use super::gauge;
use crate::gateway::Gateway;
use crate::status::JobStatus;

/// Nothing for a configuration without one.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let all: Vec<JobStatus> = gateway.jobs_status();
    if all.is_empty() {
        return;
    }
    let succeeded = gauge(
        "nightwatt_job_last_success_timestamp_seconds",
        &["job"],
        "When a job last succeeded, in seconds since 1970; 0 before it has.",
    );
    page.family(succeeded, |samples| {
        for job in &all {
            samples.add(&[&job.name], job.succeeded_ms.unwrap_or(0) as f64 / 1000.0);
        }
    });
    let failures = gauge(
        "nightwatt_job_failures",
        &["job"],
        "Runs of a job that failed since the last one that succeeded.",
    );
    page.family(failures, |samples| {
        for job in &all {
            samples.add(&[&job.name], job.failures);
        }
    });
    let running = gauge("nightwatt_job_running", &["job"], "1 while a job runs, else 0.");
    page.family(running, |samples| {
        for job in &all {
            samples.add(&[&job.name], u8::from(job.running_for_s.is_some()));
        }
    });
}
