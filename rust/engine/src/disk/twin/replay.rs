//! From a history to what power loss at one moment leaves certain, and what it leaves open. Knows
//! no choice between the open ends.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::content::{Content, PAGE_BYTES, Page, parts};
use super::event::{Change, Event};
use super::tree::{NameChange, Node, Tree};

/// What is durable, and everything that may or may not be.
#[derive(Debug)]
pub(super) struct Open {
    /// What is certain. Files without a name are among it.
    pub(super) durable: Tree,
    /// In their order. Certain ones are among them where an open one came before: which of two
    /// files has a name depends on the order.
    pub(super) names: Vec<OpenName>,
    pub(super) files: BTreeMap<u64, OpenFile>,
}

/// A change of names that may be lost, or follows one that may be.
#[derive(Debug)]
pub(super) struct OpenName {
    pub(super) event: u64,
    pub(super) change: NameChange,
    pub(super) is_certain: bool,
    /// A sync of its directory failed: no later one promises anything.
    is_uncertain: bool,
    is_first_synced: bool,
    is_second_synced: bool,
}

/// A file with changes that may be lost.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// With everything that happened.
    pub(super) live: Content,
    pub(super) lens: Vec<OpenLen>,
    pub(super) pages: BTreeMap<usize, Vec<OpenWrite>>,
}

/// A change of length that may be lost, with all later ones of its file.
#[derive(Debug)]
pub(super) struct OpenLen {
    pub(super) event: u64,
    pub(super) len_bytes: u64,
    pub(super) is_cut: bool,
    is_uncertain: bool,
}

/// A write on one page that may be lost, with all later ones on that page.
#[derive(Debug)]
pub(super) struct OpenWrite {
    pub(super) event: u64,
    pub(super) at: usize,
    pub(super) len: usize,
    bytes: Arc<[u8]>,
    at_bytes: usize,
    /// The page after it, with all changes before it.
    pub(super) after: Arc<Page>,
    is_uncertain: bool,
}

impl OpenWrite {
    /// The bytes that it put at `at`.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes
            .get(self.at_bytes..self.at_bytes + self.len)
            .unwrap_or_default()
    }
}

impl Open {
    /// The state after these events.
    pub(super) fn after(base: &Tree, events: &[Event]) -> Self {
        let mut open = Self {
            durable: base.clone(),
            names: Vec::new(),
            files: BTreeMap::new(),
        };
        for (number, event) in events.iter().enumerate() {
            open.apply(number as u64, event);
        }
        open.files
            .retain(|_, file| !file.lens.is_empty() || !file.pages.is_empty());
        open
    }

    fn apply(&mut self, number: u64, event: &Event) {
        match &event.what {
            Change::Write {
                inode,
                position,
                bytes,
            } => {
                let file = self.touched(*inode, event);
                file.write(number, *position, bytes);
            }
            Change::Length {
                inode,
                len_bytes,
                allocated,
            } => {
                let file = self.touched(*inode, event);
                file.resize(number, *len_bytes, *allocated);
            }
            Change::Sync {
                inode,
                covers,
                pages,
                ok,
            } => self.sync_file(*inode, *covers, pages.as_ref(), *ok),
            Change::Names(change) => {
                if let NameChange::Create { inode, is_dir, .. } = change {
                    self.durable.make_node(*inode, *is_dir);
                    if let Some(content) = self.durable.content_mut(*inode) {
                        content.mark = event.mark;
                        content.modified_ms = event.at_ms;
                    }
                }
                self.names.push(OpenName {
                    event: number,
                    change: change.clone(),
                    is_certain: false,
                    is_uncertain: false,
                    is_first_synced: false,
                    is_second_synced: false,
                });
            }
            Change::SyncDir { inode, covers, ok } => self.sync_dir(*inode, *covers, *ok),
            Change::Placed { inode, content } => {
                self.files.remove(inode);
                let node = Node::File(Arc::clone(content));
                self.durable.nodes.insert(*inode, node);
            }
            Change::PlacedName(change) => self.durable.apply(change),
        }
    }

    fn touched(&mut self, inode: u64, event: &Event) -> &mut OpenFile {
        let durable = &self.durable;
        let file = self.files.entry(inode).or_insert_with(|| OpenFile {
            live: durable
                .content(inode)
                .map_or_else(Content::default, |content| (**content).clone()),
            lens: Vec::new(),
            pages: BTreeMap::new(),
        });
        file.live.mark = event.mark;
        file.live.modified_ms = event.at_ms;
        file
    }

    fn sync_file(&mut self, inode: u64, covers: u64, pages: Option<&Range<usize>>, ok: bool) {
        let Some(file) = self.files.get_mut(&inode) else {
            return;
        };
        if !ok {
            // Whatever was to be written: a descriptor sees a failed write-back once, by the next
            // sync of any of its pages.
            file.mark_uncertain(covers);
            return;
        }
        if let Some(content) = self.durable.content_mut(inode) {
            file.sync(content, covers, pages);
        }
        if file.lens.is_empty() && file.pages.is_empty() {
            let live = self.files.remove(&inode).map(|file| Arc::new(file.live));
            if let Some(live) = live {
                self.durable.nodes.insert(inode, Node::File(live));
            }
        }
    }

    fn sync_dir(&mut self, dir: u64, covers: u64, ok: bool) {
        let mut certain = Vec::new();
        for name in self.names.iter_mut().filter(|name| name.event < covers) {
            let (first, second) = name.change.dirs();
            if !ok {
                name.is_uncertain |= first == dir || second == dir;
            } else if !name.is_uncertain {
                name.is_first_synced |= first == dir;
                name.is_second_synced |= second == dir;
                if name.is_first_synced && name.is_second_synced {
                    certain.push((name.change.inode(), name.event));
                }
            }
        }
        // What is certain takes with it what happened to the same file before: no file system keeps
        // the end of such a story without its beginning.
        for name in &mut self.names {
            let inode = name.change.inode();
            let later = |(other, event): &(u64, u64)| *other == inode && *event >= name.event;
            name.is_certain |= certain.iter().any(later);
        }
        let first_open = self.names.iter().position(|name| !name.is_certain);
        let certain = first_open.unwrap_or(self.names.len());
        for name in self.names.drain(..certain) {
            self.durable.apply(&name.change);
        }
    }
}

impl OpenFile {
    /// A cut may be lost: the pages after writes, which have it, cannot be used as they are.
    pub(super) fn has_cut(&self) -> bool {
        self.lens.iter().any(|len| len.is_cut)
    }

    fn write(&mut self, event: u64, position: u64, bytes: &Arc<[u8]>) {
        let has_cut = self.has_cut();
        let len_before = self.live.len_bytes;
        let mut same = Vec::new();
        for part in parts(position, bytes.len()) {
            let before = self.live.page(part.page);
            let new = bytes.get(part.at_source..part.at_source + part.len);
            if before.get(part.at_page..part.at_page + part.len) == new {
                same.push(part.page);
            }
        }
        self.live.write(bytes, position);
        for part in parts(position, bytes.len()) {
            let has_uncertain =
                |writes: &Vec<OpenWrite>| writes.iter().any(|write| write.is_uncertain);
            let is_page_uncertain = self.pages.get(&part.page).is_some_and(has_uncertain);
            // A write that changes nothing leaves nothing open. Uncertain, or with a cut that may
            // be lost, it may change something after all.
            if same.contains(&part.page) && !is_page_uncertain && !has_cut {
                continue;
            }
            let Some(Some(after)) = self.live.pages.get(part.page) else {
                continue;
            };
            self.pages.entry(part.page).or_default().push(OpenWrite {
                event,
                at: part.at_page,
                len: part.len,
                bytes: Arc::clone(bytes),
                at_bytes: part.at_source,
                after: Arc::clone(after),
                is_uncertain: false,
            });
        }
        self.len_changed(event, len_before);
    }

    fn resize(&mut self, event: u64, len_bytes: u64, allocated: bool) {
        let before = self.live.len_bytes;
        if allocated {
            self.live.len_bytes = before.max(len_bytes);
            self.live.allocated_to = self.live.allocated_to.max(len_bytes);
        } else {
            self.live.set_len(len_bytes);
        }
        self.len_changed(event, before);
    }

    fn len_changed(&mut self, event: u64, before: u64) {
        let len_bytes = self.live.len_bytes;
        if len_bytes != before {
            self.lens.push(OpenLen {
                event,
                len_bytes,
                is_cut: len_bytes < before,
                is_uncertain: false,
            });
        }
    }

    /// The sync of everything before event `covers` failed.
    fn mark_uncertain(&mut self, covers: u64) {
        for len in self.lens.iter_mut().filter(|len| len.event < covers) {
            len.is_uncertain = true;
        }
        let writes = self.pages.values_mut().flatten();
        for write in writes.filter(|write| write.event < covers) {
            write.is_uncertain = true;
        }
    }

    /// Changes of length that a sync makes certain: all before event `covers`, or as many of them
    /// as reading the pages back needs.
    fn covered_lens(&self, durable_len: u64, covers: u64, pages: Option<&Range<usize>>) -> usize {
        let before = self.lens.iter().take_while(|len| len.event < covers);
        let lens: Vec<u64> = before.map(|len| len.len_bytes).collect();
        let Some(pages) = pages else {
            return lens.len();
        };
        let longest = lens.last().copied().unwrap_or(durable_len);
        let needed = longest.min((pages.end * PAGE_BYTES) as u64);
        if durable_len >= needed {
            return 0;
        }
        let enough = lens.iter().position(|len| *len >= needed);
        enough.map_or(lens.len(), |at| at + 1)
    }

    /// Moves what a successful sync covers into `durable`: of all pages, or of some. A page that a
    /// failed sync left uncertain stays open unless it was written again since: the kernel takes it
    /// for clean.
    fn sync(&mut self, durable: &mut Content, covers: u64, pages: Option<&Range<usize>>) {
        let has_cut = self.has_cut();
        // A cut and the writes around it mean nothing without one another, wherever they are.
        let pages = pages.filter(|_| !has_cut);
        let covered = self.covered_lens(durable.len_bytes, covers, pages);
        let mut covered_writes = self.pages.values().flatten().filter(|w| w.event < covers);
        let is_certain = self.lens.iter().take(covered).any(|len| !len.is_uncertain)
            || has_cut && covered_writes.any(|write| !write.is_uncertain);
        let lens: Vec<_> = if is_certain {
            self.lens.drain(..covered).collect()
        } else {
            Vec::new()
        };
        let cuts = cuts_of(&lens);
        let base = durable.clone();
        for (_, len_bytes) in &cuts {
            durable.set_len(*len_bytes);
        }
        let is_synced = |number: &usize| pages.is_none_or(|pages| pages.contains(number));
        for (number, writes) in self.pages.iter_mut().filter(|(n, _)| is_synced(n)) {
            let covered = writes.iter().take_while(|w| w.event < covers).count();
            let certain = writes.get(..covered).unwrap_or_default();
            let Some(last) = certain.last() else {
                continue;
            };
            // A cut that is certain wrote the page anew as well.
            if cuts.is_empty() && certain.iter().all(|write| write.is_uncertain) {
                continue;
            }
            let page = if has_cut {
                Arc::new(compose(*number, base.page(*number), certain, &cuts))
            } else {
                Arc::clone(&last.after)
            };
            durable.put(*number, page);
            writes.drain(..covered);
        }
        self.pages.retain(|_, writes| !writes.is_empty());
        if let Some(last) = lens.last() {
            durable.set_len(last.len_bytes);
        }
        durable.allocated_to = self.live.allocated_to.min(durable.len_bytes);
        durable.mark = self.live.mark;
        durable.modified_ms = self.live.modified_ms;
    }
}

/// The cuts among changes of length: event and length.
pub(super) fn cuts_of<'a>(lens: impl IntoIterator<Item = &'a OpenLen>) -> Vec<(u64, u64)> {
    let cuts = lens.into_iter().filter(|len| len.is_cut);
    cuts.map(|len| (len.event, len.len_bytes)).collect()
}

/// A page from its durable bytes, some of its writes and the cuts that were kept, in their order.
pub(super) fn compose(
    number: usize,
    base: &Page,
    writes: &[OpenWrite],
    cuts: &[(u64, u64)],
) -> Page {
    let mut page = *base;
    let start = (number * page.len()) as u64;
    let mut cuts = cuts.iter().peekable();
    let cut = |page: &mut Page, len_bytes: u64| {
        let from = len_bytes.saturating_sub(start).min(page.len() as u64) as usize;
        page[from..].fill(0);
    };
    for write in writes {
        while let Some((_, len_bytes)) = cuts.next_if(|(event, _)| *event < write.event) {
            cut(&mut page, *len_bytes);
        }
        page[write.at..write.at + write.len].copy_from_slice(write.bytes());
    }
    for (_, len_bytes) in cuts {
        cut(&mut page, *len_bytes);
    }
    page
}
