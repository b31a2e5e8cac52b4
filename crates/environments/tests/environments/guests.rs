//! Guests that really boot, under emulation, and machines that are reached by ssh.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nightwatt_clock::meter::Stop;
use nightwatt_environments::{Error, Started};
use rustix::process::Signal;

use crate::rig::{
    Daemon, Rig, commands_are_run, free_port, inside, output, program, root, scratch_is_empty,
};

/// Options for a small guest with a server's programs in it (tools/vm), with keys made for this test.
fn guest(rig: &Rig, options: &str) -> Option<String> {
    program("qemu-system-x86_64").and(program("ssh")).and(program("python3"))?;
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/vm/guest");
    let made =
        Command::new(tool).args(["prepare", "--dir"]).arg(rig.path("guest")).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    if made.status.code() == Some(77) {
        eprint!("{said}");
        return None;
    }
    assert!(made.status.success(), "{said}");
    // A line of JSON with nothing in it but paths.
    let text = String::from_utf8(made.stdout).unwrap();
    let path = |name: &str| {
        let (_, rest) = text.split_once(&format!("\"{name}\": \"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    Some(format!(
        "kind = \"qemu\"\naccel = \"tcg,thread=single\"\nmachine = \"pc\"\nkernel = \"{}\"\n\
         initrd = \"{}\"\nappend = \"console=ttyS0 net.ifnames=0 mitigations=off rw quiet\"\n\
         disk = \"{}\"\nkey = \"{}\"\nhost_key = \"{}\"\n\
         arguments = [\"-drive\", \"file={},if=virtio,format=raw,snapshot=on\"]\n{options}",
        path("kernel"),
        path("initrd"),
        path("disk"),
        path("key"),
        path("host_key"),
        path("second_disk"),
    ))
}

fn fact<'a>(facts: &'a [(String, String)], name: &str) -> &'a str {
    &facts.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name} in {facts:?}")).1
}

#[test]
fn a_guest_boots_works_and_is_gone() {
    let rig = Rig::new();
    let Some(options) = guest(&rig, "cpus = 2\nmemory = \"400 MiB\"\nports = [80]") else { return };
    let guard = rig.guard();
    let started = rig.start(&options, &guard);
    commands_are_run(&started);
    scratch_is_empty(&started);
    let facts = started.facts();
    assert_eq!(fact(&facts, "cpus"), "2");
    let kib: u64 = fact(&facts, "memory_kib").parse().unwrap();
    assert!((300 << 10..400 << 10).contains(&kib), "400 MiB less what the kernel keeps: {kib} KiB");
    assert_eq!(fact(&facts, "accelerator"), "tcg,thread=single");
    rig.serves(&started, 80, "from the guest");
    the_same_guest_by_ssh(&rig, &started);
    started.stop().unwrap_or_else(|error| panic!("{error}"));
    guard.finish().unwrap_or_else(|error| panic!("{error}"));
    rig.left("after stop");
}

/// As any machine that is reached by ssh; what was made there is gone when that ends, and the guest runs.
fn the_same_guest_by_ssh(rig: &Rig, guest: &Started) {
    let options = format!(
        "kind = \"ssh\"\nhost = \"127.0.0.1\"\nport = {}\nuser = \"root\"\nkey = \"{}\"\nconfig = \"/dev/null\"\n\
         ssh_arguments = [\"-o\", \"StrictHostKeyChecking=no\"]\nknown_hosts = \"/dev/null\"",
        guest.port(22),
        rig.path("guest/id_ed25519").display()
    );
    let text = format!("name = \"by ssh\"\n{options}");
    let config: nightwatt_environments::EnvironmentConfig = toml::from_str(&text).unwrap();
    let guard = nightwatt_environments::guard::Guard::start(&rig.path("second-journal")).unwrap();
    let started =
        config.start(0, None, &guard, &rig.stop).unwrap_or_else(|error| panic!("{error}"));
    commands_are_run(&started);
    scratch_is_empty(&started);
    inside(&started, "setsid sleep 98765 >/dev/null 2>&1 </dev/null & ");
    let there = "ls /var/tmp | grep -c nightwatt; pgrep -fc '^sleep 98765'; find /sys/fs/cgroup -name 'nightwatt-*' | wc -l";
    let count = |line: &str| inside(guest, &format!("({line}) || true"));
    assert_eq!(count(there), "2\n1\n1", "its folder and the guest's, its process, its cgroup");
    started.stop().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(count(there), "1\n0\n0");
}

#[test]
fn a_guest_ends_with_whoever_started_it() {
    let rig = Rig::new();
    let Some(options) = guest(&rig, "") else { return };
    let plan = format!("[[environment]]\n{}", rig.text(&options));
    // Two of them, and a container in the first.
    let plan = format!(
        "{plan}copies = 2\n[[environment]]\nname = \"in\"\nkind = \"bubblewrap\"\nwithin = \"it\"\n"
    );
    rig.holder_is_ended(&plan, Signal::KILL);
}

#[test]
fn postgresql_runs_in_a_container_in_a_guest() {
    let rig = Rig::new();
    let Some(options) = guest(&rig, "memory = \"768 MiB\"\nports = [5432]") else { return };
    let guard = rig.guard();
    let outer = rig.start(&options, &guard);
    let text = "name = \"in\"\nkind = \"bubblewrap\"\nwithin = \"it\"\narguments = [\"--cap-add\", \"ALL\"]";
    let config: nightwatt_environments::EnvironmentConfig = toml::from_str(text).unwrap();
    let inner =
        config.start(0, Some(&outer), &guard, &rig.stop).unwrap_or_else(|error| panic!("{error}"));
    let (data, at) = (format!("{}/data", inner.scratch()), "/usr/lib/postgresql/15/bin");
    let user = "setpriv --reuid=postgres --regid=postgres --clear-groups";
    let line = format!("{user} {at}/initdb --no-sync -A trust -D {data}");
    let made = inside(&inner, &line);
    assert!(made.contains("Success"), "{made}");
    let line =
        format!("exec {user} {at}/postgres -D {data} -h 0.0.0.0 -k /tmp -c fsync=off 2>{data}.log");
    let mut server = inner.command(&line).stdin(Stdio::null()).spawn().unwrap();
    inside(
        &outer,
        "until grep -q 'ready to accept' /var/tmp/nightwatt-*/scratch/data.log; do sleep 0.2; done",
    );
    let bench = format!("{user} {at}/pgbench -h /tmp postgres");
    inside(&inner, &format!("{bench} -i -q -s 1 2>&1"));
    let said = inside(&inner, &format!("{bench} -t 20 2>&1"));
    assert!(said.contains("number of transactions actually processed: 20/20"), "{said}");
    inner.stop().unwrap_or_else(|error| panic!("{error}"));
    assert!(!server.wait().unwrap().success(), "it ended with its environment");
    assert_eq!(inside(&outer, "pgrep -c postgres || true"), "0", "and so did all it had started");
    outer.stop().unwrap_or_else(|error| panic!("{error}"));
    guard.finish().unwrap_or_else(|error| panic!("{error}"));
    rig.left("after stop");
}

/// A server of our own that knows one user: us.
fn sshd(rig: &Rig) -> Option<(Daemon, u16)> {
    program("sshd").and(program("ssh"))?;
    for name in ["host", "id"] {
        let mut keygen = Command::new("ssh-keygen");
        output(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(rig.path(name)));
    }
    let port = free_port();
    let path = |name: &str| rig.path(name).display().to_string();
    fs::copy(rig.path("id.pub"), rig.path("authorized")).unwrap();
    let known = format!("[127.0.0.1]:{port} {}", fs::read_to_string(rig.path("host.pub")).unwrap());
    fs::write(rig.path("known"), known).unwrap();
    // As root it wants this folder, which a package's unit makes.
    let _ = fs::create_dir_all("/run/sshd");
    let child = nightwatt_needs::command("sshd")
        .args(["-D", "-e", "-f", "/dev/null", "-h", &path("host"), "-p", &port.to_string()])
        .args(["-o", "ListenAddress=127.0.0.1", "-o", "StrictModes=no", "-o", "PidFile=none"])
        .args(["-o", "UsePAM=no", "-o", "PermitRootLogin=yes", "-o"])
        .arg(format!("AuthorizedKeysFile={}", path("authorized")))
        .stderr(Stdio::from(fs::File::create(rig.path("sshd.log")).unwrap()))
        .spawn()
        .unwrap();
    let child = Daemon(child);
    rig.until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((child, port))
}

#[test]
fn a_machine_that_is_reached_by_ssh_is_left_as_it_was() {
    if root().is_none() {
        return;
    }
    let rig = Rig::new();
    let Some((_server, port)) = sshd(&rig) else { return };
    let path = |name: &str| rig.path(name).display().to_string();
    let options = format!(
        "kind = \"ssh\"\nhost = \"127.0.0.1\"\nport = {port}\nkey = \"{}\"\nknown_hosts = \"{}\"\nconfig = \"/dev/null\"",
        path("id"),
        path("known")
    );
    rig.try_all(&options);
    let guard = rig.guard();
    // A container there, and its server reached from here.
    let outer = rig.start(&options, &guard);
    if program("bwrap").is_some() {
        let text = "name = \"in\"\nkind = \"bubblewrap\"\nwithin = \"it\"";
        let config: nightwatt_environments::EnvironmentConfig = toml::from_str(text).unwrap();
        let inner = config.start(0, Some(&outer), &guard, &rig.stop).unwrap();
        rig.serves(&inner, free_port(), "from a container on another machine");
    }
    drop(guard);
    rig.left("after drop");
    let closed = options.replace(&path("id"), "/nonexistent");
    let guard = rig.guard();
    let error = rig.config(&closed).start(0, None, &guard, &rig.stop).unwrap_err().to_string();
    assert!(error.contains("Permission denied"), "{error}");
}

/// In a mount namespace of its own libvirtd neither sees nor changes what this machine's has.
const LIBVIRTD: &str = r#"set -e
D=$1 PATH=$PATH:/usr/sbin:/sbin
printf 'stdio_handler="file"\nsecurity_driver="none"\nuser="root"\ngroup="root"\ncgroup_controllers=[]\nremember_owner=0\n' > $D/qemu.conf
printf 'unix_sock_dir="%s"\nauth_unix_rw="none"\nauth_unix_ro="none"\n' $D > $D/libvirtd.conf
for place in etc run var/lib var/log var/cache; do
  mkdir -p $D/$place /$place/libvirt
  mount --bind $D/$place /$place/libvirt
done
cp $D/qemu.conf /etc/libvirt/
exec libvirtd -f $D/libvirtd.conf -p $D/pid >/dev/null 2>$D/log"#;

#[test]
fn a_guest_of_libvirt_boots_works_and_is_gone() {
    if program("libvirtd").and(program("virsh")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let Some(options) = guest(&rig, "") else { return };
    let value = |name: &str| {
        if name == "second" {
            let (_, rest) = options.split_once("file=").unwrap();
            return rest.split_once(',').unwrap().0.to_owned();
        }
        let line = options.lines().find(|line| line.starts_with(&format!("{name} ="))).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    let at = rig.path("libvirt");
    fs::create_dir(&at).unwrap();
    let daemon = Command::new("unshare")
        .args(["--mount", "sh", "-c", LIBVIRTD, "sh"])
        .arg(&at)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _daemon = Daemon(daemon);
    let uri = format!("qemu:///system?socket={}/libvirt-sock", at.display());
    rig.until(|| {
        Command::new("virsh").args(["-c", &uri, "uri"]).output().unwrap().status.success()
    });
    let port = free_port();
    fs::write(rig.path("guest.xml"), domain(&value, &rig, port)).unwrap();
    let xml = rig.path("guest.xml").display().to_string();
    let plan = format!(
        "kind = \"libvirt\"\nxml = \"{xml}\"\nuri = \"{uri}\"\naddress = \"127.0.0.1\"\nport = {port}\nuser = \"root\"\n\
         key = \"{}\"\nconfig = \"/dev/null\"\nknown_hosts = \"/dev/null\"\nssh_arguments = [\"-o\", \"StrictHostKeyChecking=no\"]",
        value("key")
    );
    // The rig's folder for work is not one in the guest.
    let text = format!("name = \"it\"\n{plan}");
    let config: nightwatt_environments::EnvironmentConfig = toml::from_str(&text).unwrap();
    let guard = rig.guard();
    let started =
        config.start(0, None, &guard, &rig.stop).unwrap_or_else(|error| panic!("{error}"));
    commands_are_run(&started);
    scratch_is_empty(&started);
    let again = config.start(0, None, &guard, &rig.stop).unwrap_err().to_string();
    assert!(again.contains("running already"), "{again}");
    started.stop().unwrap_or_else(|error| panic!("{error}"));
    let list = output(Command::new("virsh").args(["-c", &uri, "list", "--all", "--name"]));
    assert_eq!(list.trim(), "", "it is not known any more");
    guard.finish().unwrap();
    rig.left("after stop");
}

/// The guest of tools/vm as libvirt has it, its disk for reading alone and what is written thrown away.
fn domain(value: &dyn Fn(&str) -> String, rig: &Rig, port: u16) -> String {
    for (copy, disk) in [("disk.img", value("disk")), ("second.img", value("second"))] {
        output(
            Command::new("cp")
                .args(["--sparse=always", "--reflink=auto"])
                .arg(disk)
                .arg(rig.path(copy)),
        );
    }
    let disk = |file: &str, name: &str| {
        format!(
            "<disk type='file'><driver name='qemu' type='raw'/><source file='{}'/><target dev='{name}' bus='virtio'/></disk>",
            rig.path(file).display()
        )
    };
    format!(
        "<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>it</name>\
         <memory unit='MiB'>512</memory><os><type arch='x86_64' machine='pc'>hvm</type><kernel>{}</kernel>\
         <initrd>{}</initrd><cmdline>{}</cmdline></os><features><acpi/></features><devices>\
         <emulator>/usr/bin/qemu-system-x86_64</emulator>{}{}<controller type='usb' model='none'/>\
         <memballoon model='none'/></devices><qemu:commandline><qemu:arg value='-netdev'/>\
         <qemu:arg value='user,id=n,hostfwd=tcp:127.0.0.1:{port}-:22'/><qemu:arg value='-device'/>\
         <qemu:arg value='virtio-net-pci,netdev=n,addr=0x10'/></qemu:commandline></domain>",
        value("kernel"),
        value("initrd"),
        value("append"),
        disk("disk.img", "vda"),
        disk("second.img", "vdb")
    )
}

#[test]
fn a_guest_that_does_not_come_up_is_given_up_or_stopped() {
    if program("qemu-system-x86_64").and(program("ssh")).is_none() {
        return;
    }
    let rig = Rig::new();
    let guard = rig.guard();
    // No server boots it over its network.
    let options =
        "kind = \"qemu\"\naccel = \"tcg\"\narguments = [\"-boot\", \"n\"]\nready_seconds = 3";
    let error = rig.config(options).start(0, None, &guard, &rig.stop).unwrap_err().to_string();
    assert!(
        error.contains("wait for ssh in the guest") && error.contains("ready_seconds"),
        "{error}"
    );
    let config = rig.config("kind = \"qemu\"\naccel = \"tcg\"\narguments = [\"-boot\", \"n\"]");
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| config.start(0, None, &guard, &rig.stop));
        rig.until(|| {
            let found = rig.inventory(&[std::process::id()]);
            found.iter().any(|line| line.contains("qemu-system"))
        });
        rig.stop.stop();
        let error = starting.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Stopped(_)), "{error}");
    });
    guard.finish().unwrap();
    rig.left("after the interruption");
    let none = "kind = \"qemu\"\nprogram = \"qemu-system-of-nothing\"\ndisk = \"none\"";
    let again = Stop::new().unwrap();
    let guard = rig.guard();
    let error = rig.config(none).start(0, None, &guard, &again).unwrap_err().to_string();
    assert!(error.contains("qemu-system-of-nothing") && error.contains("install"), "{error}");
}
