//! A cable between two network interfaces.

/// Two ends of a cable, gone when dropped.
pub(crate) struct Cable {
    /// The end with the address; the other one is called the same with a `p` behind it.
    pub(crate) name: String,
}

impl Cable {
    /// `None` where that is not allowed. `tag` (four letters at most) tells it from those of other tests.
    pub(crate) fn new(tag: &str, address: &str) -> Option<Self> {
        nightwatt_needs::program("ip")?;
        let name = format!("{tag}{}", std::process::id());
        let cable = Self { name: name.clone() };
        let peer = cable.peer();
        let made = ip(&["link", "add", &name, "type", "veth", "peer", "name", &peer])
            && ip(&["addr", "add", address, "dev", &name])
            && ip(&["link", "set", &name, "up"])
            && ip(&["link", "set", &peer, "up"]);
        made.then_some(cable)
    }

    /// The name of the other end.
    pub(crate) fn peer(&self) -> String {
        format!("{}p", self.name)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        ip(&["link", "del", &self.name]);
    }
}

/// Did `ip` do it?
pub(crate) fn ip(arguments: &[&str]) -> bool {
    nightwatt_needs::command("ip").args(arguments).output().is_ok_and(|it| it.status.success())
}
