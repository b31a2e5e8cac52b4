"""Initramfs and root file systems of the test machine, built once and kept in a cache.

Nothing is installed on the host: the Debian root is made by mmdebstrap in a folder, from the mirror
that apt is set up with here. Each product's name carries a hash of what it was made from, so a
changed recipe makes a new one and never meets an old one.
"""

import glob
import hashlib
import os
import shutil
import subprocess

import kernels
from common import HERE, Failure, Skip, need, once, run

BUSYBOX = "/usr/bin/busybox"
FILES = os.path.join(HERE, "guest-files")
# In the order of loading; what they depend on is found by depmod.
EARLY_MODULES = ["virtio_pci", "virtio_blk", "virtio_net", "virtio_rng", "ext4", "button", "evdev"]
# For a userspace that asks for more: systemd's automounts, a firewall in the guest, containers.
LATE_MODULES = ["virtio_console", "autofs4", "nf_tables", "nft_ct", "nft_reject_inet", "overlay", "veth", "bridge"]
DEBIAN_PACKAGES = (
    "systemd,systemd-sysv,dbus,openssh-server,iproute2,udev,busybox-static,ethtool,kmod"
    ",qemu-guest-agent"
)
# What takes seconds of an emulated boot, or wakes up later in the middle of a test.
UNWANTED_UNITS = [
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "systemd-tmpfiles-clean.timer", "getty@tty1.service",
    "getty-static.service", "serial-getty@ttyS0.service", "dev-hugepages.mount", "dev-mqueue.mount",
    "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-pstore.service",
    "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
]
# Does the work of experiments, reached by ssh through QEMU's own network. Busybox is its first process:
# emulated, systemd would take half a minute.
SERVER_PACKAGES = "openssh-server,iproute2,busybox-static,ethtool,kmod,nftables,procps,postgresql-15,bubblewrap"
# What emulates links, and congestion controls: for `nightwatt tcp lab`.
SERVER_MODULES = ["sch_netem", "sch_tbf", "nft_numgen", "tcp_vegas", "tcp_bbr"]
ROOTS = ("busybox", "debian", "server")


def digest(*things):
    """A short hash of files (by content) and of texts."""
    state = hashlib.sha256()
    for thing in things:
        if os.path.isdir(thing):
            for name in sorted(os.listdir(thing)):
                state.update(digest(os.path.join(thing, name)).encode() + name.encode())
        elif os.path.exists(thing):
            with open(thing, "rb") as file:
                state.update(file.read())
        else:
            state.update(thing.encode())
    return state.hexdigest()[:12]


def modules(wanted):
    """The files of these modules and of all they depend on, in an order that loads."""
    folder = os.path.join(kernels.folder(), "lib", "modules", kernels.version())
    depends = {}
    with open(os.path.join(folder, "modules.dep")) as file:
        for line in file:
            name, _, rest = line.partition(":")
            stem = os.path.basename(name).split(".ko")[0].replace("-", "_")
            depends[stem] = (name, rest.split())
    order = []

    def visit(stem):
        if stem not in depends:  # built into this kernel
            return
        name, needs = depends[stem]
        for other in needs:
            visit(os.path.basename(other).split(".ko")[0].replace("-", "_"))
        if name not in order:
            order.append(name)

    for stem in wanted:
        visit(stem)
    return folder, order


def put_modules(tree, wanted):
    """Copies modules into a root; gives their paths there."""
    folder, order = modules(wanted)
    home = os.path.join("lib", "modules", kernels.version())
    for name in order:
        target = os.path.join(tree, home, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(folder, name), target)
    return [os.path.join("/", home, name) for name in order]


def applets(tree):
    """Busybox and a link for each of its commands."""
    os.makedirs(os.path.join(tree, "bin"))
    shutil.copy(BUSYBOX, os.path.join(tree, "bin", "busybox"))
    for name in run(BUSYBOX, "--list").split():
        if name != "busybox":
            os.symlink("busybox", os.path.join(tree, "bin", name))


def archive(tree, out):
    """Packs a folder as the kernel's initramfs wants it; several may stand one after another."""
    names = run("find", ".", "-mindepth", "1", cwd=tree)
    with open(out, "wb") as file:
        subprocess.run([BUSYBOX, "cpio", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, stdout=file,
                       input=names.encode(), stderr=subprocess.PIPE, check=True)


def join(archives, out):
    """One initramfs of several archives."""
    with open(out, "wb") as whole:
        for path in archives:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, whole)
            # The kernel wants the next archive on a boundary of four bytes.
            whole.write(b"\0" * (-whole.tell() % 4))


def libraries(program):
    """The libraries that a program is linked with, each as `FILE:/PATH`."""
    lines = run("ldd", program).splitlines()
    return [f"{word}:{word}" for line in lines for word in line.split() if word.startswith("/")]


def put(tree, pairs):
    """Copies files and folders, each `FILE:/PATH`, into a root."""
    for pair in pairs:
        source, colon, target = pair.rpartition(":")
        if not colon or not target.startswith("/"):
            raise Failure(f"--put wants FILE:/PATH, not `{pair}`")
        inside = os.path.join(tree, target.lstrip("/"))
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        shutil.copytree(source, inside) if os.path.isdir(source) else shutil.copy(source, inside)


def initramfs(name="init", wanted=EARLY_MODULES):
    """Busybox, modules, and as first process this one of the guest's files."""
    need(kernels.BUSYBOX)
    init = os.path.join(FILES, name)

    def make(product):
        tree = os.path.join(os.path.dirname(product), "tree")
        for name in ("proc", "sys", "dev", "root", "put"):
            os.makedirs(os.path.join(tree, name))
        applets(tree)
        shutil.copy(init, os.path.join(tree, "init"))
        paths = put_modules(tree, wanted)
        with open(os.path.join(tree, "modules"), "w") as file:
            file.write("\n".join(paths) + "\n")
        archive(tree, product)

    return once(f"initramfs-{digest(init, kernels.version(), BUSYBOX, str(wanted))}", make)


def file_system(tree, megabytes, product):
    """An ext4 image with what the folder holds; no loop device, no mount."""
    with open(product, "wb") as file:
        file.truncate(megabytes << 20)
    run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-E", "root_owner=0:0", "-d", tree, product)


def put_test_files(tree):
    home = os.path.join(tree, "usr", "lib", "nightwatt-vm")
    os.makedirs(home)
    for name in ("serve-commands", "set-clock", "set-up"):
        shutil.copy(os.path.join(FILES, name), os.path.join(home, name))
    shutil.copy(BUSYBOX, os.path.join(home, "busybox"))
    os.makedirs(os.path.join(tree, "srv", "www"))
    with open(os.path.join(tree, "srv", "www", "index.html"), "w") as file:
        file.write("<!doctype html><title>guest</title><p>The guest is awake.\n")
    put_modules(tree, EARLY_MODULES + LATE_MODULES)


def busybox_root(product):
    tree = os.path.join(os.path.dirname(product), "tree")
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "etc/acpi/PWRF", "var/log", "usr/bin"):
        os.makedirs(os.path.join(tree, name))
    applets(tree)
    for link in ("sbin", "usr/sbin"):
        os.symlink("/bin", os.path.join(tree, link))
    put_test_files(tree)
    etc = os.path.join(tree, "etc")
    for name, text in {
        "passwd": "root::0:0:root:/root:/bin/sh\n",
        "group": "root:x:0:\n",
        "hostname": "guest\n",
        "hosts": "127.0.0.1 localhost\n10.77.0.2 guest\n",
        "inittab": "::sysinit:/usr/lib/nightwatt-vm/set-up\n"
                   "ttyS1::respawn:/usr/lib/nightwatt-vm/serve-commands\n"
                   "::respawn:/bin/httpd -f -p 80 -h /srv/www\n"
                   "::respawn:/bin/acpid -f\n"
                   "::shutdown:/bin/umount -a -r\n",
        "acpi/PWRF/00000080": "#!/bin/sh\npoweroff\n",
    }.items():
        with open(os.path.join(etc, name), "w") as file:
            file.write(text)
    os.chmod(os.path.join(etc, "acpi", "PWRF", "00000080"), 0o755)
    run(BUSYBOX, "depmod", "-b", tree, kernels.version())
    file_system(tree, 512, product)


def debian_root(product):
    tree = os.path.join(os.path.dirname(product), "tree")
    bootstrap(tree, DEBIAN_PACKAGES)
    put_test_files(tree)
    # systemd reads the binary index, which busybox does not write.
    run("chroot", tree, "depmod", kernels.version())
    for name in os.listdir(FILES):
        if name.endswith(".service"):
            shutil.copy(os.path.join(FILES, name), os.path.join(tree, "etc", "systemd", "system"))
            run("systemctl", f"--root={tree}", "enable", name)
    run("systemctl", f"--root={tree}", "mask", *UNWANTED_UNITS)
    write(tree, {
        "hostname": "guest\n",
        "hosts": "127.0.0.1 localhost\n10.77.0.2 guest\n",
        "machine-id": "",
        # Empty: each entry would wait for udev to find the disk, which `init` has mounted long since.
        "fstab": "",
    })
    file_system(tree, 512, product)


def server_root(product):
    tree = os.path.join(os.path.dirname(product), "tree")
    bootstrap(tree, SERVER_PACKAGES)
    put_modules(tree, EARLY_MODULES + LATE_MODULES + SERVER_MODULES)
    run("chroot", tree, "depmod", kernels.version())
    init = os.path.join(tree, "usr", "sbin", "init")
    if os.path.lexists(init):
        os.remove(init)
    os.symlink("/usr/bin/busybox", init)
    shutil.copy(os.path.join(FILES, "serve-ssh"), os.path.join(tree, "usr", "sbin", "serve-ssh"))
    write(tree, {
        "hostname": "guest\n", "hosts": "127.0.0.1 localhost guest\n", "fstab": "",
        "inittab": "::sysinit:/usr/sbin/serve-ssh\n::respawn:/usr/sbin/sshd -D -e\n"
                   "::shutdown:/usr/bin/busybox umount -a -r\n",
    })
    file_system(tree, 1024, product)


def bootstrap(tree, packages):
    """A minimal Debian in a folder, without manuals, package lists and the builder's keys."""
    need("mmdebstrap")
    suite, *mirror = debian_source()
    try:
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}",
            "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*", suite, tree, *mirror)
    except Failure as reason:
        raise Skip(f"cannot build the Debian root: {reason}") from reason
    # The builder's keys must not stay inside; each guest gets keys of its own.
    for key in glob.glob(os.path.join(tree, "etc", "ssh", "ssh_host_*")):
        os.remove(key)
    shutil.rmtree(os.path.join(tree, "var", "cache", "apt"), ignore_errors=True)
    shutil.rmtree(os.path.join(tree, "var", "lib", "apt", "lists"), ignore_errors=True)


def write(tree, files):
    for name, text in files.items():
        with open(os.path.join(tree, "etc", name), "w") as file:
            file.write(text)


def debian_source():
    """The suite and the mirror of this machine, as mmdebstrap wants them."""
    suite = "bookworm"
    with open("/etc/os-release") as file:
        for line in file:
            if line.startswith("VERSION_CODENAME="):
                suite = line.split("=")[1].strip().strip('"')
    for line in run("apt-get", "indextargets", "--format", "$(SITE)|$(CODENAME)|$(ORIGIN)").splitlines():
        site, codename, origin = line.split("|")
        if origin == "Debian" and codename == suite:
            return [suite, site]
    return [suite]


def root(kind):
    need("mke2fs", BUSYBOX)
    recipe = os.path.join(HERE, "images.py")
    make = {"busybox": busybox_root, "debian": debian_root, "server": server_root}[kind]
    return once(f"{kind}-{digest(recipe, FILES, kernels.version())}", make)


def swap(megabytes):
    """A sparse disk for hibernation."""
    def make(product):
        with open(product, "wb") as file:
            file.truncate(megabytes << 20)
        run(BUSYBOX, "mkswap", product)
    return once(f"swap-{megabytes}", make)
