//! The C programs that tests watch.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// With frame pointers for those that sample; they change nothing for the others.
const FLAGS: [&str; 3] = ["-O1", "-fno-omit-frame-pointer", "-pthread"];

/// The program of that name, in a folder: compiled, or taken from `NIGHTWATT_TEST_PROGRAMS`, where
/// `tools/vm/probes` has put it for a guest that has no compiler.
pub(crate) fn put(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(name);
    if path.exists() {
        return path;
    }
    if let Some(built) = std::env::var_os("NIGHTWATT_TEST_PROGRAMS") {
        fs::copy(Path::new(&built).join(name), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        return path;
    }
    let source = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/{}.c"), name);
    let built = Command::new("cc").args(FLAGS).arg(&source).arg("-o").arg(&path).status();
    assert!(built.unwrap().success(), "{source}");
    path
}
