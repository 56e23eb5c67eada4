//! What jobs in a closed loop share: their connections, and the head of their report. Knows no job.

use std::net::SocketAddr;

use mio::Token;
use serde_json::{Value, json};

use crate::args::Aim;
use crate::failure::{Failure, Outcome};
use crate::link::Link;
use crate::waiter::Waiter;

/// Connects as often as asked for; each connection becomes what `fast_path` makes of it.
pub(crate) fn connect<T>(
    aim: &Aim,
    address: SocketAddr,
    waiter: &Waiter,
    fast_path: impl Fn(Link) -> T,
) -> Outcome<Vec<T>> {
    (0..aim.connections)
        .map(|number| {
            let link = Link::to(
                address,
                aim.tls,
                waiter.poll.registry(),
                Token(number as usize),
            );
            link.map(&fast_path)
                .map_err(|why| Failure::gone(address, &why))
        })
        .collect()
}

/// A report with what was asked for, and one number of the job's own.
pub(crate) fn headed(
    mut report: Value,
    job: &str,
    address: SocketAddr,
    aim: &Aim,
    (name, number): (&str, u64),
) -> Value {
    if let Some(report) = report.as_object_mut() {
        report.insert("job".to_owned(), json!(job));
        report.insert("broker".to_owned(), json!(address.to_string()));
        report.insert("connections".to_owned(), json!(aim.connections));
        report.insert("outstanding".to_owned(), json!(aim.outstanding));
        report.insert(name.to_owned(), json!(number));
    }
    report
}
