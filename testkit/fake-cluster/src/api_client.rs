//! The way of the cluster's own parts to the API server. Used where the scheduler and the kubelets start.

use std::io;
use std::time::Duration;

use http::Request;
use kube::client::Body;
use runtime::reached;
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
                Err(_) => {
                    reached("cluster: a call of kubelet or scheduler was lost");
                    Err(lost().into())
                }
            }
        }
    };
    kube::Client::new(service_fn(call), namespace)
}

#[cfg(test)]
mod tests {
    use http::Response;
    use k8s_openapi::api::core::v1::Node;
    use kube::Api;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_lost_fails_as_in_client_go() {
        let lost = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, io::Error>>());
        let nodes: Api<Node> = Api::all(limited(kube::Client::new(lost, "default")));
        let began = Instant::now();
        let error = nodes.get("n1").await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 45);
        assert_eq!(error.to_string(), "ServiceError: http2: client connection lost");
    }
}
