//! The memory that was used.

use std::fs;

use crate::measure::Result;

/// Resets the peak. If the kernel refuses, the measured growth is too small, never too large.
pub(crate) fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

pub(crate) fn peak_memory_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(peak
        .and_then(|rest| rest.split_whitespace().next())
        .ok_or("the kernel does not tell the peak")?
        .parse()?)
}
