//! A plan of commands that are compared with each other on this machine, without a file.

use super::{Plan, PlanFile};
use crate::error::Error;

/// What the command line says of it; what it does not say is as in a plan.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// Lines for a shell; the first is 100 %.
    pub lines: Vec<String>,
    /// How many times each is run.
    pub runs: Option<u32>,
    /// Unmeasured runs before.
    pub warm_ups: Option<u32>,
    /// Meters, as `--meter` has them.
    pub meters: Vec<String>,
}

impl Commands {
    /// The plan: each run of a command is one operation.
    pub fn plan(&self) -> Result<Plan, Error> {
        let text = |words: &[String]| {
            let words = words.iter().map(|word| toml::Value::from(word.as_str()));
            toml::Value::Array(words.collect()).to_string()
        };
        let runs = self.runs.map(|runs| format!("least = {runs}\nmost = {runs}\n"));
        let warm_ups = self.warm_ups.map(|runs| format!("warm_ups = {runs}\n"));
        let text = format!(
            "compare = \"command\"\nmeters = {}\n[runs]\n{}{}\
             [[environment]]\nname = \"host\"\nkind = \"host\"\n\
             [[factor]]\nname = \"command\"\nvalues = {}\n\
             [[workload]]\nname = \"commands\"\ntool = \"none\"\ncommand = \"{{command}}\"\n",
            text(&self.meters),
            runs.unwrap_or_default(),
            warm_ups.unwrap_or_default(),
            text(&self.lines),
        );
        PlanFile::read("the command line", &self.lines.join(" / "), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_the_values_that_are_compared() {
        let lines = ["awk '{print $1}' \"a b\"", "printf '%s\\n' {x} ${HOME}"].map(str::to_owned);
        let commands = Commands { lines: lines.to_vec(), runs: Some(5), ..Commands::default() };
        let plan = commands.plan().unwrap();
        assert_eq!((plan.compared(), plan.cells.len(), plan.baseline), ("command", 2, 0));
        assert_eq!((plan.runs.least, plan.runs.most, plan.runs.warm_ups), (5, 5, 1));
        assert_eq!(plan.factors[0].values, lines);
        let too_few = Commands { runs: Some(2), ..commands.clone() };
        assert!(too_few.plan().unwrap_err().to_string().contains("3 runs"));
        let one = Commands { lines: vec![lines[0].clone(), lines[0].clone()], ..commands };
        assert!(one.plan().is_err(), "the same twice");
    }
}
