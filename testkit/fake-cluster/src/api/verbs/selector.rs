//! Which objects a list or watch asks for: a namespace, a label selector and a field selector.

use std::collections::BTreeMap;

use kube::core::{Expression, SelectorExt};
use serde_json::Value;

use crate::api::error::ApiError;
use crate::api::kinds::event;
use crate::api::kinds::table::Resource;
use crate::api::object;
use crate::api::store::{Part, Topic};

/// Fields that count as "false" when they are missing.
const BOOLEANS: [&str; 2] = ["/spec/unschedulable", "/spec/hostNetwork"];

/// What a list or watch asks for.
#[derive(Debug)]
pub(crate) struct Filter {
    namespace: Option<String>,
    labels: Vec<Expression>,
    fields: Vec<FieldTerm>,
}

/// `path = value` or `path != value`; a missing field counts as "".
#[derive(Debug)]
struct FieldTerm {
    pointer: String,
    value: String,
    equal: bool,
}

impl Filter {
    /// Reads the selectors of a request. 400 for text that is no selector and for fields that this resource
    /// cannot be selected by.
    pub(crate) fn parse(
        resource: &Resource,
        namespace: Option<String>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        Ok(Self { namespace, labels: parse_labels(labels)?, fields: parse_fields(resource, fields)? })
    }

    /// What changes have to be told by, so that none is missed that matters here.
    pub(crate) fn topic(&self, resource: &Resource) -> Topic {
        let part = |term: &FieldTerm| match (term.equal, term.pointer.as_str()) {
            (true, "/metadata/name") => Some(Part::Named(term.value.clone())),
            (true, "/spec/nodeName") => Some(Part::OnNode(term.value.clone())),
            _ => None,
        };
        let part = self.fields.iter().find_map(part).unwrap_or(Part::All);
        Topic { collection: resource.collection, part }
    }

    /// Whether a stored object is asked for.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| object::text(object, "/metadata/namespace") == wanted)
            && self.fields.iter().all(|term| term.matches(object))
            && (self.labels.is_empty() || matches_labels(&self.labels, object))
    }
}

impl FieldTerm {
    fn matches(&self, object: &Value) -> bool {
        let found = match object.pointer(&self.pointer) {
            Some(Value::String(found)) => found.as_str(),
            Some(Value::Bool(true)) => "true",
            _ if BOOLEANS.contains(&self.pointer.as_str()) => "false",
            _ => "",
        };
        (found == self.value) == self.equal
    }
}

fn matches_labels(terms: &[Expression], object: &Value) -> bool {
    let labels: BTreeMap<String, String> = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    terms.iter().all(|term| term.matches(&labels))
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldTerm>, ApiError> {
    let terms = text.split(',').map(str::trim).filter(|term| !term.is_empty());
    terms.map(|term| parse_field(resource, text, term)).collect()
}

fn parse_field(resource: &Resource, whole: &str, term: &str) -> Result<FieldTerm, ApiError> {
    let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (path, value, true)
    } else {
        return Err(ApiError::bad_request(format!("invalid selector: '{whole}'; can't understand '{term}'")));
    };
    let is_known = path == "metadata.name"
        || (path == "metadata.namespace" && resource.namespaced)
        || resource.fields.contains(&path);
    if !is_known {
        return Err(ApiError::bad_request(format!(
            "Unable to find \"{}, Resource={}\" that match label selector \"\", field selector \"{whole}\": \
             field label not supported: {path}",
            if resource.group.is_empty() { format!("/{}", resource.version) } else { resource.api_version() },
            resource.plural,
        )));
    }
    let pointer = format!("/{}", event::stored_path(resource, path).replace('.', "/"));
    Ok(FieldTerm { pointer, value: value.into(), equal })
}

fn parse_labels(text: &str) -> Result<Vec<Expression>, ApiError> {
    split_terms(text)
        .into_iter()
        .map(|term| {
            parse_label(term).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "unable to parse requirement: {term:?} in label selector {text:?}"
                ))
            })
        })
        .collect()
}

/// Splits at commas that stand outside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|term| !term.is_empty())
    .collect()
}

fn parse_label(term: &str) -> Option<Expression> {
    if let Some(key) = term.strip_prefix('!') {
        return label_key(key).map(Expression::DoesNotExist);
    }
    if let Some((head, values)) = term.split_once('(') {
        let values = values.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Expression::In(label_key(key)?, values)),
            "notin" => Some(Expression::NotIn(label_key(key)?, values)),
            _ => None,
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Some(Expression::NotEqual(label_key(key)?, value.trim().into()));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(Expression::Equal(label_key(key)?, value.trim().into()));
    }
    label_key(term).map(Expression::Exists)
}

fn label_key(text: &str) -> Option<String> {
    let key = text.trim();
    let is_key = !key.is_empty()
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter));
    is_key.then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::kinds::table::{EVENTS, PODS};

    #[rstest]
    #[case("app=web", true)]
    #[case("app==web,tier", true)]
    #[case("app!=web", false)]
    #[case("other!=web", true)]
    #[case("app in (web, db),tier notin (back)", true)]
    #[case("app notin (web)", false)]
    #[case("!app", false)]
    #[case("!other", true)]
    #[case("", true)]
    fn label_selectors(#[case] selector: &str, #[case] matches: bool) {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        assert_eq!(Filter::parse(&PODS, None, selector, "").unwrap().matches(&pod), matches);
    }

    #[rstest]
    #[case("spec.nodeName=", true)]
    #[case("spec.nodeName!=n1", true)]
    #[case("spec.nodeName=n1", false)]
    #[case("status.phase!=Failed,metadata.name=a", true)]
    #[case("metadata.namespace=default", true)]
    #[case("spec.hostNetwork=false", true)]
    fn field_selectors(#[case] selector: &str, #[case] matches: bool) {
        let pod = json!({"metadata": {"name": "a", "namespace": "default"}, "status": {"phase": "Pending"}});
        assert_eq!(Filter::parse(&PODS, None, "", selector).unwrap().matches(&pod), matches);
    }

    #[test]
    fn events_are_selected_by_the_names_of_their_api() {
        let stored = json!({"involvedObject": {"name": "p"}});
        assert!(Filter::parse(&EVENTS, None, "", "regarding.name=p").unwrap().matches(&stored));
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        assert!(Filter::parse(&PODS, None, "app ~ web", "").is_err());
        assert!(Filter::parse(&PODS, None, "", "spec.priority=1").is_err());
    }
}
