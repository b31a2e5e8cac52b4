//! All targets: a module for each, and the table of them.

pub mod access;
pub mod agent_messages;
pub mod cache_rules;
pub mod calibrate;
pub mod certificate;
pub mod client_hello;
pub mod config;
pub mod container_labels;
pub mod controller_answers;
pub mod disk_records;
pub mod dns_answer;
pub mod duration;
pub mod front_door;
pub mod greeting;
pub mod http1;
pub mod http1_answer;
pub mod http_front;
pub mod iio_scan;
pub mod in_use_answer;
pub mod lessons;
pub mod load_answer;
pub mod log_formats;
pub mod log_line;
pub mod log_reader;
pub mod log_scan;
pub mod magic_packet;
pub mod markers;
pub mod meter_answers;
pub mod meter_logs;
pub mod meter_streams;
pub mod mirror_answer;
pub mod mirror_css;
pub mod mirror_feed;
pub mod mirror_html;
pub mod mirror_manifest;
pub mod mirror_robots;
pub mod mirror_sitemap;
pub mod pool_lessons;
pub mod proxy_header;
pub mod report_page;
pub mod tcp_capture;
pub mod tcp_protocol;
pub mod transfer_messages;
pub mod workload_output;

use crate::Target;

/// Makes the table, and for each row the test that replays the seeds.
macro_rules! targets {
    ($($name:ident,)+) => {
        /// All targets, sorted by name.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run }),+];

        #[cfg(test)]
        mod passes_on_its_seeds {
            $(
                #[test]
                fn $name() {
                    crate::replay::seeds(stringify!($name));
                }
            )+
        }
    };
}

targets! {
    access,
    agent_messages,
    cache_rules,
    calibrate,
    certificate,
    client_hello,
    config,
    container_labels,
    controller_answers,
    disk_records,
    dns_answer,
    duration,
    front_door,
    greeting,
    http1,
    http1_answer,
    http_front,
    iio_scan,
    in_use_answer,
    lessons,
    load_answer,
    log_formats,
    log_line,
    log_reader,
    log_scan,
    magic_packet,
    markers,
    meter_answers,
    meter_logs,
    meter_streams,
    mirror_answer,
    mirror_css,
    mirror_feed,
    mirror_html,
    mirror_manifest,
    mirror_robots,
    mirror_sitemap,
    pool_lessons,
    proxy_header,
    report_page,
    tcp_capture,
    tcp_protocol,
    transfer_messages,
    workload_output,
}
