"""Kernels of the test machine, fetched once from Debian's mirrors and kept in the cache.

`debian` is this machine's own release's; `current` the newest that Debian builds, and `6.18` the last
one of that series, both from the backports of a newer release, by lists of packages of their own:
nothing is installed on the host, and what its apt knows stays as it is.
"""

import glob
import lzma
import os

from common import Failure, Skip, need, once, run

# The cloud flavour is the same kernel with fewer drivers, S3 and S4 among what is left: 27 MB to
# fetch in place of 71, and LZ4 in place of XZ, which takes an emulated machine longer to unpack.
PACKAGE = "linux-image-cloud-amd64"
BUSYBOX = "/usr/bin/busybox"
BACKPORTS = ("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
             "http://deb.debian.org/debian trixie-backports main\n")
# What tests run on that name no kernel.
NAMES = ("debian", "current")
# The scheduler needs 6.18 or later (`tools/vm/sched`).
SCHEDULERS = ("6.18", "current")
ALL = ("debian", "6.18", "current")

_chosen = "debian"


def choose(name):
    """From here on, the kernel is this one."""
    global _chosen
    _chosen = name


def folder():
    """The folder of the unpacked kernel: `vmlinuz`, `version`, `lib/modules/VERSION`."""
    # A newer kernel on the mirror is no reason to fetch one again: remove the cache for that.
    fetch = {"debian": fetch_debian, "6.18": fetch_6_18, "current": fetch_current}[_chosen]
    return once(f"kernel-{_chosen}", fetch)


def version():
    with open(os.path.join(folder(), "version")) as file:
        return file.read()


def fetch_debian(product):
    need("apt-get", "dpkg-deb")
    work = os.path.dirname(product)
    try:
        try:
            download(work)
        except (Failure, IndexError):
            # A fresh machine has no lists of packages yet, and an old one has lists of what is gone.
            run("apt-get", "update", "-qq")
            download(work)
    except (Failure, IndexError) as reason:
        raise Skip(f"cannot fetch {PACKAGE} from the Debian mirror: {reason}") from reason
    unpack(work, product)


def fetch_current(product):
    fetch_backport(product, lambda own: PACKAGE)


def fetch_6_18(product):
    def last(own):
        names = run("apt-cache", *own, "pkgnames", "linux-image-6.18.").split()
        images = [name for name in names if name.endswith("+deb13-cloud-amd64")]
        return max(images, key=lambda name: int(name.split("-")[2].split(".")[2].split("+")[0]))

    fetch_backport(product, last)


def fetch_backport(product, package):
    """The kernel of trixie-backports that `package` chooses, by apt's options for lists of its own."""
    need("apt-get", "dpkg-deb")
    work = os.path.dirname(product)
    apt = os.path.join(work, "apt")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, name))
    with open(os.path.join(apt, "sources"), "w") as file:
        file.write(BACKPORTS)
    own = [f"-oDir::State::lists={apt}/lists", f"-oDir::Etc::sourcelist={apt}/sources",
           "-oDir::Etc::sourceparts=-", f"-oDir::Cache={apt}/cache"]
    try:
        run("apt-get", *own, "update", "-qq")
        download(work, own, package(own))
    except (Failure, IndexError, ValueError) as reason:
        raise Skip(f"cannot fetch {PACKAGE} of trixie-backports: {reason}") from reason
    unpack(work, product)


def download(work, options=(), package=PACKAGE):
    """The packages of a kernel, or of that which the meta package names: one up to 7.1, then two."""
    def depends(package):
        lines = run("apt-cache", *options, "depends", "--important", package).splitlines()
        return [line.split()[-1].strip("<>") for line in lines if "Depends:" in line]

    image = package
    if package == PACKAGE:
        image = [name for name in depends(package) if name.startswith("linux-image-")][-1]
    parts = [name for name in depends(image) if name.startswith(("linux-binary-", "linux-modules-"))]
    run("apt-get", *options, "download", "-qq", *(parts or [image]), cwd=work)


def unpack(work, product):
    tree = os.path.join(work, "tree")
    for package in glob.glob(os.path.join(work, "linux-*.deb")):
        run("dpkg-deb", "-x", package, tree)
    # depmod wants lib/modules, trixie's packages have usr/lib/modules.
    if not os.path.isdir(os.path.join(tree, "lib")):
        os.rename(os.path.join(tree, "usr", "lib"), os.path.join(tree, "lib"))
    release = os.listdir(os.path.join(tree, "lib", "modules"))[0]
    modules = os.path.join(tree, "lib", "modules", release)
    # Not unpacked to ELF: QEMU loads that as ROM, and writes it over the sleeping kernel on wake-up.
    places = [os.path.join(tree, "boot", f"vmlinuz-{release}"), os.path.join(modules, "vmlinuz")]
    image = next(path for path in places if os.path.exists(path))
    for packed in glob.glob(os.path.join(modules, "**", "*.ko.xz"), recursive=True):
        with lzma.open(packed) as file, open(packed[:-len(".xz")], "wb") as out:
            out.write(file.read())
        os.remove(packed)
    run(BUSYBOX, "depmod", "-b", tree, release)
    os.makedirs(os.path.join(product, "lib", "modules"))
    os.rename(image, os.path.join(product, "vmlinuz"))
    os.rename(modules, os.path.join(product, "lib", "modules", release))
    with open(os.path.join(product, "version"), "w") as file:
        file.write(release)
