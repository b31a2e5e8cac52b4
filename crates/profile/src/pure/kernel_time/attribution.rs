//! Whose time a sample is.

use super::{Category, SampleKind};

/// What a stack of kernel functions counts as, and which of them says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributed {
    /// What it counts as.
    pub kind: SampleKind,
    /// The function that says so, by its place in the stack; 0 is the innermost.
    pub by: usize,
}

/// Attributes a sample to a purpose, from the purposes of the functions on its stack, the innermost first.
///
/// The innermost function gets the sample. If that is a helper, its nearest caller that is not a helper
/// gets it: a lock that TCP takes is TCP's time, and a copy into a program that of the interface. An
/// unknown caller makes the sample unknown, and is named: to attribute the sample to its own caller would
/// be a guess. The same holds for helpers that only helpers called.
///
/// The kernel enters an interrupt through functions of its own, so that the time of an interrupt is never
/// attributed to the interrupted task.
pub fn attribute(stack: impl IntoIterator<Item = Option<Category>>) -> Attributed {
    let mut places = stack.into_iter().enumerate();
    let told = places.find(|(_, category)| *category != Some(Category::Helper));
    let (by, category) = told.unwrap_or((0, None));
    Attributed { kind: SampleKind::from(category), by }
}

#[cfg(test)]
mod tests {
    use super::super::{Os, Table, Tcp};
    use super::*;

    fn of(stack: &str) -> (SampleKind, String) {
        let table = Table::linux();
        let names: Vec<&str> = stack.split(" < ").collect();
        let found = attribute(names.iter().map(|name| table.category(name)));
        (found.kind, names[found.by].to_owned())
    }

    /// By hand: stacks as `perf script` showed them on Linux 6.18, and whose work they are.
    #[test]
    fn a_sample_is_the_innermost_functions_or_that_of_whom_it_serves() {
        let busy = |os| SampleKind::Busy(os, None);
        let tcp = |part| SampleKind::Busy(Os::Tcp, Some(part));
        for (stack, kind, by) in [
            (
                "_copy_to_iter < __skb_datagram_iter < tcp_recvmsg_locked",
                busy(Os::KernelUserInterface),
                0,
            ),
            ("tcp_ack < tcp_rcv_established < tcp_v4_do_rcv", tcp(Tcp::StateMachine), 0),
            ("_raw_spin_lock < tcp_v4_rcv < ip_protocol_deliver_rcu", tcp(Tcp::RxData), 1),
            (
                "_raw_spin_unlock_irqrestore < try_to_wake_up < autoremove_wake_function < __wake_up_common",
                busy(Os::Scheduler),
                1,
            ),
            ("__pi_memcpy < skb_copy_bits < veth_xmit", busy(Os::PacketHandling), 1),
            (
                "read_tsc < ktime_get < tcp_mstamp_refresh < tcp_rcv_established",
                tcp(Tcp::TimerRtt),
                2,
            ),
            ("pv_native_safe_halt < default_idle < do_idle", SampleKind::Idle, 0),
            ("cpuidle_enter_state < cpuidle_enter < do_idle", busy(Os::Acpi), 0),
            // What runs in an interrupt is not of whom it interrupts.
            ("_raw_spin_lock < handle_softirqs < irq_exit_rcu < tcp_ack", busy(Os::Irq), 1),
        ] {
            let names: Vec<&str> = stack.split(" < ").collect();
            assert_eq!(of(stack), (kind, names[by].to_owned()), "{stack}");
        }
    }

    #[test]
    fn what_served_somebody_unknown_is_unknown_by_that_name() {
        let stack = "_raw_spin_lock < zz_nobody_knows < tcp_ack";
        assert_eq!(of(stack), (SampleKind::Unknown, "zz_nobody_knows".to_owned()));
        assert_eq!(
            of("zz_nobody_knows < tcp_ack"),
            (SampleKind::Unknown, "zz_nobody_knows".to_owned())
        );
        assert_eq!(
            of("_raw_spin_lock < memcpy"),
            (SampleKind::Unknown, "_raw_spin_lock".to_owned())
        );
        assert_eq!(attribute([]), Attributed { kind: SampleKind::Unknown, by: 0 });
    }
}
