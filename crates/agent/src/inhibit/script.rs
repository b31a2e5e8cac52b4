//! A program of the operator's: status 0 means that the machine may sleep.

use std::time::Duration;

use tokio::process::Command;

use super::Inhibitions;
use crate::program::{self, Trouble};

/// A reason has to fit into a message beside others.
const LONGEST: usize = 200;

pub(super) async fn check(program: &str, arguments: &[String], limit: Duration) -> Inhibitions {
    let mut command = Command::new(program);
    command.args(arguments);
    match program::run(command, limit).await {
        Ok(ended) if ended.status.success() => Ok(Vec::new()),
        Ok(ended) => {
            let said = ended.first_line().unwrap_or("it does not say why").to_owned();
            Ok(vec![format!("{program}: {}", &said[..said.floor_char_boundary(LONGEST)])])
        }
        Err(Trouble::TimedOut) => Err(format!("{program} was not done after {limit:?}")),
        Err(trouble) => Err(format!("cannot run {program}: {trouble}")),
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_clock::Clock;

    use super::*;

    fn inhibitions(script: &str, limit: Duration) -> Inhibitions {
        let arguments = ["-c".to_owned(), script.to_owned()];
        Clock::real().runtime().unwrap().block_on(check("/bin/sh", &arguments, limit))
    }

    #[test]
    fn a_script_says_why_and_one_that_hangs_keeps_the_machine_awake() {
        let long = Duration::from_mins(1);
        assert_eq!(inhibitions("echo fine", long), Ok(vec![]));
        assert_eq!(
            inhibitions("echo; echo a backup runs; exit 1", long),
            Ok(vec!["/bin/sh: a backup runs".to_owned()])
        );
        assert_eq!(
            inhibitions("echo oops >&2; exit 3", long),
            Ok(vec!["/bin/sh: oops".to_owned()])
        );
        assert!(
            inhibitions("sleep 1000", Duration::from_millis(50))
                .unwrap_err()
                .contains("not done after")
        );
        // A process that it leaves in the background does not delay the result.
        assert_eq!(inhibitions("sleep 1000 & exit 0", long), Ok(vec![]));
        let nothing =
            Clock::real().runtime().unwrap().block_on(check("/no/such/script", &[], long));
        assert!(nothing.unwrap_err().contains("no such program"));
    }
}
