//! Walks through the crash images of many histories, on every processor, and counts. A case is
//! named by the seed of its script and the ids of its images: `17/40.w.r3` or, for a crash while
//! recovering from a crash, `17/40.w.r3/8.w.e1`.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::{Bound, CrashImage, History, ImageId, Tear};

use super::check::{Case, Recovered, check_image};
use super::flaw::Flaw;
use super::play::Play;
use super::reported::{Config, Reported};
use super::script::Script;

/// What to walk through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) first_seed: u64,
    /// Distinct images to judge.
    pub(crate) images: u64,
    /// Images per stop point.
    pub(crate) per_stop: usize,
    /// One image in this many is recovered once more with a crash on the way.
    pub(crate) again_every: u64,
    pub(crate) flaw: Option<Flaw>,
    /// Changes a script into one with a bug of its own.
    pub(crate) bend: fn(&mut Script),
}

impl Plan {
    pub(crate) fn of(images: u64) -> Self {
        Self {
            first_seed: 0,
            images,
            per_stop: 10,
            again_every: 1_000,
            flaw: None,
            bend: |_| (),
        }
    }
}

/// What was walked through.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) histories: AtomicU64,
    pub(crate) stops: AtomicU64,
    pub(crate) images: AtomicU64,
    pub(crate) recoveries: AtomicU64,
}

/// A case that does not hold, and what does not.
pub(crate) type Failure = (String, String);

struct Sweep {
    plan: Plan,
    count: Count,
    seen: Vec<Mutex<HashSet<u128>>>,
    next_seed: AtomicU64,
    is_over: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

const SEEN_PARTS: usize = 64;

/// Runs `work`; a panic is a failure like any other.
fn tried<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn script_of(plan: &Plan, seed: u64) -> Script {
    let mut script = Script::of(seed);
    (plan.bend)(&mut script);
    script
}

/// Plays a script from its beginning: what was reported and the history of events.
pub(crate) fn played(script: &Script, flaw: Option<Flaw>) -> Result<(Reported, History), String> {
    tried(|| {
        let mut play = Play::begin(script, flaw).map_err(|error| error.to_string())?;
        play.run(&script.steps).map_err(|error| error.to_string())?;
        Ok((play.reported.clone(), play.twin.history()))
    })
}

/// What the store does after a crash: it opens and goes on, on the disk of an image.
fn sequel(
    script: &Script,
    flaw: Option<Flaw>,
    image: &CrashImage,
    from: Recovered,
    now_ms: i64,
) -> Result<(Script, Reported, History), String> {
    let end = from.log.last().map_or(0, |sent| sent.at.end());
    let mut next = Script::sequel(
        script.seed ^ number_of(&image.id().to_string()),
        script.mode,
    );
    if let Some(steps) = &script.sequel {
        next.steps.clone_from(steps);
    }
    next.checks_crc = script.checks_crc;
    next.reads_unflushed = script.reads_unflushed;
    next.extends_queues = script.extends_queues;
    let reported = Reported {
        sent: from.log,
        power: vec![(0, end)],
        starts: vec![(0, from.start)],
        configs: vec![Config {
            begun: 0,
            done: Some(0),
            value: from.config,
        }],
        ..Reported::default()
    };
    tried(|| {
        let clock = ManualClock::at(now_ms);
        let mut play = Play::on(&next, flaw, image.disk(), clock, reported);
        play.run(&next.steps).map_err(|error| error.to_string())?;
        Ok((next.clone(), play.reported.clone(), play.twin.history()))
    })
}

/// Walks until the planned number of images is reached; the first failure ends it.
pub(crate) fn sweep(plan: Plan) -> (Count, Option<Failure>) {
    let sweep = Sweep {
        plan,
        count: Count::default(),
        seen: (0..SEEN_PARTS).map(|_| Mutex::default()).collect(),
        next_seed: AtomicU64::new(plan.first_seed),
        is_over: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !sweep.is_over.load(Ordering::Relaxed) {
                    let seed = sweep.next_seed.fetch_add(1, Ordering::Relaxed);
                    if let Err(failure) = sweep.history(seed) {
                        sweep.is_over.store(true, Ordering::Relaxed);
                        sweep.failure.lock().unwrap().get_or_insert(failure);
                    }
                }
            });
        }
    });
    let failure = sweep.failure.into_inner().unwrap();
    (sweep.count, failure)
}

impl Sweep {
    fn is_new(&self, hash: u128) -> bool {
        let part = hash as usize % SEEN_PARTS;
        self.seen[part].lock().unwrap().insert(hash)
    }

    /// Counts an image.
    fn counts(&self) {
        let before = self.count.images.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= self.plan.images {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn history(&self, seed: u64) -> Result<(), Failure> {
        let plan = &self.plan;
        let script = script_of(plan, seed);
        let named = |text: String| (format!("{seed}"), text);
        let (reported, history) = played(&script, plan.flaw).map_err(named)?;
        self.count.histories.fetch_add(1, Ordering::Relaxed);
        for stop in 0..history.stop_points() {
            self.count.stops.fetch_add(1, Ordering::Relaxed);
            let bound = Bound {
                images_max: plan.per_stop,
                tear: Tear::Words,
                seed,
            };
            let killed = std::iter::once(history.killed(stop)).map(|image| (image, true));
            let images = history.images(stop, &bound).map(|image| (image, false));
            for (image, is_killed) in killed.chain(images) {
                if self.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                // A killed image promises more than the same one after power loss.
                if !self.is_new(image.hash()) && !is_killed {
                    continue;
                }
                let failed = |text| {
                    (
                        format!("{seed}/{}{}", image.id(), kill_mark(is_killed)),
                        text,
                    )
                };
                let case = case_of(&script, plan.flaw, &reported, stop, is_killed, &image);
                let recovered = tried(|| check_image(&case, &image.disk())).map_err(failed)?;
                self.counts();
                if number_of(&format!("{seed}/{}", image.id())).is_multiple_of(plan.again_every) {
                    self.recovery(&script, &image, recovered, reported.now_ms)
                        .map_err(|(id, text)| {
                            let name = format!("{seed}/{}{}", image.id(), kill_mark(is_killed));
                            (format!("{name}/{id}"), text)
                        })?;
                }
            }
        }
        Ok(())
    }

    /// Crashes in and after a recovery.
    fn recovery(
        &self,
        script: &Script,
        image: &CrashImage,
        recovered: Recovered,
        now_ms: i64,
    ) -> Result<(), Failure> {
        let flaw = self.plan.flaw;
        let (next, reported, history) = sequel(script, flaw, image, recovered, now_ms)
            .map_err(|text| ("recovery".to_owned(), text))?;
        self.count.recoveries.fetch_add(1, Ordering::Relaxed);
        for stop in 0..history.stop_points() {
            self.count.stops.fetch_add(1, Ordering::Relaxed);
            let bound = Bound {
                images_max: self.plan.per_stop / 2,
                tear: Tear::Words,
                seed: next.seed,
            };
            for image in history.images(stop, &bound) {
                if !self.is_new(image.hash()) {
                    continue;
                }
                let case = case_of(&next, flaw, &reported, stop, false, &image);
                tried(|| check_image(&case, &image.disk()))
                    .map_err(|text| (image.id().to_string(), text))?;
                self.counts();
            }
        }
        Ok(())
    }
}

/// A number of an image that is the same in every run, as its hash is not: the store writes its
/// process id.
fn number_of(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn kill_mark(is_killed: bool) -> &'static str {
    if is_killed { "k" } else { "" }
}

fn case_of<'a>(
    script: &'a Script,
    flaw: Option<Flaw>,
    reported: &'a Reported,
    stop: usize,
    is_killed: bool,
    image: &CrashImage,
) -> Case<'a> {
    Case {
        script,
        flaw,
        reported,
        stop,
        is_killed,
        closes: (number_of(&image.id().to_string()) >> 9) & 1 == 0,
    }
}

/// Runs one case again, and prints its details.
pub(crate) fn one_case(name: &str, plan: &Plan) -> Result<(), String> {
    let mut parts = name.split('/');
    let seed = parts
        .next()
        .and_then(|seed| seed.parse().ok())
        .ok_or("no seed")?;
    let script = script_of(plan, seed);
    eprintln!("{script:?}");
    let (reported, history) = played(&script, plan.flaw)?;
    eprintln!("{}", history.describe(usize::MAX));
    let Some(id) = parts.next() else {
        return Ok(());
    };
    let (id, is_killed) = match id.strip_suffix('k') {
        Some(id) => (id, true),
        None => (id, false),
    };
    let stop = stop_of(id)?;
    let image = if is_killed {
        history.killed(stop)
    } else {
        history.image(&id.parse::<ImageId>()?)
    };
    eprintln!("{}\n{:?}", reported.describe(), image.disk().tree());
    let case = case_of(&script, plan.flaw, &reported, stop, is_killed, &image);
    let recovered = check_image(&case, &image.disk())?;
    let Some(id) = parts.next() else {
        return Ok(());
    };
    let (next, reported, history) = sequel(&script, plan.flaw, &image, recovered, reported.now_ms)?;
    eprintln!("{next:?}\n{}", history.describe(usize::MAX));
    if id == "recovery" {
        return Ok(());
    }
    let stop = stop_of(id)?;
    let image = history.image(&id.parse::<ImageId>()?);
    eprintln!("{}\n{:?}", reported.describe(), image.disk().tree());
    let case = case_of(&next, plan.flaw, &reported, stop, false, &image);
    check_image(&case, &image.disk()).map(drop)
}

fn stop_of(id: &str) -> Result<usize, String> {
    let stop = id.split('.').next().and_then(|stop| stop.parse().ok());
    stop.ok_or_else(|| format!("no image id: {id}"))
}
