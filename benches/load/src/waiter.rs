//! Waits for sockets and for the time a message is due, to the microsecond: a poll's own time-out
//! counts in milliseconds.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::failure::{Failure, Outcome};

/// The token of the timer; connections have smaller ones.
const TIMER: Token = Token(usize::MAX);
/// Longest wait: progress is printed, and lost connections are tried again.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Events taken at a time.
const EVENTS: usize = 1024;

/// Sockets and a timer.
pub(crate) struct Waiter {
    pub(crate) poll: Poll,
    pub(crate) events: Events,
    timer: OwnedFd,
}

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::System { what, error }
}

impl Waiter {
    pub(crate) fn new() -> Outcome<Self> {
        let poll = Poll::new().map_err(failed("epoll"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags);
        let timer = timer.map_err(|error| failed("a timer")(error.into()))?;
        let raw = timer.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&raw), TIMER, Interest::READABLE)
            .map_err(failed("a timer"))?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            timer,
        })
    }

    /// Waits for events, at most for `due`; they are then in `events`, the timer's among them.
    pub(crate) fn wait(&mut self, due: Option<Duration>) -> Outcome<()> {
        let mut timeout = WAIT_MAX;
        match due {
            Some(due) if due.is_zero() => timeout = Duration::ZERO,
            Some(due) if due < WAIT_MAX => {
                let value = Timespec {
                    tv_sec: 0,
                    tv_nsec: i64::from(due.subsec_nanos()),
                };
                let interval = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let spec = Itimerspec {
                    it_interval: interval,
                    it_value: value,
                };
                // Set anew each time, which also takes back what it reported before.
                timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)
                    .map_err(|error| failed("a timer")(error.into()))?;
            }
            _ => {}
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                Err(failed("epoll")(error))
            }
            _ => Ok(()),
        }
    }
}

/// As many descriptors as this process may have.
pub(crate) fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused, the first connection too many reports it.
    let _raised = setrlimit(Resource::Nofile, limit);
}
