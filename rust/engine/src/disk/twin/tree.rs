//! Names and files of the twin at one moment, live or after a crash. Knows no event numbers and no
//! choice: it applies what it is given.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use super::content::Content;

/// Number of the directory `/`.
pub(super) const ROOT: u64 = 1;

pub(super) type Names = BTreeMap<Arc<str>, u64>;

/// A file or a directory.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Arc<Content>),
    Dir(Arc<Names>),
}

/// A change of names. Files have one name each: the store makes no links.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Create {
        dir: u64,
        name: Arc<str>,
        inode: u64,
        is_dir: bool,
    },
    Remove {
        dir: u64,
        name: Arc<str>,
        inode: u64,
    },
    Rename {
        from: (u64, Arc<str>),
        to: (u64, Arc<str>),
        inode: u64,
    },
}

impl NameChange {
    /// The file or directory that the name means.
    pub(super) fn inode(&self) -> u64 {
        match self {
            Self::Create { inode, .. }
            | Self::Remove { inode, .. }
            | Self::Rename { inode, .. } => *inode,
        }
    }

    /// The directories that hold the change: all of them must be synced for it to last.
    pub(super) fn dirs(&self) -> (u64, u64) {
        match self {
            Self::Create { dir, .. } | Self::Remove { dir, .. } => (*dir, *dir),
            Self::Rename { from, to, .. } => (from.0, to.0),
        }
    }
}

/// All names and files.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<u64, Node>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Node::Dir(Arc::default());
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
        }
    }

    pub(super) fn content(&self, inode: u64) -> Option<&Arc<Content>> {
        match self.nodes.get(&inode) {
            Some(Node::File(content)) => Some(content),
            _ => None,
        }
    }

    pub(super) fn content_mut(&mut self, inode: u64) -> Option<&mut Content> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(content)) => Some(Arc::make_mut(content)),
            _ => None,
        }
    }

    pub(super) fn names(&self, inode: u64) -> Option<&Arc<Names>> {
        match self.nodes.get(&inode) {
            Some(Node::Dir(names)) => Some(names),
            _ => None,
        }
    }

    fn names_mut(&mut self, inode: u64) -> Option<&mut Names> {
        match self.nodes.get_mut(&inode) {
            Some(Node::Dir(names)) => Some(Arc::make_mut(names)),
            _ => None,
        }
    }

    pub(super) fn is_dir(&self, inode: u64) -> bool {
        matches!(self.nodes.get(&inode), Some(Node::Dir(_)))
    }

    /// What the path means; `None` when there is nothing.
    ///
    /// # Errors
    /// `ENOTDIR` when a file is where a directory is needed.
    pub(super) fn find(&self, path: &Path) -> Result<Option<u64>, i32> {
        let mut at = ROOT;
        let is_up = |component| component == Component::ParentDir;
        if path.components().any(is_up) {
            for name in steps(path) {
                match self.step(at, &name)? {
                    Some(inode) => at = inode,
                    None => return Ok(None),
                }
            }
            return Ok(Some(at));
        }
        // Most calls have such a path: no name is copied.
        for component in path.components() {
            let Component::Normal(name) = component else {
                continue;
            };
            match self.step(at, &name.to_string_lossy())? {
                Some(inode) => at = inode,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    fn step(&self, dir: u64, name: &str) -> Result<Option<u64>, i32> {
        let names = self.names(dir).ok_or(libc::ENOTDIR)?;
        Ok(names.get(name).copied())
    }

    /// The directory of the path, which must exist, and the last name.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`; `EINVAL` for `/`.
    pub(super) fn parent_and_name(&self, path: &Path) -> Result<(u64, Arc<str>), i32> {
        let mut names = steps(path);
        let last = names.pop().ok_or(libc::EINVAL)?;
        let mut at = ROOT;
        for name in names {
            let inside = self.names(at).ok_or(libc::ENOTDIR)?;
            at = *inside.get(name.as_ref()).ok_or(libc::ENOENT)?;
        }
        if self.is_dir(at) {
            Ok((at, last))
        } else {
            Err(libc::ENOTDIR)
        }
    }

    /// Applies a change as far as it makes sense here: after a crash the ones before it may be
    /// missing. Never leaves a file with two names.
    pub(super) fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Create {
                dir,
                name,
                inode,
                is_dir,
            } => {
                self.make_node(*inode, *is_dir);
                self.enter(*dir, name, *inode);
            }
            NameChange::Remove { dir, name, inode } => {
                let is_full = self.names(*inode).is_some_and(|names| !names.is_empty());
                if !is_full {
                    self.leave(*dir, name, *inode);
                }
            }
            NameChange::Rename { from, to, inode } => {
                if !self.leave(from.0, &from.1, *inode) {
                    self.leave_anywhere(*inode);
                }
                self.enter(to.0, &to.1, *inode);
            }
        }
    }

    /// The node itself, without a name.
    pub(super) fn make_node(&mut self, inode: u64, is_dir: bool) {
        self.nodes.entry(inode).or_insert_with(|| {
            if is_dir {
                Node::Dir(Arc::default())
            } else {
                Node::File(Arc::default())
            }
        });
    }

    fn enter(&mut self, dir: u64, name: &Arc<str>, inode: u64) {
        if let Some(names) = self.names_mut(dir) {
            names.insert(Arc::clone(name), inode);
        }
    }

    fn leave(&mut self, dir: u64, name: &Arc<str>, inode: u64) -> bool {
        let is_there = self
            .names(dir)
            .is_some_and(|names| names.get(name) == Some(&inode));
        if is_there && let Some(names) = self.names_mut(dir) {
            names.remove(name);
        }
        is_there
    }

    fn leave_anywhere(&mut self, inode: u64) {
        let mut parent_and_name = None;
        for (dir, node) in &self.nodes {
            if let Node::Dir(names) = node
                && let Some((name, _)) = names.iter().find(|(_, held)| **held == inode)
            {
                parent_and_name = Some((*dir, Arc::clone(name)));
            }
        }
        if let Some((dir, name)) = parent_and_name {
            self.leave(dir, &name, inode);
        }
    }
}

/// The names on the way from `/`.
pub(super) fn steps(path: &Path) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(Arc::from(name.to_string_lossy().as_ref())),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}
