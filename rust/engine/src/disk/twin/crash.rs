//! The images that power loss at one moment may leave: one choice for each open end. Knows how to
//! make the image of a set of choices; which sets are made is the history's business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::content::{Content, PAGE_BYTES, hash_bytes, mix, page_term};
use super::replay::{Open, OpenFile, cuts_of};
use super::tree::{Names, Node, ROOT, Tree};
use super::variants::{Tear, Variants};

/// An open end.
#[derive(Debug)]
enum End {
    /// The change of names with this index.
    Name(usize),
    /// The length of a file.
    Length(u64),
    /// A page of a file.
    Page(u64, Variants),
}

/// Everything that may be at one moment.
#[derive(Debug)]
pub(super) struct Crash {
    open: Open,
    ends: Vec<End>,
    /// Hashes of the durable contents, made when needed.
    terms: BTreeMap<u64, OnceLock<u128>>,
}

/// How many choices an end has is at least 2; this is which one was made, per end.
pub(super) type Choices = Vec<u32>;

impl Crash {
    pub(super) fn of(open: Open, tear: Tear) -> Self {
        let reachable = reachable(&open);
        let names = open.names.iter().enumerate();
        let names = names.filter(|(_, name)| !name.is_certain);
        let mut ends: Vec<End> = names.map(|(index, _)| End::Name(index)).collect();
        for (inode, file) in &open.files {
            if !reachable.contains_key(inode) {
                continue;
            }
            if !file.lens.is_empty() {
                ends.push(End::Length(*inode));
            }
            for (number, writes) in &file.pages {
                let base = open.durable.content(*inode);
                let base = base.map_or([0; PAGE_BYTES], |content| *content.page(*number));
                let variants = Variants::of(*number, &base, writes, tear);
                ends.push(End::Page(*inode, variants));
            }
        }
        let files = open.durable.nodes.iter();
        let files = files.filter(|(_, node)| matches!(node, Node::File(_)));
        let terms = files.map(|(inode, _)| (*inode, OnceLock::new())).collect();
        Self { open, ends, terms }
    }

    /// Number of open ends.
    pub(super) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Number of choices of an end.
    pub(super) fn options(&self, end: usize) -> u32 {
        let options = match self.ends.get(end) {
            None => 1,
            Some(End::Name(_)) => 2,
            Some(End::Length(inode)) => self.lens(*inode) + 1,
            Some(End::Page(_, variants)) => variants.all.len(),
        };
        u32::try_from(options).unwrap_or(u32::MAX)
    }

    pub(super) fn is_name(&self, end: usize) -> bool {
        matches!(self.ends.get(end), Some(End::Name(_)))
    }

    /// The first choice of an end that has something of an event; `None` when the event is no part
    /// of it.
    pub(super) fn first_with(&self, end: usize, event: u64) -> Option<u32> {
        let first = match self.ends.get(end)? {
            End::Name(index) => {
                let name = self.open.names.get(*index)?;
                (name.event == event).then_some(1)
            }
            End::Length(inode) => {
                let lens = &self.open.files.get(inode)?.lens;
                let at = lens.iter().position(|len| len.event == event)?;
                Some(at + 1)
            }
            End::Page(inode, variants) => {
                let writes = self.writes(*inode, variants.number);
                variants.first_with(event, writes)
            }
        };
        u32::try_from(first?).ok()
    }

    fn lens(&self, inode: u64) -> usize {
        self.open.files.get(&inode).map_or(0, |f| f.lens.len())
    }

    /// The events that are not certain, ascending.
    pub(super) fn open_events(&self) -> Vec<u64> {
        let names = self.open.names.iter().filter(|name| !name.is_certain);
        let mut events: Vec<u64> = names.map(|name| name.event).collect();
        for file in self.open.files.values() {
            events.extend(file.lens.iter().map(|len| len.event));
            events.extend(file.pages.values().flatten().map(|write| write.event));
        }
        events.sort_unstable();
        events.dedup();
        events
    }

    /// The choices of a crash that kept everything up to an event and nothing after it.
    pub(super) fn ordered(&self, event: u64) -> Choices {
        let choice = |end: &End| -> usize {
            match end {
                End::Name(index) => {
                    let name = self.open.names.get(*index);
                    usize::from(name.is_some_and(|name| name.event <= event))
                }
                End::Length(inode) => self.open.files.get(inode).map_or(0, |file| {
                    file.lens.iter().filter(|len| len.event <= event).count()
                }),
                End::Page(inode, variants) => {
                    let writes = self.writes(*inode, variants.number);
                    variants.up_to(event, writes)
                }
            }
        };
        self.ends.iter().map(|end| choice(end) as u32).collect()
    }

    fn writes(&self, inode: u64, number: usize) -> &[super::replay::OpenWrite] {
        let file = self.open.files.get(&inode);
        file.and_then(|file| file.pages.get(&number))
            .map_or(&[], Vec::as_slice)
    }

    /// The image of a set of choices and its hash.
    pub(super) fn image(&self, choices: &[u32]) -> (Tree, u128) {
        let mut tree = self.open.durable.clone();
        let mut chosen: BTreeMap<u64, Chosen<'_>> = BTreeMap::new();
        let mut lost = BTreeSet::new();
        for (end, choice) in self.ends.iter().zip(choices) {
            let choice = *choice as usize;
            match end {
                End::Name(index) if choice == 0 => {
                    lost.insert(*index);
                }
                End::Name(_) => {}
                End::Length(inode) => chosen.entry(*inode).or_default().lens = choice,
                End::Page(inode, variants) => {
                    let chosen = chosen.entry(*inode).or_default();
                    chosen.pages.push((variants, choice));
                }
            }
        }
        for (index, name) in self.open.names.iter().enumerate() {
            if !lost.contains(&index) {
                tree.apply(&name.change);
            }
        }
        let mut terms = BTreeMap::new();
        for (inode, chosen) in chosen {
            if let Some(file) = self.open.files.get(&inode)
                && let Some(durable) = self.open.durable.content(inode)
            {
                let (content, term) = self.content(inode, file, durable, &chosen);
                tree.nodes.insert(inode, Node::File(Arc::new(content)));
                terms.insert(inode, term);
            }
        }
        let term_of = |inode: u64| match terms.get(&inode) {
            Some(term) => *term,
            None => self.durable_term(inode),
        };
        prune(&tree, &term_of)
    }

    fn durable_term(&self, inode: u64) -> u128 {
        let Some(slot) = self.terms.get(&inode) else {
            return 0;
        };
        let content = self.open.durable.content(inode);
        *slot.get_or_init(|| content.map_or(0, |content| content_term(content)))
    }

    fn content(
        &self,
        inode: u64,
        file: &OpenFile,
        durable: &Content,
        chosen: &Chosen<'_>,
    ) -> (Content, u128) {
        let mut content = durable.clone();
        let kept = file.lens.get(..chosen.lens).unwrap_or_default();
        let cuts = cuts_of(kept);
        let mut term = self.durable_term(inode);
        for (_, len_bytes) in &cuts {
            content.set_len(*len_bytes);
        }
        for (variants, choice) in &chosen.pages {
            let writes = self.writes(inode, variants.number);
            if file.has_cut() {
                let page = variants.page_with_cuts(*choice, writes, &cuts);
                content.put(variants.number, Arc::new(page));
            } else if *choice > 0 {
                let (page, added) = variants.page(*choice, writes);
                let (_, removed) = variants.page(0, writes);
                content.put(variants.number, page);
                term = term.wrapping_add(added).wrapping_sub(removed);
            }
        }
        let len_bytes = kept.last().map_or(durable.len_bytes, |len| len.len_bytes);
        let was_cut = content.set_len(len_bytes);
        content.allocated_to = file.live.allocated_to.min(len_bytes);
        content.mark = file.live.mark;
        content.modified_ms = file.live.modified_ms;
        if was_cut || file.has_cut() {
            term = content_term(&content);
        }
        (content, term)
    }
}

/// What was chosen for one file.
#[derive(Default)]
struct Chosen<'a> {
    lens: usize,
    pages: Vec<(&'a Variants, usize)>,
}

/// Files that have a name in some image.
fn reachable(open: &Open) -> BTreeMap<u64, ()> {
    let mut found = BTreeMap::new();
    for node in open.durable.nodes.values() {
        if let Node::Dir(names) = node {
            found.extend(names.values().map(|inode| (*inode, ())));
        }
    }
    found.extend(open.names.iter().map(|name| (name.change.inode(), ())));
    found
}

fn content_term(content: &Content) -> u128 {
    let pages = content.pages.iter().enumerate();
    let terms = pages.filter_map(|(number, page)| Some(page_term(number, page.as_ref()?)));
    terms.fold(0, u128::wrapping_add)
}

/// The hash of a whole tree.
pub(super) fn tree_hash(tree: &Tree) -> u128 {
    let term_of = |inode| {
        tree.content(inode)
            .map_or(0, |content| content_term(content))
    };
    prune(tree, &term_of).1
}

/// The tree without what no name leads to, and its hash: of names, lengths and bytes.
fn prune(tree: &Tree, term_of: &dyn Fn(u64) -> u128) -> (Tree, u128) {
    let mut pruned = Tree {
        nodes: BTreeMap::new(),
    };
    let mut hash = 0u128;
    let mut dirs: Vec<(u64, u64, Arc<Names>)> = Vec::new();
    if let Some(names) = tree.names(ROOT) {
        dirs.push((ROOT, 0, Arc::clone(names)));
    }
    while let Some((inode, key, names)) = dirs.pop() {
        for (name, child) in names.iter() {
            let name_hash = hash_bytes(name.as_bytes(), key);
            let child_key = (name_hash >> 64) as u64 ^ name_hash as u64;
            match tree.nodes.get(child) {
                Some(Node::Dir(inside)) => {
                    hash = hash.wrapping_add(spread(name_hash, 0, u64::MAX));
                    dirs.push((*child, child_key, Arc::clone(inside)));
                }
                Some(Node::File(content)) => {
                    let term = term_of(*child);
                    hash = hash.wrapping_add(spread(name_hash, term, content.len_bytes));
                    let node = Node::File(Arc::clone(content));
                    pruned.nodes.insert(*child, node);
                }
                None => {}
            }
        }
        pruned.nodes.insert(inode, Node::Dir(names));
    }
    (pruned, hash)
}

fn spread(name_hash: u128, term: u128, len_bytes: u64) -> u128 {
    let low = mix(name_hash as u64 ^ mix(term as u64 ^ mix(len_bytes)));
    let high = mix((name_hash >> 64) as u64 ^ mix((term >> 64) as u64 ^ mix(!len_bytes)));
    (u128::from(high) << 64) | u128::from(low)
}
