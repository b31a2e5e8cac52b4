//! What is sent, and where to.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use nightwatt_transfer::net::{self, Address, ConnectError, Ends, Ticket};
use nightwatt_transfer::ssh::{Remote, Started, Target};

use super::Args;
use crate::args::ticket;
use crate::errors::Failure;

/// Where to.
pub(super) enum To {
    /// A folder of a machine that ssh reaches.
    Ssh(Target),
    /// A receiver that listens.
    Net(Address, Option<Ticket>),
}

/// What is sent, and where to.
pub(super) struct Destination {
    pub(super) paths: Vec<PathBuf>,
    /// The name of the file that stdin becomes there, if stdin is what is sent.
    pub(super) stream: Option<Vec<u8>>,
    pub(super) session: [u8; 16],
    pub(super) to: To,
}

/// What reaches the receiver.
pub(super) struct Link {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) writer: Box<dyn Write + Send>,
    close: Box<dyn Fn()>,
    wait: Box<dyn FnOnce() -> io::Result<Option<ExitStatus>>>,
}

impl Link {
    /// The two streams, and its end.
    pub(super) fn parts(self) -> (Box<dyn Read + Send>, Box<dyn Write + Send>, Ending) {
        (self.reader, self.writer, Ending { close: self.close, wait: self.wait })
    }
}

/// The end of a link.
pub(super) struct Ending {
    close: Box<dyn Fn()>,
    wait: Box<dyn FnOnce() -> io::Result<Option<ExitStatus>>>,
}

impl Ending {
    pub(super) fn close(&self) {
        (self.close)();
    }

    /// Waits for the end of the program that reaches the other machine, if there is one.
    pub(super) fn wait(self) -> Option<i32> {
        (self.wait)().ok().flatten().and_then(|status| status.code())
    }
}

impl Destination {
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        let Some((last, paths)) = args.paths.split_last().filter(|(_, paths)| !paths.is_empty())
        else {
            return Err(Failure::new("what to send, and where to, must both be given")
                .into_usage()
                .hint("write `nightwatt send FILE HOST:PATH`"));
        };
        let paths = paths.to_vec();
        let is_stream = paths.iter().any(|path| path == Path::new("-"));
        if is_stream {
            refuse_with_stream(args, &paths)?;
        }
        let Some(last) = last.to_str() else {
            let text = last.display();
            let what = format!("where to send, `{text}`, is no UTF-8, and would be another folder");
            return Err(Failure::new(what)
                .into_usage()
                .hint("name a folder whose path is UTF-8, such as the one that it is in"));
        };
        if Address::is_meant(last) {
            return Self::on_the_net(args, last, paths, is_stream);
        }
        if args.insecure || args.ticket_file.is_some() {
            return Err(Failure::new("ssh needs neither `--ticket-file` nor `--insecure`")
                .into_usage()
                .hint("leave them out, or name a receiver that listens: `tls://HOST:PORT`"));
        }
        let mut target: Target = last.parse().map_err(|error| Failure::usage(&error))?;
        let session = target.session(&paths);
        let stream = if is_stream { Some(split(&mut target)?) } else { None };
        Ok(Self { paths, stream, session, to: To::Ssh(target) })
    }

    fn on_the_net(
        args: &Args,
        text: &str,
        paths: Vec<PathBuf>,
        is_stream: bool,
    ) -> Result<Self, Failure> {
        let address: Address = text.parse().map_err(|error| Failure::usage(&error))?;
        if address.is_encrypted == args.insecure {
            return Err(not_as_meant(address.is_encrypted));
        }
        if address.name.is_some() && !is_stream {
            return Err(Failure::new("the receiver decides where files go")
                .into_usage()
                .hint(format!("write only `tls://{}`", address.authority)));
        }
        let ticket = if address.is_encrypted {
            Some(ticket::read(args.ticket_file.as_deref())?)
        } else {
            None
        };
        let name = address.name.clone().unwrap_or_else(|| "stdin".to_owned());
        let place = Target { host: address.authority.clone(), path: name.clone() };
        let session = place.session(&paths);
        let stream = is_stream.then(|| name.into_bytes());
        Ok(Self { paths, stream, session, to: To::Net(address, ticket) })
    }

    /// The other machine, for messages.
    pub(super) fn host(&self) -> &str {
        match &self.to {
            To::Ssh(target) => &target.host,
            To::Net(address, _) => &address.authority,
        }
    }

    /// Reaches the receiver.
    pub(super) fn link(&self, args: &Args) -> Result<Link, Failure> {
        match &self.to {
            To::Ssh(target) => {
                let shell = args.rsh.split_whitespace().map(OsString::from).collect();
                let remote = Remote { shell, program: args.remote_program.clone() };
                let Started { writer, reader, ending } = remote.start(target).map_err(|error| {
                    Failure::because(format!("cannot start `{}`", args.rsh), &error)
                        .hint("install an ssh client, or name another program with `--rsh`")
                })?;
                let ending = std::rc::Rc::new(ending);
                let killed = std::rc::Rc::clone(&ending);
                Ok(Link {
                    reader: Box::new(reader),
                    writer: Box::new(writer),
                    close: Box::new(move || killed.kill()),
                    wait: Box::new(move || ending.wait().map(Some)),
                })
            }
            To::Net(address, ticket) => {
                let connected = net::connect(address, ticket.as_ref());
                let Ends { reader, writer, socket } =
                    connected.map_err(|error| unreached(&error))?;
                let close = Box::new(move || drop(socket.shutdown(Shutdown::Both)));
                Ok(Link { reader, writer, close, wait: Box::new(|| Ok(None)) })
            }
        }
    }
}

/// The scheme and `--insecure` do not go together.
fn not_as_meant(is_encrypted: bool) -> Failure {
    if is_encrypted {
        return Failure::new("`--insecure` is for `tcp://`, and this is `tls://`")
            .into_usage()
            .hint("leave `--insecure` out");
    }
    Failure::new(
        "`tcp://` is not encrypted, and any machine on the way may read and change what is sent",
    )
    .into_usage()
    .hint("use `tls://`, or add `--insecure` on both ends if the network is yours alone")
}

fn unreached(error: &ConnectError) -> Failure {
    let hint = match error {
        ConnectError::Unreached { .. } => {
            "is `nightwatt receive --listen` running there, and does a firewall let its port through?"
        }
        ConnectError::Stranger(_) => {
            "each start of `nightwatt receive --listen` has a new key: use the ticket of this one; if it is the right \
             ticket, another machine answers at this address"
        }
        ConnectError::Handshake { .. } => {
            "is another program on this port, or a receiver that was started with `--insecure`?"
        }
        ConnectError::Tls(_) => return Failure::failed(error),
    };
    Failure::failed(error).hint(hint)
}

/// What goes with files and not with stdin.
fn refuse_with_stream(args: &Args, paths: &[PathBuf]) -> Result<(), Failure> {
    let option = [
        (args.delete, "--delete"),
        (args.dry_run, "--dry-run"),
        (args.xattrs, "--xattrs"),
        (!args.exclude.is_empty(), "--exclude"),
    ];
    if let Some((_, option)) = option.iter().find(|(is_set, _)| *is_set) {
        return Err(Failure::new(format!("`{option}` has no meaning for stdin (`-`)"))
            .into_usage()
            .hint("leave it out, or name files and folders"));
    }
    if paths.len() > 1 {
        return Err(Failure::new("stdin (`-`) is sent alone")
            .into_usage()
            .hint("send files and folders by a command of their own"));
    }
    Ok(())
}

/// The last part of the path is the file's name.
fn split(target: &mut Target) -> Result<Vec<u8>, Failure> {
    let path = PathBuf::from(&target.path);
    let name = path.file_name().filter(|_| !target.path.ends_with('/') && target.path != ".");
    let Some(name) = name else {
        return Err(Failure::new(format!(
            "`{}:{}` names no file that stdin (`-`) could become",
            target.host, target.path
        ))
        .into_usage()
        .hint(format!("write for example `{}:backup/today.tar`", target.host)));
    };
    let parent = path.parent().map(|it| it.display().to_string()).unwrap_or_default();
    target.path = if parent.is_empty() { ".".to_owned() } else { parent };
    Ok(name.as_bytes().to_vec())
}
