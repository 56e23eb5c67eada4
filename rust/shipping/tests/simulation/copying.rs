//! What copies a master's log in a slave: our follower, or one that does as official slaves do, which look at
//! nothing but the offset of a frame. The latter is there for flaws alone.

use std::io::Write;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::store::WholeRecords;
use mqcore_replica::stream::{HEADER_LEN_BYTES, Header, report};
use mqcore_shipping::Follower;

use super::node::SimStore;
use super::options::SEGMENT_BYTES;

/// How often it looks whether it has something to report, ms.
const REPORT_MS: u64 = 1_000;

/// One slave's end of a connection.
pub(crate) enum Copying {
    Ours(Box<Follower<TwinDisk, ManualClock>>),
    Official(Official),
}

/// As `DefaultHAClient` does it: no record is looked at, nothing compared, a fresh log begins at the file of
/// whatever offset comes.
pub(crate) struct Official {
    store: Arc<SimStore>,
    came: Vec<u8>,
    reported: Option<u64>,
}

impl Copying {
    pub(crate) fn official(store: Arc<SimStore>) -> Self {
        Self::Official(Official {
            store,
            came: Vec::new(),
            reported: None,
        })
    }

    pub(crate) fn begin(&mut self) -> Result<(), String> {
        match self {
            Self::Ours(follower) => follower.begin(),
            Self::Official(_) => Ok(()),
        }
    }

    pub(crate) fn due(&mut self, out: &mut impl Write) -> Result<u64, String> {
        match self {
            Self::Ours(follower) => follower.due(out),
            Self::Official(official) => official.due(out),
        }
    }

    pub(crate) fn came(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Ours(follower) => follower.came(bytes),
            Self::Official(official) => official.came(bytes),
        }
    }

    /// End of what the master has announced; `None` where nobody knows.
    pub(crate) fn announced(&self) -> Option<u64> {
        match self {
            Self::Ours(follower) => Some(follower.announced()),
            Self::Official(_) => None,
        }
    }
}

impl Official {
    fn due(&mut self, out: &mut impl Write) -> Result<u64, String> {
        let end = self.store.replica().appended();
        if self.reported != Some(end) {
            self.reported = Some(end);
            let written = out.write_all(&report(end));
            written.map_err(|error| error.to_string())?;
        }
        Ok(REPORT_MS)
    }

    fn came(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.came.extend_from_slice(bytes);
        while let Some(head) = self.came.first_chunk::<HEADER_LEN_BYTES>() {
            let header = Header::of(*head).map_err(|fault| fault.to_string())?;
            let replica = self.store.replica();
            let end = replica.appended();
            if end != 0 && header.offset != end {
                return Err("the master has closed the connection".to_owned());
            }
            let frame_len = HEADER_LEN_BYTES + header.len_bytes as usize;
            if self.came.len() < frame_len {
                return Ok(());
            }
            if end == 0 && header.offset > 0 {
                let begun = replica.begin_at(header.offset - header.offset % SEGMENT_BYTES);
                begun.map_err(|error| error.to_string())?;
            }
            let at = replica.appended();
            let whole = WholeRecords {
                end: at,
                store_ms: None,
            };
            let body = &self.came[HEADER_LEN_BYTES..frame_len];
            let appended = replica.append(at, &[body], whole);
            appended.map_err(|error| error.to_string())?;
            self.came.drain(..frame_len);
        }
        Ok(())
    }
}
