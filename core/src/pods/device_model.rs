//! Which device models a pod's author restricts it to. Read by the extender's filter and prioritize.

use std::sync::Arc;

use crate::catalog::{Catalog, Generation, without_prefix};
use crate::names::DEVICE_MODEL;
use crate::topology::Topology;

/// The generations, by the names that AWS sells them under.
const GENERATIONS: [(&str, Generation); 5] = [
    ("Inferentia", Generation::Inf1),
    ("Inferentia2", Generation::Inf2),
    ("Trainium", Generation::Trn1),
    ("Trainium2", Generation::Trn2),
    ("Trainium3", Generation::Trn3),
];

/// The most models that an annotation may name: more than there are generations, and than anybody wants types.
const MOST: usize = 16;

/// The models of a pod's annotation [`DEVICE_MODEL`], the most wanted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceModels {
    /// As events say them, in few words whatever the author wrote. Shared by the refusals of all nodes.
    text: Arc<str>,
    wanted: Vec<Model>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Model {
    Generation(Generation),
    /// Its name, which need not be that of a row.
    InstanceType(String),
}

/// Why the annotation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceModelError {
    /// A word is no device model.
    #[error(
        "annotation {DEVICE_MODEL} names {word:?}, which is no device model; possible are Inferentia, Inferentia2, Trainium, Trainium2, \
         Trainium3 and instance types such as trn1.32xlarge, one or more with commas between them"
    )]
    Word {
        /// The word, at most 64 characters of it.
        word: Arc<str>,
    },
    /// It names too many.
    #[error("annotation {DEVICE_MODEL} names more than {MOST} device models; name fewer")]
    TooMany,
}

impl DeviceModels {
    /// Reads the annotation: names of generations or known instance types with commas between them, in any case, 16 at most.
    ///
    /// # Errors
    /// A word is neither, there is none, or there are too many.
    pub fn parse(text: &str, catalog: &Catalog) -> Result<Self, DeviceModelError> {
        let model = |word: &str| {
            let generation = GENERATIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            let named = || {
                let name = word.to_ascii_lowercase();
                catalog.is_known_name(&name).then_some(Model::InstanceType(name))
            };
            let model = generation.map(|(_, generation)| Model::Generation(*generation)).or_else(named);
            // An author's text ends in an event: as much of it as anybody wants to read.
            model.ok_or_else(|| DeviceModelError::Word {
                word: word.chars().take(64).collect::<String>().into(),
            })
        };
        let wanted: Vec<Model> =
            text.split(',').take(MOST + 1).map(|word| model(word.trim())).collect::<Result<_, _>>()?;
        if wanted.len() > MOST {
            return Err(DeviceModelError::TooMany);
        }
        let names: Vec<&str> = wanted.iter().map(Model::name).collect();
        Ok(Self { text: names.join(",").into(), wanted })
    }

    /// The place of the first model that the node is of; none if it is of no wanted one.
    pub fn place_of(&self, topology: &Topology) -> Option<usize> {
        self.wanted.iter().position(|model| match model {
            Model::Generation(generation) => topology.generation() == Some(*generation),
            Model::InstanceType(name) => without_prefix(topology.instance_type()) == without_prefix(name),
        })
    }

    /// The models as events say them, with commas between them.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl Model {
    fn name(&self) -> &str {
        match self {
            Model::Generation(generation) => {
                GENERATIONS.iter().find(|(_, known)| known == generation).map_or("", |(name, _)| name)
            }
            Model::InstanceType(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Policy;

    fn place(text: &str, instance_type: &str) -> Option<usize> {
        let catalog = Catalog::embedded();
        let model = catalog.find(instance_type).unwrap();
        let topology = Topology::named(instance_type, model, model.default_lnc, Policy::Documented).unwrap();
        DeviceModels::parse(text, catalog).unwrap().place_of(&topology)
    }

    #[test]
    fn a_node_is_of_a_generation_or_of_a_type() {
        assert_eq!(place("Trainium", "trn1.32xlarge"), Some(0));
        assert_eq!(place("Trainium", "trn2.48xlarge"), None, "another generation");
        assert_eq!(place("inferentia2, Trainium2", "trn2.48xlarge"), Some(1));
        assert_eq!(place("trn1.2xlarge,trn1.32xlarge", "ml.trn1.32xlarge"), Some(1));
        assert_eq!(place("trn2p.48xlarge", "trn2.48xlarge"), None, "another name of like hardware");
        // Of a type and of its generation: as the more wanted one.
        assert_eq!(place("Trainium,trn1.32xlarge", "trn1.32xlarge"), Some(0));
    }

    #[test]
    fn a_word_that_is_no_model_is_named() {
        for text in ["", "Trainium4", "Trainium,,Inferentia", "trn9.48xlarge", "Trainium;Inferentia"] {
            let error = DeviceModels::parse(text, Catalog::embedded()).unwrap_err().to_string();
            assert!(error.contains("which is no device model; possible are Inferentia,"), "{error}");
        }
        let long = DeviceModels::parse(&"x".repeat(100_000), Catalog::embedded()).unwrap_err().to_string();
        assert!(long.len() < 400, "{}", long.len());
    }

    #[test]
    fn an_author_cannot_make_texts_or_searches_long() {
        let parse = |text: &str| DeviceModels::parse(text, Catalog::embedded());
        let most = parse(&vec!["trn2u-ac.24xlarge"; MOST].join(" , ")).unwrap();
        assert!(most.text().len() < 400, "{}", most.text());
        let error = parse(&vec!["Trainium"; 30_000].join(",")).unwrap_err();
        assert_eq!(error, DeviceModelError::TooMany);
        assert_eq!(&**parse("tRAINIUM2 ,TRN1.32xlarge").unwrap().text(), "Trainium2,trn1.32xlarge");
    }
}
