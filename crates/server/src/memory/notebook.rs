//! The table in which memories are kept.

use switchboard_agents::memory::digest;
use switchboard_alicia::annals::tables;
use switchboard_alicia::deed::NOTEBOOK;
use switchboard_core::{
    Cell, Comparison, Condition, Found, Lookup, Order, Principal, PrincipalId, Question, SessionId, Within,
};
use switchboard_store::{Log, StoreError};

/// The session in which the memories of a person are noted.
pub(super) fn notebook_of(person: &PrincipalId) -> SessionId {
    SessionId::named(&Principal::new(person.as_str()), NOTEBOOK)
}

/// A memory; not to be formatted.
pub(super) struct Note {
    pub(super) id: String,
    pub(super) content: String,
    pub(super) pinned: bool,
    pub(super) source: Option<String>,
    /// What it means, if it was found out since it says what it says.
    pub(super) vector: Option<Vec<f32>>,
}

impl Note {
    pub(super) const fn lacks_vector(&self) -> bool {
        self.vector.is_none()
    }
}

/// All notebooks: the table of memories, and where its columns are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notebooks {
    table: &'static str,
    id: usize,
    content: usize,
    pinned: usize,
    source: usize,
    vector: usize,
    digest: usize,
}

impl Notebooks {
    /// None if the table lacks something.
    pub(super) fn find() -> Option<Self> {
        let table = &tables::MEMORY;
        Some(Self {
            table: table.name,
            id: table.column("id")?,
            content: table.column("content")?,
            pinned: table.column("pinned")?,
            source: table.column("source_type")?,
            vector: table.column("embeddings")?,
            digest: table.column("embedding_digest")?,
        })
    }

    /// The memories of a person that may have to do with what they say: at most so many of the latest,
    /// and if there are more, those that share words with it. None if the notebook is not theirs.
    pub(super) async fn read(
        self,
        log: &dyn Log,
        person: &PrincipalId,
        notebook: &SessionId,
        said: &str,
        most: usize,
    ) -> Result<Vec<Note>, StoreError> {
        let mut notes = self.all(log, notebook, most).await?;
        if notes.is_empty() {
            return Ok(notes);
        }
        if log.session(notebook).await?.is_none_or(|row| row.owner != *person) {
            return Ok(Vec::new());
        }
        if notes.len() == most {
            let found = self.look(log, notebook, Question::Words(said.to_owned()), MOST_FOUND).await?;
            for note in found {
                if notes.iter().all(|known| known.id != note.id) {
                    notes.push(note);
                }
            }
        }
        Ok(notes)
    }

    /// The latest memories of a notebook.
    pub(super) async fn all(
        self,
        log: &dyn Log,
        notebook: &SessionId,
        most: usize,
    ) -> Result<Vec<Note>, StoreError> {
        self.look(log, notebook, Question::Rows(vec![("updated_at", Order::Falling)]), most).await
    }

    async fn look(
        self,
        log: &dyn Log,
        notebook: &SessionId,
        question: Question,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        let is = |column, is, value| Condition { column, is, value };
        let lookup = Lookup {
            table: self.table,
            within: Within::Session(notebook.clone()),
            conditions: vec![
                is("deleted_at", Comparison::Equal, Cell::Null),
                is("archived", Comparison::Unequal, Cell::Integer(1)),
            ],
            question,
            limit,
        };
        let nobody = PrincipalId::from("switchboard");
        let found = log.look(&nobody, &lookup).await?;
        Ok(found.iter().filter_map(|row| self.note(row)).collect())
    }

    fn note(self, row: &Found) -> Option<Note> {
        let text = |place: usize| row.get(place)?.as_text();
        let content = text(self.content)?;
        // Numbers of something that it said before are worth nothing.
        let current = text(self.digest).is_some_and(|known| known == digest(content));
        let blob = row.get(self.vector).and_then(Cell::as_blob).filter(|_| current);
        Some(Note {
            id: text(self.id)?.to_owned(),
            content: content.to_owned(),
            pinned: row.get(self.pinned).and_then(Cell::as_integer) == Some(1),
            source: text(self.source).map(str::to_owned),
            vector: blob.map(|blob| numbers(blob)),
        })
    }
}

/// As they are kept: four bytes each, the least significant first.
fn numbers(blob: &[u8]) -> Vec<f32> {
    let (words, _) = blob.as_chunks::<4>();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// Memories that a search by words brings at most.
const MOST_FOUND: usize = 64;
