//! A history of events, and the crash images of any moment in it: all of them where they are few,
//! else the extremes and a seeded sample. Every image has an id that makes it again.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::content::mix;
use super::crash::{Choices, Crash};
use super::event::{Change, Event};
use super::replay::Open;
use super::tree::Tree;
use super::variants::Tear;
use super::world::{TwinDisk, World};
use crate::clock::ManualClock;

/// Images per stop point by default.
const IMAGES_DEFAULT: usize = 256;
/// Of the images of a sample, the share that may be extremes: the rest is drawn.
const EXTREMES_SHARE: (usize, usize) = (3, 4);
/// How often a sample is drawn per image wanted, before it is taken that there are no more: some
/// choices make no difference (the content of a file whose name is lost).
const DRAWS_PER_IMAGE: u64 = 4;

/// What happened to a twin, from its making or its last [`TwinDisk::forget`] on.
#[derive(Debug, Clone)]
pub struct History {
    base: Tree,
    events: Arc<[Event]>,
    boot_id: Option<u128>,
}

/// Which images of a stop point are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// If the disk allows no more images than this, all of them; else this many: extremes first
    /// (nothing open survives, everything does, names alone, content alone, everything up to each
    /// event, each end alone kept or lost), then a sample.
    pub images_max: usize,
    /// How writes are torn.
    pub tear: Tear,
    /// Seed of the sample.
    pub seed: u64,
}

impl Default for Bound {
    fn default() -> Self {
        Self {
            images_max: IMAGES_DEFAULT,
            tear: Tear::Words,
            seed: 0,
        }
    }
}

/// Names one image of one history: `stop.tear.pick`, for example `37.w.e12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageId {
    stop: usize,
    tear: Tear,
    pick: Pick,
}

/// How the choices of an image are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pick {
    /// The nth of all.
    Nth(u64),
    /// 0 nothing open, 1 everything, 2 names alone, 3 content alone.
    Extreme(u64),
    /// Everything up to an event.
    Ordered(u64),
    /// One end, whole; no other.
    Only(u64),
    /// All ends but one.
    Without(u64),
    /// Drawn with this seed.
    Drawn(u64),
}

impl Pick {
    fn parts(self) -> (char, u64) {
        match self {
            Self::Nth(n) => ('e', n),
            Self::Extreme(n) => ('x', n),
            Self::Ordered(n) => ('t', n),
            Self::Only(n) => ('o', n),
            Self::Without(n) => ('m', n),
            Self::Drawn(n) => ('r', n),
        }
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (letter, number) = self.pick.parts();
        write!(f, "{}.{}.{letter}{number}", self.stop, self.tear.letter())
    }
}

impl FromStr for ImageId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not an image id (such as 37.w.e12): {text}");
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or_else(wrong);
        let stop = part()?.parse().map_err(|_| wrong())?;
        let tear = Tear::of_letter(part()?).ok_or_else(wrong)?;
        let (letter, number) = part()?.split_at_checked(1).ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        let pick = match letter {
            "e" => Pick::Nth(number),
            "x" => Pick::Extreme(number),
            "t" => Pick::Ordered(number),
            "o" => Pick::Only(number),
            "m" => Pick::Without(number),
            "r" => Pick::Drawn(number),
            _ => return Err(wrong()),
        };
        Ok(Self { stop, tear, pick })
    }
}

/// What a crash left.
#[derive(Debug, Clone)]
pub struct CrashImage {
    id: ImageId,
    hash: u128,
    tree: Tree,
    at_ms: i64,
    boot_id: Option<u128>,
}

impl CrashImage {
    /// Makes the same image again: see [`History::image`].
    #[must_use]
    pub fn id(&self) -> ImageId {
        self.id
    }

    /// The same for images with the same names and bytes, else different.
    #[must_use]
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// The disk as it is found after the crash: everything on it is durable, its history is empty,
    /// nobody holds a lock. Its clock is at the last event. After power loss the machine has
    /// started anew, after a kill ([`History::killed`]) it has not.
    #[must_use]
    pub fn disk(&self) -> TwinDisk {
        let clock = ManualClock::at(self.at_ms);
        TwinDisk::over(World::over(self.tree.clone(), clock, self.boot_id))
    }
}

impl History {
    pub(super) fn of(world: &World) -> Self {
        Self {
            base: world.base.clone(),
            events: world.events.clone().into(),
            boot_id: world.boot_id,
        }
    }

    /// Number of moments at which the machine can stop: before the first event, and after each.
    #[must_use]
    pub fn stop_points(&self) -> usize {
        self.events.len() + 1
    }

    /// The events before a stop point, one per line: to understand a case that failed.
    #[must_use]
    pub fn describe(&self, stop: usize) -> String {
        let events = self.events.iter().take(stop).enumerate();
        let lines = events.map(|(number, event)| format!("{number}: {event}\n"));
        lines.collect()
    }

    /// True for a stop point right after a sync, or before the first event: the ones to choose when
    /// there are too many, beside those in the middle of something.
    #[must_use]
    pub fn is_after_sync(&self, stop: usize) -> bool {
        let last = stop.checked_sub(1).and_then(|last| self.events.get(last));
        last.is_none_or(|event| matches!(event.what, Change::Sync { .. } | Change::SyncDir { .. }))
    }

    fn crash(&self, stop: usize, tear: Tear) -> Crash {
        let events = self.events.get(..stop).unwrap_or(&self.events);
        Crash::of(Open::after(&self.base, events), tear)
    }

    fn at_ms(&self, stop: usize) -> i64 {
        let last = self.events.iter().take(stop).next_back();
        last.map_or(0, |event| event.at_ms)
    }

    /// The images of a stop point, each once; those of different stop points may be equal.
    #[must_use]
    pub fn images(&self, stop: usize, bound: &Bound) -> Images {
        let crash = self.crash(stop, bound.tear);
        let all = count(&crash);
        let is_sample = all > bound.images_max as u64;
        let picks = if is_sample {
            extremes(&crash, bound.images_max)
        } else {
            (0..all).map(Pick::Nth).collect()
        };
        Images {
            crash,
            picks: picks.into_iter(),
            seen: HashSet::new(),
            drawn: 0,
            draws_max: if is_sample {
                bound.images_max as u64 * DRAWS_PER_IMAGE
            } else {
                0
            },
            stop,
            bound: *bound,
            at_ms: self.at_ms(stop),
            boot_id: self.next_boot_id(),
        }
    }

    /// Number of images that the disk allows at a stop point; `u64::MAX` when there are more.
    #[must_use]
    pub fn image_count(&self, stop: usize, tear: Tear) -> u64 {
        count(&self.crash(stop, tear))
    }

    /// The image of an id that this history gave, or an equal one.
    #[must_use]
    pub fn image(&self, id: &ImageId) -> CrashImage {
        let crash = self.crash(id.stop, id.tear);
        make(&crash, *id, self.at_ms(id.stop), self.next_boot_id())
    }

    /// What is there when the process is killed and the machine goes on: everything.
    #[must_use]
    pub fn killed(&self, stop: usize) -> CrashImage {
        let image = self.image(&ImageId {
            stop,
            tear: Tear::Whole,
            pick: Pick::Extreme(1),
        });
        CrashImage {
            boot_id: self.boot_id,
            ..image
        }
    }

    fn next_boot_id(&self) -> Option<u128> {
        self.boot_id.map(|boot_id| boot_id + 1)
    }
}

/// The images of one stop point.
#[derive(Debug)]
pub struct Images {
    crash: Crash,
    picks: std::vec::IntoIter<Pick>,
    seen: HashSet<u128>,
    drawn: u64,
    draws_max: u64,
    stop: usize,
    bound: Bound,
    at_ms: i64,
    boot_id: Option<u128>,
}

impl Iterator for Images {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        while self.seen.len() < self.bound.images_max {
            let pick = match self.picks.next() {
                Some(pick) => pick,
                None if self.drawn < self.draws_max => {
                    self.drawn += 1;
                    Pick::Drawn(mix(self.bound.seed ^ mix(self.drawn)))
                }
                None => return None,
            };
            let id = ImageId {
                stop: self.stop,
                tear: self.bound.tear,
                pick,
            };
            let image = make(&self.crash, id, self.at_ms, self.boot_id);
            if self.seen.insert(image.hash) {
                return Some(image);
            }
        }
        None
    }
}

fn make(crash: &Crash, id: ImageId, at_ms: i64, boot_id: Option<u128>) -> CrashImage {
    let newest = id.stop.checked_sub(1).map(|event| event as u64);
    let (tree, hash) = crash.image(&choices(crash, id.pick, newest));
    CrashImage {
        id,
        hash,
        tree,
        at_ms,
        boot_id,
    }
}

fn count(crash: &Crash) -> u64 {
    let options = (0..crash.ends()).map(|end| u64::from(crash.options(end)));
    options.fold(1, u64::saturating_mul)
}

fn extremes(crash: &Crash, images_max: usize) -> Vec<Pick> {
    let mut picks: Vec<Pick> = (0..4).map(Pick::Extreme).collect();
    let mut more: Vec<Pick> = crash.open_events().into_iter().map(Pick::Ordered).collect();
    for end in 0..crash.ends() as u64 {
        more.push(Pick::Only(end));
        more.push(Pick::Without(end));
    }
    let free_picks = images_max * EXTREMES_SHARE.0 / EXTREMES_SHARE.1;
    let free_picks = free_picks.saturating_sub(picks.len()).min(more.len());
    // Evenly spread where they are too many.
    picks.extend((0..free_picks).filter_map(|nth| more.get(nth * more.len() / free_picks.max(1))));
    picks
}

fn choices(crash: &Crash, pick: Pick, newest: Option<u64>) -> Choices {
    let ends = 0..crash.ends();
    let last = |end: usize| crash.options(end) - 1;
    match pick {
        Pick::Nth(mut rest) => ends
            .map(|end| {
                let options = u64::from(crash.options(end));
                let choice = rest % options;
                rest /= options;
                choice as u32
            })
            .collect(),
        Pick::Extreme(which) => {
            let keeps = |end| match which {
                0 => false,
                1 => true,
                2 => crash.is_name(end),
                _ => !crash.is_name(end),
            };
            ends.map(|end| if keeps(end) { last(end) } else { 0 })
                .collect()
        }
        Pick::Ordered(event) => crash.ordered(event),
        Pick::Only(kept) => ends
            .map(|end| if end as u64 == kept { last(end) } else { 0 })
            .collect(),
        Pick::Without(lost) => ends
            .map(|end| if end as u64 == lost { 0 } else { last(end) })
            .collect(),
        Pick::Drawn(seed) => draw(crash, seed, newest),
    }
}

/// Draws choices. Nothing and everything of a page are each drawn half as often as all between
/// together: what a disk does to most of its pages is all or nothing. Names are rather kept, since
/// without them nothing else shows; the last event rather is, since images without it belong to
/// earlier stop points as well.
fn draw(crash: &Crash, seed: u64, newest: Option<u64>) -> Choices {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state)
    };
    let newest = newest.filter(|_| next() % 4 != 0);
    let choice = |end| {
        let options = u64::from(crash.options(end));
        if let Some(first) = newest.and_then(|event| crash.first_with(end, event)) {
            let first = u64::from(first);
            return first + next() % (options - first);
        }
        match next() % 4 {
            0 => 0,
            1 => options - 1,
            _ if crash.is_name(end) => u64::from(next() % 4 != 0),
            _ => next() % options,
        }
    };
    (0..crash.ends()).map(choice).map(|c| c as u32).collect()
}
