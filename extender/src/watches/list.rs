//! Lists one kind of object, page by page, so that neither many nor large objects fill the memory. Called by
//! [`super::follow`].

use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use tokio::time::timeout;

use super::follow::Watched;
use crate::api::{self, ApiError};
use crate::protobuf::{List, NotRead, Object};

/// How many objects are asked for at a time.
const PAGE: u32 = 500;
/// Where a page is too long, so many times fewer.
const FEWER: u32 = 8;
/// The longest page, in bytes. A page of one object is shorter: etcd holds objects of 1.5 MB.
pub(super) const LONGEST_PAGE: usize = 32 << 20;
/// How long a page of a list, or a watch's beginning, may take.
pub(super) const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// All of it, and the version of which that is true.
pub(super) async fn list<K: Object, T>(
    client: &Client,
    watched: &Watched<K, T>,
) -> Result<(Vec<T>, String), ApiError> {
    let mut parameters = ListParams { limit: Some(PAGE), ..ListParams::default() };
    parameters.field_selector = watched.selector.map(str::to_owned);
    let mut listed = Vec::new();
    loop {
        let request = Request::new(&watched.path).list(&parameters).map_err(kube::Error::BuildRequest)?;
        let page = timeout(LONGEST_ANSWER, api::read_up_to(client, request, LONGEST_PAGE)).await;
        let List { metadata, items } = match page.map_err(|_| ApiError::Silent)? {
            Err(ApiError::TooLong) if parameters.limit > Some(1) => {
                parameters.limit = parameters.limit.map(|limit| (limit / FEWER).max(1));
                continue;
            }
            page => page?,
        };
        for item in items {
            listed.extend((watched.seen)(K::decode(item).map_err(NotRead::from)?));
        }
        let metadata = metadata.unwrap_or_default();
        if metadata.continue_token.is_empty() {
            return Ok((listed, set(metadata.resource_version)?));
        }
        parameters.continue_token = Some(metadata.continue_token);
    }
}

/// The version: without one a watch would begin anywhere.
pub(super) fn set(version: String) -> Result<String, NotRead> {
    if version.is_empty() { Err(NotRead::NoVersion) } else { Ok(version) }
}
