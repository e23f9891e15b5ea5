//! The continue token of a list in protobuf. This API server answers every list whole; tests and benches that serve lists in pages write the
//! token into the answer.

use prost::Message;
use prost::bytes::{Buf as _, Bytes};

use super::{MAGIC, Unknown};

/// A list without its items.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "3")]
    continue_token: String,
}

/// The body of a list in protobuf with what asks for the page after it; none if it is no such body.
pub fn with_continue_token(body: &Bytes, continue_token: String) -> Option<Vec<u8>> {
    let Unknown { type_meta, raw } = unwrapped(body)?;
    // Of a message that comes twice all fields are read.
    let more = List { metadata: Some(ListMeta { continue_token }) };
    let raw = [&raw[..], &more.encode_to_vec()].concat().into();
    Some([MAGIC, &Unknown { type_meta, raw }.encode_to_vec()].concat())
}

/// What asks for the page after this one, the body of a list in protobuf; empty on the last one, none if it is no such body.
pub fn continue_token(body: &Bytes) -> Option<String> {
    let List { metadata } = List::decode(unwrapped(body)?.raw).ok()?;
    Some(metadata.unwrap_or_default().continue_token)
}

fn unwrapped(body: &Bytes) -> Option<Unknown> {
    let mut rest = body.clone();
    if !rest.starts_with(MAGIC) {
        return None;
    }
    rest.advance(MAGIC.len());
    Unknown::decode(rest).ok()
}
