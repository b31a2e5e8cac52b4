//! What each function of the kernel is for, by its name.

use std::sync::OnceLock;

use super::Category;

/// The functions of Linux.
const LINUX: &str = include_str!("functions.txt");

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTable {
    /// What no category is called.
    #[error(
        "line {line}: there is no category `{name}`; write one of bolla_kernel_categories.csv, `TCP: ` and one of its level `tcp`, `idle` or `helper`"
    )]
    Category {
        /// Which line.
        line: usize,
        /// As written.
        name: String,
    },
    /// A pattern before any category.
    #[error(
        "line {line}: `{pattern}` stands before the first category; write `[Scheduler]`, say, above it"
    )]
    Homeless {
        /// Which line.
        line: usize,
        /// As written.
        pattern: String,
    },
    /// A pattern that stands there twice.
    #[error("line {line}: `{pattern}` stands above already; remove one of them")]
    Twice {
        /// Which line.
        line: usize,
        /// As written.
        pattern: String,
    },
}

/// A pattern, and what fits it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Letters, and `*` for anything.
    pub pattern: String,
    /// What it is for.
    pub category: Category,
}

impl Rule {
    /// How exact it is.
    fn letters(&self) -> usize {
        self.pattern.bytes().filter(|byte| *byte != b'*').count()
    }

    fn fits(&self, name: &str) -> bool {
        let mut parts = self.pattern.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// All patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table(Vec<Rule>);

impl Table {
    /// Of the Linux kernel, on x86-64.
    ///
    /// # Panics
    /// Never: a test reads this very table.
    pub fn linux() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Self::read(LINUX).expect("a test reads this very table"))
    }

    /// As `functions.txt` says how it is written.
    pub fn read(text: &str) -> Result<Self, BadTable> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut category = None;
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                let unknown = || BadTable::Category { line, name: name.to_owned() };
                category = Some(Category::named(name).ok_or_else(unknown)?);
                continue;
            }
            for pattern in text.split_ascii_whitespace().map(str::to_owned) {
                let Some(category) = category else {
                    return Err(BadTable::Homeless { line, pattern });
                };
                if rules.iter().any(|rule| rule.pattern == pattern) {
                    return Err(BadTable::Twice { line, pattern });
                }
                rules.push(Rule { pattern, category });
            }
        }
        Ok(Self(rules))
    }

    /// All lines, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// The line that says what a function is for.
    pub fn rule(&self, function: &str) -> Option<&Rule> {
        // `tcp_ack.isra.0`, `tcp_ack.cold`: what the compiler made of `tcp_ack`.
        let name = function.split('.').next().unwrap_or(function);
        let bare = name.trim_start_matches('_');
        let firsts = [b'*', first(name), first(bare)];
        let near = self.0.iter().filter(|rule| firsts.contains(&first(&rule.pattern)));
        let fitting = near.filter(|rule| rule.fits(name) || rule.fits(bare));
        // Of as many letters, the first: `max_by_key` would give the last.
        fitting.rev().max_by_key(|rule| rule.letters())
    }

    /// What a function is for.
    pub fn category(&self, function: &str) -> Option<Category> {
        self.rule(function).map(|rule| rule.category)
    }
}

fn first(text: &str) -> u8 {
    text.bytes().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_line_is_right_and_of_as_exact_ones_the_first() {
        let table = "# functions\n[Scheduler]\nsched_* a*c\n[TCP: Rx_data]\nsched_tcp\n[IP]\nac*\n";
        let table = Table::read(table).unwrap();
        let category = |name| table.category(name);
        let scheduler = Some(Category::Os(super::super::Os::Scheduler));
        let receiving = Some(Category::Tcp(super::super::Tcp::RxData));
        assert_eq!(category("sched_fork"), scheduler);
        assert_eq!(category("sched_tcp"), receiving);
        assert_eq!(category("sched_tcp.constprop.0"), receiving);
        assert_eq!(category("__sched_tcp"), receiving);
        assert_eq!(category("sched_tcp2"), scheduler);
        assert_eq!(category("acxc"), scheduler);
        assert_eq!(category("resched_x"), None);
    }

    #[test]
    fn a_star_stands_for_anything_wherever_it_is() {
        let rule = |pattern: &str| Rule { pattern: pattern.to_owned(), category: Category::Idle };
        for (pattern, name, fits) in [
            ("tcp_ack", "tcp_ack", true),
            ("tcp_ack", "tcp_ack2", false),
            ("tcp_*", "tcp_", true),
            ("tcp_*_rcv", "tcp_v4_rcv", true),
            ("tcp_*_rcv", "tcp_v4_rcv_it", false),
            ("*_rcv", "ip_rcv", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("ab*b", "ab", false),
        ] {
            assert_eq!(rule(pattern).fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn mistakes_in_a_table_are_told_by_their_lines() {
        let error = |text| Table::read(text).unwrap_err().to_string();
        assert!(error("\n[Schedule]\n").starts_with("line 2: there is no category `Schedule`"));
        // TCP's functions have to be told more exactly.
        assert!(error("[TCP]\n").contains("no category `TCP`"));
        assert!(error("x\n").starts_with("line 1: `x` stands before"));
        assert!(error("[IP]\nx\n[idle]\nx\n").starts_with("line 4: `x` stands above"));
        assert!(!Table::linux().rules().is_empty());
    }

    /// By hand: where these functions are in Linux's sources, and what their comments say they do.
    const WELL_KNOWN: &str = "
[idle]
pv_native_safe_halt default_idle mwait_idle intel_idle intel_idle_ibrs poll_idle acpi_safe_halt
[ACPI]
do_idle cpuidle_enter_state menu_select haltpoll_select tick_nohz_idle_enter tick_nohz_idle_exit
acpi_idle_enter cpuidle_reflect
[Scheduler]
__schedule schedule finish_task_switch.isra.0 try_to_wake_up pick_next_task_fair update_curr
dequeue_entity select_task_rq_fair __switch_to_asm futex_wait futex_wake process_one_work
[Socket]
sock_sendmsg sock_recvmsg inet_sendmsg sock_def_readable lock_sock_nested release_sock ep_poll
ep_poll_callback tcp_poll __sys_sendto do_sys_poll
[Driver]
veth_xmit tun_net_xmit virtnet_poll start_xmit loopback_xmit vp_notify iowrite16
virtqueue_add_outbuf
[Packet Handling]
__dev_queue_xmit net_rx_action process_backlog __netif_receive_skb_core.constprop.0
dev_hard_start_xmit napi_complete_done tbf_enqueue fq_codel_dequeue skb_segment skb_clone
dev_gro_receive
[Kernel User Interface]
_copy_to_iter _copy_from_iter _copy_from_user copy_user_generic_string rep_movs_alternative
do_syscall_64 entry_SYSCALL_64 entry_SYSCALL_64_after_hwframe __x64_sys_read ksys_write
[IRQ]
handle_softirqs __do_softirq asm_common_interrupt common_interrupt sysvec_apic_timer_interrupt
irq_exit_rcu ksoftirqd hrtimer_interrupt run_timer_softirq handle_edge_irq
[IP]
ip_rcv ip_queue_xmit __ip_queue_xmit ip_finish_output2 ip_local_deliver ip_output
fib_table_lookup nf_hook_slow nft_do_chain ipt_do_table neigh_resolve_output
[Memory]
kmem_cache_alloc_node_noprof kmem_cache_free __alloc_skb kfree_skb_reason skb_release_data
get_page_from_freelist clear_page_erms handle_mm_fault exc_page_fault asm_exc_page_fault
__slab_free page_pool_alloc_pages
[Other]
ext4_file_read_iter vfs_fstat path_openat do_exit perf_event_task_tick bpf_prog_run udp_sendmsg
seq_read_iter rcu_core
[helper]
memcpy __memcpy __memset _raw_spin_lock _raw_spin_unlock_irqrestore __rcu_read_lock
__x86_indirect_thunk_rax ktime_get read_tsc __local_bh_enable_ip mod_timer
native_queued_spin_lock_slowpath
[TCP: Timer_RTT]
tcp_write_timer tcp_delack_timer tcp_ack_update_rtt sk_reset_timer tcp_rearm_rto
[TCP: Rx_data]
tcp_v4_rcv tcp_rcv_established tcp_recvmsg tcp_recvmsg_locked tcp_data_queue tcp_queue_rcv
__inet_lookup_established tcp_gro_receive
[TCP: Tx_data]
tcp_sendmsg tcp_sendmsg_locked tcp_write_xmit __tcp_transmit_skb tcp_push tcp_tso_segs tcp_wfree
[TCP: Options]
tcp_options_write tcp_established_options tcp_parse_options tcp_sacktag_walk
tcp_sacktag_write_queue
[TCP: Congestion_Control]
cubictcp_cong_avoid tcp_reno_cong_avoid tcp_cwnd_reduction tcp_slow_start bbr_main tcp_rate_gen
[TCP: Flow_Control]
__tcp_select_window tcp_grow_window tcp_rcv_space_adjust tcp_send_probe0
[TCP: Checksum]
csum_partial __skb_checksum_complete tcp_v4_send_check
[TCP: Acknowledge]
tcp_send_ack __tcp_ack_snd_check tcp_send_delayed_ack
[TCP: Open_Close]
tcp_v4_connect tcp_close tcp_fin tcp_conn_request tcp_time_wait tcp_v4_syn_recv_sock
[TCP: State_Machine]
tcp_ack tcp_rcv_state_process tcp_set_state
[TCP: Retransmission]
tcp_retransmit_skb tcp_xmit_retransmit_queue tcp_fastretrans_alert tcp_rack_mark_lost
";

    #[test]
    fn well_known_functions_are_where_they_belong() {
        let (mut count, mut category) = (0, "");
        for line in WELL_KNOWN.lines() {
            if let Some(name) = line.strip_prefix('[') {
                category = name.trim_end_matches(']');
                assert!(Category::named(category).is_some(), "{category}");
                continue;
            }
            for name in line.split_whitespace() {
                let rule = Table::linux().rule(name);
                let found = rule.map(|rule| rule.category);
                assert_eq!(found, Category::named(category), "{name} by {rule:?}");
                count += 1;
            }
        }
        assert!(count >= 60, "{count}");
    }
}
