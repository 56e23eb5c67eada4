//! Which message filter a pull or a pop goes by, and records put through it (`PullMessageProcessor`,
//! `ExpressionMessageFilter`).

use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::Extended;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::{Ask, BitMaker, FilterDecision, GetStatus, MessageFilter, Store};
use mqcore_record::{Found, head};

use crate::bits::{BitRow, FilterBits};
use crate::holds::Pull;
use crate::names::RETRY_PREFIX;
use crate::policy::{Filter, Members, Policy, Wanted};
use crate::refusals::{self, Refused};
use crate::requests::PullHeader;
use crate::sql::{Meter, SQL92, Sql, SqlError};
use crate::turn::{RUN, Slice};

/// Texts of pulls that are kept compiled: consumers without heartbeats send theirs with each pull.
/// As many as the official parser keeps.
const KEPT_MAX: usize = 100;
/// Work of one read by a thread at the most, in single tests and what is read of properties in their
/// time: about a millisecond. A pull that has spent it gives what it has found, and its consumer asks
/// on from there.
const WORK_MAX: usize = 200_000;
/// Work of one read in the loop at the most; a pull that finds nothing with it goes on in a thread. Some
/// hundred records of usual properties.
const LOOP_WORK_MAX: usize = 40_000;
/// Work of all reads in the loop at once at the most: a millisecond.
const LOOP_BURST_MAX: usize = 200_000;
/// What the loop gets again per millisecond: half of its time, the other half is for others.
const LOOP_WORK_PER_MS: usize = 100_000;
/// Work that it takes at the most to ask whether a held pull wants what came; beyond it the pull runs.
const ARRIVED_WORK_MAX: usize = 20_000;
/// Work of tests in one unit of a turn's work.
const WORK_PER_UNIT: usize = 20;
/// Compiled texts by their source.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    by_text: HashMap<Box<str>, Arc<Sql>>,
}

impl Compiled {
    /// The compiled text. When too many are kept, all are forgotten: those in use come again.
    pub(crate) fn get(&mut self, text: &str) -> Result<Arc<Sql>, SqlError> {
        if let Some(known) = self.by_text.get(text) {
            return Ok(Arc::clone(known));
        }
        let sql = Arc::new(Sql::compile(text)?);
        if self.by_text.len() >= KEPT_MAX {
            self.by_text.clear();
        }
        self.by_text.insert(text.into(), Arc::clone(&sql));
        Ok(sql)
    }
}

/// The message filters of pulls and pops: compiled expressions, and what they may still cost in the
/// loop.
#[derive(Debug, Default)]
pub(crate) struct MessageFilters {
    compiled: Compiled,
    /// What reads by expressions may still cost in the loop.
    pub(crate) work: FilterWork,
    /// Who makes the bits of messages.
    bits: Arc<FilterBits>,
}

impl MessageFilters {
    /// What the consumer wants: from the request, or from its group's heartbeats.
    pub(crate) fn filter_of(
        &mut self,
        policy: &Policy,
        header: &PullHeader<'_>,
    ) -> Result<Filter, Refused> {
        if header.subscribes() {
            return match Wanted::parse(header.subscription, header.expression_kind) {
                None => Err(refusals::bad_subscription()),
                Some(Wanted::Tags(filter)) => Ok(filter),
                Some(Wanted::Expression(kind)) => self.filter_of_text(policy, header, &kind),
            };
        }
        filter_of_group(policy, header.group, header.topic, header.version)
    }

    /// What a pop wants: its header always has it.
    pub(crate) fn filter_of_pop(
        &mut self,
        text: Option<&str>,
        kind: Option<&str>,
    ) -> Result<Filter, Refused> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(Filter::All);
        };
        match Wanted::parse(Some(text), kind) {
            Some(Wanted::Tags(filter)) => Ok(filter),
            Some(Wanted::Expression(kind)) if *kind == *SQL92 => {
                let compiled = self.compiled.get(text);
                let compiled = compiled.map_err(|error| refusals::bad_expression(&error))?;
                Ok(Filter::Sql(compiled, None))
            }
            Some(Wanted::Expression(_)) | None => Err(refusals::bad_subscription()),
        }
    }

    /// An expression that came with the pull. The official broker gives everything where it cannot
    /// compile one, which is what nobody asked for: it is refused here.
    fn filter_of_text(
        &mut self,
        policy: &Policy,
        header: &PullHeader<'_>,
        kind: &str,
    ) -> Result<Filter, Refused> {
        check_enabled(policy, kind)?;
        if let Some(filter) = filter_of_origins(policy, header.topic) {
            return Ok(filter);
        }
        if kind != SQL92 {
            return Err(refusals::unknown_expression(kind));
        }
        let text = header.subscription.unwrap_or_default();
        let compiled = self.compiled.get(text);
        let compiled = compiled.map_err(|error| refusals::bad_expression(&error))?;
        Ok(Filter::Sql(compiled, None))
    }

    /// Lets the bits of messages be made by these expressions; the time from which on that holds, Unix
    /// ms. Bits of a group may be read of messages that were stored later and not before.
    pub(crate) fn decide_bits<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        rows: Vec<BitRow>,
    ) -> i64 {
        self.bits = Arc::new(FilterBits::of(rows, &self.bits));
        store.set_bit_maker(Some(Arc::clone(&self.bits) as Arc<dyn BitMaker>))
    }
}

/// What a group wants of a topic by its heartbeats, in this version or a newer one.
pub(crate) fn filter_of_group(
    policy: &Policy,
    group: &str,
    topic: &str,
    version: i64,
) -> Result<Filter, Refused> {
    let members = members_of(policy, group)?;
    let subscription = members.subscriptions.get(topic);
    let subscription = subscription.ok_or_else(refusals::no_subscription)?;
    if subscription.version < version {
        return Err(refusals::old_subscription());
    }
    let kind = match &subscription.wanted {
        None => return Err(refusals::bad_subscription()),
        Some(Wanted::Tags(filter)) => return Ok(filter.clone()),
        Some(Wanted::Expression(kind)) => kind,
    };
    let registered = members.filters.get(topic);
    let registered = registered.ok_or_else(refusals::no_filter)?;
    if registered.version < version {
        return Err(refusals::old_filter());
    }
    check_enabled(policy, kind)?;
    let of_origins = filter_of_origins(policy, topic);
    Ok(of_origins.unwrap_or_else(|| {
        let sql = Arc::clone(&registered.sql);
        Filter::Sql(sql, registered.bits.clone())
    }))
}

fn members_of<'p>(policy: &'p Policy, group: &str) -> Result<&'p Members, Refused> {
    let members = policy.members.get(group);
    let members = members.ok_or_else(refusals::no_members)?;
    let known = policy.groups.get(group);
    if members.is_broadcasting && known.is_some_and(|g| !g.is_broadcast_enabled) {
        return Err(refusals::broadcast_forbidden(group));
    }
    Ok(members)
}

fn check_enabled(policy: &Policy, kind: &str) -> Result<(), Refused> {
    if policy.broker.filters_properties {
        return Ok(());
    }
    Err(refusals::filters_off(kind))
}

/// For a retry topic, where the broker filters those: what its group wants of other topics.
fn filter_of_origins(policy: &Policy, topic: &str) -> Option<Filter> {
    let group = topic.strip_prefix(RETRY_PREFIX)?;
    if !policy.broker.filters_retries {
        return None;
    }
    let members = policy.members.get(group);
    let filters = members.map(|members| Arc::clone(&members.filters));
    Some(Filter::SqlOfOrigin(filters.unwrap_or_default()))
}

/// Whether a held pull wants one of the records that came into its queue from an offset on. Where
/// that cannot be decided without waiting for a disk, or without much work, it may.
pub(crate) fn wants_arrived<D: Disk, C: Clock>(
    store: &Store<D, C>,
    pull: &Pull,
    from: u64,
    slice: &mut Slice,
) -> bool {
    let topic = pull.topic.as_bytes();
    let from = from.max(u64::try_from(pull.queue_offset).unwrap_or(0));
    slice.spend(RUN / 4);
    if !store
        .reader()
        .is_hot(topic, pull.queue_id, from, 1)
        .unwrap_or(false)
    {
        return true;
    }
    let ask = Ask {
        from,
        count_max: 1,
        bytes_max: u64::MAX,
        tags_codes: &[],
        is_bulk: false,
    };
    let mut sieve = Sieve::in_loop(&pull.filter, ARRIVED_WORK_MAX);
    let got = store.reader().select(topic, pull.queue_id, ask, &mut sieve);
    slice.spend(sieve.spent() / WORK_PER_UNIT);
    got.map_or(true, |got| got.status == GetStatus::Found || sieve.is_cut())
}

/// What reads by expressions may still cost in the loop. Filled again with the time.
#[derive(Debug)]
pub(crate) struct FilterWork {
    left: usize,
    filled_ms: u64,
}

impl Default for FilterWork {
    fn default() -> Self {
        Self {
            left: LOOP_BURST_MAX,
            filled_ms: 0,
        }
    }
}

impl FilterWork {
    /// Work for one read; 0: it is for a thread.
    pub(crate) fn share(&mut self, now_ms: u64) -> usize {
        let passed_ms = now_ms.saturating_sub(self.filled_ms);
        self.filled_ms = self.filled_ms.max(now_ms);
        let passed_ms = usize::try_from(passed_ms).unwrap_or(usize::MAX);
        let filled = passed_ms.saturating_mul(LOOP_WORK_PER_MS);
        self.left = self.left.saturating_add(filled).min(LOOP_BURST_MAX);
        self.left.min(LOOP_WORK_MAX)
    }

    pub(crate) fn spend(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
    }
}

/// Puts records through a filter, as long as there is work left.
pub(crate) struct Sieve<'a> {
    filter: &'a Filter,
    meter: Meter,
    /// Whether the next record is looked at whatever it costs, so that its reader comes on.
    must_decide: bool,
    is_cut: bool,
}

impl<'a> Sieve<'a> {
    /// In a thread.
    pub(crate) fn in_thread(filter: &'a Filter) -> Self {
        Self {
            filter,
            meter: Meter::of(WORK_MAX),
            must_decide: true,
            is_cut: false,
        }
    }

    /// In the loop: at the end of its work it stops in the middle of a record, of the first one, too.
    pub(crate) fn in_loop(filter: &'a Filter, work: usize) -> Self {
        Self {
            filter,
            meter: Meter::of(work.min(LOOP_WORK_MAX)),
            must_decide: false,
            is_cut: false,
        }
    }

    /// Whether it stopped because its work was spent.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Work that was done.
    pub(crate) fn spent(&self) -> usize {
        self.meter.spent()
    }
}

impl MessageFilter for Sieve<'_> {
    const LOOKS: bool = true;

    #[inline]
    fn decide(&mut self, record: &[u8]) -> FilterDecision {
        if self.meter.is_spent() {
            self.is_cut = true;
            return FilterDecision::Stop;
        }
        // What is no record has no properties.
        let properties = match head(record) {
            Ok(Found::Record(view)) => view.properties,
            _ => &[],
        };
        self.meter.spend(1);
        let is_wanted = if std::mem::take(&mut self.must_decide) {
            let mut meter = Meter::endless();
            let is_wanted = self.filter.wants(properties, &mut meter);
            self.meter.spend(meter.spent());
            is_wanted
        } else {
            let is_wanted = self.filter.wants(properties, &mut self.meter);
            if self.meter.is_spent() {
                self.is_cut = true;
                return FilterDecision::Stop;
            }
            is_wanted
        };
        if is_wanted {
            FilterDecision::Give
        } else {
            FilterDecision::Pass
        }
    }

    #[inline]
    fn reads_extensions(&self) -> bool {
        self.filter.bits().is_some()
    }

    #[inline]
    fn rules_out(&self, extended: &Extended<'_>) -> bool {
        self.filter
            .bits()
            .is_some_and(|bits| bits.rule_out(extended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_gives_reads_by_expressions_half_of_its_time() {
        let mut work = FilterWork::default();
        let mut given = 0;
        for now_ms in 0..100 {
            loop {
                let share = work.share(now_ms);
                assert!(share <= LOOP_WORK_MAX);
                if share == 0 {
                    break;
                }
                work.spend(share);
                given += share;
            }
        }
        assert_eq!(given, LOOP_BURST_MAX + 99 * LOOP_WORK_PER_MS);
    }
}
