//! The runtime that openraft has in tests: tokio's, with numbers that a seed draws. A thread without a seed draws
//! them anew in each run, as tokio's runtime does.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend, TokioInstant, TokioRuntime};
use rand::rngs::StdRng;
use rand::{Error, RngCore, SeedableRng};

thread_local! {
    static NUMBERS: RefCell<StdRng> = RefCell::new(StdRng::from_entropy());
}

/// Times of elections on this thread come from a seed from now on.
pub(super) fn seed(seed: u64) {
    NUMBERS.set(StdRng::seed_from_u64(seed));
}

/// The numbers of this thread.
#[derive(Debug)]
pub(crate) struct Drawn;

impl RngCore for Drawn {
    fn next_u32(&mut self) -> u32 {
        NUMBERS.with_borrow_mut(RngCore::next_u32)
    }

    fn next_u64(&mut self) -> u64 {
        NUMBERS.with_borrow_mut(RngCore::next_u64)
    }

    fn fill_bytes(&mut self, to: &mut [u8]) {
        NUMBERS.with_borrow_mut(|numbers| numbers.fill_bytes(to));
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Error> {
        self.fill_bytes(to);
        Ok(())
    }
}

/// Tokio, but for the numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runtime;

type Tokio<T> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> =
        <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = Drawn;
    type OneshotSender<T: OptionalSend> = Tokio<T>;
    type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;
    type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        Drawn
    }

    fn oneshot<T>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>)
    where
        T: OptionalSend,
    {
        TokioRuntime::oneshot()
    }
}
