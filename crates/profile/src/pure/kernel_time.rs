//! Attributes the kernel's time to the purposes of its functions.
//!
//! A sample of a CPU is a stack of functions, the innermost first. A [`Table`] gives the purpose of each
//! function. A helper, which only serves its caller (a copy of memory, a lock), gives its time to that
//! caller ([`attribute`]). A function that no line of the table names stays unknown and is listed by name.
//!
//! The categories are those of R. Bolla et al., "An Experimental Evaluation of the TCP Energy Consumption"
//! (IEEE JSAC 33(12), 2015), on two levels: the operating system, and within its TCP.

mod attribution;
mod clusters;
mod table;

use serde::Serialize;

pub use attribution::{Attributed, attribute};
pub use clusters::{Clusters, ShareEstimate};
pub use table::{BadTable, Rule, Table};

/// What functions of the operating system are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Os {
    /// Who runs next.
    Scheduler,
    /// Into rest and out of it.
    #[serde(rename = "ACPI")]
    Acpi,
    /// The interface of sockets.
    Socket,
    /// Cards.
    Driver,
    /// Between card and protocol.
    #[serde(rename = "Packet Handling")]
    PacketHandling,
    /// Copies and calls between kernel and programs.
    #[serde(rename = "Kernel User Interface")]
    KernelUserInterface,
    /// The programs under test themselves.
    Application,
    /// Interrupts.
    #[serde(rename = "IRQ")]
    Irq,
    /// The IP layer.
    #[serde(rename = "IP")]
    Ip,
    /// Memory management.
    Memory,
    /// The TCP layer.
    #[serde(rename = "TCP")]
    Tcp,
    /// Everything else that has a name.
    Other,
}

impl Os {
    /// All of them, in the order in which they were published.
    pub const ALL: [Self; 12] = [
        Self::Scheduler,
        Self::Acpi,
        Self::Socket,
        Self::Driver,
        Self::PacketHandling,
        Self::KernelUserInterface,
        Self::Application,
        Self::Irq,
        Self::Ip,
        Self::Memory,
        Self::Tcp,
        Self::Other,
    ];

    /// As published.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "Scheduler",
            Self::Acpi => "ACPI",
            Self::Socket => "Socket",
            Self::Driver => "Driver",
            Self::PacketHandling => "Packet Handling",
            Self::KernelUserInterface => "Kernel User Interface",
            Self::Application => "Application",
            Self::Irq => "IRQ",
            Self::Ip => "IP",
            Self::Memory => "Memory",
            Self::Tcp => "TCP",
            Self::Other => "Other",
        }
    }
}

/// What functions of TCP are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Tcp {
    /// Round trips and timers.
    #[serde(rename = "Timer_RTT")]
    TimerRtt,
    /// Segments that come.
    #[serde(rename = "Rx_data")]
    RxData,
    /// Segments that go.
    #[serde(rename = "Tx_data")]
    TxData,
    /// Options, SACK among them.
    Options,
    /// The congestion window.
    #[serde(rename = "Congestion_Control")]
    CongestionControl,
    /// The receive window.
    #[serde(rename = "Flow_Control")]
    FlowControl,
    /// Checksums.
    Checksum,
    /// Acknowledgements that are made.
    Acknowledge,
    /// Begin and end of connections.
    #[serde(rename = "Open_Close")]
    OpenClose,
    /// The state of a connection.
    #[serde(rename = "State_Machine")]
    StateMachine,
    /// What is sent again.
    Retransmission,
}

impl Tcp {
    /// All of them, in the order in which they were published.
    pub const ALL: [Self; 11] = [
        Self::TimerRtt,
        Self::RxData,
        Self::TxData,
        Self::Options,
        Self::CongestionControl,
        Self::FlowControl,
        Self::Checksum,
        Self::Acknowledge,
        Self::OpenClose,
        Self::StateMachine,
        Self::Retransmission,
    ];

    /// As published.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimerRtt => "Timer_RTT",
            Self::RxData => "Rx_data",
            Self::TxData => "Tx_data",
            Self::Options => "Options",
            Self::CongestionControl => "Congestion_Control",
            Self::FlowControl => "Flow_Control",
            Self::Checksum => "Checksum",
            Self::Acknowledge => "Acknowledge",
            Self::OpenClose => "Open_Close",
            Self::StateMachine => "State_Machine",
            Self::Retransmission => "Retransmission",
        }
    }
}

/// The purpose of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// The CPU rests there.
    Idle,
    /// Serves its caller.
    Helper,
    /// A part of the operating system other than TCP.
    Os(Os),
    /// A part of TCP.
    Tcp(Tcp),
}

impl Category {
    /// As the table has it: `[Scheduler]`, `[TCP: Rx_data]`, `[idle]`, `[helper]`.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(part) = name.strip_prefix("TCP:") {
            return Tcp::ALL.into_iter().find(|it| it.name() == part.trim()).map(Self::Tcp);
        }
        match name {
            "idle" => Some(Self::Idle),
            "helper" => Some(Self::Helper),
            // TCP's are always told more exactly.
            name => {
                Os::ALL.into_iter().find(|it| it.name() == name && *it != Os::Tcp).map(Self::Os)
            }
        }
    }
}

/// What a sample counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SampleKind {
    /// The CPU rested.
    Idle,
    /// It was at work for this part of the system; in TCP, for this part of it.
    Busy(Os, Option<Tcp>),
    /// It was at work where no line of the table knows.
    Unknown,
}

impl From<Option<Category>> for SampleKind {
    fn from(category: Option<Category>) -> Self {
        match category {
            Some(Category::Idle) => Self::Idle,
            Some(Category::Os(os)) => Self::Busy(os, None),
            Some(Category::Tcp(tcp)) => Self::Busy(Os::Tcp, Some(tcp)),
            Some(Category::Helper) | None => Self::Unknown,
        }
    }
}
