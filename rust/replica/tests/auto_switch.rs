//! A master's and a slave's link of controller mode against each other, over logs in memory: copies that are
//! equal, whatever pieces the bytes come in and wherever connections end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mqcore_replica::{
    AutoSwitchMasterLink, AutoSwitchSlaveLink, EpochEntry, EpochTable, FlowLimit, Followed,
    Introduction, LinkFault, LogSpan, Received, Source, Step, Timing,
};
use proptest::prelude::*;

const TIMING: Timing = Timing {
    heartbeat_ms: 5_000,
    silence_max_ms: 20_000,
};
const FILE_LEN_BYTES: u64 = 1_000;
const WHO: Introduction = Introduction {
    id: 2,
    from_last_file: false,
    is_learner: false,
};

/// A log whose bytes are the epochs that wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Log {
    start: u64,
    bytes: Vec<u8>,
    epochs: EpochTable,
}

impl Log {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn write(&mut self, epoch: i32, len: usize) {
        let start = self.end();
        assert!(self.epochs.append(EpochEntry { epoch, start }));
        self.bytes.extend(vec![epoch as u8; len]);
    }

    fn cut(&mut self, offset: u64) {
        self.bytes.truncate((offset - self.start) as usize);
        self.epochs.forget_behind(offset);
    }

    fn source(&self) -> Source<'_> {
        Source {
            log: LogSpan {
                start: self.start,
                end: self.end(),
                file_len_bytes: FILE_LEN_BYTES,
            },
            epochs: &self.epochs,
            confirm: self.end(),
        }
    }
}

/// What a master sends now.
fn sent(link: &mut AutoSwitchMasterLink, log: &Log, now_ms: u64) -> Vec<u8> {
    let source = log.source();
    let mut out = link.greeting(source, now_ms).unwrap_or_default();
    for _ in 0..100 {
        match link.step(source, now_ms) {
            Step::Send {
                offset,
                len_max,
                body_len_max,
            } => {
                let from = (offset - log.start) as usize;
                let to = (from + len_max).min(log.bytes.len());
                let bodies = &log.bytes[from..to];
                assert!(bodies.iter().all(|byte| *byte == bodies[0]), "of one epoch");
                for (at, body) in bodies.chunks(body_len_max).enumerate() {
                    let offset = offset + (at * body_len_max) as u64;
                    out.extend(link.head(source, offset, body.len() as u32).to_bytes());
                    out.extend(body);
                }
                link.sent(bodies.len() as u64, now_ms);
            }
            Step::Heartbeat { offset } => {
                out.extend(link.head(source, offset, 0).to_bytes());
                link.sent(0, now_ms);
            }
            Step::Wait { .. } => return out,
        }
    }
    panic!("there is no end of it");
}

/// Takes one piece of what a master sends.
fn take(link: &mut AutoSwitchSlaveLink, log: &mut Log, mut bytes: &[u8]) -> Result<(), LinkFault> {
    while let Some(followed) = link.feed(&mut bytes, &log.epochs)? {
        match followed {
            Followed::Agreed(Some(epoch)) => {
                log.epochs.forget_from_epoch(epoch + 1);
            }
            Followed::Agreed(None) => {}
            Followed::Epoch(entry) => {
                assert!(entry.start <= log.end(), "never about what the log has not");
                assert!(log.epochs.append(entry));
            }
            Followed::Log(Received::Begin(offset)) => log.start = offset,
            Followed::Log(Received::Bytes { offset, bytes }) => {
                assert_eq!(offset, log.end());
                log.bytes.extend(bytes);
            }
        }
    }
    assert!(bytes.is_empty());
    Ok(())
}

/// One connection, its bytes in pieces of `piece`, broken off behind `breaks_at` bytes of the master.
fn connect(master: &Log, slave: &mut Log, piece: usize, breaks_at: usize) -> Result<(), LinkFault> {
    let flow = FlowLimit::new(None, 0);
    let mut ours = AutoSwitchMasterLink::new(1, TIMING, 7, flow, 0);
    let mut theirs = AutoSwitchSlaveLink::new(slave.end(), slave.end() == 0, TIMING, 0);
    for part in AutoSwitchSlaveLink::introduction(WHO).chunks(piece) {
        ours.feed(part, master.source().log, 0)?;
    }
    let mut left = breaks_at;
    for now_ms in 0..100 {
        let out = sent(&mut ours, master, now_ms);
        for part in out[..out.len().min(left)].chunks(piece) {
            take(&mut theirs, slave, part)?;
        }
        left = left.saturating_sub(out.len());
        if left == 0 {
            return Ok(());
        }
        if let Some(report) = theirs.report(slave.end(), now_ms) {
            for part in report.chunks(piece) {
                ours.feed(part, master.source().log, now_ms)?;
            }
        }
    }
    Ok(())
}

/// Follows until the logs are equal, and cuts where that is wanted; how often.
fn follow(master: &Log, slave: &mut Log, piece: usize) -> usize {
    for cuts in 0..3 {
        match connect(master, slave, piece, usize::MAX) {
            Ok(()) => return cuts,
            Err(LinkFault::CutNeeded { offset, .. }) => slave.cut(offset),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("it is cut again and again");
}

fn master_log() -> Log {
    let mut log = Log::default();
    log.write(1, 30);
    log.write(2, 0);
    log.write(3, 25);
    log.write(5, 9);
    log
}

#[test]
fn every_split_of_the_bytes_and_every_end_of_the_connection_give_the_same_log() {
    let master = master_log();
    for piece in [1, 2, 3, 5, 7, 11, 36, 1_000] {
        let mut slave = Log::default();
        assert_eq!(follow(&master, &mut slave, piece), 0);
        assert_eq!(slave.bytes, master.bytes);
    }
    for breaks_at in 0..400 {
        let mut slave = Log::default();
        connect(&master, &mut slave, 13, breaks_at).unwrap();
        assert!(master.bytes.starts_with(&slave.bytes));
        assert_eq!(follow(&master, &mut slave, 13), 0);
        assert_eq!(slave.bytes, master.bytes);
        assert_eq!(slave.epochs.last(), master.epochs.last());
    }
}

#[test]
fn a_divergent_tail_must_be_cut_and_is_equal_behind_it() {
    let master = master_log();
    // It was the master of epoch 4, which nobody else has, or of a longer part of epoch 3.
    let mut other = Log::default();
    other.write(1, 30);
    other.write(2, 0);
    other.write(3, 20);
    other.write(4, 40);
    let expected = LinkFault::CutNeeded {
        offset: 50,
        epoch: 3,
    };
    assert_eq!(
        connect(&master, &mut other.clone(), 5, usize::MAX),
        Err(expected)
    );
    let mut longer = Log::default();
    longer.write(1, 30);
    longer.write(2, 0);
    longer.write(3, 70);
    for mut slave in [other, longer] {
        assert_eq!(follow(&master, &mut slave, 5), 1);
        assert_eq!(slave.bytes, master.bytes);
        assert_eq!(slave.epochs, master.epochs);
    }
    let mut stranger = Log::default();
    stranger.write(7, 4);
    let fault = connect(&master, &mut stranger, 5, usize::MAX).unwrap_err();
    assert_eq!(fault, LinkFault::NoCommonEpoch { theirs: 5, ours: 7 });
}

/// A slave that was paused hears of the master of an epoch that is over, and has the next one's log.
#[test]
fn nothing_is_cut_for_a_master_that_was_deposed() {
    let mut old = Log::default();
    old.write(1, 30);
    old.write(2, 60);
    for stored in [0, 40] {
        let mut slave = Log::default();
        slave.write(1, 30);
        slave.write(2, 20);
        slave.write(3, stored);
        let before = slave.clone();
        let fault = connect(&old, &mut slave, 5, usize::MAX).unwrap_err();
        assert_eq!(fault, LinkFault::OldMaster { theirs: 2, ours: 3 });
        assert_eq!(slave.bytes, before.bytes);
        assert_eq!(slave.epochs, before.epochs);
    }
}

#[test]
fn who_led_and_stored_nothing_follows_any_master() {
    let mut slave = Log::default();
    slave.write(1, 0);
    let mut master = Log::default();
    master.write(2, 40);
    assert_eq!(follow(&master, &mut slave, 5), 0);
    assert_eq!(slave.bytes, master.bytes);
    assert_eq!(slave.epochs, master.epochs);
}

#[test]
fn who_has_reported_has_the_epoch_of_its_master() {
    let mut master = Log::default();
    master.write(1, 0);
    let mut slave = Log::default();
    assert_eq!(follow(&master, &mut slave, 5), 0);
    assert_eq!(
        slave.epochs, master.epochs,
        "also where nothing was stored yet"
    );
    // So that it shows later whom it has followed, and the one before it is only cut.
    master.bytes.extend([1; 30]);
    slave.write(2, 20);
    assert_eq!(follow(&slave, &mut master, 5), 1);
    assert_eq!(master.bytes, slave.bytes);
    master.write(3, 0);
    assert_eq!(follow(&master, &mut slave, 5), 0);
    assert_eq!(slave.epochs, master.epochs);
}

#[test]
fn who_is_not_greeted_waits_and_does_not_ask_again_and_again() {
    let mut slave = Log::default();
    let mut link = AutoSwitchSlaveLink::new(0, true, TIMING, 0);
    assert_eq!(link.wait_ms(6_000), TIMING.silence_max_ms + 1 - 6_000);
    assert_eq!(link.report(0, 6_000), None);
    let mut master = Log::default();
    master.write(1, 0);
    let mut ours = AutoSwitchMasterLink::new(1, TIMING, 7, FlowLimit::new(None, 0), 0);
    ours.feed(&WHO.to_bytes(), master.source().log, 0).unwrap();
    link.read(6_000);
    take(&mut link, &mut slave, &sent(&mut ours, &master, 6_000)).unwrap();
    assert!(link.report(0, 6_000).is_some());
    assert_eq!(link.wait_ms(6_000), TIMING.heartbeat_ms);
}

#[test]
fn two_masters_at_one_offset_are_two_epochs() {
    let (mut first, mut second) = (Log::default(), Log::default());
    for log in [&mut first, &mut second] {
        log.write(1, 30);
    }
    first.write(2, 12);
    second.write(2, 0);
    second.write(3, 12);
    assert_eq!(follow(&second, &mut first, 9), 1);
    assert_eq!(first, second);
}

#[test]
fn an_empty_slave_begins_with_the_first_or_the_last_file() {
    let mut master = Log {
        start: 2_000,
        ..Log::default()
    };
    master.write(3, 500);
    master.write(4, 1_700);
    let mut slave = Log::default();
    assert_eq!(follow(&master, &mut slave, 100), 0);
    assert_eq!(slave, master);
    let flow = FlowLimit::new(None, 0);
    let mut link = AutoSwitchMasterLink::new(1, TIMING, 100, flow, 0);
    let from_last_file = Introduction {
        from_last_file: true,
        ..WHO
    };
    let source = master.source();
    link.feed(&from_last_file.to_bytes(), source.log, 0)
        .unwrap();
    assert!(link.greeting(source, 0).is_some());
    link.feed(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0], source.log, 0)
        .unwrap();
    assert_eq!(link.standing(source.log.end, 0).sent, 4_000);
}

#[test]
fn frames_out_of_turn_and_foreign_ids_end_the_link() {
    let log = master_log();
    let span = log.source().log;
    let link = || AutoSwitchMasterLink::new(1, TIMING, 100, FlowLimit::new(None, 0), 0);
    for id in [1, 0, -7] {
        let who = Introduction { id, ..WHO };
        let fault = link().feed(&who.to_bytes(), span, 0).unwrap_err();
        assert_eq!(fault, LinkFault::BadId { id });
    }
    let report = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5];
    assert!(
        link().feed(&report, span, 0).is_err(),
        "before it was greeted"
    );
    assert!(link().feed(b"GET / HTTP/1.1", span, 0).is_err());
    let mut link = link();
    link.feed(&WHO.to_bytes(), span, 0).unwrap();
    link.feed(&WHO.to_bytes(), span, 0).unwrap();
    assert!(link.greeting(log.source(), 0).is_some());
    assert!(link.greeting(log.source(), 0).is_none());
    link.feed(&report, span, 0).unwrap();
    assert!(link.feed(&WHO.to_bytes(), span, 0).is_err());
}

#[test]
fn a_confirm_offset_is_announced_soon() {
    let log = master_log();
    let mut source = log.source();
    source.confirm = 10;
    let mut link = AutoSwitchMasterLink::new(1, TIMING, 100, FlowLimit::new(None, 0), 0);
    link.feed(&WHO.to_bytes(), source.log, 0).unwrap();
    link.greeting(source, 0);
    link.feed(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 64], source.log, 0)
        .unwrap();
    assert_eq!(link.step(source, 19), Step::Wait { wait_ms: 1 });
    assert_eq!(link.step(source, 20), Step::Heartbeat { offset: 64 });
    assert_eq!(link.head(source, 64, 0).confirm, 10);
    link.sent(0, 20);
    assert_eq!(link.step(source, 100), Step::Wait { wait_ms: 4_920 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Masters take turns over three logs, each after the one before it was copied by some and not by
    /// others: whoever follows becomes equal, with at most one cut.
    #[test]
    fn whoever_leads_all_become_equal(
        turns in prop::collection::vec((0..3usize, 0..40usize, 0..3usize, 0..500usize), 1..12),
        piece in 1..50usize,
    ) {
        let mut logs = [Log::default(), Log::default(), Log::default()];
        for (turn, (leader, len, follower, breaks_at)) in turns.into_iter().enumerate() {
            logs[leader].write(turn as i32 + 1, len);
            let master = logs[leader].clone();
            if follower != leader {
                match connect(&master, &mut logs[follower], piece, breaks_at) {
                    Ok(()) | Err(LinkFault::NoCommonEpoch { .. }) => {}
                    Err(LinkFault::CutNeeded { offset, .. }) => {
                        logs[follower].cut(offset);
                        // The other may go on, or stay as it is.
                        let _may_break = connect(&master, &mut logs[follower], piece, breaks_at);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        let mut master = logs[0].clone();
        master.write(100, 5);
        for slave in &mut logs[1..] {
            if slave.epochs.consistent(slave.end(), &master.epochs, master.end()).is_none()
                && slave.epochs.last().is_some()
            {
                continue;
            }
            follow(&master, slave, piece);
            prop_assert_eq!(&slave.bytes, &master.bytes);
            prop_assert_eq!(slave.epochs.last(), master.epochs.last());
        }
    }
}
