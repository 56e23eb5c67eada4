//! Follows the records in what a master sends, whatever pieces it comes in: each has a length and a magic,
//! and names its own place. Where that is not so the two logs are no copies of each other, or the bytes are
//! no log; an official slave would copy them all the same. Looks at heads, not at bodies; knows no file.

use mqcore_record::layout::{
    BLANK_LEN_BYTES, MAGIC_AT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT,
    STORE_TIMESTAMP_AT, STORE_TIMESTAMP_AT_BORN_V6, SYS_FLAG_AT, TOTAL_LEN_AT,
};
use mqcore_record::sys_flag::BORN_HOST_V6;

use crate::fault::LinkFault;

/// Bytes of a record's head that are looked at: up to the store timestamp.
const HEAD_LEN_BYTES: usize = STORE_TIMESTAMP_AT_BORN_V6 + 8;

/// Where the walk is.
#[derive(Debug, Clone)]
pub struct RecordWalk {
    file_len_bytes: u64,
    /// Physical offset of the next byte.
    at: u64,
    /// Physical offset of the record that is being passed, and behind it: where the next one begins.
    begin: u64,
    next: u64,
    head: [u8; HEAD_LEN_BYTES],
    head_len: usize,
    /// Store time of the record that is being passed, and of the last one that has come whole.
    passing_ms: Option<i64>,
    whole_ms: Option<i64>,
}

impl RecordWalk {
    /// A walk that goes on at the end of a log: behind a whole record, with files of one length.
    #[must_use]
    pub fn new(end: u64, file_len_bytes: u64) -> Self {
        Self {
            file_len_bytes,
            at: end,
            begin: end,
            next: end,
            head: [0; HEAD_LEN_BYTES],
            head_len: 0,
            passing_ms: None,
            whole_ms: None,
        }
    }

    /// Physical offset of the next byte.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at + self.head_len as u64
    }

    /// Physical offset behind the last record that has come whole.
    #[must_use]
    pub fn whole_end(&self) -> u64 {
        if self.at < self.next {
            self.begin
        } else {
            self.next
        }
    }

    /// Store time of the last record that has come whole, ms.
    #[must_use]
    pub fn whole_ms(&self) -> Option<i64> {
        self.whole_ms
    }

    /// Takes bytes at [`RecordWalk::at`].
    ///
    /// # Errors
    /// [`LinkFault::NoRecord`]; the walk has not moved then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), LinkFault> {
        let mut walk = self.clone();
        walk.pass(bytes)?;
        *self = walk;
        Ok(())
    }

    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), LinkFault> {
        while !bytes.is_empty() {
            if self.at < self.next {
                let len = (self.next - self.at).min(bytes.len() as u64);
                bytes = bytes.get(len as usize..).unwrap_or_default();
                self.at += len;
                if self.at == self.next {
                    self.whole_ms = self.passing_ms.take().or(self.whole_ms);
                }
                continue;
            }
            // Up to where something can be seen: length and magic, or the whole head.
            let wanted = if self.head_len < BLANK_LEN_BYTES {
                BLANK_LEN_BYTES
            } else {
                HEAD_LEN_BYTES
            };
            let (front, rest) = bytes.split_at((wanted - self.head_len).min(bytes.len()));
            if let Some(into) = self
                .head
                .get_mut(self.head_len..self.head_len + front.len())
            {
                into.copy_from_slice(front);
            }
            self.head_len += front.len();
            bytes = rest;
            self.look_at_head()?;
        }
        Ok(())
    }

    /// Looks at what has come of a head; where it is enough the rest of the record is passed.
    fn look_at_head(&mut self) -> Result<(), LinkFault> {
        let begin = self.next;
        let fault = |why: String| LinkFault::NoRecord { offset: begin, why };
        if self.head_len == BLANK_LEN_BYTES {
            let (len, magic) = (self.number(TOTAL_LEN_AT), self.number(MAGIC_AT));
            let least = match magic {
                MAGIC_BLANK => BLANK_LEN_BYTES,
                MAGIC_V1 | MAGIC_V2 => HEAD_LEN_BYTES,
                _ => return Err(fault(format!("its magic is {magic:#x}"))),
            };
            let left = self.file_len_bytes - begin % self.file_len_bytes;
            let len = u64::try_from(len)
                .ok()
                .filter(|len| (least as u64..=left).contains(len))
                .ok_or_else(|| fault(format!("{len} bytes, and its file has {left} left")))?;
            if magic != MAGIC_BLANK {
                return Ok(());
            }
            if len != left {
                let why = format!("a file ends there, and ours {} bytes later", left - len);
                return Err(fault(why));
            }
            self.begin_passing(len, BLANK_LEN_BYTES);
        } else if self.head_len == HEAD_LEN_BYTES {
            let named = self.long(PHYSICAL_OFFSET_AT);
            if u64::try_from(named) != Ok(begin) {
                return Err(fault(format!("it names {named} as its physical offset")));
            }
            let len = u64::try_from(self.number(TOTAL_LEN_AT)).unwrap_or(0);
            let is_v6 = self.number(SYS_FLAG_AT) & BORN_HOST_V6 != 0;
            let at = if is_v6 {
                STORE_TIMESTAMP_AT_BORN_V6
            } else {
                STORE_TIMESTAMP_AT
            };
            self.passing_ms = Some(self.long(at));
            self.begin_passing(len, HEAD_LEN_BYTES);
        }
        Ok(())
    }

    fn begin_passing(&mut self, len: u64, head_len: usize) {
        self.begin = self.next;
        self.at = self.next + head_len as u64;
        self.next += len;
        self.head_len = 0;
        if self.at == self.next {
            self.whole_ms = self.passing_ms.take().or(self.whole_ms);
        }
    }

    fn number(&self, at: usize) -> i32 {
        let bytes = self.head.get(at..at + 4).and_then(|b| b.try_into().ok());
        i32::from_be_bytes(bytes.unwrap_or_default())
    }

    fn long(&self, at: usize) -> i64 {
        let bytes = self.head.get(at..at + 8).and_then(|b| b.try_into().ok());
        i64::from_be_bytes(bytes.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use mqcore_record::{Host, Limits, Message, Prepared, write_blank};

    use super::*;

    const FILE_LEN_BYTES: u64 = 1024;

    fn record(physical_offset: u64, store_ms: i64, host: &str) -> Vec<u8> {
        let message = Message {
            topic: "T",
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: 1,
            born_host: Host::from(host.parse::<std::net::SocketAddr>().unwrap()),
            store_host: Host::from(std::net::SocketAddr::from(([127, 0, 0, 1], 10911))),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"body",
            properties: b"",
            version: None,
        };
        let mut prepared = Prepared::new(&message, &Limits { body_len_max: 100 }).unwrap();
        prepared.stamp(0, i64::try_from(physical_offset).unwrap(), store_ms);
        let mut bytes = vec![0; prepared.total_len()];
        prepared.write_to(&mut bytes);
        bytes
    }

    /// A file with two records and its blank end, and a record behind it.
    fn log() -> Vec<u8> {
        let mut log = record(0, 10, "10.0.0.1:5");
        log.extend(record(log.len() as u64, 20, "[::1]:5"));
        let left = 1024 - log.len();
        let mut blank = vec![0; left];
        write_blank(&mut blank, i32::try_from(left).unwrap());
        log.extend(blank);
        log.extend(record(1024, 30, "10.0.0.1:5"));
        log
    }

    /// Where its records and blank ends are whole.
    fn ends_of(log: &[u8]) -> Vec<usize> {
        let mut ends = vec![0];
        while let Some(head) = log
            .get(*ends.last().unwrap()..)
            .and_then(|l| l.first_chunk())
        {
            ends.push(ends.last().unwrap() + i32::from_be_bytes(*head) as usize);
        }
        ends
    }

    #[test]
    fn every_cut_of_a_log_is_followed() {
        let log = log();
        let ends = ends_of(&log);
        for cut in 0..=log.len() {
            let mut walk = RecordWalk::new(0, FILE_LEN_BYTES);
            walk.take(&log[..cut]).unwrap();
            assert_eq!(walk.at(), cut as u64);
            let whole = ends.iter().rev().find(|end| **end <= cut);
            assert_eq!(walk.whole_end(), whole.map_or(0, |end| *end as u64));
            walk.take(&log[cut..]).unwrap();
            assert_eq!((walk.at(), walk.whole_ms()), (log.len() as u64, Some(30)));
        }
        let mut walk = RecordWalk::new(0, FILE_LEN_BYTES);
        for byte in &log[..log.len() - 1] {
            walk.take(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!(walk.whole_ms(), Some(20), "the last one has not come whole");
    }

    #[test]
    fn what_is_no_record_of_this_offset_is_refused_and_changes_nothing() {
        let log = log();
        let refused = |from: usize, bytes: &[u8], file_len_bytes: u64| {
            let mut walk = RecordWalk::new(from as u64, file_len_bytes);
            let fault = walk.take(bytes).unwrap_err();
            assert_eq!(walk.at(), from as u64);
            fault.to_string()
        };
        assert!(refused(5, &log, FILE_LEN_BYTES).contains("names 0 as its physical offset"));
        assert!(refused(0, &log[5..], FILE_LEN_BYTES).contains("magic"));
        assert!(refused(0, b"GET / HTTP/1.1", FILE_LEN_BYTES).contains("magic"));
        assert!(refused(0, &log, 2048).contains("ours 1024 bytes later"));
        assert!(refused(0, &log, 128).contains("its file has"));
        let mut negative = log.clone();
        negative[0] = 0xff;
        assert!(refused(0, &negative, FILE_LEN_BYTES).contains("bytes, and its file has"));
    }
}
