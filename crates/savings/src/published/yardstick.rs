//! The published figures (K. J. `O'Dwyer`, thesis, Maynooth 2017, table 4.3): of another log.

/// The five configurations, in the published order.
pub(super) const CONFIGURATIONS: [&str; 5] =
    ["no_proxy", "cache_default", "cache_aggressive", "sleep_and_bots", "sleep_bots_survey"];

const NONE: f64 = f64::NAN;

/// Row by row; what is not a number was not printed there. Seconds, or counts over the 28 hours of
/// a campus server's log that is not public.
pub(super) const TABLE: [(&str, [f64; 5]); 17] = [
    ("requests", [40305.0, 40305.0, 40305.0, 40305.0, 41696.0]),
    ("malformed", [7.0, 7.0, 7.0, 7.0, 7.0]),
    ("served_by_origin", [40298.0, 33288.0, 27673.0, 20280.0, 20245.0]),
    ("served_by_proxy", [NONE, 7010.0, 12625.0, 20018.0, 21444.0]),
    ("http_200", [36846.0, 36837.0, 36834.0, 29879.0, 29922.0]),
    ("http_404", [3459.0, 3459.0, 3459.0, 2674.0, 2695.0]),
    ("http_503", [NONE, 9.0, 12.0, 241.0, 163.0]),
    ("bot_redirection", [NONE, NONE, NONE, 7511.0, 7525.0]),
    ("served_survey", [NONE, NONE, NONE, NONE, 1391.0]),
    ("replayed_200", [NONE, NONE, NONE, NONE, 1041.0]),
    ("replayed_404", [NONE, NONE, NONE, NONE, 205.0]),
    ("replayed_503", [NONE, NONE, NONE, NONE, 14.0]),
    ("max_delay_origin_s", [0.04, 11.23, 8.01, 12.53, 8.05]),
    ("max_delay_proxy_s", [NONE, 0.20, 0.12, 3.0, 1.98]),
    ("mean_delay_all_s", [0.001, 0.006, 0.005, 0.058, 0.009]),
    ("mean_delay_origin_s", [0.001, 0.007, 0.006, 0.111, 0.012]),
    ("mean_delay_proxy_s", [NONE, 0.001, 0.001, 0.005, 0.005]),
];
