//! Half messages of batches: their commit stores each message, once and in a run.

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::transactions::batch::HALF_BATCH;
use mqcore_record::batch::{Item, encode};
use mqcore_record::sys_flag::{COMMIT as COMMITTED, COMPRESSED, COMPRESSION_ZSTD};

use crate::serving::{START_MS, Serving, response, send_with};
use crate::transactions::{COMMIT, HALF, Half, NOTES, ROLLBACK, property};

fn body(rows: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        // A popped message that is sent on has the handle of its pop: it is not stored.
        let text = format!("POP_CK\u{1}0 1\u{2}UNIQ_KEY\u{1}u-{row}\u{2}");
        let item = Item {
            flag: 5,
            body: row.as_bytes(),
            properties: text.as_bytes(),
        };
        encode(&item, &mut out).unwrap();
    }
    out
}

impl Serving {
    fn batch(&mut self, opaque: i32, flags: &str, body: &[u8]) -> Half {
        let text = format!(
            "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}UNIQ_KEY\u{1}u{opaque}\u{2}\
             {HALF_BATCH}\u{1}{flags}\u{2}SPARK_TASK\u{1}q/1/0/a\u{2}"
        );
        let born = (START_MS + self.now_ms as i64).to_string();
        let fields = [("f", "4"), ("e", "2"), ("g", &born), ("i", &text)];
        let answer = self.ask(&send_with(opaque, &fields, body));
        assert_eq!(answer.code, 0);
        let id = answer.ext["msgId"].clone();
        Half {
            offset: answer.ext["queueOffset"].parse().unwrap(),
            physical: u64::from_str_radix(&id[id.len() - 16..], 16).unwrap(),
        }
    }
}

#[test]
fn a_commit_stores_each_message_with_what_they_share() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let flags = COMPRESSED | COMPRESSION_ZSTD;
    let half = serving.batch(1, &flags.to_string(), &body(&["a", "b", "c"]));
    serving.settle();
    assert_eq!(serving.bodies(b"t", 2), [""; 0], "nobody sees it before");
    assert_eq!(serving.each(HALF, 0, |_view| ()).len(), 1);
    assert_eq!(response(&serving.end(half, COMMIT, &[])), (0, ""));
    let found = serving.each(b"t", 2, |view| {
        assert_eq!((view.flag, view.sys_flag), (5, COMMITTED | flags));
        assert_eq!(view.prepared_transaction_offset, half.physical as i64);
        for own in [
            "TRAN_MSG",
            "PGROUP",
            "REAL_TOPIC",
            "REAL_QID",
            "POP_CK",
            HALF_BATCH,
        ] {
            assert_eq!(property(view, own), None, "{own}");
        }
        assert_eq!(property(view, "SPARK_TASK").as_deref(), Some("q/1/0/a"));
        property(view, "UNIQ_KEY").unwrap()
    });
    assert_eq!(found, ["u-a", "u-b", "u-c"]);
    assert_eq!(serving.bodies(NOTES, 0), ["0"]);
    assert_eq!(serving.end(half, COMMIT, &[]).code, 0);
    assert_eq!(serving.bodies(b"t", 2), ["a", "b", "c"], "once");
}

#[test]
fn what_is_stored_of_it_already_is_not_stored_again() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let half = serving.batch(1, "0", &body(&["a", "b", "c"]));
    let there = [("mqcoreStored", "2")];
    assert_eq!(serving.end(half, COMMIT, &there).code, 0);
    assert_eq!(serving.bodies(b"t", 2), ["c"]);
    let whole = serving.batch(2, "0", &body(&["d"]));
    assert_eq!(
        response(&serving.end(whole, COMMIT, &[("mqcoreStored", "9")])),
        (0, "")
    );
    assert_eq!(serving.bodies(b"t", 2), ["c"], "all of it was there");
    assert_eq!(serving.bodies(NOTES, 0), ["0", "1"], "and it is ended");
}

#[test]
fn a_body_that_is_no_batch_can_be_rolled_back_only() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let torn = body(&["a", "b"]);
    let cases: [(&str, &[u8]); 3] = [
        ("0", &torn[..torn.len() - 1]),
        ("x", &torn),
        ("0", b"no batch"),
    ];
    for (number, (flags, body)) in cases.into_iter().enumerate() {
        let half = serving.batch(number as i32, flags, body);
        assert_eq!(serving.end(half, COMMIT, &[]).code, 13, "{flags}");
        assert_eq!(serving.bodies(b"t", 2), [""; 0]);
        assert_eq!(serving.end(half, ROLLBACK, &[]).code, 0);
    }
    assert_eq!(serving.bodies(NOTES, 0), ["0", "1", "2"]);
}
