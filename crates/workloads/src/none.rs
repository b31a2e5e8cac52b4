//! A command whose output is not read: each run of it is one operation, and takes as long as it runs.

use crate::error::ReadError;
use crate::outcome::{Operations, Outcome};
use crate::output::Output;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "none",
    about: "any command: nothing is read, and each run is one operation",
    example: "zstd -3 -k -f big.tar",
    main: "energy_per_operation",
    reader: read,
};

#[expect(clippy::unnecessary_wraps, reason = "as all readers are")]
fn read(_: &Output<'_>) -> Result<Outcome, ReadError> {
    let operations = Some(Operations { count: 1, what: "runs".into() });
    Ok(Outcome { operations, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_command_prints_it_has_run_once() {
        let of = |stdout| TOOL.read(&Output { stdout, ..Output::default() }).unwrap();
        let outcome = of("elapsed: 1,5 s\n");
        assert_eq!(outcome, of(""));
        let operations = outcome.operations.unwrap();
        assert_eq!((operations.count, &*operations.what), (1, "runs"));
        assert!(outcome.figures.is_empty() && outcome.duration.is_none());
    }
}
