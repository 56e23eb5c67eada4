//! Which filter a pull goes by, and records put through it (`PullMessageProcessor`,
//! `ExpressionMessageFilter`).

use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::Extended;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::{Ask, BitMaker, GetStatus, Judge, Store, Verdict};
use mqcore_record::{Found, head};

use crate::bits::{BitRow, FilterBits};
use crate::codes;
use crate::holds::Pull;
use crate::lane::Lane;
use crate::names::RETRY_PREFIX;
use crate::policy::{Filter, Members, Wanted};
use crate::requests::PullHeader;
use crate::send::Refused;
use crate::sql::{SQL92, Sql, SqlError};

/// Texts of pulls that are kept compiled: consumers without heartbeats send theirs with each pull.
/// As many as the official parser keeps.
const KEPT_MAX: usize = 100;
/// Work of one read at the most, in single tests and words of properties: about a millisecond. A
/// pull that has spent it gives what it has found, and its consumer asks on from there.
const WORK_MAX: usize = 200_000;
/// Bytes of properties that are read in the time of one test.
const BYTES_PER_TEST: usize = 16;

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

fn refuse<T>(code: i32, remark: impl Into<String>) -> Result<T, Refused> {
    Err((code, remark.into()))
}

const UNREADABLE: &str = "parse the consumer's subscription failed";

impl<D: Disk, C: Clock> Lane<D, C> {
    /// What the consumer wants: as the request says, or as its group's heartbeats do.
    pub(crate) fn filter_of(&mut self, header: &PullHeader<'_>) -> Result<Filter, Refused> {
        if header.subscribes() {
            return match Wanted::parse(header.subscription, header.expression_kind) {
                None => refuse(codes::SUBSCRIPTION_PARSE_FAILED, UNREADABLE),
                Some(Wanted::Tags(filter)) => Ok(filter),
                Some(Wanted::Expression(kind)) => self.filter_of_text(header, &kind),
            };
        }
        self.filter_of_group(header.group, header.topic, header.version)
    }

    /// What the heartbeats of a group say that it wants of a topic, in this version or a newer one.
    pub(crate) fn filter_of_group(
        &self,
        group: &str,
        topic: &str,
        version: i64,
    ) -> Result<Filter, Refused> {
        let members = self.members_of(group)?;
        let Some(subscription) = members.subscriptions.get(topic) else {
            let remark = format!("the consumer's subscription not exist{}", codes::SEE_FAQ);
            return refuse(codes::SUBSCRIPTION_NOT_EXIST, remark);
        };
        if subscription.version < version {
            let remark = "the consumer's subscription not latest";
            return refuse(codes::SUBSCRIPTION_NOT_LATEST, remark);
        }
        let kind = match &subscription.wanted {
            None => return refuse(codes::SUBSCRIPTION_PARSE_FAILED, UNREADABLE),
            Some(Wanted::Tags(filter)) => return Ok(filter.clone()),
            Some(Wanted::Expression(kind)) => kind,
        };
        let Some(registered) = members.filters.get(topic) else {
            let remark =
                "The broker's consumer filter data is not exist!Your expression may be wrong!";
            return refuse(codes::FILTER_DATA_NOT_EXIST, remark);
        };
        if registered.version < version {
            let remark = "the consumer's consumer filter data not latest";
            return refuse(codes::FILTER_DATA_NOT_LATEST, remark);
        }
        self.check_enabled(kind)?;
        let of_origins = self.filter_of_origins(topic);
        Ok(of_origins.unwrap_or_else(|| {
            let sql = Arc::clone(&registered.sql);
            Filter::Sql(sql, registered.bits.clone())
        }))
    }

    /// Lets the bits of messages be made by these expressions; the time from which on that holds, Unix
    /// ms. Bits of a group may be read of messages that were stored later and not before.
    pub fn decide_bits(&mut self, rows: Vec<BitRow>) -> i64 {
        self.bits = Arc::new(FilterBits::of(rows, &self.bits));
        self.store
            .set_bit_maker(Some(Arc::clone(&self.bits) as Arc<dyn BitMaker>))
    }

    fn members_of(&self, group: &str) -> Result<&Members, Refused> {
        let Some(members) = self.policy.members.get(group) else {
            let remark = format!("the consumer's group info not exist{}", codes::SEE_FAQ);
            return refuse(codes::SUBSCRIPTION_NOT_EXIST, remark);
        };
        let known = self.policy.groups.get(group);
        if members.is_broadcasting && known.is_some_and(|g| !g.is_broadcast_enabled) {
            let remark = format!("the consumer group[{group}] can not consume by broadcast way");
            return refuse(codes::NO_PERMISSION, remark);
        }
        Ok(members)
    }

    /// An expression that came with the pull. The official broker gives everything where it cannot
    /// compile one, which is what nobody asked for: it is refused here.
    fn filter_of_text(&mut self, header: &PullHeader<'_>, kind: &str) -> Result<Filter, Refused> {
        self.check_enabled(kind)?;
        if let Some(filter) = self.filter_of_origins(header.topic) {
            return Ok(filter);
        }
        let text = header.subscription.unwrap_or_default();
        if kind != SQL92 {
            let remark = format!("{UNREADABLE}: no expressions of kind {kind:?} are known");
            return refuse(codes::SUBSCRIPTION_PARSE_FAILED, remark);
        }
        match self.compiled.get(text) {
            Ok(sql) => Ok(Filter::Sql(sql, None)),
            Err(error) => {
                let remark = format!("{UNREADABLE}: {error}");
                refuse(codes::SUBSCRIPTION_PARSE_FAILED, remark)
            }
        }
    }

    fn check_enabled(&self, kind: &str) -> Result<(), Refused> {
        if self.policy.broker.filters_properties {
            return Ok(());
        }
        let remark = format!("The broker does not support consumer to filter message by {kind}");
        refuse(codes::SYSTEM_ERROR, remark)
    }

    /// For a retry topic, where the broker filters those: what its group wants of other topics.
    fn filter_of_origins(&self, topic: &str) -> Option<Filter> {
        let group = topic.strip_prefix(RETRY_PREFIX)?;
        if !self.policy.broker.filters_retries {
            return None;
        }
        let members = self.policy.members.get(group);
        let filters = members.map(|members| Arc::clone(&members.filters));
        Some(Filter::SqlOfOrigin(filters.unwrap_or_default()))
    }

    /// Whether a held pull wants one of the records that came into its queue from an offset on. Where
    /// that cannot be told without waiting for a disk it may.
    pub(crate) fn wants_arrived(store: &Store<D, C>, pull: &Pull, from: u64) -> bool {
        let topic = pull.topic.as_bytes();
        let from = from.max(u64::try_from(pull.queue_offset).unwrap_or(0));
        if !store.is_hot(topic, pull.queue_id, from, 1).unwrap_or(false) {
            return true;
        }
        let ask = Ask {
            from,
            count_max: 1,
            bytes_max: u64::MAX,
            tags_codes: &[],
            is_bulk: false,
        };
        let mut sieve = Sieve::of(&pull.filter);
        let got = store.select(topic, pull.queue_id, ask, &mut sieve);
        got.map_or(true, |got| {
            got.status == GetStatus::Found || sieve.is_spent()
        })
    }
}

/// Puts records through a filter, as long as there is work left.
pub(crate) struct Sieve<'a> {
    filter: &'a Filter,
    left: usize,
}

impl<'a> Sieve<'a> {
    pub(crate) fn of(filter: &'a Filter) -> Self {
        Self {
            filter,
            left: WORK_MAX,
        }
    }

    fn is_spent(&self) -> bool {
        self.left == 0
    }
}

impl Judge for Sieve<'_> {
    const LOOKS: bool = true;

    #[inline]
    fn judge(&mut self, record: &[u8]) -> Verdict {
        if self.left == 0 {
            return Verdict::Stop;
        }
        // What is no record has no properties.
        let properties = match head(record) {
            Ok(Found::Record(view)) => view.properties,
            _ => &[],
        };
        let (is_wanted, tests) = self.filter.wants(properties);
        let work = tests + properties.len() / BYTES_PER_TEST;
        self.left = self.left.saturating_sub(work);
        if is_wanted {
            Verdict::Give
        } else {
            Verdict::Pass
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
