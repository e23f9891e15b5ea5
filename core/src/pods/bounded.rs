//! Texts and lists of which no more is kept than there may be: who sends them needs no right for it, and what is made of a few bytes of
//! JSON is many times longer. Read by [`crate::pod`] and the extender's wire.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The longest name of a container or a namespace that Kubernetes takes, a DNS label.
pub const LABEL: usize = 63;

/// The longest name of a pod or a ResourceClaim, a DNS subdomain.
pub const SUBDOMAIN: usize = 253;

/// The longest name of a resource: a DNS subdomain, a slash and a label.
pub const QUALIFIED: usize = SUBDOMAIN + 1 + LABEL;

/// What a list may have only so many of.
pub trait Listed {
    /// How many.
    const MOST: usize;
    /// What errors call them.
    const WHAT: &'static str;
}

/// A list that is read up to [`Listed::MOST`] entries; one with more is an error.
#[derive(Clone, Debug)]
pub struct List<T>(pub Vec<T>);

/// A text that is read up to so many bytes; a longer one is an error.
#[derive(Clone, Debug)]
pub struct Text<const MOST: usize>(pub String);

/// A field that is such a list.
///
/// # Errors
/// It has more entries.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Listed + Deserialize<'de>,
{
    List::deserialize(deserializer).map(|List(list)| list)
}

/// A field that is such a text.
///
/// # Errors
/// It is longer.
pub fn text<'de, D: Deserializer<'de>, const MOST: usize>(deserializer: D) -> Result<String, D::Error> {
    Text::<MOST>::deserialize(deserializer).map(|Text(text)| text)
}

/// A field that is such a text, or `null`.
///
/// # Errors
/// It is longer.
pub fn text_or_null<'de, D, const MOST: usize>(deserializer: D) -> Result<Option<String>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Option::<Text<MOST>>::deserialize(deserializer)?.map(|Text(text)| text))
}

impl<'de, T: Listed + Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Listed + Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of {}", T::WHAT)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = entries.next_element()? {
                    if list.len() >= T::MOST {
                        return Err(Error::custom(format_args!("more than {} {}", T::MOST, T::WHAT)));
                    }
                    list.push(entry);
                }
                Ok(List(list))
            }
        }

        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Text<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Short<const MOST: usize>;

        impl<const MOST: usize> Visitor<'_> for Short<MOST> {
            type Value = Text<MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            // It is measured where it stands, before it is copied.
            fn visit_str<E: Error>(self, text: &str) -> Result<Text<MOST>, E> {
                if text.len() > MOST {
                    return Err(E::custom(format_args!("a text of more than {MOST} bytes")));
                }
                Ok(Text(text.to_owned()))
            }
        }

        deserializer.deserialize_str(Short)
    }
}
