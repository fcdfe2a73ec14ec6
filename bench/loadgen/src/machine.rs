//! Processor time, from /proc.

use std::fs;

const TICKS_A_SECOND: f64 = 100.0; // USER_HZ, which Linux keeps at 100 on every architecture that we run on

/// Return the processor time of a process, user and system, in seconds; 0 if it is gone.
pub fn process_s(pid: Option<u32>) -> f64 {
    let path = pid.map_or("/proc/self/stat".to_string(), |pid| format!("/proc/{pid}/stat"));
    let Ok(text) = fs::read_to_string(path) else { return 0.0 };
    let after_name = text.rsplit(')').next().unwrap_or("");
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_A_SECOND
}

/// Return how long the machine's processors were busy, and how long another machine had them, in seconds.
pub fn machine_s() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> =
        text.lines().next().unwrap_or("").split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let at = |index: usize| fields.get(index).copied().unwrap_or(0.0) / TICKS_A_SECOND;
    (at(0) + at(1) + at(2) + at(5) + at(6), at(7))
}
