//! The step `hold`: where a call between scheduler and extender, or a Binding, waits, and what happens meanwhile. Part of the scenario
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
    /// When the extender has chosen the devices and sent the Binding of one of the step's pods, before the API server carries it out;
    /// half a minute at most. A Binding that its sender gives up is never carried out, but for kind: there the API server gives it up too, in
    /// the time that its sender tells, and it is sent anew on release, as one that the network has held up.
    Binding,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Before(verb) => write!(f, "before {}", verb.path()),
            Moment::After(verb) => write!(f, "after {}", verb.path()),
            Moment::Binding => f.write_str("before binding"),
        }
    }
}

impl Moment {
    /// Every moment.
    pub const ALL: [Moment; 5] = [
        Moment::Before(Verb::Filter),
        Moment::Before(Verb::Bind),
        Moment::After(Verb::Filter),
        Moment::After(Verb::Bind),
        Moment::Binding,
    ];
}

/// A [`Hold`] as its file writes it: `before: bind`, `after: bind` or `before: binding`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldFields {
    #[serde(default)]
    before: Option<Before>,
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
            (Some(Before::Filter), None) => Moment::Before(Verb::Filter),
            (Some(Before::Bind), None) => Moment::Before(Verb::Bind),
            (Some(Before::Binding), None) => Moment::Binding,
            (None, Some(verb)) => Moment::After(verb),
            _ => return Err("a hold is either `before` filter, bind or binding, or `after` filter or bind"),
        };
        Ok(Hold { at, apply, steps })
    }
}

/// What a hold can be before.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Before {
    Filter,
    Bind,
    Binding,
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
