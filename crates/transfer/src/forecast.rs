//! What sending would do (`--dry-run`), for people and for programs.

use std::collections::HashMap;
use std::fmt::Write as _;

use nightwatt_energy::display::bytes;
use serde::Serialize;

use crate::pure::shown;
use crate::send::Session;
use crate::wire::What;

/// What would be done at the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// Files, folders and links that would be written.
    pub write: Vec<String>,
    /// Bytes of these files.
    pub write_bytes: u64,
    /// Files and folders that would only get other permissions or attributes.
    pub permissions: Vec<String>,
    /// What would be deleted.
    pub delete: Vec<String>,
    /// What would not be written: path and reason.
    pub refused: Vec<[String; 2]>,
    /// Paths that could not be read here.
    pub skipped: Vec<String>,
}

impl Forecast {
    /// Of a session that is done.
    pub fn of(session: &Session) -> Self {
        let sizes: HashMap<&[u8], u64> =
            session.entries().iter().map(|it| (it.path.as_slice(), it.bytes())).collect();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of = |what: What| session.changes().iter().filter(move |it| it.what == what);
        let paths = |what: What| of(what).map(|it| lossy(&it.path)).collect();
        let written = of(What::Write).filter_map(|it| sizes.get(it.path.as_slice()));
        // Of paths that the receiver may not even look for, the receipt has the first.
        let receipt = session.receipt().into_iter().flat_map(|receipt| &receipt.rejected);
        let refused = of(What::Refuse).map(|it| [lossy(&it.path), it.reason.clone()]);
        let rejected = receipt.map(|it| [lossy(&it.path), it.reason.clone()]);
        Self {
            write: paths(What::Write),
            write_bytes: written.sum(),
            permissions: paths(What::Dress),
            delete: paths(What::Delete),
            refused: refused.chain(rejected).collect(),
            skipped: Vec::new(),
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, path: &str, reason: &str| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{what:<12} {}{}", shown::line(path), shown::line(reason));
        };
        self.write.iter().for_each(|path| line("write", path, ""));
        self.permissions.iter().for_each(|path| line("permissions", path, ""));
        self.delete.iter().for_each(|path| line("delete", path, ""));
        for [path, reason] in &self.refused {
            line("not written", path, &format!(": {reason}"));
        }
        let Self { write, permissions, delete, refused, .. } = self;
        let _ = writeln!(
            text,
            "nothing was changed: {} to write ({}), {} with other permissions, {} to delete, {} refused",
            write.len(),
            bytes(self.write_bytes),
            permissions.len(),
            delete.len(),
            refused.len()
        );
        text
    }
}
