//! The root folder of environments that have another than their host's.

use crate::start::Start;
use crate::{Error, shell};

/// Where a view of the root is shown, beneath the folder of the environment.
const VIEW: &str = "root";

/// A root folder as the options name it: `host` is the host's own.
pub(crate) fn folder(start: &Start<'_>, root: &str) -> Result<String, Error> {
    let folder = if root == "host" { "/" } else { root };
    if !folder.starts_with('/') {
        return Err(start.refuse(format!("root `{root}`: write `\"host\"`, or a folder from `/`")));
    }
    let line = format!("[ -d {} ]", shell::quote(folder));
    if !start.try_in(&start.place, "look for the root folder", &line)?.status.success() {
        return Err(
            start.refuse(format!("root `{root}`: there is no such folder on {}", start.place))
        );
    }
    Ok(folder.to_owned())
}

/// What is run in a mount namespace of its own to see a root in `$1/root`, with an empty folder
/// `/scratch` and folders for what is short-lived. What is written there is kept in `$1` and goes with
/// it; the root itself stays as it is.
pub(crate) const SHOW: &str = r#"
set -e
folder=$1 lower=$2 view=$1/root
# In options of overlayfs some characters have a meaning: so the folder's name is not among them.
cd "$folder"
mkdir -m 755 upper work root
[ "$(stat -f -c %T "$folder")" != overlayfs ] || {
echo "error: $folder lies on overlayfs, on which the kernel makes no other: name a folder elsewhere by scratch" >&2
exit 1
}
mount -t overlay overlay -o "lowerdir=$lower,upperdir=upper,workdir=work" "$view"
mkdir -p "$view/scratch" "$view/tmp" "$view/run" "$view/var/tmp" "$view/proc" "$view/sys" "$view/dev"
mount --bind "$folder/scratch" "$view/scratch"
for place in tmp run var/tmp; do
mount -t tmpfs -o mode=1777 tmpfs "$view/$place"
done
cd /
shift 2
"#;

/// The folder that [`SHOW`] shows the root in.
pub(crate) fn view(folder: &str) -> String {
    format!("{folder}/{VIEW}")
}

/// A program that shows a root to a script and those it starts, and to no other process.
pub(crate) fn shown(folder: &str, lower: &str, script: &str) -> Vec<String> {
    let script = format!("{SHOW}{script}");
    let words = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "/bin/sh",
        "-c",
        &script,
        "nightwatt",
        folder,
        lower,
    ];
    words.map(str::to_owned).to_vec()
}
