//! What each driver knows about its own settings.

use std::path::Path;

use crate::container::Address;

/// A program that a driver runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The package of Debian that has it.
    pub package: &'static str,
}

/// A container that is controlled.
#[derive(Debug, Clone, Copy)]
pub struct ContainerOf<'a> {
    /// Its name or id.
    pub name: &'a str,
    /// Where its daemon listens.
    pub socket: &'a Address,
    /// The containers that it needs.
    pub needs: &'a [String],
}

/// What a driver does with its settings. Each driver states what differs from the default.
#[derive(Debug, Default)]
pub(crate) struct Facts<'a> {
    /// The program that it runs, except those that its settings name.
    pub(crate) program: Option<Program>,
    /// Is what it controls a part of this machine, or nothing but a rehearsal?
    pub(crate) is_on_this_machine: bool,
    /// Is it unable to report whether the server is up?
    pub(crate) is_mute: bool,
    /// Is it a part of the server? Then a question for the state disturbs the server while it sleeps.
    pub(crate) is_in_server: bool,
    /// Addresses of the machine that it wakes or puts to sleep.
    pub(crate) machine: Vec<String>,
    /// The container that it controls.
    pub(crate) container: Option<ContainerOf<'a>>,
    /// Why these settings are refused.
    pub(crate) fault: Option<String>,
    /// Why these settings are refused if it is to wake the server.
    pub(crate) cannot_wake: Option<String>,
    /// The file of the key that it shares with an agent.
    pub(crate) agent_key: Option<&'a Path>,
    /// The file of its password.
    pub(crate) password_file: Option<&'a Path>,
    /// The file of the certificates that it trusts.
    pub(crate) ca: Option<&'a Path>,
    /// The files that it gives to a program, with the keys that name them.
    pub(crate) files: Vec<(&'static str, Option<&'a Path>)>,
    /// Settings that do not do what they seem to, in words.
    pub(crate) risks: Vec<String>,
}
