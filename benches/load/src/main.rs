//! A load generator for brokers of RocketMQ's remoting protocol, ours and the official one.
//!
//! One thread and one epoll: on a small machine the generator must not take what the broker needs.
//! It speaks the wire and knows nothing of a broker's inside.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

mod admin;
mod args;
mod bodies;
mod closed;
mod consume;
mod failure;
mod fuzz;
mod idle;
mod kept;
mod link;
mod numbers;
mod outline;
mod pace;
mod pop;
mod processor;
mod produce;
mod requests;
mod signed;
mod sink;
mod tally;
mod tls;
mod transact;
mod waiter;

fn main() -> ExitCode {
    let line = args::Line::parse();
    waiter::raise_descriptors();
    let result = match &line.job {
        args::Job::Produce(args) => produce::run(args),
        args::Job::Consume(args) => consume::run(args),
        args::Job::Idle(args) => idle::run(args),
        args::Job::Pop(args) => pop::run(args),
        args::Job::Transact(args) => transact::run(args),
        args::Job::Fuzz(args) => fuzz::run(args),
        args::Job::Sink(args) => sink::run(args),
    };
    let (report, code) = match result {
        Ok(report) if report.get("gone").is_none() => (report, ExitCode::SUCCESS),
        Ok(report) => (report, ExitCode::FAILURE),
        Err(error) => {
            // Nobody may be there to read it; the exit code has it too.
            let _written = writeln!(std::io::stderr(), "mqcore-load: {error}");
            return ExitCode::FAILURE;
        }
    };
    match writeln!(std::io::stdout(), "{report}") {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}
