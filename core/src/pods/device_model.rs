//! Which device models a pod's author restricts it to. Read by the extender's filter and prioritize.

use crate::catalog::{Catalog, Generation};
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

/// The models of a pod's annotation [`DEVICE_MODEL`], the most wanted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceModels {
    text: String,
    wanted: Vec<Model>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Model {
    Generation(Generation),
    /// A row's name.
    InstanceType(String),
}

/// A word that is no device model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {DEVICE_MODEL} names {word:?}, which is no device model; possible are Inferentia, Inferentia2, Trainium, Trainium2, \
     Trainium3 and instance types such as trn1.32xlarge, one or more with commas between them"
)]
pub struct DeviceModelError {
    word: String,
}

impl DeviceModels {
    /// Reads the annotation: names of generations or instance types of the catalog with commas between them, in any case.
    ///
    /// # Errors
    /// A word is neither, or there is none.
    pub fn parse(text: &str, catalog: &Catalog) -> Result<Self, DeviceModelError> {
        let model = |word: &str| {
            let generation = GENERATIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            let named = || {
                let row = catalog.find(&word.to_ascii_lowercase())?;
                Some(Model::InstanceType(row.name.clone()))
            };
            let model = generation.map(|(_, generation)| Model::Generation(*generation)).or_else(named);
            // An author's text ends in an event: as much of it as anybody wants to read.
            model.ok_or_else(|| DeviceModelError { word: word.chars().take(64).collect() })
        };
        let wanted = text.split(',').map(|word| model(word.trim())).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), wanted })
    }

    /// The place of the first model that the node is of; none if it is of no wanted one.
    pub fn place_of(&self, topology: &Topology) -> Option<usize> {
        self.wanted.iter().position(|model| match model {
            Model::Generation(generation) => topology.generation() == Some(*generation),
            Model::InstanceType(name) => topology.row() == Some(name.as_str()),
        })
    }

    /// The annotation's text.
    pub fn text(&self) -> &str {
        &self.text
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
        assert_eq!(place("trn1.2xlarge,trn1.32xlarge", "trn1.32xlarge"), Some(1));
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
}
