//! The way of the cluster's own parts to the API server. Used where the scheduler and the kubelets start.

use std::io;
use std::time::Duration;

use http::Request;
use kube::client::Body;
use tokio::time::timeout;
use tower::service_fn;

/// How long a call may be without an answer: client-go gives up a connection that is silent for 30 s and does not answer to a
/// ping within 15 more.
const LONGEST_CALL: Duration = Duration::from_secs(45);

/// The client, whose calls fail where the answer does not begin in time: one that is lost holds nothing up for ever.
pub(crate) fn limited(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let call = move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let lost = || io::Error::new(io::ErrorKind::TimedOut, "http2: client connection lost");
            match timeout(LONGEST_CALL, client.send(request)).await {
                Ok(answered) => answered.map_err(tower::BoxError::from),
                Err(_) => Err(lost().into()),
            }
        }
    };
    kube::Client::new(service_fn(call), namespace)
}
