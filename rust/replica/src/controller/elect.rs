//! Who becomes master (`DefaultElectPolicy`). Two differences: offsets are compared as they are, where the
//! official comparison casts their difference to 32 bits; and of equal candidates the smaller id is chosen,
//! where the official ones drop one of the two.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::event::{AskedBy, Candidate, Elect};
use super::state::BrokerSet;

/// The broker that the event elects; the master of before where it lives and nobody else is wanted.
pub(super) fn elected(set: &BrokerSet, event: &Elect) -> Option<i64> {
    let preferred = match event.asked_by {
        AskedBy::Administrator(id) => Some(id),
        AskedBy::Controller | AskedBy::Broker(_) => None,
    };
    let clean = [&set.in_sync, &set.eligible];
    let pools = clean
        .into_iter()
        .map(|pool| living(event, |id| pool.contains(&id)));
    let everybody = event
        .allows_unclean
        .then(|| living(event, |id| set.replicas.contains_key(&id)));
    pools
        .chain(everybody)
        .find_map(|pool| of_pool(&pool, set.master, preferred))
}

fn living(event: &Elect, is_wanted: impl Fn(i64) -> bool) -> Vec<Candidate> {
    let found = event.alive.iter().filter(|each| is_wanted(each.id));
    found.copied().collect()
}

fn of_pool(pool: &[Candidate], old: Option<i64>, preferred: Option<i64>) -> Option<i64> {
    let ids: BTreeSet<i64> = pool.iter().map(|each| each.id).collect();
    if let Some(id) = preferred {
        return ids.contains(&id).then_some(id);
    }
    if let Some(id) = old.filter(|id| ids.contains(id)) {
        return Some(id);
    }
    let best = pool.iter().min_by_key(|each| {
        (
            Reverse(each.epoch),
            Reverse(each.max_offset),
            each.priority,
            each.id,
        )
    });
    best.map(|each| each.id)
}
