//! The twin as a [`Disk`]: names, space and the lock. Knows no map and no crash.

use std::path::Path;
use std::sync::Arc;

use super::event::{CallKind, Change};
use super::faults::Fate;
use super::file::TwinFile;
use super::tree::{NameChange, Node, steps};
use super::world::{Shared, TwinDisk, World, failed, stopped};
use crate::disk::{Disk, DiskFile, Entry, FileSystem, Open, Space, Stat};
use crate::error::{Error, Result};

/// What the official broker writes into its lock file.
const LOCK_CONTENT: &[u8] = b"lock";

/// The lock of a store in the twin: given back when dropped; no crash image has it.
pub struct TwinLock {
    shared: Arc<Shared>,
    file: TwinFile,
}

impl std::fmt::Debug for TwinLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TwinLock")
            .field("file", &self.file)
            .finish()
    }
}

impl Drop for TwinLock {
    fn drop(&mut self) {
        let inode = self.file.inode();
        self.shared.world.lock().locks.remove(&inode);
    }
}

impl TwinDisk {
    /// Passes the gate and works under the lock; an errno becomes the error of the call.
    fn call<T>(
        &self,
        call: CallKind,
        path: &Path,
        work: impl FnOnce(&mut World) -> std::result::Result<T, i32>,
    ) -> Result<T> {
        self.shared.enter(call, path)?;
        work(&mut self.shared.world.lock()).map_err(|errno| failed(call, path, errno))
    }

    fn make_dir(&self, dir: &Path) -> Result<()> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        if steps(dir).is_empty() {
            return Ok(());
        }
        let found = self.shared.world.lock().tree.find(dir);
        let is_dir = |inode| self.shared.world.lock().tree.is_dir(inode);
        match found {
            Ok(Some(inode)) if is_dir(inode) => return Ok(()),
            // Below a file: making the parent reports it.
            Ok(None) | Err(libc::ENOTDIR) => {}
            Ok(Some(_)) => return Err(failed(CallKind::CreateDir, dir, libc::EEXIST)),
            Err(errno) => return Err(failed(CallKind::CreateDir, dir, errno)),
        }
        self.create_dirs(parent)?;
        self.call(CallKind::CreateDir, dir, |world| {
            let (parent, name) = world.tree.parent_and_name(dir)?;
            let inode = world.new_inode();
            let change = NameChange::Create {
                dir: parent,
                name,
                inode,
                is_dir: true,
            };
            world.rename_or_so(CallKind::CreateDir, change);
            Ok(())
        })
    }
}

impl Disk for TwinDisk {
    type File = TwinFile;
    type Lock = TwinLock;

    fn open(&self, path: &Path, how: Open) -> Result<TwinFile> {
        self.call(CallKind::Open, path, |world| {
            let makes = matches!(how, Open::Create | Open::CreateNew | Open::CreatePrivate);
            let inode = match world.tree.find(path)? {
                Some(_) if matches!(how, Open::CreateNew | Open::CreatePrivate) => {
                    return Err(libc::EEXIST);
                }
                Some(inode) if world.tree.is_dir(inode) => return Err(libc::EISDIR),
                Some(inode) => inode,
                None if !makes => return Err(libc::ENOENT),
                None => {
                    let (dir, name) = world.tree.parent_and_name(path)?;
                    let inode = world.new_inode();
                    let change = NameChange::Create {
                        dir,
                        name,
                        inode,
                        is_dir: false,
                    };
                    world.tree.apply(&change);
                    world.touch(inode);
                    world.record(CallKind::Open, Change::Names(change));
                    inode
                }
            };
            world.hold(inode);
            Ok(inode)
        })
        .map(|inode| TwinFile::over(&self.shared, inode, path, how != Open::Read))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        self.call(CallKind::Stat, path, |world| {
            let Some(inode) = world.tree.find(path)? else {
                return Ok(None);
            };
            Ok(world.tree.content(inode).map_or(
                Some(Stat {
                    is_dir: true,
                    len_bytes: 0,
                    allocated_bytes: 0,
                    modified_ms: 0,
                    change_mark: inode,
                }),
                |content| {
                    Some(Stat {
                        is_dir: false,
                        len_bytes: content.len_bytes,
                        allocated_bytes: content.pages_held() * 4096,
                        modified_ms: content.modified_ms,
                        change_mark: content.mark.wrapping_mul(31).wrapping_add(inode),
                    })
                },
            ))
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.call(CallKind::List, dir, |world| {
            let Some(inode) = world.tree.find(dir)? else {
                return Ok(Vec::new());
            };
            let names = world.tree.names(inode).ok_or(libc::ENOTDIR)?;
            let entry = |(name, inode): (&Arc<str>, &u64)| Entry {
                name: name.to_string(),
                is_dir: world.tree.is_dir(*inode),
                len_bytes: world.tree.content(*inode).map_or(0, |c| c.len_bytes),
            };
            Ok(names.iter().map(entry).collect())
        })
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.make_dir(dir)?;
        let steps: Vec<&Path> = dir.ancestors().collect();
        for step in steps.into_iter().rev() {
            let is_unsynced = {
                let world = self.shared.world.lock();
                let inode = world.tree.find(step).ok().flatten();
                inode.is_some_and(|inode| world.unsynced_dirs.contains_key(&inode))
            };
            if is_unsynced {
                self.sync_dir(step.parent().unwrap_or(Path::new("/")))?;
            }
        }
        Ok(())
    }

    fn create_dirs(&self, dir: &Path) -> Result<()> {
        self.make_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(CallKind::Rename, from, |world| {
            let inode = world.tree.find(from)?.ok_or(libc::ENOENT)?;
            let from_entry = world.tree.parent_and_name(from)?;
            let to_entry = world.tree.parent_and_name(to)?;
            let (from_steps, to_steps) = (steps(from), steps(to));
            if from_steps == to_steps {
                return Ok(());
            }
            if to_steps.starts_with(&from_steps) {
                return Err(libc::EINVAL);
            }
            let replaced = world.tree.find(to)?;
            if let Some(old) = replaced {
                match (world.tree.is_dir(inode), world.tree.names(old)) {
                    (true, None) => return Err(libc::ENOTDIR),
                    (false, Some(_)) => return Err(libc::EISDIR),
                    (true, Some(names)) if !names.is_empty() => return Err(libc::ENOTEMPTY),
                    _ => {}
                }
            }
            let change = NameChange::Rename {
                from: from_entry,
                to: to_entry,
                inode,
            };
            world.rename_or_so(CallKind::Rename, change);
            if let Some(old) = replaced {
                world.orphan(old);
            }
            Ok(())
        })
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.call(CallKind::Unlink, path, |world| {
            let inode = world.tree.find(path)?.ok_or(libc::ENOENT)?;
            if world.tree.is_dir(inode) {
                return Err(libc::EISDIR);
            }
            let (dir, name) = world.tree.parent_and_name(path)?;
            world.rename_or_so(CallKind::Unlink, NameChange::Remove { dir, name, inode });
            world.orphan(inode);
            Ok(())
        })
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.call(CallKind::RemoveDir, dir, |world| {
            let inode = world.tree.find(dir)?.ok_or(libc::ENOENT)?;
            match world.tree.nodes.get(&inode) {
                Some(Node::Dir(names)) if names.is_empty() => {}
                Some(Node::Dir(_)) => return Err(libc::ENOTEMPTY),
                _ => return Err(libc::ENOTDIR),
            }
            let (parent, name) = world.tree.parent_and_name(dir)?;
            let change = NameChange::Remove {
                dir: parent,
                name,
                inode,
            };
            world.rename_or_so(CallKind::RemoveDir, change);
            world.tree.nodes.remove(&inode);
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let (fate, passed) = self.shared.meet(CallKind::SyncDir, dir);
        if fate == Fate::Stopped {
            return Err(stopped(CallKind::SyncDir, dir));
        }
        let fails = |errno| failed(CallKind::SyncDir, dir, errno);
        let mut world = self.shared.world.lock();
        let inode = world.tree.find(dir).map_err(fails)?;
        let inode = inode.ok_or_else(|| fails(libc::ENOENT))?;
        if !world.tree.is_dir(inode) {
            return Err(fails(libc::ENOTDIR));
        }
        let what = Change::SyncDir {
            inode,
            covers: passed.began,
            ok: fate == Fate::Goes,
        };
        world.record(CallKind::SyncDir, what);
        if fate == Fate::Goes {
            world.unsynced_dirs.retain(|_, holder| *holder != inode);
        }
        match fate {
            Fate::Fails(errno) => Err(fails(errno)),
            Fate::Goes | Fate::Stopped => Ok(()),
        }
    }

    fn space(&self, path: &Path) -> Result<Space> {
        self.call(CallKind::Space, path, |world| {
            world.tree.find(path)?.ok_or(libc::ENOENT)?;
            Ok(Space {
                total_bytes: world.total_bytes,
                free_bytes: world.free_bytes,
                usable_bytes: world.free_bytes,
            })
        })
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem> {
        self.call(CallKind::FileSystem, path, |world| {
            world.tree.find(path)?.ok_or(libc::ENOENT)?;
            Ok(FileSystem::Local)
        })
    }

    fn lock(&self, path: &Path) -> Result<TwinLock> {
        self.shared.enter(CallKind::Lock, path)?;
        let file = self.open(path, Open::Create)?;
        if !self.shared.world.lock().locks.insert(file.inode()) {
            return Err(Error::Locked {
                path: path.to_owned(),
            });
        }
        let lock = TwinLock {
            shared: Arc::clone(&self.shared),
            file,
        };
        if lock.file.len_bytes()? == 0 {
            lock.file.write_at(LOCK_CONTENT, 0)?;
        }
        Ok(lock)
    }

    fn boot_id(&self) -> Option<u128> {
        self.shared.world.lock().boot_id
    }
}
