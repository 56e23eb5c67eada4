//! The store from outside, in one program: each program compiles the whole store again. Programs of
//! their own have what runs for minutes (`crash`, `fuzz`), what starts itself as another process
//! (`kill`), and what measures a time and so runs beside no other test (`twin_speed`).

mod batch_queues;
mod crash_index;
mod cut_rests;
mod damage;
mod damage_session;
mod directory;
mod disk_contract;
mod golden_index;
mod golden_queues;
mod golden_store;
mod index_tags;
mod live_repair;
mod meddling;
mod members;
mod model;
mod queue_damage;
mod queues_made_again;
mod reading;
mod replica;
mod retention;
mod segments;
mod store;
mod sync_deadline;
mod twin_property;
mod zeros_ahead;
