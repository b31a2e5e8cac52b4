//! Extended attributes of files and folders: those of users, `user.*`. Others need privileges, or mean something only
//! here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;

use crate::wire::{Attribute, MOST_ATTRIBUTE, OF_USERS};

/// Most bytes of all attributes of a file: they are in one message.
const MOST: usize = 1 << 20;
/// Bytes of a list of names, more than Linux ever has.
const LIST: usize = 64 << 10;

/// The attributes; or why they could not be read. File systems without attributes have none.
pub(super) fn attributes(path: &Path) -> Result<Vec<Attribute>, String> {
    let mut list = vec![0; LIST];
    let length = match llistxattr(path, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(errno) => return Err(errno.to_string()),
    };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(OF_USERS));
    let attributes: Vec<Attribute> =
        names.map(|name| attribute(path, name)).collect::<Result<_, _>>()?;
    let bytes: usize = attributes.iter().map(|it| it.value.len()).sum();
    if bytes > MOST {
        return Err(format!("its attributes have {bytes} bytes: at most {MOST} are sent"));
    }
    Ok(attributes)
}

fn attribute(path: &Path, name: &[u8]) -> Result<Attribute, String> {
    let mut value = vec![0; MOST_ATTRIBUTE];
    let name = OsStr::from_bytes(name);
    let length = lgetxattr(path, name, &mut value[..])
        .map_err(|errno| format!("its attribute {}: {errno}", name.display()))?;
    value.truncate(length);
    Ok(Attribute { name: name.as_bytes().to_vec(), value })
}
