//! What the API server has left over from earlier work, removed before each run: its garbage is collected some
//! hundred pods apart for a good part of a second, and whether once or twice in a run would be chance. Called by the
//! measurement.

use anyhow::Context as _;
use axum::http::Request;
use kube::Client;

/// The API server's own profile of its memory, which it collects garbage for (pkg.go.dev/net/http/pprof; kubeadm leaves
/// `--profiling` on).
const PROFILE_AFTER_COLLECTION: &str = "/debug/pprof/heap?gc=1&debug=1";

/// Has the API server collect its garbage now.
///
/// # Errors
/// The API server has no endpoint for that.
pub(super) async fn collect(client: &Client) -> anyhow::Result<()> {
    let request = Request::get(PROFILE_AFTER_COLLECTION).body(Vec::new())?;
    client.request_text(request).await.context(
        "the API server did not collect its garbage, without which runs do not begin alike; \
         give a node image whose API server has profiling on",
    )?;
    Ok(())
}
