//! The queues against a naive model: random histories of everything that an engine does to them,
//! one list of units per queue as the truth.

use proptest::prelude::*;

use super::*;

const QUEUES: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Append { queue: usize, count: u64 },
    Skip { queue: usize, missing: u64 },
    Restart { queue: usize },
    Again,
    Write,
    Sync { least_pages: u64 },
    Reopen { trust_all: bool },
    Stop,
    Truncate { back: u64 },
    Retain { back: u64 },
    Delete { queue: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let queue = 0..QUEUES;
    prop_oneof![
        8 => (queue.clone(), 1..25u64).prop_map(|(queue, count)| Step::Append { queue, count }),
        1 => (queue.clone(), 1..25u64).prop_map(|(queue, missing)| Step::Skip { queue, missing }),
        1 => queue.clone().prop_map(|queue| Step::Restart { queue }),
        1 => Just(Step::Again),
        4 => Just(Step::Write),
        2 => (0..3u64).prop_map(|least_pages| Step::Sync { least_pages }),
        2 => any::<bool>().prop_map(|trust_all| Step::Reopen { trust_all }),
        1 => Just(Step::Stop),
        2 => (0..40u64).prop_map(|back| Step::Truncate { back }),
        2 => (0..40u64).prop_map(|back| Step::Retain { back }),
        1 => queue.prop_map(|queue| Step::Delete { queue }),
    ]
}

/// Units from `first` on, `first` being the first of a file.
#[derive(Debug, Clone, Default)]
struct Model {
    first: u64,
    units: Vec<Unit>,
    written: u64,
    files_end: u64,
    last_end: i64,
}

impl Model {
    fn end(&self) -> u64 {
        self.first + self.units.len() as u64
    }

    fn append(&mut self, queue_offset: u64, unit: Unit) {
        if queue_offset > self.end() && self.end() == 0 && self.files_end == 0 {
            self.first = queue_offset - queue_offset % PER_FILE;
            self.files_end = self.first;
            self.written = self.first;
        }
        while self.end() < queue_offset {
            self.units.push(Unit::BLANK);
        }
        self.units.push(unit);
        self.last_end = unit.physical_end();
    }

    fn write(&mut self) {
        if self.end() > self.written {
            self.written = self.end();
            self.files_end = self.files_end.max(self.written.next_multiple_of(PER_FILE));
        }
    }

    fn find_last(&mut self) {
        let last = self.units.iter().rfind(|unit| !unit.is_blank());
        self.last_end = last.map_or(-1, Unit::physical_end);
    }

    fn truncate(&mut self, cut: i64) {
        if self.last_end <= cut {
            return;
        }
        let is_cut = |unit: &Unit| !unit.is_blank() && unit.physical_offset >= cut;
        if let Some(at) = self.units.iter().position(is_cut) {
            self.units.truncate(at);
        }
        if self.end() < self.written {
            self.written = self.end();
            let kept = self.end().next_multiple_of(PER_FILE);
            let least = if self.first > 0 {
                self.first + PER_FILE
            } else {
                0
            };
            self.files_end = self.files_end.min(kept.max(least));
        }
        self.find_last();
    }

    fn min(&self, log_min: i64) -> u64 {
        let counts = |unit: &Unit| !unit.is_blank() && unit.physical_offset >= log_min;
        let at = self.units.iter().position(counts);
        self.first + at.unwrap_or(self.units.len()) as u64
    }

    fn retain(&mut self, min: u64) {
        while min >= self.first + PER_FILE && self.first + PER_FILE < self.files_end {
            self.units.drain(..PER_FILE as usize);
            self.first += PER_FILE;
        }
    }

    /// What a process that ends without writing leaves.
    fn reopen(&mut self) {
        self.units.truncate((self.written - self.first) as usize);
        if self.files_end == self.first {
            *self = Self {
                last_end: self.last_end,
                ..Self::default()
            };
        }
    }
}

struct World {
    home: Home,
    table: QueueTable<RealDisk>,
    models: Vec<Option<Model>>,
    /// Every unit appended that may be dispatched again: queue, offset, unit.
    log: Vec<(usize, u64, Unit)>,
    next_record: u64,
    log_min: u64,
}

impl World {
    fn new() -> Self {
        let home = Home::new();
        let table = home.open();
        Self {
            home,
            table,
            models: vec![None; QUEUES],
            log: Vec::new(),
            next_record: 0,
            log_min: 0,
        }
    }

    fn append(&mut self, queue: usize, queue_offset: u64) -> Placed {
        let unit = unit(self.next_record);
        self.next_record += 1;
        let topic = format!("topic-{queue}");
        let at_ms = unit.physical_offset;
        let placed = self
            .table
            .append(topic.as_bytes(), 7, queue_offset, unit, at_ms);
        let model = self.models[queue].get_or_insert_default();
        if queue_offset == 0 && model.end() > 0 {
            *model = Model::default();
        }
        model.append(queue_offset, unit);
        self.log.push((queue, queue_offset, unit));
        placed.unwrap()
    }

    fn end(&self, queue: usize) -> u64 {
        self.models[queue].as_ref().map_or(0, Model::end)
    }

    fn each(&mut self, change: impl Fn(&mut Model)) {
        self.models.iter_mut().flatten().for_each(change);
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append { queue, count } => {
                for _ in 0..count {
                    let placed = self.append(queue, self.end(queue));
                    assert_eq!(placed, Placed::Appended);
                }
            }
            Step::Skip { queue, missing } => self.skip(queue, missing),
            Step::Restart { queue } => {
                let is_empty = self.end(queue) == 0;
                let placed = self.append(queue, 0);
                let is_restart = matches!(placed, Placed::Restarted { .. });
                assert_eq!(is_restart, !is_empty);
            }
            Step::Again => self.dispatch_again(),
            Step::Write => {
                self.table.write_pending().unwrap();
                self.each(Model::write);
                assert_eq!(self.table.pending_bytes(), 0);
            }
            Step::Sync { least_pages } => self.sync(least_pages),
            Step::Reopen { trust_all } => {
                self.table = self.home.open();
                let trust = if trust_all {
                    Trust::All
                } else {
                    Trust::Below(self.log_min.cast_signed())
                };
                self.each(Model::reopen);
                self.each(Model::find_last);
                self.recovered(trust);
            }
            Step::Stop => {
                self.table.save_manifest(b"now").unwrap();
                self.each(Model::write);
                self.table = self.home.open_with(Some(b"now"), 16).unwrap();
                self.each(Model::reopen);
                self.recovered(Trust::All);
            }
            Step::Truncate { back } => self.truncate(back),
            Step::Retain { back } => self.retain(back),
            Step::Delete { queue } => {
                let topic = format!("topic-{queue}");
                self.table.delete_topic(topic.as_bytes()).unwrap();
                self.models[queue] = None;
                self.log.retain(|(of, _, _)| *of != queue);
            }
        }
    }

    fn skip(&mut self, queue: usize, missing: u64) {
        let model = self.models[queue].clone().unwrap_or_default();
        let is_first = model.end() == 0 && model.files_end == 0;
        let placed = self.append(queue, model.end() + missing);
        let expected = if is_first {
            Placed::Appended
        } else {
            Placed::Gap { missing }
        };
        assert_eq!(placed, expected);
        // A gap behind a tail is written out first; the model must know.
        let written = self.model_written(queue);
        if let Some(model) = self.models[queue].as_mut().filter(|_| !is_first) {
            model.written = model.written.max(written);
            let end = model.written.next_multiple_of(PER_FILE);
            if model.written > model.first {
                model.files_end = model.files_end.max(end);
            }
        }
    }

    fn truncate(&mut self, back: u64) {
        let record = self
            .next_record
            .saturating_sub(back)
            .max(self.log_min / 100);
        self.next_record = record;
        let cut = record * 100;
        self.table.truncate_from(cut).unwrap();
        self.each(|model| model.truncate(cut.cast_signed()));
        self.forget_lost();
    }

    fn retain(&mut self, back: u64) {
        let record = self.next_record.saturating_sub(back);
        self.log_min = self.log_min.max(record * 100);
        self.table.retain(self.log_min).unwrap();
        let log_min = self.log_min.cast_signed();
        self.each(|model| {
            let min = model.min(log_min);
            model.retain(min);
        });
    }

    /// What the table has as written: the tail holds the rest.
    fn model_written(&self, queue: usize) -> u64 {
        let handle = self
            .table
            .find(format!("topic-{queue}").as_bytes(), 7)
            .unwrap();
        let state = handle.lock();
        state.written
    }

    fn recovered(&mut self, trust: Trust) {
        let found = self.table.recovery().recover(trust).unwrap();
        let ends = self.models.iter().flatten().map(|model| model.last_end);
        assert_eq!(found.max_physical_end, ends.max().unwrap_or(-1));
        self.table.correct_min(self.log_min).unwrap();
        self.forget_lost();
    }

    /// Units behind the last one that a queue kept: dispatched again they would be new.
    fn forget_lost(&mut self) {
        let models = &self.models;
        self.log.retain(|(queue, _, unit)| {
            let model = models[*queue].as_ref();
            model.is_some_and(|model| unit.physical_end() <= model.last_end)
        });
    }

    fn dispatch_again(&mut self) {
        for (queue, queue_offset, unit) in &self.log {
            let topic = format!("topic-{queue}");
            let placed = self
                .table
                .append(topic.as_bytes(), 7, *queue_offset, *unit, 0);
            assert_eq!(placed.unwrap(), Placed::Duplicate);
        }
    }

    fn sync(&mut self, least_pages: u64) {
        let synced = self.table.sync(least_pages).unwrap();
        let Some(covered_ms) = synced.covered_ms else {
            return;
        };
        for model in self.models.iter().flatten() {
            let tail = model
                .units
                .iter()
                .skip((model.written - model.first) as usize);
            for unit in tail.filter(|unit| !unit.is_blank()) {
                assert!(
                    unit.physical_offset > covered_ms,
                    "covers what is not written"
                );
            }
        }
    }

    fn check(&self) {
        for (queue, model) in self.models.iter().enumerate() {
            let topic = format!("topic-{queue}");
            // The manifest may know less of the minimum than a first look, so look first.
            let looked = self
                .table
                .read(topic.as_bytes(), 7, 0, 0, &mut Vec::new())
                .unwrap();
            let bounds = self.table.bounds(topic.as_bytes(), 7).unwrap();
            assert_eq!(looked.bounds, bounds);
            let Some(model) = model else {
                assert_eq!(bounds, None);
                continue;
            };
            let Some(bounds) = bounds else {
                assert!(model.files_end == 0 && model.end() == 0, "{model:?}");
                continue;
            };
            assert_eq!(bounds.max, model.end(), "{model:?}");
            let min = model.min(self.log_min.cast_signed());
            assert!(bounds.min <= min, "{bounds:?} {min}");
            let mut out = Vec::new();
            let read = self
                .table
                .read(topic.as_bytes(), 7, bounds.min, 1000, &mut out)
                .unwrap();
            assert_eq!(read.bounds, Some(bounds));
            let from = (bounds.min - model.first) as usize;
            assert_eq!(out, model.units[from..]);
            let below = &model.units[from..(min - model.first) as usize];
            assert!(below.iter().all(Unit::is_blank), "{bounds:?} {min}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn histories_leave_what_the_model_holds(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
            world.check();
        }
    }
}

#[test]
fn a_manifest_remembers_the_end_of_a_record_whose_unit_is_gone() {
    let mut world = World::new();
    for step in [
        Step::Append { queue: 0, count: 1 },
        Step::Write,
        Step::Append {
            queue: 0,
            count: 20,
        },
        Step::Reopen { trust_all: false },
        Step::Skip {
            queue: 0,
            missing: 10,
        },
        Step::Stop,
        Step::Truncate { back: 1 },
        Step::Retain { back: 0 },
        Step::Stop,
    ] {
        world.run(&step);
        world.check();
    }
}
