//! What kinds of environments need while they start one.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nightwatt_clock::meter::{Stamp, Stop, monotonic};
use nightwatt_energy::time::Mono;

use crate::common::Common;
use crate::guard::{Guard, Undo};
use crate::needs::Needs;
use crate::started::Started;
use crate::{Error, ShellTarget, remove, shell, tool};

/// An environment that is being started. Dropped before it is ready, what was done is undone.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) common: &'a Common,
    pub(crate) kind: &'static str,
    pub(crate) copy: u32,
    /// Where it is made.
    pub(crate) place: ShellTarget,
    /// Where a client on this machine reaches that place, and under which other ports.
    pub(crate) outer_address: String,
    pub(crate) outer_ports: Vec<(u16, u16)>,
    /// No other environment ever has this name.
    pub(crate) id: String,
    guard: &'a Guard,
    stop: &'a Stop,
    deadline: Mono,
    whole_limit: Duration,
    undos: Vec<Undo>,
}

impl<'a> Start<'a> {
    pub(crate) fn new(
        common: &'a Common,
        kind: &'static str,
        copy: u32,
        outer: Option<&Started>,
        guard: &'a Guard,
        stop: &'a Stop,
        default_limit: Duration,
    ) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("nightwatt-{}-{count}-{:x}", process::id(), Stamp::now().wall_ns);
        let limit = common.ready_seconds.map_or(default_limit, Duration::from_secs);
        Self {
            common,
            kind,
            copy,
            place: outer.map_or_else(ShellTarget::here, |outer| outer.place().clone()),
            outer_address: outer.map_or_else(|| "127.0.0.1".to_owned(), Started::address),
            outer_ports: outer.map_or_else(Vec::new, |outer| outer.ports().to_vec()),
            id,
            guard,
            stop,
            deadline: monotonic() + limit,
            whole_limit: limit,
            undos: Vec::new(),
        }
    }

    /// An option does not fit.
    pub(crate) fn refuse(&self, why: impl Into<String>) -> Error {
        Error::Option { name: self.common.name.clone(), kind: self.kind, why: why.into() }
    }

    fn in_this_environment(&self, what: &str) -> String {
        format!("{what} (environment `{}`)", self.common.name)
    }

    fn limit(&self) -> Duration {
        self.deadline.since(monotonic())
    }

    /// Runs a line where the environment is made; it must succeed. Gives what it prints.
    pub(crate) fn run(&self, what: &str, line: &str) -> Result<String, Error> {
        let ran = self.try_in(&self.place, what, line)?;
        tool::successful(&self.place.argv(line), &self.in_this_environment(what), ran)
    }

    /// Runs a line somewhere else, and gives what came of it.
    pub(crate) fn try_in(
        &self,
        place: &ShellTarget,
        what: &str,
        line: &str,
    ) -> Result<tool::Ran, Error> {
        let (argv, what) = (place.argv(line), self.in_this_environment(what));
        self.guard.run(&argv, &what, self.limit(), self.stop)
    }

    /// From now on this line is run at the end, where the environment is made.
    pub(crate) fn protect(&mut self, line: &str) -> Result<(), Error> {
        let line =
            if self.place.is_here() { line.to_owned() } else { shell::join(self.place.argv(line)) };
        self.undos.push(self.guard.protect(&line)?);
        Ok(())
    }

    /// Waits before the next poll of something that sends no event; false once the time is over.
    pub(crate) fn wait(&self, time: Duration) -> Result<bool, Error> {
        self.stop.wait_until((monotonic() + time).min(self.deadline));
        if self.stop.is_stopped() {
            return Err(Error::Stopped(self.in_this_environment("start")));
        }
        Ok(monotonic() < self.deadline)
    }

    /// It took too long.
    pub(crate) fn late(&self, what: &str) -> Error {
        Error::TimedOut {
            what: self.in_this_environment(what),
            limit: self.whole_limit,
            output: String::new(),
        }
    }

    /// There must be what its kind needs.
    pub(crate) fn need(&self, needs: Needs) -> Result<(), Error> {
        if needs.root && !self.is_root()? {
            let why = format!("needs root on {}; `bubblewrap` and `podman` do without", self.place);
            return Err(self.refuse(why));
        }
        needs.programs.iter().try_for_each(|(program, advice)| self.need_program(program, advice))
    }

    /// There must be such a program.
    pub(crate) fn need_program(&self, program: &str, hint: &'static str) -> Result<(), Error> {
        let line = format!("command -v {} >/dev/null", shell::quote(program));
        if self.try_in(&self.place, "look for a program", &line)?.status.success() {
            return Ok(());
        }
        let (program, place) = (program.to_owned(), self.place.to_string());
        Err(Error::Missing { what: self.kind, program, place, hint })
    }

    pub(crate) fn is_root(&self) -> Result<bool, Error> {
        Ok(self.run("ask who we are", "id -u")?.trim() == "0")
    }

    /// A folder of its own where the environment is made, with an empty folder `scratch` in it.
    pub(crate) fn folder(&mut self, found_by: FoundBy) -> Result<String, Error> {
        let parent = match &self.common.scratch {
            Some(parent) => parent.clone(),
            None if self.place.is_here() => {
                // Of one that is relative every line would make something else.
                let named = std::env::var("TMPDIR").ok().filter(|named| named.starts_with('/'));
                named.unwrap_or_else(|| "/var/tmp".to_owned())
            }
            None => "/var/tmp".to_owned(),
        };
        self.folder_in(&parent, found_by, true)
    }

    /// The same somewhere else; it may be left to whatever ends the place itself.
    pub(crate) fn folder_in(
        &mut self,
        parent: &str,
        found_by: FoundBy,
        is_removed: bool,
    ) -> Result<String, Error> {
        let folder = format!("{}/{}", parent.trim_end_matches('/'), self.id);
        if is_removed {
            self.protect(&remove::line(&folder))?;
        }
        // The folder needs open permissions because not everything runs as the same user: PostgreSQL
        // refuses to be root. But in a folder that every user may write to, root could follow another
        // user's symbolic link.
        let line = format!("set -e\nfolder={}\n{}", shell::quote(&folder), found_by.make());
        let made = self.run("make a folder for it", &line)?;
        Ok(format!("{folder}{}", made.trim_end()))
    }

    /// The CPUs that this copy may use, if the options limit them.
    pub(crate) fn cpus(&self) -> Result<Option<Vec<u32>>, Error> {
        if self.common.cpus.is_none() && self.common.pin.is_none() {
            return Ok(None);
        }
        let status = self.run(
            "ask for its CPUs",
            "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status",
        )?;
        let allowed = crate::common::cpu_list(status.trim())
            .ok_or_else(|| self.refuse(format!("cannot read the list of CPUs {status:?}")))?;
        self.common.cpus_of(self.copy, &allowed).map(Some).map_err(|why| self.refuse(why))
    }

    /// The CPUs of this machine that the threads of a guest may use, if the options limit them. It may
    /// have more virtual ones than that.
    pub(crate) fn guest_cpus(&self) -> Result<Option<Vec<u32>>, Error> {
        match &self.common.pin {
            None => Ok(None),
            Some(pool) if self.common.cpus.is_none_or(|cpus| cpus as usize > pool.len()) => {
                Ok(Some(pool.clone()))
            }
            Some(_) => self.cpus(),
        }
    }

    /// What starts a program on the CPUs of this copy.
    pub(crate) fn on_cpus(&self) -> Result<Vec<String>, Error> {
        let words =
            |cpus: Vec<u32>| ["taskset".to_owned(), "-c".to_owned(), comma_separated(&cpus)];
        Ok(self.cpus()?.map(words).into_iter().flatten().collect())
    }

    /// Starts something that stays, and waits for so many lines of its output; `folder` is for its log.
    pub(crate) fn background(
        &mut self,
        what: &str,
        folder: &str,
        argv: &[String],
        lines: usize,
    ) -> Result<Vec<String>, Error> {
        let (ready, log) = (format!("{folder}/ready"), format!("{folder}/log"));
        let (ready, log) = (shell::quote(&ready), shell::quote(&log));
        let command = shell::join(argv);
        let script = format!(
            "mkfifo {ready} || exit 1\n\
             {command} </dev/null >{ready} 2>{log} &\n\
             exec <{ready}\n\
             count=0\n\
             while [ $count -lt {lines} ]; do\n\
             read -r line || {{ cat {log} >&2; exit 1; }}\n\
             echo \"$line\"; count=$((count + 1))\n\
             done"
        );
        let output = self.run(what, &script)?;
        Ok(output.lines().map(str::to_owned).collect())
    }

    /// It is there: tries it, asks it what it is like, and hands it over.
    pub(crate) fn ready(mut self, made: Created) -> Result<Started, Error> {
        let what = "run a first command in it";
        let place = made.place;
        let ran = self.try_in(&place, what, crate::started::FACTS)?;
        if !ran.status.success() {
            return Err(Error::Failed {
                what: self.in_this_environment(what),
                command: shell::join(place.argv("..")),
                status: tool::in_words(ran.status),
                output: ran.output_tail(),
            });
        }
        let mut facts = made.facts;
        facts.extend(ran.stdout.lines().filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        }));
        let undos = std::mem::take(&mut self.undos);
        Ok(Started::new(place, made.address, made.ports, made.scratch, facts, undos))
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        crate::started::undo_all(&mut self.undos).unwrap_or_else(|error| tracing::warn!("{error}"));
    }
}

/// Who can find an environment's folder, and with it the scratch folder, which every user may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// Only the owner: inside the environment, the scratch folder has another path.
    Owner,
    /// Any process that knows its path, a part of which cannot be guessed.
    WhoKnowsIt,
}

impl FoundBy {
    /// Makes `$folder`, and prints what its path then ends in.
    const fn make(self) -> &'static str {
        match self {
            Self::Owner => "mkdir -m 700 \"$folder\"\nmkdir -m 1777 \"$folder/scratch\"",
            Self::WhoKnowsIt => {
                "mkdir -m 711 \"$folder\"\n\
                 inner=$(mktemp -d \"$folder/XXXXXXXXXXXXXXXX\")\n\
                 chmod 711 \"$inner\"\n\
                 mkdir -m 1777 \"$inner/scratch\"\n\
                 echo \"/${inner##*/}\""
            }
        }
    }
}

/// What a kind has made.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) place: ShellTarget,
    pub(crate) address: String,
    /// Ports inside, and where they are reached.
    pub(crate) ports: Vec<(u16, u16)>,
    pub(crate) scratch: String,
    pub(crate) facts: Vec<(String, String)>,
}

/// `0,1,5`
pub(crate) fn comma_separated(cpus: &[u32]) -> String {
    let words: Vec<_> = cpus.iter().map(u32::to_string).collect();
    words.join(",")
}
