//! Connections that only send heartbeats, spread evenly over their interval.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mio::Token;
use mqcore_wire::Command;
use mqcore_wire::command::VERSION_DEFAULT;
use serde_json::{Value, json};

use crate::admin;
use crate::args::Idle;
use crate::failure::{Failure, Outcome};
use crate::link::{Link, Lost};
use crate::signed::Signer;
use crate::tally::Tally;
use crate::waiter::Waiter;

const HEART_BEAT: i32 = 34;
/// An answer is small.
const READ_BYTES: usize = 16 * 1024;

/// A connection and its last heartbeat.
struct Beating {
    link: Option<Link>,
    asked: Instant,
}

/// The heartbeat of a producer with a name of its own.
fn heartbeat(number: usize, signer: Option<&Signer>) -> Outcome<Vec<u8>> {
    let body = json!({
        "clientID": format!("mqcore-load@{number}"),
        "consumerDataSet": [],
        "producerDataSet": [{"groupName": "mqcore-load"}],
    });
    let mut command = Command {
        code: HEART_BEAT,
        version: VERSION_DEFAULT,
        opaque: 1,
        body: body.to_string().into_bytes(),
        ..Command::default()
    };
    if let Some(signer) = signer {
        signer.sign_command(&mut command);
    }
    let frame = command.encode();
    frame.map_err(|error| Failure::Message(error.to_string()))
}

/// Makes a run.
pub(crate) fn run(args: &Idle) -> Outcome<Value> {
    let common = &args.common;
    let address = admin::broker(common)?;
    let mut waiter = Waiter::new()?;
    let signer = common.signer();
    let start = Instant::now();
    let mut beating = Vec::new();
    for number in 0..common.connections as usize {
        let link = Link::to(address, common.tls, waiter.poll.registry(), Token(number));
        let link = link.map_err(|why| {
            let why = why.to_string();
            Failure::Gone { address, why }
        })?;
        beating.push(Beating {
            link: Some(link),
            asked: start,
        });
    }
    let connected = Instant::now();
    let interval = Duration::from_secs_f64(args.heartbeat_seconds.max(0.001));
    let step = interval / common.connections;
    let numbers = 0..common.connections;
    // In the order in which they are due; whoever has had its turn goes to the end.
    let mut due: VecDeque<(Instant, usize)> = numbers
        .map(|number| (connected + step * number, number as usize))
        .collect();
    let measured_from = connected + Duration::from_secs_f64(common.warm_seconds);
    let ends_at = measured_from + Duration::from_secs_f64(common.seconds);
    let mut tally = Tally::new(measured_from, common.pid, common.progress)?;
    let mut buffer = vec![0; READ_BYTES];
    let ended = loop {
        let now = Instant::now();
        tally.tick(now);
        if now >= ends_at {
            break now;
        }
        while let Some((at, number)) = due.front().copied().filter(|(at, _)| *at <= now) {
            due.pop_front();
            due.push_back((at + interval, number));
            let frame = heartbeat(number, signer.as_ref())?;
            beat(beating.get_mut(number), &frame, now, &mut tally);
        }
        let next = due.front().map_or(ends_at, |(at, _)| (*at).min(ends_at));
        waiter.wait(Some(next.saturating_duration_since(now)))?;
        for event in &waiter.events {
            receive(beating.get_mut(event.token().0), &mut buffer, &mut tally);
        }
    };
    let mut report = tally.report(ended);
    let about = json!({
        "job": "idle",
        "broker": address.to_string(),
        "connections": common.connections,
        "connected": beating.iter().filter(|one| one.link.is_some()).count(),
        "connect_seconds": connected.duration_since(start).as_secs_f64(),
        "heartbeat_seconds": args.heartbeat_seconds,
    });
    if let (Some(report), Value::Object(about)) = (report.as_object_mut(), about) {
        report.extend(about);
    }
    Ok(report)
}

fn beat(one: Option<&mut Beating>, frame: &[u8], now: Instant, tally: &mut Tally) {
    let Some(one) = one else {
        return;
    };
    let Some(link) = &mut one.link else {
        return;
    };
    one.asked = now;
    link.out.extend_from_slice(frame);
    if link.flush().is_err() {
        one.link = None;
        tally.lost += 1;
    }
}

fn receive(one: Option<&mut Beating>, buffer: &mut [u8], tally: &mut Tally) {
    let Some(one) = one else {
        return;
    };
    let Some(link) = &mut one.link else {
        return;
    };
    let now = Instant::now();
    let asked = one.asked;
    let mut done: Result<(), Lost> = link.unblocked();
    if done.is_ok() {
        done = link.read(buffer, |answer| {
            if answer.is_response() {
                tally.answer(answer.code, 1, 0);
                tally.latency(now.saturating_duration_since(asked));
            }
        });
    }
    if done.is_err() {
        one.link = None;
        tally.lost += 1;
    }
}
