//! What an environment starts is kept together, so that all of it can be ended.
//!
//! A cgroup where we may make one: whatever becomes of sessions and parents, nothing leaves it by
//! itself. All else, and those who may not make one, go by a variable of the environment that is
//! handed on from parent to child.

use std::fmt::Write;

use crate::Error;
use crate::start::Start;

const MAKE: &str = include_str!("process_scope.sh");
const END: &str = include_str!("process_scope_end.sh");

/// Where processes are kept together.
#[derive(Debug, Clone)]
pub(crate) struct ProcessScope {
    name: String,
    groups: Vec<String>,
}

impl ProcessScope {
    /// Makes one; with as much memory for all in it as the options say.
    pub(crate) fn make(start: &mut Start<'_>, limit_memory: bool) -> Result<Self, Error> {
        let name = start.id.clone();
        start.protect(&END.replace("NAME", &name))?;
        let memory = start.common.memory.filter(|_| limit_memory);
        let bytes = memory.map(|memory| memory.0.to_string()).unwrap_or_default();
        let line = format!("set -- {name} '{bytes}'\n{MAKE}");
        let output = start.run("make a cgroup", &line)?;
        let groups: Vec<_> = output.lines().map(str::to_owned).collect();
        if groups.iter().any(|group| group == "unlimited") {
            return Err(start.refuse(
                "no cgroup can limit its memory here (it takes root, or a delegated cgroup with the \
                 memory controller); leave `memory` out",
            ));
        }
        Ok(Self { name, groups })
    }

    /// Without a cgroup, for what has its own: a program that is started with the words that this gives is
    /// ended at the end, and what it has started.
    pub(crate) fn mark(start: &mut Start<'_>) -> Result<Vec<String>, Error> {
        let name = start.id.clone();
        start.protect(&END.replace("NAME", &name))?;
        Ok(vec!["env".to_owned(), mark(&name)])
    }

    /// What starts a program in it; the program comes behind.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let mut line = String::new();
        for group in &self.groups {
            let _ = write!(line, "echo 0 >{group}/cgroup.procs && ");
        }
        line.push_str("exec \"$@\"");
        let marked = mark(&self.name);
        let words = ["/bin/sh", "-c", &line, "nightwatt", "env", &marked];
        words.map(str::to_owned).to_vec()
    }
}

impl Start<'_> {
    /// A scope, and what starts a program in it; with the memory and on the CPUs of this copy, unless
    /// something else sees to those.
    pub(crate) fn in_scope(&mut self, is_limited: bool) -> Result<Vec<String>, Error> {
        let mut prefix = ProcessScope::make(self, is_limited)?.prefix();
        if is_limited {
            prefix.extend(self.on_cpus()?);
        }
        Ok(prefix)
    }
}

fn mark(name: &str) -> String {
    format!("NIGHTWATT_PEN={name}")
}
