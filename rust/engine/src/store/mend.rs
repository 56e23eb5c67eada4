//! Making units of queues again from the log: the one walk that finds the records of all holes, and
//! what the store answers to queues that ask whether a unit names the right record.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mqcore_record::{CrcCheck, Found, RecordView, head, scan_wanted};

use super::delay_levels::LiveLevels;
use super::followers::{is_queued, unit_of};
use crate::commit_log::{Scan, Stop, scan, whole_record_after};
use crate::config::QUEUE_UNIT_BYTES;
use crate::consume_queue::{
    Hole, HoleMender, LogSide, Mended, Placed, Queue, QueueTable, Suspect, Unit,
};
use crate::disk::Disk;
use crate::dispatch::Request;
use crate::error::Result;
use crate::notice::Notices;
use crate::segment::{Chain, LogFiles};

/// Units that wait for being written, over all holes of one walk: 16 MiB of them.
const PENDING_UNITS_MAX: usize = 800_000;
/// Blanks that are added at once.
const BLANKS_TOGETHER: u64 = 4_096;
/// Queues that a notice names; the others are only counted.
const NAMED_MAX: usize = 8;

/// The log below `limit`, and what units are made with.
pub(super) struct Source<'a, D: Disk> {
    pub(super) chain: &'a Chain<D>,
    pub(super) limit: u64,
    pub(super) levels: &'a LiveLevels,
    pub(super) notices: &'a Notices,
}

/// One hole while the log is walked.
struct Filling {
    hole: Hole,
    /// Queue offset of the next unit of `pending`'s end.
    cursor: u64,
    /// Queue offset that the next record of the queue has at the least; a smaller one begins the
    /// queue anew.
    next: u64,
    pending: Vec<u8>,
    units: u64,
    lost: u64,
    is_stale: bool,
}

impl Filling {
    fn new(hole: Hole) -> Self {
        Self {
            cursor: hole.from,
            next: 0,
            pending: Vec::new(),
            units: 0,
            lost: 0,
            is_stale: false,
            hole,
        }
    }

    /// Takes a record of the queue; gives the units that this adds to what waits.
    fn take<D: Disk>(
        &mut self,
        queues: &HoleMender<D>,
        queue_offset: u64,
        unit: &Unit,
    ) -> Result<usize> {
        let physical_offset = unit.physical_offset.cast_unsigned();
        if !(self.hole.log_from..self.hole.log_to).contains(&physical_offset) {
            return Ok(0);
        }
        if queue_offset < self.next && queue_offset > 0 {
            // Another record has its offset.
            return Ok(0);
        }
        if queue_offset < self.next {
            // Deleted and made anew: what was found before is of the queue before.
            self.write(queues)?;
            (self.cursor, self.units, self.lost) = (self.hole.from, 0, 0);
        }
        self.next = queue_offset + 1;
        if !(self.cursor..self.hole.to).contains(&queue_offset) {
            return Ok(0);
        }
        self.fill_to(queues, queue_offset)?;
        self.pending.extend_from_slice(&unit.encode());
        self.cursor += 1;
        self.units += 1;
        Ok(1)
    }

    /// Writes blanks for what the log does not have.
    fn fill_to<D: Disk>(&mut self, queues: &HoleMender<D>, to: u64) -> Result<()> {
        while self.cursor < to {
            let count = (to - self.cursor).min(BLANKS_TOGETHER);
            for index in self.cursor..self.cursor + count {
                // A unit whose record is damaged stays: it names what is lost.
                let mut unit = queues.unit_in_file(&self.hole.queue, index)?;
                if !unit.is_present() {
                    self.lost += u64::from(index >= self.hole.min);
                    unit = Unit::BLANK;
                }
                self.pending.extend_from_slice(&unit.encode());
            }
            self.cursor += count;
            self.write(queues)?;
        }
        Ok(())
    }

    fn write<D: Disk>(&mut self, queues: &HoleMender<D>) -> Result<()> {
        let count = self.pending.len() as u64 / QUEUE_UNIT_BYTES;
        let from = self.cursor - count;
        if count > 0 && !self.is_stale {
            self.is_stale = !queues.write_units(&self.hole, from, &self.pending)?;
        }
        self.pending.clear();
        Ok(())
    }

    fn text(&self) -> String {
        let queue = &self.hole.queue;
        format!(
            "{} {} offsets {} to {}",
            queue.topic(),
            queue.queue_id(),
            self.hole.from,
            self.hole.to
        )
    }
}

/// Makes the units of holes again, by one walk over the log, and reports what was done.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Reads the log between the good units around the holes.
pub(super) fn mend<D: Disk>(
    queues: &HoleMender<D>,
    source: &Source<'_, D>,
    holes: Vec<Hole>,
) -> Result<Mended> {
    if holes.is_empty() {
        return Ok(Mended::default());
    }
    let mut fillings: Vec<Filling> = holes.into_iter().map(Filling::new).collect();
    let mut by_queue: HashMap<Vec<u8>, Vec<(i32, usize)>> = HashMap::new();
    for (at, filling) in fillings.iter().enumerate() {
        let topic = filling.hole.queue.topic().as_bytes().to_vec();
        let queue_id = filling.hole.queue.queue_id();
        by_queue.entry(topic).or_default().push((queue_id, at));
    }
    let mut pending = 0;
    walk(source, &fillings_range(&fillings, source), |record, at| {
        each_queue_of(
            record,
            at,
            source.levels,
            |topic, queue_id, offset, unit| {
                for (id, index) in by_queue.get(topic).map_or(&[][..], Vec::as_slice) {
                    if *id == queue_id
                        && let Some(filling) = fillings.get_mut(*index)
                    {
                        pending += filling.take(queues, offset, &unit)?;
                    }
                }
                Ok(())
            },
        )?;
        if pending >= PENDING_UNITS_MAX {
            for filling in &mut fillings {
                filling.write(queues)?;
            }
            pending = 0;
        }
        Ok(())
    })?;
    for filling in &mut fillings {
        filling.fill_to(queues, filling.hole.to)?;
        filling.write(queues)?;
    }
    Ok(report(queues, source.notices, &fillings))
}

fn fillings_range<D: Disk>(fillings: &[Filling], source: &Source<'_, D>) -> std::ops::Range<u64> {
    let needed = || {
        fillings
            .iter()
            .filter(|filling| filling.hole.from < filling.hole.to)
    };
    let from = needed().map(|filling| filling.hole.log_from).min();
    let to = needed().map(|filling| filling.hole.log_to).max();
    from.unwrap_or(0).max(source.chain.start())..to.unwrap_or(0).min(source.limit)
}

/// Walks all records of a range that can be read, those behind a damaged record among them.
fn walk<D: Disk>(
    source: &Source<'_, D>,
    range: &std::ops::Range<u64>,
    mut visit: impl FnMut(&RecordView<'_>, u64) -> Result<()>,
) -> Result<()> {
    let mut from = range.start;
    while from < range.end {
        let walk = Scan {
            from,
            limit: range.end,
            crc: CrcCheck::Skip,
            is_recovery: true,
            torn_from: u64::MAX,
            has_property_crc: false,
            forgets: true,
        };
        let end = scan(source.chain, walk, |record, at| {
            visit(record, at)?;
            Ok(true)
        })?;
        if matches!(end.stop, Stop::End | Stop::Visitor) {
            break;
        }
        match whole_record_after(source.chain, end.end, 1, i64::MAX)? {
            Some(physical_offset) if physical_offset < range.end => from = physical_offset,
            _ => break,
        }
    }
    Ok(())
}

/// Calls `put` with each queue that a record is in, its offset there, and its unit.
fn each_queue_of(
    record: &RecordView<'_>,
    physical_offset: u64,
    levels: &LiveLevels,
    mut put: impl FnMut(&[u8], i32, u64, Unit) -> Result<()>,
) -> Result<()> {
    if !is_queued(record) {
        return Ok(());
    }
    let request = Request::new(record, physical_offset);
    let unit = unit_of(&request, levels);
    let queue_offset = record.queue_offset.cast_unsigned();
    put(record.topic, record.queue_id, queue_offset, unit)?;
    if let (Some(names), Some(offsets)) = (
        request.wanted.multi_dispatch,
        request.wanted.multi_queue_offset,
    ) {
        let offsets = offsets.split(|byte| *byte == b',');
        for (name, offset) in names.split(|byte| *byte == b',').zip(offsets) {
            let offset = std::str::from_utf8(offset).ok();
            if let Some(offset) = offset.and_then(|text| text.parse().ok()) {
                put(name, 0, offset, unit)?;
            }
        }
    }
    Ok(())
}

fn report<D: Disk>(queues: &HoleMender<D>, notices: &Notices, fillings: &[Filling]) -> Mended {
    let mut names = HashSet::new();
    let mut mended = Mended::default();
    for filling in fillings.iter().filter(|filling| !filling.is_stale) {
        names.insert((filling.hole.queue.topic(), filling.hole.queue.queue_id()));
        mended.units += filling.units;
        mended.lost += filling.lost;
    }
    mended.queues = names.len() as u64;
    queues.count_mended(mended);
    let mut texts: Vec<String> = fillings.iter().take(NAMED_MAX).map(Filling::text).collect();
    if fillings.len() > NAMED_MAX {
        texts.push(format!("{} more", fillings.len() - NAMED_MAX));
    }
    let Mended {
        queues,
        units,
        lost,
    } = mended;
    let texts = texts.join(", ");
    notices.warn(format!(
        "{queues} queues were not whole on the disk: {units} units were made again from the log \
         ({texts})"
    ));
    if lost > 0 {
        notices.error(format!(
            "{lost} queue offsets have no message in the log: consumers pass over them ({texts})"
        ));
    }
    mended
}

/// Feeds the records of a range to the queues that have not got them: a queue without files only when
/// its topic is one that has queues.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Reads that part of the log.
pub(super) fn feed_unnamed<D: Disk>(
    queues: &QueueTable<D>,
    source: &Source<'_, D>,
    from: u64,
    is_fed: impl Fn(&[u8]) -> bool,
) -> Result<()> {
    let range = from..source.limit;
    let mut fed: HashMap<(Vec<u8>, i32), u64> = HashMap::new();
    walk(source, &range, |record, at| {
        let store_ms = record.store_timestamp_ms;
        each_queue_of(
            record,
            at,
            source.levels,
            |topic, queue_id, offset, unit| {
                if queues.find(topic, queue_id).is_none() && !is_fed(topic) {
                    return Ok(());
                }
                let placed = queues.append(topic, queue_id, offset, unit, store_ms)?;
                if matches!(placed, Placed::Appended | Placed::Gap { .. }) {
                    *fed.entry((topic.to_vec(), queue_id)).or_default() += 1;
                }
                Ok(())
            },
        )
    })?;
    if fed.is_empty() {
        return Ok(());
    }
    let units: u64 = fed.values().sum();
    let named = fed.keys().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|(topic, queue_id)| format!("{} {queue_id}", String::from_utf8_lossy(topic)))
        .collect();
    queues.mender().count_mended(Mended {
        queues: fed.len() as u64,
        units,
        lost: 0,
    });
    source.notices.warn(format!(
        "{} queues were not whole on the disk: {units} units were made again from the end of the \
         log ({})",
        fed.len(),
        named.join(", ")
    ));
    Ok(())
}

/// The first queue offset that the log has of each queue that seems to begin later; of a queue that
/// was deleted and made anew, of its last life.
fn first_offsets<D: Disk>(
    source: &Source<'_, D>,
    suspects: &[Suspect],
) -> Result<HashMap<(Vec<u8>, i32), u64>> {
    let mut starts = HashMap::new();
    let begun = suspects
        .iter()
        .filter(|suspect| suspect.begins || suspect.is_lost);
    let mut wanted: HashMap<&[u8], HashSet<i32>> = HashMap::new();
    for suspect in begun {
        let ids = wanted.entry(suspect.queue.topic().as_bytes()).or_default();
        ids.insert(suspect.queue.queue_id());
    }
    if wanted.is_empty() {
        return Ok(starts);
    }
    let range = source.chain.start()..source.limit;
    walk(source, &range, |record, at| {
        each_queue_of(
            record,
            at,
            source.levels,
            |topic, queue_id, offset, _unit| {
                if wanted.get(topic).is_some_and(|ids| ids.contains(&queue_id)) {
                    let start = starts.entry((topic.to_vec(), queue_id)).or_insert(offset);
                    if offset == 0 {
                        *start = 0;
                    }
                }
                Ok(())
            },
        )
    })?;
    Ok(starts)
}

/// What the store answers to its queues.
pub(super) struct QueueLog<D: Disk> {
    pub(super) files: Arc<LogFiles<D>>,
    pub(super) levels: LiveLevels,
}

impl<D: Disk> LogSide<D> for QueueLog<D> {
    fn agrees(&self, queue: &Queue, queue_offset: u64, unit: &Unit) -> Result<bool> {
        agrees(&self.files.chain, queue, queue_offset, unit)
    }

    fn mend(&self, queues: &HoleMender<D>, holes: Vec<Hole>) -> Result<Mended> {
        let source = Source {
            chain: &self.files.chain,
            // All below it is written and in its queue.
            limit: self.files.positions.dispatched.position(),
            levels: &self.levels,
            notices: &self.files.notices,
        };
        mend(queues, &source, holes)
    }
}

/// Whether the record that a unit names is that of its queue offset; taken for granted of
/// records that retention has removed.
pub(super) fn agrees<D: Disk>(
    chain: &Chain<D>,
    queue: &Queue,
    queue_offset: u64,
    unit: &Unit,
) -> Result<bool> {
    if unit.is_blank() {
        return Ok(true);
    }
    let (physical_offset, end) = (unit.physical_offset, unit.physical_end());
    if !unit.is_present() {
        return Ok(false);
    }
    let (physical_offset, end) = (physical_offset.cast_unsigned(), end.cast_unsigned());
    if physical_offset < chain.start() {
        return Ok(true);
    }
    let size = (end - physical_offset) as usize;
    let Some(chunk) = chain.chunk(physical_offset, end, size)? else {
        return Ok(false);
    };
    let Ok(Found::Record(record)) = head(chunk.bytes.as_bytes()) else {
        return Ok(false);
    };
    let is_owner = record.topic == queue.topic().as_bytes()
        && record.queue_id == queue.queue_id()
        && record.queue_offset.cast_unsigned() == queue_offset;
    let is_guest = || scan_wanted(record.properties).multi_dispatch.is_some();
    Ok(record.total_len_bytes as u64 == end - physical_offset && (is_owner || is_guest()))
}

/// Makes again what the dispatch of the log's end has shown to be missing before it.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub(super) fn mend_suspects<D: Disk>(
    files: &LogFiles<D>,
    queues: &QueueTable<D>,
    levels: &LiveLevels,
    dispatched_from: u64,
) -> Result<()> {
    let chain = &files.chain;
    let log_end = files.confirmed_end();
    if !queues.has_witness() {
        queues.lost().suspect_beginnings(chain.start())?;
        queues.lost().compare_with_witness(chain.start(), log_end)?;
    }
    let mut suspects = queues.lost().take_suspects();
    if dispatched_from <= chain.start() {
        // Everything that the log has was dispatched.
        suspects.retain(|suspect| suspect.is_lost);
    }
    if suspects.is_empty() {
        return Ok(());
    }
    let source = Source {
        chain,
        limit: if suspects.iter().any(|suspect| suspect.is_lost) {
            log_end
        } else {
            dispatched_from
        },
        levels,
        notices: &files.notices,
    };
    let starts = first_offsets(&source, &suspects)?;
    queues.write_pending()?;
    let holes = queues.lost().holes_of_suspects(suspects, &starts)?;
    mend(queues.mender(), &source, holes)?;
    queues.sync(0).map(|_synced| ())
}
