//! Processor time of a process, from /proc.

use serde_json::{Value, json};

/// User and system time of a process, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

/// What a process has used so far; none when it is gone.
pub(crate) fn used(pid: u32) -> Option<Used> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = parsed(&stat)?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Some(Used {
        user_s: ticks.0 as f64 / per_second,
        system_s: ticks.1 as f64 / per_second,
    })
}

/// User and system ticks in a line of `stat`; the name in parentheses may hold anything.
fn parsed(stat: &str) -> Option<(u64, u64)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user = fields.next()?.parse().ok()?;
    Some((user, fields.next()?.parse().ok()?))
}

/// What was used between two readings, in all and per message.
pub(crate) fn report(pid: u32, before: Option<Used>, messages: u64) -> Value {
    let (Some(before), Some(after)) = (before, used(pid)) else {
        return Value::Null;
    };
    let user_s = after.user_s - before.user_s;
    let system_s = after.system_s - before.system_s;
    let us = (user_s + system_s) * 1e6;
    json!({
        "pid": pid,
        "user_s": user_s,
        "system_s": system_s,
        "us_per_message": (messages > 0).then(|| us / messages as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_stand_behind_a_name_that_may_hold_anything() {
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14";
        assert_eq!(parsed(stat), Some((111, 222)));
        assert_eq!(parsed("7 (a S 1"), None);
        assert!(used(std::process::id()).is_some());
    }
}
