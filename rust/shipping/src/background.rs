//! A thread whose work can wait: what else the machine does comes first. Knows no work.

/// The priority of the thread (`nice`): beside one that always works it gets a tenth of a
/// processor, and all of one that is idle.
const NICE: i32 = 10;

/// Lets others go before the calling thread. Where the system refuses it goes on as it is.
pub(crate) fn give_way() {
    // On Linux the priority is that of a thread; `None` names the calling one.
    let is_before = rustix::process::getpriority_process(None).is_ok_and(|nice| nice < NICE);
    if is_before {
        let _refused = rustix::process::setpriority_process(None, NICE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_alone_gives_way() {
        let before = rustix::process::getpriority_process(None).unwrap();
        let moved = std::thread::spawn(|| {
            give_way();
            rustix::process::getpriority_process(None).unwrap()
        });
        assert_eq!(moved.join().unwrap(), before.max(NICE));
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), before);
    }
}
