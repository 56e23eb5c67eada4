//! The set over histories of reports, answers and silence.

use super::*;

const RULE: MembersRule = MembersRule {
    own_id: 1,
    acks_whole_set: true,
    in_sync_replicas: 1,
    in_sync_replicas_min: 1,
    behind_max_ms: 15_000,
    absent_max_ms: 1_000,
};

fn slave(id: i64, reported: u64) -> Connected {
    Connected {
        id,
        reported: Some(reported),
        is_learner: false,
        lag_ms: 0,
    }
}

fn alone(rule: MembersRule) -> Members {
    let mut members = Members::new(rule);
    members.lead(&[1], 5, 100, 0);
    members
}

/// A set of the master and slave 2.
fn pair(rule: MembersRule) -> Members {
    let mut members = Members::new(rule);
    members.lead(&[1, 2], 5, 100, 0);
    members
}

#[test]
fn who_leads_alone_waits_for_nobody() {
    let mut members = alone(RULE);
    let decision = members.decide(&[], 700, 0);
    assert_eq!(decision.waits, Waits::Unneeded);
    assert_eq!((decision.replicated, decision.confirmed), (700, None));
    assert_eq!(
        Members::new(RULE).decide(&[], 700, 0).waits,
        Waits::NotEnough
    );
}

#[test]
fn readers_see_no_more_while_the_set_is_too_small() {
    let rule = MembersRule {
        in_sync_replicas_min: 2,
        ..RULE
    };
    let mut members = pair(rule);
    let decision = members.decide(&[slave(2, 500)], 700, 0);
    assert_eq!((decision.replicated, decision.confirmed), (500, Some(500)));
    // Whoever has left may still be elected, and has not what is behind it.
    assert!(members.adopt(&[1], 6));
    let decision = members.decide(&[], 700, 1);
    assert_eq!(decision.waits, Waits::NotEnough);
    assert_eq!((decision.replicated, decision.confirmed), (500, Some(500)));
    assert_eq!(members.decide(&[], 750, 2).confirmed, Some(500));
    // An elected one that was a slave shows what was confirmed there.
    let mut elected = Members::new(rule);
    elected.lead(&[1], 7, 700, 620);
    assert_eq!(elected.decide(&[], 700, 0).confirmed, Some(620));
    // Who comes back has it, too; until it is in the set another one may be elected.
    assert!(members.decide(&[slave(3, 750)], 750, 3).begins_to_join);
    members.must_reach(750);
    members.decide(&[slave(3, 750)], 750, 4);
    assert!(members.wanted().is_some());
    let decision = members.decide(&[slave(3, 750)], 750, 5);
    assert_eq!(decision.waits, Waits::NotEnough);
    assert_eq!((decision.replicated, decision.confirmed), (500, Some(500)));
    assert!(members.adopt(&[1, 3], 7));
    let decision = members.decide(&[slave(3, 750)], 750, 6);
    assert_eq!((decision.replicated, decision.confirmed), (750, Some(750)));
}

#[test]
fn a_slave_is_asked_for_once_it_holds_all_that_was_acknowledged_without_it() {
    let mut members = alone(RULE);
    assert!(!members.decide(&[slave(2, 99)], 700, 0).begins_to_join);
    let decision = members.decide(&[slave(2, 690)], 700, 0);
    assert!(decision.begins_to_join);
    assert_eq!(decision.waits, Waits::Needed);
    assert_eq!(decision.replicated, 700, "what was acknowledged alone");
    members.must_reach(720);
    assert!(!members.decide(&[slave(2, 719)], 730, 1).begins_to_join);
    assert_eq!(members.wanted(), None);
    members.decide(&[slave(2, 720)], 730, 2);
    assert!(members.is_wanting());
    let expected = Alteration {
        members: vec![1, 2],
        set_epoch: 5,
    };
    assert_eq!(members.wanted(), Some(expected));
    assert!(!members.is_wanting(), "it was given out");
    assert!(members.adopt(&[1, 2], 6));
    assert!(!members.adopt(&[1], 6));
    assert_eq!(members.decide(&[slave(2, 725)], 740, 3).replicated, 725);
    assert_eq!(members.joining(), Vec::<i64>::new());
    assert_eq!(members.wanted(), None);
}

#[test]
fn a_member_without_a_report_stops_everything_and_nothing_falls() {
    let mut members = pair(RULE);
    let decision = members.decide(&[slave(2, 500)], 700, 0);
    assert_eq!((decision.replicated, decision.confirmed), (500, Some(500)));
    let silent = Connected {
        reported: None,
        ..slave(2, 0)
    };
    for slaves in [
        &[][..],
        &[silent][..],
        &[slave(2, 300)][..],
        &[slave(3, 800)][..],
    ] {
        let decision = members.decide(slaves, 800, 1);
        assert_eq!(decision.replicated, 500);
        assert_eq!(decision.confirmed, Some(500));
    }
}

#[test]
fn who_is_gone_for_long_is_to_leave_and_sends_wait_for_it_until_the_controller_has_agreed() {
    let mut members = pair(RULE);
    members.decide(&[], 700, 10);
    assert_eq!(members.due_ms(10), Some(1_001));
    members.decide(&[], 700, 1_010);
    assert_eq!(members.wanted(), None);
    members.decide(&[], 700, 1_011);
    let wanted = members.wanted().unwrap();
    assert_eq!(wanted.members, [1]);
    assert_eq!(members.decide(&[], 700, 1_500).waits, Waits::Needed);
    members.refuse();
    assert!(!members.is_wanting());
    assert_eq!(members.wanted().unwrap().members, [1]);
    assert!(members.adopt(&[1], 6));
    let decision = members.decide(&[], 700, 1_600);
    assert_eq!(
        (decision.replicated, decision.waits),
        (700, Waits::Unneeded)
    );
}

#[test]
fn a_set_that_names_a_stranger_acknowledges_nothing_until_the_controller_has_taken_it_out() {
    let mut members = pair(RULE);
    assert!(members.adopt(&[1, 2, 99], 6));
    let decision = members.decide(&[slave(2, 700)], 700, 0);
    assert_eq!((decision.replicated, decision.waits), (0, Waits::Needed));
    members.decide(&[slave(2, 700)], 700, 1_001);
    assert_eq!(members.wanted().unwrap().members, [1, 2]);
    assert!(members.adopt(&[1, 2], 7));
    assert_eq!(members.decide(&[slave(2, 700)], 700, 1_002).replicated, 700);
}

#[test]
fn a_flap_leaves_the_set_as_it_is_and_falling_behind_does_not() {
    let mut members = pair(RULE);
    members.decide(&[], 700, 0);
    members.decide(&[slave(2, 600)], 700, 900);
    members.decide(&[], 700, 1_500);
    assert_eq!(members.wanted(), None);
    let mut behind = slave(2, 600);
    behind.lag_ms = 15_000;
    members.decide(&[behind], 700, 1_600);
    assert_eq!(members.wanted(), None);
    behind.lag_ms = 15_001;
    members.decide(&[behind], 700, 1_700);
    assert_eq!(members.wanted().unwrap().members, [1]);
}

#[test]
fn what_is_not_answered_is_waited_for_until_it_is() {
    let mut members = alone(RULE);
    members.decide(&[slave(2, 700)], 700, 0);
    members.must_reach(700);
    members.decide(&[slave(2, 700)], 700, 0);
    assert!(members.wanted().is_some());
    let decision = members.decide(&[], 900, 1);
    assert_eq!((decision.replicated, decision.waits), (700, Waits::Needed));
    let settling = members.wanted().unwrap();
    assert_eq!((settling.members, settling.set_epoch), (vec![1], 5));
    members.refuse();
    assert_eq!(members.decide(&[], 900, 2).replicated, 900);
}

#[test]
fn learners_never_join_and_who_does_not_keep_up_is_let_go() {
    let mut members = alone(RULE);
    let learner = Connected {
        is_learner: true,
        ..slave(2, 700)
    };
    assert!(!members.decide(&[learner], 700, 0).begins_to_join);
    let far = Connected {
        lag_ms: 101,
        ..slave(3, 690)
    };
    assert!(!members.decide(&[far], 700, 0).begins_to_join);
    assert!(members.decide(&[slave(3, 690)], 700, 0).begins_to_join);
    members.must_reach(700);
    members.decide(&[slave(3, 690)], 700, 1_000);
    assert_eq!(members.joining(), [3]);
    members.decide(&[far], 700, 1_001);
    assert_eq!(members.joining(), Vec::<i64>::new());
}

#[test]
fn below_the_least_nothing_is_stored_and_nothing_is_acknowledged() {
    let rule = MembersRule {
        in_sync_replicas_min: 2,
        ..RULE
    };
    let mut members = alone(rule);
    let decision = members.decide(&[slave(2, 700)], 700, 0);
    assert_eq!(decision.waits, Waits::NotEnough);
    assert_eq!(decision.replicated, 0);
    members.must_reach(700);
    members.decide(&[slave(2, 700)], 700, 0);
    assert!(members.wanted().is_some());
    // Whoever has left before may still be elected, until the answer is here.
    let decision = members.decide(&[slave(2, 700)], 700, 0);
    assert_eq!(decision.waits, Waits::NotEnough);
    assert!(members.adopt(&[1, 2], 6));
    let decision = members.decide(&[slave(2, 700)], 700, 0);
    assert_eq!((decision.waits, decision.replicated), (Waits::Needed, 700));
}

#[test]
fn without_the_whole_set_as_many_copies_as_wanted_are_waited_for() {
    let rule = MembersRule {
        acks_whole_set: false,
        in_sync_replicas: 2,
        ..RULE
    };
    let mut members = alone(rule);
    let decision = members.decide(&[slave(2, 500), slave(3, 600)], 700, 0);
    assert_eq!((decision.replicated, decision.confirmed), (600, None));
    assert_eq!(members.decide(&[], 700, 1).waits, Waits::Needed);
    let rule = MembersRule {
        in_sync_replicas: 1,
        ..rule
    };
    let decision = pair(rule).decide(&[], 700, 0);
    assert_eq!(
        (decision.replicated, decision.waits),
        (700, Waits::Unneeded)
    );
}
