//! Opening the plain queues of a store: makes the parts and hands each those of the others that it uses,
//! then adds the queues that the manifest or the directories have.

use std::path::Path;
use std::sync::Arc;

use super::append::UnitAppender;
use super::extension::{Extensions, queue_files_part};
use super::holes::HoleMender;
use super::load::QueueLoader;
use super::lost::LostUnits;
use super::queue::State;
use super::read::UnitReader;
use super::recover::QueueRecovery;
use super::remove::QueueRemoval;
use super::retain::QueueRetention;
use super::search::TimeSearch;
use super::shared::Shared;
use super::suspects::Suspects;
use super::table::QueueTable;
use super::truncate::UnitCutter;
use super::unit::Unit;
use super::witness::Witness;
use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::Result;
use crate::notice::Notices;
use crate::queue_store::{
    FileLength, Files, Pending, QueueMap, QueueSync, Segments, TailWriter, walk_queues,
};

/// The setting that the length of queue files comes from.
const FILE_LEN_KEY: &str = "mappedFileSizeConsumeQueue";
/// The directory of the queues below the root (`StorePathConfigHelper.getStorePathConsumeQueue`).
const DIR_NAME: &str = "consumequeue";

impl<D: Disk> QueueTable<D> {
    /// Opens the queues of the store at `root`. With a `stamp` equal to that of the manifest no
    /// directory is read ([`QueueTable::save_manifest`]); else all are walked, names and lengths
    /// only. The state of a queue is looked up at its first use.
    ///
    /// # Errors
    /// [`crate::error::Error::WrongFileSize`] for a file of another length than the settings have,
    /// [`crate::error::Error::Io`]. Nothing on disk is changed.
    ///
    /// # Blocking
    /// Reads directories.
    pub fn open(
        disk: D,
        root: &Path,
        config: &StoreConfig,
        notices: Arc<Notices>,
        stamp: Option<&[u8]>,
    ) -> Result<Self> {
        let mut table = Self::assemble(disk, root, config, &notices)?;
        let (is_same, is_witness) = table.shared.witness.load(stamp)?;
        (table.is_from_manifest, table.has_witness) = (is_same, is_witness);
        if is_witness {
            table.mender.compare_with_directories()?;
        }
        if !is_same {
            table.walk(is_witness, &notices)?;
        }
        Ok(table)
    }

    /// The parts, with no queue yet.
    fn assemble(
        disk: D,
        root: &Path,
        config: &StoreConfig,
        notices: &Arc<Notices>,
    ) -> Result<Self> {
        let shared = Shared::make(disk, root, config, notices)?;
        let suspects = Arc::new(Suspects::default());
        let cutter = Arc::new(UnitCutter {
            shared: shared.clone(),
        });
        let writer = Arc::new(shared.writer());
        let mender = Arc::new(shared.mender());
        Ok(Self {
            sync: QueueSync::new(Arc::clone(&shared.segments), Arc::clone(&shared.pending)),
            appender: UnitAppender {
                map: Arc::clone(&shared.map),
                segments: Arc::clone(&shared.segments),
                pending: Arc::clone(&shared.pending),
                loader: Arc::clone(&shared.loader),
                extensions: Arc::clone(&shared.extensions),
                writer: Arc::clone(&writer),
                cutter: Arc::clone(&cutter),
                suspects: Arc::clone(&suspects),
                notices: Arc::clone(notices),
            },
            reader: shared.reader(&mender),
            search: shared.search(&mender),
            recovery: QueueRecovery {
                shared: shared.clone(),
                cutter: Arc::clone(&cutter),
            },
            retention: QueueRetention {
                shared: shared.clone(),
            },
            removal: QueueRemoval {
                shared: shared.clone(),
            },
            lost: LostUnits {
                map: Arc::clone(&shared.map),
                segments: Arc::clone(&shared.segments),
                loader: Arc::clone(&shared.loader),
                witness: Arc::clone(&shared.witness),
                writer: Arc::clone(&writer),
                mender: Arc::clone(&mender),
                suspects,
            },
            is_from_manifest: false,
            has_witness: false,
            shared,
            mender,
            cutter,
            writer,
        })
    }

    /// Adds the queues of the directories; beside a manifest that is a witness, those alone that it
    /// does not name.
    fn walk(&self, is_witness: bool, notices: &Notices) -> Result<()> {
        walk_queues(
            self.shared.segments.disk(),
            self.shared.segments.dir(),
            self.shared.segments.length(),
            notices,
            |topic, queue_id| !is_witness || self.find(topic.as_bytes(), queue_id).is_none(),
            |topic, queue_id, range| {
                let state = if range.files_end == range.first_base {
                    State::empty()
                } else {
                    State::of_files(range.first_base, range.files_end)
                };
                self.shared.map.insert(topic, queue_id, state);
                Ok(())
            },
        )
    }
}

impl<D: Disk> Shared<D> {
    fn make(disk: D, root: &Path, config: &StoreConfig, notices: &Arc<Notices>) -> Result<Self> {
        let length = FileLength {
            bytes: config.queue_file_len_bytes,
            key: FILE_LEN_KEY,
        };
        let (open_max, part) = (config.queue_files_open_max, queue_files_part(config));
        let files = Files::new(disk.clone(), length, open_max, part);
        let segments = Arc::new(Segments::new(disk, root, DIR_NAME, files));
        let map = Arc::<QueueMap<Unit>>::default();
        let pending = Arc::<Pending<Unit>>::default();
        let extensions = Extensions::open(
            root,
            config,
            Arc::clone(&segments),
            Arc::clone(&pending),
            Arc::clone(notices),
        )?;
        let loader = QueueLoader::new(Arc::clone(&segments), Arc::clone(notices));
        let loader = Arc::new(loader);
        let witness = Witness::new(
            root,
            &segments,
            (Arc::clone(&map), Arc::clone(&pending)),
            Arc::clone(&loader),
            Arc::clone(notices),
        );
        Ok(Self {
            map,
            segments,
            pending,
            loader,
            witness: Arc::new(witness),
            extensions: Arc::new(extensions),
        })
    }

    /// Before the units of a queue what they name in its extension is written, and before the first
    /// change the manifest goes.
    fn writer(&self) -> TailWriter<D, Unit> {
        let (witness, extensions) = (Arc::clone(&self.witness), Arc::clone(&self.extensions));
        let (segments, pending) = (Arc::clone(&self.segments), Arc::clone(&self.pending));
        TailWriter::new(segments, pending, move |queue| {
            witness.retire().and_then(|()| extensions.write(queue))
        })
    }

    fn mender(&self) -> HoleMender<D> {
        let (segments, pending) = (Arc::clone(&self.segments), Arc::clone(&self.pending));
        HoleMender::new(Arc::clone(&self.map), segments, pending)
    }

    fn reader(&self, mender: &Arc<HoleMender<D>>) -> UnitReader<D> {
        UnitReader {
            map: Arc::clone(&self.map),
            segments: Arc::clone(&self.segments),
            loader: Arc::clone(&self.loader),
            mender: Arc::clone(mender),
        }
    }

    fn search(&self, mender: &Arc<HoleMender<D>>) -> TimeSearch<D> {
        TimeSearch {
            map: Arc::clone(&self.map),
            segments: Arc::clone(&self.segments),
            loader: Arc::clone(&self.loader),
            mender: Arc::clone(mender),
        }
    }
}
