//! The step `hold`: where a call between scheduler and extender waits, and what happens meanwhile. Part of the scenario
//! file's form; the proxy of each cluster asks for the moments.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::step::Step;

/// A call that is held.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "HoldFields")]
pub struct Hold {
    /// Where it is held.
    pub at: Moment,
    /// What is applied first; its call is the one held.
    pub apply: Vec<Value>,
    /// What happens meanwhile.
    pub steps: Vec<Step>,
}

/// Where a call between scheduler and extender can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before it reaches the extender.
    Before(Verb),
    /// After the extender has done what it asks, before the scheduler hears so. An extender that ends meanwhile
    /// has never answered.
    After(Verb),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Before(verb) => write!(f, "before {}", verb.path()),
            Moment::After(verb) => write!(f, "after {}", verb.path()),
        }
    }
}

impl Moment {
    /// Every moment.
    pub const ALL: [Moment; 4] = [
        Moment::Before(Verb::Filter),
        Moment::Before(Verb::Bind),
        Moment::After(Verb::Filter),
        Moment::After(Verb::Bind),
    ];
}

/// A [`Hold`] as its file writes it: `before: bind` or `after: bind`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldFields {
    #[serde(default)]
    before: Option<Verb>,
    #[serde(default)]
    after: Option<Verb>,
    apply: Vec<Value>,
    meanwhile: Vec<Step>,
}

impl TryFrom<HoldFields> for Hold {
    type Error = &'static str;

    fn try_from(fields: HoldFields) -> Result<Self, Self::Error> {
        let HoldFields { before, after, apply, meanwhile: steps } = fields;
        let at = match (before, after) {
            (Some(verb), None) => Moment::Before(verb),
            (None, Some(verb)) => Moment::After(verb),
            _ => return Err("a hold is either `before` or `after` filter or bind"),
        };
        Ok(Hold { at, apply, steps })
    }
}

/// Extender verbs that can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// `POST /filter`.
    Filter,
    /// `POST /bind`.
    Bind,
}

impl Verb {
    /// The last part of the path it is posted to.
    pub const fn path(self) -> &'static str {
        match self {
            Verb::Filter => "filter",
            Verb::Bind => "bind",
        }
    }
}
