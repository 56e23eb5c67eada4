//! What tests do to a twin and ask of it: faults, damage, looks behind the interface.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::lock::Mutex;

use super::content::Content;
use super::crash::tree_hash;
use super::event::{CallKind, Change};
use super::faults::Fault;
use super::history::History;
use super::tree::{NameChange, Node, ROOT, Tree, steps};
use super::world::{FIRST_BOOT_ID, Shared, TwinDisk, World};
use crate::clock::ManualClock;

impl Default for TwinDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl TwinDisk {
    /// An empty disk with a directory `/`; its files are dated by a clock that is at 0.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(ManualClock::default())
    }

    /// An empty disk whose files are dated by `clock`.
    #[must_use]
    pub fn with_clock(clock: ManualClock) -> Self {
        Self::over(World::over(Tree::new(), clock, Some(FIRST_BOOT_ID)))
    }

    pub(super) fn over(world: World) -> Self {
        let shared = Shared {
            world: Mutex::new(world),
            bus_errors: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A disk of its own with the same names and bytes, all of them durable, and an empty history.
    #[must_use]
    pub fn fork(&self) -> Self {
        let world = self.shared.world.lock();
        Self::over(World::over(
            world.tree.clone(),
            world.clock.clone(),
            world.boot_id,
        ))
    }

    /// Sets which start of the machine this is; `None`: nobody knows.
    pub fn set_boot_id(&self, boot_id: Option<u128>) {
        self.shared.world.lock().boot_id = boot_id;
    }

    /// Begins the history here: everything so far is durable.
    pub fn forget(&self) {
        let mut world = self.shared.world.lock();
        world.base = world.tree.clone();
        world.events.clear();
        world.count = 0;
    }

    /// Keeps events or only counts them: a long run that asks for no image needs no history. Begins
    /// it anew in both cases.
    pub fn keep_history(&self, keep: bool) {
        self.forget();
        self.shared.world.lock().is_recorded = keep;
    }

    /// Number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.shared.world.lock().count
    }

    /// Number of calls so far, those that fail and that change nothing among them.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.world.lock().faults.calls()
    }

    /// What happened until now.
    #[must_use]
    pub fn history(&self) -> History {
        History::of(&self.shared.world.lock())
    }

    /// Lets calls fail.
    pub fn fail(&self, fault: Fault) {
        self.shared.world.lock().faults.arm(fault);
    }

    /// Takes back every fault, stop and delay.
    pub fn heal(&self) {
        let mut world = self.shared.world.lock();
        world.faults.heal();
        self.shared.is_stopped.store(false, Ordering::Release);
    }

    /// From call number `call_number` on ([`TwinDisk::calls`] + 1 is the next one) every call gives
    /// EIO "stopped" and nothing reaches the disk, as if the process had died there. What it would
    /// leave is in [`TwinDisk::fork`] (killed) and [`TwinDisk::history`] (power loss).
    pub fn stop_at_call(&self, call_number: u64) {
        let mut world = self.shared.world.lock();
        world.faults.stop_at(call_number);
        let is_stopped = world.faults.is_stopped();
        self.shared.is_stopped.store(is_stopped, Ordering::Release);
    }

    /// True once a call met the stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Acquire)
    }

    /// Sets the space; writes, allocations and removals change the free part from then on.
    pub fn set_space(&self, total_bytes: u64, free_bytes: u64) {
        let mut world = self.shared.world.lock();
        world.total_bytes = total_bytes;
        world.free_bytes = free_bytes;
    }

    /// Lets calls of a kind take time: slept through when `sleeps`, else only summed up in
    /// [`TwinDisk::delayed`]. A sync covers what came before it began.
    pub fn delay(&self, call: CallKind, each: Duration, sleeps: bool) {
        let mut world = self.shared.world.lock();
        world.faults.set_delay(call, each, sleeps);
    }

    /// Time that calls of this kind took, or would have taken.
    #[must_use]
    pub fn delayed(&self, call: CallKind) -> Duration {
        self.shared.world.lock().faults.delayed(call)
    }

    /// Runs `hook` at the begin of every call, after its fate was decided and without any lock: it
    /// may wait for another thread, turn a clock, or use the disk for a file of its own.
    pub fn on_call(&self, hook: impl Fn(CallKind, &Path) + Send + Sync + 'static) {
        self.shared.world.lock().hook = Some(Arc::new(hook));
    }

    /// Touches of mapped bytes that a real disk would have answered with SIGBUS: past the end of
    /// the file, or a hole on a full device. A sound store has none.
    #[must_use]
    pub fn bus_errors(&self) -> u64 {
        self.shared.bus_errors.load(Ordering::Relaxed)
    }

    /// The hash that [`super::CrashImage::hash`] would give this disk's names and bytes.
    #[must_use]
    pub fn content_hash(&self) -> u128 {
        tree_hash(&self.shared.world.lock().tree)
    }

    /// The whole content of a file; `None` when there is none. Not a call of the disk.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.shared.world.lock();
        let inode = world.tree.find(path).ok()??;
        let content = world.tree.content(inode)?;
        let mut bytes = vec![0; usize::try_from(content.len_bytes).ok()?];
        content.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Puts a file there from outside, with the directories it needs; durable at once. Not a call
    /// of the disk.
    pub fn write_raw(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.shared.world.lock();
        let mut dir = ROOT;
        let names = steps(path);
        for (index, name) in names.iter().enumerate() {
            let found = world.tree.names(dir).and_then(|names| names.get(name));
            dir = match found {
                Some(inode) => *inode,
                None => {
                    let inode = world.new_inode();
                    let change = NameChange::Create {
                        dir,
                        name: Arc::clone(name),
                        inode,
                        is_dir: index + 1 < names.len(),
                    };
                    world.tree.apply(&change);
                    world.record(CallKind::Open, Change::PlacedName(change));
                    inode
                }
            };
        }
        drop(world);
        self.change_content(path, |content| {
            content.set_len(0);
            content.write(bytes, 0);
        });
    }

    /// Turns one bit of a file over, on the device as well; false when there is no such byte.
    pub fn flip_bit(&self, path: &Path, position: u64, bit: u8) -> bool {
        self.overwrite(path, position, |byte| byte ^ (1 << (bit % 8)))
    }

    /// Changes one byte of a file, on the device as well; false when there is no such byte.
    pub fn overwrite(&self, path: &Path, position: u64, with: impl Fn(u8) -> u8) -> bool {
        let mut found = false;
        self.change_content(path, |content| {
            let mut byte = [0];
            if content.read(&mut byte, position) == 1 {
                content.write(&[with(byte[0])], position);
                found = true;
            }
        });
        found
    }

    /// Cuts a file from outside, under whoever has it open or mapped; false when there is none.
    pub fn truncate_under(&self, path: &Path, len_bytes: u64) -> bool {
        self.shared.is_cut.store(true, Ordering::Release);
        self.change_content(path, |content| {
            content.set_len(len_bytes);
        })
    }

    /// Every path with its length; `None` for a directory. Sorted.
    #[must_use]
    pub fn tree(&self) -> Vec<(String, Option<u64>)> {
        let world = self.shared.world.lock();
        let mut found = Vec::new();
        let mut dirs = vec![(ROOT, String::new())];
        while let Some((dir, path)) = dirs.pop() {
            for (name, inode) in world.tree.names(dir).into_iter().flat_map(|n| n.iter()) {
                let path = format!("{path}/{name}");
                match world.tree.nodes.get(inode) {
                    Some(Node::File(content)) => found.push((path, Some(content.len_bytes))),
                    Some(Node::Dir(_)) => {
                        dirs.push((*inode, path.clone()));
                        found.push((path, None));
                    }
                    None => {}
                }
            }
        }
        found.sort();
        found
    }

    /// Changes a file from outside; maps of it see the change where cells do.
    fn change_content(&self, path: &Path, change: impl FnOnce(&mut Content)) -> bool {
        let mut world = self.shared.world.lock();
        let Ok(Some(inode)) = world.tree.find(path) else {
            return false;
        };
        let Some(content) = world.tree.content_mut(inode) else {
            return false;
        };
        change(content);
        let len_bytes = content.len_bytes;
        world.touch(inode);
        world.refresh_cells(inode, 0, len_bytes);
        let Some(content) = world.tree.content(inode).map(Arc::clone) else {
            return false;
        };
        world.record(CallKind::Write, Change::Placed { inode, content });
        true
    }
}
