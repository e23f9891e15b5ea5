//! A list, page by page, so that neither many nor large objects fill the memory.

use std::iter;

use kube::api::ListParams;
use kube::core::Request;
use tokio::time::timeout;

use super::Source;
use super::timeouts::{FEWER, LONGEST_ANSWER, LONGEST_PAGE, PAGE};
use crate::branches::reached;
use crate::calls::{CallError, body_up_to};
use crate::encoding::{Encoding, Items, Page, required_version};

/// A list under way.
pub(super) struct Listing<K> {
    parameters: ListParams,
    /// What is left of the page that was read last.
    items: Items<K>,
    /// The list's version, once its last page was read.
    version: Option<String>,
}

/// What comes next in a list.
pub(super) enum Listed<K> {
    Object(K),
    /// The list is complete; it shows this version.
    Done(String),
}

impl<K: 'static> Listing<K> {
    pub(super) fn new<E>(source: &Source<E>) -> Self {
        let parameters = ListParams {
            limit: Some(PAGE),
            field_selector: source.collection.field_selector.clone(),
            ..ListParams::default()
        };
        Self { parameters, items: Box::new(iter::empty()), version: None }
    }

    pub(super) async fn next<E: Encoding<K>>(&mut self, source: &Source<E>) -> Result<Listed<K>, CallError> {
        loop {
            if let Some(object) = self.items.next() {
                return Ok(Listed::Object(object?));
            }
            if let Some(version) = self.version.take() {
                return Ok(Listed::Done(version));
            }
            self.read_page(source).await?;
        }
    }

    async fn read_page<E: Encoding<K>>(&mut self, source: &Source<E>) -> Result<(), CallError> {
        let request = Request::new(&source.collection.path).list(&self.parameters);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = body_up_to(&source.client, request, E::MEDIA_TYPE, LONGEST_PAGE);
        let answer = timeout(LONGEST_ANSWER, answer).await.map_err(|_| {
            reached("runtime: list not answered");
            CallError::NotAnswered
        });
        let body = match answer? {
            Err(CallError::TooLong) if self.parameters.limit > Some(1) => {
                reached("runtime: page too long");
                self.parameters.limit = self.parameters.limit.map(|limit| (limit / FEWER).max(1));
                return Ok(());
            }
            body => body?,
        };
        source.gap.listed();
        let Page { items, resource_version, continue_token } = source.encoding.page(body)?;
        self.items = items;
        if continue_token.is_empty() {
            self.version = Some(required_version(Some(resource_version))?);
        } else {
            self.parameters.continue_token = Some(continue_token);
        }
        Ok(())
    }
}
