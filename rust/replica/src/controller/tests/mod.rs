//! The state machine of controllers: the official checks one by one.

mod properties;

use std::collections::BTreeSet;

use super::{
    AlterSet, Answer, ApplyId, AskedBy, Candidate, Claim, Clean, Code, ControllerState, Elect,
    Epochs, Event, Fence, Register,
};

const NAME: &str = "broker-a";

fn apply_id(id: i64) -> Event {
    Event::ApplyId(ApplyId {
        cluster: "c".into(),
        name: NAME.into(),
        id,
        check_code: format!("10.0.0.{id}:10911;77"),
    })
}

/// A state in which that many brokers have their ids.
fn with_brokers(count: i64) -> ControllerState {
    let mut state = ControllerState::default();
    for id in 1..=count {
        assert_eq!(state.apply(&apply_id(id)).code, Code::Success);
    }
    state
}

fn candidate(id: i64, epoch: i32, max_offset: i64) -> Candidate {
    Candidate {
        id,
        epoch,
        max_offset,
        priority: i32::MAX,
    }
}

fn living(ids: &[i64]) -> Vec<Candidate> {
    ids.iter().map(|id| candidate(*id, 1, 100)).collect()
}

fn seen(state: &ControllerState) -> Epochs {
    let set = state.set(NAME).unwrap();
    Epochs {
        master: set.master_epoch,
        set: set.set_epoch,
    }
}

fn elect(state: &ControllerState, asked_by: AskedBy, alive: &[i64]) -> Elect {
    Elect {
        name: NAME.into(),
        asked_by,
        seen: seen(state),
        alive: living(alive),
        allows_unclean: false,
        in_sync_min: 1,
    }
}

fn elected(state: &mut ControllerState, asked_by: AskedBy, alive: &[i64]) -> Answer {
    let event = elect(state, asked_by, alive);
    state.apply(&Event::Elect(event))
}

fn alter(state: &ControllerState, in_sync: &[i64], alive: &[i64]) -> AlterSet {
    AlterSet {
        name: NAME.into(),
        master: state.set(NAME).unwrap().master.unwrap_or(-1),
        seen: seen(state),
        in_sync: in_sync.iter().copied().collect(),
        alive: alive.iter().copied().collect(),
        in_sync_min: 1,
    }
}

fn altered(state: &mut ControllerState, in_sync: &[i64]) -> Answer {
    let event = alter(state, in_sync, in_sync);
    state.apply(&Event::AlterSet(event))
}

fn clean(ids: &[i64], allows_living: bool, alive: &[i64]) -> Event {
    Event::Clean(Clean {
        name: NAME.into(),
        ids: ids.iter().copied().collect(),
        allows_living,
        alive: alive.iter().copied().collect(),
    })
}

/// Three brokers, the first one master, all in the set.
fn with_set_of_three() -> ControllerState {
    let mut state = with_brokers(3);
    assert_eq!(
        elected(&mut state, AskedBy::Broker(1), &[1, 2, 3]).code,
        Code::Success
    );
    assert_eq!(altered(&mut state, &[1, 2, 3]).code, Code::Success);
    state
}

#[test]
fn ids_are_given_from_1_on_and_again_to_who_asks_with_the_same_code() {
    let mut state = ControllerState::default();
    assert_eq!(state.apply(&apply_id(2)).code, Code::BrokerIdInvalid);
    assert!(state.view(NAME).is_none());
    let answer = state.apply(&apply_id(1));
    let view = answer.view.unwrap();
    assert_eq!((view.next_id, view.cluster.as_str()), (2, "c"));
    assert_eq!(view.replicas, [(1, "10.0.0.1:10911".to_owned())]);
    let again = state.apply(&apply_id(1));
    assert_eq!((again.code, again.is_changed), (Code::Success, false));
    let Event::ApplyId(mut other) = apply_id(1) else {
        unreachable!()
    };
    other.check_code = "10.0.0.9:10911;78".into();
    assert_eq!(
        state.apply(&Event::ApplyId(other)).code,
        Code::BrokerIdInvalid
    );
    assert_eq!(state.apply(&apply_id(0)).code, Code::BrokerIdInvalid);
    // Official controllers give 2 next, and refuse everybody once it comes to 5.
    assert_eq!(state.apply(&apply_id(5)).view.unwrap().next_id, 6);
}

#[test]
fn a_broker_registers_with_its_id_and_its_new_address() {
    let mut state = with_brokers(1);
    let register = |id, address: &str| {
        Event::Register(Register {
            name: NAME.into(),
            id,
            address: address.into(),
            claim: None,
        })
    };
    let same = state.apply(&register(1, "10.0.0.1:10911"));
    assert_eq!((same.code, same.is_changed), (Code::Success, false));
    let moved = state.apply(&register(1, "10.0.0.7:10911"));
    assert!(moved.is_changed);
    assert_eq!(
        moved.view.unwrap().replicas,
        [(1, "10.0.0.7:10911".to_owned())]
    );
    assert_eq!(
        state.apply(&register(2, "x:1")).code,
        Code::NeedToBeRegistered
    );
    assert_eq!(state.apply(&register(1, "")).code, Code::InvalidRequest);
}

fn claimed(state: &mut ControllerState, code: &str, seen: &str, is_held: bool) -> Answer {
    let address = code.split(';').next().unwrap_or_default();
    state.apply(&Event::Register(Register {
        name: NAME.into(),
        id: 1,
        address: address.into(),
        claim: Some(Claim {
            check_code: code.into(),
            seen: seen.into(),
            is_held,
        }),
    }))
}

#[test]
fn of_two_processes_that_claim_an_id_at_the_same_moment_the_first_has_it() {
    let mut state = with_brokers(1);
    let applied = "10.0.0.1:10911;77";
    // Both were looked at before either was there.
    let one = claimed(&mut state, "one:1;100", applied, false);
    assert!(one.is_changed);
    let view = one.view.unwrap();
    assert_eq!(view.replicas, [(1, "one:1".to_owned())]);
    assert_eq!(view.check_codes, [(1, "one:1;100".to_owned())]);
    let other = claimed(&mut state, "two:1;100", applied, false);
    assert_eq!(
        (other.code, other.is_changed),
        (Code::FencedMasterEpoch, false)
    );
    let other = claimed(&mut state, "two:1;100", "one:1;100", true);
    assert_eq!(
        (other.code, other.is_changed),
        (Code::BrokerIdInvalid, false)
    );
    assert!(other.remark.contains("at one:1, which is alive"));
    // The first one may register again, and the other has the id once nobody holds it.
    let again = claimed(&mut state, "one:1;100", "anything", true);
    assert_eq!((again.code, again.is_changed), (Code::Success, false));
    assert!(claimed(&mut state, "two:1;100", "one:1;100", false).is_changed);
    assert_eq!(
        state.view(NAME).unwrap().check_codes,
        [(1, "two:1;100".to_owned())]
    );
}

#[test]
fn a_fence_refuses_what_was_asked_for_before_it_and_changes_nobody() {
    let mut state = with_set_of_three();
    let earlier = alter(&state, &[1, 2], &[1, 2, 3]);
    let fence = |state: &ControllerState, master: i64| {
        Event::Fence(Fence {
            name: NAME.into(),
            master,
            seen: seen(state),
        })
    };
    assert_eq!(
        state.clone().apply(&fence(&state, 2)).code,
        Code::InvalidMaster
    );
    let known = state.view(NAME).unwrap();
    let answer = state.apply(&fence(&state, 1));
    let view = answer.view.unwrap();
    assert_eq!(
        (answer.code, view.set_epoch),
        (Code::Success, known.set_epoch + 1)
    );
    assert_eq!((view.in_sync, view.master), (known.in_sync, known.master));
    assert_eq!(
        state.apply(&Event::AlterSet(earlier)).code,
        Code::FencedSetEpoch
    );
    assert_eq!(altered(&mut state, &[1, 2]).code, Code::Success);
}

#[test]
fn who_asks_first_becomes_master_with_a_set_of_itself() {
    let mut state = with_brokers(2);
    assert_eq!(
        elected(&mut state, AskedBy::Broker(3), &[1, 2]).code,
        Code::NeedToBeRegistered
    );
    let view = elected(&mut state, AskedBy::Broker(2), &[1, 2])
        .view
        .unwrap();
    assert_eq!((view.master, view.master_epoch), (Some(2), 1));
    assert_eq!((view.in_sync, view.set_epoch), (vec![2], 1));
    let other = elected(&mut state, AskedBy::Broker(1), &[1, 2]);
    assert_eq!(other.code, Code::MasterStillExist);
    assert_eq!(other.view.unwrap().master, Some(2));
}

#[test]
fn a_set_is_altered_after_the_official_checks_in_their_order() {
    let mut state = with_set_of_three();
    let check = |change: &dyn Fn(&mut AlterSet), code: Code| {
        let mut event = alter(&state, &[1, 2], &[1, 2, 3]);
        change(&mut event);
        let answer = state.clone().apply(&Event::AlterSet(event));
        assert_eq!(answer.code, code, "{}", answer.remark);
    };
    check(&|event| event.name = "other".into(), Code::AlterSetFailed);
    check(
        &|event| {
            event.in_sync = BTreeSet::from([1, 2, 3]);
            event.master = 2;
        },
        Code::AlterSetFailed,
    );
    check(
        &|event| {
            event.master = 2;
            event.seen.master = 9;
        },
        Code::InvalidMaster,
    );
    check(
        &|event| event.seen = Epochs { master: 9, set: 9 },
        Code::FencedMasterEpoch,
    );
    check(
        &|event| {
            event.seen.set = 9;
            event.in_sync = BTreeSet::from([1, 7]);
        },
        Code::FencedSetEpoch,
    );
    check(
        &|event| event.in_sync = BTreeSet::from([1, 7]),
        Code::InvalidReplicas,
    );
    check(
        &|event| event.alive = BTreeSet::from([1]),
        Code::BrokerNotAlive,
    );
    check(
        &|event| event.in_sync = BTreeSet::from([2, 3]),
        Code::AlterSetFailed,
    );
    check(&|_| {}, Code::Success);
    let view = altered(&mut state, &[1, 2]).view.unwrap();
    assert_eq!((view.in_sync, view.set_epoch), (vec![1, 2], 3));
}

#[test]
fn the_farthest_of_the_set_takes_over() {
    let mut state = with_set_of_three();
    let big = 3_000_000_000;
    let mut event = elect(&state, AskedBy::Controller, &[]);
    // Their difference does not fit into 32 bits: the official comparison chooses the one behind.
    event.alive = vec![candidate(2, 1, 0), candidate(3, 1, big)];
    let answer = state.apply(&Event::Elect(event.clone()));
    let view = answer.view.unwrap();
    assert_eq!((view.master, view.master_epoch), (Some(3), 2));
    assert_eq!((view.in_sync, view.set_epoch), (vec![3], 3));

    let order = |alive: Vec<Candidate>| {
        let state = with_set_of_three();
        let event = Elect {
            alive,
            ..event.clone()
        };
        state
            .clone()
            .apply(&Event::Elect(event))
            .view
            .unwrap()
            .master
    };
    assert_eq!(
        order(vec![candidate(2, 2, 0), candidate(3, 1, big)]),
        Some(2)
    );
    let preferred = Candidate {
        priority: 1,
        ..candidate(3, 1, 5)
    };
    assert_eq!(order(vec![candidate(2, 1, 5), preferred]), Some(3));
    assert_eq!(order(vec![candidate(3, 1, 5), candidate(2, 1, 5)]), Some(2));
}

#[test]
fn nobody_outside_the_set_takes_over_unless_that_is_allowed() {
    let mut state = with_set_of_three();
    altered(&mut state, &[1]);
    let broker = elected(&mut state, AskedBy::Broker(2), &[2, 3]);
    assert_eq!(broker.code, Code::ElectMasterFailed);
    assert!(!broker.is_changed);
    let lost = elected(&mut state, AskedBy::Controller, &[2, 3]);
    assert_eq!(lost.code, Code::MasterNotAvailable);
    let view = lost.view.unwrap();
    assert_eq!((view.master, view.master_epoch), (None, 2));
    assert_eq!((view.in_sync, view.set_epoch), (vec![1], 3));
    // Once is enough: the epoch does not rise for ever.
    let again = elected(&mut state, AskedBy::Controller, &[2, 3]);
    assert_eq!(
        (again.code, again.is_changed),
        (Code::MasterNotAvailable, false)
    );
    // The last member comes back.
    let back = elected(&mut state.clone(), AskedBy::Broker(2), &[1, 2]);
    assert_eq!(back.view.unwrap().master, Some(1));
    let unclean = Elect {
        allows_unclean: true,
        ..elect(&state, AskedBy::Broker(2), &[2, 3])
    };
    let view = state.apply(&Event::Elect(unclean)).view.unwrap();
    assert_eq!((view.master, view.master_epoch), (Some(2), 3));
}

#[test]
fn an_administrator_gets_that_broker_or_nobody() {
    let mut state = with_set_of_three();
    let same = elected(&mut state, AskedBy::Administrator(1), &[1, 2, 3]);
    assert_eq!(same.code, Code::MasterStillExist);
    let dead = elected(&mut state, AskedBy::Administrator(3), &[1, 2]);
    assert_eq!(dead.code, Code::ElectMasterFailed);
    let view = elected(&mut state, AskedBy::Administrator(3), &[1, 2, 3])
        .view
        .unwrap();
    assert_eq!((view.master, view.in_sync), (Some(3), vec![3]));
}

#[test]
fn an_election_by_old_facts_is_refused() {
    let mut state = with_set_of_three();
    let old = elect(&state, AskedBy::Controller, &[2, 3]);
    altered(&mut state, &[1, 2]);
    let answer = state.apply(&Event::Elect(old));
    assert_eq!(answer.code, Code::FencedMasterEpoch);
    assert_eq!(answer.view.unwrap().master, Some(1));
}

#[test]
fn who_leaves_when_the_set_falls_below_the_least_number_of_copies_stays_eligible() {
    let mut state = with_set_of_three();
    let with_min = |event: Elect| Elect {
        in_sync_min: 2,
        ..event
    };
    let shrink = |state: &mut ControllerState, in_sync: &[i64]| {
        let event = AlterSet {
            in_sync_min: 2,
            ..alter(state, in_sync, in_sync)
        };
        state.apply(&Event::AlterSet(event)).view.unwrap()
    };
    // With two copies messages are acknowledged that 3 has not.
    assert_eq!(shrink(&mut state, &[1, 2]).eligible, [0_i64; 0]);
    assert_eq!(shrink(&mut state, &[1]).eligible, [2]);
    let event = with_min(elect(&state, AskedBy::Controller, &[2, 3]));
    let view = state.apply(&Event::Elect(event)).view.unwrap();
    assert_eq!((view.master, view.in_sync), (Some(2), vec![2]));
    assert_eq!(view.eligible, [1]);
    // Back at two copies only they count.
    assert_eq!(shrink(&mut state, &[2, 3]).eligible, [0_i64; 0]);
    let event = with_min(elect(&state, AskedBy::Controller, &[1]));
    let answer = state.apply(&Event::Elect(event));
    assert_eq!(answer.code, Code::MasterNotAvailable);
}

#[test]
fn brokers_are_forgotten_unless_they_live() {
    let mut state = with_set_of_three();
    let refused = |state: &mut ControllerState, event: &Event| {
        let answer = state.apply(event);
        assert_eq!(answer.code, Code::InvalidClean);
        assert!(!answer.is_changed);
    };
    refused(&mut state, &clean(&[], false, &[]));
    refused(&mut state, &clean(&[2], false, &[2]));
    let answer = state.apply(&clean(&[3], false, &[1, 2]));
    let view = answer.view.unwrap();
    assert_eq!((view.in_sync, view.set_epoch), (vec![1, 2], 3));
    assert_eq!(view.next_id, 4);
    // The official controller forgets the whole name here.
    let view = state.apply(&clean(&[1], true, &[1, 2])).view.unwrap();
    assert_eq!((view.master, view.master_epoch), (None, 2));
    assert_eq!(view.in_sync, [2]);
    let gone = state.apply(&clean(&[], false, &[2]));
    assert_eq!((gone.code, gone.view), (Code::Success, None));
    refused(&mut state, &clean(&[], true, &[]));
    let mut state = with_brokers(2);
    state.apply(&clean(&[1, 2], false, &[]));
    assert!(state.set(NAME).is_none());
}
