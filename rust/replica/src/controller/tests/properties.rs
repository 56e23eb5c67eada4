//! What holds whatever a controller is asked: epochs and ids only rise, masters come from the set, and bytes
//! are what they were made of.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{
    AlterSet, ApplyId, AskedBy, Candidate, Claim, Clean, ControllerState, Elect, Epochs, Event,
    Fence, Register,
};
use super::NAME;

fn ids() -> impl Strategy<Value = BTreeSet<i64>> {
    prop::collection::btree_set(1..5_i64, 0..5)
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    (ids(), -1..3_i32, -1..5_000_000_000_i64, 0..3_i32).prop_map(
        |(ids, epoch, max_offset, priority)| {
            let each = |id| Candidate {
                id,
                epoch: epoch + i32::try_from(id % 2).unwrap(),
                max_offset: max_offset / id,
                priority,
            };
            ids.into_iter().map(each).collect()
        },
    )
}

fn asked_by() -> impl Strategy<Value = AskedBy> {
    prop_oneof![
        Just(AskedBy::Controller),
        (1..5_i64).prop_map(AskedBy::Broker),
        (1..5_i64).prop_map(AskedBy::Administrator),
    ]
}

fn register() -> impl Strategy<Value = Event> {
    let claim = ("[a-c]", "[a-c]", any::<bool>()).prop_map(|(check_code, seen, is_held)| Claim {
        check_code,
        seen,
        is_held,
    });
    let name = prop_oneof![4 => Just(NAME.to_owned()), 1 => Just("broker-b".to_owned())];
    (name, 1..6_i64, "[a-z]{0,3}:1", prop::option::of(claim)).prop_map(
        |(name, id, address, claim)| {
            Event::Register(Register {
                name,
                id,
                address,
                claim,
            })
        },
    )
}

/// Events whose epochs are mostly those that hold: of the state when they are applied.
fn events() -> impl Strategy<Value = (Event, bool)> {
    let name = || prop_oneof![4 => Just(NAME.to_owned()), 1 => Just("broker-b".to_owned())];
    let epochs = || (0..4_i32, 0..6_i32).prop_map(|(master, set)| Epochs { master, set });
    let alter = (name(), 1..5_i64, epochs(), ids(), ids(), 0..3_u32).prop_map(
        |(name, master, seen, in_sync, alive, in_sync_min)| {
            Event::AlterSet(AlterSet {
                name,
                master,
                seen,
                in_sync,
                alive,
                in_sync_min,
            })
        },
    );
    let elect = (
        name(),
        asked_by(),
        epochs(),
        candidates(),
        prop::bool::weighted(0.1),
        0..3_u32,
    )
        .prop_map(
            |(name, asked_by, seen, alive, allows_unclean, in_sync_min)| {
                Event::Elect(Elect {
                    name,
                    asked_by,
                    seen,
                    alive,
                    allows_unclean,
                    in_sync_min,
                })
            },
        );
    let apply = (name(), 0..7_i64, 0..2_u8).prop_map(|(name, id, code)| {
        Event::ApplyId(ApplyId {
            cluster: "c".into(),
            name,
            id,
            check_code: format!("h:{id};{code}"),
        })
    });
    let fence = (name(), 0..6_i64, epochs())
        .prop_map(|(name, master, seen)| Event::Fence(Fence { name, master, seen }));
    let clean =
        (name(), ids(), any::<bool>(), ids()).prop_map(|(name, ids, allows_living, alive)| {
            Event::Clean(Clean {
                name,
                ids,
                allows_living,
                alive,
            })
        });
    let event =
        prop_oneof![3 => alter, 4 => elect, 4 => apply, 1 => register(), 1 => clean, 1 => fence];
    (event, prop::bool::weighted(0.8))
}

fn with_present_epochs(state: &ControllerState, event: Event) -> Event {
    let Some(set) = state.set(event.name()) else {
        return event;
    };
    let seen = Epochs {
        master: set.master_epoch,
        set: set.set_epoch,
    };
    match event {
        Event::AlterSet(event) => Event::AlterSet(AlterSet {
            seen,
            master: set.master.unwrap_or(event.master),
            ..event
        }),
        Event::Elect(event) => Event::Elect(Elect { seen, ..event }),
        Event::Fence(event) => Event::Fence(Fence { seen, ..event }),
        other => other,
    }
}

/// What holds for every name between two states.
fn assert_lawful(before: &ControllerState, event: &Event, after: &ControllerState) {
    for (name, set) in after.sets() {
        let Some(old) = before.set(name) else {
            continue;
        };
        assert!(set.master_epoch >= old.master_epoch && set.set_epoch >= old.set_epoch);
        assert!(set.next_id >= old.next_id);
        if set.master != old.master {
            assert_eq!(set.master_epoch, old.master_epoch + 1, "{event:?}");
        }
        if set.in_sync != old.in_sync {
            assert_eq!(set.set_epoch, old.set_epoch + 1, "{event:?}");
        }
        let elected = set.master.filter(|_| set.master_epoch > old.master_epoch);
        if let (Some(id), Event::Elect(event)) = (elected, event) {
            let is_clean = old.in_sync.contains(&id) || old.eligible.contains(&id);
            assert!(is_clean || event.allows_unclean || old.master_epoch == 0);
            assert!(old.master_epoch == 0 || event.alive.iter().any(|each| each.id == id));
            assert_eq!(set.in_sync, BTreeSet::from([id]));
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_asked_epochs_and_ids_rise_and_masters_come_from_the_set(
        script in prop::collection::vec(events(), 0..60)
    ) {
        let mut state = ControllerState::default();
        for (event, is_present) in script {
            let event = if is_present { with_present_epochs(&state, event) } else { event };
            let before = state.clone();
            let foretold = before.answer_without_change(&event);
            let answer = state.apply(&event);
            assert_lawful(&before, &event, &state);
            prop_assert_eq!(answer.is_changed, state != before);
            prop_assert_eq!(foretold.is_some(), !answer.is_changed);
            if let Some(foretold) = foretold {
                prop_assert_eq!(&foretold, &answer);
            }
            // The same bytes give the same state everywhere.
            let read = Event::decode(&event.encode()).unwrap();
            prop_assert_eq!(&read, &event);
            let mut other = ControllerState::decode(&before.encode()).unwrap();
            prop_assert_eq!(other.apply(&read), answer);
            prop_assert_eq!(&other, &state);
        }
    }

    #[test]
    fn bad_bytes_are_refused(
        script in prop::collection::vec(events(), 1..20),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut state = ControllerState::default();
        for (event, _) in &script {
            state.apply(event);
        }
        let event = script[0].0.encode();
        for bytes in [event, state.encode()] {
            for len in 0..bytes.len() {
                prop_assert!(Event::decode(&bytes[..len]).is_err());
                prop_assert!(ControllerState::decode(&bytes[..len]).is_err());
            }
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= flip;
            // What is read from other bytes is something else, and is written as it was read.
            if let Ok(read) = Event::decode(&changed) {
                prop_assert_eq!(read.encode(), changed.clone());
            }
            if let Ok(read) = ControllerState::decode(&changed) {
                prop_assert_eq!(read.encode(), changed);
            }
        }
    }

    #[test]
    fn noise_is_no_event_and_no_state(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        // Neither panics, nor allocates by what a length claims.
        if let Ok(read) = Event::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes.clone());
        }
        if let Ok(read) = ControllerState::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
