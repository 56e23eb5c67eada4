//! A record without its body: for a reader who wants the head and the properties of many messages.
//! Pure functions of bytes.
#![deny(clippy::indexing_slicing)]

use crate::layout::{BODY_CRC_AT, TOTAL_LEN_AT};
use crate::outline::Outline;
use crate::sys_flag::INNER_BATCH;

/// Bytes of the field in front of the body.
const BODY_LEN_BYTES: usize = 4;

/// Adds a record to `out` without its body: a whole record again, whose body has the length 0 and
/// the checksum of no bytes. Bytes that begin no whole record, and a record that holds other
/// messages in its body, are added as they are.
pub fn write_bodiless(record: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    if write_parts(record, out).is_none() {
        out.truncate(begin);
        out.extend_from_slice(record);
    }
}

fn write_parts(record: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let outline = Outline::of(record)?;
    if outline.sys_flag & INNER_BATCH != 0 {
        return None;
    }
    let tail = record.get(outline.tail_at..outline.total_len_bytes)?;
    let head = record.get(..outline.body_at - BODY_LEN_BYTES)?;
    let begin = out.len();
    out.extend_from_slice(head);
    out.extend_from_slice(&0_u32.to_be_bytes());
    out.extend_from_slice(tail);
    let total_len = u32::try_from(out.len() - begin).ok()?;
    for (at, value) in [(TOTAL_LEN_AT, total_len), (BODY_CRC_AT, 0)] {
        let field = out.get_mut(begin + at..begin + at + 4)?;
        field.copy_from_slice(&value.to_be_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Found, head};
    use crate::outline::tests::record;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_but_the_body_stays(
            body in prop::collection::vec(any::<u8>(), 0..300),
            topic in "[a-z]{1,200}",
            properties in prop::collection::vec(3_u8.., 0..300),
            is_wide: bool,
        ) {
            let whole = record(&body, &topic, &properties, is_wide);
            let mut out = vec![1, 2, 3];
            write_bodiless(&whole, &mut out);
            let bare = out.split_off(3);
            // What the record would be, had it never had a body.
            prop_assert_eq!(&bare, &record(b"", &topic, &properties, is_wide));
            prop_assert!(matches!(head(&bare), Ok(Found::Record(_))));
        }

        #[test]
        fn any_bytes_stay_or_become_shorter(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            write_bodiless(&bytes, &mut out);
            prop_assert!(out.len() <= bytes.len());
        }
    }

    #[test]
    fn what_holds_other_messages_stays_whole() {
        let mut batch = record(b"inner", "t", b"", false);
        let flag = batch.get_mut(crate::layout::SYS_FLAG_AT..).unwrap();
        flag.get_mut(..4)
            .unwrap()
            .copy_from_slice(&INNER_BATCH.to_be_bytes());
        let mut out = Vec::new();
        write_bodiless(&batch, &mut out);
        assert_eq!(out, batch);
    }
}
