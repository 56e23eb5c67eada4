//! Bad bytes into everything that replicas and controllers send one another or keep: a value or a fault,
//! never a panic, and never more memory than the bytes give reason for.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../../engine/tests/fuzz/run.rs"]
mod run;

use mqcore_replica::auto_switch::{epochs_of, greeting};
use mqcore_replica::controller::{ControllerState, Epochs, Event, Fence, Register};
use mqcore_replica::{
    AutoSwitchMasterLink, AutoSwitchSlaveLink, EpochEntry, EpochTable, FlowLimit, Header,
    Introduction, LogSpan, MasterLink, RecordWalk, SlaveLink, Timing, Transfer, refill, stream,
};
use run::{Target, target};

const TARGETS: [Target; 8] = [
    target("epochs", epoch_files, epoch_file),
    target("master_link", reports, master_link),
    target("slave_link", bodies, slave_link),
    target("auto_master", introductions, auto_master),
    target("auto_slave", greetings, auto_slave),
    target("refill", refills, refill_frames),
    target("events", events, event),
    target("states", states, state),
];
const TIMING: Timing = Timing {
    heartbeat_ms: 1_000,
    silence_max_ms: 5_000,
};
const LOG: LogSpan = LogSpan {
    start: 4_096,
    end: 100_000,
    file_len_bytes: 4_096,
};

fn table() -> EpochTable {
    let entry = |epoch, start| EpochEntry { epoch, start };
    EpochTable::of(vec![entry(1, 0), entry(3, 4_096), entry(4, 90_000)]).unwrap()
}

fn epoch_files() -> Vec<Vec<u8>> {
    vec![
        table().to_text(),
        EpochTable::default().to_text(),
        b"2\n0\n1-0\n2-7\n".to_vec(),
    ]
}

fn epoch_file(bytes: &[u8], _number: u64) {
    if let Ok(table) = EpochTable::of_text(bytes) {
        assert_eq!(EpochTable::of_text(&table.to_text()).as_ref(), Ok(&table));
    }
    if let Ok(table) = epochs_of(bytes) {
        assert!(table.entries().len() <= bytes.len());
    }
}

fn reports() -> Vec<Vec<u8>> {
    let all: Vec<_> = [0, 4_096, 50_000, 100_000].map(stream::report).concat();
    vec![all, stream::report(0).to_vec(), vec![0xff; 8]]
}

fn master_link(bytes: &[u8], number: u64) {
    let flow = FlowLimit::new(None, 0);
    let mut link = MasterLink::new(TIMING, 1 << (number % 24), flow, 0);
    for piece in bytes.chunks((number % 20 + 1) as usize) {
        if link.feed(piece, LOG, 1).is_err() {
            return;
        }
        let _step = link.step(LOG.end, 2);
    }
    let _standing = link.standing(LOG.end, 3);
}

fn bodies() -> Vec<Vec<u8>> {
    let header = |offset, len_bytes| Header { offset, len_bytes }.to_bytes().to_vec();
    let body = |offset, len: usize| [header(offset, len as u32), vec![7; len]].concat();
    let all = [body(0, 100), header(100, 0), body(100, 900)].concat();
    vec![all, body(0, 3), header(0, u32::MAX / 2)]
}

fn slave_link(bytes: &[u8], number: u64) {
    let mut link = SlaveLink::new(0, number.is_multiple_of(3), TIMING, 0);
    let mut walk = RecordWalk::new(0, 4_096);
    for piece in bytes.chunks((number % 90 + 1) as usize) {
        let mut rest = piece;
        link.read(1);
        loop {
            match link.feed(&mut rest) {
                Ok(Some(_piece)) => {}
                Ok(None) => break,
                Err(_fault) => return,
            }
        }
        let _fits = walk.take(piece);
        let _report = link.report(link.announced(), 2);
    }
    assert!(link.announced() <= i64::MAX as u64);
}

fn introductions() -> Vec<Vec<u8>> {
    let mut whole = vec![0; 16];
    whole[3] = 1;
    vec![whole.clone(), [whole, vec![0; 40]].concat(), vec![0xff; 60]]
}

fn auto_master(bytes: &[u8], number: u64) {
    let flow = FlowLimit::new(Some(1 << 20), 0);
    let mut link = AutoSwitchMasterLink::new(1, TIMING, 1 << 16, flow, 0);
    for piece in bytes.chunks((number % 40 + 1) as usize) {
        if link.feed(piece, LOG, 1).is_err() {
            return;
        }
    }
    let _slave = link.slave();
    if let Ok(bytes) = bytes.try_into() {
        let _who = Introduction::of(bytes);
    }
}

fn greetings() -> Vec<Vec<u8>> {
    let hello = greeting(&table(), 100_000);
    let transfer = Transfer {
        len_bytes: 50,
        offset: Some(0),
        entry: EpochEntry { epoch: 1, start: 0 },
        confirm: 9,
    };
    let flowing = [&hello[..], &transfer.to_bytes(), &[7; 50]].concat();
    vec![hello, flowing]
}

fn auto_slave(bytes: &[u8], number: u64) {
    let epochs = if number.is_multiple_of(2) {
        EpochTable::default()
    } else {
        table()
    };
    let mut link = AutoSwitchSlaveLink::new(0, number.is_multiple_of(3), TIMING, 0);
    for piece in bytes.chunks((number % 90 + 1) as usize) {
        let mut rest = piece;
        link.read(1);
        loop {
            match link.feed(&mut rest, &epochs) {
                Ok(Some(_piece)) => {}
                Ok(None) => break,
                Err(_fault) => return,
            }
        }
    }
    if let Some(Ok(bytes)) = bytes.get(..36).map(TryInto::try_into) {
        let _transfer: Result<Transfer, _> = Transfer::of(bytes);
    }
}

fn refills() -> Vec<Vec<u8>> {
    vec![
        vec![0; 64],
        vec![1; 64],
        refill::epochs_to_bytes(table().entries()),
    ]
}

fn refill_frames(bytes: &[u8], _number: u64) {
    if let Some(Ok(head)) = bytes
        .get(..refill::REQUEST_LEN_BYTES)
        .map(TryInto::try_into)
    {
        let _asked = refill::Request::of(head);
    }
    if let Some(Ok(head)) = bytes.get(..refill::ANSWER_LEN_BYTES).map(TryInto::try_into) {
        let _answer = refill::Answer::of(head);
    }
}

fn events() -> Vec<Vec<u8>> {
    let fence = Event::Fence(Fence {
        name: "broker-a".to_owned(),
        master: 1,
        seen: Epochs { master: 3, set: 4 },
    });
    let register = Event::Register(Register {
        name: "broker-a".to_owned(),
        id: 2,
        address: "127.0.0.1:10911".to_owned(),
        claim: None,
    });
    let kinds = (1..8).map(|kind| [&[1, kind][..], &[0, 0, 0, 1, b'b'], &[0; 60]].concat());
    kinds.chain([fence.encode(), register.encode()]).collect()
}

fn event(bytes: &[u8], _number: u64) {
    if let Ok(event) = Event::decode(bytes) {
        assert_eq!(Event::decode(&event.encode()).as_ref(), Ok(&event));
    }
}

fn states() -> Vec<Vec<u8>> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let broker = [&1_i64.to_be_bytes()[..], &text("127.0.0.1:1"), &text("x")].concat();
    let one = [
        &[1][..],
        &1_u32.to_be_bytes(),
        &text("broker-a"),
        &text("cluster"),
        &2_i64.to_be_bytes(),
        &1_u32.to_be_bytes(),
        &broker,
        &[1],
        &1_i64.to_be_bytes(),
        &3_i32.to_be_bytes(),
        &1_u32.to_be_bytes(),
        &1_i64.to_be_bytes(),
        &4_i32.to_be_bytes(),
        &0_u32.to_be_bytes(),
    ]
    .concat();
    vec![ControllerState::default().encode(), one]
}

fn state(bytes: &[u8], _number: u64) {
    if let Ok(state) = ControllerState::decode(bytes) {
        let again = ControllerState::decode(&state.encode());
        assert_eq!(again.map(|state| state.encode()), Ok(state.encode()));
    }
}

#[test]
fn a_sample_of_bad_bytes() {
    run::sample(&TARGETS);
}

#[test]
#[ignore = "minutes: make fuzz runs it"]
fn bad_bytes_for_minutes() {
    run::for_long(&TARGETS);
}
